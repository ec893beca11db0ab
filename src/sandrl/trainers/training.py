"""Runs one training with any engine: its run, its job, its steps, its budget and its end.

TRL's trainer calls back where its steps begin and end, and ART is driven step by step. So the loop itself belongs to an
engine, which calls the `Training` where a step begins and ends. A training stops between steps, also for its budget,
because a step that is cut off is lost and the last checkpoint then belongs to the last step.
"""

from __future__ import annotations

import contextlib
import io
import math
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar

from pydantic import JsonValue

from sandrl.config.art import ArtTrainConfig
from sandrl.config.grpo import GrpoConfig
from sandrl.errors import BudgetError, CleanupError, InterruptedRunError, SandrlError, raise_for_end
from sandrl.events import Emit, Event, RewardCallFinished, StepFinished
from sandrl.judge.calibration import packages_of
from sandrl.judge.judge import judge_version
from sandrl.problems import Problem
from sandrl.problems.profile import Profile
from sandrl.problems.quality import QualityFilter
from sandrl.problems.tasks.lock import TaskHold
from sandrl.rewards.scoring import lifetime_seconds
from sandrl.rewards.weak_problems import warn_of_weak_problems
from sandrl.runs import MetricsRecorder
from sandrl.runs.flags import Flag, Health
from sandrl.runs.held import SandboxTime
from sandrl.runs.processes import Processes
from sandrl.runs.recorder import EventCounts
from sandrl.runs.resumption import PROBLEMS_DIGEST
from sandrl.runs.session import RunPlan, RunSession, open_run
from sandrl.runs.statistics import mean
from sandrl.sandboxes import Connection, Interrupt, Job, Level, SandboxRequest, new_job_id
from sandrl.sandboxes.spending import Allowance
from sandrl.scoring.options import ScoreOptions, check_use
from sandrl.settings import Settings

CHANGING = ("steps", "budget", "report_to", "log_completions")
"""The options of a resumed run that have the values of its last job."""

PRINTED = "printed.log"
"""The file, in the run directory, with what the libraries that train have printed."""

_RECENT_STEPS = 10


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


