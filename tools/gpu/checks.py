"""Checks of a run directory, for every trainer.

A check reads the files of the run with sandrl's own reader and uses no information about how the run was made. So the
tests can apply it to run directories that were made without a GPU.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median

from sandrl.models.messages import TOKEN_ID
from sandrl.runs import MetricsRow, RunOutcome, RunReader, disagreements
from sandrl.trainers.art.results import GRADIENT_STEPS, STEP
from sandrl.trainers.checkpoints import CHECKPOINTS, last_checkpoint
from sandrl.trainers.loaders import LORA_MODULES
from tools.gpu.report import Check, checked
from tools.gpu.weights import changed, trained_adapters

LOGPROB_DIFFERENCE = "sampling/sampling_logp_difference"
"""What TRL calls the difference between vLLM's logprobs of sampled tokens and the trainer's."""

_ADAPTER_FILE = "adapter_model.safetensors"
_IN_4_BITS = re.compile(r"^  (\d+) linear layers in 4 bits$", re.MULTILINE)
_ADAPTERS = re.compile(r"^  LoRA of rank (\d+) in ([\w, ]+): ([\d,]+) weights trained$", re.MULTILINE)
_SLEEP = re.compile(r"Sleep mode freed ([\d.]+) GiB memory")


def steps_of(reader: RunReader) -> tuple[MetricsRow, ...]:
    """The rows of training steps, in order; not the row of an evaluation after the last one."""
    rows = (row for row in reader.metrics().rows if "loss" in row.metrics or row.metrics.get(GRADIENT_STEPS))
    return tuple(sorted(rows, key=lambda row: row.step))


def common_checks(reader: RunReader, steps: int, *, is_complete: bool) -> list[Check]:
    """What holds of every run that has made all of its steps.

    Args:
        reader: The run.
        steps: How many steps it should have.
        is_complete: Whether it was never killed.
    """
    return [*training_checks(reader, steps), _scored(reader), _sums(reader, is_complete=is_complete)]


def training_checks(reader: RunReader, steps: int) -> list[Check]:
    """Whether each of so many steps has a finite loss and has changed the weights."""
    return [_finite(reader, steps), _gradients(reader)]


def _finite(reader: RunReader, steps: int) -> Check:
    rows = steps_of(reader)
    restored = [row.step for row in rows if _is_restored(row)]
    found = [(row.step, row.metrics.get("loss")) for row in rows if not _is_restored(row)]
    wrong = [f"step {step}: {loss}" for step, loss in found if loss is None or not math.isfinite(loss)]
    detail = f"{len(found)} of {steps} steps have a loss" + (f", not finite: {', '.join(wrong)}" if wrong else "")
    if restored:
        detail += f"; the row of step {restored} was written when the run was resumed, without a loss"
    return checked("every step has a finite loss", len(rows) == steps and len(restored) < 2 and not wrong, detail)


def _is_restored(row: MetricsRow) -> bool:
    """Whether a run that went on has written the row of a step that ART had made and the killed job had not told."""
    return GRADIENT_STEPS in row.metrics and "step_seconds" not in row.metrics


def _gradients(reader: RunReader) -> Check:
    rows = steps_of(reader)
    norms = [row.metrics.get("grad_norm") for row in rows]
    moved = sum(norm is not None and math.isfinite(norm) and norm > 0 for norm in norms)
    detail = f"{moved} of {len(rows)} steps"
    if any(GRADIENT_STEPS in row.metrics for row in rows):
        detail += f", gradient steps {[int(row.metrics.get(GRADIENT_STEPS) or 0) for row in rows]}"
        # The row of a step that a killed run did not write has no norm: its count is all that is known.
        moved = sum(bool(row.metrics.get(GRADIENT_STEPS)) for row in rows)
    return checked("every step has a gradient", bool(rows) and moved == len(rows), detail)


def _scored(reader: RunReader) -> Check:
    rows = reader.trajectories().rows
    lost = Counter(row.status for row in rows if row.reward is None or row.dropped)
    detail = f"{len(rows)} completions" + "".join(f", {count} {status}" for status, count in lost.items())
    return checked("every completion has a reward", bool(rows) and not lost, detail)


def _sums(reader: RunReader, *, is_complete: bool) -> Check:
    wrong = disagreements(reader, is_complete=is_complete)
    return checked("the numbers of the run agree (docs/reference/metrics.md)", not wrong, "; ".join(wrong))


def ended_well(reader: RunReader) -> Check:
    """Whether the last job of a run finished."""
    outcomes = [job.outcome for job in reader.config.jobs]
    shown = ", ".join("no outcome (killed)" if outcome is None else outcome.value for outcome in outcomes)
    return checked("the last job finished", bool(outcomes) and outcomes[-1] is RunOutcome.FINISHED, shown)


def checkpoint_checks(reader: RunReader, steps: int) -> list[Check]:
    """Whether the last checkpoint of TRL's trainer is whole, and weights differ from those of an earlier one."""
    directory = reader.path / CHECKPOINTS
    last = last_checkpoint(directory)
    found = checked(
        "the checkpoint of the last step is whole",
        last is not None and last.step == steps,
        "none" if last is None else f"{last.path.name}",
    )
    earlier = sorted((path for path in directory.glob("checkpoint-*") if last and path != last.path), key=_number)
    if last is None or not earlier:
        return [found, checked("weights have changed", False, "there are no two checkpoints to compare")]
    return [found, _compared(reader, earlier[0].name, last.path.name, CHECKPOINTS)]


