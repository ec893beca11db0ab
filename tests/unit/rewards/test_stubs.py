"""Answers that must fail: which of them checks may accept, decided from the source of the checks where it is enough."""

from __future__ import annotations

from typing import Any

import pytest

from sandrl.judge.stubs import stubs_of
from sandrl.problems import Case, Problem, load_problems


def labels(*tests: str, **more: Any) -> list[str]:
    return [stub.label for stub in stubs_of(Problem("p", "", tests=tests, **more))]


@pytest.mark.parametrize(
    ("tests", "remaining"),
    [
        (["assert f(2) == 4"], []),
        (["assert f(2) == 2"], ["its first argument"]),
        (["assert f(2) == 0", "assert f(3) == 0"], ["0"]),
        (["assert f([]) == []", "assert f([1]) == []"], ["[]"]),
        (["assert f('') == ''"], ['""', "its first argument"]),
        (["assert f(1) == True"], ["True", "its first argument"]),
    ],
)
def test_a_comparison_with_a_literal_decides_without_a_sandbox(tests: list[str], remaining: list[str]) -> None:
    assert labels(*tests) == remaining


def test_a_check_that_source_does_not_decide_is_to_be_tried() -> None:
    assert labels("assert f(2) is not None") == ["None", "0", '""', "[]", "True", "its first argument"]


def test_stubs_of_programs_are_decided_by_what_they_print() -> None:
    cases = (Case("3\n", "0\n"), Case("4\n", "0"))
    assert [stub.label for stub in stubs_of(Problem("p", "", cases=cases))] == ["'0'"]
    echo = (Case("3\n", "3\n"), Case("a b\n", "a b"))
    assert [stub.label for stub in stubs_of(Problem("p", "", cases=echo))] == ["its input"]
    assert stubs_of(Problem("p", "", cases=(Case("1", "2"),))) == ()


def test_a_class_that_is_asked_for_is_a_class_in_the_stub() -> None:
    problem = Problem(
        "p", "", tests=("s = Stack()\nassert not s.pop()",), reference="class Stack:\n    def pop(self): ..."
    )
    code = next(stub.code for stub in stubs_of(problem) if stub.label == "None")
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    assert namespace["Stack"]().pop() is None


def test_most_problems_need_no_stub_to_run() -> None:
    problems = load_problems("bundled").problems.values()
    assert sum(not stubs_of(problem) for problem in problems) > len(problems) / 2
