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
from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib.resources import files
from typing import Any, Protocol, Self

from sandrl.errors import InfrastructureError
from sandrl.events.results import CheckStatus, Status, Trust
from sandrl.problems import EXIT_STATUS, Case, Problem
from sandrl.problems.languages import PYTHON, Form
from sandrl.problems.references import expected_answer
from sandrl.rewards.builds import Build, builds_of, example_of
from sandrl.rewards.calibration import (
    LACKING,
    MOST_BYTES,
    PLAIN,
    Calibration,
    Calibrations,
    Trial,
    Trials,
    compares_results,
    import_of,
    imported_by_checks,
    imported_file,
    invalid_check,
    invalid_import,
    is_in_library,
    is_inert,
    modules_of,
    needs_no_trial,
)
from sandrl.rewards.facts import facts_of
from sandrl.rewards.guest.clock import LONGEST
from sandrl.rewards.guest_report import Execution, read_reference_values, read_verdict
from sandrl.rewards.guest_request import (
    ALL_MODES,
    CHECKED,
    COMPARED,
    hidden_part,
    mode_of,
    open_part,
    setup_of_completion,
)
from sandrl.rewards.headers import Headers, headers_of
from sandrl.rewards.limits import (
    Limits,
    check_time_limit,
    checker_time_limits,
    compile_time_limit,
    may_stop,
    time_limit,
)
from sandrl.rewards.patches import can_be_carried, changes_of, draws
from sandrl.rewards.program import (
    ISOLATED_TESTS,
    PROGRAM_EXIT_STATUS,
    TESTS,
    Mode,
    begin_worker,
    cell_program_of,
    command_line,
    digest,
    program_of,
)
from sandrl.rewards.stubs import empty_answer
from sandrl.rewards.verdict import Verdict
from sandrl.sandboxes import CellCommand, Command, CommandOutcome, Connection, WorkerProgram

__all__ = ["Execution", "InProcessJudge", "IsolatedJudge", "Judge", "Limits"]

# How long after the latest that the judge's own clock can go off the SDK's does: only for a judge that was stopped.
_GRACE_SECONDS = 10.0
_EXCERPT_BYTES = 300
_KEY_BYTES = 32
# How often known code runs where chance may decide what it does.
_RUNS_OF_DRAWS = 3
_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
# The modules of this package that decide, on this machine, what is judged and how.
_DECIDING = (
    *("assertions", "builds", "calibration", "expected", "guest_report", "guest_request", "judge", "limits", "patches"),
    *("facts", "reference"),
)
_LINE = re.compile(r" \(line \d+\)$")
_BARE = Problem("known", "", check=EXIT_STATUS)


class Judge(Protocol):
    """Decides what a completion did.

    Attributes:
        version: Changes whenever the same completion might be judged differently.
        calibrations: The calibrations of problems.
    """

    @property
    def version(self) -> str:
        """Changes whenever the same completion might be judged differently."""
        ...

    @property
    def calibrations(self) -> Calibrations:
        """The calibrations of problems."""
        ...

    def calibrate(self, problem: Problem, limits: Limits) -> Trials:
        """The trials that must be run before the first completion of a problem."""
        ...

    def refusal(self, problem: Problem, known: Calibration) -> Verdict | None:
        """The verdict on every completion of a problem that cannot be judged; None if it can."""
        ...

    def prepare(
        self, problem: Problem, code: str, limits: Limits, known: Calibration = PLAIN, *, together: bool = False
    ) -> Execution:
        """The command that judges `code` as an answer to `problem`.

        Args:
            problem: The problem.
            code: The completion.
            limits: What it may use.
            known: What is known about the problem.
            together: Whether `review` found that checks and completion must be in one process.
        """
        ...

    def interpret(self, execution: Execution, outcome: CommandOutcome) -> Verdict:
        """The verdict that an execution's outcome stands for.

        Raises:
            InfrastructureError: If the outcome says nothing about the code.
        """
        ...

    def review(self, problem: Problem, verdict: Verdict) -> Verdict | None:
        """The verdict that counts; None if the completion must be judged once more, in one process with its checks."""
        ...

    def prepare_opinion(self, problem: Problem, code: str, limits: Limits) -> Execution | None:
        """The command that judges `code` in plain Python, in one process; None if there is no such way."""
        ...


