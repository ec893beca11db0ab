"""What a judge knows about problems, in bounded memory."""

from __future__ import annotations

from sandrl.problems import Problem
from sandrl.rewards.knowledge import Knowledge


def problem(number: int, size: int = 1000) -> Problem:
    return Problem(f"p{number}", "x" * size, check="exit_status")


def test_findings_are_found_for_an_equal_problem() -> None:
    known = Knowledge()
    known.about(problem(1)).splits = False
    assert known.find(problem(1)).splits is False
    assert known.find(problem(2)).splits is None


def test_asking_keeps_nothing() -> None:
    known = Knowledge()
    known.find(problem(1))
    assert len(known) == 0


def test_what_was_asked_about_longest_ago_is_forgotten_first() -> None:
    known = Knowledge(max_bytes=5000)
    for number in range(3):
        known.about(problem(number)).is_broken = True
    known.find(problem(0))
    for number in range(3, 5):
        known.about(problem(number)).is_broken = True
    assert known.find(problem(0)).is_broken
    assert known.find(problem(1)).is_broken is None
    assert len(known) < 5


def test_what_is_added_to_a_problem_counts() -> None:
    known = Knowledge(max_bytes=5000)
    known.about(problem(1)).compiles = True
    known.about(problem(2), more_bytes=4000).compiles = True
    assert known.find(problem(1)).compiles is None
    assert known.find(problem(2)).compiles


def test_one_problem_larger_than_the_bound_is_kept() -> None:
    known = Knowledge(max_bytes=100)
    known.about(problem(1, size=5000)).splits = True
    assert known.find(problem(1, size=5000)).splits


def test_completions_that_failed_apart_are_bounded() -> None:
    findings = Knowledge().about(problem(1))
    for number in range(10_000):
        findings.note_failed_apart(number.to_bytes(16, "big"))
    assert len(findings.failed_apart) < 5000
    assert (9_999).to_bytes(16, "big") in findings.failed_apart
