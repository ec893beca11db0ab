"""Events: typed records of what happens while sandrl works.

Library code never prints. It calls an `Emit` with one of these frozen records, and the caller decides what to do with
it: the command line draws it, a trainer logs it, a test collects it. Records hold plain values only, so this package
depends on nothing. `index` is the position of a completion in the input, from 0; steps count from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from sandrl.events.results import CheckStatus as CheckStatus
from sandrl.events.results import CheckVerdict as CheckVerdict
from sandrl.events.results import Opinion as Opinion
from sandrl.events.results import ScoredCompletion as ScoredCompletion
from sandrl.events.results import Status as Status
from sandrl.events.results import Trust as Trust


class LogLevel(StrEnum):
    """Which events are logged: each level includes those after it."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened."""


Emit: TypeAlias = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Drops the event: the default `Emit`."""


def all_of(*listeners: Emit) -> Emit:
    """Returns an `Emit` that calls several others, in this order."""

    def tell(event: Event) -> None:
        for listener in listeners:
            listener(event)

    return tell


@dataclass(frozen=True, slots=True)
class Warned(Event):
    """Something the user should know that stops nothing; message and hint name these fields, as in `SandrlError`."""

    message: str
    hint: str | None = None
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunOpened(Event):
    """A run directory was made, or is resumed; told by the first process of a job."""

    run_id: str
    path: str


@dataclass(frozen=True, slots=True)
class ResultsKept(Event):
    """A resumed run has so many results that stay; what has none is judged."""

    kept: int


@dataclass(frozen=True, slots=True)
class StopRequested(Event):
    """The user asked to stop: what is in flight, in so many sandboxes, is finished first, or (`cancel`) cancelled."""

    cancel: bool
    in_flight: int


@dataclass(frozen=True, slots=True)
class ReportingStarted(Event):
    """Metrics go to a tracker, too; `place` is where the user finds them, or the command that sends them later."""

    run_id: str
    place: str
    is_online: bool
    tracker: str = "W&B"


@dataclass(frozen=True, slots=True)
class RuntimeChosen(Event):
    """Sandboxes will come from this runtime: `local`, `remote` or another provider; the reason is a few words.

    `isolation` is how it isolates on this machine; empty for the remote one. `network` is what the code may reach;
    empty for what the runtime decides.
    """

    kind: str
    reason: str
    address: str
    image: str
    isolation: str = ""
    network: str = ""


@dataclass(frozen=True, slots=True)
class RuntimeStarting(Event):
    """The local runtime's daemon is being started; this takes a moment."""

    message: str


@dataclass(frozen=True, slots=True)
class RuntimeWaitedFor(Event):
    """The local runtime's daemon does not answer at the moment, and is waited for."""

    message: str


@dataclass(frozen=True, slots=True)
class ImageReading(Event):
    """An image in a file is read, which can take long before its first layer is copied."""

    file: str


@dataclass(frozen=True, slots=True)
class ImageProgress(Event):
    """A blob of an image is being copied to the store or unpacked there: `done` of `total` bytes.

    `image` names its source; `part` is its place in the image, from 1, of `parts`.
    """

    image: str
    is_unpacking: bool
    part: int
    parts: int
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class BuildStep(Event):
    """An instruction of a Dockerfile has `begun`, its program `runs`, it is `done`, or was stored before (`cached`).

    `number` counts from 1, and `place` is the stage, and which of its steps this is (`base 2/5`).
    """

    number: int
    place: str
    instruction: str
    condition: str
    seconds: float


@dataclass(frozen=True, slots=True)
class BuildOutput(Event):
    """A line that the program of a step has printed, so long after its begin."""

    number: int
    seconds: float
    line: str


@dataclass(frozen=True, slots=True)
class BuildFailed(Event):
    """The program of a step failed: the instruction, its file and line, and the last lines of its output."""

    place: str
    instruction: str
    path: str
    line: int
    output: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PackagesInstalling(Event):
    """Packages for sandboxes are being installed from the package index; this can take minutes."""

    requirements: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AgentInstalling(Event):
    """An agent of others is being installed into an image; this can take minutes."""

    agent: str
    image: str


@dataclass(frozen=True, slots=True)
class PullDelayed(Event):
    """A registry does not answer, or limits requests, and is asked for an image again after so many seconds."""

    image: str
    reason: str
    seconds: float


