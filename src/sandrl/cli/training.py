"""The output of a training: on a terminal a table that grows, in a pipe plain lines, and the summary at the end.

Both forms have one row per step with the same numbers and names, so a number seen on a terminal can be found in a file.
A step that trained nothing is a line with its reason, and a gap of the curve. Remarks go to standard error, as in all
commands.
"""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from sandrl import events
from sandrl.cli.health import raised_line
from sandrl.cli.progress import LiveView, Progress, Remarks, remark
from sandrl.cli.sparkline import sparkline
from sandrl.cli.text import counted, visible
from sandrl.cli.verbosity import is_quiet, is_verbose
from sandrl.runs.metrics import MISSING_GROUPS
from sandrl.runs.overview import HELD_OUT
from sandrl.runs.series import BOUNDS
from sandrl.settings import RuntimeKind

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

    from sandrl.runs.overview import BestCheckpoint


@dataclass(frozen=True, slots=True)
class Column:
    """A number of every step: its header, its metric, and its format."""

    name: str
    metric: str
    form: str


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns in which the tables of the commands differ: what was lost, and how much was done."""

    lost: Column
    done: Column

    @property
    def headers(self) -> tuple[str, ...]:
        """The headers of all columns."""
        return ("step", "reward", "passed", self.lost.name, "equal groups", self.done.name, "loss", "time")


GRPO = Columns(Column("unscorable", "unscorable_share", ".0%"), Column("executions", "executions", ".0f"))
ART = Columns(Column("dropped", "episodes/dropped", ".0f"), Column("tokens", "train/tokens", ".0f"))

_MOST_ROWS = 200
# What a narrow terminal has room for.
_ESSENTIAL = ("step", "reward", "passed", "loss")
_FEWEST_IN_CURVE = 3
_WIDTH_OF_CURVE = 60
_NONE = "–"
_HELD_OUT = "held_out/"
GREEDY = f"{_HELD_OUT}greedy"
_PASS_AT = re.compile(rf"{_HELD_OUT}pass@\d+")
# The metrics of a step of ART that are worth a line.
_OF_BACKEND = {
    "train/gradient_steps": "gradient_steps",
    "train/tokens": "trained_tokens",
    "loss": "loss",
    "grad_norm": "grad_norm",
    "step_seconds": "seconds",
}


def reward_call_line(event: events.RewardCallFinished, runtime: str) -> str:
    """What a trainer's call for rewards amounted to; it begins with their place, if not this machine."""
    parts = [f"{event.passed} of {counted(event.judged, 'completion')} with code passed"]
    parts.append(f"{counted(event.sandboxes, 'execution')} in sandboxes")
    if event.cached:
        parts.append(f"{event.cached} with the verdict of identical code")
    if event.no_code:
        parts.append(f"{event.no_code} without code (not executed)")
    if event.unscorable:
        parts.append(f"{event.unscorable} without a reward (unscorable)")
    if event.abstained:
        parts.append(f"{event.abstained} abstained")
    if event.second_opinions:
        parts.append(f"{event.disagreements} of {event.second_opinions} failures pass in one process")
    place = "[Aviato] " if runtime == RuntimeKind.REMOTE else ""
    return f"{place}Reward call {event.number}: {', '.join(parts)}"


def step_cells(event: events.StepFinished, columns: Columns) -> tuple[str, ...]:
    """A step in the words of the table, one for each header."""
    metrics = event.metrics
    flat = (
        f"{number_cell(metrics, 'reward/zero_variance_groups', '.0f')}/{number_cell(metrics, 'reward/groups', '.0f')}"
    )
    missing = metrics.get(MISSING_GROUPS)
    return (
        f"{event.step + 1}/{event.steps}",
        f"{number_cell(metrics, 'reward/mean', '.2f')} ±{number_cell(metrics, 'reward/std', '.2f')}",
        number_cell(metrics, "pass_rate", ".0%"),
        number_cell(metrics, columns.lost.metric, columns.lost.form),
        f"{flat} ({missing:.0f} missing)" if missing else flat,
        number_cell(metrics, columns.done.metric, columns.done.form),
        number_cell(metrics, "loss", ".4f"),
        f"{number_cell(metrics, 'step_seconds', '.1f')} s",
    )


