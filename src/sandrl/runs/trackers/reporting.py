"""Reports a run to trackers while it is written, and afterwards (`sandrl runs sync`).

If a tracker fails in any way (no network, a full quota, a bug), one message says so, and it gets nothing more: no run
ends, waits for long or loses a number because of a tracker. A row is reported when the next one is written, or the run
ends: the last row of a run is written again when its sandboxes have stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sandrl.config.model import tracker_words
from sandrl.errors import AuthenticationError, MissingExtraError, RunOutcome, SandrlError, ServiceError, UsageError
from sandrl.events import Emit, ReportingStarted, Warned, ignore
from sandrl.extras import broken_library
from sandrl.runs.config import RunConfig
from sandrl.runs.reader import RunReader
from sandrl.runs.rows import MetricsRow
from sandrl.runs.trackers.mlflow import Mlflow
from sandrl.runs.trackers.tables import CompletionTables
from sandrl.runs.trackers.tensorboard import Tensorboard
from sandrl.runs.trackers.tracker import TrackedRun, TrackedStep, Tracker, history_of
from sandrl.runs.trackers.trackio import Trackio
from sandrl.runs.trackers.wandb import ActiveWandb, Wandb, active_run, first_line, wandb_id
from sandrl.runs.writer import RunWriter
from sandrl.settings import ReportTo, Settings

PROJECT = "sandrl"
"""The project of runs for which nobody has named one."""

LOG_COMPLETIONS = "log_completions"
"""The option of a run that says how often its completions are logged."""

_SYNC_SECONDS = 600.0

_LOCAL: dict[ReportTo, Callable[[TrackedRun], Tracker]] = {
    ReportTo.TENSORBOARD: Tensorboard,
    ReportTo.MLFLOW: Mlflow,
    ReportTo.TRACKIO: Trackio,
}


TrackerT = TypeVar("TrackerT", bound=Tracker)


class Reporting:
    """The trackers of a run that is being written.

    Attributes:
        wandb_run: The id of the W&B run, for the sandboxes' tags; None if there is none.
    """

    def __init__(self, writer: RunWriter, tables: CompletionTables, emit: Emit) -> None:
        self.wandb_run: str | None = None
        self._writer = writer
        self._tables = tables
        self._emit = emit
        self._trackers: list[Tracker] = []
        self._has_begun = False
        self._held_back: MetricsRow | None = None

    @property
    def has_trackers(self) -> bool:
        """Whether there is a tracker."""
        return bool(self._trackers)

    def use(self, tracker: Tracker) -> None:
        """Adds a tracker."""
        self._trackers.append(tracker)

    def begin(self, attempt: int, *, before: int | None = None) -> None:
        """Makes the trackers' histories that of the run, up to the step `before` which the attempt goes on."""
        self._has_begun = True
        rows = [] if before is None else _rows(RunReader(self._writer.path))
        steps = [TrackedStep.of(row, self._tables) for row in rows if before is not None and row.step < before]
        for tracker in [*self._trackers]:
            with self._telling(tracker):
                place = tracker.begin(steps, attempt)
                name = self.wandb_run if isinstance(tracker, Wandb | ActiveWandb) else self._writer.run_id
                self._emit(ReportingStarted(name or "", place, is_online=True, tracker=tracker.title))

    def __call__(self, row: MetricsRow) -> None:
        """Takes a row that was written."""
        if not self._has_begun:
            self.begin(row.attempt, before=row.step)
        if self._held_back is not None and self._held_back.step != row.step:
            self._tell(self._held_back)
        self._held_back = row

    def end(self, *, failed: bool) -> None:
        """Tells the last row, and ends the trackers' runs."""
        if self._held_back is not None:
            self._tell(self._held_back)
        for tracker in [*self._trackers]:
            with self._telling(tracker):
                tracker.end(failed=failed)

    def _tell(self, row: MetricsRow) -> None:
        step = TrackedStep.of(row, self._tables)
        for tracker in [*self._trackers]:
            with self._telling(tracker):
                tracker.add(step)

    @contextmanager
    def _telling(self, tracker: Tracker) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, the metrics are on disk and the run goes on
            self._trackers.remove(tracker)
            name = self._writer.run_id
            self._emit(
                Warned(
                    f"{tracker.title} failed, and reporting to it has stopped: {first_line(error)}",
                    hint=f"send the run when it has ended: sandrl runs sync {name} --to {tracker.kind}",
                    fields=("report_to",),
                )
            )


@contextmanager
def reporting(
    writer: RunWriter,
    report_to: Sequence[ReportTo],
    settings: Settings,
    *,
    is_training: bool,
    project: str | None = None,
    emit: Emit = ignore,
) -> Iterator[Reporting]:
    """Reports a run's metrics to trackers for the length of a `with` block, as far as that is wanted and possible.

    `auto` attaches to an active W&B run, and in training starts one where a key is set. A project is what the
    environment says, else `sandrl`, unless one is given.

    Raises:
        MissingExtraError: If a tracker was asked for by name and is not installed.
    """
    config = RunReader(writer.path).config
    run = _tracked(writer.path, config, settings, project)
    told = Reporting(writer, CompletionTables(writer.path, _every(config)), emit)
    for each in report_to:
        if each in _LOCAL:
            told.use(_made(_LOCAL[each], run))
    if {ReportTo.AUTO, ReportTo.WANDB} & {*report_to} and settings.wandb_mode != "disabled":
        _use_wandb(told, run, settings, by_name=ReportTo.WANDB in report_to, is_training=is_training, emit=emit)
    if _every(config) and report_to and not told.has_trackers and told.wandb_run is None:
        missing = f"{LOG_COMPLETIONS}: no tracker receives this run, so no table is sent"
        emit(Warned(missing, hint="name one with `report_to`", fields=("report_to", LOG_COMPLETIONS)))
    if len(config.jobs) == 1:
        told.begin(1)
    # Of a run that is resumed, the first row says at which step.
    if told.has_trackers:
        writer.tell_metrics_to(told)
    try:
        yield told
    except BaseException:
        told.end(failed=True)
        raise
    told.end(failed=False)


