"""The rows of a run directory.

Rows are written for readers of other versions: each carries its `schema` number, a reader ignores unknown fields, and a
row never refuses text, because losing a result over a stray byte would be worse than showing the byte escaped.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue
from pydantic_core import PydanticSerializationError

from sandrl.events.results import is_cut_off, passes

SCHEMA = 1
"""Raised when a field changes its meaning or goes away; new fields do not raise it."""


def now() -> datetime:
    """Returns the time that rows carry: UTC."""
    return datetime.now(UTC)


def storable(value: object) -> object:
    """Escapes what UTF-8 cannot hold (halves of surrogate pairs) in text, however deep it lies."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, list | tuple):
        return [storable(each) for each in value]
    if isinstance(value, dict):
        return {storable(key): storable(each) for key, each in value.items()}
    return value


Text = Annotated[str, BeforeValidator(storable)]
Json = Annotated[JsonValue, BeforeValidator(storable)]


class Stored(BaseModel):
    """What all files of a run have in common."""

    # A loss that is not a number is a result like any other; JSON has no number for it.
    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        validate_by_name=True,
        serialize_by_alias=True,
        ser_json_inf_nan="strings",
        # Most rows are not written by a process: their validators are built on use.
        defer_build=True,
    )

    file: ClassVar[str]
    """What the names of the files begin with that have such rows; only rows that are appended to a file have it."""

    schema_version: int = Field(default=SCHEMA, alias="schema")

    def to_json(self) -> bytes:
        """Returns the row as one line of JSON, without its line break."""
        try:
            return self.model_dump_json().encode("utf-8")
        except (PydanticSerializationError, UnicodeError):
            # Made without being validated, and its text has what UTF-8 cannot hold.
            return type(self).model_validate({**self.__dict__}).model_dump_json().encode("utf-8")


class JobRow(Stored):
    """What all rows have in common."""

    time: datetime = Field(default_factory=now)
    job_id: str
    rank: int = 0


class StepRow(JobRow):
    """What rows that belong to a step have in common.

    Attributes:
        attempt: 1, or more where a resumed run did the step again.
    """

    step: int | None = None
    attempt: int = 1


class MetricsRow(StepRow):
    """The metrics of one step.

    Attributes:
        step: The step, from 0; scoring without training is step 0.
        metrics: Values by name; None where there is nothing to measure.
    """

    file = "metrics"

    step: int
    metrics: dict[Text, float | None]


class EvaluationRow(StepRow):
    """What an evaluation of the policy has measured; it is written as soon as the evaluation is over.

    Attributes:
        is_held_out: Whether these are not trained on.
        checkpoint: Where this policy is saved, relative to the run directory if it is in there; None before training.
    """

    file = "evaluations"

    step: int
    problems: int
    is_held_out: bool = True
    metrics: dict[Text, float | None]
    checkpoint: Text | None = None


class ToolCallRow(BaseModel):
    """A call of a tool by the model."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: Text
    arguments: Text = ""
    id: Text = ""


class MessageRow(BaseModel):
    """One message of an episode.

    Attributes:
        role: `system`, `user`, `assistant` or `tool`.
        tokens: Of what was sampled: each token, as the endpoint writes it; empty where it does not tell.
        reasoning: What the model thought before it, where the endpoint returns that beside the text.
        is_given: Of the assistant: it was not sampled in this conversation, so it is not trained on here.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="strings")

    role: Text
    content: Text = ""
    tool_calls: tuple[ToolCallRow, ...] = ()
    name: Text | None = None
    tool_call_id: Text | None = None
    tokens: tuple[Text, ...] = ()
    logprobs: tuple[float, ...] = ()
    finish_reason: Text | None = None
    seconds: float | None = None
    reasoning: Text = ""
    is_given: bool = False


