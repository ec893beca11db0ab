"""Nothing of a completion catches the failure of a check's own assert; what a check catches by itself, it catches."""

from __future__ import annotations

import pytest
from tests.unit.rewards.test_isolated_judge import judged
from tests.unit.rewards.test_trials import calibrated

from sandrl.events.results import CheckStatus, Status, Trust
from sandrl.problems import Problem

HELPERS = """\
import contextlib, unittest
class NotFailed(Exception): pass
def must_fail(kind, call):
    try:
        call()
        assert False, "it did not fail"
    except kind:
        pass
@contextlib.contextmanager
def expected(kind):
    try:
        yield
        assert False, "it did not fail"
    except kind:
        pass
"""
REFERENCE = "class Oops(Exception): pass\ndef work(n):\n    if n < 0: raise Oops(n)\n    return n\n"
RIGHT = [
    REFERENCE,
    REFERENCE.replace("class Oops(Exception): pass", "Oops = Exception"),
    REFERENCE.replace("class Oops(Exception): pass", "Oops = ValueError"),
]
WRONG = [
    f"{oops}\ndef work(n): return n\n"
    for oops in (
        "Oops = Exception",
        "Oops = BaseException",
        "Oops = AssertionError",
        "class Meta(type):\n    __subclasscheck__ = __instancecheck__ = lambda *_: True\n"
        "class Oops(Exception, metaclass=Meta): pass",
    )
]
CHECKS = (
    "must_fail(Oops, lambda: work(-1))",
    "def outer(kind):\n    return lambda call: must_fail(kind, call)\nouter(Oops)(lambda: work(-1))",
    "with expected(Oops):\n    work(-1)",
    "with contextlib.suppress(Oops):\n    work(-1)\n    assert False",
    "with unittest.TestCase().assertRaises(Oops):\n    work(-1)\n    assert False",
    "case = unittest.TestCase()\nwith case.assertRaises(Oops):\n    work(-1)\n    case.fail()",
    "def run():\n    work(-1)\n    assert False\nunittest.TestCase().assertRaises(Oops, run)",
    "kinds = (KeyError, Oops)\ntry:\n    work(-1)\n    assert False\nexcept kinds:\n    pass",
    "box = [Oops]\ntry:\n    work(-1)\n    assert False\nexcept box[0]:\n    pass",
    "try:\n    work(-1)\n    assert False\nexcept* Oops:\n    pass",
    "try:\n    work(-1)\n    raise RuntimeError('it did not fail')\nexcept Oops:\n    pass",
    "try:\n    work(-1)\n    raise NotFailed\nexcept Oops:\n    pass",
    "def f(kind):\n    try:\n        work(-1)\n        raise NotFailed()\n    except kind:\n        pass\nf(Oops)",
)


def _verdict(check: str, code: str, reference: str | None) -> tuple[Status, Trust | None]:
    problem = Problem("t", "", tests=("assert work(1) == 1", check), setup=HELPERS, reference=reference)
    verdict = judged(problem, code)
    return verdict.status, verdict.trust


@pytest.mark.parametrize("reference", [REFERENCE, None], ids=["reference", "none"])
def test_no_class_of_a_completion_catches_the_failure_of_an_assert(reference: str | None) -> None:
    problem = Problem("t", "", tests=("assert work(1) == 1", *CHECKS), setup=HELPERS, reference=reference)
    for code in RIGHT:
        verdict = judged(problem, code)
        assert (verdict.status, verdict.trust) == (Status.PASSED, Trust.ISOLATED), verdict.detail
    for code in WRONG:
        verdict = judged(problem, code)
        assert [check.status for check in verdict.checks] == [CheckStatus.PASSED] + [CheckStatus.FAILED] * len(CHECKS)
        assert verdict.trust is Trust.ISOLATED


