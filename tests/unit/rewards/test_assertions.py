"""What a failed check got and expected: names for both sides of asserts, and texts of their values."""

from __future__ import annotations

import ast
import itertools
from collections import Counter, OrderedDict, defaultdict, deque
from fractions import Fraction
from typing import Any

import pytest
from tests.support.judges import InProcessJudge, judge_outside

from sandrl.events.results import CheckVerdict
from sandrl.judge.assertions import marked
from sandrl.judge.guest.excerpts import (
    ALL_EXCERPTS_CHARACTERS,
    LONGEST_EXCERPT_CHARACTERS,
    begin_of,
    excerpt_at,
    first_difference,
)
from sandrl.judge.guest.sides import MARK, ValueText, shown, sides_of
from sandrl.judge.judge import Judge
from sandrl.judge.limits import Limits
from sandrl.problems import Case, Problem
from sandrl.problems.calls import Call

JUDGES = (pytest.param(InProcessJudge(), id="in process"), pytest.param(Judge(), id="isolated"))


def checks_of(problem: Problem, code: str, judge: Judge) -> tuple[CheckVerdict, ...]:
    return judge_outside(judge, problem, code, Limits(timeout_seconds=10)).checks


def failure(test: str, **names: object) -> tuple[str | None, str | None, int]:
    """What a test of this process got and expected, once its sides have names."""
    namespace = dict(names)
    try:
        exec(marked(test), namespace)
    except AssertionError as error:
        return sides_of(error, namespace)
    raise LookupError("the test has passed")


def fails_at_three(value: int) -> int:
    assert value < 3
    return value


def identity(value: object) -> object:
    return value


@pytest.mark.parametrize(
    ("test", "got", "expected", "line"),
    [
        ("assert f(1) == 2", "1", "2", 1),
        ("assert 2 == f(1)", "1", "2", 1),
        ("x = f(3)\nassert x == 1 + 1, 'why'", "3", "2", 2),
        ("assert f('é') == 'ü'; y = 1", "'é'", "'ü'", 1),
        ("assert f(1) < 0", "1", "< 0", 1),
        ("assert f(4) in (1, 2)", "4", "in (1, 2)", 1),
        ("assert f(None) is not None", "None", "is not None", 1),
        ("assert not f([1])", "[1]", None, 1),
        ("assert f(0)", "0", None, 1),
        ("assert f(1) == 1 and f(2) == 3 and f(4) == 5", "2", "3", 1),
        ("for a in (1, 2, 3):\n    assert f(a) == min(a, 2)", "3", "2", 2),
        ("assert all(f(a) == 1 for a in (1, 7))", "7", "1", 1),
        ("import math\nassert math.isclose(f(1.5), 2.5)", "1.5", "2.5", 2),
        (
            "def check(g):\n    assert g(1) == 1\n    assert g(\n        2\n    ) == (\n        3\n    )\ncheck(f)",
            "2",
            "3",
            3,
        ),
        ("class T:\n    def go(self):\n        assert f(1) == 2\nT().go()", "1", "2", 3),
        ("assert 0 < f(5) < 3", None, None, 1),
        ("assert f(1) == 2\r\n", "1", "2", 1),
        ("assert (f(1)) == ((2))", "1", "2", 1),
        ("assert f({'b': 1}) == {'b': {2}}", "{'b': 1}", "{'b': {2}}", 1),
        ("assert f(lambda: 0) == 1", "<function object>", "1", 1),
        ("import unittest\nunittest.TestCase().assertEqual(f(1), 2)", "1", "2", 2),
        ("def g(x):\n    assert x < 3\n    return x\nfor x in (1, 2, 3):\n    assert g(x) == x", "3", "< 3", 2),
        ("for x in (1, 2, 3):\n    assert fails(x) == x", None, None, 2),
        ("for x in (1, 2):\n    assert f(x) == 1; assert f(x) == x", "2", "1", 2),
    ],
)
def test_the_sides_of_a_failed_assert_are_found(test: str, got: str | None, expected: str | None, line: int) -> None:
    assert failure(test, f=identity, fails=fails_at_three) == (got, expected, line)


