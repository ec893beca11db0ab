"""A problem's own code beside a completion's: preludes, and checks that are not valid Python."""

from __future__ import annotations

import pytest

from sandrl.events.results import ScoredCompletion, Status
from sandrl.problems import Case, Completion, Problem
from sandrl.problems.preludes import STANDARD
from sandrl.rewards import ScoreOptions, score
from sandrl.sandboxes import Job


def scored(job: Job, *pairs: tuple[Problem, str]) -> tuple[ScoredCompletion, ...]:
    """Judges code as an answer to each problem."""
    problems = {problem.task_id: problem for problem, _ in pairs}
    completions = [Completion(problem.task_id, problem.task_id, code=code) for problem, code in pairs]
    return score(completions, problems, job=job, options=ScoreOptions(concurrency=4)).results


@pytest.mark.parametrize("broken", ["assert f(2) =", "if f(2):\nassert True", "assert f(2) == 4\0", "return f(2)"])
def test_honest_code_gets_no_reward_for_a_check_that_is_not_valid_python(job: Job, broken: str) -> None:
    code = "def f(n): return 2 * n"
    alone = Problem("alone", "", tests=(broken,))
    among = Problem("among", "", tests=("assert f(1) == 2", broken))
    # Checks that hand over a function are judged in the completion's process.
    in_process = Problem(
        "in-process", "", tests=("assert f(len([0])) == 2 and callable(lambda: f)", broken), setup="x=1"
    )
    results = scored(job, (alone, code), (among, code), (in_process, code))
    assert [result.status for result in results] == [Status.INVALID_PROBLEM] * 3
    assert all(result.reward is None for result in results)
    assert "check 1 of 1 of the problem is not valid Python" in results[0].detail


@pytest.mark.parametrize("reference", ["", "  \n", "x = 5", "def another_name(x): return 1", "import math"])
def test_a_reference_that_says_nothing_about_the_checks_fails_no_right_answer(job: Job, reference: str) -> None:
    problem = Problem("inc", "", tests=("assert f(1) == 2",), reference=reference)
    right, wrong = scored(job, (problem, "def f(x): return x + 1"), (problem, "def f(x): return x"))
    assert (right.reward, wrong.reward) == (1.0, 0.0)


def test_a_completion_cannot_make_a_valid_check_invalid(job: Job) -> None:
    code = "def f(n): raise SyntaxError('invalid syntax')"
    [result] = scored(job, (Problem("valid", "", tests=("assert f(2) == 4",)), code))
    assert (result.status, result.reward) == (Status.FAILED, 0.0)


USES_PRELUDE = "def f(xs: List[int]) -> int:\n    return gcd(*map(abs, Counter(xs).elements())) + math.floor(0.5)"


def test_a_prelude_gives_names_to_the_completion_in_every_kind_of_problem(job: Job) -> None:
    tests = ("assert f([4, 6]) == 2",)
    program = "print(Counter(input())['a'], math.floor(datetime.timedelta(days=1).days), len(re.findall('a', 'aa')))"
    cases = (Case("aab\n", "2 1 2\n"),)
    problems = [
        (Problem("tests", "", tests=tests, prelude=STANDARD), USES_PRELUDE),
        (Problem("setup", "", tests=tests, prelude=STANDARD, setup="g = f"), USES_PRELUDE),
        (Problem("cases", "", cases=cases, prelude=STANDARD), program),
        (
            Problem("status", "", check="exit_status", prelude=STANDARD),
            "assert gcd(4, 6) == 2\nassert pow(2, 3, 5) == 3",
        ),
    ]
    assert [(each.task_id, each.reward, each.detail) for each in scored(job, *problems) if each.reward != 1.0] == []


def test_without_a_prelude_a_missing_import_is_the_mistake_that_it_is(job: Job) -> None:
    [result] = scored(job, (Problem("none", "", tests=("assert f([4, 6]) == 2",)), USES_PRELUDE))
    assert (result.status, result.reward) == (Status.FAILED, 0.0)


def test_what_the_completion_defines_counts_more_than_the_prelude(job: Job) -> None:
    code = "def gcd(a, b):\n    return 42"
    tests = ("assert gcd(4, 6) == 42", "assert g(4, 6) == 42")
    reference = "def gcd(a, b):\n    return 42\nlines = None"
    plain = Problem("plain", "", tests=tests[:1], prelude=STANDARD)
    late = Problem("late", "", tests=tests, prelude=STANDARD, setup="g = gcd\nunknown = lambda: g", reference=reference)
    # In one process this setup runs twice: it uses a name that only the completion defines.
    twice = Problem("twice", "", tests=("assert gcd(4, 6) == 42 and callable(own)",), prelude=STANDARD, setup="h = own")
    results = scored(job, (plain, code), (late, code), (twice, f"{code}\nown = gcd"))
    assert [(each.task_id, each.reward, each.detail) for each in results if each.reward != 1.0] == []


def test_line_numbers_of_a_completion_do_not_count_the_prelude(job: Job) -> None:
    [result] = scored(
        job, (Problem("line", "", tests=("assert f()",), prelude=STANDARD), "def f():\n    raise KeyError(1)")
    )
    assert "(line 2)" in result.detail


def test_where_a_package_of_the_problem_is_missing_no_completion_is_judged(job: Job) -> None:
    needs = Problem("needs", "", tests=("assert f(1) == 2",), packages=("json", "no_such_package"))
    has = Problem("has", "", tests=("assert f(1) == 2",), packages=("json",))
    program = Problem("program", "", cases=(Case("", "1"),), packages=("no_such_package",))
    uses = "import no_such_package\ndef f(n): return n + 1"
    right, wrong = "def f(n): return n + 1", "import no_such_package\ndef f(n): return n"
    results = scored(job, (needs, uses), (needs, right), (has, wrong), (program, "import no_such_package\nprint(1)"))
    assert [result.status for result in results] == [
        Status.INVALID_PROBLEM,
        Status.INVALID_PROBLEM,
        Status.FAILED,
        Status.INVALID_PROBLEM,
    ]
    assert [result.reward for result in results] == [None, None, 0.0, None]
    assert results[0].detail.startswith("the problem needs the module 'no_such_package', which sandboxes do not have")
    assert "the completion imports 'no_such_package'" in results[2].detail
