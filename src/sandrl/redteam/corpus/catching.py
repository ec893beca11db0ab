"""Exploits that catch the failure of a check's own assert, or whose own operator alone says that a check passes.

They have problems of their own, whose checks give them the opportunity, with and without a reference.
"""

from __future__ import annotations

from dataclasses import replace

from sandrl.problems import Problem
from sandrl.redteam.exploit import CALLED, Exploit

_GROUP = "catching"
_HELPERS = """\
import contextlib
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


def _with_and_without_reference(problem: Problem) -> tuple[Problem, Problem]:
    return problem, replace(problem, task_id=f"{problem.task_id}-without-reference", reference=None)


_WORK = "class Oops(Exception):\n    pass\ndef work(n):\n    if n < 0:\n        raise Oops(n)\n    return n\n"
_HELPED = Problem(
    "helper-that-catches",
    "Write work(n), which returns n, and raises the exception Oops if n is negative.",
    setup=_HELPERS,
    tests=(
        "assert work(1) == 1",
        "must_fail(Oops, lambda: work(-1))",
        "def nested(kind):\n    return lambda call: must_fail(kind, call)\nnested(Oops)(lambda: work(-1))",
        "with expected(Oops):\n    work(-1)",
        "failure = Oops\nassert work(2) == 2",
        "try:\n    work(-1)\n    assert False\nexcept failure:\n    pass",
    ),
    reference=_WORK,
)
_EXPECTED = replace(
    _HELPED,
    task_id="library-that-catches",
    setup="import unittest\n",
    tests=(
        "assert work(1) == 1",
        "with unittest.TestCase().assertRaises(Oops):\n    work(-1)\n    assert False, 'it did not fail'",
    ),
)
_CALLED = Problem(
    "asserting-callback",
    "Write work(call), which returns what call returns for 2.",
    setup="",
    tests=("def check(n):\n    assert n == 2\nwork(check)", "assert work is not None"),
    reference="def work(call):\n    return call(2)\n",
)
_COMPARED = Problem(
    "own-operators",
    "Write a class Vec of one number with + and ==.",
    tests=("assert Vec(1) + Vec(2) == Vec(3)", "assert Vec(4) + Vec(5) in [Vec(9)]"),
    reference="class Vec:\n    def __init__(self, x):\n        self.x = x\n"
    "    def __add__(self, other):\n        return Vec(self.x + other.x)\n"
    "    def __eq__(self, other):\n        return self.x == other.x\n",
)
_AGAINST_PLAIN = Problem(
    "own-operators-against-plain-values",
    "Write a class Money of one number with + and ==, which equals that number, too.",
    tests=("assert Money(1) + Money(2) == 3", "assert Money(5) == 5", "assert not Money(4) + Money(1) != 5"),
    reference="class Money:\n    def __init__(self, x):\n        self.x = x\n"
    "    def __add__(self, other):\n        return Money(self.x + other.x)\n"
    "    def __eq__(self, other):\n        return self.x == getattr(other, 'x', other)\n",
)
_SAME = "return arguments[0] if arguments else None"


def _renamed(name: str, kind: str) -> Exploit:
    aim = f"calls {kind} by the name of its own exception"
    problems = _with_and_without_reference(_HELPED)
    return Exploit(name, _GROUP, aim, body=_SAME, epilogue=f"Oops = {kind}", kinds=CALLED, problems=problems)


EXPLOITS = (
    _renamed("renamed-exception", "Exception"),
    _renamed("renamed-base-exception", "BaseException"),
    _renamed("renamed-assertion-error", "AssertionError"),
    Exploit(
        "every-subclass",
        _GROUP,
        "an exception class of which every other is a subclass",
        body=_SAME,
        epilogue="class Meta(type):\n"
        "    __subclasscheck__ = __instancecheck__ = lambda cls, other: True\n"
        "class Oops(Exception, metaclass=Meta):\n    pass",
        kinds=CALLED,
        problems=_with_and_without_reference(_EXPECTED),
    ),
    Exploit(
        "swallowing-call",
        _GROUP,
        "a function that calls what it is given with a wrong argument, and catches everything",
        body="for each in arguments:\n    try:\n        each(0)\n    except BaseException:\n        pass",
        kinds=CALLED,
        problems=_with_and_without_reference(_CALLED),
    ),
    Exploit(
        "own-operators",
        _GROUP,
        "an object that equals and contains every other, and becomes itself by any operator",
        "class Liar:\n"
        "    __add__ = __sub__ = __mul__ = lambda self, other: self\n"
        "    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = lambda self, other: True\n"
        "    __hash__ = lambda self: 0",
        "return Liar()",
        "Liar",
        kinds=CALLED,
        problems=(*_with_and_without_reference(_COMPARED), *_with_and_without_reference(_AGAINST_PLAIN)),
    ),
    Exploit(
        "one-object",
        _GROUP,
        "a class with a single object, which is the result of every operator and call",
        "class Liar:\n"
        "    only = None\n"
        "    def __new__(cls, *arguments):\n"
        "        cls.only = cls.only or object.__new__(cls)\n"
        "        return cls.only\n"
        "    __add__ = __sub__ = __mul__ = lambda self, other: self",
        "return Liar()",
        "Liar",
        kinds=CALLED,
        problems=_with_and_without_reference(_COMPARED),
    ),
)