@cache
def judge_version() -> str:
    """Twelve hex digits that change with the source of the judge: what runs in sandboxes, and what decides here."""
    package = files("sandrl.rewards")
    texts = [package.joinpath(f"{name}.py").read_bytes() for name in _DECIDING]
    return hashlib.sha256(b"".join((digest(ALL_MODES).encode(), *texts))).hexdigest()[:12]


def longest_run_seconds(timeout_seconds: float) -> float:
    """Seconds by the clock that the judge may take for a completion with a time limit, where processors are scarce."""
    return timeout_seconds * LONGEST + _GRACE_SECONDS


def longest_execution_seconds(problem: Problem, limits: Limits) -> float:
    """Seconds by the clock that a completion and its judging may take, where processors are scarce."""
    seconds = time_limit(problem, limits).most_seconds + compile_time_limit(problem, limits)
    return longest_run_seconds(seconds + checker_time_limits(problem)[1])


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
        self._with_site_packages = with_site_packages
        self._headers = headers or Headers(None)
        self._calibrations = Calibrations(known_bytes)
        # Why sandboxes cannot import modules, or run programs in a form of a language; empty where they can.
        self._unusable: dict[str | Form, str] = {}

    @property
    def calibrations(self) -> Calibrations:
        """The calibrations of problems."""
        return self._calibrations

    @property
    def version(self) -> str:
        """The version of the judge, and its kind."""
        return "in-process-" + judge_version()

    def prepare(
        self, problem: Problem, code: str, limits: Limits, known: Calibration = PLAIN, *, together: bool = False
    ) -> Execution:
        """The command that judges `code`; code and checks travel on standard input, never in its arguments."""
        return self._execution(problem, code, limits, mode_of(problem), known)

    def _execution(
        self,
        problem: Problem,
        code: str,
        limits: Limits,
        mode: Mode,
        known: Calibration = PLAIN,
        *,
        builds: Sequence[Build] = (),
        keeps: bool = False,
    ) -> Execution:
        """One completion, ready to be run in a mode of the guest.

        Args:
            problem: The problem.
            code: The completion.
            limits: What it may use.
            mode: How it is judged.
            known: What is known about the problem.
            builds: Programs that are run instead of the completion's.
            keeps: Whether this is the reference, of which is kept what it returns.
        """
        limit = time_limit(problem, limits)
        hidden_content = hidden_part(problem, mode, limits, known.returned, keeps=keeps)
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
            hash_seed=limits.hash_seed,
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
        hash_seed: int = 0,
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
            hash_seed: The seed of the interpreter's hashes.
            keeps: Whether it runs a reference, of which is kept what that returns.
            cases: The cases whose output is compared.
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

    def refusal(self, problem: Problem, known: Calibration) -> Verdict | None:
        """The verdict on every completion of a problem that cannot be judged; None if it can."""
        return Verdict(Status.INVALID_PROBLEM, None, detail=known.invalid) if known.invalid else None

    def review(self, problem: Problem, verdict: Verdict) -> Verdict | None:
        """The verdict that counts: what known code did not meet is the completion's doing."""
        if verdict.status is Status.NOT_ISOLATED:
            detail = f"the completion made a check need one process, known code does not: {verdict.detail}"
            return replace(verdict, status=Status.FAILED, passed=0, checks=(), detail=detail)
        if verdict.status is Status.INVALID_PROBLEM:
            return _blamed(problem, verdict)
        return self._with_hint(verdict)

    def _with_hint(self, verdict: Verdict) -> Verdict:
        """A verdict with what to do where a completion imports what sandboxes lack."""
        found = None if verdict.is_pass else _MISSING_MODULE.search(verdict.detail)
        name = found.group(1).partition(".")[0] if found is not None else ""
        if not name or is_in_library(name):
            return verdict
        return replace(verdict, detail=f"{verdict.detail}; the completion imports {name!r}, {LACKING}")

    # Calibration

    def _needs_no_trial(self, problem: Problem) -> bool:
        """Whether the tests of a problem need no trial."""
        return needs_no_trial(problem)

    def calibrate(self, problem: Problem, limits: Limits) -> Trials:
        """The trials that must be run before the first completion of a problem."""
        for module in modules_of(problem):
            if why := (yield from self._try_module(module, limits)):
                return Calibration(invalid=why)
        run = partial(self._execution, problem, limits=limits)
        usable = yield from self.calibrate_build(problem, problem.reference or "", limits)
        if usable.invalid:
            return usable
        if problem.checker is not None:
            return (yield from self._try_checker(problem, limits))
        if not problem.is_python:
            if problem.reference is None or not (problem.tests or problem.setup):
                return PLAIN
            # The problem's own text is a part of the program.
            verdict = yield Trial(partial(run, problem.reference, mode=mode_of(problem)))
            is_broken = verdict.status is Status.COMPILE_ERROR
            detail = f"the problem's reference cannot be compiled with its tests and setup: {verdict.detail}"
            return Calibration(invalid=detail) if is_broken else PLAIN
        if problem.asks_reference:
            verdict = yield Trial(partial(run, problem.reference or "", mode=mode_of(problem), keeps=True))
            if verdict.returned is not None:
                return Calibration(returned=verdict.returned)
            return Calibration(invalid=f"the problem's reference fails: {verdict.detail or verdict.status.value}")
        if problem.kind == "tests":
            return PLAIN if self._needs_no_trial(problem) else (yield from self._try_tests(problem, limits))
        if is_inert(problem.setup) and is_inert(problem.prelude):
            return PLAIN
        for _ in range(2):
            verdict = yield Trial(partial(run, "", mode=mode_of(problem)))
            if verdict.status is not Status.TIMEOUT:
                return Calibration(invalid=_failed(verdict))
        return Calibration(invalid="the problem's setup takes longer than the time limit of a completion")

    def _try_tests(self, problem: Problem, limits: Limits) -> Trials:
        """What checks in Python need: of these, all are run in the completion's process."""
        code = _known_code(problem)
        verdict = yield Trial(partial(self._execution, problem, code, limits, TESTS))
        return Calibration(invalid=_broken(problem, verdict, code))

    def _try_module(self, module: str, limits: Limits) -> Generator[Trial, Verdict, str]:
        """Why sandboxes cannot import a module; empty if they can."""
        if not self._image and is_in_library(module):
            return ""
        if module not in self._unusable:
            prepare = partial(self._execution, _BARE, import_of(module), limits, mode_of(_BARE))
            verdict = yield Trial(prepare, (self, module))
            reason = _LINE.sub("", verdict.detail)
            is_simple = reason == f"ModuleNotFoundError: No module named {module!r}"
            what = f"the {'module' if module.isidentifier() else 'package'} {module!r}"
            why = f"the problem needs {what}, {LACKING}"
            if not is_simple:
                why = f"the problem needs {what}, which sandboxes cannot import: {reason}"
            self._unusable[module] = why if verdict.status is Status.FAILED else ""
        return self._unusable[module]

    def calibrate_build(self, problem: Problem, code: str, limits: Limits) -> Trials:
        """Whether sandboxes can build and run code in a language other than Python."""
        for build in () if problem.is_python else builds_of(problem, code):
            if why := (yield from self._try_form(build, limits)):
                return Calibration(invalid=why)
        return PLAIN

    def _try_form(self, build: Build, limits: Limits) -> Generator[Trial, Verdict, str]:
        """Why sandboxes cannot run programs in a form of a language, by an example; empty if they can."""
        if build.form not in self._unusable:
            example = example_of(build.form, build.language)
            bare = replace(_BARE, language=build.language.name)
            # As long as anything may take: how long the problem's own programs may is another question.
            seconds = max(limits.compile_timeout_seconds, Limits().compile_timeout_seconds)
            usual = Limits(compile_timeout_seconds=seconds)
            prepare = partial(self._execution, bare, "", usual, PROGRAM_EXIT_STATUS, builds=[example])
            verdict = yield Trial(prepare, (self, build.form))
            self._unusable[build.form] = "" if verdict.is_pass else self._why_unusable(build, verdict)
        return self._unusable[build.form]

    def _try_checker(self, problem: Problem, limits: Limits) -> Trials:
        """Whether the checker of a problem works on right outputs: those of its reference, or the expected ones."""
        answer = problem.reference
        if answer is None:
            answer, problem = expected_answer(problem), replace(problem, language=PYTHON)
        verdict = yield Trial(partial(self._execution, problem, answer, limits, mode_of(problem)))
        return Calibration(invalid=_failed(verdict))

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