@pytest.mark.parametrize(
    ("check", "code"),
    [
        ("k = type(error())\ntry:\n    assert work(1) == 5\nexcept k:\n    pass", "def error(): return Exception()"),
        ("try:\n    assert work(1) == 5\nexcept box().kind:\n    pass", "class box: kind = Exception"),
        (
            "def check(n):\n    assert n == 5\ncall(check)",
            "def call(f):\n    try: f(1)\n    except BaseException: pass",
        ),
        (
            "@wrap\ndef check():\n    assert work(1) == 5\ncheck()",
            "def wrap(f):\n    def g():\n        try: f()\n        except BaseException: pass\n    return g",
        ),
        (
            "with guard():\n    assert work(1) == 5",
            "class guard:\n    def __enter__(self): pass\n    def __exit__(self, *_): return True",
        ),
    ],
)
def test_nothing_that_a_completion_returns_catches_the_failure_of_an_assert(check: str, code: str) -> None:
    assert _verdict(check, f"{code}\ndef work(n): return n\n", None) == (Status.FAILED, Trust.ISOLATED)


@pytest.mark.parametrize(
    "check",
    [
        "try:\n    assert work(1) == 2\nexcept AssertionError:\n    pass",
        "try:\n    assert work(1) == 2\nexcept:\n    pass",
        "with unittest.TestCase().assertRaises(AssertionError):\n    assert work(1) == 2",
        "try:\n    unittest.TestCase().assertEqual(work(1), 2)\nexcept AssertionError as error:\n"
        "    assert '1 != 2' in str(error)",
        "with contextlib.suppress(AssertionError):\n    assert work(1) == 2",
        "must_fail(AssertionError, lambda: check(2))",
        "must_fail(Exception, lambda: check(0))",
        "must_fail((KeyError, ValueError), lambda: check(0))",
        "tries = []\ndef flaky():\n    tries.append(1)\n    if len(tries) < 3: raise OSError\n    return 7\n"
        "assert retry(flaky) == 7",
    ],
)
def test_a_check_catches_by_itself_what_it_names_by_itself(check: str) -> None:
    code = (
        "def work(n): return n\n"
        "def check(n):\n    if not n: raise ValueError\n    assert n == 1\n"
        "def retry(f):\n    while True:\n        try: return f()\n        except OSError: pass\n"
    )
    assert _verdict(check, code, None) == (Status.PASSED, Trust.ISOLATED)


VEC = """
class Vec:
    def __init__(self, x): self.x = x
    def __add__(self, other): return Vec(self.x + other.x)
    def __eq__(self, other): return isinstance(other, Vec) and self.x == other.x
    def __lt__(self, other): return self.x < other.x
    def __hash__(self): return hash(self.x)
"""
LYING = """
class Vec:
    def __init__(self, x): {init}
    def __add__(self, other): return self
    __eq__ = __lt__ = lambda self, other: True
    __hash__ = lambda self: 1
"""
OWN = [
    "assert Vec(1) + Vec(2) == Vec(3)",
    "assert Vec(1) + Vec(2) in [Vec(3)]",
    "assert len({Vec(1) + Vec(2), Vec(3)}) == 1",
]


@pytest.mark.parametrize("reference", [VEC, None], ids=["reference", "none"])
@pytest.mark.parametrize("check", OWN)
def test_a_pass_that_only_the_own_operator_decided_has_a_trust_of_its_own(check: str, reference: str | None) -> None:
    problem = Problem("t", "", tests=(check,), reference=reference)
    for honest in (VEC, VEC.replace(".x", ".value"), "import dataclasses\n@dataclasses.dataclass(frozen=True)\n"
                   "class Vec:\n    x: int\n    def __add__(self, o): return Vec(self.x + o.x)\n"):  # fmt: skip
        assert judged(problem, honest).trust is Trust.ISOLATED
    for init in ("pass", "self.x = x", "self.x = 0", "self.__dict__ = vars(Vec.__add__)"):
        verdict = judged(problem, LYING.format(init=init))
        assert (verdict.status, verdict.trust) == (Status.PASSED, Trust.OWN_OPERATOR), init


@pytest.mark.parametrize("check", OWN)
def test_one_object_that_stands_for_several_decides_nothing(check: str) -> None:
    code = (
        "class Vec:\n    only = None\n    def __new__(cls, *_):\n        cls.only = cls.only or object.__new__(cls)\n"
    )
    code += "        return cls.only\n    def __add__(self, other): return self\n"
    for reference in (VEC, None):
        assert judged(Problem("t", "", tests=(check,), reference=reference), code).trust is Trust.OWN_OPERATOR


