"""Writes a run directory.

The kernel has received every row when the call that writes it returns, so the death of the process loses no reported
result. Several processes of one job write files of their own (`metrics.rank-1.jsonl`), never each other's.
"""

from __future__ import annotations

import json
import os
import platform
import threading
from collections.abc import Callable, Collection, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Self, TypeAlias

from pydantic import BaseModel, JsonValue

from sandrl import __version__, forks
from sandrl.closing import Closing
from sandrl.errors import ForkedProcessError, RunOutcome, ServiceError
from sandrl.files import write_whole
from sandrl.jsonl import RowAppender
from sandrl.runs.config import CONFIG_FILE, FAILURE_FILE, JobRecord, RunConfig, read_config
from sandrl.runs.directory import checked_run_name, lock, make_run_directory
from sandrl.runs.index import register_run
from sandrl.runs.rows import MetricsRow, SandboxRow, Stored, now

Sink: TypeAlias = Callable[[MetricsRow], None]
"""Called with the metrics of a step, after they were written; must not raise an exception."""

# Shorter values occur by chance in honest text.
_SHORTEST_SECRET = 8
_MASK = b"[secret]"
_LONGEST_ERROR = 4000


def own_versions() -> dict[str, str]:
    """Versions of what every job works with."""
    return {"sandrl": __version__, "cwsandbox": version("cwsandbox"), "python": platform.python_version()}


class RunWriter(Closing):
    """One process's hand on a run directory; threads may share it.

    Make one with `create`. Closing it without `finish` leaves the job without an outcome, as a killed one is.

    Attributes:
        is_inherited: Whether the process from which this one was forked made the writer; nothing is written here then.
    """

    def __init__(self, path: Path, *, job_id: str, rank: int = 0, secrets: Collection[str] = ()) -> None:
        self.path = path
        self.run_id = path.name
        self.job_id = job_id
        self.rank = rank
        self._secrets = tuple(_as_in_json(secret) for secret in secrets if len(secret) >= _SHORTEST_SECRET)
        self._mutex = threading.Lock()
        self.last_metrics: MetricsRow | None = None
        self._sinks: list[Sink] = []
        self._appenders: dict[str, RowAppender] = {}
        self._lock = lock(path) if rank == 0 else -1
        self.is_inherited = False
        forks.watch(self)

    def after_fork(self) -> None:
        """Leaves the run to the parent; a child that outlives it must not keep the run locked."""
        self.is_inherited = True
        self._mutex = threading.Lock()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    @classmethod
    def create(
        cls,
        runs_dir: Path,
        *,
        command: str,
        job_id: str,
        state_dir: Path | None = None,
        name: str | None = None,
        resume: bool = False,
        options: Mapping[str, JsonValue] | None = None,
        changes: Mapping[str, JsonValue] | None = None,
        versions: Mapping[str, str] | None = None,
        secrets: Collection[str] = (),
    ) -> Self:
        """Makes the run directory, writes its configuration and enters it into the index.

        Without `state_dir`, it is in no index. A resumed run keeps its options but for the `changes`. `secrets` are
        masked wherever they occur in what is written.

        Raises:
            UsageError: If the name is taken and `resume` is false, there is nothing to resume, another process is
                writing the run, or the directory cannot be made.
            ServiceError: If the configuration cannot be written.
        """
        path = make_run_directory(runs_dir, command, None if name is None else checked_run_name(name), resume=resume)
        writer = cls(path.absolute(), job_id=job_id, secrets=secrets)
        try:
            job = JobRecord(job_id=job_id, versions=dict(versions or {}))
            if resume:
                config = read_config(path)
                changed = {**config.options, **(changes or {})}
                config = config.model_copy(update={"options": changed, "jobs": (*config.jobs, job)})
            else:
                config = RunConfig(run_id=path.name, command=command, options=dict(options or {}), jobs=(job,))
            writer._write_whole(CONFIG_FILE, config)
        except BaseException:
            writer.close()
            raise
        if state_dir is not None:
            register_run(writer.path, state_dir)
        return writer

    def append(self, row: Stored) -> None:
        """Appends a row to the file of its kind; metrics are then told to those who listen.

        Raises:
            ServiceError: If the row could not be written.
        """
        self._refuse_if_inherited()
        with self._mutex:
            appender = self._appenders.get(row.file)
            if appender is None:
                suffix = f".rank-{self.rank}" if self.rank else ""
                appender = self._appenders[row.file] = RowAppender(self.path / f"{row.file}{suffix}.jsonl")
        appender.append(self._masked(row.to_json()))
        if isinstance(row, MetricsRow):
            self.last_metrics = row
            for sink in self._sinks:
                sink(row)

    def tell_metrics_to(self, sink: Sink) -> None:
        """Tells someone the metrics of each step from here on, once they are written."""
        self._sinks.append(sink)

    def append_sandbox(self, row: SandboxRow) -> None:
        """Appends a row to the write-ahead ledger of this process; it is in the kernel's hands before this returns."""
        self.append(row.model_copy(update={"rank": self.rank}))

    def keep_fact(self, name: str, value: JsonValue) -> None:
        """Adds what was found out while the run was written to its options; only the first process does.

        Raises:
            ServiceError: If it cannot be written.
        """
        if not self.rank:
            config = read_config(self.path)
            self._write_whole(CONFIG_FILE, config.model_copy(update={"options": {**config.options, name: value}}))

    def finish(self, outcome: RunOutcome, error: str | None = None) -> None:
        """Says how the job ended; the first failure that is told stands. Only the first process tells of other ends.

        Raises:
            ServiceError: If it cannot be written.
        """
        if self.rank and outcome is not RunOutcome.FAILED:
            return
        text = error and error[:_LONGEST_ERROR]
        end = JobRecord(job_id=self.job_id, finished_at=now(), outcome=outcome, error=text)
        if self.rank:
            self._write_whole(FAILURE_FILE.format(rank=self.rank), end)
        else:
            self._write_whole(CONFIG_FILE, read_config(self.path).with_end(end))

    def close(self) -> None:
        """Closes all files and unlocks the run; closing twice is fine."""
        with self._mutex:
            for appender in self._appenders.values():
                appender.close()
            self._appenders.clear()
            if self._lock >= 0:
                os.close(self._lock)
                self._lock = -1

    def _refuse_if_inherited(self) -> None:
        if self.is_inherited:
            raise ForkedProcessError(
                f"the run {self.run_id} belongs to the parent process; a forked process cannot write it"
            )

    def _write_whole(self, name: str, record: BaseModel) -> None:
        self._refuse_if_inherited()
        content = record.model_dump_json(indent=2).encode("utf-8") + b"\n"
        try:
            write_whole(self.path / name, self._masked(content))
        except OSError as error:
            raise ServiceError(f"{self.path / name}: cannot be written: {error.strerror}") from error

    def _masked(self, content: bytes) -> bytes:
        for secret in self._secrets:
            content = content.replace(secret, _MASK)
        return content


def _as_in_json(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "backslashreplace")
