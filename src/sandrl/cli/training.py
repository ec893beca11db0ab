"""The output of a training: on a terminal a table that grows, in a pipe plain lines, and the summary at the end.

Both forms have one row per step with the same numbers and names, so a number seen on a terminal can be found in a file.
Remarks go to standard error, as in all commands.
"""

from __future__ import annotations

import math
import re
import sys
import time
from abc import ABC
from collections import deque
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

import typer

from sandrl import events
from sandrl.cli.health import flag_lines, raised_line
from sandrl.cli.outlook import outlook_lines
from sandrl.cli.output import print_json
from sandrl.cli.progress import LiveView, Progress, Remarks, remark
from sandrl.cli.scores import held_line
from sandrl.cli.sparkline import sparkline
from sandrl.cli.text import counted, visible
from sandrl.cli.verbosity import is_quiet, is_verbose, note
from sandrl.runs.evaluations import HELD_OUT
from sandrl.runs.series import BOUNDS
from sandrl.settings import RuntimeKind

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

    from sandrl.runs.evaluations import BestCheckpoint
    from sandrl.trainers.grpo import GrpoRun
    from sandrl.trainers.plan import CheckedPlan

_MOST_ROWS = 200
_HEADERS = ("step", "reward", "passed", "unscorable", "equal groups", "executions", "loss", "time")
# What a narrow terminal has room for.
_ESSENTIAL = ("step", "reward", "passed", "loss")
_FEWEST_IN_CURVE = 3
_WIDTH_OF_CURVE = 60
_NONE = "–"
_HELD_OUT = "held_out/"
_GREEDY = f"{_HELD_OUT}greedy"
_PASS_AT = re.compile(rf"{_HELD_OUT}pass@\d+")


def reward_call_line(event: events.RewardCallFinished, runtime: str) -> str:
    """What a trainer's call for rewards amounted to; it begins with whose sandboxes these were, if not of this machine.

    Args:
        event: The call.
        runtime: What ran the sandboxes.
    """
    parts = [f"{event.passed} of {counted(event.judged, 'completion')} with code passed"]
    parts.append(f"{counted(event.sandboxes, 'execution')} in sandboxes")
    if event.cached:
        parts.append(f"{event.cached} with the verdict of identical code")
    if event.no_code:
        parts.append(f"{event.no_code} without code (not executed)")
    if event.unscorable:
        parts.append(f"{event.unscorable} without a reward (unscorable)")
    if event.second_opinions:
        parts.append(f"{event.disagreements} of {event.second_opinions} failures pass in one process")
    place = "[Aviato] " if runtime == RuntimeKind.REMOTE else ""
    return f"{place}Reward call {event.number}: {', '.join(parts)}"


def step_cells(event: events.StepFinished) -> tuple[str, ...]:
    """A step in the words of the table, one for each header."""
    metrics = event.metrics
    return (
        f"{event.step + 1}/{event.steps}",
        f"{number_cell(metrics, 'reward/mean', '.2f')} ±{number_cell(metrics, 'reward/std', '.2f')}",
        number_cell(metrics, "pass_rate", ".0%"),
        number_cell(metrics, "unscorable_share", ".0%"),
        f"{number_cell(metrics, 'reward/zero_variance_groups', '.0f')}/{number_cell(metrics, 'reward/groups', '.0f')}",
        number_cell(metrics, "executions", ".0f"),
        number_cell(metrics, "loss", ".4f"),
        f"{number_cell(metrics, 'step_seconds', '.1f')} s",
    )


def step_line(event: events.StepFinished) -> str:
    """A step as a line of text."""
    step, reward, passed, unscorable, flat, sandboxes, loss, seconds = step_cells(event)
    return (
        f"Step {step}: reward {reward}, passed {passed}, unscorable {unscorable}, groups with equal rewards {flat},"
        f" executions {sandboxes}, loss {loss}, {seconds}"
    )


