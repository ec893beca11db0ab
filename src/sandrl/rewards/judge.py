"""The interface of a judge, and the judge that runs completion and checks in one process.

A judge never touches a sandbox. It turns a problem and a completion's code into a command, and the command's outcome
into a verdict; the owner of the sandboxes runs the command. So judges can be tested without a runtime, and several
judges share one way to it.
"""

from __future__ import annotations

import hashlib
import marshal
import re
import secrets
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum, auto
from typing import Any, Protocol, Self

from sandrl.errors import InfrastructureError
from sandrl.events.results import CheckStatus, Status, Trust
from sandrl.problems import Case, Problem
from sandrl.problems.languages import Form
from sandrl.rewards.builds import Build, builds_of, example_of
from sandrl.rewards.expected import Returned
from sandrl.rewards.facts import facts_of
from sandrl.rewards.guest.clock import LONGEST
from sandrl.rewards.guest_report import Execution, read_reference_values, read_verdict
from sandrl.rewards.guest_request import (
    ALL_MODES,
    CHECKED,
    COMPARED,
    MODES,
    hidden_part,
    mode_of,
    open_part,
    setup_of_completion,
)
from sandrl.rewards.headers import Headers, headers_of
from sandrl.rewards.knowledge import MOST_BYTES, Knowledge
from sandrl.rewards.limits import (
    Limits,
    check_time_limit,
    checker_time_limits,
    compile_time_limit,
    may_stop,
    time_limit,
)
from sandrl.rewards.program import (
    BOOTSTRAP,
    ISOLATED_TESTS,
    PROGRAM_EXIT_STATUS,
    TESTS,
    Mode,
    begin_worker,
    cell_program_of,
    digest,
    program_of,
)
from sandrl.rewards.reference import is_plain
from sandrl.rewards.sources import refusal
from sandrl.rewards.verdict import Verdict
from sandrl.sandboxes import CellCommand, Command, CommandOutcome, Connection, WorkerProgram

__all__ = ["Execution", "InProcessJudge", "IsolatedJudge", "Judge", "Limits", "Review"]

# How long after the latest that the judge's own clock can go off the SDK's does: only for a judge that was stopped.
_GRACE_SECONDS = 10.0
_EXCERPT_BYTES = 300
_KEY_BYTES = 32
_MOST_SETS_OF_PACKAGES = 1000
_MISSING_MODULE = re.compile(r"No module named '([^']+)'")
# How the detail of a check begins that the compiler refused.
_REFUSALS = ("SyntaxError", "IndentationError", "TabError", "ValueError")


class Review(Enum):
    """What to do with a completion whose verdict does not count yet."""

    AGAIN = auto()
    """Prepare and run it once more: the judge now judges the problem another way."""
    TRY_REFERENCE = auto()
    """Run the problem's reference first: the way of judging may be what failed."""
    TRY_PACKAGES = auto()
    """Import the packages that the problem needs first: where one is missing, no completion can be right."""
    ASK_REFERENCE = auto()
    """Run the problem's reference first: calls must return what it returns."""
    TRY_LANGUAGE = auto()
    """Run an example of the completion's language first: where its tools are missing, no completion can be right."""
    TRY_NOTHING = auto()
    """Run an empty completion first: a completion reports that the problem's own setup fails, which it may pretend."""


