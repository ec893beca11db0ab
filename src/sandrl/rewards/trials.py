"""The trials of a problem: known code that is judged before its first completion.

Is the problem valid, can sandboxes run it, and do its checks mean the same apart from a completion as in one process
with it? Some checks do not (they look at what the completion prints, or into its frames): there, the reference passes
in one process and fails apart from its checks, each time.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import replace
from functools import partial

from sandrl.events.results import Status, Trust
from sandrl.problems import EXIT_STATUS, Problem
from sandrl.problems.languages import PYTHON, Form
from sandrl.problems.references import expected_answer
from sandrl.rewards.builds import Build, builds_of, example_of
from sandrl.rewards.calibration import (
    LACKING,
    PLAIN,
    Calibration,
    Trial,
    Trials,
    compares_results,
    import_of,
    imported_file,
    invalid_check,
    invalid_import,
    is_in_library,
    is_inert,
    modules_of,
    needs_no_trial,
)
from sandrl.rewards.facts import facts_of
from sandrl.rewards.guest_command import GuestCommands
from sandrl.rewards.guest_request import mode_of
from sandrl.rewards.limits import Limits
from sandrl.rewards.patches import can_be_carried, changes_of, draws
from sandrl.rewards.program import ISOLATED_TESTS, PROGRAM_EXIT_STATUS, TESTS
from sandrl.rewards.stubs import empty_answer
from sandrl.rewards.verdict import Verdict

DOUBTFUL = frozenset({Status.FAILED, Status.CRASHED, Status.NOT_ISOLATED, Status.TIMEOUT})
"""What the way of judging may have brought about: of a timeout, each side may have waited for the other one."""

# How often known code runs where chance may decide what it does.
_RUNS_OF_DRAWS = 3
_LINE = re.compile(r" \(line \d+\)$")
_BARE = Problem("known", "", check=EXIT_STATUS)


class Calibrator:
    """Calibrates problems by trials.

    Args:
        commands: Makes the commands of trials.
        image: The image of sandboxes that are not on this machine, for messages.
        require_isolated: Whether no completion may be judged in one process with its checks.
    """

    def __init__(self, commands: GuestCommands, *, image: str = "", require_isolated: bool = False) -> None:
        self._commands = commands
        self._image = image
        self._require_isolated = require_isolated
        # Why sandboxes cannot import modules, or run programs in a form of a language; empty where they can.
        self._unusable: dict[str | Form, str] = {}

    def calibrate(self, problem: Problem, limits: Limits) -> Trials:
        """The trials that must be run before the first completion of a problem."""
        for module in modules_of(problem):
            if why := (yield from self._try_module(module, limits)):
                return Calibration(invalid=why)
        run = partial(self._commands.execution, problem, limits=limits)
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

    def _needs_no_trial(self, problem: Problem) -> bool:
        # Where isolation is required, a reference shows whether operators of its own decide.
        may_show = self._require_isolated and problem.reference is not None
        return needs_no_trial(problem) and not (may_show and any(map(compares_results, problem.tests)))

    def _try_tests(self, problem: Problem, limits: Limits) -> Trials:
        """Whether a problem's checks mean the same apart from a completion as in one process with it."""
        code = _known_code(problem)
        apart, together = (
            partial(self._commands.execution, problem, code, limits, mode) for mode in (ISOLATED_TESTS, TESTS)
        )
        file = imported_file(problem)
        if file or not can_be_carried(problem):
            verdict = yield Trial(together)
            reason = changes_of(problem).obstacle or f"they import {file!r}, a file that the completion also has"
            why = _broken(problem, verdict, code)
            return Calibration(invalid=why) if why else Calibration(splits=False, reason=reason)
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
        if verdict.is_pass or verdict.status not in DOUBTFUL:
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

    def _try_module(self, module: str, limits: Limits) -> Generator[Trial, Verdict, str]:
        """Why sandboxes cannot import a module; empty if they can."""
        if not self._image and is_in_library(module):
            return ""
        if module not in self._unusable:
            prepare = partial(self._commands.execution, _BARE, import_of(module), limits, mode_of(_BARE))
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
            prepare = partial(self._commands.execution, bare, "", usual, PROGRAM_EXIT_STATUS, builds=[example])
            verdict = yield Trial(prepare, (self, build.form))
            self._unusable[build.form] = "" if verdict.is_pass else self._why_unusable(build, verdict)
        return self._unusable[build.form]

    def _try_checker(self, problem: Problem, limits: Limits) -> Trials:
        """Whether the checker of a problem works on right outputs: those of its reference, or the expected ones."""
        answer = problem.reference
        if answer is None:
            answer, problem = expected_answer(problem), replace(problem, language=PYTHON)
        verdict = yield Trial(partial(self._commands.execution, problem, answer, limits, mode_of(problem)))
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


def _broken(problem: Problem, verdict: Verdict, code: str) -> str:
    """Why no completion of a problem can be judged, by the verdict on known code; empty if they can."""
    return _failed(verdict) or invalid_check(problem, verdict) or invalid_import(verdict, code)


def _failed(verdict: Verdict) -> str:
    """How the problem's own setup or checker failed, by the verdict on known code; empty if neither did."""
    return verdict.detail if verdict.status is Status.INVALID_PROBLEM else ""


def _known_code(problem: Problem) -> str:
    """Code that a problem's tests are tried with: its reference, else functions that return nothing."""
    return problem.reference if problem.reference is not None else empty_answer(problem)
