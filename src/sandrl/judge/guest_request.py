"""The request to the guest: how a problem is judged, and which process may hold which part of the problem.

A request has two parts. The process of a completion may hold the first. The second (expected outputs, checkers, calls,
the reference's return values) is read by the judge alone, after the completion's process was created.
"""

from __future__ import annotations

from typing import Any

from sandrl.answers.reference import names_under_test, reference_of
from sandrl.answers.selection import join
from sandrl.judge.assertions import marked
from sandrl.judge.facts import facts_of
from sandrl.judge.guest.calls import is_floats
from sandrl.judge.limits import Limits, check_time_limit, checker_time_limits
from sandrl.judge.patches import changes_of
from sandrl.judge.program import (
    CASES,
    CHECKED_CASES,
    CHECKED_PROGRAM_CASES,
    EXIT_STATUS,
    ISOLATED_TESTS,
    PROGRAM_CASES,
    PROGRAM_EXIT_STATUS,
    PROGRAM_TESTS,
    TESTS,
    Mode,
)
from sandrl.judge.verdict import ReferenceValues
from sandrl.problems import Comparison, Problem
from sandrl.problems.calls import function_of

MODES = {"tests": TESTS, "cases": CASES, "calls": ISOLATED_TESTS, "exit_status": EXIT_STATUS}
_PROGRAM_MODES = {"tests": PROGRAM_TESTS, "cases": PROGRAM_CASES, "exit_status": PROGRAM_EXIT_STATUS}
COMPARED = frozenset({CASES, PROGRAM_CASES})
CHECKED = (CHECKED_CASES, CHECKED_PROGRAM_CASES)
PROGRAM_MODES = frozenset({*_PROGRAM_MODES.values(), CHECKED_PROGRAM_CASES})
ALL_MODES = (*MODES.values(), *_PROGRAM_MODES.values(), *CHECKED)

# The least time limit of each call, unless a limit for checks is given, and how many times as long as the reference it
# may take.
_LEAST_SECONDS = 4.0
_REFERENCE_FACTOR = 4.0
_FLOAT_TOLERANCE = 1e-6


def mode_of(problem: Problem) -> Mode:
    """The way of judging a problem where nothing says that it is another."""
    if problem.checker is not None:
        return CHECKED_CASES if problem.is_python else CHECKED_PROGRAM_CASES
    return (MODES if problem.is_python else _PROGRAM_MODES)[problem.kind]


def setup_of_completion(problem: Problem) -> str:
    """What runs before a completion in its process: the prelude, once, and the problem's setup.

    A setup that uses what the completion defines runs again after it. The prelude does not: a star import then would
    replace names of the completion.
    """
    if not problem.prelude:
        return problem.setup
    once = f"if '__prelude__' not in globals():\n    __prelude__ = exec({problem.prelude!r}, globals())"
    return join([once, problem.setup])


def open_part(problem: Problem, mode: Mode) -> dict[str, Any]:
    """What of the checks the completion's process gets to hold."""
    files: dict[str, Any] = {"files": problem.files} if problem.files else {}
    if mode in COMPARED or mode in CHECKED:
        if problem.files or problem.input_file or problem.output_file:
            # Each case has a directory of its own then.
            files = {"files": problem.files, "input_file": problem.input_file, "output_file": problem.output_file}
        inputs = [case.stdin.encode("utf-8", "surrogatepass") for case in problem.cases]
        return {"inputs": inputs, "unit": "case", **files}
    if not problem.is_python:
        # One program each, whose exit status decides.
        unit = "check" if len(problem.tests) > 1 else ""
        return {"inputs": [b""] * problem.check_count, "unit": unit, **files}
    return {"tests": [marked(test) for test in problem.tests], **files} if mode is TESTS else files


def hidden_part(
    problem: Problem, mode: Mode, limits: Limits, returned: ReferenceValues | None, *, keeps: bool
) -> dict[str, Any]:
    """What the completion's process must never hold."""
    if mode in COMPARED:
        return {"expected": [case.stdout for case in problem.cases], "tolerance": _tolerance_of(problem)}
    if mode in CHECKED and problem.checker is not None:
        seconds, all_seconds = checker_time_limits(problem)
        return {
            "expected": [case.stdout for case in problem.cases],
            "checker": problem.checker.code,
            "is_program": problem.checker.is_program,
            "checker_seconds": seconds,
            "all_checkers_seconds": all_seconds,
        }
    if not problem.is_python:
        return {}
    if mode is ISOLATED_TESTS:
        reference, facts, changes = reference_of(problem), facts_of(problem), changes_of(problem)
        return {
            # As many as there are calls: those that are not reached have a verdict, too.
            "tests": [marked(test, facts.own) for test in problem.tests] or [""] * len(problem.calls),
            "setup": marked(problem.setup, facts.own, names_sides=False),
            "under_test": sorted(names_under_test(problem)),
            "facts": facts.request(),
            "imports": None if reference is None else dict(reference.imports),
            "reference": problem.reference if reference is not None and reference.classes else None,
            "methods": None if reference is None else sorted(reference.methods),
            **({"world": (changes.kinds, changes.places)} if changes else {}),
            **_calls_part(problem, limits, returned, keeps=keeps),
        }
    return {}


def _calls_part(problem: Problem, limits: Limits, returned: ReferenceValues | None, *, keeps: bool) -> dict[str, Any]:
    if problem.fn is None:
        return {}
    check_seconds = check_time_limit(problem, limits)
    is_plain_comparison = problem.comparison is Comparison.PLAIN
    owner, name = function_of(problem.fn)
    given = {
        "owner": owner,
        "name": name,
        "is_method": "." in problem.fn,
        "cases": [call.values for call in problem.calls],
        "tolerance": _tolerance_of(problem),
        "comparison": problem.comparison.value,
        "tolerances": None if is_plain_comparison else call_tolerances(problem, returned),
        "keeps": keeps,
        "seconds": None if returned is None else call_seconds(returned, check_seconds),
        "returned": None if returned is None else (returned.packed, list(returned.sizes)),
    }
    return {"calls": given}


def call_seconds(returned: ReferenceValues, check_timeout_seconds: float | None) -> list[float]:
    """How long each call may take, by a limit of single checks, if one is given, and how long the reference took."""
    least = _LEAST_SECONDS if check_timeout_seconds is None else check_timeout_seconds
    return [max(least, _REFERENCE_FACTOR * seconds) for seconds in returned.seconds]


def call_tolerances(problem: Problem, returned: ReferenceValues | None) -> list[float]:
    """By how much a number in the result of each call may differ, where a problem compares as EvalPlus does.

    Without a tolerance of the problem, that is 1e-6 from the first call of a part on that must return floats.
    """
    given = 0.0 if problem.tolerance is None else float(problem.tolerance.absolute)
    found: list[float] = []
    part, tolerance = None, given
    for number, call in enumerate(problem.calls):
        if call.part != part:
            part, tolerance = call.part, given
        is_float = is_floats(call.values[1]) if returned is None else returned.floats[number] == "f"
        if not tolerance and is_float:
            tolerance = _FLOAT_TOLERANCE
        found.append(tolerance)
    return found


def _tolerance_of(problem: Problem) -> tuple[float, ...] | None:
    tolerance = problem.tolerance
    if tolerance is None:
        return None
    return (float(tolerance.absolute), float(tolerance.relative), *((True,) if tolerance.words else ()))
