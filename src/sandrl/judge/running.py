"""Runs programs for their effects: their output, their exit status, the files that they leave.

For a batch, such a program is a completion whose judge only reports what happened. So programs get everything that
completions get: cells, a limit of sandboxes, retries after a failed sandbox, and the canary before a failure is counted
against them.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sandrl.answers.builds import builds_of
from sandrl.errors import InputError
from sandrl.events.results import ScoredCompletion, Status
from sandrl.judge.calibration import PLAIN, Calibration, Trials
from sandrl.judge.guest.execute import OUT_OF_TIME, OVER_MEMORY, SIGNALLED
from sandrl.judge.guest_report import Execution
from sandrl.judge.judge import Judge, longest_run_seconds
from sandrl.judge.limits import Limits
from sandrl.judge.program import EXECUTED
from sandrl.judge.verdict import Verdict
from sandrl.problems import EXIT_STATUS, Completion, Problem
from sandrl.problems.problem_files import files_of
from sandrl.sandboxes import CommandOutcome

MOST_FETCHED_BYTES = 16 << 20
"""Maximum total size of the files that are fetched."""

MOST_FETCHED_FILES = 1000
_USUAL_FILE = "solution.py"
_TASK = "program"


@dataclass(frozen=True, slots=True)
class Program:
    """A program to run.

    Attributes:
        language: What it is written in, by a name or an alias of `sandrl.problems.languages`.
        files: What lies in its working directory: contents by path, as `Problem.files` takes them.
        fetch: Paths of files to return: relative to its working directory, or whole paths below `/tmp`.
        memory_bytes: How much memory each of its processes may take; the sandbox's own bound unless given.

    Raises:
        InputError: If a field is of the wrong type, a path leads elsewhere, or there is no such language.
    """

    code: str
    language: str = "python"
    stdin: str = ""
    files: Any = ()
    fetch: tuple[str, ...] = ()
    memory_bytes: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", files_of(self.files, ""))
        if len(self.fetch) > MOST_FETCHED_FILES:
            raise InputError(f"has more than {MOST_FETCHED_FILES} paths", field="fetch")
        for position, path in enumerate(self.fetch):
            if ".." in path.split("/") or "\0" in path or (path.startswith("/") and not path.startswith("/tmp/")):
                message = "must be a path within the working directory, or below /tmp"
                raise InputError(message, field=f"fetch[{position}]")

    @property
    def problem(self) -> Problem:
        """The problem that the program answers: it runs to its end."""
        return Problem(_TASK, "", check=EXIT_STATUS, language=self.language, memory_bytes=self.memory_bytes)

    def completion(self, identifier: str = _TASK) -> Completion:
        # An empty program is one, too, while an empty completion is none.
        return Completion(identifier, _TASK, code=self.code if self.code.strip() else _TASK)


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How the compiler, or the program, ended.

    Attributes:
        exit_status: Its exit status; minus the number of the signal that ended it; None if it ran out of time.
        seconds: How long it ran, by the clock.
        stdout: What it printed, as much as was kept; `stderr` likewise.
        cpu_seconds: How long it was on a processor; 0 for a compiler, of which that is not measured.
        is_over_memory: Whether it was ended for taking too much memory.
        truncated: Whether it printed more than was kept.
    """

    exit_status: int | None
    seconds: float
    stdout: str = field(default="", repr=False)
    stderr: str = field(default="", repr=False)
    cpu_seconds: float = 0.0
    is_over_memory: bool = False
    truncated: bool = False

    @property
    def timed_out(self) -> bool:
        return self.exit_status is None


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """What a program did.

    Attributes:
        status: `passed` if it ended with 0, else why not; `infrastructure` if nothing can be said about it.
        detail: Why, in one line.
        compiler: How its compilation ended; None where nothing was compiled.
        run: How it ended; None if it was not started.
        files: The files that were asked for, as far as they exist, by path.
        omitted: Paths of those among them that were too large.
    """

    status: Status
    detail: str = ""
    compiler: CommandResult | None = None
    run: CommandResult | None = None
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    omitted: tuple[str, ...] = ()


