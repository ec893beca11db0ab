"""What a job leaves on disk: the run directory, written by one writer, read by one reader, found through one index."""

from sandrl.runs.config import JobRecord, Outcome, RunConfig
from sandrl.runs.index import LATEST, RunEntry, find_run, list_runs
from sandrl.runs.reader import Rows, RunReader, latest_attempts
from sandrl.runs.rows import SCHEMA, MetricsRow, OwnerRow, SandboxEvent, SandboxRow, TrajectoryRow
from sandrl.runs.writer import RunLedger, RunWriter

__all__ = [
    "LATEST",
    "SCHEMA",
    "JobRecord",
    "MetricsRow",
    "Outcome",
    "OwnerRow",
    "Rows",
    "RunConfig",
    "RunEntry",
    "RunLedger",
    "RunReader",
    "RunWriter",
    "SandboxEvent",
    "SandboxRow",
    "TrajectoryRow",
    "find_run",
    "latest_attempts",
    "list_runs",
]