@dataclass(frozen=True, slots=True)
class JobStarted(Event):
    """A job, whose id is the tag of its sandboxes, begins to score completions; `total` is 0 if that is not known.

    `concurrency` is the number of sandboxes that it works with at once.
    """

    job_id: str
    total: int = 0
    concurrency: int = 1


@dataclass(frozen=True, slots=True)
class SandboxCreated(Event):
    """A sandbox came to be; told when its id is learned, which is when its first command ends."""

    sandbox_id: str


@dataclass(frozen=True, slots=True)
class SandboxStopped(Event):
    """A sandbox is gone."""

    sandbox_id: str


@dataclass(frozen=True, slots=True)
class SandboxesHeld(Event):
    """Sandboxes of the job existed for so long, summed over them, since this was told last.

    Below 0 where sandboxes of other machines have ended earlier than was known then.
    """

    seconds: float


@dataclass(frozen=True, slots=True)
class BudgetReached(Event):
    """The budget is used up by this sandbox time of the run, or the next completion would exceed it: no more are begun.

    `cancel` means that what is under way is cancelled, too, because one completion exceeds the budget.
    """

    budget: str
    seconds: float
    cancel: bool


@dataclass(frozen=True, slots=True)
class StopFinished(Event):
    """One of many sandboxes that are cleaned up is `stopped` or `already gone`, or this has `failed`, with a detail."""

    sandbox_id: str
    outcome: str
    detail: str
    finished: int
    of: int


@dataclass(frozen=True, slots=True)
class CreationSlowed(Event):
    """The service has no room for more sandboxes, and the next is asked for after a delay.

    Completions without a sandbox wait; none fails for this reason.
    """

    reason: str
    delay_seconds: float


@dataclass(frozen=True, slots=True)
class CleaningUp(Event):
    """The job is waiting for its last sandboxes to be gone."""

    sandboxes: int


@dataclass(frozen=True, slots=True)
class PolicyBuilding(Event):
    """A policy is being made: it learns from `stage`, of which this is a step, from 1.

    `right` is the share of right answers that it samples by now; None where it was not measured.
    """

    name: str
    stage: str
    step: int
    right: float | None = None


@dataclass(frozen=True, slots=True)
class PolicyReady(Event):
    """A policy can be loaded from this directory; `cached` if it was there already."""

    name: str
    path: str
    seconds: float
    cached: bool


@dataclass(frozen=True, slots=True)
class TokenLimitFound(Event):
    """How long the answers of a model may be, where the user did not say; None if no limit is set here.

    `why` is a clause without its full stop.
    """

    tokens: int | None
    why: str


@dataclass(frozen=True, slots=True)
class EndpointLimited(Event):
    """An endpoint limits requests, so all of them wait so many seconds from now; nothing is lost.

    `per_second` is how many were answered in a second since requests waited last; None if none was.
    """

    address: str
    reason: str
    seconds: float
    per_second: float | None


@dataclass(frozen=True, slots=True)
class ModelSettingsFound(Event):
    """A model in this process has generation settings, by transformers' names, that differ from those that do nothing.

    They are used only if the user asked for that.
    """

    name: str
    settings: Mapping[str, object]
    are_used: bool


@dataclass(frozen=True, slots=True)
class PolicyAsked(Event):
    """A policy is about to be asked for so many answers to each problem."""

    name: str
    problems: int
    answers: int


@dataclass(frozen=True, slots=True)
class CompletionStarted(Event):
    """A completion was handed to a cell or a sandbox; the attempt is 1, or more when it is tried again."""

    index: int
    id: str
    task_id: str
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class CompletionFinished(Event):
    """A completion has its final verdict; so many of all are finished, this one included."""

    result: ScoredCompletion
    finished: int
    of: int


@dataclass(frozen=True, slots=True)
class OpinionFinished(Event):
    """A failed completion was judged again in plain Python, in one process; its result stays as it is."""

    result: ScoredCompletion
    opinion: Opinion


@dataclass(frozen=True, slots=True)
class OpinionsAwaited(Event):
    """Every completion has its result, and so many second opinions are still to come."""

    left: int


