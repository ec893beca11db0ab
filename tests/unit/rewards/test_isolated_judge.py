"""The isolated judge on trusted code: checks mean what they mean in plain Python, and nothing else gets a pass.

Hostile code is judged in sandboxes only, in tests/integration.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.judges import judge_outside

from sandrl.answers.reference import names_under_test
from sandrl.events.results import Status, Trust
from sandrl.judge.guest.values import Decoder, Encoder, Malformed, Unsendable
from sandrl.judge.judge import Judge
from sandrl.judge.limits import Limits
from sandrl.judge.verdict import Verdict
from sandrl.problems import Problem

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.complex_numbers()
    | st.just(...)
)
HASHABLE = st.recursive(SCALARS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=4)
VALUES = st.recursive(
    HASHABLE,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(HASHABLE, inner, max_size=4)
        | st.sets(HASHABLE, max_size=3)
    ),
    max_leaves=12,
)


def judged(
    problem: Problem, code: str, judge: Judge | None = None, limits: Limits | None = None, *, together: bool = False
) -> Verdict:
    return judge_outside(judge or Judge(), problem, code, limits or Limits(timeout_seconds=10), together=together)


def verdict_of(check: str, code: str, **problem: Any) -> Verdict:
    return judged(Problem("t", "", tests=(check,), **problem), code)


def no_objects(*_: object) -> Any:
    raise AssertionError("a plain value needs no proxy")


def crossed(value: object) -> Any:
    return Decoder(Encoder(no_objects).encode(value), no_objects).whole()


# Values


def written(value: object) -> str:
    """A value as text, sets and dictionaries in a fixed order: equal for equal values of equal types, NaN included."""
    if isinstance(value, set | frozenset):
        return f"{type(value).__name__}{sorted(map(written, value))}"
    if isinstance(value, dict):
        return f"dict{sorted((written(key), written(item)) for key, item in value.items())}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}{list(map(written, value))}"
    return repr(value)


@given(VALUES)
@settings(deadline=None)
def test_plain_values_cross_unchanged(value: object) -> None:
    received = crossed(value)
    assert written(received) == written(value)


@pytest.mark.parametrize(
    "value",
    [
        Counter("hello"),
        OrderedDict([("b", 1), ("a", 2)]),
        deque([1, 2], maxlen=2),
        Fraction(3, 7),
        Decimal("1.10"),
        date(2026, 11, 21),
        timedelta(days=1, seconds=2),
        pytest.param(10**5000, id="a very large number"),
        -(10**50),
        range(3, 30, 4),
        bytearray(b"xyz"),
        "\ud800 lone",
        [[[[]]], {(): {1: [2]}}],
    ],
)
def test_other_values_that_tests_compare_cross_unchanged(value: object) -> None:
    received = crossed(value)
    assert received == value
    assert type(received) is type(value)


def test_a_defaultdict_arrives_as_one_without_its_factory() -> None:
    received = crossed(defaultdict(None, {"a": [1]}))
    assert received == {"a": [1]}
    assert isinstance(received, defaultdict)


def test_the_shared_nan_stays_the_shared_nan() -> None:
    assert crossed(math.nan) is math.nan


def test_a_list_that_contains_itself_arrives_as_one() -> None:
    endless: list[Any] = []
    endless.append(endless)
    received = crossed(endless)
    assert received[0] is received


def test_a_container_that_stands_in_a_value_twice_arrives_once() -> None:
    row = [0, 0]
    received = crossed([row, row, {"row": row}])
    assert received[0] is received[1] is received[2]["row"]


def test_a_value_of_thousands_of_levels_cannot_cross() -> None:
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(Unsendable):
        Encoder(no_objects).encode(deep)


@given(st.binary(max_size=40) | st.text("NTFilstSZdbBcrxhfn0123456789;-").map(str.encode))
@settings(deadline=None, max_examples=400)
def test_no_bytes_do_more_than_make_a_value_or_an_error(data: bytes) -> None:
    def other(tag: bytes, decoder: Decoder) -> object:
        return tag

    with contextlib.suppress(Malformed, ValueError, TypeError, LookupError, ArithmeticError):
        Decoder(data, other).whole()


# Checks


@given(pairs=st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=25))
@settings(deadline=None, max_examples=12)
def test_the_judge_and_a_plain_assert_agree(pairs: list[tuple[Any, Any]]) -> None:
    pairs = pairs + [(value, value) for value, _ in pairs]
    results = repr([result for result, _ in pairs])
    names = {"inf": math.inf, "nan": math.nan, "infj": complex(0, math.inf), "nanj": complex(0, math.nan)}
    code = "inf, nan, infj, nanj = float('inf'), float('nan'), complex(0, float('inf')), complex(0, float('nan'))\n"
    code += f"RESULTS = {results}\ndef f(number):\n    return RESULTS[number]"
    tests = [f"assert f({number}) == {expected!r}" for number, (_, expected) in enumerate(pairs)]
    setup = "from math import inf, nan\ninfj, nanj = complex(0, inf), complex(0, nan)"
    plain: dict[str, Any] = {}
    exec(code, plain)
    expected_passes = 0
    for test in tests:
        try:
            exec(test, plain | {"nan": math.nan, **names})
        except AssertionError:
            continue
        expected_passes += 1
    verdict = judged(Problem("t", "", tests=tuple(tests), setup=setup), code)
    assert verdict.passed == expected_passes, verdict
    assert verdict.trust is Trust.ISOLATED


@pytest.mark.parametrize(
    ("check", "code"),
    [
        ("x = [3, 1, 2]\nf(x)\nassert x == [1, 2, 3]", "def f(x):\n    x.sort()"),
        ("x = {'a': [1]}\ny = x['a']\nf(x)\nassert y == [1, 2] and x == {'a': [1, 2]}", "def f(x): x['a'].append(2)"),
        ("x = {1}\nf(x)\nassert x == {1, 2}", "def f(x): x.add(2)"),
        ("x = bytearray(b'a')\nf(x)\nassert x == b'ab'", "def f(x): x.extend(b'b')"),
        ("x = [1, 2, 3]\nf(x)\nassert x == []", "def f(x): x.clear()"),
        ("assert list(f(3)) == [0, 1, 2]", "def f(n):\n    yield from range(n)"),
        ("g = f()\nassert next(g) == 1 and next(g) == 2", "import itertools\ndef f(): return itertools.count(1)"),
        ("assert [x for x in f(2)] == [0, 1]", "def f(n): return iter(range(n))"),
        ("assert f() is None", "def f(): pass"),
        ("assert f(1, b=2) == (1, 2)", "def f(a, *, b): return a, b"),
        ("assert f(2) == 2 ** 4000", "def f(x): return x ** 4000"),
        ("assert f(1)(2) == 3", "def f(a): return lambda b: a + b"),
        ("assert abs(f(2) - 1.414) < 0.01", "def f(x): return x ** 0.5"),
        ("import math\nassert math.isclose(f(), math.pi)", "import math\ndef f(): return math.pi"),
        ("assert math.isclose(f(), 3.14159, rel_tol=1e-3)", "import math\ndef f(): return math.pi"),
        ("try:\n    f(-1)\nexcept ValueError as e:\n    assert str(e) == 'no'\nelse:\n    assert False", "def f(x):\n    raise ValueError('no')"),
        ("s = Stack()\ns.push(1)\ns.push(2)\nassert s.pop() == 2 and len(s) == 1 and not Stack()", "class Stack(list):\n    push = list.append"),
        ("p = P(1, 2)\nassert p.x == 1 and str(p) == 'P'", "class P:\n    def __init__(self, x, y): self.x = x\n    def __str__(self): return 'P'"),
        ("assert V(1) + V(2) == V(3)", "class V:\n    def __init__(s, n): s.n = n\n    def __add__(s, o): return V(s.n + o.n)\n    def __eq__(s, o): return s.n == o.n"),
        ("assert isinstance(f(), C) and isinstance(C(), C)", "class C: pass\ndef f(): return C()"),
        ("assert f(root) == 1", "class N: pass\ndef f(n): return n.v"),
        ("def check(candidate):\n    for n in range(5):\n        assert candidate(n) == n + 1\ncheck(f)", "def f(n): return n + 1"),
        ("assert sum(1, 2) == 3", "def sum(a, b): return a + b"),
        # What a check hands over.
        ("assert f(lambda n: n + 1, 1) == 2", "def f(g, n): return g(n)"),
        ("assert f(len, ['a', 'bc']) == [1, 2]", "def f(g, xs): return [g(x) for x in xs]"),
        ("got = []\nf([1, 2], got.append)\nassert got == [1, 2]", "def f(xs, call):\n    for x in xs: call(x)"),
        (
            "class Store:\n    def get(self, key):\n        return {'a': 1}[key]\nassert f(Store()) == 1",
            "def f(store): return store.get('a')",
        ),
        ("import itertools\nassert f(itertools.count(3)) == [3, 4]", "def f(it): return [next(it), next(it)]"),
        (
            "def bad(): raise KeyError('k')\nassert f(bad) == 'k'",
            "def f(g):\n    try: g()\n    except KeyError as e: return e.args[0]",
        ),
        ("import io\nassert f(io.StringIO('a\\nb')) == ['a', 'b']", "def f(file): return file.read().split()"),
        # An argument that comes back is itself.
        ("x = [1, 2]\nassert f(x) is x", "def f(x): return x"),
        ("x = [2, 1]\nassert f(x) is x and x == [1, 2]", "def f(x):\n    x.sort()\n    return x"),
        (
            "x = {1: [2]}\ny = x[1]\nassert f(x) is x and x[1] is y and y == [2, 3]",
            "def f(x):\n    x[1].append(3)\n    return x",
        ),
        ("x = {3}\nassert f(1, other=x) is x and x == {3, 1}", "def f(n, other):\n    other.add(n)\n    return other"),
        (
            "from collections import deque\nx = deque([1], 5)\nassert f(x) is x and x == deque([0, 1]) and x.maxlen == 5",
            "def f(x):\n    x.appendleft(0)\n    return x",
        ),
        (
            "from collections import Counter\nx = Counter('aa')\nassert f(x) is x and x == Counter('aaa')",
            "def f(x):\n    x['a'] += 1\n    return x",
        ),
        (
            "from collections import defaultdict\nx = defaultdict(int)\nf(x)\nassert x[1] == 2 and x[5] == 0",
            "def f(x):\n    x[1] = 2",
        ),
        (
            "from collections import OrderedDict\nx = OrderedDict(a=1, b=2)\nf(x)\nassert list(x) == ['b']",
            "def f(x): del x['a']",
        ),
        ("assert f(None) is None and f(True) is True", "def f(x): return x"),
        ("x = float('nan')\nassert f([x]) == [x] and f(x) is x", "def f(x): return x"),
        ("x = [1]\ny = f(x)\ny.append(2)\nassert x == [1, 2]", "def f(x): return x"),
        ("x = [1]\nassert f(x) is not x and f(x) == x", "def f(x): return list(x)"),
        ("x = [1]\ny = f(x)\ny.append(2)\nassert x == [1]", "def f(x): return x[:]"),
        ("class L(list): pass\nx = L([2, 1])\nassert f(x) == [1, 2]", "def f(x):\n    x.sort()\n    return x"),
        (
            "x = [1]\nassert Stack().put(x) is x and x == [1, 1]",
            "class Stack:\n    def put(self, x):\n        x.append(1)\n        return x",
        ),
    ],
)  # fmt: skip
def test_right_answers_pass_as_in_plain_python(check: str, code: str) -> None:
    setup = "root = N()\nroot.v = 1" if "root" in check else ""
    reference = code if "def sum" in code else None
    verdict = verdict_of(check, code, setup=setup, reference=reference)
    assert (verdict.status, verdict.trust) == (Status.PASSED, Trust.ISOLATED), verdict.detail


@pytest.mark.parametrize(
    ("check", "code"),
    [
        ("assert f() == (1, 2)", "def f(): return [1, 2]"),
        ("a = [2, 1]\nassert f(k=a) is not a", "def f(k): return k"),
        ("a = [2, 1]\nb = f(a)\nb.append(3)\nassert a == [2, 1]", "def f(a): return a"),
        ("assert f() == 1", "class E:\n    def __eq__(s, o): return True\ndef f(): return E()"),
        ("assert f() == 'a'", "class E(str):\n    def __eq__(s, o): return True\ndef f(): return E('b')"),
        ("assert f() == [1]", "class E(list):\n    def __eq__(s, o): return True\ndef f(): return E()"),
        ("assert 1 == f()", "class E:\n    def __eq__(s, o): return True\ndef f(): return E()"),
        ("assert f() in [1, 2]", "class E:\n    def __eq__(s, o): return True\ndef f(): return E()"),
        ("assert set(f()) == {1}", "def set(x): return 1\ndef f(): return [2]"),
        ("assert all(f(n) for n in range(3))", "def all(x): return True\ndef f(n): return 0"),
        ("assert sorted(f()) == [1, 2]", "def sorted(x): return [1, 2]\ndef f(): return []"),
        ("assert len(f()) == 3", "def len(x): return 3\ndef f(): return []"),
        ("assert f() == 1", "import builtins\nbuiltins.AssertionError = ValueError\ndef f(): return 2"),
        ("assert f() == 1", "raise SystemExit(0)"),
        ("assert f() == 1", "def f(): raise SystemExit(0)"),
        ("assert f() == 1", "def f(): raise StopIteration"),
        ("assert g() == 1", "def f(): return 1"),
        ("assert math.isclose(f(), 1)", "class math:\n    isclose = lambda a, b: True\ndef f(): return 2"),
        ("import math\nassert math.isclose(f(), 1)", "import math\nmath.isclose = lambda *a: True\ndef f(): return 2"),
    ],
)  # fmt: skip
def test_wrong_answers_do_not_pass(check: str, code: str) -> None:
    verdict = verdict_of(check, code)
    assert not verdict.is_pass
    assert verdict.status is Status.FAILED, verdict


@pytest.mark.parametrize(
    "reach",
    ["g.__globals__", "g.__closure__", "g.__code__.co_consts", "g.__self__", "it.gi_frame", "g.__class__.__mro__[1].x"],
)
def test_what_a_check_hands_over_reveals_nothing_of_the_check(reach: str) -> None:
    check = "secret = 42\ndef g(): return secret\nf(g, (secret for _ in 'a'))\nassert False"
    code = f"def f(g, it):\n    try: found = {reach}\n    except AttributeError: return\n    raise SystemError(repr(found))"
    verdict = verdict_of(check, code)
    assert verdict.detail == "check 1 of 1: AssertionError"


OF_ONE_PROCESS = Problem("t", "", tests=("import logging\nlogging.getLogger().setLevel(10)\nassert f() == 10",))
LOGS = "import logging\ndef f(): return logging.getLogger().level"


def test_a_completion_that_fails_apart_from_a_check_of_one_process_is_judged_with_it() -> None:
    judge = Judge()
    verdict = judged(OF_ONE_PROCESS, LOGS, judge)
    assert (verdict.status, verdict.trust) == (Status.FAILED, Trust.ISOLATED)
    assert judge.review(OF_ONE_PROCESS, verdict) is None
    again = judged(OF_ONE_PROCESS, LOGS, judge, together=True)
    assert (again.status, again.trust) == (Status.PASSED, Trust.IN_PROCESS)
    assert judge.review(OF_ONE_PROCESS, replace(again, status=Status.FAILED)) is not None, "there is no third time"


def test_no_completion_can_make_its_judge_fall_back() -> None:
    code = "import types\nf = types.ModuleType('f')\nx = object()"
    assert verdict_of("assert f(1) == 1", code).status is Status.FAILED
    assert verdict_of("assert f(1) == 1", "def f(n):\n    return [lambda: 1, object(), type]").status is Status.FAILED


def test_the_names_under_test_are_the_entry_point_and_what_the_reference_defines() -> None:
    problem = Problem("sum", "", tests=("assert sum(1, 2) == 3",), reference="def sum(a, b):\n    return a + b")
    assert names_under_test(problem) == {"sum"}
    assert names_under_test(Problem("t", "", tests=("assert f()",), entry_point="f")) == {"f"}


def test_a_check_sees_what_earlier_checks_defined() -> None:
    problem = Problem("t", "", tests=("x = f()", "assert x == 1", "x = 5", "assert x == 5"))
    assert judged(problem, "x = 9\ndef f(): return 1").passed == 3


# Time


THREE = Problem("t", "", tests=("assert f(1) == 1", "assert f(2) == 2", "assert f(3) == 3"))


def test_a_check_that_takes_too_long_is_a_timeout_and_the_same_completion_goes_on() -> None:
    code = "import time\ncalls = 0\ndef f(x):\n    global calls\n    calls += 1\n    if x == 2: time.sleep(60)\n    return calls"
    verdict = judged(THREE, code, limits=Limits(check_timeout_seconds=0.2))
    assert (verdict.status, verdict.passed, verdict.total) == (Status.TIMEOUT, 2, 3)
    assert verdict.detail == "check 2 of 3: it ran longer than 0.2 s"
    assert verdict.trust is Trust.ISOLATED


def test_the_time_of_a_check_is_that_of_all_its_calls() -> None:
    problem = replace(THREE, tests=("assert [f(i) for i in range(50)]", "while True: assert f", "assert f(1) == 1"))
    code = "import time\ndef f(x):\n    time.sleep(0.05)\n    return x"
    verdict = judged(problem, code, limits=Limits(check_timeout_seconds=0.3))
    assert (verdict.status, verdict.passed) == (Status.TIMEOUT, 1)


@pytest.mark.parametrize(
    "stuck",
    ["sum(range(10**13))", "[None for _ in iter(swallow, 1)]", "ignore()"],
    ids=["in the interpreter itself", "catching everything", "deaf"],
)
def test_a_completion_that_does_not_let_go_is_not_asked_again(stuck: str) -> None:
    code = (
        "import signal, time\n"
        "def swallow():\n    try: time.sleep(60)\n    except BaseException: pass\n"
        "def ignore():\n    signal.signal(signal.SIGVTALRM, signal.SIG_IGN)\n    time.sleep(60)\n"
        f"def f(x):\n    if x == 2: {stuck}\n    return x"
    )
    verdict = judged(THREE, code, limits=Limits(check_timeout_seconds=0.2))
    assert (verdict.status, verdict.passed) == (Status.TIMEOUT, 1)
    assert verdict.detail == "check 2 of 3: it ran longer than 0.2 s"


def test_a_limit_for_checks_does_not_extend_that_of_the_completion() -> None:
    code = "import time\ndef f(x):\n    if x == 2: time.sleep(60)\n    return x"
    verdict = judged(THREE, code, limits=Limits(timeout_seconds=0.5, check_timeout_seconds=30))
    assert (verdict.status, verdict.passed, verdict.detail) == (Status.TIMEOUT, 0, "it ran longer than 0.5 s")


def test_a_check_that_goes_on_after_its_time_hears_no_late_answer() -> None:
    late = "try:\n    f(2)\nexcept:\n    pass\nassert f(1) == 1"
    problem = replace(THREE, tests=(late, "assert f(3) == 3"))
    code = "import time\ndef f(x):\n    if x == 2: time.sleep(60)\n    return x"
    verdict = judged(problem, code, limits=Limits(check_timeout_seconds=0.2))
    assert (verdict.status, verdict.passed) == (Status.TIMEOUT, 1)


def test_a_setup_that_imports_what_is_not_there_is_the_problems_fault() -> None:
    verdict = verdict_of("assert f(1) == 1", "def f(x): return x", setup="import no_such_module")
    assert verdict.status is Status.INVALID_PROBLEM
    blamed = verdict_of("assert f(1) == 1", "def g(x): return x", setup="start = f(0)")
    assert blamed.status is Status.FAILED


def test_an_interpreter_of_another_version_compiles_both_parts_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.MAGIC_NUMBER", b"\0\0\0\0")
    code = "class Point:\n    def __init__(self, x):\n        self.x = x\n"
    assert verdict_of("assert Point(3).x == 3", code).is_pass
    assert verdict_of("assert Point(3).x == 4", code).status is Status.FAILED
