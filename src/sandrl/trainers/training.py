"""Manages one training for any engine: its run, its job, its steps, its budget and its end.

TRL's trainer calls back where its steps begin and end, and ART is driven step by step. So the engines share no loop:
both get a `Training`, and call it where a step begins and ends. A training stops between steps, also for its budget,
because a step that is cut off is lost and the last checkpoint then belongs to the last step.
"""

from __future__ import annotations

import contextlib
import io
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import JsonValue

from sandrl.config.art import ArtTrainConfig
from sandrl.config.grpo import GrpoConfig
from sandrl.errors import BudgetError, CleanupError, InterruptedRunError, SandrlError, raise_for_end
from sandrl.events import Emit, StepFinished
from sandrl.judge.calibration import packages_of
from sandrl.judge.judge import judge_version
from sandrl.judge.weak_checks import warn_of_weak_checks
from sandrl.problems import Problem
from sandrl.rewards.scoring import lifetime_seconds
from sandrl.runs.flags import Flag, Health
from sandrl.runs.held import SandboxTime
from sandrl.runs.processes import Processes
from sandrl.runs.resumption import PROBLEMS_DIGEST
from sandrl.runs.session import RunPlan, RunSession, open_run
from sandrl.sandboxes import Connection, Interrupt, Job, Level, SandboxRequest, new_job_id
from sandrl.sandboxes.spending import Allowance
from sandrl.scoring.options import ScoreOptions
from sandrl.settings import Settings

PRINTED = "printed.log"
"""The file, in the run directory, with what the libraries that train have printed."""


@dataclass(frozen=True, slots=True)
class Stop:
    """What a training that was interrupted says: the message begins with `interrupted`."""

    message: str
    hint: str
    budget_hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun(ABC):
    """A training that has ended, by itself or because the user wanted it to.

    Attributes:
        steps: How many steps the policy has had.
        of: How many it was to have.
        flags: The flags that stand at its end.
        signal_number: The signal that asked to stop; 0 if none did.
        cleanup_error: Set if sandboxes were left behind.
        held: The sandbox time that the run has used, and its cost; None if it has used none.
        exhausted: Says that the budget is used up; empty if it is not.
    """

    run_dir: Path
    steps: int
    of: int
    flags: tuple[Flag, ...] = ()
    signal_number: int = 0
    cleanup_error: CleanupError | None = None
    held: SandboxTime | None = None
    exhausted: str = ""

    @property
    @abstractmethod
    def stop(self) -> Stop:
        """What it says if it was interrupted between steps."""

    @property
    def failure(self) -> SandrlError | None:
        """Why it ended before its last step, although nobody interrupted it; None if it did not."""
        return None

    def raise_for_outcome(self) -> None:
        """Raises the error that the command ends with, the most urgent first.

        Raises:
            InterruptedRunError: If the user asked to stop.
            BudgetError: If the budget is used up.
            CleanupError: If sandboxes were left behind.
            SandrlError: Its `failure`.
        """
        stop = self.stop
        raise_for_end(
            stop.message,
            signal_number=self.signal_number,
            cleanup_error=self.cleanup_error,
            hint=stop.hint,
            exhausted=self.exhausted if self.steps < self.of else "",
            budget_hint=stop.budget_hint,
        )
        if self.failure is not None:
            raise self.failure


