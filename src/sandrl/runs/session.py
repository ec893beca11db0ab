"""The life of a job's run: directory, trackers, log, metrics, sandboxes, and its outcome.

One `with` block covers everything between the opening and the end of a run, and `sandrl.errors.ending_of` classifies
its end: an exception of any kind is recorded in the run's configuration, with the message that the command ends with,
before anything else is cleaned up. So a job without an outcome was killed.

Runs do not depend on sandboxes, which are a layer above. So the small protocols below describe a user's request to stop
and a job that owns sandboxes, and a session accepts any object that implements them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from pydantic import JsonValue

from sandrl.errors import CleanupError, RunOutcome, SandrlError, ServiceError, ending_of
from sandrl.events import Emit, LogLevel, RunOpened, all_of, ignore
from sandrl.extras import broken_library
from sandrl.runs.flags import Health
from sandrl.runs.held import SECONDS_METRIC, SandboxTime, held_by, price_in
from sandrl.runs.log import RunLog
from sandrl.runs.overview import step_rows
from sandrl.runs.processes import Processes
from sandrl.runs.reader import RunReader
from sandrl.runs.recorder import MetricsRecorder
from sandrl.runs.rows import now
from sandrl.runs.trackers import reporting
from sandrl.runs.writer import RunWriter, own_versions
from sandrl.settings import ReportTo, Settings


class Stoppable(Protocol):
    """A user's wish to stop (`sandrl.sandboxes.Interrupt`)."""

    @property
    def level(self) -> int:
        """How urgent it is; 0: there is none."""
        ...

    def heard(self) -> AbstractContextManager[None]:
        """Says that someone looks at the level for the length of a `with` block."""
        ...


class OwnsSandboxes(Protocol):
    """A job whose sandboxes end when it is closed (`sandrl.sandboxes.Job`)."""

    def close(self) -> None:
        """Stops every sandbox."""
        ...

    def cleanup_error(self) -> CleanupError | None:
        """The error to end with if the closed job left sandboxes behind."""
        ...

    @property
    def exhausted(self) -> str:
        """What the work ends with because a budget is used up; empty if it is not."""
        ...


# What two sums of the same times may differ by, and more.
_NOTABLE_SECONDS = 0.001

JobT = TypeVar("JobT", bound=OwnsSandboxes)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """Which run is opened, and what is kept of its job.

    Attributes:
        options: The resolved options; a run that is gone on with keeps its own.
        changes: Those of which such a run has another value from now on.
        report_to: The trackers that are told its metrics.
        project: The project of trackers; what the environment says unless given.
    """

    command: str
    job_id: str
    options: Mapping[str, JsonValue]
    changes: Mapping[str, JsonValue] = field(default_factory=dict)
    versions: Mapping[str, str]
    runs_dir: Path | None = None
    name: str | None = None
    resume: Path | None = None
    report_to: Sequence[ReportTo] = (ReportTo.AUTO,)
    project: str | None = None
    is_training: bool = False
    log_level: LogLevel = LogLevel.INFO


