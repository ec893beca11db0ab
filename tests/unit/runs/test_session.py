"""One life of a run: whatever ends it is in its configuration, in the words that the command ends with."""

from __future__ import annotations

import errno
import os
import signal
import sys
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from sandrl.errors import (
    EndpointError,
    GateError,
    InterruptedRunError,
    RunOutcome,
    TrainingError,
    UsageError,
    ending_of,
)
from sandrl.runs import RunReader, state_of
from sandrl.runs.config import JobRecord
from sandrl.runs.overview import RunState
from sandrl.runs.processes import Processes
from sandrl.runs.session import RunPlan, RunSession, open_run
from sandrl.sandboxes import Interrupt
from sandrl.settings import ReportTo, Settings, load_settings


def plan(tmp_path: Path, **fields: Any) -> RunPlan:
    wanted = {"command": "reward", "job_id": "job-1", "options": {}, "versions": {}, "name": "run", **fields}
    return RunPlan(runs_dir=tmp_path, report_to=(ReportTo.NONE,), **wanted)


def record(tmp_path: Path) -> JobRecord:
    return RunReader(tmp_path / "run").config.jobs[-1]


class Rank(Processes):
    """One of the processes that share a run.

    Args:
        rank: Which one.
        told: What the first one tells the others, in this order.
    """

    def __init__(self, rank: int, *told: object) -> None:
        super().__init__(rank, count=2)
        # As frozen as its base.
        object.__setattr__(self, "told", list(told))

    def from_first(self, value: Any) -> Any:
        """The value of the first process."""
        return value if self.is_first else self.told.pop(0)  # type: ignore[attr-defined]


def lived(tmp_path: Path, error: BaseException | None, processes: Processes | None = None, **fields: Any) -> None:
    with open_run(plan(tmp_path, **fields), load_settings(), interrupt=Interrupt(), processes=processes):
        if error is not None:
            raise error


ENDINGS: list[tuple[BaseException, RunOutcome, int, str]] = [
    (TrainingError("the loss is no number"), RunOutcome.FAILED, 1, "the loss is no number"),
    (GateError("too low"), RunOutcome.FAILED, 1, "too low"),
    (UsageError("no such option"), RunOutcome.FAILED, 2, "no such option"),
    (EndpointError("no answer"), RunOutcome.FAILED, 3, "no answer"),
    (InterruptedRunError("terminated", signal_number=15), RunOutcome.INTERRUPTED, 143, "terminated"),
    (KeyboardInterrupt(), RunOutcome.INTERRUPTED, 130, "interrupted"),
    (RuntimeError("in a callback"), RunOutcome.FAILED, 70, "internal error: RuntimeError: in a callback"),
    (MemoryError(), RunOutcome.FAILED, 70, "internal error: MemoryError: "),
    (GeneratorExit(), RunOutcome.FAILED, 70, "internal error: GeneratorExit: "),
    (SystemExit(3), RunOutcome.FAILED, 3, "the process was ended: 3"),
    (SystemExit("usage"), RunOutcome.FAILED, 1, "the process was ended: usage"),
    (SystemExit(128 + signal.SIGTERM), RunOutcome.INTERRUPTED, 143, "the process was ended: 143"),
    (BrokenPipeError(errno.EPIPE, "Broken pipe"), RunOutcome.FAILED, 141, "the reader of the output pipe has ended"),
    (
        OSError(errno.ENOSPC, "No space left on device", "out.jsonl"),
        RunOutcome.FAILED,
        3,
        "out.jsonl could not be written: No space left on device",
    ),
    (OSError(errno.EIO, "Input/output error"), RunOutcome.FAILED, 70, "internal error: OSError: [Errno 5]"),
]


@pytest.mark.parametrize(("error", "outcome", "code", "message"), ENDINGS, ids=[repr(case[0]) for case in ENDINGS])
def test_any_exception_is_recorded_as_what_it_is(
    tmp_path: Path, error: BaseException, outcome: RunOutcome, code: int, message: str
) -> None:
    with pytest.raises(type(error)):
        lived(tmp_path, error)
    job = record(tmp_path)
    assert (job.outcome, ending_of(error).exit_code) == (outcome, code)
    assert job.error is not None
    assert job.error.startswith(message)
    assert job.finished_at is not None


def test_a_run_that_ends_by_itself_is_finished_or_was_interrupted(tmp_path: Path) -> None:
    lived(tmp_path, None)
    assert (record(tmp_path).outcome, record(tmp_path).error) == (RunOutcome.FINISHED, None)
    interrupt = Interrupt()
    with open_run(plan(tmp_path, resume=tmp_path / "run"), load_settings(), interrupt=interrupt) as session:
        assert interrupt.is_heard
        assert session.attempt == 2
        interrupt.request(signal.SIGINT)
    assert record(tmp_path).outcome is RunOutcome.INTERRUPTED
    assert not interrupt.is_heard


def test_work_can_fail_without_an_exception(tmp_path: Path) -> None:
    with open_run(plan(tmp_path), load_settings(), interrupt=Interrupt()) as session:
        session.failure = TrainingError("nothing was trained")
    assert (record(tmp_path).outcome, record(tmp_path).error) == (RunOutcome.FAILED, "nothing was trained")