Run = TypeVar("Run", bound=TrainingRun)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a training works on, found out before its run is opened.

    Attributes:
        problems: Those whose completions are scored; empty if nothing is scored in sandboxes.
        digest: Stands for the content of the problems, or of what else is trained on.
        tags: Tags of the sandboxes.
        facts: What the run's options have besides the configuration.
        resume: The directory of the run to resume.
    """

    command: str
    config: GrpoConfig | ArtTrainConfig
    problems: Mapping[str, Problem]
    digest: str
    tags: tuple[str, ...]
    versions: Mapping[str, str]
    facts: Mapping[str, JsonValue] = field(default_factory=dict)
    resume: Path | None = None


class Training:
    """A training whose run is open; it has no connection if there are no sandboxes."""

    def __init__(
        self,
        setup: Setup,
        settings: Settings,
        session: RunSession,
        connection: Connection | None,
        allowance: Allowance,
        interrupt: Interrupt,
        emit: Emit,
    ) -> None:
        self.session = session
        self.connection = connection
        self._setup = setup
        self._settings = settings
        self._allowance = allowance
        self._interrupt = interrupt
        self._emit = emit
        self.health = Health()
        self._job: Job | None = None
        self._seconds_before = 0.0

    def watch(self, first_row: int) -> None:
        """Begins to watch the metrics of the rows from this one on."""
        self.health = self.session.health(first_row)

    def own_job(self, emit: Emit, *tags: str, more_seconds: float = 0.0) -> Job:
        """Makes the job that owns the sandboxes, and warns of weak checks.

        `more_seconds` is how much longer than a completion's checks a sandbox may be needed.
        """
        setup, session = self._setup, self.session
        assert self.connection is not None, "there are problems to score"
        limits = ScoreOptions.of(setup.config).limits
        self._job = session.own(
            SandboxRequest.of(setup.config, *setup.tags, *tags, *session.tags).job(
                self.connection,
                command=setup.command,
                max_lifetime_seconds=more_seconds + lifetime_seconds(setup.problems, limits),
                writer=session.writer,
                allowance=self._allowance,
                interrupt=self._interrupt,
                emit=emit,
            )
        )
        warn_of_weak_checks(setup.problems.values(), self._settings.state_dir, emit)
        return self._job

    def begin_step(self, row: int) -> None:
        """A step begins, whose row of metrics has this number."""
        self.session.log.step = row
        if self._job is not None:
            self._seconds_before = self._job.spending.seconds

    def finish_step(self, event: StepFinished, row: int) -> str | None:
        """Tells of a step that was written down; returns which of `loss` and `grad_norm` is not a number, if any."""
        self._emit(event)
        self.health.add(row, event.metrics)
        values = ((name, event.metrics.get(name)) for name in ("loss", "grad_norm"))
        return next((name for name, value in values if value is not None and not math.isfinite(value)), None)

    def end_step(self, *, is_last: bool) -> None:
        """A step has ended; stops the training if another one would exceed the budget.

        The next step is expected to use as much sandbox time as this one, including the time of the trainer.
        """
        if self._job is None or is_last:
            return
        spending = self._job.spending
        spending.look()
        spending.expect(spending.seconds - self._seconds_before)
        if spending.level is not Level.NONE:
            # To save the policy may take longer than the step.
            self._job.give_up_early()

    @contextmanager
    def explaining(self, stop: Callable[[], Stop]) -> Iterator[None]:
        """Turns the interruption of a step into the error that says what is saved, and how to resume.

        Raises:
            BudgetError: If the budget was used up in the middle of a step.
            InterruptedRunError: If the user did not want the current step to be finished.
        """
        try:
            yield
        except InterruptedRunError as error:
            now = stop()
            if self._interrupt.is_exhausted:
                message = f"{self.session.exhausted}{now.message.removeprefix('interrupted')}"
                raise BudgetError(message, hint=now.budget_hint, fields=("budget",)) from error
            raise InterruptedRunError(now.message, signal_number=error.signal_number, hint=now.hint) from error

    def finish(self, run: Run) -> Run:
        """Notes how the work of the open run has ended."""
        self.session.failure = run.failure
        self.session.is_complete = self._interrupt.is_exhausted and run.steps >= run.of
        return run

    def ended(self, run: Run) -> Run:
        """The finished run, with what is known once it is closed."""
        changes: dict[str, Any] = {
            "signal_number": self._interrupt.signal_number,
            "cleanup_error": self.session.cleanup_error(),
            "held": None if self.connection is None else self.session.held(),
            "exhausted": self.session.exhausted,
        }
        return replace(run, **changes)


@contextmanager
def open_training(
    setup: Setup,
    settings: Settings,
    allowance: Allowance,
    *,
    interrupt: Interrupt,
    emit: Emit,
    processes: Processes | None = None,
    answering: AbstractContextManager[None] | None = None,
) -> Iterator[Training]:
    """Finds the runtime, and opens the run of a training; what libraries print goes into its directory.

    `answering` answers wishes to stop; it is entered when there is a runtime, because nothing can be saved before.

    Raises:
        UsageError: If the run cannot be opened.
        ServiceError: If the runtime, or the disk, does not do its part.
    """
    config = setup.config
    connection = None
    facts: dict[str, JsonValue] = {}
    if setup.problems:
        needed = packages_of([*setup.problems.values()])
        connection = SandboxRequest.of(config).connect(settings, needed=needed, emit=emit)
        facts = {**connection.facts(), **allowance.facts}
    plan = RunPlan(
        command=setup.command,
        job_id=new_job_id(),
        options={**config.document(), PROBLEMS_DIGEST: setup.digest, **facts, **setup.facts},
        changes={"steps": config.steps, "budget": config.budget, **allowance.facts},
        versions={"judge": judge_version(), **setup.versions},
        runs_dir=config.runs_dir,
        name=config.run_name,
        log_level=config.log_level,
        resume=setup.resume,
        report_to=config.report_to,
        project=config.project,
        is_training=True,
    )
    processes = processes or Processes()
    with (
        answering or nullcontext(),
        open_run(plan, settings, interrupt=interrupt, processes=processes, emit=emit) as session,
    ):
        session.stack.enter_context(redirect_stdout(PrintedFile(session.writer.path / PRINTED)))
        yield Training(setup, settings, session, connection, allowance.shared(processes.count), interrupt, emit)


class PrintedFile(io.TextIOBase):
    """A stream into a file that exists from the first line on; lines are appended, so processes may share it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        # A disk that is full loses it, and stops no training.
        data = text.encode("utf-8", "backslashreplace")
        if data:
            with contextlib.suppress(OSError), self._path.open("ab") as file:
                file.write(data)
        return len(text)
