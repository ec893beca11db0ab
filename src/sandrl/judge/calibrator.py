"""The trials of a problem: known code that is judged before its first completion.

Is the problem valid, can sandboxes run it, and do its checks mean the same apart from a completion as in one process
with it? Some checks do not (they look at what the completion prints, or into its frames): there, the reference passes
in one process and fails apart from its checks, each time.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Generator, Hashable
from dataclasses import replace
from functools import lru_cache, partial

from sandrl.answers.builds import Build, builds_of, example_of
from sandrl.answers.reference import is_plain
from sandrl.answers.sources import refusal
from sandrl.events.results import CheckStatus, Status, Trust
from sandrl.judge.calibration import (
    LACKING,
    PLAIN,
    Calibration,
    Trial,
    Trials,
    imported_by_checks,
    is_in_library,
    modules_in_files,
    modules_of,
)
from sandrl.judge.facts import facts_of
from sandrl.judge.guest_command import GuestCommands
from sandrl.judge.guest_report import Execution
from sandrl.judge.guest_request import mode_of
from sandrl.judge.limits import Limits
from sandrl.judge.patches import changes_of, draws
from sandrl.judge.program import ISOLATED_TESTS, PROGRAM_EXIT_STATUS, TESTS
from sandrl.judge.stubs import empty_answer
from sandrl.judge.verdict import Verdict
from sandrl.problems import EXIT_STATUS, Problem
from sandrl.problems.completions import expected_answer
from sandrl.problems.languages import PYTHON
from sandrl.problems.math_answers import boxed
from sandrl.syntax import syntax_of

DOUBTFUL = frozenset({Status.FAILED, Status.CRASHED, Status.NOT_ISOLATED, Status.TIMEOUT})
"""What the way of judging may have brought about: of a timeout, each side may have waited for the other one."""

# How often known code runs where chance may decide what it does.
_RUNS_OF_DRAWS = 3
_LINE = re.compile(r" \(line \d+\)$")
_BARE = Problem("known", "", check=EXIT_STATUS)
# How the detail of a check begins that the compiler refused.
_REFUSALS = ("SyntaxError", "IndentationError", "TabError", "ValueError")


class Calibrator:
    """Calibrates problems by trials.

    Args:
        commands: Makes the commands of trials.
        image: The image of sandboxes that have not this machine's system, for messages.
        require_isolated: Whether no completion may be judged in one process with its checks.
    """

    def __init__(self, commands: GuestCommands, *, image: str = "", require_isolated: bool = False) -> None:
        self._commands = commands
        self._image = image
        self._require_isolated = require_isolated
        # Why sandboxes cannot import modules, or run programs in a form of a language; empty where they can.
        self._unusable: dict[Hashable, str] = {}

    def calibrate(self, problem: Problem, limits: Limits) -> Trials:
        for module in modules_of(problem):
            if why := (yield from self._try_module(module, limits)):
                return Calibration(invalid=why)
        usable = yield from self.calibrate_build(problem, problem.reference or "", limits)
        if usable.invalid:
            return usable
        run = partial(self._commands.execution, problem, limits=limits, mode=mode_of(problem))
        if problem.checker is not None:
            return (yield from self._try_checker(problem, limits))
        if not problem.is_python:
            if problem.reference is None or not (problem.tests or problem.setup):
                return PLAIN
            # The problem's own text is a part of the program.
            verdict = yield Trial(partial(run, problem.reference))
            is_broken = verdict.status is Status.COMPILE_ERROR
            detail = f"the problem's reference cannot be compiled with its tests and setup: {verdict.detail}"
            return Calibration(invalid=detail) if is_broken else PLAIN
        if problem.asks_reference:
            verdict = yield Trial(partial(run, problem.reference or "", keeps=True))
            if verdict.returned is not None:
                return Calibration(returned=verdict.returned)
            return Calibration(invalid=f"the problem's reference fails: {verdict.detail or verdict.status.value}")
        if problem.kind == "tests":
            return PLAIN if self._needs_no_trial(problem) else (yield from self._try_tests(problem, limits))
        if is_inert(problem.setup) and is_inert(problem.prelude):
            return PLAIN
        for _ in range(2):
            verdict = yield Trial(partial(run, ""))
            if verdict.status is not Status.TIMEOUT:
                return Calibration(invalid=_failed(verdict))
        return Calibration(invalid="the problem's setup takes longer than the time limit of a completion")

    def calibrate_build(self, problem: Problem, code: str, limits: Limits) -> Trials:
        """Whether sandboxes can build and run code in a language other than Python."""
        for build in () if problem.is_python else builds_of(problem, code):
            if why := (yield from self._try_form(build, limits)):
                return Calibration(invalid=why)
        return PLAIN

    def _needs_no_trial(self, problem: Problem) -> bool:
        # Such tests mean the same wherever they run, and can fail for no reason of their own. But where isolation is
        # required, a reference shows whether operators of its own decide.
        may_show = self._require_isolated and problem.reference is not None
        return not needs_trial(problem) and not (may_show and any(map(_compares_results, problem.tests)))

    def _try_tests(self, problem: Problem, limits: Limits) -> Trials:
        code = empty_answer(problem) if problem.reference is None else problem.reference
        run = partial(self._commands.execution, problem, code, limits)
        apart, together = Trial(partial(run, ISOLATED_TESTS)), Trial(partial(run, TESTS))
        if obstacle := obstacle_of(problem):
            verdict = yield together
            why = _broken(problem, verdict, code)
            return Calibration(invalid=why) if why else Calibration(reason=obstacle)
        verdict = yield apart
        if why := _broken(problem, verdict, code):
            return Calibration(invalid=why)
        is_refused = verdict.status is Status.NOT_ISOLATED
        if problem.reference is None:
            if is_refused:
                return Calibration(reason=f"{verdict.status.value}: {verdict.detail}")
            if self._require_isolated and facts_of(problem).needs_one_process:
                return Calibration(reason="their source may need it, and the problem has no reference")
            return PLAIN
        runs = runs_of_reference(problem)
        for _ in range(runs - 1):
            if verdict.is_pass:
                verdict = yield apart
        if verdict.is_pass and verdict.trust is Trust.OWN_OPERATOR and self._require_isolated:
            return Calibration(reason="its reference passes only by an operator of its own class")
        if verdict.is_pass or verdict.status not in DOUBTFUL:
            return PLAIN
        reason = f"{verdict.status.value}: {verdict.detail}"
        for _ in range(runs):
            verdict = yield together
            if why := _broken(problem, verdict, code):
                return Calibration(invalid=why)
            if not verdict.is_pass and not is_refused:
                return PLAIN  # a reference that always fails is no reason to judge in a weaker way
        if not is_refused and runs == 1:
            # One failure may be the machine's.
            verdict = yield apart
            if verdict.is_pass:
                return PLAIN
        return Calibration(reason=reason)

    def _try_module(self, module: str, limits: Limits) -> Generator[Trial, Verdict, str]:
        if not self._image and is_in_library(module):
            return ""
        prepare = partial(self._commands.execution, _BARE, _import_of(module), limits, mode_of(_BARE))
        return (yield from self._try_once(module, prepare, partial(_missing, module)))

    def _try_form(self, build: Build, limits: Limits) -> Generator[Trial, Verdict, str]:
        bare = replace(_BARE, language=build.language.name)
        # As long as anything may take: how long the problem's own programs may is another question.
        seconds = max(limits.compile_timeout_seconds, Limits().compile_timeout_seconds)
        usual = Limits(compile_timeout_seconds=seconds)
        builds = [example_of(build.form, build.language)]
        prepare = partial(self._commands.execution, bare, "", usual, PROGRAM_EXIT_STATUS, builds=builds)
        return (yield from self._try_once(build.form, prepare, partial(self._unusable_form, build)))

    def _try_once(
        self, key: Hashable, prepare: Callable[[], Execution], why: Callable[[Verdict], str]
    ) -> Generator[Trial, Verdict, str]:
        if key not in self._unusable:
            verdict = yield Trial(prepare, (self, key))
            self._unusable[key] = why(verdict)
        return self._unusable[key]

    def _try_checker(self, problem: Problem, limits: Limits) -> Trials:
        # Does it work on right outputs: those of the problem's reference, or the expected ones?
        answer = problem.reference if problem.answer is None else boxed(problem.answer)
        if answer is None:
            answer, problem = expected_answer(problem), replace(problem, language=PYTHON)
        verdict = yield Trial(partial(self._commands.execution, problem, answer, limits, mode_of(problem)))
        return Calibration(invalid=_failed(verdict))

    def _unusable_form(self, build: Build, verdict: Verdict) -> str:
        if verdict.is_pass:
            return ""
        packages = ", ".join(build.form.packages)
        where, install = "sandboxes", f"install the Debian packages {packages}"
        if self._image:
            where, install = f"the image {self._image}", f"install there the packages that Debian calls {packages}"
        why = verdict.detail or verdict.status.value
        return f"the problem's language is {build.language.name}, and {where} cannot run it: {why} ({install})"


# What the source of a problem says


def needs_trial(problem: Problem) -> bool:
    """Whether tests may mean something else apart from a completion, as far as their source says."""
    return bool(problem.setup) or not all(map(is_plain, problem.tests))


def obstacle_of(problem: Problem) -> str:
    """Why tests can only be judged in one process with a completion, whatever their reference does; empty if not."""
    return changes_of(problem).obstacle or _imported_file(problem)


def runs_of_reference(problem: Problem) -> int:
    """How often known code runs in a trial of tests."""
    return _RUNS_OF_DRAWS if draws(problem) else 1


def imports_packages(problem: Problem) -> bool:
    """Whether checks import packages, and so may hand over an object that an empty answer may have failed before."""
    return not all(map(is_in_library, imported_by_checks(problem)))


def _import_of(name: str) -> str:
    # Code that fails if there is neither a module nor a package of the name.
    package = re.split(r"[^\w.-]", name)[0]
    attempt = f"import {name}" if name.isidentifier() else f"raise ModuleNotFoundError({f'No module named {name!r}'!r})"
    return (
        f"try:\n    {attempt}\nexcept ModuleNotFoundError as error:\n    from importlib.metadata import version\n"
        f"    try:\n        version({package!r})\n    except ModuleNotFoundError:\n        raise error from None\n"
    )


def _imported_file(problem: Problem) -> str:
    # A file of the problem that its checks import: the completion can write to it, and their process does not have it.
    names = imported_by_checks(problem) & modules_in_files(problem)
    file = min((name for name in names if not is_in_library(name)), default="")
    return f"they import {file!r}, a file that the completion also has" if file else ""


@lru_cache(maxsize=4096)
def is_inert(text: str) -> bool:
    # Code that does nothing but import from the standard library, and define functions and constants, cannot fail.
    tree = syntax_of(text).tree
    return tree is not None and all(map(_is_inert_statement, tree.body))


def _is_inert_statement(statement: ast.stmt) -> bool:
    match statement:
        case ast.Import(names=names):
            return all(is_in_library(alias.name.partition(".")[0]) for alias in names)
        case ast.ImportFrom(module=str(module), level=0):
            return is_in_library(module.partition(".")[0])
        case ast.Expr(value=ast.Constant()) | ast.Assign(value=ast.Constant()) | ast.Pass():
            return True
        case ast.FunctionDef(args=arguments, decorator_list=[]):
            return all(isinstance(each, ast.Constant) for each in (*arguments.defaults, *arguments.kw_defaults) if each)
        case _:
            return False


@lru_cache(maxsize=4096)
def _compares_results(test: str) -> bool:
    # What several calls return, which an operator of the completion's may decide.
    comparisons = [(node.left, *node.comparators) for node in syntax_of(test).of(ast.Compare)]
    calls = [[any(isinstance(part, ast.Call) for part in ast.walk(side)) for side in sides] for sides in comparisons]
    return any(sum(each) > 1 for each in calls)


# What a verdict on known code says: why no completion of the problem can be judged; empty if they can


def _broken(problem: Problem, verdict: Verdict, code: str) -> str:
    return _failed(verdict) or _invalid_check(problem, verdict) or _invalid_import(verdict, code)


def _failed(verdict: Verdict) -> str:
    # The problem's own setup or checker.
    return verdict.detail if verdict.status is Status.INVALID_PROBLEM else ""


def _invalid_check(problem: Problem, verdict: Verdict) -> str:
    # The interpreter that judged refused the check, and this one does too.
    for number, (check, test) in enumerate(zip(verdict.checks, problem.tests, strict=False), 1):
        if check.status is CheckStatus.FAILED and check.detail.startswith(_REFUSALS):
            reason = refusal(test)
            if reason is not None:
                return f"check {number} of {len(problem.tests)} of the problem is not valid Python: {reason}"
    return ""


def _invalid_import(verdict: Verdict, code: str) -> str:
    # A module that known code does not import.
    for number, check in enumerate(verdict.checks, 1):
        if check.detail.startswith("ModuleNotFoundError: No module named "):
            module = check.detail.split("'")[1].partition(".")[0] if "'" in check.detail else ""
            if module and module not in code:
                return f"check {number} of {len(verdict.checks)} of the problem imports {module!r}, {LACKING}"
    return ""


def _missing(module: str, verdict: Verdict) -> str:
    if verdict.status is not Status.FAILED:
        return ""
    reason = _LINE.sub("", verdict.detail)
    what = f"the problem needs the {'module' if module.isidentifier() else 'package'} {module!r}"
    if reason == f"ModuleNotFoundError: No module named {module!r}":
        return f"{what}, {LACKING}"
    return f"{what}, which sandboxes cannot import: {reason}"