def test_an_object_that_was_a_result_before_it_was_made_decides_nothing() -> None:
    code = (
        "class Vec:\n    last = None\n    def __new__(cls, x): return cls.last or object.__new__(cls)\n"
        "    def __add__(self, other):\n        Vec.last = object.__new__(Vec)\n        return Vec.last\n"
        "    plus = __add__\n"
    )
    for check in ("assert Vec(1) + Vec(2) == Vec(3)", "assert Vec(1).plus(Vec(2)) == Vec(3)"):
        assert judged(Problem("t", "", tests=(check,)), code).trust is Trust.OWN_OPERATOR
    levels = "import enum\nclass Level(enum.Enum):\n    LOW = 1\n    MID = 5\ndef level_of(n): return Level.MID\n"
    checks = ("assert level_of(7) == Level(5) != Level.LOW", "assert [*Level] == [Level(1), Level(5)]")
    assert judged(Problem("t", "", tests=checks), levels).trust is Trust.ISOLATED


MONEY = """
class Money:
    def __init__(self, x): self.x = x
    def __add__(self, other): return Money(self.x + other.x)
    def __eq__(self, other): return self.x == getattr(other, "x", other)
"""


@pytest.mark.parametrize("check", ["assert Money(1) + Money(2) == 3", "assert not Money('a') + Money('b') != 'ab'"])
def test_an_object_that_equals_a_plain_value_differs_from_others(check: str) -> None:
    for reference in (MONEY, None):
        problem = Problem("t", "", tests=(check,), reference=reference)
        assert judged(problem, MONEY).trust is Trust.ISOLATED
        lying = MONEY.replace('self.x == getattr(other, "x", other)', "True").replace("Money(self.x + other.x)", "self")
        assert judged(problem, lying).trust is Trust.OWN_OPERATOR


@pytest.mark.parametrize("check", ["assert (Vec(1) + Vec(2)).x == 3", "assert Vec(1).x == 1 and Vec(2).x == 2"])
def test_a_comparison_of_plain_values_is_isolated(check: str) -> None:
    assert judged(Problem("t", "", tests=(check,)), VEC).trust is Trust.ISOLATED


def test_a_failure_of_a_lying_class_is_a_failure() -> None:
    verdict = judged(Problem("t", "", tests=(*OWN, "assert (Vec(1) + Vec(2)).x == 3")), LYING.format(init="pass"))
    assert (verdict.status, verdict.passed, verdict.trust) == (Status.FAILED, 3, Trust.OWN_OPERATOR)


@pytest.mark.parametrize(
    ("reference", "more", "status"),
    [(VEC, (), Status.FAILED), (None, (), Status.NOT_ISOLATED), (None, ("assert Vec(1) is None",), Status.FAILED)],
)
def test_with_required_isolation_a_pass_by_the_own_operator_has_no_reward(
    reference: str | None, more: tuple[str, ...], status: Status
) -> None:
    from sandrl.judge.judge import Judge

    judge, problem = Judge(require_isolated=True), Problem("t", "", tests=(*OWN, *more), reference=reference)
    verdict = judge.review(problem, judged(problem, LYING.format(init="pass"), judge))
    assert verdict is not None
    assert verdict.status is status
    assert verdict.passed == 0 or status is Status.NOT_ISOLATED
    assert "operator" in verdict.detail or more


def test_a_reference_that_passes_only_by_its_own_operator_excludes_its_problem_where_isolation_is_required() -> None:
    from sandrl.judge.judge import Judge

    reference = VEC.replace("self.x = x", "hidden[id(self)] = x").replace("self.x", "hidden[id(self)]")
    reference = "hidden = {}" + reference.replace("other.x", "hidden[id(other)]")
    problem = Problem("t", "", tests=(OWN[0],), reference=reference)
    for required in (True, False):
        judge = Judge(require_isolated=required)
        known, _ = calibrated(judge, problem, judged(problem, reference, judge))
        assert (judge.refusal(problem, known) is not None) is required
