"""The groups of TRL's steps: their problems come from a schedule, and groups without a gradient are replaced.

GRPO learns nothing from a group whose rewards are all equal. Dynamic sampling (DAPO, arXiv:2503.14476) generates groups
of further problems instead. TRL has one function that generates, rewards and prepares a batch; here its part that
generates does so in rounds, and TRL prepares what the rounds have left as if it had been generated at once. Without
options the class changes nothing: TRL's sampler orders the problems.

Groups that could not be replaced keep their places, because all processes need batches of equal size, but their tokens
are masked: neither a KL term nor an entropy term sees them, and they do not count in a mean over tokens.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandrl.files import write_whole
from sandrl.models import libraries
from sandrl.problems.schedule import Schedule, ScheduleState
from sandrl.runs.metrics import GENERATED_GROUPS, MISSING_GROUPS, REPLACED_GROUPS, TRUNCATED
from sandrl.runs.processes import Processes
from sandrl.trainers.order import SCHEDULE

_TRAIN = "train"


class ScheduledRows(list[dict[str, Any]]):
    """This process's rows of a batch, a row for each completion, whose problems the schedule has given."""


@dataclass(frozen=True, slots=True)
class Groups:
    """Where a trainer's groups come from.

    Attributes:
        schedule: The order of the problems; None if the trainer's own sampler decides it.
        rows: The row of each problem, by its `task_id`.
        dynamic_sampling: How many times the groups of a batch may be generated to replace some; 0 replaces none.
    """

    schedule: Schedule | None
    rows: Mapping[str, dict[str, Any]]
    processes: Processes
    dynamic_sampling: int = 0


@dataclass(frozen=True, slots=True)
class _Group:
    # The completions of a problem (G), each with what the trainer keeps of it, and their rewards (G × functions).
    samples: Sequence[tuple[Any, ...]]
    rewards: Any


