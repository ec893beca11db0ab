"""What a judge is, and the one that runs completion and checks in one process.

The design decision: a judge never touches a sandbox. It turns a problem and a completion's code into a command, and
the command's outcome into a verdict; whoever owns sandboxes runs what is in between. So judges need no runtime to
be tested, and several of them share one path to it.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import marshal
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Protocol

from sandrl.errors import InfrastructureError
from sandrl.problems import Problem
from sandrl.rewards.verdict import Status, Trust, Verdict
from sandrl.sandboxes import Command, Outcome

# How long after the judge's own clock the SDK's goes off: only for a judge that was stopped or starved.
_GRACE_SECONDS = 10.0
_HEADER_BYTES = 64
_EXCERPT_BYTES = 300
_KEY_BYTES = 32

# Runs in the sandbox. `-S` skips `site`, a third of the start of an interpreter; the compiled form of the judge serves
# where the image's interpreter has the same bytecode as this one.
_BOOTSTRAP = """\
import marshal, posix, _frozen_importlib_external
def take(size):
    data = b""
    while len(data) < size:
        block = posix.read(0, size - len(data))
        if not block: raise EOFError
        data += block
    return data
magic, compiled, source, request = take(64).split()
compiled, source = take(int(compiled)), take(int(source))
same = magic.decode() == _frozen_importlib_external.MAGIC_NUMBER.hex()
code = marshal.loads(compiled) if same else compile(source, "<judge>", "exec")
exec(code, {"__name__": "judge", "request_size": int(request)})
"""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a completion may use.

    Attributes:
        timeout_seconds: By the clock, for the completion with all of its checks.
        max_output_bytes: How much of each of stdout and stderr is kept.
        max_file_bytes: Size of the largest file it may write, its output included.
    """

    timeout_seconds: float = 10.0
    max_output_bytes: int = 1 << 20
    max_file_bytes: int = 64 << 20


@dataclass(frozen=True, slots=True)
class Execution:
    """One completion, ready to be run.

    Attributes:
        command: What to run in a fresh sandbox.
        trust: The trust its verdict will have.
        checks: How many checks there are.
        key: The random word that marks the verdict's line as the judge's own.
        may_refuse: Whether the guest may find that the checks cannot be split from the completion.
    """

    command: Command
    trust: Trust
    checks: int
    key: str = field(repr=False)
    may_refuse: bool = False


class Judge(Protocol):
    """Decides what a completion did.

    Attributes:
        version: Changes whenever the same completion might be judged differently.
    """

    @property
    def version(self) -> str:
        """Changes whenever the same completion might be judged differently."""
        ...

    def prepare(self, problem: Problem, code: str, limits: Limits) -> Execution:
        """The command that judges `code` as an answer to `problem`."""
        ...

    def interpret(self, execution: Execution, outcome: Outcome) -> Verdict:
        """The verdict that an execution's outcome stands for.

        Raises:
            InfrastructureError: If the outcome says nothing about the code.
        """
        ...

    def falls_back(self, problem: Problem, verdict: Verdict) -> bool:
        """Whether to prepare and run the completion once more, because the judge now judges the problem another way."""
        ...


def _mode(problem: Problem) -> str:
    if problem.check == "exit_status":
        return "exit_status"
    return "cases" if problem.cases else "tests"


def check_count(problem: Problem) -> int:
    """How many checks a problem has."""
    return {"exit_status": 1, "cases": len(problem.cases), "tests": len(problem.tests)}[_mode(problem)]


def time_limit(problem: Problem, limits: Limits) -> float:
    """Seconds a completion of a problem may take; the problem's own word counts more."""
    return problem.timeout_seconds or limits.timeout_seconds


