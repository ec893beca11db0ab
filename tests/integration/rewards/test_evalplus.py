"""Rows of EvalPlus, judged in sandboxes: what their references return decides, as EvalPlus' own checker decides."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandrl.events.results import CheckStatus, ScoredCompletion, Status, Trust
from sandrl.jsonl import Row
from sandrl.judge.limits import Limits
from sandrl.problems import Call, Comparison, Completion, Problem, Tolerance
from sandrl.problems.formats import parse_problem
from sandrl.problems.formats.evalplus import rebuilt
from sandrl.rewards import ScoreOptions, score
from sandrl.sandboxes import Job
from sandrl.scoring.summary import ScoreReport
from tests.support import evalplus_rows
from tests.support.evalplus_rows import TASKS, Task

# An interpreter that has PyPI `evalplus` 0.3.1 with numpy and psutil.
WITH_EVALPLUS = os.environ.get("SANDRL_TEST_EVALPLUS") or (
    sys.executable if importlib.util.find_spec("evalplus") else ""
)
ORACLE = Path(evalplus_rows.__file__).with_name("evalplus_oracle.py")

# What EvalPlus says of the reference and the answers of some tasks.
VERDICTS = {
    "HumanEval/901": "++----+",
    "HumanEval/905": "++-",
    "HumanEval/906": "++-",
    "HumanEval/32": "+-+++----",
    "HumanEval/925": "+++--+",
    "Mbpp/2": "++++++-+++---+",
    "Mbpp/724": "++-+++--++",
    "Mbpp/295": "++++-+-",
    "Mbpp/558": "++-+",
    "Mbpp/581": "++--+",
    "Mbpp/115": "++++-",
    "Mbpp/252": "+++--",
    "Mbpp/580": "+-",
}
MEAN = Problem(
    "mean",
    "Return the mean.",
    fn="mean",
    calls=(Call.asking([[1, 2.5]]), Call.asking([[0.1, 0.2]])),
    reference="def mean(xs):\n    return sum(xs) / len(xs)\n",
)


@pytest.fixture(autouse=True)
def cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SANDRL_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def problem_of(task: Task) -> Problem:
    return parse_problem(Row(1, task.row), "p.jsonl").problem


def reported(job: Job, problem: Problem, *codes: str, **options: Any) -> ScoreReport:
    completions = [Completion(str(number), problem.task_id, code=code) for number, code in enumerate(codes)]
    wanted = ScoreOptions(concurrency=4, **options)
    return score(completions, {problem.task_id: problem}, job=job, options=wanted)


def scored(job: Job, problem: Problem, *codes: str, **options: Any) -> list[ScoredCompletion]:
    return list(reported(job, problem, *codes, **options).results)


@pytest.mark.parametrize("task_id", VERDICTS)
def test_answers_get_the_verdicts_that_evalplus_gives(job: Job, task_id: str) -> None:
    [task] = [task for task in TASKS if task.task_id == task_id]
    results = scored(job, problem_of(task), *task.codes[: 1 + len(task.answers)])
    expected = [1.0 if mark == "+" else 0.0 for mark in VERDICTS[task_id]]
    assert [result.reward for result in results] == expected, [result.detail for result in results]
    assert {result.trust for result in results} == {Trust.ISOLATED}


def test_results_name_the_input_that_failed(job: Job) -> None:
    [task] = [task for task in TASKS if task.task_id == "HumanEval/925"]
    [result] = scored(job, problem_of(task), "def is_even(number):\n    return number != 3 and number != 0")
    assert [check.name for check in result.checks] == ["base_input[0]", *(f"plus_input[{n}]" for n in range(3))]
    assert [check.status for check in result.checks] == [CheckStatus.PASSED] * 2 + [CheckStatus.FAILED] * 2
    assert result.detail.startswith("check 3 of 4 (plus_input[1]): AssertionError")


def test_a_reference_runs_once_for_all_completions_and_for_later_processes(job: Job, cache_dir: Path) -> None:
    codes = [f"def mean(xs):\n    return sum(xs) / len(xs) + {number}" for number in range(5)]
    report = reported(job, MEAN, *codes)
    assert [result.reward for result in report.results] == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert report.summary.canaries == 1
    [kept] = cache_dir.glob("calibrations/*/*.json")
    again = reported(job, MEAN, *codes)
    assert [result.reward for result in again.results] == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert again.summary.canaries == 0, "a judge of its own, and nothing but the file to know the values from"
    good = kept.read_text()
    for damaged in ("", "{}", good[:-40], good.replace('"floats": "ff"', '"floats": "--"'), "[" * 100_000):
        kept.write_text(damaged)
        repaired = reported(job, MEAN, *codes[:2])
        assert [result.reward for result in repaired.results] == [1.0, 0.0]
        assert repaired.summary.canaries == 1
        assert json.loads(kept.read_text())["schema"] == 1


def test_other_references_inputs_and_comparisons_have_values_of_their_own(job: Job, cache_dir: Path) -> None:
    others = [
        replace(MEAN, reference="def mean(xs):\n    return 0\n"),
        replace(MEAN, calls=(Call.asking([[1, 2, 3]]),)),
        replace(MEAN, comparison=Comparison.EVALPLUS),
        replace(MEAN, prelude="half = 1\n"),
    ]
    for problem in (MEAN, *others):
        [result] = scored(job, problem, problem.reference or "")
        assert result.reward == 1.0
    assert len(list(cache_dir.glob("calibrations/*/*.json"))) == 1 + len(others)


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("def mean(xs):\n    return 1 / (xs[0] - 1)", "ZeroDivisionError"),
        ("def mean(xs:\n    return 1", "SyntaxError"),
        ("def average(xs):\n    return 1", "NameError"),
        ("import numpy_of_nobody\ndef mean(xs):\n    return 1", "No module named"),
        ("def mean(xs):\n    yield 1", "what it returns cannot be kept: a"),
        ("def mean(xs):\n    return float('nan')", "what it returns does not equal itself"),
        ("def mean(xs):\n    return 'x' * (65 << 20)", "it returns more than 64 MiB in all"),
        ("def mean(xs):\n    while True: pass", "it ran longer than 1 s"),
        ("import os\ndef mean(xs):\n    os._exit(0)", "it ended with exit status 0"),
    ],
)
def test_a_reference_that_fails_makes_no_completion_wrong(job: Job, reference: str, reason: str) -> None:
    problem = replace(MEAN, reference=reference, timeout_seconds=1.0 if "while" in reference else 20.0)
    right, wrong = scored(job, problem, "def mean(xs):\n    return sum(xs) / len(xs)", "def mean(xs):\n    return None")
    for result in (right, wrong):
        assert (result.reward, result.status) == (None, Status.INVALID_PROBLEM)
        assert result.detail.startswith("the problem's reference fails: ")
        assert reason in result.detail


def test_a_call_may_take_four_times_as_long_as_the_reference(job: Job) -> None:
    problem = replace(MEAN, reference="import time\ndef mean(xs):\n    time.sleep(0.5 * (xs[0] == 1))\n    return 1\n")
    code = "import time\ndef mean(xs):\n    time.sleep({})\n    return 1\n"
    slow, quick = scored(
        job, problem, code.format(1), code.format("xs[0] == 1"), limits=Limits(20, check_timeout_seconds=0.2)
    )
    assert [check.status for check in slow.checks] == [CheckStatus.PASSED, CheckStatus.TIMEOUT]
    assert quick.reward == 1.0


LIAR = (
    "class Liar{0}:\n    __hash__ = lambda self: 1\n    __eq__ = __le__ = lambda self, other: True\n"
    "    __abs__ = __sub__ = __rsub__ = __pow__ = lambda self, *other: self\n"
    "    __float__ = lambda self: 0.0\n    __iter__ = lambda self: iter([Liar()])\n"
    "def mean(xs):\n    return {1}\n"
)


@pytest.mark.parametrize(
    "comparison", [each for each in Comparison if each.name not in ("EVALPLUS_ANYTHING", "EVALPLUS_NOT_NONE")]
)
def test_an_object_that_equals_everything_is_no_answer(job: Job, comparison: Comparison) -> None:
    returned = "xs" if comparison is Comparison.EVALPLUS_SET else "-xs[0] / xs[1]"
    problem = replace(
        MEAN,
        comparison=comparison,
        tolerance=Tolerance(absolute=1e-3),
        calls=(Call.asking([[1, 2]]),),
        reference=f"def mean(xs):\n    return {returned}\n",
    )
    if comparison in (Comparison.EVALPLUS_SURFACE, Comparison.EVALPLUS_DIGITS):
        problem = replace(problem, calls=(Call.asking([1, 2]),), reference="def mean(xs, height):\n    return 5\n")
    lies = [LIAR.format(base, answer) for base in ("", "(float)") for answer in ("Liar()", "[Liar(), Liar()]", "Liar")]
    results = scored(job, problem, problem.reference or "", *lies)
    assert [result.reward for result in results] == [1.0] + [0.0] * len(lies), [result.detail for result in results]


def test_a_result_is_no_answer_because_of_its_shape(job: Job) -> None:
    """NumPy would repeat the items of a shorter list, and refuses lists of unequal lengths: EvalPlus follows it."""
    reference = "def mean(xs):\n    return [[x / 3] * n for n, x in enumerate(xs, 1)]\n"
    problem = replace(
        MEAN,
        comparison=Comparison.EVALPLUS,
        tolerance=Tolerance(absolute=1e-4),
        reference=reference,
    )
    near = "def mean(xs):\n    return [[x / 3 + 1e-9] * n for n, x in enumerate(xs, 1)]\n"
    shorter = "def mean(xs):\n    return [[x / 3] for n, x in enumerate(xs, 1)]\n"
    assert [result.reward for result in scored(job, problem, near, shorter)] == [1.0, 0.0]


@pytest.mark.slow
@pytest.mark.skipif(
    not WITH_EVALPLUS, reason="SANDRL_TEST_EVALPLUS names no Python that has evalplus 0.3.1, numpy and psutil"
)
def test_all_verdicts_agree_with_those_of_the_package_evalplus(job: Job) -> None:
    rows = [[task.row, task.codes] for task in TASKS]
    asked = subprocess.run(
        [WITH_EVALPLUS, str(ORACLE)], input=json.dumps({"rows": rows, "inputs": []}), capture_output=True, text=True
    )
    assert asked.returncode == 0, asked.stderr
    theirs = json.loads(asked.stdout)["verdicts"]
    problems = {problem.task_id: problem for problem in map(problem_of, TASKS)}
    completions = [
        Completion(f"{task.task_id}#{number}", task.task_id, code=code)
        for task in TASKS
        for number, code in enumerate(task.codes)
    ]
    report = score(completions, problems, job=job, options=ScoreOptions(concurrency=4))
    expected = [1.0 if verdict else 0.0 for verdicts in theirs for verdict in verdicts]
    disagreements = [
        (result.id, result.reward, result.detail, completion.code)
        for result, completion, reward in zip(report.results, completions, expected, strict=True)
        if result.reward != reward
    ]
    assert not disagreements, disagreements
    assert 0.3 < sum(expected) / len(expected) < 0.7, "right ones and wrong ones"


# Inputs that have the shapes that the rebuilding of a task expects.
INPUTS: dict[int, list[Any]] = {
    124: [["1.5", "2j"], ["-1", "(1+2j)"]],
    252: [["1"], ["(1-2j)"]],
    722: [[{"a": [1, 2.5]}, 1, 2], [{}, 0, 0]],
    307: [[["a", [1]], 2, [3]]],
    278: [[[1, [2, 3], "a"]], [[]]],
    115: [[[[], [1, 2], []]], [[[3]]]],
}
OTHER_INPUTS = [[[[[1, 2], [3]], [[4], []]], [[[5, [6]]], []]], [[], []]]


@pytest.mark.skipif(
    not WITH_EVALPLUS, reason="SANDRL_TEST_EVALPLUS names no Python that has evalplus 0.3.1, numpy and psutil"
)
def test_inputs_of_every_task_are_rebuilt_as_the_package_evalplus_rebuilds_them() -> None:
    inputs = [(f"Mbpp/{number}", INPUTS.get(number, OTHER_INPUTS)) for number in range(1, 1000)]
    asked = subprocess.run(
        [WITH_EVALPLUS, str(ORACLE)], input=json.dumps({"rows": [], "inputs": inputs}), capture_output=True, text=True
    )
    assert asked.returncode == 0, asked.stderr
    ours = [repr([rebuilt(task_id, given) for given in each]) for task_id, each in inputs]
    theirs = json.loads(asked.stdout)["inputs"]
    assert [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]] == []
    assert sum(text != repr(each) for text, (_, each) in zip(ours, inputs, strict=True)) > 60, "many are rebuilt"
