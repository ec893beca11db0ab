"""The result of a completion: one record, used by the judge and by everything that counts, shows or saves results.

Events carry this record, rows of the run directory are made from it, and totals are counted from it, so a new field is
available in all of these places. Like events, it holds plain values only.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any


class Status(StrEnum):
    """The outcome of a completion.

    Attributes:
        PASSED: Every check passed, and there was at least one check.
        FAILED: A check failed, or the code raised an exception or exited before the checks.
        TIMEOUT: The code, a single check or the compilation exceeded its time limit.
        NO_CODE: No code was found in the completion.
        SYNTAX_ERROR: The code is not valid Python.
        COMPILE_ERROR: The compiler of a language other than Python rejected the code.
        CRASHED: The code was killed by a signal, ended its process, killed its judge, or killed its sandbox every time.
        RESOURCE_LIMIT: The code used up all memory, disk or processes, or flooded its output.
        INVALID_PROBLEM: The problem's own setup, checks, checker or reference fail, or sandboxes cannot run its
            language.
        NOT_ISOLATED: A result cannot be passed between the processes; or isolation was required, and the checks cannot
            be separated from the code.
        INFRASTRUCTURE: After all retries, no sandbox was available, or no sandbox worked.
        REWARD_ERROR: The completion was judged, but the reward policy raised an exception or returned no usable number.
            No judge gives this status.
        JUDGE_ERROR: The completion was judged by its checks, but the model that grades answers gave no grade.
        ABSTAINED: The completion was judged, and the reward policy returned `None`: it gives no reward, on purpose.
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
    JUDGE_ERROR = "judge_error"
    ABSTAINED = "abstained"

    @property
    def scorable(self) -> bool:
        """Whether the status describes the code. If not, the reward is `None`, never 0.0."""
        return self not in _WITHOUT_REWARD

    @property
    def is_lost(self) -> bool:
        """Whether a service failed, sandboxes or the model that grades, so that another attempt may have a reward."""
        return self in (Status.INFRASTRUCTURE, Status.JUDGE_ERROR)


_WITHOUT_REWARD = frozenset(
    {
        *(Status.INVALID_PROBLEM, Status.NOT_ISOLATED, Status.INFRASTRUCTURE),
        *(Status.REWARD_ERROR, Status.JUDGE_ERROR, Status.ABSTAINED),
    }
)


class Trust(StrEnum):
    """How strongly a pass can be relied on.

    Attributes:
        ISOLATED: The expected values were never in the process that ran the completion.
        OWN_OPERATOR: They were not, but a check passed because an operator of the completion's own class, such as
            `==`, said so of its own objects, and neither the reference's class nor the objects' values confirm it.
        IN_PROCESS: They were in it, because the checks could not be split from the completion.
        EXIT_STATUS: Only the exit status was checked.
        SEPARATE: The verifier of a task ran in a fresh sandbox, from what was collected of the agent's.
        SHARED: The verifier of a task ran in the agent's sandbox, where what the agent left behind may deceive it.
    """

    ISOLATED = "isolated"
    OWN_OPERATOR = "own_operator"
    IN_PROCESS = "in_process"
    EXIT_STATUS = "exit_status"
    SEPARATE = "separate"
    SHARED = "shared"


class Isolation(StrEnum):
    """How a completion was isolated from other completions.

    Attributes:
        CELL: A cell of a worker sandbox: namespaces, files and limits of its own, deleted after the verdict.
        SANDBOX: A fresh sandbox.
    """

    CELL = "cell"
    SANDBOX = "sandbox"


class CheckStatus(StrEnum):
    """The outcome of one check.

    Attributes:
        PASSED: It passed.
        FAILED: It failed, or the code died in it.
        TIMEOUT: It exceeded its time limit.
        NOT_REACHED: It did not begin, because the code failed before it, or ran out of time.
        NOT_RUN: It was skipped, because a check before it had failed and the reward does not depend on the others.
        UNCOUNTED: It passed, but then the code died or exceeded the time limit of all checks, so no check counts.
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
    """The result of one check of a completion.

    Attributes:
        status: The outcome.
        detail: The reason, in one line; partly written by the model. Empty if there is no reason, or no room for it.
        name: The name of its test function; empty if it has none.
        score: The part of it that the problem's checker gives, between 0 and 1; `None` without a partial score.
        got: For a failed check, what the code returned or printed, up to a bounded length; partly written by the model.
            `None` if it is not known, or the check compares nothing.
        expected: The expected value or output, up to a bounded length; `None` if it is not known.
        line: The line of the check's source that failed, from 1; `None` if it is not known.
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
        """Its share of a full check, from 0.0 to 1.0."""
        return 1.0 if self.status is CheckStatus.PASSED else self.score or 0.0