class InProcessJudge:
    """Runs checks in the process of the completion, or checks its exit status or what it prints.

    Args:
        with_site_packages: Whether completions can import what is installed in the image; costs the start of `site`.
    """

    def __init__(self, *, with_site_packages: bool = False) -> None:
        self._flags = ("-I",) if with_site_packages else ("-I", "-S")

    @property
    def version(self) -> str:
        """A digest of the guest's source."""
        return "in-process-" + hashlib.sha256(_guest(_IN_PROCESS).source).hexdigest()[:12]

    def prepare(self, problem: Problem, code: str, limits: Limits) -> Execution:
        """The command that judges `code`; code and checks travel on standard input, never in its arguments."""
        mode = _mode(problem)
        return self._execution(problem, code, limits, mode, {"tests": list(problem.tests)} if mode == "tests" else {})

    def _execution(
        self, problem: Problem, code: str, limits: Limits, mode: str, open_part: Mapping[str, Any]
    ) -> Execution:
        """One completion, ready to be run in a mode of the guest.

        Args:
            problem: What the code answers.
            code: The completion's code.
            limits: What it may use.
            mode: `tests`, `isolated`, `cases` or `exit_status`.
            open_part: What of the checks the completion's process gets to hold.
        """
        timeout_seconds = time_limit(problem, limits)
        hidden_part = _hidden_part(problem, mode)
        # Version 2 of the format is the one every Python 3 reads.
        hidden = marshal.dumps(hidden_part, 2) if hidden_part else b""
        request: dict[str, Any] = {
            "mode": mode,
            "setup": problem.setup,
            "code": code,
            "inputs": [case.stdin.encode("utf-8", "surrogatepass") for case in problem.cases],
            "hidden_size": len(hidden),
            "timeout_seconds": float(timeout_seconds),
            "max_output_bytes": limits.max_output_bytes,
            "max_file_bytes": limits.max_file_bytes,
            **open_part,
        }
        key = secrets.token_hex(_KEY_BYTES // 2)
        body = marshal.dumps(request, 2)
        guest = _guest(_ISOLATED if mode == "isolated" else _IN_PROCESS)
        magic = importlib.util.MAGIC_NUMBER.hex()
        header = f"{magic} {len(guest.compiled)} {len(guest.source)} {len(body)}".encode().ljust(_HEADER_BYTES)
        command = Command(
            argv=("python", *self._flags, "-X", "utf8", "-c", _BOOTSTRAP),
            stdin=b"".join((header, guest.compiled, guest.source, body, hidden, key.encode())),
            timeout_seconds=timeout_seconds + _GRACE_SECONDS,
        )
        return Execution(command, _TRUST[mode], check_count(problem), key, may_refuse=mode == "isolated")

    def falls_back(self, problem: Problem, verdict: Verdict) -> bool:
        """Never: there is nothing below one process."""
        return False

    def interpret(self, execution: Execution, outcome: Outcome) -> Verdict:
        """Reads the judge's line; without one, the completion killed the judge, or the sandbox is of no use."""
        if outcome.timed_out:
            return Verdict(Status.TIMEOUT, execution.trust, 0, execution.checks, "it stopped the judge's clock")
        printed, _, last = outcome.stdout.removesuffix(b"\n").rpartition(b"\n")
        verdict = _read_line(last, execution, printed, outcome.stderr)
        if verdict is not None and verdict.is_pass == (outcome.exit_code == 0):
            return verdict
        if _is_killed(outcome.exit_code):
            detail = f"it killed its judge (exit status {outcome.exit_code})"
            return Verdict(Status.CRASHED, execution.trust, 0, execution.checks, detail)
        # The completion can kill the judge, but not make it end by itself and say nothing: this is the image's doing
        # (no `python` in it), or the runtime's.
        said = " ".join(outcome.stderr[-_EXCERPT_BYTES:].decode("utf-8", "replace").split())
        raise InfrastructureError(
            f"the judge ended with exit status {outcome.exit_code} and no verdict: {said or '(silent)'}"
        )


def _is_killed(exit_code: int | None) -> bool:
    """Whether an exit status is one of a process ended by a signal, in a shell's words or in Python's."""
    return exit_code is not None and not 0 <= exit_code <= 128


def _read_line(line: bytes, execution: Execution, stdout: bytes, stderr: bytes) -> Verdict | None:
    fields = line.decode("ascii", "replace").split(" ")
    if len(fields) != 10 or not secrets.compare_digest(fields[0].encode(), execution.key.encode()):
        return None
    _, status, passed, total, wall, cpu, starved, stdout_bytes, stderr_bytes, detail = fields
    return Verdict(
        status=_guest_status(status, execution),
        trust=execution.trust,
        passed=min(int(passed), execution.checks),
        total=int(total),
        detail="" if detail == "-" else bytes.fromhex(detail).decode("utf-8", "replace"),
        wall_seconds=float(wall),
        cpu_seconds=float(cpu),
        starved_seconds=float(starved),
        stdout=stdout.decode("utf-8", "replace"),
        stderr=stderr.decode("utf-8", "replace"),
        stdout_bytes=int(stdout_bytes),
        stderr_bytes=int(stderr_bytes),
        truncated=int(stdout_bytes) > len(stdout) or int(stderr_bytes) > len(stderr),
    )


def _guest_status(status: str, execution: Execution) -> Status:
    if status == Status.NOT_ISOLATED and execution.may_refuse:
        return Status.NOT_ISOLATED
    return Status(status) if status in _GUEST_STATUSES else Status.CRASHED


# What the guest can say. The child speaks through it, so nothing here may excuse the code, except that a problem's own
# setup failed, which is said before the code has run.
_GUEST_STATUSES = frozenset(
    {
        Status.PASSED,
        Status.FAILED,
        Status.TIMEOUT,
        Status.SYNTAX_ERROR,
        Status.CRASHED,
        Status.RESOURCE_LIMIT,
        Status.INVALID_PROBLEM,
    }
)


class IsolatedJudge(InProcessJudge):
    """Runs checks in a process of their own, against stand-ins for the completion's functions.

    A check that hands the completion something that cannot cross (a function, a class of its own) can only be judged in
    one process. The verdict of the first such completion is `not_isolated`; from then on, unless isolation is required,
    the problem's completions are judged in one process, and their trust says so.

    Args:
        with_site_packages: Whether completions can import what is installed in the image.
        require_isolated: Never judge in one process.
    """

    def __init__(self, *, with_site_packages: bool = False, require_isolated: bool = False) -> None:
        super().__init__(with_site_packages=with_site_packages)
        self._require_isolated = require_isolated
        self._unsplittable: set[str] = set()

    @property
    def version(self) -> str:
        """A digest of the guest's source, and whether isolation is required."""
        name = "isolated-required-" if self._require_isolated else "isolated-"
        return name + hashlib.sha256(_guest(_ISOLATED).source).hexdigest()[:12]

    def prepare(self, problem: Problem, code: str, limits: Limits) -> Execution:
        """The command that judges `code`; what it is held against never reaches the completion's process."""
        if _mode(problem) != "tests" or problem.task_id in self._unsplittable:
            return super().prepare(problem, code, limits)
        return self._execution(problem, code, limits, "isolated", {})

    def falls_back(self, problem: Problem, verdict: Verdict) -> bool:
        """Whether the completion should be judged again, in one process this time."""
        if verdict.status is not Status.NOT_ISOLATED or self._require_isolated:
            return False
        self._unsplittable.add(problem.task_id)
        return True


_TRUST = {
    "exit_status": Trust.EXIT_STATUS,
    "tests": Trust.IN_PROCESS,
    "isolated": Trust.ISOLATED,
    "cases": Trust.ISOLATED,
}


def _hidden_part(problem: Problem, mode: str) -> dict[str, Any]:
    """What the completion's process must never hold."""
    if mode == "cases":
        return {"expected": [case.stdout for case in problem.cases]}
    if mode == "isolated":
        return {"tests": list(problem.tests), "setup": problem.setup, "under_test": sorted(names_under_test(problem))}
    return {}


def names_under_test(problem: Problem) -> frozenset[str]:
    """Names that the problem asks a completion to define: its entry point, and what its reference defines.

    Only these may stand for the completion's object where a check uses the name of a builtin (MBPP has a task whose
    answer is `sum`). A `set` that a completion defines so that all things are equal is not what a check means.
    """
    names = {problem.entry_point} if problem.entry_point else set()
    if problem.reference is not None:
        try:
            body = ast.parse(problem.reference).body
        except SyntaxError:
            body = []
        names |= {node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    return frozenset(names)


_IN_PROCESS = ("in_process",)
_ISOLATED = ("values", "in_process", "isolated")


@dataclass(frozen=True, slots=True)
class _Guest:
    source: bytes
    compiled: bytes


@cache
def _guest(names: tuple[str, ...]) -> _Guest:
    """Files of the guest as one program, as text and compiled for the interpreter that runs this."""
    package = files("sandrl.rewards.guest")
    texts = [package.joinpath(f"{name}.py").read_bytes() for name in names]
    source = b"\n".join([*texts, b"main(request_size)\n"])
    return _Guest(source, marshal.dumps(compile(source, "<judge>", "exec", optimize=2, dont_inherit=True)))