def art_checkpoint_checks(reader: RunReader, steps: int) -> list[Check]:
    """Whether ART's local backend has saved adapters for the last step, and they differ from those it began with."""
    files = sorted(reader.path.glob(f"art/**/checkpoints/*/{_ADAPTER_FILE}"))
    folders = {int(path.parent.name): path.parent for path in files if path.parent.name.isdecimal()}
    found = checked(
        "ART has saved the adapters of the last step", steps in folders, f"saved: {sorted(folders) or 'none'}"
    )
    if len(folders) < 2:
        return [found, checked("weights have changed", False, "there are no two checkpoints to compare")]
    first, last = folders[min(folders)], folders[max(folders)]
    place = str(first.parent.relative_to(reader.path))
    return [found, _compared(reader, first.name, last.name, place)]


def _compared(reader: RunReader, one: str, other: str, place: str) -> Check:
    before, after = reader.path / place / one, reader.path / place / other
    try:
        differ, common = changed(before, after)
        trained, adapters = trained_adapters(after)
    except (OSError, ValueError, KeyError) as error:
        return checked("weights have changed", False, f"the checkpoints cannot be compared: {error}")
    detail = f"{differ} of {common} tensors differ between {one} and {other}"
    if adapters:
        detail += f"; {trained} of {adapters} adapters are not zero"
    return checked("weights have changed", differ > 0 and (trained > 0 or not adapters), detail)


def _number(path: object) -> int:
    return int(str(path).rpartition("-")[2])


def resumption_checks(reader: RunReader, steps: int, done_before_kill: int, *, is_art: bool = False) -> list[Check]:
    """Whether a run that was killed and resumed has each step once, the earlier ones by the job that was killed.

    Args:
        reader: The run.
        steps: How many steps it should have.
        done_before_kill: How many of them were safe when it was killed: in a whole checkpoint, or in ART's own.
        is_art: Whether ART counted the steps, and not TRL.
    """
    jobs = [job.job_id for job in reader.config.jobs]
    rows = steps_of(reader)
    numbers = [int(row.metrics.get(STEP) or 0) if is_art else row.step + 1 for row in rows]
    repeated = [number for number, count in Counter(numbers).items() if count > 1]
    missing = sorted(set(range(1, steps + 1)) - set(numbers))
    again = [
        number for number, row in zip(numbers, rows, strict=True) if number <= done_before_kill and _is_later(row, jobs)
    ]
    parts = [
        f"{done_before_kill} of {steps} steps were done before the kill",
        *([f"twice: {repeated}"] if repeated else []),
        *([f"missing: {missing}"] if missing else []),
        *([f"done again: {again}"] if again else []),
    ]
    resumed = sum(_is_later(row, jobs) for row in rows)
    return [
        checked(
            "the run was killed and resumed",
            len(jobs) == 2 and reader.config.jobs[0].outcome is None and resumed > 0,
            f"{len(jobs)} jobs, {resumed} steps by the second",
        ),
        checked("no step is lost or done twice", not (repeated or missing or again), "; ".join(parts)),
    ]