def step_line(event: events.StepFinished, columns: Columns) -> str:
    """A step as a line of text; of one that trained nothing, the reason."""
    if event.failure:
        again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
        return f"Step {event.step + 1} failed, nothing was trained{again}: {event.failure}"
    step, reward, passed, lost, flat, done, loss, seconds = step_cells(event, columns)
    return (
        f"Step {step}: reward {reward}, passed {passed}, {columns.lost.name} {lost}, groups with equal rewards {flat},"
        f" {columns.done.name} {done}, loss {loss}, {seconds}"
    )


def training_remark(event: events.Event) -> str | None:
    """What an event means in words, for those that are no steps; the parts of a step only with `--verbose`."""
    match event:
        case events.TrainingStarted():
            return _begin_line(event)
        case events.EvaluationStarted(step, problems):
            return f"Evaluating after {step} steps, on {problems} problems …"
        case events.EvaluationFinished(step, problems, metrics):
            return f"After {step} steps: {evaluation_text(metrics)}, of {_scored_text(problems, metrics)}"
        case events.CheckpointSaved(step, path):
            return f"Checkpoint: {step} steps, {path}"
        case events.FlagRaised():
            return raised_line(event)
        case events.TrainingStopping(cancel=False):
            return "stopping: finishing and saving this step; Ctrl-C again cancels it"
        case events.TrainingStopping(cancel=True):
            return "cancelling this step and cleaning up"
        case events.StepStarted() | events.ProblemPlayed() | events.TrajectoriesCollected():
            return _detail(event) if is_verbose() else None
        case _:
            return remark(event)


def _begin_line(event: events.TrainingStarted) -> str:
    if not event.backend:
        what = f"Training: {event.model} on {event.problems} problems, {event.steps} steps"
        together = f", in {event.processes} processes" if event.processes > 1 else ""
        onward = f", resumed at step {event.first_step + 1}" if event.first_step else ""
        return f"{what} of {event.completions} completions{together}{onward} (run {event.run_id})"
    source = "recorded episodes"
    if event.actor:
        source = f"episodes by {event.actor}: {event.completions} per step on {event.problems} problems"
    onward = f" resumed at step {event.first_step + 1}," if event.first_step else ""
    return f"Training: {event.model} ({event.backend}), to step {event.steps},{onward} {source} (run {event.run_id})"


def _detail(event: events.StepStarted | events.ProblemPlayed | events.TrajectoriesCollected) -> str:
    match event:
        case events.StepStarted(step, _, attempt, problems):
            again = f", attempt {attempt}" if attempt > 1 else ""
            return f"Step {step + 1}{again}: {problems} problems"
        case events.ProblemPlayed(task_id, rewards, finished, of):
            shown = ", ".join("dropped" if reward is None else f"{reward:.2f}" for reward in rewards)
            return f"Problem {finished}/{of}: {task_id}, rewards {shown}"
        case events.TrajectoriesCollected(trajectories, dropped, reward, groups, useful):
            mean = _NONE if reward is None else f"{reward:.2f}"
            lost = f", {dropped} dropped" if dropped else ""
            return (
                f"Collected {trajectories} trajectories{lost}, avg reward: {mean}"
                f" (rewards differ in {useful} of {groups} groups)"
            )


def _backend_metrics(metrics: Mapping[str, float | None]) -> str:
    found: dict[str, float | None] = {}
    for name, title in _OF_BACKEND.items():
        if name in metrics:
            value = metrics[name]
            found[title] = value if value is None else int(value) if "train/" in name else float(f"{value:.4g}")
    return json.dumps(found)


def evaluation_text(metrics: Mapping[str, float | None]) -> str:
    """What an evaluation has measured, each share with its 95% interval."""
    names = (name for name in metrics if _PASS_AT.fullmatch(name))
    text = ", ".join(f"{name.removeprefix(_HELD_OUT)} {_interval(metrics, name)}" for name in names)
    return f"{text} sampled, {_interval(metrics, GREEDY)} greedy" if GREEDY in metrics else f"{text} sampled"


