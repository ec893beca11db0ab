"""The result of a completion: one record, used by the judge and by everything that counts, shows or saves results.

Events carry this record, rows of the run directory are made from it, and totals are counted from it, so a new field is
available in all of these places. Like events, it holds plain values only.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any


class Status(StrEnum):
    """What happened to a completion.

    No judge gives `REWARD_ERROR`: it is a result whose verdict the reward policy could not turn into a number.
    """

    PASSED = "passed"
    FAILED = "failed"
    TIMEOUT = "timeout"
    NO_CODE = "no_code"
    SYNTAX_ERROR = "syntax_error"
    COMPILE_ERROR = "compile_error"
    CRASHED = "crashed"
    RESOURCE_LIMIT = "resource_limit"
    INVALID_PROBLEM = "invalid_problem"
    NOT_ISOLATED = "not_isolated"
    INFRASTRUCTURE = "infrastructure"
    REWARD_ERROR = "reward_error"

    @property
    def scorable(self) -> bool:
        """Whether the status says something about the code; if not, the reward is None, never 0.0."""
        return self not in _UNSCORABLE


_UNSCORABLE = frozenset({Status.INVALID_PROBLEM, Status.NOT_ISOLATED, Status.INFRASTRUCTURE, Status.REWARD_ERROR})


class Trust(StrEnum):
    """How far a passing verdict can be believed.

    Attributes:
        ISOLATED: The expected values were never in the process that ran the completion.
        IN_PROCESS: They were, because the checks could not be split from it.
        EXIT_STATUS: Nothing but the exit status was checked.
    """

    ISOLATED = "isolated"
    IN_PROCESS = "in_process"
    EXIT_STATUS = "exit_status"


class Isolation(StrEnum):
    """What kept a completion from others.

    Attributes:
        CELL: A cell of a worker sandbox: namespaces, files and limits of its own, gone with the verdict.
        SANDBOX: A fresh sandbox.
        PROCESS: A user id of its own in a sandbox that others share, whose network, memory and disk it shares, too.
    """

    CELL = "cell"
    SANDBOX = "sandbox"
    PROCESS = "process"


class CheckStatus(StrEnum):
    """What happened in one check.

    Attributes:
        PASSED: It passed.
        FAILED: It did not, or the code died in it.
        TIMEOUT: It took longer than it may.
        NOT_REACHED: It did not begin, because the code failed before it, or ran out of time.
        NOT_RUN: It was left out, because a check before it had failed, and the reward asks for no more.
        UNCOUNTED: It passed, but then the code died, or took all the time there is: nothing of such code counts.
        INVALID: The problem's own checker failed on it.
    """

    PASSED = "passed"
    FAILED = "failed"
    TIMEOUT = "timeout"
    NOT_REACHED = "not_reached"
    NOT_RUN = "not_run"
    UNCOUNTED = "uncounted"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class CheckVerdict:
    """What happened in one check of a completion.

    Attributes:
        status: The outcome.
        detail: Why, in one line; partly the model's words; empty where there is nothing to say, or no room for it.
        name: The name of its test function; empty where it has none.
        score: What the problem's checker gives for it, between 0 and 1, where that is a part of it; None otherwise.
        got: Of a failed check, what the code returned or printed, as much as was kept; partly the model's words. None
            where that is not known, or the check compares nothing.
        expected: What it should have been, as much as was kept; None where it is not known.
        line: The line of the check's source that failed, from 1; None where it is not known.
    """

    status: CheckStatus
    detail: str = ""
    name: str = ""
    score: float | None = None
    got: str | None = None
    expected: str | None = None
    line: int | None = None

    @property
    def points(self) -> float:
        """What it is worth of 1."""
        return 1.0 if self.status is CheckStatus.PASSED else self.score or 0.0


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a completion does in plain Python, in one process, after it failed where its checks are kept apart.

    Attributes:
        status: What happened; `infrastructure` if there is no opinion because its sandbox failed.
        detail: Why, in one line; partly the model's words.
        sandbox_id: Where it ran; None if there was no sandbox.
        sandboxes: How many it was run in, more than one where the runtime ended meanwhile; 0 if this is the opinion on
            an identical completion.
    """

    status: Status
    detail: str = ""
    sandbox_id: str | None = None
    sandboxes: int = 1

    @property
    def is_disagreement(self) -> bool:
        """Whether the failed completion passes in one process."""
        return self.status is Status.PASSED

    @property
    def is_available(self) -> bool:
        """Whether there is an opinion."""
        return self.status is not Status.INFRASTRUCTURE