class Judge(Protocol):
    """Decides what a completion did.

    Attributes:
        version: Changes whenever the same completion might be judged differently.
    """

    @property
    def version(self) -> str:
        """Changes whenever the same completion might be judged differently."""
        ...

    def preview(self, problem: Problem) -> Verdict | Review | None:
        """What comes before any completion of a problem whose calls ask the reference: the trial, or nothing any more.

        Returns:
            A verdict if its reference has failed, and no completion can be judged.
        """
        ...

    def learn(self, problem: Problem, returned: Returned) -> None:
        """Takes over what an earlier process has found out: what the reference of a problem returns."""
        ...

    def prepare(self, problem: Problem, code: str, limits: Limits) -> Execution:
        """The command that judges `code` as an answer to `problem`."""
        ...

    def interpret(self, execution: Execution, outcome: CommandOutcome) -> Verdict:
        """The verdict that an execution's outcome stands for.

        Raises:
            InfrastructureError: If the outcome says nothing about the code.
        """
        ...

    def review(self, problem: Problem, code: str, verdict: Verdict) -> Verdict | Review:
        """The verdict that counts for `code`, or what to do before there is one."""
        ...

    def prepare_trial(self, problem: Problem, wanted: Review, limits: Limits) -> Execution:
        """The command of the trial that `review` wanted before it gives a verdict."""
        ...

    def hear_trial(self, problem: Problem, wanted: Review, verdict: Verdict) -> None:
        """Learns what came of it."""
        ...

    def prepare_opinion(self, problem: Problem, code: str, limits: Limits) -> Execution | None:
        """The command that judges `code` in plain Python, in one process; None if there is no such way."""
        ...


def longest_run_seconds(timeout_seconds: float) -> float:
    """Seconds by the clock that the judge may take for a completion with a time limit, where processors are scarce."""
    return timeout_seconds * LONGEST + _GRACE_SECONDS


def longest_execution_seconds(problem: Problem, limits: Limits) -> float:
    """Seconds by the clock that a completion and its judging may take, where processors are scarce."""
    seconds = time_limit(problem, limits).most_seconds + compile_time_limit(problem, limits)
    return longest_run_seconds(seconds + checker_time_limits(problem)[1])


def invalid_check(problem: Problem, verdict: Verdict) -> str | None:
    """Which check of a problem is not valid Python, in words; None if the verdict does not come from such a check.

    The interpreter that judged refused the check, and this one does too: a completion cannot bring about the second.
    """
    for number, (check, test) in enumerate(zip(verdict.checks, problem.tests, strict=False), 1):
        if check.status is CheckStatus.FAILED and check.detail.startswith(_REFUSALS):
            reason = refusal(test)
            if reason is not None:
                return f"check {number} of {len(problem.tests)} of the problem is not valid Python: {reason}"
    return None


