"""What an object of the completion may decide in a check: much where the problem asks for its class, else nothing."""

from __future__ import annotations

import pytest
from tests.unit.rewards.test_isolated_judge import judged

from sandrl.events.results import Status, Trust
from sandrl.problems import Problem

MONEY = """
class Money:
    def __init__(self, cents):
        self.cents = cents
    def __eq__(self, other):
        return self.cents == other.cents
    def __add__(self, other):
        return Money(self.cents + other)
    __radd__ = __add__
    def __lt__(self, other):
        return self.cents < (other.cents if isinstance(other, Money) else other)
    def __contains__(self, cents):
        return cents <= self.cents
    def __getitem__(self, key):
        return [self.cents][key]
"""


POINT = """
class Point:
    \"\"\"A place.\"\"\"
    __slots__ = ("x",)
    def __init__(self, x):
        self.x = x
    def __eq__(self, other):
        return self.x == other.x
    def __hash__(self):
        return hash(self.x)
    def __pos__(self):
        return self
    def __invert__(self):
        return Point(-self.x)
    def __reversed__(self):
        return iter([self.x, 0])
"""


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("Money", "assert (Money(5) + 2).cents == 7"),
        ("Money", "assert 2 + Money(5) == Money(7)"),
        ("Money", "assert Money(5) < 6 and Money(5) < Money(6)"),
        ("Money", "assert 3 in Money(5) and 6 not in Money(5)"),
        ("Money", "assert Money(5)[0:1] == [5]"),
        ("Money", "assert sum([Money(1), Money(2)][:1], 3) == Money(4)"),
        ("Point", "assert len({Point(1), Point(1), Point(2)}) == 2"),
        ("Point", "assert {Point(1): 'a'}[Point(1)] == 'a' and hash(Point(1)) == hash(1)"),
        ("Point", "p = Point(1)\ndel p.x\nassert not hasattr(p, 'x')"),
        ("Point", "p = Point(1)\nassert +p is p and ~p == Point(-1) and list(reversed(p)) == [1, 0]"),
        ("Point", "assert Point.__doc__ == 'A place.' and Point.__slots__ == ('x',)"),
    ],
)
def test_a_class_that_the_problem_asks_for_has_its_operators_and_attributes(name: str, check: str) -> None:
    code = {"Money": MONEY, "Point": POINT}[name]
    verdict = judged(Problem("t", "", tests=(check,), entry_point=name, reference=code), code)
    assert (verdict.status, verdict.trust) == (Status.PASSED, Trust.ISOLATED), verdict.detail


AREA = """
class Circle:
    def __init__(self, radius):
        self.radius = radius
    def area(self):
        return 3 * self.radius ** 2
    def points(self):
        return []
"""
LYING_AREA = """
class Circle:
    def __init__(self, radius):
        pass
    def area(self):
        return self
    __lt__ = __gt__ = __le__ = __ge__ = __contains__ = lambda self, other: True
    __sub__ = lambda self, other: self
    __bool__ = lambda self: False
    points = area
    __iter__ = lambda self: iter(())
"""


@pytest.mark.parametrize("reference", [AREA, None])
@pytest.mark.parametrize(
    "check",
    [
        "assert 11 < Circle(2).area() < 13",
        "assert sorted([13, Circle(2).area(), 11])[1] not in (11, 13)",
        "assert not abs(Circle(2).area() - 12) > 1e-6",
    ],
)
def test_an_object_of_a_class_that_has_no_order_among_numbers_is_no_number(check: str, reference: str | None) -> None:
    problem = Problem("t", "", tests=(check,), entry_point="Circle", reference=reference)
    verdict = judged(problem, LYING_AREA)
    assert (verdict.status, verdict.trust) == (Status.FAILED, Trust.ISOLATED)


@pytest.mark.parametrize("check", ["assert 5 in Circle(2).points()", "assert not Circle(2).points() - {1}"])
def test_operators_that_the_reference_does_not_have_decide_nothing(check: str) -> None:
    problem = Problem("t", "", tests=(check,), entry_point="Circle", reference=AREA)
    assert judged(problem, LYING_AREA).status is Status.FAILED


@pytest.mark.parametrize(
    ("reference", "check"),
    [
        ("from math import isclose\ndef f():\n    return 1.5\n", "assert isclose(f(), 1.5)"),
        ("import math as m\ndef f():\n    return 1.5\n", "assert m.isclose(f(), 1.5)"),
        ("import os.path\ndef f():\n    return 1.5\n", "assert os.fspath(str(f())) == '1.5'"),
        ("RIGHT = 1.5\ndef f():\n    return RIGHT\n", "assert f() == 1.5 and expected"),
    ],
)
def test_names_that_a_check_leaves_to_the_reference_s_imports_are_the_judges_own(reference: str, check: str) -> None:
    liar = "class Liar:\n    def __getattr__(self, name):\n        return lambda *_: True\n"
    liar += "m = os = math = expected = Liar()\nisclose = lambda *_: True\ndef f():\n    return 0\n"
    problem = Problem("t", "", tests=(check,), entry_point="f", reference=reference)
    assert judged(problem, liar).status is Status.FAILED
    if "expected" not in check:
        assert judged(problem, reference).status is Status.PASSED