def training_remark(event: events.Event) -> str | None:
    """What an event of training means in words, for those that are no steps."""
    match event:
        case events.TrainingStarted(run_id, model, problems, first_step, steps, completions, processes):
            what = f"Training: {model} on {problems} problems, {steps} steps of {completions} completions"
            together = f", in {processes} processes" if processes > 1 else ""
            onward = f", resumed at step {first_step + 1}" if first_step else ""
            return f"{what}{together}{onward} (run {run_id})"
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
        case _:
            return None


def evaluation_text(metrics: Mapping[str, float | None]) -> str:
    """What an evaluation has measured, each share with its 95% interval."""
    names = (name for name in metrics if _PASS_AT.fullmatch(name))
    text = ", ".join(f"{name.removeprefix(_HELD_OUT)} {_interval(metrics, name)}" for name in names)
    return f"{text} sampled, {_interval(metrics, _GREEDY)} greedy" if _GREEDY in metrics else f"{text} sampled"


def best_text(best: BestCheckpoint) -> str:
    """Which checkpoint is the best, what it is chosen by, and where it is."""
    where = "held-out pass@1" if best.is_held_out else "pass@1 on the training problems"
    return visible(f"Best checkpoint: step {best.step}, {where} {_interval(best.metrics, HELD_OUT)}: {best.path}")


def _scored_text(problems: int, metrics: Mapping[str, float | None]) -> str:
    """How many problems could be scored in each way of answering."""
    names = (f"{_HELD_OUT}problems", f"{_GREEDY}_problems")
    fewest = int(min((metrics[name] or 0.0 for name in names if name in metrics), default=problems))
    if fewest == problems:
        return f"{problems} problems"
    return f"{fewest} of {problems} problems (the others could not be scored)"


def _interval(metrics: Mapping[str, float | None], name: str) -> str:
    value = number_cell(metrics, name, ".2f")
    return value if value == _NONE else f"{value} {_bounds(metrics, name)}"


def _bounds(metrics: Mapping[str, float | None], name: str) -> str:
    low, high = (metrics.get(name + end) for end in BOUNDS)
    return _NONE if low is None or high is None else f"[{low:.2f}, {high:.2f}]"


class TrainingLines(Remarks):
    """Lines for steps and calls for rewards."""

    def __init__(self) -> None:
        super().__init__()
        self._runtime = ""

    def __call__(self, event: events.Event) -> None:
        """Shows the event."""
        match event:
            case events.StepFinished():
                self.tell_step(event, step_line(event))
            case events.RewardCallFinished():
                self.tell_step(event, reward_call_line(event, self._runtime))
            case _:
                if isinstance(event, events.RuntimeChosen):
                    self._runtime = event.kind
                super().__call__(event)

    def words(self, event: events.Event) -> str | None:
        """What an event means in words, for those that are no steps."""
        return training_remark(event) or remark(event)


