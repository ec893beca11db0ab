"""The attempts to judge one completion: which failures have happened, and whether the completion caused them.

The order of failures alone decides this, in a small state machine that touches no sandbox.

If a launch never got a sandbox, the completion is not the cause: its code did not run. If a sandbox was lost while the
code ran, the cause is unclear. The completion is retried, and when the retries are used up, the canary runs. If the
canary fails, the runtime is broken and the completion has no reward. If it passes, the completion runs once more on
the runtime that now works, and the canary after it: only a failure between two canaries that passed is counted against
the completion. An outage that ends in the meantime is therefore never counted against a completion.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import Enum, auto

from sandrl.events import ExecutionFinished
from sandrl.events.results import Status
from sandrl.judge.guest_report import Execution
from sandrl.judge.verdict import Verdict
from sandrl.problems import Completion, Problem
from sandrl.sandboxes import CommandOutcome, Launch
from sandrl.scoring.context import ScoringContext
from sandrl.trials.answers import Patch, Script, answer_of
from sandrl.trials.trial import Agent

# So many failures that a stall explains are forgiven: code that fails for its own reasons must not go on for ever.
_MOST_STALLS = 10
# The same for failures that the end of the runtime explains: code that ends it must not do so for ever.
MOST_MOVES = 10
# So often the sandbox must outlast its limit, while everything else works, until that is the code's doing.
_LATE_ENDS = 2
# So often a failure with a stop in it is forgiven: only a stop that comes again in a sandbox of its own is the code's.
_MOST_STOPS = 2
_LATE = "the runtime ended the judge, whose own clock was earlier"


class Step(Enum):
    """What to do next with a completion that has no verdict."""

    RETRY = auto()
    """Run it again in a fresh sandbox."""
    MOVE = auto()
    """The same, at once: the runtime ended, and the job has another one."""
    ASK_CANARY = auto()
    """Run the canary."""
    BLAME_RUNTIME = auto()
    """Give up: `infrastructure`, no reward."""
    BLAME_CODE = auto()
    """Give up: `crashed`, 0.0."""


@dataclass(slots=True, eq=False)
class Attempt:
    """A completion on its way to its result.

    Attributes:
        index: Position in the input, from 0.
        agent: Who acts on the machine of a task; None for other problems.
        code: What was extracted from it; None before that, and if there is none.
        key: Names its verdict in the cache; None if it was not looked for there.
        whole_key: Names a verdict on all checks, where its own may leave some out.
        leads: Whether others may wait for its verdict.
        executions: How often it was handed to a cell or a sandbox.
        cells: How many of these were in a cell of a worker sandbox.
        alone: Whether it needs a sandbox of its own, because it had no verdict in a cell.
        retries: How many executions followed a failure.
        reruns: How many were for another reason: to judge it in one process.
        canaries: How often known code ran because of it.
        failures: What went wrong, oldest first.
        unreached: How many failures came before there was a sandbox.
        broken: How many came while the code ran.
        stalls: How many are explained by a stall of this process or the runtime, and count as neither.
        moves: How many are explained by the end of the runtime, which another one has replaced; they count as neither.
        late_ends: How often the runtime ended the judge, whose own clock should have been earlier.
        stops: How often one of its processes, or its sandbox, was seen to be stopped, and it did not pass.
        is_vouched: Whether the canary has passed since the retries were used up.
        suspect: The last launch, kept because its sandbox is to be tried with the canary.
        doubted: A verdict that counts only if the canary passes in the same sandbox.
        why_in_process: Why it could not be judged apart from its checks; empty if it was, or was not tried.
    """

    index: int
    completion: Completion
    problem: Problem
    context: ScoringContext
    agent: Agent | None = None
    code: str | None = None
    key: str | None = None
    whole_key: str = ""
    leads: bool = False
    executions: int = 0
    cells: int = 0
    alone: bool = False
    retries: int = 0
    reruns: int = 0
    canaries: int = 0
    failures: list[str] = field(default_factory=list)
    unreached: int = 0
    broken: int = 0
    stalls: int = 0
    moves: int = 0
    late_ends: int = 0
    stops: int = 0
    is_vouched: bool = False
    queued_at: float = field(default_factory=time.monotonic)
    began: float = 0.0
    execution: Execution | None = None
    sandbox_id: str | None = None
    suspect: Launch | None = None
    doubted: Verdict | None = None
    why_in_process: str = ""

    def take_agent(self) -> None:
        """Finds who acts on the machine of a task in the completion, unless that is known."""
        if self.agent is not None:
            return
        self.agent = answer_of(self.completion, self.context.options.extraction)
        if isinstance(self.agent, Patch | Script):
            self.code = self.agent.text

    def end_late(self, *, has_stalled: bool) -> Step:
        """What follows where the runtime ended the judge because the judge's own clock did not.

        A stall makes every deadline pass while nothing runs, and whatever runs afterwards passes again, the canary
        included. So the first time says nothing, nor does one with a stall in it; the canary is asked after the second.
        """
        self.failures.append(_LATE)
        if has_stalled and self.stalls < _MOST_STALLS:
            self.stalls += 1
            return Step.RETRY
        self.late_ends += 1
        return Step.RETRY if self.late_ends < _LATE_ENDS else Step.ASK_CANARY

    def fail(self, reason: str, *, has_run: bool, has_stalled: bool = False, has_moved: bool = False) -> Step:
        """What follows from a failure.

        Args:
            has_run: Whether there was a sandbox, so that the code may have run in it.
            has_stalled: Whether this process or the runtime did nothing for a while in the meantime.
            has_moved: Whether its runtime ended, and another one has taken the place of it.
        """
        retries = self.context.options.retries
        self.failures.append(reason)
        if has_moved and self.moves < MOST_MOVES:
            self.moves += 1
            return Step.MOVE
        if has_stalled and self.stalls < _MOST_STALLS:
            self.stalls += 1
            return Step.RETRY
        if not has_run:
            self.unreached += 1
            return Step.BLAME_RUNTIME if self.unreached > retries else Step.RETRY
        self.broken += 1
        return Step.ASK_CANARY if self.is_vouched or self.broken > retries else Step.RETRY

    def may_have_been_stopped(self) -> bool:
        """Whether it runs again because it failed, and a stop was seen, which anybody may have sent."""
        self.stops += 1
        return self.stops <= _MOST_STOPS

    def leave_cell(self, reason: str) -> None:
        """Notes that there was no verdict in a cell, which blames nobody; it runs again in a sandbox of its own."""
        self.failures.append(reason)
        self.retries += 1
        self.alone = True

    def hear_canary(self, *, passed: bool) -> Step:
        """What follows from how the canary fared after a failure."""
        if not passed:
            return Step.BLAME_RUNTIME
        if self.is_vouched:
            return Step.BLAME_CODE
        self.is_vouched = True
        return Step.RETRY


def execution_finished(
    attempt: Attempt,
    launch: Launch,
    outcome: CommandOutcome | None = None,
    verdict: Verdict | None = None,
    error: str = "",
) -> ExecutionFinished:
    """The record of one execution of a completion, for the metrics and the log of a run.

    A timeout is an error of the execution wherever it was enforced, as in the SDK's own counters.
    """
    startup = None if launch.in_cell else launch.startup_seconds
    return ExecutionFinished(
        task_id=attempt.completion.task_id,
        sandbox_id=launch.sandbox_id if outcome is None else outcome.sandbox_id or None,
        outcome=_outcome(outcome, verdict),
        index=attempt.index,
        returncode=None if outcome is None else outcome.exit_code,
        queue_seconds=launch.launched_at - attempt.queued_at if attempt.executions == 1 else None,
        startup_seconds=startup,
        exec_seconds=None if outcome is None else max(outcome.seconds - (startup or 0.0), 0.0),
        judge_seconds=None if verdict is None else verdict.wall_seconds,
        stdout_bytes=0 if verdict is None else verdict.stdout_bytes,
        stderr_bytes=0 if verdict is None else verdict.stderr_bytes,
        error=error,
        in_cell=launch.in_cell,
    )


def _outcome(outcome: CommandOutcome | None, verdict: Verdict | None) -> str:
    # The judge's command exits 0 on a pass and 1 on a fail.
    if outcome is None or verdict is None or verdict.status in (Status.TIMEOUT, Status.INFRASTRUCTURE):
        return "error"
    return "success" if outcome.exit_code == 0 else "failure"