@dataclass(frozen=True, slots=True)
class Opinion:
    """A second opinion: the result of a failed isolated completion in plain Python, in one process.

    Attributes:
        status: The outcome; `infrastructure` if there is no opinion because its sandbox failed.
        detail: The reason, in one line; partly written by the model.
        sandbox_id: The sandbox in which it ran; `None` if there was none.
        sandboxes: Number of sandboxes it ran in; more than one if the runtime ended meanwhile, and 0 if this is the
            opinion on an identical completion.
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
    """The result of one completion: its verdict, its reward, and how it was judged.

    Attributes:
        index: Position in the input, from 0.
        id: The completion's own id.
        task_id: The problem it answers.
        reward: The reward of the reward policy, without components; `None` if the completion could not be scored.
        status: The outcome.
        trust: How strongly a pass can be relied on; `None` if nothing ran.
        passed: Number of checks that passed.
        total: Number of checks.
        duration_seconds: Time from its submission to its verdict, including the start of the sandbox.
        sandbox_id: The sandbox in which it ran; `None` if nothing ran.
        detail: The reason, in one line; partly written by the model.
        sandboxes: Number of executions, without those of the canary; 0 if it did not run itself.
        retries: How many of these executions followed a failed one.
        reruns: How many of these executions had another reason: to judge the completion in one process.
        canaries: How often the canary ran to determine whether the completion or the runtime caused a failure.
        cells: How many of these executions were in a worker sandbox; each of the others had its own sandbox.
        isolation: How the last execution was isolated; `None` if it did not run itself.
        failures: Failures of sandboxes, oldest first.
        cached: Whether the verdict is that of an identical completion.
        components: Components by name; not part of `reward`.
        cpu_seconds: Processor time.
        compile_seconds: Wall time of its compilation; 0 if nothing was compiled.
        code: The code that was extracted and run; `None` if there was none.
        stdout: Its standard output, up to the limit of the options.
        stderr: Its standard error, up to the limit of the options.
        truncated: Whether it printed more than was kept.
        checks: The result of each check, in their order; empty if they are not known.
        second_opinion: Its result in one process; `None` if it was not requested.
        hash_seeds: Its outcomes under other hash seeds, by seed; empty if it was judged under one alone.
        why_in_process: If it was judged in one process, how it failed apart from its checks before; empty if that was
            not tried.
        finish_reason: Why the model's answer ended, in the endpoint's word; `None` if it is not known.
        image: The image in which it was judged, with its digest, if its problem names one.
        score: The reward that the verifier of a task gave; `None` if there is none. `reward` is what the policy made of
            it.
        scores: All numbers that the verifier of a task wrote, by name; empty if it wrote a single one.
        states: Digests of the final states of a task's machine, one for each step; empty if none was kept.
        state_bytes: Packed size of the last of these states, also if none was kept; None if there was none.
        processes: Names of the programs that the agent of a task left running, at most 32; empty where nobody asked.
        phases: How long the phases of a task's trial took, in seconds, by name.
        verifier_failures: How many runs of the verifier left no valid reward, in steps where a later run left one.
        reached: Where programs have been connected to, as `HOST:PORT`, until the end of the agent (`agent`) and during
            the verifier (`verifier`); `None` if the runtime did not observe it.
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
    hash_seeds: dict[str, str] = field(default_factory=dict)
    why_in_process: str = ""
    finish_reason: str | None = None
    image: str = ""
    score: float | None = None
    scores: dict[str, float] = field(default_factory=dict)
    states: tuple[str, ...] = ()
    state_bytes: int | None = None
    processes: tuple[str, ...] = ()
    phases: dict[str, float] = field(default_factory=dict, repr=False)
    verifier_failures: int = 0
    reached: dict[str, tuple[str, ...]] | None = field(default=None, repr=False)

    @property
    def is_cut_off(self) -> bool:
        """Whether the model's answer was cut off at a token limit."""
        return is_cut_off(self.finish_reason)

    @property
    def is_pass(self) -> bool:
        """Whether there was at least one check, and every check passed."""
        return passes(self.status, self.passed, self.total)

    @property
    def depends_on_hash_seed(self) -> bool:
        """Whether its outcome under another hash seed is another one."""
        return self.status is not Status.INFRASTRUCTURE and any(
            outcome != self.status.value for outcome in self.hash_seeds.values()
        )

    @property
    def brief(self) -> dict[str, Any]:
        """Its fields without those that may be long, as plain data: a line of a log."""
        shown = {name: getattr(self, name) for name in _BRIEF}
        opinion = self.second_opinion
        return {**shown, "second_opinion": None if opinion is None else asdict(opinion)}

    def without_output(self) -> ScoredCompletion:
        """The same without its code and what it printed, which may be megabytes."""
        return replace(self, code=None, stdout="", stderr="")

    def without_texts(self) -> ScoredCompletion:
        """The same without what may be long: code, output and single checks."""
        return replace(self, **_TEXTS)


# What is left out of the representation of a result, as it is of a log.
_TEXTS: dict[str, Any] = {
    each.name: each.default
    for each in fields(ScoredCompletion)
    if not each.repr and each.name not in ("phases", "reached")
}
_BRIEF = tuple(each.name for each in fields(ScoredCompletion) if each.repr)


def passes(status: str, passed: int, total: int) -> bool:
    """Whether a completion has passed every check, and there was one."""
    return status == Status.PASSED and passed == total > 0


# The words of APIs for an answer that reached a limit of tokens, or the end of the model's context.
_CUT_OFF = frozenset(
    {
        *("length", "max_length", "max_tokens", "max_output_tokens", "max_completion_tokens", "max_new_tokens"),
        *("token_limit", "model_length", "context_length", "model_context_window_exceeded", "incomplete"),
    }
)


def is_cut_off(finish_reason: str | None) -> bool:
    """Whether an answer that ended for this reason was cut off at a token limit."""
    return finish_reason is not None and finish_reason.strip().lower() in _CUT_OFF