def best_text(best: BestCheckpoint) -> str:
    """Which checkpoint is the best, what it is chosen by, and where it is."""
    where = "held-out pass@1" if best.is_held_out else "pass@1 on the training problems"
    return visible(f"Best checkpoint: step {best.step}, {where} {_interval(best.metrics, HELD_OUT)}: {best.path}")


def _scored_text(problems: int, metrics: Mapping[str, float | None]) -> str:
    """How many problems could be scored in each way of answering."""
    names = (f"{_HELD_OUT}problems", f"{GREEDY}_problems")
    fewest = int(min((metrics[name] or 0.0 for name in names if name in metrics), default=problems))
    if fewest == problems:
        return f"{problems} problems"
    return f"{fewest} of {problems} problems (the others could not be scored)"


def _interval(metrics: Mapping[str, float | None], name: str) -> str:
    value = number_cell(metrics, name, ".2f")
    return value if value == _NONE else f"{value} {bounds(metrics, name)}"


def bounds(metrics: Mapping[str, float | None], name: str) -> str:
    low, high = (metrics.get(name + end) for end in BOUNDS)
    return _NONE if low is None or high is None else f"[{low:.2f}, {high:.2f}]"


class TrainingLines(Remarks):
    """Lines for steps and calls for rewards.

    Unless `shows_steps`, these are no results to print on standard output, which is for a document.
    """

    def __init__(self, columns: Columns = GRPO, *, shows_steps: bool = True) -> None:
        super().__init__()
        if not shows_steps:
            self._output = sys.stderr
        self._columns = columns
        self._runtime = ""

    def __call__(self, event: events.Event) -> None:
        match event:
            case events.StepFinished(metrics=metrics, failure=failure):
                self.tell_step(event, step_line(event, self._columns), "failed step" if failure else "")
                if self._columns is ART and is_verbose() and not failure:
                    self.put(f"Trained: step={event.step + 1}, metrics={_backend_metrics(metrics)}")
            case events.RewardCallFinished():
                self.tell_step(event, reward_call_line(event, self._runtime))
            case _:
                if isinstance(event, events.RuntimeChosen):
                    self._runtime = event.kind
                super().__call__(event)

    def words(self, event: events.Event) -> str | None:
        return training_remark(event)


