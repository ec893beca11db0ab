"""The data of a job on disk: a run directory, with one writer and one reader, found through one index."""

from sandrl.errors import RunOutcome
from sandrl.runs.config import JobRecord, RunConfig
from sandrl.runs.identity import (
    CANARY_TAG,
    HASH_SEED_TAG,
    OPINION_TAG,
    ROLLOUT_TAG,
    WARM_TAG,
    WORKER_TAG,
    disagreements,
)
from sandrl.runs.index import LATEST, RunEntry, find_run, list_runs
from sandrl.runs.log import RunLog, logged_executions
from sandrl.runs.measures import ExecutionStats, execution_metrics, execution_stats
from sandrl.runs.metrics import METRICS, Metric, Unit, find_metric
from sandrl.runs.overview import (
    RunOverview,
    RunState,
    count_steps,
    counted_rows,
    overview,
    overviews,
    state_of,
    step_rows,
)
from sandrl.runs.reader import Damage, Rows, RunReader, latest_attempts
from sandrl.runs.recorder import MetricsRecorder
from sandrl.runs.removal import remove_run
from sandrl.runs.rows import (
    SCHEMA,
    AnswerRow,
    CheckRow,
    EvaluationRow,
    LogRow,
    MessageRow,
    MetricsRow,
    OpinionPart,
    OpinionRow,
    OwnerRow,
    ProblemCheck,
    ProblemRow,
    SandboxEvent,
    SandboxRow,
    ToolCallRow,
    TrajectoryRow,
)
from sandrl.runs.selection import RowSelection
from sandrl.runs.statistics import pass_at_k
from sandrl.runs.summary import Summary, completion_metrics, opinion_metrics, summarise
from sandrl.runs.writer import RunLedger, RunWriter, Sink, own_versions

__all__ = [
    "CANARY_TAG",
    "HASH_SEED_TAG",
    "LATEST",
    "METRICS",
    "OPINION_TAG",
    "ROLLOUT_TAG",
    "SCHEMA",
    "WARM_TAG",
    "WORKER_TAG",
    "AnswerRow",
    "CheckRow",
    "Damage",
    "EvaluationRow",
    "ExecutionStats",
    "JobRecord",
    "LogRow",
    "MessageRow",
    "Metric",
    "MetricsRecorder",
    "MetricsRow",
    "OpinionPart",
    "OpinionRow",
    "OwnerRow",
    "ProblemCheck",
    "ProblemRow",
    "RowSelection",
    "Rows",
    "RunConfig",
    "RunEntry",
    "RunLedger",
    "RunLog",
    "RunOutcome",
    "RunOverview",
    "RunReader",
    "RunState",
    "RunWriter",
    "SandboxEvent",
    "SandboxRow",
    "Sink",
    "Summary",
    "ToolCallRow",
    "TrajectoryRow",
    "Unit",
    "completion_metrics",
    "count_steps",
    "counted_rows",
    "disagreements",
    "execution_metrics",
    "execution_stats",
    "find_metric",
    "find_run",
    "latest_attempts",
    "list_runs",
    "logged_executions",
    "opinion_metrics",
    "overview",
    "overviews",
    "own_versions",
    "pass_at_k",
    "remove_run",
    "state_of",
    "step_rows",
    "summarise",
]