def _hands_over(problem: Problem, verdict: Verdict) -> bool:
    """Whether a check may hand a completion an object of a package, which an empty answer may have failed before."""
    is_refused = verdict.status is Status.NOT_ISOLATED
    return is_refused and not all(map(is_in_library, imported_by_checks(problem)))


def _broken(problem: Problem, verdict: Verdict, code: str) -> str:
    """Why no completion of a problem can be judged, by the verdict on known code; empty if they can."""
    return _failed(verdict) or invalid_check(problem, verdict) or invalid_import(verdict, code)


def _failed(verdict: Verdict) -> str:
    """How the problem's own setup or checker failed, by the verdict on known code; empty if neither did."""
    return verdict.detail if verdict.status is Status.INVALID_PROBLEM else ""


def _known_code(problem: Problem) -> str:
    """Code that a problem's tests are tried with: its reference, else functions that return nothing."""
    return problem.reference if problem.reference is not None else empty_answer(problem)


def _blamed(problem: Problem, verdict: Verdict) -> Verdict:
    """The verdict where the problem's own code failed for a completion, and works without it."""
    if any(check.status is CheckStatus.INVALID for check in verdict.checks):
        # The checker accepts right outputs, so this one is not right.
        checks = tuple(
            replace(check, status=CheckStatus.FAILED) if check.status is CheckStatus.INVALID else check
            for check in verdict.checks
        )
        detail = f"{verdict.detail}; the checker works on right outputs, so this output is wrong"
        return replace(verdict, status=Status.FAILED, checks=checks, detail=detail)
    broken = "the problem's setup, which works" if problem.is_python else "the tools of its language, which work"
    detail = f"the completion broke {broken} without it"
    return replace(verdict, status=Status.CRASHED, passed=0, checks=(), detail=detail)


