"""The output of a running command: remarks, and views that are updated in place on a terminal.

Lines about results go to standard output, so a pipe receives only results; remarks (the runtime, retries, cleanup) go
to standard error. Remarks that come once for each item are printed sparingly (`sandrl.cli.verbosity`).
"""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import typer

from sandrl import events
from sandrl.cli.flags import spelled
from sandrl.cli.text import counted, human_size, visible
from sandrl.cli.verbosity import Sparing, is_quiet
from sandrl.config.budget import duration_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_REFRESHES_PER_SECOND = 6
# Warnings, and what answers a signal or ends work early: never left out.
_URGENT = (
    events.BuildFailed,
    events.BudgetReached,
    events.FlagRaised,
    events.ServiceLogged,
    events.ServiceStopping,
    events.StopRequested,
    events.TrainingStopping,
    events.Warned,
)


class Progress(Protocol):
    """Shows events as they come, between the two ends of a `with` block."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

    def __call__(self, event: events.Event) -> None:
        """Shows an event."""


def word_for(status: str, reward: float | None) -> str:
    """PASS, FAIL, or ERROR where there is no reward."""
    if reward is None:
        return "ERROR"
    return "PASS" if status == "passed" else "FAIL"


def reward_text(reward: float | None) -> str:
    """A reward with one decimal, and with three digits where that is not enough for it; `null` for none."""
    if reward is None:
        return "null"
    return f"{reward:.1f}" if round(reward, 1) == reward else f"{reward:.3g}"


class _Named(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def task_id(self) -> str: ...


def sample_name(of: _Named) -> str:
    """A completion by its problem and its sample: `task`, `task#2`, or `task (id)` where it has an id of its own."""
    task, own = visible(of.task_id), visible(of.id)
    return own if own == task or own.startswith(f"{task}#") else f"{task} ({own})"


def remark(event: events.Event) -> str | None:
    """What an event means in words, for the events that are no results."""
    match event:
        case events.RuntimeStarting(message) | events.RuntimeWaitedFor(message):
            return f"{message} …"
        case events.PackagesInstalling(requirements) if sys.stderr.isatty():
            return f"Packages: installing {', '.join(requirements)} …"
        case events.AgentInstalling(agent, image):
            return f"Agent: installing {agent} in {image} …"
        case events.PullDelayed(image, reason, seconds):
            return f"Image: {image}: {reason}; next try in {seconds:.1f} s"
        case events.ImageReading(file):
            return f"Image: reading {file} …"
        case events.ImageProgress(image, is_unpacking, part, parts, done, total) if done == total:
            return f"Image: {image}, {'unpacked' if is_unpacking else 'copied'} {part} of {parts} ({human_size(total)})"
        case events.BuildStep(_, place, instruction, "runs"):
            return f"Build: [{place}] {instruction} …"
        case events.BuildStep(_, place, instruction, "done", seconds):
            return f"Build: [{place}] {instruction}, done in {seconds:.1f} s"
        case events.BuildFailed(place, instruction, path, number, output):
            return "\n".join(["------", f" > [{place}] {instruction}:", *output, "------", f"{path}:{number}"])
        case events.RuntimeChosen(kind, reason, _, image, isolation, network):
            line = f"Runtime: {kind} ({reason}), image {image}" + (f", isolation {isolation}" if isolation else "")
            return (
                line
                + (f", network {network}" if network else "")
                + ("" if network in ("", "none") else " (a sandbox for each completion)")
            )
        case events.BackendChosen(kind, reason, model):
            return f"{'Tinker' if kind in ('tinker', 'embedded') else 'Backend'}: {kind} ({reason}), model {model}"
        case events.ModelChosen(name, place, reason):
            return f"Model: {name}, {place} ({reason})"
        case events.JobStarted(job_id, total, concurrency):
            return f"Job: {job_id}, {total} completions, up to {concurrency} at once"
        case events.ResultsKept(kept):
            return f"Resumed: {counted(kept, 'result')} of the run {'stays' if kept == 1 else 'stay'}"
        case events.RetryScheduled(_, attempt, _, reason, delay):
            when = f" in {delay:.1f} s" if delay else ""
            return f"{sample_name(event)} runs again{when} in a fresh sandbox (number {attempt}): {reason}"
        case events.CanaryFinished(_, passed, _, same):
            where = "in the same sandbox" if same else "in another sandbox"
            name = sample_name(event)
            return f"{name} has no verdict; a known-good program {where} {'passes' if passed else 'also fails'}"
        case events.OpinionsAwaited(left):
            return f"Second opinions: judging {left} failed completions again in one process"
        case events.CreationSlowed(reason, delay):
            return f"slowing down: no room for more sandboxes, next try in {delay:.1f} s ({reason})"
        case events.ReportingStarted(run_id, place, is_online, tracker):
            return (
                f"{tracker}: run {run_id}, {place}" if is_online else f"{tracker}: offline; send the run later: {place}"
            )
        case events.BudgetReached(budget, seconds, cancel=False):
            return f"budget: {budget} is used up ({duration_text(seconds)} of sandbox time); starting no more work"
        case events.BudgetReached(budget, seconds, cancel=True):
            time = duration_text(seconds)
            return f"budget: {budget} is exceeded by one completion ({time} of sandbox time); cancelling the rest"
        case events.StopRequested(cancel=False, in_flight=count):
            return f"stopping: finishing {count} in flight, starting no more; Ctrl-C again cancels them"
        case events.StopRequested(cancel=True, in_flight=count):
            return f"cancelling {count} in flight and cleaning up"
        case events.PolicyBuilding(name, stage, step, right):
            measured = "" if right is None else f", {right:.0%} right"
            return f"Policy: {name}, training on {stage}, step {step}{measured}"
        case events.PolicyAsked(name, problems, answers):
            return f"Model: {name}, {counted(problems, 'problem')}, {counted(answers, 'completion')} per problem"
        case events.EndpointLimited(address, reason, seconds, per_second):
            until = (datetime.now() + timedelta(seconds=seconds)).strftime("%H:%M:%S")
            rate = "" if per_second is None else f"; {per_second:.3g} answers a second since the last wait"
            return f"Endpoint: {address} limits requests ({reason}); all wait {seconds:.1f} s, until {until}{rate}"
        case events.TokenLimitFound(tokens, why):
            return f"Token limit: {why}" if tokens is None else f"Token limit: {tokens} per completion ({why})"
        case events.ModelSettingsFound(name, settings, are_used):
            what = ", ".join(f"{setting}={value}" for setting, value in settings.items())
            return f"Sampling: {name}'s own {what} {'are applied' if are_used else 'are not applied'}"
        case events.JudgeMeasured(text=text):
            return f"Judge: {text}"
        case events.PolicyReady(name, path, seconds, cached=False):
            return f"Policy: {name}, trained in {seconds:.0f} s, saved in {path}"
        case events.RolloutStarted(run_id, model, problems, steps, episodes, concurrency):
            what = f"{steps} steps of {episodes} episodes on {problems} problems, up to {concurrency} at once"
            return f"Rollouts: {model}, {what} (run {run_id})"
        case events.ServiceAsked(address, total):
            return f"Service: {address}, {total} completions"
        case events.ServiceStopping(left, seconds):
            what = f"finishing {left} requests within {seconds:.0f} s, accepting no more"
            return f"stopping: {what}; Ctrl-C again cancels them"
        case events.ServiceLogged(text):
            return text
        case events.Warned(message, hint, fields):
            told = f"warning: {spelled(message, fields)}"
            return f"{told}\n  hint: {spelled(hint, fields)}" if hint else told
        case _:
            return None


class Remarks:
    """Shows remarks on standard error and no results."""

    def __init__(self) -> None:
        self._sparing = Sparing()
        self._step_kinds = set[str]()
        # The libraries that train print, too; while they do, `sys.stdout` is another.
        self._output = sys.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Shows the last line of those that were left out."""
        for name, line in self._sparing.rest().items():
            if name in self._step_kinds:
                self._put_step(line)
            else:
                self.put(line)

    def __call__(self, event: events.Event) -> None:
        """Shows the event, if it is a remark."""
        text = self.told(event)
        if text is not None:
            self.put(text)

    def words(self, event: events.Event) -> str | None:
        """What an event means in words; None if it is no remark."""
        return remark(event)

    def is_urgent(self, event: events.Event) -> bool:
        """Whether its remark is shown in any case: a warning, or what the user must know at once."""
        return isinstance(event, _URGENT)

    def told(self, event: events.Event) -> str | None:
        """The remark to show now; None if there is none, or it is left out."""
        text = self.words(event)
        if text is None or self.is_urgent(event):
            return text
        return None if is_quiet() else self._sparing.take(type(event).__name__, text)

    def tell_step(self, event: events.Event, line: str, kind: str = "") -> None:
        """Shows a line about a part of the work, which is a result, sparingly: so many of each kind of event."""
        kind = kind or type(event).__name__
        self._step_kinds.add(kind)
        shown = None if is_quiet() else self._sparing.take(kind, line)
        if shown is not None:
            self._put_step(shown)

    def _put_step(self, line: str) -> None:
        typer.echo(visible(line), file=self._output)
        self._output.flush()

    def put(self, text: str) -> None:
        """Prints lines."""
        for line in text.split("\n"):
            typer.echo(line[: len(line) - len(line.lstrip())] + visible(line), err=True)


class LiveView(Remarks, ABC):
    """Something that changes in place on a terminal while remarks go by above it; its last state may stay.

    It is drawn for the first time when it is made: what it draws must be there before.
    """

    def __init__(self, console: Console, *, stays: bool) -> None:
        from rich.live import Live

        super().__init__()
        self.console = console
        # The terminal is drawn by a thread of its own.
        self.lock = threading.Lock()
        self._live = Live(
            get_renderable=self.render,
            console=console,
            refresh_per_second=_REFRESHES_PER_SECOND,
            transient=not stays,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, traceback)
        self._live.stop()

    @abstractmethod
    def render(self) -> RenderableType:
        """What is to be seen at this moment."""

    def put(self, text: str) -> None:
        """Prints lines above it."""
        self.say(text)

    def say(self, text: str, *, style: str = "dim") -> None:
        """Prints lines above it."""
        from rich.text import Text

        self._live.console.print(Text("\n".join(visible(line) for line in text.split("\n"))), style=style)