class TrainingTable(LiveView):
    """A table that grows by one row with each step, and below it the course of the reward and what is going on."""

    def __init__(self, console: Console, columns: Columns = GRPO, clock: Callable[[], float] = time.monotonic) -> None:
        self._columns = columns
        self._clock = clock
        self._began = clock()
        self._rows: deque[tuple[str, ...]] = deque(maxlen=_MOST_ROWS)
        # The mean reward of every step; of a step without one, no number.
        self._rewards: list[float] = []
        self._place = self._doing = self._last = self._runtime = ""
        self._steps = 0
        self._is_evaluating = False
        super().__init__(console, stays=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self.lock:
            self._place = self._doing = self._last = ""
        super().__exit__(kind, error, traceback)

    def __call__(self, event: events.Event) -> None:
        failure = None
        with self.lock:
            match event:
                case events.RuntimeChosen(kind=kind):
                    self._runtime = kind
                case events.PolicyBuilding(_, stage, step):
                    self._place, self._doing = "building the policy", f"{stage}, step {step}"
                case events.TrainingStarted(first_step=step, steps=steps):
                    self._begin_step(step, steps)
                case events.StepStarted(step, steps, attempt, problems):
                    again = f", attempt {attempt}" if attempt > 1 else ""
                    self._place, self._doing = f"step {step + 1}/{steps}{again}", f"{problems} problems"
                case events.ProblemPlayed(finished=finished, of=of):
                    self._doing = f"{finished}/{of} problems finished"
                case events.TrajectoriesCollected():
                    self._doing = "learning"
                case events.StepFinished(step, steps, metrics):
                    reward = metrics.get("reward/mean")
                    self._rewards.append(math.nan if reward is None else reward)
                    if event.failure:
                        failure = step_line(event, self._columns)
                    else:
                        self._rows.append(step_cells(event, self._columns))
                    self._begin_step(step + 1, steps)
                case events.RewardCallFinished():
                    self._last = reward_call_line(event, self._runtime)
                    self._doing = "" if self._is_evaluating else "learning"
                case events.CompletionFinished(finished=finished, of=of) if self._columns is GRPO:
                    self._doing = f"judging {finished}/{of}"
                case events.EvaluationStarted(step, problems):
                    self._is_evaluating = True
                    self._place, self._doing = f"evaluation after {step} steps", f"generating for {problems} problems"
                case events.EvaluationFinished(step):
                    if self._steps:
                        self._begin_step(step, self._steps)
        text = failure or self.told(event)
        if text is not None:
            self.say(text, style="yellow" if failure or isinstance(event, events.FlagRaised) else "dim")

    def words(self, event: events.Event) -> str | None:
        is_status = isinstance(event, events.PolicyBuilding | events.EvaluationStarted | events.CheckpointSaved)
        return None if is_status else training_remark(event)

    def _begin_step(self, step: int, steps: int) -> None:
        self._steps, self._is_evaluating = steps, False
        # The episodes of ART's step have an event of their own.
        is_generating = step < steps and self._columns is GRPO
        self._place, self._doing = (f"step {step + 1}/{steps}", "generating") if is_generating else ("", "")

    def render(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        from sandrl.cli import tables

        room = max(self.console.size.height - 6, 3)
        with self.lock:
            rows = list(self._rows)[-room:]
            rewards = list(self._rewards)
            known = [reward for reward in rewards if math.isfinite(reward)]
            status = ": ".join(part for part in (self._place, self._doing) if part)
            elapsed = f"{self._clock() - self._began:.0f} s in total"
            below = [self._last, f"{status}, {elapsed}" if status else ""]
        # What is not essential gives way from the right; the cells of the whole row stay beside each other.
        headers = self._columns.headers
        ranks = {name: place for place, name in enumerate(headers, 1) if name not in _ESSENTIAL}
        columns = [tables.Column(name, rank=ranks.get(name, 0), is_number=True) for name in headers]
        table = tables.Table(columns, [*rows])
        lines = [Text(visible(line), style="dim", no_wrap=True, overflow="ellipsis") for line in below if line]
        if len(known) >= _FEWEST_IN_CURVE:
            lines.insert(0, self._curve(rewards, known[0], known[-1]))
        return Group(*(table.lines(width=self.console.width) if rows else []), *lines)

    def _curve(self, rewards: list[float], first: float, last: float) -> Text:
        # The course over all steps, those included for which there is no room in the table.
        from rich.text import Text

        ends = f"  {first:.2f} → {last:.2f}"
        room = min(self.console.width - len("reward  ") - len(ends), _WIDTH_OF_CURVE)
        line = Text("reward  ", style="bold", no_wrap=True, overflow="ellipsis")
        return line.append(sparkline(rewards, max(room, 8)), style="green").append(ends, style="not bold")


class Silence(Remarks):
    """Shows nothing: for the processes of a distributed run that are not the first."""

    def __call__(self, event: events.Event) -> None:
        pass


def choose(columns: Columns = GRPO, *, is_first: bool = True, is_json: bool = False) -> Progress:
    """The progress that suits where the output goes, and which process this is."""
    if not is_first:
        return Silence()
    if sys.stdout.isatty() and not (is_quiet() or is_verbose() or is_json):
        from rich.console import Console

        console = Console(file=sys.stdout, highlight=False)
        if not console.is_dumb_terminal:
            return TrainingTable(console, columns)
    return TrainingLines(columns, shows_steps=not is_json)


def number_cell(metrics: Mapping[str, float | None], name: str, form: str) -> str:
    """A metric in a form, or a dash where it has no value."""
    value = metrics.get(name)
    return _NONE if value is None else format(value, form)
