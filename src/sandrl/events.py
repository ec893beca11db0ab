"""What happens while sandrl works, as typed facts.

The design decision: library code never prints. It calls an `Emit` with one of these frozen records, and whoever started
the work decides what to do with it: the command line draws, a trainer logs, a test collects. Records carry plain values
only, so that this module depends on nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias


class LogLevel(StrEnum):
    """How much of what happens is logged: each level has those after it, too."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened."""


Emit: TypeAlias = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Drops the event: the `Emit` of those who do not care."""


def all_of(*listeners: Emit) -> Emit:
    """An `Emit` that tells several, in this order."""

    def tell(event: Event) -> None:
        for listener in listeners:
            listener(event)

    return tell


@dataclass(frozen=True, slots=True)
class RuntimeChosen(Event):
    """Sandboxes will come from this runtime.

    Attributes:
        kind: `local` or `remote`.
        reason: Why, in a few words.
        address: Where it is reached.
        image: The container image of its sandboxes.
        isolation: How the local runtime isolates; empty for the remote one.
    """

    kind: str
    reason: str
    address: str
    image: str
    isolation: str = ""


@dataclass(frozen=True, slots=True)
class RuntimeStarting(Event):
    """The local runtime's daemon is being started; this takes a moment."""

    message: str


@dataclass(frozen=True, slots=True)
class JobStarted(Event):
    """A job begins to own sandboxes.

    Attributes:
        job_id: The tag that finds all of its sandboxes.
        total: How many completions it will score; 0 when unknown.
        concurrency: How many sandboxes it works with at once.
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
class StopFinished(Event):
    """One of many sandboxes that are being cleaned up was dealt with.

    Attributes:
        sandbox_id: Which.
        outcome: `stopped`, `already gone` or `failed`.
        detail: Why it failed, in one line.
        finished: How many were dealt with, this one included.
        of: How many there are.
    """

    sandbox_id: str
    outcome: str
    detail: str
    finished: int
    of: int


@dataclass(frozen=True, slots=True)
class CompletionStarted(Event):
    """A completion was handed to a sandbox.

    Attributes:
        index: Position in the input, from 0.
        id: The completion's own id.
        task_id: The problem it answers.
        attempt: 1, or more when it is tried again.
    """

    index: int
    id: str
    task_id: str
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class CompletionFinished(Event):
    """A completion has its final verdict.

    Attributes:
        index: Position in the input, from 0.
        id: The completion's own id.
        task_id: The problem it answers.
        status: A `sandrl.rewards.Status`.
        reward: The reward, or None where nothing can be said about the code.
        passed: Checks passed.
        total: Checks there are.
        duration_seconds: From handing it over to its verdict.
        detail: Why, in one line; text of the model's making, to be shown with care.
        finished: How many completions are finished, this one included.
        of: How many there are.
        sandboxes: How many sandboxes it was run in.
        retries: How many of these followed one that failed.
        reruns: How many were for another reason.
        canaries: How often a known-good program was run because of it.
        cached: Whether the verdict is that of an identical completion.
        components: What it earned besides the reward, by name.
    """

    index: int
    id: str
    task_id: str
    status: str
    reward: float | None
    passed: int
    total: int
    duration_seconds: float
    detail: str
    finished: int
    of: int
    sandboxes: int = 0
    retries: int = 0
    reruns: int = 0
    canaries: int = 0
    cached: bool = False
    components: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExecutionFinished(Event):
    """A command of a completion ended in its sandbox, or never got there. Canaries and warm-ups are not told.

    Attributes:
        task_id: The problem it belongs to.
        sandbox_id: Where it ran; None if there was no sandbox.
        outcome: `success` (it exited 0), `failure` (it exited otherwise) or `error` (a timeout, a lost sandbox).
        index: Position of the completion in the input, from 0; None for a command of a rollout.
        returncode: Its exit code; None if it has none.
        queue_seconds: How long it waited for its turn; None where it did not wait in a queue.
        startup_seconds: From asking for the sandbox until it ran; None if that is not known, or it ran already.
        exec_seconds: From then on until the command had ended; None if it never ran.
        judge_seconds: Of that, the code with its checks, by the clock inside the sandbox.
        stdout_bytes: How much the code printed.
        stderr_bytes: How much it printed as errors.
        error: What went wrong with the sandbox, in one line; empty if nothing did.
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


@dataclass(frozen=True, slots=True)
class RetryScheduled(Event):
    """A completion will be tried again in a fresh sandbox.

    Attributes:
        index: Position in the input, from 0.
        attempt: The number of the coming attempt.
        of: How many attempts there will be, as far as is known.
        reason: What went wrong.
        delay_seconds: How long it waits before that.
    """

    index: int
    attempt: int
    of: int
    reason: str
    delay_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class CanaryFinished(Event):
    """A known-good program ran to find out whether a completion or the runtime is to blame.

    Attributes:
        index: Position of the completion in the input, from 0.
        passed: Whether it got the verdict it must get; if not, the runtime is broken.
        sandbox_id: Where it ran; None if it got no sandbox.
        same_sandbox: Whether that is the one the completion failed in.
    """

    index: int
    passed: bool
    sandbox_id: str | None
    same_sandbox: bool