@dataclass(frozen=True, slots=True)
class ExecutionFinished(Event):
    """A command of a completion ended in its sandbox, or never got there.

    It is not emitted for canaries, warm-ups and second opinions.

    Attributes:
        sandbox_id: Where it ran; None if there was no sandbox.
        outcome: `success` (it exited 0), `failure` (it exited otherwise) or `error` (a timeout, a lost sandbox).
        index: None for a command of a rollout.
        queue_seconds: How long it waited for its turn; None where it did not wait in a queue.
        startup_seconds: From asking for the sandbox until it ran; None if that is not known, or it ran already, as for
            a cell.
        exec_seconds: From then on until the command had ended; None if it never ran.
        judge_seconds: Of that, the code with its checks, by the clock inside the sandbox.
        error: What went wrong with the sandbox, in one line; empty if nothing did.
        in_cell: Whether it ran in a cell of that sandbox, which others share.
    """

    task_id: str
    sandbox_id: str | None
    outcome: str
    index: int | None = None
    returncode: int | None = None
    queue_seconds: float | None = None
    startup_seconds: float | None = None
    exec_seconds: float | None = None
    judge_seconds: float | None = None
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    error: str = ""
    in_cell: bool = False


@dataclass(frozen=True, slots=True)
class RetryScheduled(Event):
    """A completion will be tried again in a fresh sandbox after a delay; `attempt` is the one that comes."""

    index: int
    attempt: int
    of: int
    reason: str
    delay_seconds: float = 0.0
    id: str = ""
    task_id: str = ""


@dataclass(frozen=True, slots=True)
class CanaryFinished(Event):
    """A known-good program ran to find out whether a completion or the runtime is to blame.

    If it did not pass, the runtime is broken. `sandbox_id` is None if it got no sandbox; `same_sandbox` is whether it
    had the one in which the completion failed.
    """

    index: int
    passed: bool
    sandbox_id: str | None
    same_sandbox: bool
    id: str = ""
    task_id: str = ""


@dataclass(frozen=True, slots=True)
class JudgeMeasured(Event):
    """A model that grades answers has graded answers with known grades; `text` says how far they agree."""

    labels: int
    graded: int
    accuracy: float | None
    kappa: float | None
    text: str


@dataclass(frozen=True, slots=True)
class RolloutStarted(Event):
    """Episodes are about to be played by a model; `episodes` is how many a step has."""

    run_id: str
    model: str
    problems: int
    steps: int
    episodes: int
    concurrency: int


@dataclass(frozen=True, slots=True)
class RolloutStepFinished(Event):
    """A step of episodes is over and written down; the mean reward of the scored episodes is None if there are none.

    Dropped episodes were lost to infrastructure.
    """

    step: int
    reward: float | None
    passed: int
    scored: int
    dropped: int
    seconds: float


@dataclass(frozen=True, slots=True)
class BackendChosen(Event):
    """A model will be trained by this backend of ART: `local`, `tinker` or `embedded`; the reason is a few words."""

    kind: str
    reason: str
    model: str


@dataclass(frozen=True, slots=True)
class ModelChosen(Event):
    """Episodes will be run by this model; place and reason are a few words."""

    name: str
    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class TrainingStarted(Event):
    """A training run starts, or is resumed.

    Attributes:
        first_step: How many steps the model has had; more than 0 if the run is resumed.
        steps: How many it is to have.
        completions: How many completions or episodes a step has, over all processes.
        backend: ART's backend; empty if ART does not train.
        actor: The model of ART's episodes; empty if they are recorded ones.
    """

    run_id: str
    model: str
    problems: int
    first_step: int
    steps: int
    completions: int
    processes: int = 1
    backend: str = ""
    actor: str = ""


@dataclass(frozen=True, slots=True)
class StepStarted(Event):
    """The episodes of a step are about to be run, or read.

    The attempt is 1, or more if the episodes before these had no gradient.
    """

    step: int
    steps: int
    attempt: int
    problems: int


@dataclass(frozen=True, slots=True)
class ProblemPlayed(Event):
    """All episodes of a problem in a step have ended: their rewards in this order, None for each that was dropped.

    So many problems of all have ended, this one included.
    """

    task_id: str
    rewards: tuple[float | None, ...]
    finished: int
    of: int