class ThrownOver:
    """A job whose closing fails, as one does that is torn open by a second Ctrl-C."""

    def __init__(self, session: RunSession) -> None:
        self._session = session
        self.known: JobRecord | None = None

    def close(self) -> None:
        """Remembers what the run says at this moment."""
        self.known = RunReader(self._session.writer.path).config.jobs[-1]
        raise KeyboardInterrupt

    def cleanup_error(self) -> None:
        """Nothing."""

    @property
    def exhausted(self) -> str:
        """Nothing."""
        return ""


def test_the_first_error_is_written_before_anything_is_cleaned_up_and_stands(tmp_path: Path) -> None:
    jobs: list[ThrownOver] = []

    def work() -> None:
        with open_run(plan(tmp_path), load_settings(), interrupt=Interrupt()) as session:
            jobs.append(session.own(ThrownOver(session)))
            raise RuntimeError("the cause")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert jobs[0].known is not None
    assert jobs[0].known.error == record(tmp_path).error == "internal error: RuntimeError: the cause"
    assert record(tmp_path).outcome is RunOutcome.FAILED


def test_a_run_without_the_library_that_its_report_needs_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    wanted = RunPlan(
        command="reward", job_id="job-1", options={}, versions={}, runs_dir=tmp_path, name="run",
        report_to=(ReportTo.WANDB,),
    )  # fmt: skip
    with pytest.raises(UsageError), open_run(wanted, load_settings(), interrupt=Interrupt()):
        pass
    assert record(tmp_path).outcome is RunOutcome.FAILED
    assert "wandb" in (record(tmp_path).error or "")


def test_secrets_and_endless_messages_are_cut_out_of_what_is_recorded(tmp_path: Path) -> None:
    settings = Settings.from_environment({**os.environ, "WANDB_API_KEY": "0123456789abcdef"})
    with (
        pytest.raises(RuntimeError),
        open_run(plan(tmp_path), settings, interrupt=Interrupt()),
    ):
        raise RuntimeError("refused 0123456789abcdef \udc80" + "x" * 100_000)
    error = record(tmp_path).error or ""
    assert error.startswith("internal error: RuntimeError: refused [secret] \\udc80")
    assert len(error) < 5000


def two_ranks(tmp_path: Path, first: BaseException | None, second: BaseException | None) -> JobRecord:
    """Two processes live through one run, the second within the first."""
    with (
        suppress(RuntimeError, InterruptedRunError),
        open_run(plan(tmp_path), load_settings(), interrupt=Interrupt(), processes=Rank(0)) as session,
    ):
        place = (session.writer.path, session.writer.job_id)
        with pytest.raises(type(second)) if second else nullcontext():
            lived(tmp_path, second, Rank(1, place, None))
        if first is not None:
            raise first
    return record(tmp_path)


def test_a_crash_in_another_rank_is_a_failure_and_only_that_is_told_by_it(tmp_path: Path) -> None:
    crash, consequence = RuntimeError("rank 1 is broken"), RuntimeError("connection closed by peer")
    cases: list[tuple[BaseException | None, BaseException | None, RunOutcome, str | None]] = [
        (None, None, RunOutcome.FINISHED, None),
        (None, crash, RunOutcome.FAILED, "internal error: RuntimeError: rank 1 is broken"),
        (consequence, crash, RunOutcome.FAILED, "internal error: RuntimeError: rank 1 is broken"),
        (InterruptedRunError("stopped"), crash, RunOutcome.FAILED, "internal error: RuntimeError: rank 1 is broken"),
        (InterruptedRunError("stopped"), InterruptedRunError("here, too"), RunOutcome.INTERRUPTED, "stopped"),
        (crash, InterruptedRunError("stopped"), RunOutcome.FAILED, "internal error: RuntimeError: rank 1 is broken"),
    ]
    for number, (first, second, outcome, error) in enumerate(cases):
        ended = two_ranks(tmp_path / str(number), first, second)
        assert (ended.outcome, ended.error) == (outcome, error), number


def test_the_failure_of_a_rank_is_known_where_the_first_one_was_killed(tmp_path: Path) -> None:
    with pytest.raises(InterruptedRunError):
        lived(tmp_path, InterruptedRunError("x"))
    path = tmp_path / "run"
    with open_run(plan(tmp_path, resume=path, job_id="job-2"), load_settings(), interrupt=Interrupt()) as session:
        with pytest.raises(RuntimeError):
            lived(tmp_path, RuntimeError("out of memory"), Rank(1, (path, "job-2"), None))
        # As if this process were killed here.
        session._has_ended = True
    assert [job.outcome for job in RunReader(path).config.jobs] == [RunOutcome.INTERRUPTED, RunOutcome.FAILED]
    assert state_of(RunReader(path).config, is_running=False) is RunState.FAILED
    lived(tmp_path, None, resume=path, job_id="job-3")
    assert [job.outcome for job in RunReader(path).config.jobs][1:] == [RunOutcome.FAILED, RunOutcome.FINISHED]