@dataclass(frozen=True, slots=True)
class ScoredCompletion:
    """A completion, what happened to it, and what it earned.

    Attributes:
        index: Position in the input, from 0.
        id: The completion's own id.
        task_id: The problem it answers.
        reward: What the reward policy gives; None where nothing can be said about the code.
        status: What happened.
        trust: How far that can be believed; None if nothing ran.
        passed: Checks passed.
        total: Checks there are.
        duration_seconds: From handing it over to its verdict, the start of the sandbox included.
        sandbox_id: Where it ran; None if nothing ran.
        detail: Why, in one line; partly the model's words.
        sandboxes: How many it was run in, the canary's not counted; 0 if it did not run itself.
        retries: How many of these followed one that failed.
        reruns: How many were for another reason: to judge the completion in one process.
        canaries: How often a known-good program was run to find out whom to blame.
        cells: How many of these executions were in a worker sandbox; the others had a sandbox each.
        isolation: How the last of them was isolated; None if it did not run itself.
        failures: What went wrong with sandboxes, oldest first.
        cached: Whether the verdict is that of an identical completion.
        components: What it earned besides the reward, by name; not part of it.
        cpu_seconds: How long it was on a processor.
        compile_seconds: How long its compilation took, by the clock; 0 where nothing was compiled.
        code: What was extracted and run; None if there was none.
        stdout: What it printed, as much as was kept.
        stderr: What it printed as errors, as much as was kept.
        truncated: Whether it printed more than was kept.
        checks: What happened in each check, in their order; empty where that is not known.
        second_opinion: What it does in one process; None if that was not asked.
        why_in_process: Of one judged in one process, how it failed apart from its checks before; empty if not tried.
    """

    index: int
    id: str
    task_id: str
    reward: float | None
    status: Status
    trust: Trust | None
    passed: int
    total: int
    duration_seconds: float
    sandbox_id: str | None
    detail: str
    sandboxes: int = 0
    retries: int = 0
    reruns: int = 0
    canaries: int = 0
    cells: int = 0
    isolation: Isolation | None = None
    failures: tuple[str, ...] = ()
    cached: bool = False
    components: dict[str, float] = field(default_factory=dict)
    cpu_seconds: float = 0.0
    compile_seconds: float = 0.0
    code: str | None = field(default=None, repr=False)
    stdout: str = field(default="", repr=False)
    stderr: str = field(default="", repr=False)
    truncated: bool = False
    checks: tuple[CheckVerdict, ...] = field(default=(), repr=False)
    second_opinion: Opinion | None = None
    why_in_process: str = ""

    @property
    def is_pass(self) -> bool:
        """Whether every check passed, and there was one."""
        return passes(self.status, self.passed, self.total)

    @property
    def brief(self) -> dict[str, Any]:
        """Its fields without those that may be long, as plain data: a line of a log."""
        shown = {name: getattr(self, name) for name in _BRIEF}
        opinion = self.second_opinion
        return {**shown, "second_opinion": None if opinion is None else asdict(opinion)}

    def without_output(self) -> ScoredCompletion:
        """The same without what it printed, which may be megabytes."""
        return replace(self, stdout="", stderr="") if self.stdout or self.stderr else self

    def without_texts(self) -> ScoredCompletion:
        """The same without what may be long: code, output and single checks."""
        return replace(self, **_TEXTS)


# What is left out of the representation of a result, as it is of a log.
_TEXTS: dict[str, Any] = {each.name: each.default for each in fields(ScoredCompletion) if not each.repr}
_BRIEF = tuple(each.name for each in fields(ScoredCompletion) if each.repr)


def passes(status: str, passed: int, total: int) -> bool:
    """Whether a completion has passed every check, and there was one."""
    return status == Status.PASSED and passed == total > 0
