"""The command that runs the guest in a sandbox."""

from __future__ import annotations

import marshal
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sandrl.answers.builds import Build, builds_of
from sandrl.judge.guest.clock import LONGEST
from sandrl.judge.guest_report import Execution
from sandrl.judge.guest_request import CHECKED, COMPARED, PROGRAM_MODES, hidden_part, open_part, setup_of_completion
from sandrl.judge.headers import Headers
from sandrl.judge.limits import (
    Limits,
    check_time_limit,
    checker_time_limits,
    compile_time_limit,
    may_stop,
    time_limit,
)
from sandrl.judge.program import ISOLATED_TESTS, Mode, begin_worker, cell_program_of, command_line, program_of
from sandrl.judge.pure_checks import are_pure
from sandrl.judge.verdict import ReferenceValues
from sandrl.problems import Case, Problem, math_answers
from sandrl.sandboxes import CellCommand, Command, WorkerProgram

# How long after the latest that the judge's own clock can go off the SDK's does: only for a judge that was stopped.
_GRACE_SECONDS = 10.0
_KEY_BYTES = 32


def longest_run_seconds(timeout_seconds: float) -> float:
    """Seconds by the clock that the judge may take for a completion with a time limit, where processors are scarce."""
    return timeout_seconds * LONGEST + _GRACE_SECONDS


def longest_execution_seconds(problem: Problem, limits: Limits) -> float:
    """Seconds by the clock that a completion and its judging may take, where processors are scarce."""
    if problem.task is not None:
        return problem.task.longest_seconds
    seconds = time_limit(problem, limits).most_seconds + compile_time_limit(problem, limits)
    return longest_run_seconds(seconds + checker_time_limits(problem)[1])


@dataclass(frozen=True, slots=True)
class Preparation:
    """What the commands of all completions of a problem have in common, under the same limits in the same mode.

    Attributes:
        request: The part of the request that the process of a completion may hold, without the completion.
        hidden: The part that it must not hold.
        seconds: How long a command may take by the clock.
    """

    problem: Problem
    limits: Limits
    mode: Mode
    request: dict[str, Any] = field(repr=False)
    hidden: bytes = field(repr=False)
    checks: int
    seconds: float
    keeps: bool = False

    @property
    def size(self) -> int:
        return len(self.hidden) + len(marshal.dumps(self.request, 2))


class GuestCommands:
    """Makes the commands that run the guest.

    Args:
        with_site_packages: Whether completions can import what is installed in the image; costs the start of `site`.
        headers: The precompiled headers that sandboxes see; none of them unless given.
    """

    def __init__(self, *, with_site_packages: bool = False, headers: Headers | None = None) -> None:
        self._with_site_packages = with_site_packages
        self._headers = headers or Headers(None)

    def execution(
        self,
        problem: Problem,
        code: str,
        limits: Limits,
        mode: Mode,
        returned: ReferenceValues | None = None,
        *,
        builds: Sequence[Build] = (),
        keeps: bool = False,
    ) -> Execution:
        """One completion, ready to be run in a mode of the guest.

        Args:
            returned: What the problem's reference returned, if calls are compared with that.
            builds: Programs that are run instead of the completion's.
            keeps: Whether this is the reference, of which is kept what it returns.
        """
        return self.complete(self.prepare(problem, limits, mode, returned, keeps=keeps), code, builds)

    def prepare(
        self, problem: Problem, limits: Limits, mode: Mode, returned: ReferenceValues | None, *, keeps: bool = False
    ) -> Preparation:
        limit = time_limit(problem, limits)
        hidden_content = hidden_part(problem, mode, limits, returned, keeps=keeps)
        # Version 2 of the format is the one every Python 3 reads.
        hidden = marshal.dumps(hidden_content, 2) if hidden_content else b""
        request: dict[str, Any] = {
            "setup": setup_of_completion(problem),
            "code": "",
            "hidden_size": len(hidden),
            "timeout_seconds": limit.seconds,
            "free_seconds": limit.free_seconds,
            "most_seconds": limit.most_seconds,
            "check_timeout_seconds": check_time_limit(problem, limits),
            "stops_at_failure": limits.stops_at_failure and may_stop(problem),
            "max_output_bytes": limits.max_output_bytes,
            "max_file_bytes": limits.max_file_bytes,
            "memory_bytes": problem.memory_bytes,
            **open_part(problem, mode),
        }
        if not problem.is_python:
            request["setup"] = ""
            request["compile_timeout_seconds"] = float(limits.compile_timeout_seconds)
        seconds = longest_execution_seconds(problem, limits)
        return Preparation(problem, limits, mode, request, hidden, problem.check_count, seconds, keeps)

    def complete(self, prepared: Preparation, code: str, builds: Sequence[Build] = ()) -> Execution:
        mode = prepared.mode
        if mode in PROGRAM_MODES:
            builds = builds or builds_of(prepared.problem, code)
            request = {**prepared.request, "plans": [self.plan_of(build) for build in builds]}
        else:
            written = code if prepared.problem.answer is None else math_answers.program_of(code)
            request = {**prepared.request, "code": written}
        return self.packed(
            mode,
            request,
            prepared.hidden,
            checks=prepared.checks,
            seconds=prepared.seconds,
            hash_seed=prepared.limits.hash_seed,
            keeps=prepared.keeps,
            cases=prepared.problem.cases if mode in COMPARED else (),
            is_apart=mode is ISOLATED_TESTS and are_pure(prepared.problem),
        )

    def packed(
        self,
        mode: Mode,
        request: dict[str, Any],
        hidden: bytes = b"",
        *,
        checks: int,
        seconds: float,
        hash_seed: int = 0,
        keeps: bool = False,
        cases: tuple[Case, ...] = (),
        is_apart: bool = False,
    ) -> Execution:
        """A request to the guest, ready to be run.

        Args:
            request: What a completion's process may hold, as plain values.
            hidden: What it must not.
            seconds: How long it may take by the clock, its judge included.
        """
        key = secrets.token_hex(_KEY_BYTES // 2)
        body = marshal.dumps(request, 2)
        program = cell_program_of(mode)
        argv = command_line(hash_seed, with_site_packages=self._with_site_packages)
        command = Command(
            argv=argv,
            stdin=lambda: program_of(mode).framed(body, hidden) + key.encode(),
            timeout_seconds=seconds,
            cell=CellCommand(
                worker=WorkerProgram(argv, begin_worker),
                program=program.name,
                program_block=program.payload,
                request=b"".join((body, hidden, key.encode())),
                open_bytes=len(body),
                is_apart=is_apart,
            ),
        )
        return Execution(
            command,
            mode.trust,
            checks,
            key,
            may_refuse=mode is ISOLATED_TESTS,
            keeps=keeps,
            has_checker=mode in CHECKED,
            cases=cases,
        )

    def plan_of(self, build: Build) -> dict[str, Any]:
        """How the guest builds and runs a program: with a precompiled header, where there is one for it."""
        plan = build.plan
        quick = self._headers.quick_compile(build.form, plan["compile"], build.source)
        return {**plan, "quick_compile": quick} if quick else plan