@pytest.mark.parametrize(
    "test",
    [
        "assert f(1) == 2 and g(1)(lambda: 0) or 1",
        "import gc\nassert f(1) == 2",
        "import weakref\nassert weakref.ref(f)() == f",
        "assert f(1) ==",
        "x = 1\n\fassert x == 2",
        "assert sorted(locals()) == ['f']",
        "class C:\n    assert f(1) == 1",
        "assert " + "(" * 199 + "f(1)" + ")" * 199 + " == 1",
        "if x == 0: pass\n" + "elif x == 1: pass\n" * 990 + "assert x == 2",
        "",
    ],
)
def test_a_test_of_which_nothing_can_be_said_is_left_as_it_is(test: str) -> None:
    assert marked(test) == test


def test_names_change_neither_lines_nor_meaning_nor_order_of_evaluation() -> None:
    test = (
        "seen = []\n"
        "def f(x):\n    seen.append(x)\n    return x\n"
        "assert f(1) == f(1)\nassert f(2) in [f(2), f(3)]\nassert not f(0)\n"
        "assert all(f(each) == each for each in (4, 5))\n"
        "assert f(6) == 6 and f(7) == f(7)\n"
    )
    named = marked(test)
    assert named.count("\n") == test.count("\n")
    assert MARK in named
    namespaces: list[dict[str, object]] = [{}, {}]
    for text, namespace in zip((test, named), namespaces, strict=True):
        exec(text, namespace)
    assert namespaces[0]["seen"] == namespaces[1]["seen"]
    bare = ast.unparse(_Unmarked().visit(ast.parse(named)))
    assert bare == ast.unparse(ast.parse(test))


@pytest.mark.parametrize(
    "test",
    [
        "import enum\nclass C(enum.Enum):\n    A = 1\n    assert len('ab') == 2\nassert len(C) == 1",
        "assert Item()\nassert Item.alive == 0",
        "item = Item()\nassert same(item) is item and item\nitem = None\nassert Item.alive == 0",
        "assert all(Item() for each in (1, 2))\nassert Item.alive == 0",
        "def go():\n    assert Item() is not None, 'why'; assert Item.alive == 0  # behind\ngo()",
        "for each in (1, 2):\n    assert Item(); assert Item.alive == 0",
    ],
)
def test_names_neither_keep_objects_alive_nor_become_attributes(test: str) -> None:
    class Item:
        alive = 0

        def __init__(self) -> None:
            Item.alive += 1

        def __del__(self) -> None:
            Item.alive -= 1

    for text in (test, marked(test)):
        exec(text, {"Item": Item, "same": identity})


class _Unmarked(ast.NodeTransformer):
    def visit_NamedExpr(self, node: ast.NamedExpr) -> Any:
        return self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> Any:
        return None if isinstance(node.value, ast.Constant) and node.value.value == MARK else node


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"), ("a'b", '"a\'b"'), (b"x", "b'x'"), (None, "None"), (float("nan"), "nan"), ((1,), "(1,)"), ((), "()"),
        ([1, [2, (3, 4)]], "[1, [2, (3, 4)]]"), ({3, 1, 2}, "{1, 2, 3}"), (set(), "set()"),
        (frozenset({1}), "frozenset({1})"), ({"a": [1]}, "{'a': [1]}"), (deque([1]), "deque([1])"),
        (Counter("aa"), "Counter({'a': 2})"), (OrderedDict(a=1), "OrderedDict({'a': 1})"),
        (defaultdict(int, a=1), "defaultdict({'a': 1})"), (Fraction(1, 2), "Fraction(1, 2)"), (int, "<class int>"),
        (object(), "<object object>"), (iter([]), "<list_iterator object>"),
    ],
)  # fmt: skip
def test_values_are_shown_as_python_writes_them(value: object, text: str) -> None:
    assert shown(value) == text