def grouping_trainer(trainer: Any, groups: Groups) -> Any:
    """The class of a trainer that takes its groups from there, from TRL's `GRPOTrainer`."""
    torch = libraries.load("torch")
    schedule, processes = groups.schedule, groups.processes

    class GroupingTrainer(trainer):  # type: ignore[misc]
        # The rows of the round at hand, the rewards of the batch, and the places of its groups without a gradient.
        _rows: list[dict[str, Any]]
        _rewards: Any = None
        _missing: list[int]
        environments: Any
        _batch_environments: Any

        def _next_rows(self) -> ScheduledRows:
            """The rows of the next batch that is generated; each call is another batch."""
            assert schedule is not None, "there is one where the sampler's order is not used"
            return self._rows_of(schedule.take(self.args.generation_batch_size // self.num_generations))

        def _rows_of(self, names: Sequence[str]) -> ScheduledRows:
            rows = [groups.rows[name] for name in names for _ in range(self.num_generations)]
            return ScheduledRows(dict(row) for row in self._own_part(rows))

        def _own_part(self, values: Sequence[Any]) -> Sequence[Any]:
            size = len(values) // processes.count
            return values[processes.rank * size : (processes.rank + 1) * size]

        def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
            if not self.model.training:
                evaluated: dict[str, Any] = super()._generate_and_score_completions(inputs)
                return evaluated
            is_given = schedule is None or isinstance(inputs, ScheduledRows)
            self._rows, self._rewards, self._missing = inputs if is_given else self._next_rows(), None, []
            output: dict[str, Any] = super()._generate_and_score_completions(self._rows)
            self._rewards = None
            if self.mask_truncated_completions:
                self._count(TRUNCATED, self._total(output["completion_mask"].sum(dim=1) == 0))
            return self._without_missing(output) if self._missing else output

        def _without_missing(self, output: dict[str, Any]) -> dict[str, Any]:
            size = self.num_generations
            places = {place * size + number for place in self._missing for number in range(size)}
            kept = [place not in places for place in range(len(output["completion_mask"]) * processes.count)]
            mask = torch.tensor(self._own_part(kept), device=self.accelerator.device).unsqueeze(1)
            masks: dict[str, Any] = {
                name: output[name] * mask for name in ("completion_mask", "tool_mask") if name in output
            }
            tokens = math.prod(masks.values())
            return {**output, **masks, "num_items_in_batch": self._total(tokens)}

        def _total(self, values: Any) -> Any:
            return self.accelerator.gather(values.sum()).sum()

        def _count(self, name: str, number: float) -> None:
            self._metrics[_TRAIN][name].append(float(number))

        def _generate(self, prompts: list[Any]) -> tuple[Any, ...]:
            if not groups.dynamic_sampling or not self.model.training:
                generated: tuple[Any, ...] = super()._generate(prompts)
                return generated
            assert schedule is not None, "it gives the further problems"
            logged = {name: len(values) for name, values in self._metrics[_TRAIN].items()}
            inputs = self._rows
            batch, rest = self._round(inputs, prompts)
            sizes = [len(batch)]
            wanted = [place for place, group in enumerate(batch) if not self._has_gradient(group)]
            first = len(wanted)
            taken = {group.samples[0][0]["task_id"] for group in batch}
            # Processes have equal parts of a round.
            unit = processes.count // math.gcd(processes.count, self.num_generations)
            left = groups.dynamic_sampling * len(batch)
            while wanted and left >= unit:
                count = min(-(-len(wanted) // unit) * unit, left // unit * unit)
                names = schedule.take(count, besides=taken)
                names = names[: len(names) // unit * unit]
                if not names:
                    break
                taken.update(names)
                left -= len(names)
                found = self._further(self._rows_of(names))
                sizes.append(len(found))
                for group in found:
                    if wanted and self._has_gradient(group):
                        batch[wanted.pop(0)] = group
            self._count(GENERATED_GROUPS, sum(sizes))
            self._count(REPLACED_GROUPS, first - len(wanted))
            self._count(MISSING_GROUPS, len(wanted))
            _put_together(self._metrics[_TRAIN], logged, sizes)
            self._rows, self._missing = inputs, wanted
            self._rewards = torch.cat([group.rewards for group in batch])
            samples = self._own_part([sample for group in batch for sample in group.samples])
            inputs[:], prompts[:], *columns = (list(column) for column in zip(*samples, strict=True))
            # What none of the completions has is no list for TRL.
            return (*(None if column[0] is None else column for column in columns), *rest)

        def _round(self, rows: list[dict[str, Any]], prompts: list[Any]) -> tuple[list[_Group], Sequence[Any]]:
            # The groups of all processes, and what TRL returns besides their columns.
            self._rows = rows
            prompt_ids, ids, tool_mask, completions, logprobs, *rest = super()._generate(prompts)
            rewards = super()._calculate_rewards(rows, prompts, completions, ids)
            none = [None] * len(ids)
            columns = (rows, prompts, prompt_ids, ids, tool_mask or none, completions, logprobs or none)
            samples = processes.gather(list(zip(*columns, strict=True)))
            size = self.num_generations
            begins = range(0, len(samples), size)
            return [_Group(samples[begin : begin + size], rewards[begin : begin + size]) for begin in begins], rest

        def _further(self, rows: ScheduledRows) -> list[_Group]:
            if self.environments:
                # The episodes of the last round are over and judged.
                self.environments = self.environments[: len(rows)]
                self._batch_environments = self._batch_environments[: len(rows)]
                for environment, row in zip(self.environments, rows, strict=True):
                    environment.reset(**row)
            return self._round(rows, [row["prompt"] for row in rows])[0]

        def _calculate_rewards(self, *arguments: Any) -> Any:
            return super()._calculate_rewards(*arguments) if self._rewards is None else self._rewards

        def _has_gradient(self, group: _Group) -> bool:
            # A completion without any reward has none of the group's mean, as in TRL.
            weighted = (group.rewards * self.reward_weights.to(group.rewards.device)).nansum(dim=1)
            is_scored = ~group.rewards.isnan().all(dim=1)
            scored = weighted[is_scored]
            if len(scored) < 2 or bool(scored.min() == scored.max()):
                return False
            ends = {*self.eos_token_ids, self._tokenizer.pad_token_id}
            is_trained = [not self.mask_truncated_completions or ids[-1] in ends for *_, ids, _, _, _ in group.samples]
            trained = weighted[is_scored & torch.tensor(is_trained, device=weighted.device)]
            return bool((trained != scored.mean()).any())

        def _save_rng_state(self, output_dir: str) -> None:
            super()._save_rng_state(output_dir)
            if schedule is not None and processes.is_first:
                write_whole(Path(output_dir) / SCHEDULE, schedule.state.model_dump_json().encode())

        def _load_rng_state(self, checkpoint: str | None) -> None:
            super()._load_rng_state(checkpoint)
            if schedule is not None and checkpoint is not None:
                content = (Path(checkpoint) / SCHEDULE).read_bytes()
                schedule.restore(ScheduleState.model_validate_json(content))

    return GroupingTrainer


def _put_together(metrics: dict[str, list[float]], logged: Mapping[str, int], sizes: Sequence[int]) -> None:
    # What TRL has logged about the completions of each round becomes what it would have logged about all of them.
    rounds = {name: values[logged.get(name, 0) :] for name, values in metrics.items()}
    shares = rounds.get("completions/clipped_ratio", [])
    terminated = [size * (1 - share) for size, share in zip(sizes, shares, strict=True)]
    calls = [size * each for size, each in zip(sizes, rounds.get("tools/call_frequency", ()), strict=False)]
    for name, values in rounds.items():
        if not name.startswith(("completions/", "tools/")):
            continue
        weights = terminated if "terminated" in name else calls if name == "tools/failure_frequency" else sizes
        pairs = [(value, weight) for value, weight in zip(values, weights, strict=True) if weight]
        found = 0.0
        if pairs:
            total = math.fsum(value * weight for value, weight in pairs) / math.fsum(weight for _, weight in pairs)
            extreme = {"min": min, "max": max}.get(name.partition("/")[2].partition("_")[0])
            found = total if extreme is None else extreme(value for value, _ in pairs)
        metrics[name][logged.get(name, 0) :] = [found]
