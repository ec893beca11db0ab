"""Why a completion failed: rows of trajectories and of problems, joined."""

from __future__ import annotations

from pathlib import Path

from tests.support.sample_runs import JOB, failed

from sandrl.problems import Case, Problem, render_prompt
from sandrl.problems.calls import Call
from sandrl.problems.problem_records import KeptProblems, problem_row
from sandrl.problems.prompting import Prompting
from sandrl.runs import CheckRow, ProblemCheck, RunReader, RunWriter
from sandrl.runs.explanations import failed_checks


def row_of(problem: Problem, show_tests: int | None = None) -> tuple[ProblemCheck, ...]:
    return problem_row(problem, job_id=JOB, prompting=None if show_tests is None else Prompting(show_tests)).checks


def test_a_failed_check_has_its_source_and_what_it_got_and_expected() -> None:
    problem = problem_row(Problem("p", "", tests=("assert f(1) == 1", "assert f(2) == 3")), job_id=JOB)
    checks = (CheckRow(status="passed"), CheckRow(status="failed", detail="why", got="2", expected="3", line=1))
    (check,) = failed_checks(failed(0, problem=problem.digest, checks=checks), {problem.digest: problem})
    assert (check.number, check.source, check.got, check.expected, check.line, check.is_hidden) == (
        2, "assert f(2) == 3", "2", "3", 1, True,
    )  # fmt: skip


def test_a_case_that_timed_out_has_its_input_and_what_it_should_have_printed() -> None:
    problem = problem_row(Problem("p", "", cases=(Case("1\n", "2\n"),)), job_id=JOB)
    checks = (CheckRow(status="timeout"),)
    (check,) = failed_checks(failed(0, problem=problem.digest, checks=checks), {problem.digest: problem})
    assert (check.stdin, check.expected, check.got, check.status) == ("1\n", "2\n", None, "timeout")


def test_checks_that_did_not_run_failed_in_no_way() -> None:
    checks = tuple(CheckRow(status=status) for status in ("passed", "not_run", "not_reached"))
    assert failed_checks(failed(0, checks=checks), {}) == ()


def test_a_run_without_problems_tells_what_its_rows_have() -> None:
    (check,) = failed_checks(failed(0, problem="gone", checks=(CheckRow(status="failed", got="1"),)), {})
    assert (check.got, check.source, check.is_hidden) == ("1", "", None)


def test_checks_that_the_prompt_shows_are_not_hidden() -> None:
    tests = Problem("p", "Write f, so that assert f(1)  ==  1", tests=("assert f(1) == 1", "assert f(2) == 2"))
    assert [check.is_hidden for check in row_of(tests)] == [False, True]
    assert [check.is_hidden for check in row_of(tests, show_tests=2)] == [False, False]
    cases = Problem("p", "Input\n1\nOutput\n2\n", cases=(Case("1\n", "2\n"), Case("3\n", "2\n")))
    assert [check.is_hidden for check in row_of(cases)] == [False, True]
    assert [check.is_hidden for check in row_of(cases, show_tests=1)] == [False, True]
    calls = Problem("p", "", fn="f", calls=(Call.of([1], 1), Call.of([2], 2)))
    assert [check.is_hidden for check in row_of(calls, show_tests=1)] == [False, True]
    assert [check.source for check in row_of(calls)] == ["assert f(1) == 1", "assert f(2) == 2"]


def test_no_hidden_check_is_in_the_prompt_that_goes_with_it() -> None:
    problem = Problem("p", "Write f.", tests=tuple(f"assert f({number}) == {number}" for number in range(9)))
    for shown in range(10):
        row = problem_row(problem, job_id=JOB, prompting=Prompting(shown))
        assert row.prompt == render_prompt(problem, show_tests=shown).text
        assert [check.source in row.prompt for check in row.checks] == [not check.is_hidden for check in row.checks]


def test_a_problem_is_written_once_and_again_when_it_changes(tmp_path: Path) -> None:
    first = Problem("p", "one", tests=("assert f(1) == 1",))
    same = Problem("p", "one", tests=("assert f(1) == 1",))
    other = Problem("p", "two", tests=("assert f(1) == 1",))
    with RunWriter.create(tmp_path, command="reward", job_id=JOB) as writer:
        kept = KeptProblems(writer)
        digests = [kept.digest_of(problem) for problem in (first, first, same, other)]
        lines = (writer.path / "problems.jsonl").read_text().splitlines()
    assert len(set(digests)) == len(lines) == 2
    read = RunReader(writer.path).problems()
    assert [read[digest].prompt for digest in digests] == ["one", "one", "one", "two"]


def test_a_problem_of_many_large_checks_takes_bounded_room() -> None:
    many = Problem("p", "x" * 50_000, cases=tuple(Case("i" * 5000, "o" * 5000) for _ in range(3000)))
    row = problem_row(many, job_id=JOB)
    assert len(row.to_json()) < 300_000
    assert row.truncated
    assert row.checks[0].truncated
    assert row.check_count == 3000
    small = problem_row(Problem("p", "x", tests=("assert f(1) == 1",)), job_id=JOB)
    assert (small.truncated, small.checks[0].truncated) == (False, False)