class IsolatedJudge(InProcessJudge):
    """Runs checks in a process of their own, against proxies of the completion's functions and objects.

    Some checks have another meaning there than in one process (they look at what the completion prints, or into its
    frames), and can only be judged in one process. Calibration decides whether a problem's checks are of this kind: its
    reference passes in one process, and fails apart from its checks, each time. The trust of its verdicts is
    `in_process`. If a problem has no reference, the source of its checks decides: if they may need one process, a
    completion that fails isolated is judged again in one.

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
        """The version of the judge, and whether isolation is required."""
        name = "isolated-required-" if self._require_isolated else "isolated-"
        return name + judge_version()

    def refusal(self, problem: Problem, known: Calibration) -> Verdict | None:
        """The verdict on every completion of a problem that cannot be judged, or not as is required."""
        refused = super().refusal(problem, known)
        if refused is not None or not self._require_isolated or problem.kind != "tests":
            return refused
        if problem.is_python and known.splits:
            return None
        detail = "the problem's checks can only be judged in the completion's process"
        return Verdict(Status.NOT_ISOLATED, None, detail=f"{detail}: {known.reason}" if known.reason else detail)

    def prepare(
        self, problem: Problem, code: str, limits: Limits, known: Calibration = PLAIN, *, together: bool = False
    ) -> Execution:
        """The command that judges `code`; what it is held against never reaches the completion's process."""
        if problem.kind != "tests" or not problem.is_python or not known.splits or together:
            return super().prepare(problem, code, limits, known)
        return self._execution(problem, code, limits, ISOLATED_TESTS)

    def review(self, problem: Problem, verdict: Verdict) -> Verdict | None:
        """The verdict that counts; None if the completion must be judged once more, in one process with its checks."""
        if verdict.trust is Trust.OWN_OPERATOR and verdict.passed and self._require_isolated:
            detail = "a check passed only by an operator of the completion's own class, which is not isolated"
            if not verdict.is_pass:
                return replace(verdict, passed=0, checks=())
            if problem.reference is None:
                return replace(verdict, status=Status.NOT_ISOLATED, detail=detail)
            # In the trial the reference has passed without that.
            return replace(verdict, status=Status.FAILED, passed=0, checks=(), detail=detail)
        if (
            verdict.is_apart
            and verdict.status in _DOUBTFUL
            and problem.kind == "tests"
            and problem.reference is None
            and not self._require_isolated
            and (facts_of(problem).needs_one_process or _hands_over(problem, verdict))
        ):
            return None
        return super().review(problem, verdict)

    def _needs_no_trial(self, problem: Problem) -> bool:
        """Where isolation is required, a reference shows whether operators of its own decide."""
        may_show = self._require_isolated and problem.reference is not None
        return super()._needs_no_trial(problem) and not (may_show and any(map(compares_results, problem.tests)))

    def _try_tests(self, problem: Problem, limits: Limits) -> Trials:
        """Whether a problem's checks mean the same apart from a completion as in one process with it."""
        file = imported_file(problem)
        if file or not can_be_carried(problem):
            found = yield from super()._try_tests(problem, limits)
            reason = changes_of(problem).obstacle or f"they import {file!r}, a file that the completion also has"
            return found if found.invalid else Calibration(splits=False, reason=reason)
        code = _known_code(problem)
        apart, together = (partial(self._execution, problem, code, limits, mode) for mode in (ISOLATED_TESTS, TESTS))
        verdict = yield Trial(apart)
        if why := _broken(problem, verdict, code):
            return Calibration(invalid=why)
        is_refused = verdict.status is Status.NOT_ISOLATED
        reason = f"{verdict.status.value}: {verdict.detail}"
        if problem.reference is None:
            if is_refused:
                return Calibration(splits=False, reason=reason)
            if self._require_isolated and facts_of(problem).needs_one_process:
                return Calibration(splits=False, reason="their source may need it, and the problem has no reference")
            return PLAIN
        runs = _RUNS_OF_DRAWS if draws(problem) else 1
        if verdict.is_pass:
            for _ in range(runs - 1):
                verdict = yield Trial(apart)
                if not verdict.is_pass:
                    break
        if verdict.is_pass and verdict.trust is Trust.OWN_OPERATOR and self._require_isolated:
            return Calibration(splits=False, reason="its reference passes only by an operator of its own class")
        if verdict.is_pass or verdict.status not in _DOUBTFUL:
            return PLAIN
        reason = f"{verdict.status.value}: {verdict.detail}"
        for _ in range(runs):
            verdict = yield Trial(together)
            if why := _broken(problem, verdict, code):
                return Calibration(invalid=why)
            if not verdict.is_pass and not is_refused:
                return PLAIN  # a reference that always fails is no reason to judge in a weaker way
        if not is_refused and runs == 1:
            # One failure may be the machine's.
            verdict = yield Trial(apart)
            if verdict.is_pass:
                return PLAIN
        return Calibration(splits=False, reason=reason)


# What the way of judging may have brought about: of a timeout, each side may have waited for the other one.
_DOUBTFUL = frozenset({Status.FAILED, Status.CRASHED, Status.NOT_ISOLATED, Status.TIMEOUT})
