"""The output of a running command: remarks, and views that are updated in place on a terminal.

Lines about results go to standard output, so a pipe receives only results; remarks (the runtime, retries, cleanup) go
to standard error.
"""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import typer

from sandrl import events
from sandrl.cli.flags import spelled
from sandrl.cli.text import counted, visible
from sandrl.config.budget import duration_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_REFRESHES_PER_SECOND = 6


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
    """What is told of a completion."""

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
        case events.RuntimeChosen(kind, reason, _, image, isolation):
            return f"Runtime: {kind} ({reason}), image {image}" + (f", isolation {isolation}" if isolation else "")
        case events.BackendChosen(kind, reason, model):
            return f"{'Backend' if kind == 'local' else 'Tinker'}: {kind} ({reason}), model {model}"
        case events.ModelChosen(name, place, reason):
            return f"Model: {name}, {place} ({reason})"
        case events.JobStarted(job_id, total, concurrency):
            return f"Job: {job_id}, {total} completions, up to {concurrency} at once"
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
        case events.ReportingStarted(run_id, place, is_online):
            return f"W&B: run {run_id}, {'online' if is_online else 'offline'}, {place}"
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
        case events.ModelSettingsFound(name, settings, are_used):
            what = ", ".join(f"{setting}={value}" for setting, value in settings.items())
            return f"Sampling: {name}'s own {what} {'are applied' if are_used else 'are not applied'}"
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
    """Shows remarks on standard error and no results: for `--json`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Has nothing to take down."""

    def __call__(self, event: events.Event) -> None:
        """Shows the event, if it is a remark."""
        text = remark(event)
        if text is not None:
            for line in text.split("\n"):
                typer.echo(line[: len(line) - len(line.lstrip())] + visible(line), err=True)


class LiveView(Remarks, ABC):
    """Something that changes in place on a terminal while remarks go by above it.

    It is drawn for the first time when it is made: what it draws must be there before.

    Args:
        console: The terminal.
        stays: Whether its last state is left there.
    """

    def __init__(self, console: Console, *, stays: bool) -> None:
        from rich.live import Live

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
        self._live.stop()

    @abstractmethod
    def render(self) -> RenderableType:
        """What is to be seen at this moment."""

    def say(self, text: str, *, style: str = "dim") -> None:
        """Prints lines above it."""
        from rich.text import Text

        self._live.console.print(Text("\n".join(visible(line) for line in text.split("\n"))), style=style)