class RunSession:
    """A run that is open.

    Attributes:
        attempt: How many jobs have worked on it, this one included.
        is_complete: Set by the work if it is done although a budget was used up by its end.
        failure: Set by the work if it has failed although no exception ends it.
        stack: What ends with the work, before anything is said of how the job ended.
    """

    def __init__(self, writer: RunWriter, log_level: LogLevel, interrupt: Stoppable, emit: Emit) -> None:
        self.writer = writer
        self.log = RunLog(writer, log_level)
        self.attempt = len(RunReader(writer.path).config.jobs)
        reader = RunReader(writer.path)
        # This job has no line in the ledger yet.
        self.held_before = held_by(reader) if self.attempt > 1 else SandboxTime(0.0, price_in(reader.config.options))
        self.tags: tuple[str, ...] = ()
        self.is_complete = False
        self.failure: SandrlError | None = None
        self.stack = ExitStack()
        self._emit = emit
        self._interrupt = interrupt
        self._job: OwnsSandboxes | None = None
        self._has_ended = False

    def recorder(self, first_step: int = 0) -> MetricsRecorder:
        """Begins to count what happens; what no step has written by the end of the session is written then."""
        recorder = MetricsRecorder(
            self.writer, attempt=self.attempt, first_step=first_step, held=self.held_before, emit=self._emit
        )
        return self.stack.enter_context(recorder)

    def health(self, first_step: int = 0) -> Health:
        """Begins to watch the metrics of the steps that follow; flags go to the log and the user, from one process."""
        emit = ignore if self.writer.rank else self.told()
        return Health(step_rows(RunReader(self.writer.path)), first_step=first_step, emit=emit)

    def told(self, *listeners: Emit) -> Emit:
        """An `Emit` that tells these, the log and the user."""
        return all_of(*listeners, self.log, self._emit)

    def own(self, job: JobT) -> JobT:
        """Closes a job, and with it its sandboxes, at the end of the session."""
        self._job = job
        self.stack.callback(job.close)
        return job

    def cleanup_error(self) -> CleanupError | None:
        """The error to end with if sandboxes were left behind."""
        return None if self._job is None else self._job.cleanup_error()

    @property
    def exhausted(self) -> str:
        """What the work ends with because its budget is used up; empty if it is not."""
        return "" if self._job is None else self._job.exhausted

    def held(self) -> SandboxTime:
        """The sandbox time that the run has used, by its ledger, and its cost."""
        return held_by(RunReader(self.writer.path))

    def _complete_metrics(self) -> None:
        # Adds to the last row of metrics what sandboxes took after it, now that they are gone.
        row = self.writer.last_metrics
        if self._job is None or row is None or self.writer.rank or self.writer.is_inherited:
            return
        with suppress(SandrlError):
            held = self.held()
            if abs((row.metrics.get(SECONDS_METRIC) or 0.0) - held.seconds) > _NOTABLE_SECONDS:
                metrics = {**row.metrics, **held.metrics}
                self.writer.append(row.model_copy(update={"metrics": metrics, "time": now()}))

    @contextmanager
    def _lived(self) -> Iterator[None]:
        try:
            with self.stack:
                try:
                    yield
                except BaseException as error:
                    # First of all: cleaning up takes its time, and may be killed.
                    self._end_with(error)
                    raise
        finally:
            self._complete_metrics()
        if self._interrupt.level and not self.is_complete:
            self._end(RunOutcome.INTERRUPTED, self.exhausted or None)
        elif self.failure is not None:
            self._end_with(self.failure)
        else:
            self._end(RunOutcome.FINISHED)

    def _end_with(self, error: BaseException) -> None:
        # Writes down what the job ends with, unless that is done: what comes later was caused by it.
        ending = ending_of(broken_library(error) or error)
        # A disk that is full keeps the outcome from being written, too; the first error tells why.
        with suppress(ServiceError):
            self._end(ending.outcome, ending.message)

    def _end(self, outcome: RunOutcome, error: str | None = None) -> None:
        if not self._has_ended and not self.writer.is_inherited:
            self.writer.finish(outcome, error)
            self._has_ended = True


@contextmanager
def open_run(
    plan: RunPlan,
    settings: Settings,
    *,
    interrupt: Stoppable,
    processes: Processes | None = None,
    emit: Emit = ignore,
) -> Iterator[RunSession]:
    """Makes or reopens a run, and says in it how its job ended, whatever ends the `with` block.

    Raises:
        UsageError: If the name is taken, there is nothing to go on with, or another process is writing the run.
        MissingExtraError: If a tracker was asked for by name and is not installed.
        ServiceError: If the disk does not do its part.
    """
    processes = processes or Processes()
    with interrupt.heard(), _writer(plan, settings, processes) as writer:
        session = RunSession(writer, plan.log_level, interrupt, emit)
        if processes.is_first:
            emit(RunOpened(writer.run_id, str(writer.path)))
        report_to = plan.report_to if processes.is_first else ()
        try:
            with reporting(
                writer, report_to, settings, is_training=plan.is_training, project=plan.project, emit=emit
            ) as trackers:
                wandb_run = processes.from_first(trackers.wandb_run)
                session.tags = () if wandb_run is None else (f"wandb-run:{wandb_run}",)
                with session._lived():
                    yield session
        except BaseException as error:
            session._end_with(error)
            raise


def _writer(plan: RunPlan, settings: Settings, processes: Processes) -> RunWriter:
    place: tuple[Path, str] | None = None
    if processes.is_first:
        writer = RunWriter.create(
            plan.runs_dir or settings.runs_dir if plan.resume is None else plan.resume.parent,
            command=plan.command,
            job_id=plan.job_id,
            state_dir=settings.state_dir,
            name=plan.name if plan.resume is None else plan.resume.name,
            resume=plan.resume is not None,
            options=plan.options,
            changes=plan.changes,
            versions={**own_versions(), **plan.versions},
            secrets=settings.secrets,
        )
        place = writer.path, writer.job_id
    place = processes.from_first(place)
    if processes.is_first:
        return writer
    assert place is not None, "the first process passes it"
    return RunWriter(place[0], job_id=place[1], rank=processes.rank, secrets=settings.secrets)