def test_a_number_of_very_many_digits_is_shown_by_its_size() -> None:
    assert shown(1 << 20000) == "<int of 20001 bits>"


def test_no_method_of_an_own_class_runs_to_show_a_value() -> None:
    class Own(list):  # type: ignore[type-arg]
        def __repr__(self) -> str:
            raise SystemExit

        __iter__ = __len__ = __repr__  # type: ignore[assignment]

    assert shown([Own(), 1]) == "[<Own object>, 1]"


def test_a_value_that_holds_itself_or_very_much_is_cut() -> None:
    circle: list[object] = []
    circle.append(circle)
    for value in (circle, "x" * 10**6, list(range(10**5)), dict.fromkeys(range(999), "y" * 999), set(range(10**5))):
        text = shown(value)
        assert text is not None
        assert len(text) <= LONGEST_EXCERPT_CHARACTERS + 1


def test_sets_of_sets_are_ordered_at_one_level_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    value: frozenset[object] = frozenset(range(20))
    for _ in range(4):
        value = frozenset({value, *(value - {each} for each in value)})
    keys: list[object] = []
    key_of = ValueText.key_of

    def counted(self: ValueText, item: object) -> str:
        keys.append(item)
        return key_of(self, item)

    monkeypatch.setattr(ValueText, "key_of", counted)
    assert shown(value) is not None
    assert len(keys) < 1000


@pytest.mark.parametrize("judge", JUDGES)
def test_judges_tell_what_a_check_got_and_expected(judge: Judge) -> None:
    tests = ("assert f(1) == 1", "x = 2\nassert f(x) == [3]", "assert f(5) == 5", "assert f(None)")
    problem = Problem("p", "", tests=tests)
    checks = checks_of(problem, "def f(x):\n    return x and (x if x != 2 else [x, {x}])", judge)
    assert [(check.got, check.expected, check.line) for check in checks] == [
        (None, None, None), ("[2, {2}]", "[3]", 2), (None, None, None), ("None", None, 1),
    ]  # fmt: skip


@pytest.mark.parametrize("judge", JUDGES)
def test_an_object_of_the_completion_is_shown_by_its_class_and_never_asked(judge: Judge) -> None:
    code = (
        "class Liar:\n    def __repr__(self):\n        print('asked')\n        return '3'\n"
        "class Items(list):\n    def __iter__(self):\n        print('asked')\n        return iter([3])\n"
        "def f(x):\n    return Liar() if x else Items([1, 2])"
    )
    checks = checks_of(Problem("p", "", tests=("assert f(1) == 3", "assert f(0) == [3]")), code, judge)
    assert checks[0].got == "<Liar object>"
    assert checks[1].got in ("[1, 2]", "<Items object>")


def test_an_array_of_objects_of_the_completion_asks_none_of_them() -> None:
    setup = (
        "class Array:\n    __module__ = 'numpy'\n    def __init__(self, item):\n        self.item = item\n"
        "    def __eq__(self, other):\n        return False\n    def __repr__(self):\n        return repr(self.item)\n"
    )
    code = "class Liar:\n    def __repr__(self):\n        return 'asked'\ndef f(x):\n    return Liar()"
    checks = checks_of(Problem("p", "", setup=setup, tests=("assert Array(f(1)) == 3",)), code, Judge())
    assert checks[0].got == "<Array object>"


@pytest.mark.parametrize("judge", JUDGES)
def test_the_excerpts_of_many_failed_checks_stay_small(judge: Judge) -> None:
    problem = Problem("p", "", tests=tuple(f"assert f({number}) == 'b'" for number in range(50)))
    checks = checks_of(problem, "def f(x):\n    return 'a' * 5000", judge)
    texts = [text for check in checks for text in (check.got, check.expected) if text is not None]
    assert sum(map(len, texts)) <= ALL_EXCERPTS_CHARACTERS
    assert checks[0].got is not None
    assert checks[0].got.endswith("…")


