"""Keeps policy and sandboxes at work at the same time: rewards begin before a batch is generated, or a step earlier.

With `answers`, a completion is judged when its last token is sampled, while others are still being generated. Nothing
else changes: the same completions get the same rewards.

With `step`, TRL's loop is one step behind its sampling. A step first samples the completions of the next one, while the
sandboxes judge those that it trains on; these were sampled one update ago. TRL corrects this as it corrects steps that
reuse completions: with the ratio of the policy now to the policy that sampled, clipped (arXiv:1707.06347, 3). For this,
the log-probabilities of the sampled tokens are computed when they are sampled. With vLLM, TRL's own importance sampling
does it. TRL's code runs unchanged: its `_generate` is called a step early, and what it returned is returned again in
the step that scores it. A checkpoint contains the completions that are ahead.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sandrl.config.words import Overlap
from sandrl.models import libraries
from sandrl.problems import Completion
from sandrl.problems.schedule import Schedule
from sandrl.rewards.early import EarlyBatch
from sandrl.scoring.trainer_batch import Text
from sandrl.trainers.checkpoints import load_part
from sandrl.trainers.rewarding import TrainingReward
from sandrl.trainers.sampling import ScheduledRows


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """Completions that were generated and are not trained on yet.

    Attributes:
        number: How many batches were generated before.
        rows: The rows of the dataset, N of them.
        generated: What TRL's `_generate` returned for them.
        metrics: What it logged.
        tokens: How many tokens it counted.
        logprobs: Log-probabilities of the tokens when they were sampled, N × the longest; None if vLLM has told them.
    """

    number: int
    rows: list[dict[str, Any]]
    generated: tuple[Any, ...]
    metrics: dict[str, list[float]]
    tokens: int
    logprobs: Any


def early_trainer(trainer: Any, reward: TrainingReward, rows: Sequence[Mapping[str, Any]], overlap: Overlap) -> Any:
    """The class of a trainer that begins rewards while it generates, whose prompts are those of `rows`."""
    if overlap is Overlap.NONE:
        return trainer
    names = _names(rows)

    class EarlyTrainer(trainer):  # type: ignore[misc]
        _early: tuple[EarlyBatch, list[str | None]] | None = None

        def _generate(self, prompts: list[Text]) -> Any:
            if not self.model.training:
                return super()._generate(prompts)
            batch = reward.begin(self._step_of_rewards())
            self._early = batch, [names.get(_key(prompt)) for prompt in prompts]
            try:
                return super()._generate(prompts)
            finally:
                self._early = None

        def _step_of_rewards(self) -> int:
            return int(self.state.global_step)

        def _generate_single_turn(self, prompt_ids: list[list[int]], *given: Any, **named: Any) -> Any:
            tokenizer = self._tokenizer
            is_parsed = any(getattr(tokenizer, name, None) for name in ("response_template", "response_schema"))
            if self._early is None or self.use_vllm or is_parsed:
                # Nothing tells when a completion has ended, or what TRL makes of it.
                return super()._generate_single_turn(prompt_ids, *given, **named)
            batch, task_ids = self._early

            def hear(row: int, ids: list[int]) -> None:
                task_id = task_ids[row]
                if task_id is not None:
                    text = self.processing_class.batch_decode([ids], skip_special_tokens=True)[0]
                    batch.add(Completion("", task_id, completion=text))

            with hearing_ends(self.accelerator.unwrap_model(self.model_wrapped), self.eos_token_ids, hear):
                return super()._generate_single_turn(prompt_ids, *given, **named)

    return EarlyTrainer


def late_trainer(trainer: Any, reward: TrainingReward, schedule: Schedule | None, overlap: Overlap) -> Any:
    """The class of a trainer that is one step behind, from that of `grouping_trainer` over that of `early_trainer`."""
    if overlap is not Overlap.STEP:
        return trainer
    torch = libraries.load("torch")

    class LateTrainer(trainer):  # type: ignore[misc]
        _ahead: Ahead | None = None
        _replayed: Ahead | None = None
        _number = 0

        def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> Any:
            if not self.model.training:
                return super()._generate_and_score_completions(inputs)
            passes = self.args.gradient_accumulation_steps
            every = self.args.steps_per_generation * self.num_iterations
            self._number = (self.state.global_step * passes + self._step % passes) // every
            current = self._ahead or self._sample(self._rows_at(self._number))
            if schedule is None:
                expected, found = ([row["task_id"] for row in rows] for rows in (inputs, current.rows))
                assert found == expected, "it is TRL's order"
            self._ahead = None
            self._number += 1
            if self._number * every < self.state.max_steps * passes:
                self._ahead = self._sample(self._rows_at(self._number))
            self._replayed = current
            try:
                output = super()._generate_and_score_completions(current.rows)
            finally:
                self._replayed = None
            if current.logprobs is not None:
                output["old_per_token_logps"] = current.logprobs
            return output

        def _step_of_rewards(self) -> int:
            every = self.args.steps_per_generation * self.num_iterations
            return int(self._number * every // self.args.gradient_accumulation_steps)

        def _generate(self, prompts: list[Text]) -> Any:
            again = self._replayed
            if again is None:
                return super()._generate(prompts)
            self.state.num_input_tokens_seen += again.tokens
            for name, values in again.metrics.items():
                self._metrics["train"][name].extend(values)
            self._metrics["train"]["num_tokens"] = [self.state.num_input_tokens_seen]
            return again.generated

        def _sample(self, rows: list[dict[str, Any]]) -> Ahead:
            # What is logged and counted belongs to the step that trains on it.
            metrics, tokens = self._metrics["train"], self.state.num_input_tokens_seen
            self._metrics["train"] = defaultdict(list)
            try:
                generated = self._generate([row["prompt"] for row in rows])
                logged = {name: list(values) for name, values in self._metrics["train"].items() if name != "num_tokens"}
                counted = self.state.num_input_tokens_seen - tokens
            finally:
                self._metrics["train"], self.state.num_input_tokens_seen = metrics, tokens
            ahead = Ahead(
                number=self._number, rows=rows, generated=generated, metrics=logged, tokens=counted, logprobs=None
            )
            self._complete(reward.last_begun, ahead)
            if self.use_vllm and self.vllm_importance_sampling_correction:
                return ahead
            return replace(ahead, logprobs=self._logprobs(generated))

        def _complete(self, batch: EarlyBatch, ahead: Ahead) -> None:
            prompts, completions = [row["prompt"] for row in ahead.rows], ahead.generated[3]
            reward.complete(batch, prompts, completions, [row["task_id"] for row in ahead.rows])

        def _logprobs(self, generated: tuple[Any, ...]) -> Any:
            # As TRL computes those of completions that it uses several times.
            prompts, completions = ([torch.tensor(ids) for ids in each] for each in generated[:2])

            def padded(tensors: list[Any], side: str, value: int) -> Any:
                multiple = self.pad_to_multiple_of
                return _pad(tensors, value, side, multiple).to(device=self.accelerator.device)

            padding = self._tokenizer.pad_token_id
            ids = [padded(prompts, "left", padding), padded(completions, "right", padding)]
            masks = [
                padded([torch.ones_like(each) for each in prompts], "left", 0),
                padded([torch.ones_like(each) for each in completions], "right", 0),
            ]
            with torch.no_grad():
                found = self._get_per_token_logps_and_entropies(
                    self.model,
                    torch.cat(ids, dim=1),
                    torch.cat(masks, dim=1),
                    ids[1].size(1),
                    batch_size=self.args.per_device_train_batch_size,
                )
            return found[0]

        def _rows_at(self, number: int) -> list[dict[str, Any]]:
            # The rows of a generation, the next one of the schedule, or as TRL's sampler and accelerate's division
            # among processes will give them.
            if schedule is not None:
                rows: list[dict[str, Any]] = self._next_rows()
                return rows
            size = self.args.generation_batch_size
            repeats = self.args.steps_per_generation * self.num_iterations
            order = self._get_train_sampler()
            epoch, place = divmod(number, len(order) // (size * repeats))
            share = size // self.args.world_size
            first = place * size * repeats + self.args.process_index * share
            return [self.train_dataset[index] for index in list(order.of(epoch))[first : first + share]]

        def _save_rng_state(self, output_dir: str) -> None:
            super()._save_rng_state(output_dir)
            if self._ahead is not None:
                kept = {"processes": self.args.world_size, **asdict(replace(self._ahead, rows=list(self._ahead.rows)))}
                torch.save(kept, self._ahead_in(output_dir))

        def _load_rng_state(self, checkpoint: str | None) -> None:
            super()._load_rng_state(checkpoint)
            if checkpoint is None or not self._ahead_in(checkpoint).is_file():
                return
            kept = load_part(self._ahead_in(checkpoint), self.args.device)
            if kept.pop("processes") == self.args.world_size:
                rows = kept["rows"] if schedule is None else ScheduledRows(kept["rows"])
                self._ahead = Ahead(**{**kept, "rows": rows})
                self._number = self._ahead.number
                self._complete(reward.begin(self._step_of_rewards()), self._ahead)

        def _ahead_in(self, checkpoint: str) -> Path:
            # The completions that this process will train on next.
            return Path(checkpoint) / f"ahead_{self.args.process_index}.pt"

    return LateTrainer


def _pad(tensors: list[Any], value: int, side: str, multiple: int | None) -> Any:
    pad = libraries.load("trl.trainer.utils").pad
    return pad(tensors, padding_value=value, padding_side=side, pad_to_multiple_of=multiple)


def _names(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    # The problem of each prompt that only one problem has.
    found: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        found[_key(row["prompt"])].add(row["task_id"])
    return {prompt: names.pop() for prompt, names in found.items() if len(names) == 1}


def _key(prompt: Text) -> str:
    return json.dumps(prompt, sort_keys=True)


@contextmanager
def hearing_ends(model: Any, ends: Sequence[int], hear: Callable[[int, list[int]], None]) -> Iterator[None]:
    """Tells `hear` the row and the tokens of each sequence that ends, while a `with` block generates with a model.

    The model is one of transformers. It is asked after each token whether to stop, and never stops for this.
    """
    torch, transformers = libraries.load("torch"), libraries.load("transformers")

    class Ends(libraries.load("transformers").StoppingCriteria):  # type: ignore[misc]
        def __init__(self) -> None:
            self.first = 0
            self.ended: set[int] = set()

        def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
            last = input_ids[:, -1]
            self.first = self.first or input_ids.size(1) - 1
            for row in torch.isin(last, torch.tensor(ends, device=last.device)).nonzero().flatten().tolist():
                if row not in self.ended:
                    self.ended.add(row)
                    hear(row, input_ids[row, self.first :].tolist())
            return torch.zeros_like(last, dtype=torch.bool)

    generate = model.generate

    def listening(*given: Any, **named: Any) -> Any:
        return generate(*given, stopping_criteria=transformers.StoppingCriteriaList([Ends()]), **named)

    model.generate = listening
    try:
        yield
    finally:
        del model.generate