class ProgramJudge(Judge):
    """Runs one program, and keeps what came of it.

    Args:
        base: Knows how sandboxes run programs, and what they cannot run.

    Attributes:
        latest: What the program did when it ran last, here or on another machine; None if it has not.
    """

    def __init__(self, base: Judge, program: Program) -> None:
        super().__init__()
        self.commands, self.calibrator = base.commands, base.calibrator
        self.program = program
        self.latest: ProgramResult | None = None
        self._key = ""

    @property
    def version(self) -> str:
        # Another one for each program: what one did is no other's verdict.
        return f"program-{secrets.token_hex(8)}"

    def result(self, scored: ScoredCompletion) -> ProgramResult:
        """What the program did, by the result of its batch."""
        if self.latest is None or scored.status in (Status.INFRASTRUCTURE, Status.INVALID_PROBLEM):
            return ProgramResult(scored.status, scored.detail)
        return self.latest

    def calibrate(self, problem: Problem, limits: Limits) -> Trials:
        return self.calibrator.calibrate_build(problem, self.program.code, limits)

    def prepare(
        self, problem: Problem, code: str, limits: Limits, known: Calibration = PLAIN, *, together: bool = False
    ) -> Execution:
        program = self.program
        seconds = float(limits.timeout_seconds)
        names = {path for path, _ in program.files}
        request: dict[str, Any] = {
            "setup": "",
            "code": program.code,
            "file_name": _USUAL_FILE if _USUAL_FILE not in names else f"main-{secrets.token_hex(4)}.py",
            "hidden_size": 0,
            "timeout_seconds": seconds,
            "max_output_bytes": limits.max_output_bytes,
            "max_file_bytes": limits.max_file_bytes,
            "memory_bytes": program.memory_bytes,
            "inputs": [program.stdin.encode("utf-8", "surrogatepass")],
            "files": list(program.files),
            "fetch": list(program.fetch),
            "max_fetched_bytes": MOST_FETCHED_BYTES,
        }
        if not problem.is_python:
            request["plans"] = [self.commands.plan_of(build) for build in builds_of(problem, program.code)]
            request["compile_timeout_seconds"] = float(limits.compile_timeout_seconds)
            seconds += limits.compile_timeout_seconds
        execution = self.commands.packed(EXECUTED, request, checks=1, seconds=longest_run_seconds(seconds))
        self._key = execution.key
        return execution

    def interpret(self, execution: Execution, outcome: CommandOutcome) -> Verdict:
        verdict = super().interpret(execution, outcome)
        if execution.key != self._key:
            return verdict  # a known program's
        printed, _, line = verdict.stdout.rpartition("\n")
        key, _, told = line.partition(" returned ")
        self.latest = None
        if not told or not secrets.compare_digest(key.encode("utf-8", "replace"), execution.key.encode()):
            # The judge was killed, or its clock was stopped.
            timed_out = verdict.status is Status.TIMEOUT
            run = CommandResult(None if timed_out else -9, verdict.wall_seconds, stderr=verdict.detail)
            self.latest = ProgramResult(verdict.status, verdict.detail, run=run)
            return verdict
        try:
            self.latest = self._read(verdict, printed, told)
        except (ValueError, IndexError, binascii.Error):
            return Verdict(Status.INFRASTRUCTURE, None, detail="the sandbox's report on the program cannot be read")
        return verdict

    def _read(self, verdict: Verdict, printed: str, told: str) -> ProgramResult:
        # What the guest tells in its line; see `guest/execute.py`.
        end, compiled, fetched = told.split(" ")
        limited = verdict.stdout_bytes > len(printed.encode("utf-8", "replace")) or verdict.truncated
        run = None
        if end != "-":
            run = CommandResult(
                _exit_status(end),
                verdict.wall_seconds,
                printed,
                verdict.stderr,
                verdict.cpu_seconds,
                is_over_memory=end == OVER_MEMORY,
                truncated=limited,
            )
        files: dict[str, bytes] = {}
        omitted: list[str] = []
        for entry in () if fetched == "-" else fetched.split(","):
            number, _, content = entry.split(":")
            path = self.program.fetch[int(number)]
            if content == "!":
                omitted.append(path)
            else:
                files[path] = base64.b64decode(content, validate=True)
        compiler = None if compiled == "-" else _compiler(compiled)
        return ProgramResult(verdict.status, verdict.detail, compiler, run, files, tuple(omitted))

    def review(self, problem: Problem, verdict: Verdict) -> Verdict | None:
        return verdict if problem.is_python else super().review(problem, verdict)

    def prepare_opinion(self, problem: Problem, code: str, limits: Limits) -> Execution | None:
        return None  # there is no other way to run a program


def _exit_status(word: str) -> int | None:
    if word == OUT_OF_TIME:
        return None
    if word == OVER_MEMORY:
        return -9
    return -int(word[1:]) if word.startswith(SIGNALLED) else int(word)


def _compiler(words: str) -> CommandResult:
    end, seconds, stdout, stderr = words.split(":")
    printed, errors = (bytes.fromhex(text).decode("utf-8", "replace") for text in (stdout, stderr))
    return CommandResult(_exit_status(end), float(seconds), printed, errors, is_over_memory=end == OVER_MEMORY)