def trackers_of(reader: RunReader, named: str | None) -> tuple[ReportTo, ...]:
    """The trackers that a run is sent to: those that are named, those that the run names, or W&B.

    Raises:
        UsageError: If there is no such tracker.
    """
    names = reader.config.options.get("report_to") if named is None else named
    try:
        words = tracker_words(names or ReportTo.AUTO)
    except ValueError as error:
        raise UsageError(f"the list of trackers {error}") from error
    assert isinstance(words, list | tuple)
    found = dict.fromkeys(ReportTo(word) for word in words if word not in (ReportTo.AUTO, ReportTo.NONE))
    if named is not None and len(found) < len(words):
        raise UsageError("the list of trackers must name each of them, once: wandb, tensorboard, mlflow, trackio")
    return tuple(found) or (ReportTo.WANDB,)


@dataclass(frozen=True, slots=True)
class SyncedTracker:
    """What a tracker has of a run."""

    title: str
    place: str
    steps: int


def sync_run(
    reader: RunReader, to: ReportTo, settings: Settings, *, every: int = 0, emit: Emit = ignore
) -> SyncedTracker:
    """Makes the history of a tracker that of a run, whatever it has had: each step is there once.

    Args:
        every: The steps from one table of completions to the next, where the run does not say; 0 for none.

    Raises:
        UsageError: If the run is being written, or has no metrics.
        MissingExtraError: If the tracker is not installed.
        AuthenticationError: If W&B has no key.
        ServiceError: If the tracker has failed, or does not have everything.
    """
    run_id = reader.config.run_id
    if reader.is_running:
        raise UsageError(f"the job of {run_id} is running", hint="sync the run when it has ended")
    config = reader.config
    tables = CompletionTables(reader.path, every or _every(config))
    steps = [TrackedStep.of(row, tables) for row in _rows(reader)]
    if not steps:
        raise UsageError(f"the run {run_id} has no metrics to send", hint="sandrl runs ls shows what runs have")
    run = _tracked(reader.path, config, settings, None)
    tracker: Tracker
    if to in _LOCAL:
        tracker = _made(_LOCAL[to], run)
    else:
        tracker = _made(lambda run: Wandb(run, emit, finish_seconds=_SYNC_SECONDS), run)
    if isinstance(tracker, Wandb) and not tracker.has_key:
        raise AuthenticationError("W&B needs a key to receive a run", hint="set WANDB_API_KEY, or use wandb login")
    again = f"sandrl runs sync {run_id} --to {to}"
    try:
        place = tracker.begin(steps, None)
        tracker.end(failed=not config.jobs or config.jobs[-1].outcome is not RunOutcome.FINISHED)
        is_whole = not isinstance(tracker, Wandb) or tracker.has(steps)
    except SandrlError:
        raise
    except Exception as error:  # whatever it is, the run is whole and can be sent again
        raise ServiceError(f"{tracker.title} failed: {first_line(error)}", hint=f"send the rest: {again}") from error
    if not is_whole:
        raise ServiceError(f"{tracker.title} does not have all steps of {run_id} yet", hint=f"send the rest: {again}")
    return SyncedTracker(tracker.title, place, len(steps))


def _use_wandb(
    told: Reporting, run: TrackedRun, settings: Settings, *, by_name: bool, is_training: bool, emit: Emit
) -> None:
    active = active_run()
    if active is not None:
        told.wandb_run = str(active.id)
        told.use(ActiveWandb(active))
        return
    if not by_name and not (is_training and settings.wandb_api_key):
        return
    try:
        wandb = _made(lambda run: Wandb(run, emit), run)
    except MissingExtraError as error:
        if by_name:
            raise
        missing = "WANDB_API_KEY is set, but wandb is not installed, so no metrics are reported to W&B"
        emit(Warned(missing, hint=error.hint))
        return
    told.wandb_run = wandb.id
    if settings.wandb_mode == "offline" or not (settings.wandb_api_key or wandb.has_key):
        emit(ReportingStarted(told.wandb_run, f"sandrl runs sync {run.name}", is_online=False, tracker=wandb.title))
        return
    told.use(wandb)


def _made(tracker: Callable[[TrackedRun], TrackerT], run: TrackedRun) -> TrackerT:
    try:
        return tracker(run)
    except ImportError as error:
        raise broken_library(error) or error from error


def _tracked(path: Path, config: RunConfig, settings: Settings, project: str | None) -> TrackedRun:
    named = project or config.options.get("project") or settings.wandb_project or PROJECT
    return TrackedRun(
        path=path,
        id=wandb_id(config),
        name=config.run_id,
        command=config.command,
        project=str(named),
        options=dict(config.options),
    )


def _rows(reader: RunReader) -> list[MetricsRow]:
    return history_of(reader.each_metrics())


def _every(config: RunConfig) -> int:
    every = config.options.get(LOG_COMPLETIONS)
    return every if isinstance(every, int) and every > 0 else 0
