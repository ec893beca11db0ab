"""The bodies of requests and answers, as documented on the page of the API."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from sandrl.bounds import seconds_problem
from sandrl.config.model import Bytes, Seconds

FileContent: TypeAlias = str | dict[str, str]
"""The content of a file: text, or `{"base64": "…"}`."""


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ScoreRequest(_Request):
    """Completions to score."""

    completions: Annotated[
        list[dict[str, Any]],
        Field(
            min_length=1,
            description="Rows with `task_id` and `completion` (a model's text) or `code` (used unchanged), and an"
            " optional `id`, or rows in any format of a file of completions. Several rows with one `task_id` are"
            " samples of one problem.",
            examples=[[{"task_id": "add", "completion": "```python\ndef add(a, b):\n    return a + b\n```"}]],
        ),
    ]
    problems: Annotated[
        list[dict[str, Any]] | None,
        Field(
            description="The problems, in any format of a file of problems. Default: the problems of the sets that"
            " the service was started with.",
            examples=[[{"task_id": "add", "prompt": "Add two numbers.", "tests": ["assert add(1, 2) == 3"]}]],
        ),
    ] = None
    options: Annotated[
        dict[str, Any] | None,
        Field(
            description="The scoring options of `sandrl reward`, by their names in its configuration file"
            " (`timeout_seconds`, `extract`, `reward`, …). Default: the options that the service was started with.",
            examples=[{"timeout_seconds": 5.0, "reward": "fraction"}],
        ),
    ] = None


class CheckResult(BaseModel):
    """The result of one check."""

    status: str
    detail: str
    name: str | None = None
    score: float | None = None
    got: str | None = None
    expected: str | None = None
    line: int | None = None


class CompletionResult(BaseModel):
    """The result of one completion."""

    id: str
    task_id: str
    reward: Annotated[float | None, Field(description="Null if the completion could not be scored.")]
    status: str
    trust: str | None
    passed: int
    total: int
    duration_seconds: float
    sandbox_id: str | None
    isolation: str | None
    detail: str
    checks: list[CheckResult]
    finish_reason: str | None = None
    image: str | None = None
    compile_seconds: float | None = None
    components: dict[str, float] | None = None
    scores: dict[str, float] | None = None
    verifier_failures: int | None = None


class ScoreResponse(BaseModel):
    """Results in the order of the request, and their totals: the document of `sandrl reward --json`."""

    job_id: str
    results: list[CompletionResult]
    summary: dict[str, Any]


class ExecuteRequest(_Request):
    """A program to run."""

    code: Annotated[str, Field(examples=["print(input()[::-1])"])]
    language: str = "python"
    stdin: str = ""
    files: Annotated[
        dict[str, FileContent],
        Field(description="Files of the working directory: contents by relative path."),
    ] = {}
    fetch: Annotated[list[str], Field(description="Paths of files to return.")] = []
    timeout_seconds: Seconds = 10.0
    compile_timeout_seconds: Seconds = 30.0
    memory_bytes: Annotated[Bytes | None, Field(lt=2**62)] = None
    max_output_bytes: Bytes = 1 << 20


class ProcessResult(BaseModel):
    """The end of the compiler, or of the program."""

    exit_status: Annotated[
        int | None,
        Field(description="The exit status, or minus the number of the signal that ended it; null after a timeout."),
    ]
    timed_out: bool
    seconds: float
    cpu_seconds: float
    stdout: str
    stderr: str
    truncated: bool


class ExecuteResponse(BaseModel):
    """The result of a program."""

    status: Annotated[str, Field(description="`passed` if the program exited with 0, else the reason of its failure.")]
    detail: str
    compile: ProcessResult | None
    run: ProcessResult | None
    files: dict[str, FileContent]
    omitted: Annotated[list[str], Field(description="Files among `fetch` that were too large to return.")]


class EpisodeRequest(_Request):
    """An episode to begin."""

    task_id: Annotated[str, Field(description="A task of the sets that the service was started with.")]
    max_tool_calls: Annotated[int, Field(ge=1, lt=2**63)] | None = None
    options: Annotated[
        dict[str, Any] | None, Field(description="The scoring options of the verdict, as for `/v1/score`.")
    ] = None


class EpisodeResponse(BaseModel):
    """An episode."""

    id: str
    task_id: str
    status: Annotated[str, Field(description="`starting`, `acting`, `judging` or `finished`.")]
    instruction: str
    step: Annotated[int, Field(description="The step that is, or was last, worked on, from 1.")]
    steps: int
    tools: Annotated[list[dict[str, Any]], Field(description="JSON schemas of functions.")]
    max_tool_calls: int
    tool_calls: int
    end: Annotated[
        str | None, Field(description="The reason why the work on the step ended; null while calls are answered.")
    ]
    result: Annotated[dict[str, Any] | None, Field(description="A `CompletionResult` once it is finished.")]


class EpisodesResponse(BaseModel):
    """The episodes of a client."""

    episodes: list[EpisodeResponse]


class CallRequest(_Request):
    """A call of a tool."""

    name: Annotated[str, Field(examples=["bash"])]
    arguments: Annotated[
        str | dict[str, Any], Field(description="An object, or its JSON as text.", examples=[{"command": "ls"}])
    ] = {}
    number: Annotated[
        int | None,
        Field(ge=1, description="The number of the call in the episode, from 1; a repeated call is made once."),
    ] = None


class CallResponse(BaseModel):
    """What came of a call."""

    number: int
    observation: str
    tool_calls: int
    end: str | None


class RunStatus(StrEnum):
    """The outcome of a call of `/run_code`."""

    SUCCESS = "Success"
    FAILED = "Failed"
    SANDBOX_ERROR = "SandboxError"


class CommandRunStatus(StrEnum):
    """The end of a command of `/run_code`."""

    FINISHED = "Finished"
    ERROR = "Error"
    TIME_LIMIT_EXCEEDED = "TimeLimitExceeded"


class RunCodeRequest(BaseModel):
    """A program to run, as clients of SandboxFusion send it; unknown fields are ignored, as by SandboxFusion."""

    code: str
    language: str
    stdin: str | None = None
    compile_timeout: float = 10
    run_timeout: float = 10
    memory_limit_MB: int = -1  # noqa: N815 - the name of the field
    files: dict[str, str | None] = {}
    fetch_files: list[str] = []

    def wrong_time(self) -> str | None:
        for name in ("compile_timeout", "run_timeout"):
            if problem := seconds_problem(getattr(self, name)):
                return f"{name} {problem}"
        return None


class CommandRunResult(BaseModel):
    """The end of a command of `/run_code`."""

    status: CommandRunStatus
    execution_time: float | None = None
    return_code: int | None = None
    stdout: str | None = None
    stderr: str | None = None


class RunCodeResponse(BaseModel):
    """The answer of `/run_code`."""

    status: RunStatus
    message: str
    compile_result: CommandRunResult | None = None
    run_result: CommandRunResult | None = None
    executor_pod_name: str | None = None
    files: dict[str, str] = {}


class RewardRequest(BaseModel):
    """The request of OpenRLHF to a remote reward model: N of each."""

    query: Annotated[list[str], Field(description="Prompts, each followed by its completion.")]
    prompts: list[str]
    labels: Annotated[
        list[Any],
        Field(
            description="For each completion, the `task_id` of a problem of the service, or a problem (object or JSON)."
        ),
    ]


class RewardResponse(BaseModel):
    """The answer that OpenRLHF expects of a remote reward model: N of each."""

    rewards: list[float]
    scores: list[float]
    extra_logs: dict[str, list[float]]


class ProblemDetails(BaseModel):
    """An error (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    hint: str | None = None
    place: str | None = None


SHOWN = (
    ScoreRequest,
    ScoreResponse,
    ExecuteRequest,
    ExecuteResponse,
    EpisodeRequest,
    EpisodeResponse,
    EpisodesResponse,
    CallRequest,
    CallResponse,
    RunCodeRequest,
    RunCodeResponse,
    RewardRequest,
    RewardResponse,
    ProblemDetails,
)
"""Bodies on the page of the API."""