class BranchRow(BaseModel):
    """A chain of messages of an agent beside its main one, and the tools that were offered in it, as JSON schemas."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    messages: tuple[MessageRow, ...] = ()
    tools: tuple[dict[str, Json], ...] = ()


class CheckRow(BaseModel):
    """What happened in one check of a completion: a `sandrl.events.results.CheckVerdict`, with its fields."""

    model_config = ConfigDict(frozen=True, extra="ignore", from_attributes=True)

    status: Text
    detail: Text = ""
    name: Text = ""
    score: float | None = None
    got: Text | None = None
    expected: Text | None = None
    line: int | None = None


class ProblemCheck(BaseModel):
    """One check of a problem, as much of it as a run keeps.

    Attributes:
        source: The test's source, or the call as Python; empty for a case and for `exit_status`.
        stdin: What the program of a case reads; None for other checks.
        expected: What a case must print or a call must return; None where the check's source says so, or a checker or
            a reference decides.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", from_attributes=True)

    name: Text = ""
    source: Text = ""
    stdin: Text | None = None
    expected: Text | None = None
    is_hidden: bool = True
    truncated: bool = False


class ProblemRow(JobRow):
    """One problem that completions of the run answer, written once, when the first of them is.

    Attributes:
        digest: Names the problem by its content; the `problem` of its completions' rows.
        prompt: The task, as the model is shown it where the run asks one; else as the problem's file has it.
        kind: What its checks are: `tests`, `cases`, `calls` or `exit_status`.
        checks: Its checks, in their order; the later ones of very many are left out.
    """

    file = "problems"

    digest: str
    task_id: Text
    prompt: Text = ""
    language: Text = "python"
    kind: Text = "tests"
    setup: Text = ""
    checks: tuple[ProblemCheck, ...] = ()
    check_count: int = 0
    truncated: bool = False


class OpinionPart(BaseModel):
    """What a failed completion does in plain Python, in one process: a `sandrl.events.results.Opinion`."""

    model_config = ConfigDict(frozen=True, extra="ignore", from_attributes=True)

    status: Text
    detail: Text = ""
    sandbox_id: str | None = None
    sandboxes: int = 1

    @property
    def is_disagreement(self) -> bool:
        """Whether the failed completion passes in one process."""
        return self.status == "passed"


class OpinionRow(StepRow):
    """A second opinion on a failed completion, which is another row's: some fields of that row, and the opinion."""

    file = "opinions"

    index: int
    id: Text
    task_id: Text
    sandbox_id: str | None = None
    status: str
    detail: Text = ""
    held_out: bool = False
    greedy: bool = False
    opinion: OpinionPart


class TrajectoryRow(StepRow):
    """One completion and what became of it: the fields of `sandrl.events.results.ScoredCompletion`, and more.

    Attributes:
        dropped: Whether the episode was lost to infrastructure, so that its group goes without it.
        held_out: Whether it was made to evaluate a policy, not to train it; it is in no step's metrics then.
        greedy: Whether it has the likeliest token everywhere; else it was sampled. Only evaluations have such ones.
        episode: Facts of an episode by name, such as its `end` and how many `tool_calls` it had.
        messages: What was said in the episode, prompt and tool results included; empty where there was no dialogue.
        tools: The tools that an agent offered in `messages`; empty where they are those of the run.
        branches: What an agent said besides, such as its sub-agents, or with a history that it has rewritten.
        problem: The digest of the problem that it answers, which `problems.jsonl` has; None where that is not kept.
        second_opinion: What a failed completion does in one process; readers take it from `opinions.jsonl`.
        finish_reason: Why the model's answer ended, in the endpoint's word; None if it is not known.
        reasoning: What the model thought, where the endpoint returns that beside the text; of an episode its messages
            have it.
        states: Digests of the final states of a task's machine, which `states/DIGEST.tar.gz` of the run has.
        processes: Names of the programs that the agent of a task left running; empty where nobody asked.
    """

    file = "trajectories"

    index: int
    id: Text
    task_id: Text
    reward: float | None
    status: str
    trust: str | None = None
    passed: int = 0
    total: int = 0
    duration_seconds: float
    compile_seconds: float = 0.0
    timing: dict[str, float] = Field(default_factory=dict)
    sandbox_id: str | None = None
    sandboxes: int = 0
    retries: int = 0
    reruns: int = 0
    canaries: int = 0
    cells: int = 0
    isolation: str | None = None
    image: str = ""
    failures: tuple[Text, ...] = ()
    cached: bool = False
    dropped: bool = False
    held_out: bool = False
    greedy: bool = False
    components: dict[str, float] = Field(default_factory=dict)
    detail: Text = ""
    episode: dict[str, Json] = Field(default_factory=dict)
    messages: tuple[MessageRow, ...] = ()
    tools: tuple[dict[str, Json], ...] = ()
    branches: tuple[BranchRow, ...] = ()
    tokens: dict[str, int] = Field(default_factory=dict)
    completion: Text | None = None
    code: Text | None = None
    stdout: Text = ""
    stderr: Text = ""
    truncated: bool = False
    checks: tuple[CheckRow, ...] = ()
    problem: str | None = None
    hash_seeds: dict[str, str] = Field(default_factory=dict)
    second_opinion: OpinionPart | None = None
    finish_reason: Text | None = None
    reasoning: Text = ""
    score: float | None = None
    scores: dict[Text, float] = Field(default_factory=dict)
    states: tuple[str, ...] = ()
    state_bytes: int | None = None
    processes: tuple[Text, ...] = ()
    verifier_failures: int = 0
    reached: dict[str, tuple[Text, ...]] | None = None

    @property
    def is_cut_off(self) -> bool:
        """Whether the model's answer was cut off at a token limit."""
        return is_cut_off(self.finish_reason)

    @property
    def is_pass(self) -> bool:
        """Whether every check passed, and there was one."""
        return passes(self.status, self.passed, self.total)


