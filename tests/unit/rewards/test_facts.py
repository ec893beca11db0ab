"""Which global names a check means and binds, as its syntax tree and its scopes say."""

from __future__ import annotations

import pytest

from sandrl.judge.facts import TextFacts, facts_of
from sandrl.problems import Problem

BINDING = [
    "x = 1",
    "x += 1",
    "x >>= 1",
    "assert (x := 1) == 1",
    "for x in y: pass",
    "with y as x: pass",
    "import x",
    "import y as x",
    "from y import x",
    "def x(): pass",
    "async def x(): pass",
    "class x: pass",
    "try: y\nexcept E as x: pass",
    "match y:\n    case x: pass",
    "match y:\n    case [*x]: pass",
    "(x) = 1",
    "x, y = 1, 2",
    "x\\\n=\\\n1",
    "def f():\n    global x\n    x = 1",
]
PLAIN = [
    "assert x == 1",
    "assert f(x=1)",
    "assert x is not y, 'x = y'",
    "def f(x):\n    return x",
    "assert [x for x in y] == y",
    "def f():\n    x = 1\n    return x",
]


def _facts(text: str) -> TextFacts:
    return facts_of(Problem("t", "", tests=(f"assert own(1) == 1\n{text}",))).texts[1]


@pytest.mark.parametrize("text", BINDING)
def test_a_text_that_binds_a_name(text: str) -> None:
    assert "x" in _facts(text).binds


@pytest.mark.parametrize("text", PLAIN)
def test_a_text_that_binds_none(text: str) -> None:
    assert "x" not in _facts(text).binds


def test_a_name_of_a_function_is_kept_for_later_checks_and_its_parameters_are_no_names() -> None:
    facts = _facts("def helper(kind):\n    return [kind, work, lambda item: other(item)]\nassert helper(Oops)")
    assert {"work", "other", "Oops", "helper"} <= facts.means
    assert {"work", "other"} <= facts.kept
    assert facts.kept.isdisjoint({"kind", "item", "Oops"})


def test_words_in_texts_and_comments_are_no_names() -> None:
    assert "work" not in _facts("assert y == 'work eval(1) except'  # work").means


def test_of_a_check_that_is_no_python_nothing_is_known() -> None:
    facts = facts_of(Problem("t", "", tests=("assert y == 1", "assert y ==")))
    assert facts.texts[2] == TextFacts()


@pytest.mark.parametrize(
    ("check", "runs"),
    [
        ("assert eval(f()) == 1", True),
        ("run = eval\nassert run(f()) == 1", True),
        ("import os\nassert getattr(os, 'system')(f()) == 0", True),
        ("from os import system as s\nassert s(f()) == 0", True),
        ("import pickle\nassert pickle.loads(f()) == 1", True),
        ("assert f('eval(1)') == 'exec'  # eval(f())", False),
        ("assert Calculator().eval('1 + 2') == 3", False),
    ],
)
def test_a_check_that_runs_an_answer_as_code_is_known_by_its_syntax(check: str, runs: bool) -> None:
    assert facts_of(Problem("t", "", tests=(check,))).runs_answers is runs


@pytest.mark.parametrize(
    ("check", "needs"),
    [
        ("class Sub(Base):\n    pass\nassert Sub().x", True),
        ("@wrap\nclass P:\n    pass\nassert P().x", True),
        ("class P:\n    x = Positive()\nassert P().x", True),
        (
            "class Ends:\n    def __enter__(self): pass\n    def __exit__(self, *a): return True\nassert f(Ends())",
            False,
        ),
        ("class Fake:\n    def get(self, key): return work(key)\nassert f(Fake())", False),
        ("import abc\nclass P(abc.ABC):\n    pass\nassert f(P())", False),
        ("async def go():\n    return await f()\nassert go()", True),
        ("async def go():\n    try:\n        await f()\n    except kind:\n        pass\nassert go()", False),
    ],
)
def test_a_class_or_coroutine_needs_one_process_only_where_the_completion_makes_it_or_nothing_catches(
    check: str, needs: bool
) -> None:
    assert facts_of(Problem("t", "", tests=(check,))).needs_one_process is needs
