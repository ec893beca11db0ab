"""Calibrations of problems in bounded memory, and on disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sandrl.judge.calibration import PLAIN, Calibration, Calibrations, CalibrationStore
from sandrl.judge.verdict import ReferenceValues
from sandrl.problems import Problem

KEY = "ab" * 32


def problem(number: int, size: int = 1000) -> Problem:
    return Problem(f"p{number}", "x" * size, check="exit_status")


def test_a_calibration_is_found_for_an_equal_problem() -> None:
    known = Calibrations()
    known.keep(problem(1), Calibration(reason="failed: why"))
    assert known.find(problem(1)) == Calibration(reason="failed: why")
    assert known.find(problem(2)) is None
    assert len(known) == 1


def test_what_was_asked_about_longest_ago_is_forgotten_first() -> None:
    known = Calibrations(max_bytes=5000)
    for number in range(3):
        known.keep(problem(number), PLAIN)
    known.find(problem(0))
    for number in range(3, 5):
        known.keep(problem(number), PLAIN)
    assert known.find(problem(0)) is not None
    assert known.find(problem(1)) is None
    assert len(known) < 5


def test_what_a_reference_returned_counts() -> None:
    known = Calibrations(max_bytes=5000)
    known.keep(problem(1), PLAIN)
    known.keep(problem(2), Calibration(returned=ReferenceValues("x" * 4000, (), (), "")))
    assert known.find(problem(1)) is None
    assert known.find(problem(2)) is not None


def test_one_problem_larger_than_the_bound_is_kept() -> None:
    known = Calibrations(max_bytes=100)
    known.keep(problem(1, size=5000), PLAIN)
    assert known.find(problem(1, size=5000)) == PLAIN


def test_a_problem_that_is_calibrated_again_counts_once() -> None:
    known = Calibrations(max_bytes=5000)
    for _ in range(100):
        known.keep(problem(1), PLAIN)
    known.keep(problem(2), PLAIN)
    assert len(known) == 2


def test_a_problem_that_was_invalid_is_tried_again_by_the_next_process(tmp_path: Path) -> None:
    store = CalibrationStore(tmp_path / "cache")
    store.keep(KEY, Calibration(invalid="it needs a module that was not there"))
    assert store.find(KEY, problem(1)) is None
    store.keep(KEY, Calibration(reason="failed: why"))
    assert store.find(KEY, problem(1)) == Calibration(reason="failed: why")
    assert store.find(KEY, replace(problem(1), task_id="other")) is not None, "the key names the problem"