@pytest.mark.parametrize(
    "check",
    [
        "assert eval(f()) == 2",
        "import builtins\nassert builtins.eval(f()) == 2",
        "space = {}\nexec(f(), space)",
        "import pickle\nassert pickle.loads(f()) == 2",
        "import subprocess, sys\nsubprocess.run([sys.executable, '-c', f()], check=True)",
    ],
)
def test_a_check_that_runs_an_answer_as_code_never_does_so_in_the_judge(check: str) -> None:
    verdict = judged(Problem("t", "", tests=(check,), entry_point="f"), "def f():\n    return '1 + 1'\n")
    assert verdict.status is Status.NOT_ISOLATED
    assert judged(
        Problem("t", "", tests=("assert eval('1 + 1') == 2",), entry_point="eval"), "def eval(text):\n    return 2\n"
    ).trust is Trust.ISOLATED  # fmt: skip


@pytest.mark.parametrize(
    "check",
    [
        "assert abs(f() - 1.5) < 1e-6",
        "assert f() > 3",
        "assert 3 < f()",
        "assert f() & {1}",
        "assert 3 in f()",
        "x = f()\nx.sort(key=lambda item: item)\nassert x == [1]",
        "assert f()[lambda: 1]",
        "assert f() == 2",
    ],
)
def test_where_a_value_is_asked_for_an_object_decides_nothing(check: str) -> None:
    code = (
        "class Liar:\n"
        "    __sub__ = __and__ = lambda self, other: 0\n"
        "    __lt__ = __gt__ = __eq__ = __contains__ = lambda self, other: True\n"
        "    sort = lambda self, **_: None\n"
        "def f():\n    return Liar()\n"
    )
    verdict = judged(Problem("t", "", tests=(check,), entry_point="f"), code)
    assert (verdict.status, verdict.trust) == (Status.FAILED, Trust.ISOLATED)


def test_membership_in_an_iterator_is_found_by_looking() -> None:
    problem = Problem("t", "", tests=("assert 3 in f(5)", "assert 9 not in f(5)"), entry_point="f")
    assert judged(problem, "def f(n):\n    yield from range(n)\n").status is Status.PASSED


@pytest.mark.parametrize(
    ("check", "status"),
    [
        ("assert all(map(f, [1, 2]))", Status.FAILED),
        ("try:\n    f(1)\nexcept StopIteration:\n    pass\nelse:\n    assert False", Status.PASSED),
    ],
)
def test_stop_iteration_ends_no_loop_of_a_check(check: str, status: Status) -> None:
    problem = Problem("t", "", tests=(check,), entry_point="f")
    assert judged(problem, "def f(n):\n    raise StopIteration\n").status is status


def test_a_check_that_catches_everything_does_not_hide_that_the_completion_is_gone() -> None:
    problem = Problem("t", "", tests=("try:\n    f(-1)\nexcept:\n    pass\nelse:\n    assert False",), entry_point="f")
    assert judged(problem, "import os\ndef f(n):\n    os._exit(0)\n").status is Status.CRASHED


def test_functions_of_the_setup_may_call_the_completion() -> None:
    problem = Problem("t", "", tests=("assert twice(1) == 3",), setup="def twice(x):\n    return f(f(x))\n")
    assert judged(problem, "def f(n):\n    return n + 1\n").status is Status.PASSED


def test_a_completion_cannot_replace_what_the_setup_defines() -> None:
    setup = "def shift(s):\n    return s[1:] + s[:1]\n"
    problem = Problem("t", "", tests=("assert unshift(shift('abc')) == 'abc'",), entry_point="unshift", setup=setup)
    assert judged(problem, "shift = lambda s: s\nunshift = lambda s: s\n").status is Status.FAILED
    assert judged(problem, "def unshift(s):\n    return s[-1:] + s[:-1]\n").status is Status.PASSED


def test_a_container_class_that_a_check_forgot_to_import_is_the_judges_own() -> None:
    problem = Problem("t", "", tests=("assert Counter(f()) == Counter([1, 2])",), entry_point="f")
    liar = (
        "class Counter:\n    def __init__(self, _):\n        pass\n    def __eq__(self, other):\n        return True\n"
    )
    assert judged(problem, liar + "def f():\n    return []\n").status is Status.FAILED
    assert judged(problem, "from collections import Counter\ndef f():\n    return [2, 1]\n").status is Status.PASSED


def test_the_deepest_answer_can_be_handed_on() -> None:
    problem = Problem("t", "", tests=("assert f([f([1])]) is None",), entry_point="f")
    code = "def f(x):\n    deep = []\n    for _ in range(140):\n        deep = [deep]\n    return deep\n"
    verdict = judged(problem, code)
    assert (verdict.status, verdict.trust) == (Status.FAILED, Trust.ISOLATED)