@dataclass(frozen=True, slots=True)
class TrajectoriesCollected(Event):
    """The episodes of a step have ended, or were read: so many have a reward, others were lost to infrastructure.

    Groups are problems with at least one scored episode; rewards of a useful group differ.
    """

    trajectories: int
    dropped: int
    reward: float | None
    groups: int
    useful_groups: int


@dataclass(frozen=True, slots=True)
class RewardCallFinished(Event):
    """A trainer's call for rewards, counted from 1, was answered; `judged` completions had code and a reward.

    Of the failed ones that were judged again in one process, so many (`disagreements`) pass there.
    """

    number: int
    completions: int
    sandboxes: int
    passed: int
    judged: int
    no_code: int
    cached: int
    unscorable: int
    seconds: float
    second_opinions: int = 0
    disagreements: int = 0
    abstained: int = 0


@dataclass(frozen=True, slots=True)
class StepFinished(Event):
    """A training step is done and written down, with the metrics of `metrics.jsonl`.

    If there is a failure, nothing was trained, and the step does not count. The attempt at the step counts from 1.
    """

    step: int
    steps: int
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    failure: str = ""
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class CheckpointSaved(Event):
    """A checkpoint of the policy after so many steps is complete."""

    step: int
    path: str


@dataclass(frozen=True, slots=True)
class EvaluationStarted(Event):
    """The policy, which has had so many steps, is about to be evaluated on so many problems."""

    step: int
    problems: int


@dataclass(frozen=True, slots=True)
class EvaluationFinished(Event):
    """The policy was evaluated after so many steps; the metrics have the names of `metrics.jsonl`."""

    step: int
    problems: int
    metrics: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class TrainingStopping(Event):
    """The user asked to stop training: the current step is finished and saved first, or it is cancelled."""

    cancel: bool


@dataclass(frozen=True, slots=True)
class FlagRaised(Event):
    """The metrics of a run that is being written show a sign of trouble, for the first time or again.

    Attributes:
        step: The step after which it is raised, from 0.
        name: The flag, a word of docs/reference/metrics.md.
        value: What was compared with the threshold; None if it is not a number.
        threshold: What it was compared with; None if any number would have been good.
        unit: The unit of both, a word of `sandrl.runs.metrics.Unit`.
        fields: The fields that the hint names, as in `sandrl.errors.SandrlError`.
        times: How often it was raised in this job, this time included.
    """

    step: int
    name: str
    message: str
    hint: str
    metrics: tuple[str, ...]
    value: float | None
    threshold: float | None
    unit: str
    fields: tuple[str, ...] = ()
    times: int = 1


@dataclass(frozen=True, slots=True)
class MemberStarted(Event):
    """An evaluation of a set begins, or goes on with what its run has."""

    member: str
    run_id: str
    resumes: bool


@dataclass(frozen=True, slots=True)
class MemberTold(Event):
    """Something happened in an evaluation of a set."""

    member: str
    event: Event


@dataclass(frozen=True, slots=True)
class MemberFinished(Event):
    """An evaluation of a set is over, as so many of all; error and hint are empty if it did not fail.

    `was_complete` means that it was complete before, so nothing was done.
    """

    member: str
    finished: int
    of: int
    error: str = ""
    hint: str = ""
    was_complete: bool = False


@dataclass(frozen=True, slots=True)
class ServiceStarted(Event):
    """A service accepts requests that may name so many problems.

    Its users find the token in `token_place`: a file, or a variable.
    """

    address: str
    token_place: str
    problems: int


@dataclass(frozen=True, slots=True)
class TinkerServed(Event):
    """A service of the Tinker API accepts requests for a model, by the name that clients have for it.

    Its users find the key in `key_place`: a file, or a variable.
    """

    address: str
    model: str
    key_place: str
    has_key_file: bool


@dataclass(frozen=True, slots=True)
class ServiceAsked(Event):
    """Completions are scored by a service."""

    address: str
    total: int


@dataclass(frozen=True, slots=True)
class ServiceLogged(Event):
    """Something for the log of a service, in one line or more; nothing in it was sent by a client."""

    text: str


@dataclass(frozen=True, slots=True)
class ServiceStopping(Event):
    """A service accepts nothing more, and finishes the requests that it has within so many seconds."""

    left: int
    seconds: float