RunT = TypeVar("RunT", bound=TrainingRun, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a training works on, found out before its run is opened.

    Attributes:
        problems: Those whose completions are scored; empty if nothing is scored in sandboxes.
        digest: Stands for the content of the problems, or of what else is trained on.
        tags: Tags of the sandboxes.
        facts: What the run's options have besides the configuration.
        resume: The directory of the run to resume.
        quality: What has left out problems; None if nothing has.
        profile: The pass rates by which problems are chosen; None without any.
    """

    command: str
    config: GrpoConfig | ArtTrainConfig
    problems: Mapping[str, Problem]
    digest: str
    tags: tuple[str, ...]
    versions: Mapping[str, str]
    facts: Mapping[str, JsonValue] = field(default_factory=dict)
    resume: Path | None = None
    quality: QualityFilter | None = None
    profile: Profile | None = None


class Training:
    """A training whose run is open; it has no connection if there are no sandboxes.

    Attributes:
        before_rest: Ends what uses the job beside a step, before the job gives up its sandboxes.
    """

    def __init__(
        self,
        setup: Setup,
        settings: Settings,
        session: RunSession,
        connection: Connection | None,
        allowance: Allowance,
        interrupt: Interrupt,
        processes: Processes,
        emit: Emit,
    ) -> None:
        self.session = session
        self.connection = connection
        self.interrupt = interrupt
        self.emit = emit
        self.recorder = MetricsRecorder()
        self.health = Health()
        self._setup = setup
        self._settings = settings
        self._allowance = allowance
        self._processes = processes
        self._job: Job | None = None
        self._began = 0.0
        self._seconds_before = self._busy_before = 0.0
        self._held_seconds = deque[float](maxlen=_RECENT_STEPS)
        self.before_rest: Callable[[], None] = lambda: None

    def count_from(self, row: int) -> None:
        """Begins to count what happens, and to watch the metrics, from this row on."""
        session = self.session
        self.recorder = MetricsRecorder(
            session.writer,
            attempt=session.attempt,
            first_step=row,
            processes=self._processes,
            held=session.held_before,
            emit=self.emit,
        )
        self.health = session.health(row)

    def tell(self, event: Event) -> None:
        """Tells the metrics, the log and the user; of several processes' calls for rewards, when they are together."""
        self.recorder(event)
        self.session.log(event)
        if self._processes.count == 1 or not isinstance(event, RewardCallFinished):
            self.emit(event)

    def take(self) -> EventCounts:
        """What has happened in all processes since the last time; all of them must ask."""
        counted = self.recorder.take()
        if self._processes.count > 1:
            for call in counted.calls:
                self.emit(call)
        return counted

    def own_job(self, *tags: str, more_seconds: float = 0.0) -> Job:
        """Makes the job that owns the sandboxes, and warns of problems that are known to be weak.

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
                interrupt=self.interrupt,
                emit=self.tell,
            )
        )
        place = setup.config.verifier_place
        warn_of_weak_problems(setup.problems.values(), self._settings.state_dir, self.tell, place)
        return self._job

    def begin_step(self, row: int) -> None:
        """A step begins, whose row of metrics has this number."""
        self.session.log.step = row
        self._began = time.monotonic()
        if self._job is not None:
            self._seconds_before = self._job.spending.seconds
            self._busy_before = self._job.busy_seconds or 0.0

    @property
    def step_seconds(self) -> float:
        """How long the current step has lasted."""
        return time.monotonic() - self._began

    def idle_metrics(self, waited_seconds: float) -> dict[str, float | None]:
        """Which shares of the current step trainer and sandboxes have waited; all processes must ask.

        The trainer has waited `waited_seconds` for rewards or episodes. Sandboxes wait when no command is under way;
        their share is None where they are on other machines.
        """
        seconds = max(self.step_seconds, 1e-9)
        busy = None if self._job is None else self._job.busy_seconds
        idle = None if busy is None else min(max(1.0 - (busy - self._busy_before) / seconds, 0.0), 1.0)
        shares = [each for each in self._processes.gather([idle]) if each is not None]
        return {"idle/trainer_share": min(waited_seconds / seconds, 1.0), "idle/sandbox_share": mean(shares)}

    def record_step(self, row: int, event: StepFinished) -> str | None:
        """Writes down a step, and tells of it; returns which of `loss` and `grad_norm` is not a number, if any."""
        self.recorder.write(row, dict(event.metrics))
        self.emit(event)
        self.health.add(row, event.metrics)
        values = ((name, event.metrics.get(name)) for name in ("loss", "grad_norm"))
        return next((name for name, value in values if value is not None and not math.isfinite(value)), None)

    def end_step(self, *, is_last: bool) -> None:
        """A step has ended; stops the training if another one would exceed the budget.

        The next step is expected to use as much sandbox time as the longest of the last ones, including the time of the
        trainer: a step that the budget cuts off is lost.
        """
        if self._job is None or is_last:
            return
        spending = self._job.spending
        spending.look()
        self._held_seconds.append(spending.seconds - self._seconds_before)
        spending.expect(max(self._held_seconds))
        if spending.level is not Level.NONE:
            # To save the policy may take longer than the step.
            self.before_rest()
            self._job.give_up_early()


class Engine(Protocol[RunT]):
    """A library that trains: all that differs between TRL and ART once the run is open."""

    def train(self, training: Training) -> None:
        """Trains to the last step, or to the end of the step in which the user wishes to stop.

        Raises:
            InterruptedRunError: If the user did not want the current step to be finished.
        """
        ...

    def stop(self, training: Training) -> Stop:
        """What a training says whose current step was cut off."""
        ...

    def result(self, training: Training) -> RunT:
        """What has come of the training, but for what is known only when its run is closed."""
        ...


def run_training(
    engine: Engine[RunT],
    setup: Setup,
    settings: Settings,
    allowance: Allowance,
    *,
    interrupt: Interrupt,
    emit: Emit,
    processes: Processes | None = None,
    answering: AbstractContextManager[None] | None = None,
) -> RunT:
    """Finds the runtime, opens the run, and trains; what libraries print goes into the run directory.

    `answering` answers wishes to stop; it is entered when there is a runtime, because nothing can be saved before.

    Raises:
        UsageError: If the run cannot be opened.
        ServiceError: If the runtime, or the disk, does not do its part.
        BudgetError: If the budget was used up in the middle of a step.
        InterruptedRunError: If the user did not want the current step to be finished.
    """
    config = setup.config
    check_use(config, setup.problems.values())
    tasks = TaskHold.of(config.lock, setup.problems, resume=setup.resume)
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
        changes={**{name: config.document()[name] for name in CHANGING}, **allowance.facts},
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
        shared = allowance.shared(processes.count)
        if session.writer.rank == 0:
            for kept in (setup.quality, setup.profile):
                if kept is not None:
                    kept.keep(session.writer.path)
            session.stack.enter_context(tasks.kept(session.writer.path, {}))
        training = Training(setup, settings, session, connection, shared, interrupt, processes, emit)
        try:
            engine.train(training)
        except InterruptedRunError as error:
            stop = engine.stop(training)
            if interrupt.is_exhausted:
                message = f"{session.exhausted}{stop.message.removeprefix('interrupted')}"
                raise BudgetError(message, hint=stop.budget_hint, fields=("budget",)) from error
            raise InterruptedRunError(stop.message, signal_number=error.signal_number, hint=stop.hint) from error
        run = engine.result(training)
        session.failure = run.failure
        session.is_complete = interrupt.is_exhausted and run.steps >= run.of
    return replace(
        run,
        signal_number=interrupt.signal_number,
        cleanup_error=session.cleanup_error(),
        held=None if connection is None else session.held(),
        exhausted=session.exhausted,
    )


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