def _is_later(row: MetricsRow, jobs: Sequence[str]) -> bool:
    return bool(jobs) and row.job_id != jobs[0]


def evaluation_check(reader: RunReader, steps: int) -> Check:
    """Whether the policy was evaluated before and after, by sampled and by greedy answers."""
    found = {row.step: row.metrics for row in reader.evaluations().rows}
    wanted = ("held_out/pass@1", "held_out/greedy")
    values = {step: [found.get(step, {}).get(name) for name in wanted] for step in (0, steps)}
    detail = "; ".join(
        f"after {step} steps: sampled {_shown(sampled)}, greedy {_shown(greedy)}"
        for step, (sampled, greedy) in values.items()
    )
    holds = all(value is not None for pair in values.values() for value in pair)
    return checked("the policy was evaluated before and after, sampled and greedy", holds, detail)


def vllm_checks(reader: RunReader, most_difference: float) -> list[Check]:
    """Whether vLLM generated in every step, with the weights that are trained.

    TRL logs the difference only where vLLM has sampled. It is near 0 as long as vLLM has the trainer's weights.

    Args:
        reader: The run.
        most_difference: The most that the logprob of a token may differ on average.
    """
    rows = steps_of(reader)
    means = [row.metrics.get(f"{LOGPROB_DIFFERENCE}/mean") for row in rows]
    known = [mean for mean in means if mean is not None]
    most = max(known, default=math.nan)
    return [
        checked(
            "vLLM generated in every step",
            bool(rows) and len(known) == len(rows),
            f"{len(known)} of {len(rows)} steps have {LOGPROB_DIFFERENCE}/mean",
        ),
        checked(
            f"vLLM's logprobs agree with the trainer's to {most_difference:g} on average",
            bool(known) and most <= most_difference,
            f"first step {_shown(next(iter(known), None), 4)}, last {_shown(known[-1] if known else None, 4)},"
            f" worst {_shown(most, 4)}",
        ),
    ]


def sleep_check(text: str) -> Check:
    """Whether vLLM says that it has freed memory when it was sent to sleep.

    Args:
        text: What vLLM has printed.
    """
    freed = [float(number) for number in _SLEEP.findall(text)]
    detail = f"{len(freed)} times, {max(freed):.2f} GiB at most" if freed else "vLLM's log has no line about it"
    return checked("vLLM's sleep mode freed GPU memory", any(freed), detail)


def bits_check(text: str) -> Check:
    """Whether the trained model has layers in 4 bits, as `sandrl unsloth` found in the model itself.

    Args:
        text: What `sandrl unsloth` has printed.
    """
    found = _IN_4_BITS.findall(text)
    detail = f"{', '.join(found)} linear layers" if found else "the list of optimizations has no layers in 4 bits"
    return checked("the trained model is in 4 bits", bool(found), detail)


def adapters_check(text: str) -> Check:
    """Whether adapters were trained in all seven projections, as `sandrl unsloth` found in the model itself."""
    found = _ADAPTERS.findall(text)
    holds = bool(found) and all(set(modules.split(", ")) == set(LORA_MODULES) for _, modules, _ in found)
    detail = ", ".join(f"rank {rank}, {weights} weights" for rank, _, weights in found) or "no adapters in the output"
    return checked("adapters are trained in all seven projections", holds, detail)