class InProcessJudge:
    """Runs checks in the process of the completion, or checks its exit status or what it prints.

    Args:
        with_site_packages: Whether completions can import what is installed in the image; costs the start of `site`.
        image: The image of sandboxes that are not on this machine, for messages.
        headers: The precompiled headers that sandboxes see; none of them unless given.
        known_bytes: How much memory the problems may take of which something is known.
    """

    def __init__(
        self,
        *,
        with_site_packages: bool = False,
        image: str = "",
        headers: Headers | None = None,
        known_bytes: int = MOST_BYTES,
    ) -> None:
        self._image = image
        self._flags = ("-I",) if with_site_packages else ("-I", "-S")
        self._headers = headers or Headers(None)
        self._known = Knowledge(known_bytes)
        # Of packages that problems need, the one that sandboxes lack; empty where they have all.
        self._missing_packages: dict[tuple[str, ...], str] = {}
        # Why sandboxes cannot run programs in a form of a language, by an example; empty where they can.
        self._unusable: dict[Form, str] = {}

    @property
    def version(self) -> str:
        """A digest of the guest's source."""
        return "in-process-" + digest(ALL_MODES)

    def preview(self, problem: Problem) -> Verdict | Review | None:
        """The trial of the reference where calls must return what it returns, or the verdict that it has failed."""
        if not problem.asks_reference:
            return None
        known = self._known.find(problem).returned
        if known is None:
            return Review.ASK_REFERENCE
        return known if isinstance(known, Verdict) else None

    def learn(self, problem: Problem, returned: Returned) -> None:
        """Takes over what the reference of a problem returns."""
        self._known.about(problem, len(returned.packed)).returned = returned

    def prepare(self, problem: Problem, code: str, limits: Limits) -> Execution:
        """The command that judges `code`; code and checks travel on standard input, never in its arguments."""
        return self._execution(problem, code, limits, mode_of(problem))

    def _execution(
        self,
        problem: Problem,
        code: str,
        limits: Limits,
        mode: Mode,
        builds: Sequence[Build] = (),
        *,
        keeps: bool = False,
    ) -> Execution:
        """One completion, ready to be run in a mode of the guest.

        Args:
            problem: The problem.
            code: The completion.
            limits: What it may use.
            mode: How it is judged.
            builds: Programs that are run instead of the completion's.
            keeps: Whether this is the reference, of which is kept what it returns.
        """
        limit = time_limit(problem, limits)
        known = self._known.find(problem).returned if problem.asks_reference and not keeps else None
        returned = known if isinstance(known, Returned) else None
        hidden_content = hidden_part(problem, mode, limits, returned, keeps=keeps)
        # Version 2 of the format is the one every Python 3 reads.
        hidden = marshal.dumps(hidden_content, 2) if hidden_content else b""
        request: dict[str, Any] = {
            "setup": setup_of_completion(problem),
            "code": code,
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
            request["code"], request["setup"] = "", ""
            request["plans"] = [self.plan_of(build) for build in builds or builds_of(problem, code)]
            request["compile_timeout_seconds"] = float(limits.compile_timeout_seconds)
        return self.packed(
            mode,
            request,
            hidden,
            checks=problem.check_count,
            seconds=longest_execution_seconds(problem, limits),
            keeps=keeps,
            cases=problem.cases if mode in COMPARED else (),
        )

    def packed(
        self,
        mode: Mode,
        request: dict[str, Any],
        hidden: bytes = b"",
        *,
        checks: int,
        seconds: float,
        keeps: bool = False,
        cases: tuple[Case, ...] = (),
    ) -> Execution:
        """A request to the guest, ready to be run.

        Args:
            mode: The program of the guest that reads it.
            request: What a completion's process may hold, as plain values.
            hidden: What it must not.
            checks: How many checks the guest reports on.
            seconds: How long it may take by the clock, its judge included.
            keeps: Whether it runs a reference, of which is kept what that returns.
            cases: The cases whose output is compared.
        """
        key = secrets.token_hex(_KEY_BYTES // 2)
        body = marshal.dumps(request, 2)
        program = cell_program_of(mode)
        # `-S` skips `site`, a third of the start of an interpreter.
        argv = ("python", *self._flags, "-X", "utf8", "-c", BOOTSTRAP)
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

    def _review_packages(self, problem: Problem, verdict: Verdict) -> Verdict | Review | None:
        """What counts for a failed completion whose problem needs packages; None if sandboxes have all of them."""
        if verdict.is_pass or not problem.packages:
            return None
        if problem.packages not in self._missing_packages:
            return Review.TRY_PACKAGES
        missing = self._missing_packages[problem.packages]
        if not missing:
            return None
        detail = f"the problem needs the package {missing!r}, which sandboxes do not have"
        return replace(verdict, status=Status.INVALID_PROBLEM, passed=0, checks=(), detail=detail)

    def review(self, problem: Problem, code: str, verdict: Verdict) -> Verdict | Review:
        """The verdict that counts: a completion had the sandbox before it can say that the problem is broken."""
        if not problem.is_python:
            return self._review_program(problem, code, verdict)
        if (ruling := self._review_packages(problem, verdict)) is not None:
            return ruling
        broken = invalid_check(problem, verdict)
        if broken is not None:
            return replace(verdict, status=Status.INVALID_PROBLEM, passed=0, checks=(), detail=broken)
        if verdict.status is not Status.INVALID_PROBLEM or _is_of_checker(verdict):
            return verdict
        is_broken = self._known.find(problem).is_broken
        if is_broken is None:
            return Review.TRY_NOTHING
        if is_broken:
            return verdict
        detail = "it broke the problem's setup, which works without this completion"
        return replace(verdict, status=Status.CRASHED, passed=0, checks=(), detail=detail)

    def _review_program(self, problem: Problem, code: str, verdict: Verdict) -> Verdict | Review:
        """What counts for a completion in another language than Python: of a failure, the sandbox may be the reason."""
        for build in builds_of(problem, code):
            if verdict.is_pass:
                self._unusable[build.form] = ""
            elif build.form not in self._unusable:
                self._known.about(problem).in_doubt = build
                return Review.TRY_LANGUAGE
            elif why := self._unusable[build.form]:
                return replace(verdict, status=Status.INVALID_PROBLEM, passed=0, checks=(), detail=why)
        if verdict.status is Status.INVALID_PROBLEM and not _is_of_checker(verdict):
            detail = "it broke the tools of its language, which work without this completion"
            return replace(verdict, status=Status.CRASHED, passed=0, checks=(), detail=detail)
        if (
            verdict.status is Status.COMPILE_ERROR
            and problem.reference is not None
            and (problem.tests or problem.setup)
        ):
            # The problem's own text is a part of the program.
            compiles = self._known.find(problem).compiles
            if compiles is None:
                return Review.TRY_REFERENCE
            if not compiles:
                detail = "the problem's reference cannot be compiled with its tests and setup"
                return replace(verdict, status=Status.INVALID_PROBLEM, passed=0, checks=(), detail=detail)
        return verdict

    def prepare_trial(self, problem: Problem, wanted: Review, limits: Limits) -> Execution:
        """The command that judges an empty completion, one that imports what the problem needs, or a known program."""
        if wanted is Review.TRY_REFERENCE:
            return self._execution(problem, problem.reference or "", limits, mode_of(problem))
        if wanted is Review.TRY_LANGUAGE:
            build = self._build_in_doubt(problem)
            example = example_of(build.form, build.language)
            bare = Problem("example", "", check="exit_status", language=build.language.name)
            # As long as anything may take: how long the problem's own programs may is another question.
            seconds = max(limits.compile_timeout_seconds, Limits().compile_timeout_seconds)
            usual = Limits(compile_timeout_seconds=seconds)
            return self._execution(bare, "", usual, PROGRAM_EXIT_STATUS, [example])
        if wanted is Review.TRY_PACKAGES:
            imports = "\n".join(f"import {name}" for name in problem.packages)
            bare = replace(problem, setup="", prelude="")
            return self._execution(bare, imports, limits, MODES[problem.kind])
        if wanted is Review.ASK_REFERENCE:
            return self._execution(problem, problem.reference or "", limits, MODES[problem.kind], keeps=True)
        return self.prepare(problem, "", limits)

    def hear_trial(self, problem: Problem, wanted: Review, verdict: Verdict) -> None:
        """Learns whether the problem's setup fails by itself, or takes all the time there is."""
        if wanted is Review.TRY_REFERENCE:
            self._known.about(problem).compiles = verdict.status is not Status.COMPILE_ERROR
            return
        if wanted is Review.TRY_LANGUAGE:
            build = self._build_in_doubt(problem)
            self._unusable[build.form] = "" if verdict.is_pass else self._why_unusable(build, verdict)
            return
        if wanted is Review.TRY_PACKAGES:
            found = _MISSING_MODULE.search(verdict.detail)
            name = found.group(1).partition(".")[0] if found is not None else ""
            if len(self._missing_packages) >= _MOST_SETS_OF_PACKAGES:
                self._missing_packages.clear()
            self._missing_packages[problem.packages] = name if name in problem.packages else ""
            return
        if wanted is Review.ASK_REFERENCE:
            if verdict.returned is not None:
                self.learn(problem, verdict.returned)
            else:
                self._known.about(problem).returned = _reference_failed(verdict)
            return
        self._known.about(problem).is_broken = verdict.status in (Status.INVALID_PROBLEM, Status.TIMEOUT)

    def _build_in_doubt(self, problem: Problem) -> Build:
        """The program that made a completion of a problem ask for an example; the bare form where it is forgotten."""
        build = self._known.find(problem).in_doubt
        return build if build is not None else builds_of(problem, "")[0]

    def _why_unusable(self, build: Build, verdict: Verdict) -> str:
        """Why no program in a form can be judged, from the verdict on its example, and what to do."""
        packages = ", ".join(build.form.packages)
        where = f"the image {self._image}" if self._image else "sandboxes"
        install = (
            f"install there the packages that Debian calls {packages}"
            if self._image
            else f"install the Debian packages {packages}"
        )
        why = verdict.detail or verdict.status.value
        return f"the problem's language is {build.language.name}, and {where} cannot run it: {why} ({install})"

    def prepare_opinion(self, problem: Problem, code: str, limits: Limits) -> Execution | None:
        """The command that runs `code` and its checks in one process; None if the problem has no such checks."""
        is_split = problem.kind == "tests" and problem.is_python
        return self._execution(problem, code, limits, TESTS) if is_split else None

    def interpret(self, execution: Execution, outcome: CommandOutcome) -> Verdict:
        """Reads the judge's line; without one, the completion killed the judge, or the sandbox is of no use."""
        if outcome.timed_out:
            return Verdict(Status.TIMEOUT, execution.trust, 0, execution.checks, "it stopped the judge's clock")
        printed, _, last = outcome.stdout.removesuffix(b"\n").rpartition(b"\n")
        try:
            verdict = read_verdict(last, execution, printed, outcome.stderr)
            if verdict is not None and verdict.is_pass and execution.keeps:
                verdict = replace(verdict, returned=read_reference_values(printed, execution))
        except ValueError:
            verdict = None  # not our guest's words, whoever has its key
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


def _reference_failed(verdict: Verdict) -> Verdict:
    """The verdict on all completions of a problem whose reference does not return what calls must return."""
    reason = verdict.detail or verdict.status.value
    return Verdict(Status.INVALID_PROBLEM, None, detail=f"the problem's reference fails: {reason}")


class IsolatedJudge(InProcessJudge):
    """Runs checks in a process of their own, against proxies of the completion's functions and objects.

    Some checks have another meaning there than in one process (they pass a function to the completion, catch its
    exception, look at what it prints), and can only be judged in one process. The problem's reference decides whether
    its checks are of this kind. It runs once, when the first completion fails, unless the checks are plain calls and
    comparisons: if it passes in one process but not in two, the problem is judged in one process, and the trust of its
    verdicts is `in_process`. A completion cannot influence this decision. If a problem has no reference, the source of
    its checks
    decides: if they need one process, a completion that failed isolated is judged again in one.

    Args:
        with_site_packages: Whether completions can import what is installed in the image.
        require_isolated: Never judge in one process.
        image: The image of sandboxes that are not on this machine, for messages.
        headers: The precompiled headers that sandboxes see; without them, none are used.
        known_bytes: Maximum memory for problems about which something is known.
    """

    def __init__(
        self,
        *,
        with_site_packages: bool = False,
        require_isolated: bool = False,
        image: str = "",
        headers: Headers | None = None,
        known_bytes: int = MOST_BYTES,
    ) -> None:
        super().__init__(with_site_packages=with_site_packages, image=image, headers=headers, known_bytes=known_bytes)
        self._require_isolated = require_isolated

    @classmethod
    def on(cls, connection: Connection, *, require_isolated: bool = False, known_bytes: int = MOST_BYTES) -> Self:
        """The judge for the sandboxes of a connection."""
        image = "" if connection.is_local else connection.image
        return cls(
            with_site_packages=connection.has_site_packages,
            require_isolated=require_isolated,
            image=image,
            headers=headers_of(connection.prebuilt),
            known_bytes=known_bytes,
        )

    @property
    def requires_isolated(self) -> bool:
        """Whether no completion is judged in its own process."""
        return self._require_isolated

    @property
    def version(self) -> str:
        """A digest of the guest's source, and whether isolation is required."""
        name = "isolated-required-" if self._require_isolated else "isolated-"
        return name + digest(ALL_MODES)

    def prepare(self, problem: Problem, code: str, limits: Limits) -> Execution:
        """The command that judges `code`; what it is held against never reaches the completion's process."""
        if problem.kind != "tests" or not problem.is_python or self._is_judged_in_process(problem, code):
            return super().prepare(problem, code, limits)
        return self._execution(problem, code, limits, ISOLATED_TESTS)

    def _is_judged_in_process(self, problem: Problem, code: str) -> bool:
        if self._require_isolated:
            return False
        found = self._known.find(problem)
        return found.splits is False or (bool(found.failed_apart) and _digest(code) in found.failed_apart)

    def review(self, problem: Problem, code: str, verdict: Verdict) -> Verdict | Review:
        """The verdict that counts for `code`, or what to do before there is one."""
        if not problem.is_python:
            ruling = super().review(problem, code, verdict)
            if self._require_isolated and problem.kind == "tests" and isinstance(ruling, Verdict):
                return _not_isolated(ruling)
            return ruling
        if (packages := self._review_packages(problem, verdict)) is not None:
            return packages
        if verdict.trust is Trust.OWN_OPERATOR and verdict.is_pass and self._require_isolated:
            return _not_isolated(verdict, "only an operator of its own class says that its objects are as they must be")
        is_doubtful = verdict.is_apart and verdict.status in _DOUBTFUL
        if verdict.status is Status.TIMEOUT and verdict.is_apart and problem.reference is None:
            # Each side may have waited for the other one.
            is_doubtful = facts_of(problem).needs_one_process
        if problem.kind != "tests" or not is_doubtful or invalid_check(problem, verdict) is not None:
            return super().review(problem, code, verdict)
        is_refusal = verdict.status is Status.NOT_ISOLATED
        splits = self._known.find(problem).splits
        if splits is None:
            if all(map(is_plain, problem.tests)) and not problem.setup:
                self._known.about(problem).splits = True
                return verdict
            if problem.reference is not None:
                return Review.TRY_REFERENCE
            # Nothing but the source of its checks says what a problem without a reference needs.
            if not facts_of(problem).needs_one_process:
                return verdict
            if not self._require_isolated:
                self._known.about(problem).note_failed_apart(_digest(code))
                return Review.AGAIN
        elif splits:
            return verdict
        elif not self._require_isolated:
            return Review.AGAIN
        return verdict if is_refusal else _not_isolated(verdict)

    def prepare_trial(self, problem: Problem, wanted: Review, limits: Limits) -> Execution:
        """The command that judges the problem's reference: apart from its checks, or with them once it failed so."""
        if wanted is not Review.TRY_REFERENCE or not problem.is_python:
            return super().prepare_trial(problem, wanted, limits)
        mode = TESTS if self._known.find(problem).fails_apart else ISOLATED_TESTS
        return self._execution(problem, problem.reference or "", limits, mode)

    def hear_trial(self, problem: Problem, wanted: Review, verdict: Verdict) -> None:
        """Learns from the reference whether the problem's checks can be kept apart from a completion."""
        if wanted is not Review.TRY_REFERENCE or not problem.is_python:
            super().hear_trial(problem, wanted, verdict)
        elif verdict.trust is Trust.IN_PROCESS:
            # One that always fails is no reason to judge in a weaker way.
            self._known.about(problem).splits = not verdict.is_pass
        elif verdict.is_pass or verdict.status not in _DOUBTFUL:
            self._known.about(problem).splits = True
        else:
            self._known.about(problem).fails_apart = True


# What the way of judging may have brought about.
_DOUBTFUL = frozenset({Status.FAILED, Status.CRASHED, Status.NOT_ISOLATED})


def _is_of_checker(verdict: Verdict) -> bool:
    """Whether the problem's checker failed: only the judge finds that, while setups and tools fail in the child."""
    return any(check.status is CheckStatus.INVALID for check in verdict.checks)


def _not_isolated(
    verdict: Verdict, detail: str = "its checks can only be judged in the completion's own process"
) -> Verdict:
    return replace(verdict, status=Status.NOT_ISOLATED, detail=detail)


def _digest(code: str) -> bytes:
    return hashlib.blake2b(code.encode("utf-8", "surrogatepass"), digest_size=16).digest()