class StepTable(LiveView, ABC):
    """A table that grows by one row with each step, and below it the course of the reward and what is going on.

    Args:
        console: The terminal.
        headers: The columns.
        essential: Those for which a narrow terminal has room.
        clock: The time in seconds.
    """

    def __init__(
        self,
        console: Console,
        headers: tuple[str, ...],
        essential: tuple[str, ...],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._headers = headers
        self._essential = essential
        self._clock = clock
        self._rows: deque[tuple[str, ...]] = deque(maxlen=_MOST_ROWS)
        # The mean reward of every step; of a step without one, no number.
        self._rewards: list[float] = []
        self.place = self.doing = self.last = ""
        self._began = clock()
        super().__init__(console, stays=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self.lock:
            self.place = self.doing = self.last = ""
        super().__exit__(kind, error, traceback)

    def add_row(self, cells: tuple[str, ...]) -> None:
        """Adds a step, one cell for each header."""
        self._rows.append(cells)

    def add_reward(self, metrics: Mapping[str, float | None]) -> None:
        """Adds the mean reward of a step to the course."""
        reward = metrics.get("reward/mean")
        self._rewards.append(math.nan if reward is None else reward)

    def render(self) -> RenderableType:
        """The table as it is at this moment."""
        from rich.console import Group
        from rich.text import Text

        from sandrl.cli.tables import Column, Table

        room = max(self.console.size.height - 6, 3)
        with self.lock:
            rows = list(self._rows)[-room:]
            rewards = list(self._rewards)
            known = [reward for reward in rewards if math.isfinite(reward)]
            status = ": ".join(part for part in (self.place, self.doing) if part)
            elapsed = f"{self._clock() - self._began:.0f} s in total"
            below = [self.last, f"{status}, {elapsed}" if status else ""]
        # What is not essential gives way from the right; the cells of the whole row stay beside each other.
        ranks = {name: place for place, name in enumerate(self._headers, 1) if name not in self._essential}
        table = Table([Column(name, rank=ranks.get(name, 0), is_number=True) for name in self._headers], [*rows])
        lines = [Text(visible(line), style="dim", no_wrap=True, overflow="ellipsis") for line in below if line]
        if len(known) >= _FEWEST_IN_CURVE:
            lines.insert(0, self._curve(rewards, known[0], known[-1]))
        return Group(*(table.lines(width=self.console.width) if rows else []), *lines)

    def _curve(self, rewards: list[float], first: float, last: float) -> Text:
        """The course of the reward over all steps, those included for which there is no room in the table."""
        from rich.text import Text

        ends = f"  {first:.2f} → {last:.2f}"
        room = min(self.console.width - len("reward  ") - len(ends), _WIDTH_OF_CURVE)
        line = Text("reward  ", style="bold", no_wrap=True, overflow="ellipsis")
        return line.append(sparkline(rewards, max(room, 8)), style="green").append(ends, style="not bold")


class TrainingTable(StepTable):
    """The table of `sandrl grpo`.

    Args:
        console: The terminal.
        clock: The time in seconds.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._runtime = ""
        self._steps = 0
        self._is_evaluating = False
        super().__init__(console, _HEADERS, _ESSENTIAL, clock)

    def __call__(self, event: events.Event) -> None:
        """Changes the table, or says what there is to say above it."""
        with self.lock:
            match event:
                case events.RuntimeChosen(kind=kind):
                    self._runtime = kind
                case events.TrainingStarted(first_step=step, steps=steps):
                    self._begin_step(step, steps)
                case events.StepFinished(step, steps, metrics):
                    self.add_row(step_cells(event))
                    self.add_reward(metrics)
                    self._begin_step(step + 1, steps)
                case events.RewardCallFinished():
                    self.last = reward_call_line(event, self._runtime)
                    self.doing = "" if self._is_evaluating else "learning"
                case events.CompletionFinished(finished=finished, of=of):
                    self.doing = f"judging {finished}/{of}"
                case events.EvaluationStarted(step, problems):
                    self._is_evaluating = True
                    self.place, self.doing = f"evaluation after {step} steps", f"generating for {problems} problems"
                case events.EvaluationFinished(step):
                    if self._steps:
                        self._begin_step(step, self._steps)
                case events.PolicyBuilding(_, stage, step):
                    self.place, self.doing = "building the policy", f"{stage}, step {step}"
        text = self.told(event)
        if text is not None:
            self.say(text, style="yellow" if isinstance(event, events.FlagRaised) else "dim")

    def words(self, event: events.Event) -> str | None:
        """What an event means in words, for those that the table does not show."""
        is_status = isinstance(event, events.PolicyBuilding | events.EvaluationStarted | events.CheckpointSaved)
        return None if is_status else training_remark(event) or remark(event)

    def _begin_step(self, step: int, steps: int) -> None:
        self._steps, self._is_evaluating = steps, False
        self.place, self.doing = (f"step {step + 1}/{steps}", "generating") if step < steps else ("", "")


class Silence(Remarks):
    """Shows nothing: for the processes of a distributed run that are not the first."""

    def __call__(self, event: events.Event) -> None:
        """Shows nothing."""


def choose(*, is_first: bool) -> Progress:
    """The progress that suits where the output goes, and which process this is."""
    if not is_first:
        return Silence()
    if sys.stdout.isatty() and not is_quiet() and not is_verbose():
        from rich.console import Console

        console = Console(file=sys.stdout, highlight=False)
        if not console.is_dumb_terminal:
            return TrainingTable(console)
    return TrainingLines()


def print_plan(plan: CheckedPlan, *, json_output: bool = False) -> None:
    """Prints what a run would do.

    Args:
        plan: The plan.
        json_output: As one JSON document.
    """
    config = plan.config
    if json_output:
        print_json(_plan_document(plan))
        return
    lines = [
        f"Model: {config.model}" + (f", LoRA of rank {config.lora_rank}" if config.lora else ""),
        *([] if plan.origin is None else [f"Starts from the weights of {plan.origin}"]),
        f"Problems: {plan.train_problems} of {config.problems}",
        f"Evaluation: {_evaluation_plan(plan)}",
        *([] if plan.remark is None else [f"Note: {plan.remark}"]),
        f"Steps: {plan.first_step} to {config.steps}, each of {config.groups} problems"
        f" × {config.samples} completions = {config.batch_size}",
        f"Processes: {plan.processes}, {plan.completions_per_pass} completions in a pass of each,"
        f" on the {'GPU' if plan.on_gpu else 'CPU'}",
    ]
    typer.echo("\n".join([*(visible(line) for line in lines), *outlook_lines(plan.outlook)]))


def _plan_document(plan: CheckedPlan) -> dict[str, Any]:
    return {
        "config": plan.config.document(),
        "train_problems": plan.train_problems,
        "eval_problems": plan.eval_problems,
        "is_held_out": plan.is_held_out,
        "remark": plan.remark,
        "processes": plan.processes,
        "completions_per_pass": plan.completions_per_pass,
        "on_gpu": plan.on_gpu,
        "first_step": plan.first_step,
        "steps": plan.config.steps,
        "origin": None if plan.origin is None else plan.origin.model_dump(mode="json"),
        "outlook": plan.outlook.document(),
    }


def _evaluation_plan(plan: CheckedPlan) -> str:
    """What is evaluated when, and how."""
    config = plan.config
    if not plan.eval_problems:
        return "none"
    if config.eval_set is not None:
        what = f"{plan.eval_problems} problems of {config.eval_set}"
    elif plan.is_held_out:
        what = f"{plan.eval_problems} held-out problems"
    else:
        what = f"{plan.eval_problems} of the same problems (too few to hold out)"
    between = "" if config.eval_every is None else f", after every {config.eval_every} steps"
    sampled = f"{config.eval_samples} sampled completion{'s' * (config.eval_samples > 1)}"
    greedy = " and a greedy one" if config.has_greedy_answers else ""
    return f"{what}, before training{between} and at its end, with {sampled}{greedy} per problem"


def print_summary(run: GrpoRun) -> None:
    """Prints what came of a run."""
    where = "Held-out pass@1" if run.is_held_out else "pass@1 on the training problems"
    rows = (run.evaluations.get(0), run.evaluations.get(run.of))
    before, after = ({} if row is None else row.metrics for row in rows)
    for name, title in ((HELD_OUT, where), (_GREEDY, f"{where}, greedy")):
        if name in before or name in after:
            shown = [number_cell(metrics, name, ".2f") for metrics in (before, after)]
            typer.echo(f"{title} ({run.eval_problems} problems): {shown[0]} before, {shown[1]} after")
            shown = [_bounds(metrics, name) for metrics in (before, after)]
            typer.echo(f"  95% intervals: {shown[0]} before, {shown[1]} after")
    if run.optimizations:
        typer.echo("\n".join(["Optimizations:", *(f"  {visible(each)}" for each in run.optimizations)]))
    if run.checkpoint is not None:
        typer.echo(visible(f"Checkpoint: {run.checkpoint.path}"))
    if run.best is not None and run.best.of > 1:
        typer.echo(best_text(run.best))
    note(held_line(run.held))
    for line in flag_lines(run.flags):
        typer.echo(line)
    note(f"Run: {run.run_dir}")


def number_cell(metrics: Mapping[str, float | None], name: str, form: str) -> str:
    """A metric in a form, or a dash where it has no value."""
    value = metrics.get(name)
    return _NONE if value is None else format(value, form)
