"""Which checks one judge may judge completion after completion with."""

from __future__ import annotations

import pytest

from sandrl.judge.pure_checks import are_pure
from sandrl.problems import Problem

PURE = (
    "assert f(1) == 2",
    "assert abs(f(1.0) - 0.5) < 1e-6",
    "import math\nassert math.isclose(f(1), math.pi)",
    "from collections import Counter\nassert Counter(f('a')) == Counter('a')",
    "for n in range(3):\n    assert f(n) == n, f'wrong for {n}'",
    "def check(g):\n    assert g(1) == 2\ncheck(f)",
    "try:\n    f(-1)\nexcept ValueError:\n    pass\nelse:\n    raise AssertionError",
    "s = Stack()\ns.push(1)\nassert s.pop() == 1",
    "assert {**f(1)} == {'a': [1, *f(2)]} and all(x > 0 for x in f(3))",
    "a = [3, 1]\nf(a)\na.sort()\na[0] += 1\nassert a == [2, 3]",
)
IMPURE = (
    "open('/tmp/x', 'w').close()\nassert f('/tmp/x')",
    "import os\nassert f() == os.getcwd()",
    "import random\nrandom.seed(1)\nassert f() == 1",
    "import sys\nsys.setrecursionlimit(50)",
    "import math\nmath.pi = 3\nassert f() == 3",
    "from decimal import getcontext\ngetcontext().prec = 3",
    "import decimal\ndecimal.getcontext().prec = 3",
    "setattr(f, 'a', 1)",
    "f.a = 1\nassert f.a == 1",
    "del f.a",
    "assert f.__name__ == 'f'",
    "import collections\ncollections.abc.Sized.register(f)",
    "import collections.abc as abc\nassert abc._sys",
    "from re import _cache",
    "class A:\n    pass\nassert f(A())",
    "@f\ndef g():\n    pass",
    "with f() as a:\n    assert a",
    "async def g():\n    await f()",
    "global a\na = 1",
    "assert eval('f(1)') == 2",
    "import unittest\nunittest.TestCase().assertEqual(f(1), 2)",
    "from . import a",
)


def problem_with(check: str) -> Problem:
    return Problem("p", "", tests=(f"{check}\nassert f(1) == 2",))


@pytest.mark.parametrize("check", PURE)
def test_checks_that_only_compute_keep_no_state(check: str) -> None:
    assert are_pure(problem_with(check))


@pytest.mark.parametrize("check", IMPURE)
def test_checks_that_may_change_what_outlasts_them_have_a_judge_of_their_own(check: str) -> None:
    assert not are_pure(problem_with(check))


def test_what_a_reference_imports_counts_where_checks_mean_it() -> None:
    reference = "import os\nimport math\ndef f(x):\n    return os.sep\n"
    assert are_pure(Problem("p", "", tests=("assert f(1) == '/'",), reference=reference))
    assert are_pure(Problem("p", "", tests=("assert f(1) == math.pi",), reference=reference))
    assert not are_pure(Problem("p", "", tests=("assert f(1) == os.sep",), reference=reference))