def logprobs_check(reader: RunReader) -> Check:
    """Whether ART's vLLM gave the logprobs and ids of all sampled tokens."""
    said = [
        message
        for row in reader.trajectories().rows
        for message in row.messages
        if message.role == "assistant" and not row.dropped
    ]
    known = sum(
        bool(message.tokens)
        and len(message.tokens) == len(message.logprobs)
        and all(token.startswith(TOKEN_ID) for token in message.tokens)
        for message in said
    )
    detail = f"{known} of {len(said)} answers"
    return checked("vLLM gave ids and logprobs of all sampled tokens", bool(said) and known == len(said), detail)


def nothing_left_out(reader: RunReader) -> Check:
    """Whether all recorded episodes could be scored under the trained model."""
    rows = [row.metrics for row in steps_of(reader)]
    left = sum(row.get("train/left_out") or 0 for row in rows)
    tokens = sum(row.get("train/tokens") or 0 for row in rows)
    detail = f"{tokens:.0f} tokens trained, {left:.0f} episodes left out"
    return checked("recorded episodes are scored and trained on", tokens > 0 and not left, detail)


def printed_by(reader: RunReader, output: str) -> str:
    """All that libraries have printed in a run: on the terminal, in `printed.log`, and in the log of ART's vLLM.

    Args:
        reader: The run.
        output: What the command has printed.
    """
    files = [reader.path / "printed.log", *sorted(reader.path.glob("art/**/vllm-runtime.log"))]
    parts = [path.read_text(encoding="utf-8", errors="replace") for path in files if path.is_file()]
    return "\n".join([output, *parts])


def measured(reader: RunReader) -> Mapping[str, str]:
    """The numbers of a run that belong into a report."""
    rows = [row.metrics for row in steps_of(reader)]
    if not rows:
        return {"steps": "0"}
    seconds = [value for row in rows if (value := row.get("step_seconds")) is not None]
    numbers = {
        "steps": str(len(rows)),
        "seconds of the first step": _shown(rows[0].get("step_seconds"), 1),
        "seconds of a step (median)": _shown(median(seconds) if seconds else None, 1),
        "seconds of a step for rewards (median)": _median(rows, "reward_seconds", 2),
        "tokens per second (median)": _shown(_tokens_per_second(rows), 0),
        "reward of the first step": _shown(rows[0].get("reward/mean"), 3),
        "reward of the last step": _shown(rows[-1].get("reward/mean"), 3),
        "loss of the first step": _shown(rows[0].get("loss"), 4),
        "loss of the last step": _shown(rows[-1].get("loss"), 4),
        "norm of the gradient (median)": _median(rows, "grad_norm", 4),
        "tokens of a completion (median)": _median(rows, "completions/mean_length", 0),
        "logprob difference to vLLM (median)": _median(rows, f"{LOGPROB_DIFFERENCE}/mean", 4),
        "gradient steps of a step (median)": _median(rows, GRADIENT_STEPS, 0),
    }
    return {name: value for name, value in numbers.items() if value != "-"}


def _tokens_per_second(rows: Sequence[Mapping[str, float | None]]) -> float | None:
    """Tokens that a step has processed or trained on, by its seconds: of TRL's steps prompts are counted, too."""
    rates, before = [], 0.0
    for row in rows:
        tokens, total, seconds = row.get("train/tokens"), row.get("num_tokens"), row.get("step_seconds")
        if tokens is None and total is not None:
            tokens, before = total - before, total
        if tokens and seconds:
            rates.append(tokens / seconds)
    return median(rates) if rates else None


def _median(rows: Sequence[Mapping[str, float | None]], name: str, digits: int) -> str:
    values = [value for row in rows if (value := row.get(name)) is not None and math.isfinite(value)]
    return _shown(median(values) if values else None, digits)


def _shown(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