def test_a_call_tells_what_it_returned_and_should_have() -> None:
    problem = Problem("p", "", fn="f", calls=(Call.of([1], 1), Call.of([2], (2, 3))))
    checks = checks_of(problem, "def f(x):\n    return x", Judge())
    assert (checks[1].got, checks[1].expected) == ("2", "[2, 3]") or checks[1].expected == "(2, 3)"


def test_a_case_tells_what_was_printed_around_the_first_difference() -> None:
    lines = [f"line {number}" for number in range(500)]
    problem = Problem("p", "", cases=(Case("", "\n".join(lines) + "\n"),))
    code = "for n in range(500): print('line', n if n != 400 else 'wrong')"
    check = checks_of(problem, code, Judge())[0]
    assert check.line == 401
    assert check.got is not None
    assert check.expected is not None
    assert "line wrong" in check.got
    assert "line 400" in check.expected
    assert check.got.splitlines()[0] == check.expected.splitlines()[0] == "… (397 lines before)"


def test_a_difference_far_right_in_a_long_line_is_shown() -> None:
    text, expected = "a" * 5000 + "b" + "c" * 5000, "a" * 5000 + "d" + "c" * 5000
    line, column = first_difference(text, expected)
    assert (line, column) == (1, 5001)
    got, wanted = (excerpt_at(each, *begin_of(line, column)) for each in (text, expected))
    assert max(len(got), len(wanted)) <= LONGEST_EXCERPT_CHARACTERS
    assert [one + other for one, other in zip(got, wanted, strict=True) if one != other] == ["bd"]


@pytest.mark.parametrize(
    ("text", "expected", "place"),
    [
        ("1\n2\n", "1\n2", (0, 0)), ("1 \n2", "1\n2", (0, 0)), ("1\n", "1\n2\n", (2, 1)), ("1\n2\n3", "1\n2", (3, 1)),
        ("", "x", (1, 1)), ("ab", "ac", (1, 2)), ("a", "ab", (1, 2)),
    ],
)  # fmt: skip
def test_the_first_difference_is_found(text: str, expected: str, place: tuple[int, int]) -> None:
    assert first_difference(text, expected) == place


@pytest.mark.parametrize("place", [0, 1, 2, 499_999, 999_999])
def test_the_first_difference_of_long_lines_is_exact(place: int) -> None:
    text = "a" * 1_000_000
    assert first_difference(text, text[:place] + "b" + text[place + 1 :]) == (1, place + 1)


def test_excerpts_begin_where_they_are_told_to_and_are_never_long() -> None:
    text = "\n".join("x" * length for length in (10, 0, 2000, 5, 300))
    for lines, characters in itertools.product(range(7), (0, 1, 250, 5000)):
        assert len(excerpt_at(text, lines, characters)) <= LONGEST_EXCERPT_CHARACTERS


def test_what_is_expected_of_a_case_is_in_no_process_of_a_later_one() -> None:
    search = (
        "import gc, sys\n"
        "text = input()\n"
        "parts = 'secret', 'word'\n"
        "frames, found = [sys._getframe()], []\n"
        "while frames:\n"
        "    frame = frames.pop()\n"
        "    if frame is None: continue\n"
        "    found += [str(value) for value in {**frame.f_globals, **frame.f_locals}.values()]\n"
        "    frames.append(frame.f_back)\n"
        "found += [str(each) for each in gc.get_objects() if type(each) in (dict, list, tuple)]\n"
        "print('found' if any('-'.join(parts) in each for each in found) else 'no')\n"
    )
    cases = (Case("1\n", "secret-word\n"), Case("2\n", "no\n"))
    checks = checks_of(Problem("p", "", cases=cases), search, Judge())
    assert checks[0].expected == "secret-word\n"
    assert checks[1].status == "passed"
