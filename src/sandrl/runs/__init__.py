"""The data of a job on disk: a run directory, with one writer and one reader, found through one index."""

from sandrl.errors import RunOutcome
from sandrl.runs.config import JobRecord
from sandrl.runs.identity import (
    CANARY_TAG,
    HASH_SEED_TAG,
    OPINION_TAG,
    ROLLOUT_TAG,
    WARM_TAG,
    WORKER_TAG,
    disagreements,
)
from sandrl.runs.index import LATEST, RunEntry, find_run, list_runs, remove_run
from sandrl.runs.log import RunLog, logged_executions
from sandrl.runs.measures import ExecutionStats, execution_metrics
from sandrl.runs.metrics import METRICS, find_metric
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
from sandrl.runs.reader import Damage, Rows, RunReader
from sandrl.runs.recorder import MetricsRecorder
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
    ToolCallRow,
    TrajectoryRow,
)
from sandrl.runs.selection import RowSelection
from sandrl.runs.summary import completion_metrics, opinion_metrics
from sandrl.runs.writer import RunWriter

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
    "MetricsRecorder",
    "MetricsRow",
    "OpinionPart",
    "OpinionRow",
    "OwnerRow",
    "ProblemCheck",
    "ProblemRow",
    "RowSelection",
    "Rows",
    "RunEntry",
    "RunLog",
    "RunOutcome",
    "RunOverview",
    "RunReader",
    "RunState",
    "RunWriter",
    "SandboxEvent",
    "ToolCallRow",
    "TrajectoryRow",
    "completion_metrics",
    "count_steps",
    "counted_rows",
    "disagreements",
    "execution_metrics",
    "find_metric",
    "find_run",
    "list_runs",
    "logged_executions",
    "opinion_metrics",
    "overview",
    "overviews",
    "remove_run",
    "state_of",
    "step_rows",
]
