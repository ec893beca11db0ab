"""The verdict on a completion, with a closed set of statuses.

A `Verdict` describes what the code did. A reward policy (`sandrl.scoring.policies`) turns it into a number, or into
`None` if nothing can be said about the code. Its statuses are those of the results in events.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from sandrl.events.results import CheckStatus, CheckVerdict, ScoredCompletion, Status, Trust, passes
from sandrl.problems import Completion, Problem

_NUMBERED = re.compile(r"check (\d+) of \d+")


@dataclass(frozen=True, slots=True)
class ReferenceValues:
    """What a problem's reference returned, call by call.

    This machine never decodes the values: on it they are text with a digest. The duration is kept because it decides
    how long a completion may take.

    Attributes:
        packed: The values, as the judge's program in the sandbox has packed them, and will receive them back.
        sizes: How many bytes each takes once it is unpacked.
        seconds: How long each call took.
        floats: For each call `f` where it returned a float, or a list or tuple of floats, else `-`.
    """

    packed: str
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    floats: str

    def __post_init__(self) -> None:
        if not len(self.sizes) == len(self.seconds) == len(self.floats):
            raise ValueError("these belong to different calls")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of judging one completion.

    Attributes:
        trust: How strongly a pass can be relied on; `None` if nothing ran.
        detail: The reason, in one line. It may contain text of the model: do not trust it, and escape it before
            printing.
        wall_seconds: How long the code ran, by the clock inside the sandbox.
        cpu_seconds: Processor time of the code.
        starved_seconds: How long the code waited for a processor; negative if the kernel does not report it.
        compile_seconds: Wall time of its compilation; not part of the times above.
        stdout: Its standard output, up to `Limits.max_output_bytes`; `stderr` likewise.
        stdout_bytes: Size of its whole standard output; `stderr_bytes` likewise.
        truncated: Whether it printed more than was kept.
        checks: The result of each check, in their order; empty if they are not known, because nothing ran or the judge
            was killed.
        returned: What the calls of the problem's reference returned, if the reference ran to determine the expected
            values.
        score: The reward that the verifier of a task gave; `None` for other problems.
        scores: All numbers that it wrote, by name; empty if it wrote a single one.
        states: Digests of the final states of a task's machine, one for each step; empty if none was kept.
        state_bytes: Packed size of the last of these states, also if none was kept; None if there was none.
        processes: Names of the programs that the agent of a task left running, at most 32; empty where nobody asked.
        phases: How long the phases of a task's trial took, in seconds, by name.
        verifier_failures: How many runs of the verifier left no valid reward, in steps where a later run left one.
        reached: Where programs have been connected to, as `HOST:PORT`, until the end of the agent (`agent`) and during
            the verifier (`verifier`); `None` if the runtime did not observe it.
        sandbox_id: The first sandbox of a task's trial; `None` if there was none, and for other problems.

    Raises:
        ValueError: If `checks` contradicts `passed` and `total`, and no verifier gave a `score`: where its report
            contradicts its reward, the reward counts.
    """

    status: Status
    trust: Trust | None
    passed: int = 0
    total: int = 0
    detail: str = ""
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    starved_seconds: float = 0.0
    compile_seconds: float = 0.0
    stdout: str = ""
    stderr: str = ""
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    truncated: bool = False
    checks: tuple[CheckVerdict, ...] = ()
    returned: ReferenceValues | None = None
    score: float | None = None
    scores: dict[str, float] = field(default_factory=dict)
    states: tuple[str, ...] = ()
    state_bytes: int | None = None
    processes: tuple[str, ...] = ()
    phases: dict[str, float] = field(default_factory=dict)
    verifier_failures: int = 0
    reached: dict[str, tuple[str, ...]] | None = None
    sandbox_id: str | None = None

    def __post_init__(self) -> None:
        if not self.checks or self.score is not None:
            return
        passed = sum(check.status is CheckStatus.PASSED for check in self.checks)
        if (passed, len(self.checks)) != (self.passed, self.total):
            raise ValueError(f"{passed} of {len(self.checks)} checks have passed, not {self.passed} of {self.total}")

    @property
    def is_apart(self) -> bool:
        """Whether the checks were never in the process that ran the completion, even if its own operator decided."""
        return self.trust in (Trust.ISOLATED, Trust.OWN_OPERATOR)

    @property
    def is_pass(self) -> bool:
        """Whether there was at least one check, and every check passed. Only then is the reward of `binary` 1.0."""
        return passes(self.status, self.passed, self.total)


def named_checks(verdict: Verdict, problem: Problem) -> tuple[CheckVerdict, ...]:
    """The checks of a verdict, with the names that the problem's test functions have."""
    names = problem.check_names
    if not any(names):
        return verdict.checks
    return tuple(replace(check, name=name) for check, name in zip(verdict.checks, names, strict=False))


def named_detail(verdict: Verdict, problem: Problem) -> str:
    """Why, in one line, with the name of the first check that failed, where it has one."""
    found = _NUMBERED.match(verdict.detail)
    names = problem.check_names if found is not None else ()
    number = int(found.group(1)) if found is not None else 0
    if found is None or not 0 < number <= len(names) or not names[number - 1]:
        return verdict.detail
    return f"{found.group()} ({names[number - 1]}){verdict.detail[found.end() :]}"


def with_answer(result: ScoredCompletion, completion: Completion) -> ScoredCompletion:
    """A result with what is known of the model's answer: why it ended, and what is missing from one that failed."""
    result = replace(result, finish_reason=completion.finish_reason)
    missing = completion.shortcoming
    if not missing or result.is_pass or completion.loss:
        return result
    return replace(result, detail=f"{result.detail}; {missing}" if result.detail else missing)
