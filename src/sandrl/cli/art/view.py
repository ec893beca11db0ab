"""The output of a training on episodes: on a terminal a table that grows, in a pipe plain lines.

As in `sandrl grpo`, a step is one row or one line with the same names. An attempt that trained nothing is a line with
its reason, and a point of the curve. The rewards of each problem and the metrics of the backend are in the run
directory, and with `--verbose` also on standard error.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from sandrl import events
from sandrl.cli.progress import Progress, Remarks, remark
from sandrl.cli.training import StepTable, number_cell, training_remark
from sandrl.cli.verbosity import is_quiet, is_verbose
from sandrl.events import Event

if TYPE_CHECKING:
    from rich.console import Console

_HEADERS = ("step", "reward", "passed", "dropped", "equal groups", "tokens", "loss", "time")
# What a narrow terminal has room for.
_ESSENTIAL = ("step", "reward", "passed", "loss")
_SHOWN = {
    "train/gradient_steps": "gradient_steps",
    "train/tokens": "trained_tokens",
    "loss": "loss",
    "grad_norm": "grad_norm",
    "step_seconds": "seconds",
}
_COUNTS = ("gradient_steps", "trained_tokens")


def step_cells(event: events.ArtStepTrained, steps: int) -> tuple[str, ...]:
    """A step in the words of the table, one for each header, of a training of so many steps."""
    metrics = event.metrics
    return (
        f"{event.step}/{steps}",
        f"{number_cell(metrics, 'reward/mean', '.2f')} ±{number_cell(metrics, 'reward/std', '.2f')}",
        number_cell(metrics, "pass_rate", ".0%"),
        number_cell(metrics, "episodes/dropped", ".0f"),
        f"{number_cell(metrics, 'reward/zero_variance_groups', '.0f')}/{number_cell(metrics, 'reward/groups', '.0f')}",
        number_cell(metrics, "train/tokens", ".0f"),
        number_cell(metrics, "loss", ".4f"),
        f"{number_cell(metrics, 'step_seconds', '.1f')} s",
    )


def step_line(event: events.ArtStepTrained, steps: int) -> str:
    """A step as a line of text."""
    step, reward, passed, dropped, flat, tokens, loss, seconds = step_cells(event, steps)
    return (
        f"Step {step}: reward {reward}, passed {passed}, dropped {dropped}, groups with equal rewards {flat},"
        f" tokens {tokens}, loss {loss}, {seconds}"
    )


def failure_line(event: events.ArtStepFailed) -> str:
    """A round that taught nothing, as a line of text."""
    again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
    return f"Step {event.step} failed, nothing was trained{again}: {event.reason}"


def shown_metrics(metrics: Mapping[str, float | None]) -> str:
    """The metrics of a step that are worth a line, as JSON."""
    found = {title: metrics.get(name) for name, title in _SHOWN.items() if name in metrics}
    rounded = {
        title: value if value is None else int(value) if title in _COUNTS else float(f"{value:.4g}")
        for title, value in found.items()
    }
    return json.dumps(rounded)


def remark_of(event: Event) -> str | None:
    """What an event means in words, for those that are no steps; None for those that say nothing.

    With `--verbose`, each problem and the parts of a step are worth a remark.
    """
    match event:
        case events.ArtTrainingStarted(run_id, base_model, backend, actor, problems, first_step, steps, episodes):
            source = "recorded episodes"
            if actor:
                source = f"episodes by {actor}: {episodes} per step on {problems} problems"
            onward = f" resumed at step {first_step + 1}," if first_step else ""
            return f"Training: {base_model} ({backend}), to step {steps},{onward} {source} (run {run_id})"
        case events.ArtStepStarted() | events.ProblemPlayed() | events.TrajectoriesCollected():
            return _detail(event) if is_verbose() else None
        case _:
            return training_remark(event) or remark(event)


def _detail(event: events.ArtStepStarted | events.ProblemPlayed | events.TrajectoriesCollected) -> str:
    match event:
        case events.ArtStepStarted(step, attempt, problems):
            again = f", attempt {attempt}" if attempt > 1 else ""
            return f"Step {step}{again}: {problems} problems"
        case events.ProblemPlayed(task_id, rewards, finished, of):
            shown = ", ".join("dropped" if reward is None else f"{reward:.2f}" for reward in rewards)
            return f"Problem {finished}/{of}: {task_id}, rewards {shown}"
        case events.TrajectoriesCollected(_, trajectories, dropped, reward, groups, useful):
            mean = "–" if reward is None else f"{reward:.2f}"
            lost = f", {dropped} dropped" if dropped else ""
            return (
                f"Collected {trajectories} trajectories{lost}, avg reward: {mean}"
                f" (rewards differ in {useful} of {groups} groups)"
            )


class StepLines(Remarks):
    """Lines for steps; with `--verbose`, also for each problem, and for what the backend measured.

    They are results on standard output unless `shows_steps` is false, as with `--json`.
    """

    def __init__(self, *, shows_steps: bool = True) -> None:
        super().__init__()
        if not shows_steps:
            self._output = sys.stderr
        self._steps = 0

    def __call__(self, event: Event) -> None:
        """Shows the event."""
        match event:
            case events.ArtStepTrained(step, metrics):
                self.tell_step(event, step_line(event, self._steps))
                if is_verbose():
                    self.put(f"Trained: step={step}, metrics={shown_metrics(metrics)}")
            case events.ArtStepFailed():
                self.tell_step(event, failure_line(event))
            case _:
                if isinstance(event, events.ArtTrainingStarted):
                    self._steps = event.steps
                super().__call__(event)

    def words(self, event: Event) -> str | None:
        """What an event means in words, for those that are no steps."""
        return remark_of(event)


class ArtTable(StepTable):
    """The table of `sandrl art train`."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._steps = 0
        super().__init__(console, _HEADERS, _ESSENTIAL, clock)

    def __call__(self, event: Event) -> None:
        """Changes the table, or says what there is to say above it."""
        said: str | None = None
        style = "dim"
        with self.lock:
            match event:
                case events.PolicyBuilding(_, stage, step):
                    self.place, self.doing = "building the policy", f"{stage}, step {step}"
                case events.ArtTrainingStarted(steps=steps):
                    self._steps = steps
                    self.place = self.doing = ""
                case events.ArtStepStarted(step, attempt, problems):
                    again = f", attempt {attempt}" if attempt > 1 else ""
                    self.place, self.doing = f"step {step}/{self._steps}{again}", f"{problems} problems"
                case events.ProblemPlayed(finished=finished, of=of):
                    self.doing = f"{finished}/{of} problems finished"
                case events.TrajectoriesCollected():
                    self.doing = "learning"
                case events.ArtStepTrained(step, metrics):
                    self.add_row(step_cells(event, self._steps))
                    self.add_reward(metrics)
                    self.place = self.doing = ""
                case events.ArtStepFailed(metrics=metrics):
                    self.add_reward(metrics)
                    self.place = self.doing = ""
                    said, style = failure_line(event), "yellow"
        said = said or self.told(event)
        if said is not None:
            self.say(said, style="yellow" if isinstance(event, events.FlagRaised) else style)

    def words(self, event: Event) -> str | None:
        """What an event means in words, for those that the table does not show."""
        return None if isinstance(event, events.PolicyBuilding) else remark_of(event)


def choose(*, is_json: bool) -> Progress:
    """The view that suits where the output goes."""
    if is_json:
        return StepLines(shows_steps=False)
    if sys.stdout.isatty() and not is_quiet() and not is_verbose():
        from rich.console import Console

        console = Console(file=sys.stdout, highlight=False)
        if not console.is_dumb_terminal:
            return ArtTable(console)
    return StepLines()