class AnswerRow(JobRow):
    """What came of asking a model once for a completion; a later row for the same one replaces it.

    Attributes:
        index: The completion's position among all that are asked for, from 0.
        text: What the model said; None if it gave no answer.
        reasoning: What the model thought, where the endpoint returns that beside the text.
    """

    file = "answers"

    index: int
    id: Text
    task_id: Text
    text: Text | None = None
    reasoning: Text = ""
    failure: Text = ""
    finish_reason: Text | None = None
    seconds: float | None = None
    retries: int = 0
    tokens: dict[str, int] = Field(default_factory=dict)


class LogRow(StepRow):
    """One line of the log: an event of `sandrl.events` and its fields.

    Attributes:
        level: `debug`, `info`, `warning` or `error`.
    """

    file = "log"

    level: str
    event: str
    fields: dict[Text, Json] = Field(default_factory=dict)


class SandboxEvent(StrEnum):
    """The lines a sandbox leaves in the ledger: three, and `taken` if it stood ready before it was needed.

    One that never came to be leaves two: its `stopped` has no id.
    """

    INTENT = "intent"
    TAKEN = "taken"
    CREATED = "created"
    STOPPED = "stopped"


class ConnectionRow(JobRow):
    """One line of the network: a connection that has ended or was refused, or a name that was asked for.

    Attributes:
        host: The name that the program has asked for, or an address; empty if the row is about the network as a whole.
        port: 0 for a question for a name.
        address: What was connected to; empty if nothing was.
        refused: Why it was not allowed; empty if it was.
        error: Why it failed, though it was allowed.
    """

    file = "connections"

    sandbox_id: str
    host: Text
    port: int
    address: Text = ""
    refused: Text = ""
    error: Text = ""
    sent_bytes: int = 0
    received_bytes: int = 0
    seconds: float = 0.0


class OwnerRow(BaseModel):
    """The process that owns a job's sandboxes, in the parts a later cleanup can check one by one.

    Attributes:
        started_ticks: When the process started, in clock ticks since boot.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", from_attributes=True)

    host: str
    boot_id: str = ""
    pid_namespace: str = ""
    pid: int
    started_ticks: int = 0


class SandboxRow(JobRow):
    """One line of the write-ahead ledger.

    Attributes:
        tags: Its tags as they are sent, in the intent; in `taken`, those it would have got, had it not stood ready.
        since: In `stopped`, from when on it existed at the earliest, if it was asked for again after a refusal.
    """

    file = "sandboxes"

    event: SandboxEvent
    key: str
    sandbox_id: str | None = None
    tags: tuple[str, ...] = ()
    owner: OwnerRow | None = None
    since: datetime | None = None