@dataclass(frozen=True, slots=True)
class ReportingStarted(Event):
    """Metrics go to Weights & Biases, too.

    Attributes:
        run_id: The W&B run.
        place: Its address, or the directory in which it waits to be synced.
        is_online: Whether it is uploaded as it goes.
    """

    run_id: str
    place: str
    is_online: bool


@dataclass(frozen=True, slots=True)
class StopRequested(Event):
    """The user asked to stop.

    Attributes:
        cancel: False: what is in flight is finished first; True: it is cancelled.
        in_flight: How many sandboxes are at work.
    """

    cancel: bool
    in_flight: int


@dataclass(frozen=True, slots=True)
class CreationSlowed(Event):
    """The service has no room for more sandboxes; what has none yet waits, and fails for no such reason.

    Attributes:
        reason: What the service says.
        delay_seconds: How long until the next is asked for.
    """

    reason: str
    delay_seconds: float


@dataclass(frozen=True, slots=True)
class CleaningUp(Event):
    """The job is waiting for its last sandboxes to be gone."""

    sandboxes: int


@dataclass(frozen=True, slots=True)
class Warned(Event):
    """Something the user should know that stops nothing.

    Attributes:
        message: What, in one line.
        hint: What to do about it, in one line.
    """

    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class PolicyBuilding(Event):
    """A policy is being made.

    Attributes:
        name: Its name.
        stage: What it learns from.
        step: The step in that stage, from 1.
        right: The share of right answers it samples by now; None where it was not measured.
    """

    name: str
    stage: str
    step: int
    right: float | None = None


@dataclass(frozen=True, slots=True)
class PolicyReady(Event):
    """A policy can be loaded.

    Attributes:
        name: Its name.
        path: Its directory.
        seconds: How long it took.
        cached: Whether it was there already.
    """

    name: str
    path: str
    seconds: float
    cached: bool


@dataclass(frozen=True, slots=True)
class TrainingStarted(Event):
    """A training run begins, or goes on.

    Attributes:
        run_id: Its name.
        model: What is trained.
        problems: How many problems it trains on.
        first_step: The first step it will do, from 0; more than 0 where it goes on.
        steps: How many steps it has in all.
        completions: How many completions a step has, over all processes.
        processes: How many processes train together.
    """

    run_id: str
    model: str
    problems: int
    first_step: int
    steps: int
    completions: int
    processes: int = 1


@dataclass(frozen=True, slots=True)
class RewardCallFinished(Event):
    """A trainer's call for rewards was answered.

    Attributes:
        number: Which call it was, from 1.
        completions: How many completions it was about.
        sandboxes: How many sandboxes these were run in.
        passed: How many passed every check.
        judged: How many had code and a reward.
        no_code: How many had nothing to run.
        cached: How many got the verdict of an identical one.
        unscorable: How many have no reward.
        seconds: How long it took.
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


@dataclass(frozen=True, slots=True)
class StepFinished(Event):
    """A training step is done and written down.

    Attributes:
        step: Which one, from 0.
        steps: How many there are.
        metrics: Its metrics, by the names that `metrics.jsonl` has them under.
    """

    step: int
    steps: int
    metrics: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class RolloutStarted(Event):
    """Episodes are about to be played.

    Attributes:
        run_id: The name of the run.
        model: Who plays them.
        problems: On how many problems.
        steps: In how many steps.
        episodes: How many episodes a step has.
        concurrency: How many are played at once.
    """

    run_id: str
    model: str
    problems: int
    steps: int
    episodes: int
    concurrency: int


@dataclass(frozen=True, slots=True)
class RolloutStepFinished(Event):
    """A step of episodes is over and written down.

    Attributes:
        step: Which one, from 0.
        reward: Mean reward of the scored episodes; None if there is none.
        passed: How many passed every check.
        scored: How many have a reward.
        dropped: How many were lost to infrastructure.
        seconds: How long the step took.
    """

    step: int
    reward: float | None
    passed: int
    scored: int
    dropped: int
    seconds: float


@dataclass(frozen=True, slots=True)
class CheckpointSaved(Event):
    """A checkpoint is complete.

    Attributes:
        step: How many steps the policy in it has had.
        path: Where it is.
    """

    step: int
    path: str


@dataclass(frozen=True, slots=True)
class EvaluationStarted(Event):
    """The policy is about to be evaluated.

    Attributes:
        step: How many steps it has had.
        problems: On how many problems.
    """

    step: int
    problems: int


@dataclass(frozen=True, slots=True)
class EvaluationFinished(Event):
    """The policy was evaluated.

    Attributes:
        step: How many steps it has had.
        pass_at_1: The share of problems that a sampled completion passes; None if none could be scored.
        scored: How many completions that is about.
    """

    step: int
    pass_at_1: float | None
    scored: int


@dataclass(frozen=True, slots=True)
class TrainingStopping(Event):
    """The user asked to stop training.

    Attributes:
        cancel: False: the step in hand is finished and saved first; True: it is given up.
    """

    cancel: bool


@dataclass(frozen=True, slots=True)
class PolicyAsked(Event):
    """A policy is about to be asked.

    Attributes:
        name: Its name.
        problems: How many problems it is shown.
        answers: How many answers it gives to each.
    """

    name: str
    problems: int
    answers: int
