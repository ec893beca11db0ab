"""Completions that deceive through the objects they share with the judge: each is judged isolated, and none passes."""

from __future__ import annotations

from dataclasses import dataclass

from sandrl.events.results import ScoredCompletion
from sandrl.problems import Completion, Problem
from sandrl.rewards import Limits, ScoreOptions, score
from sandrl.sandboxes import Job

# The end of the channel that the completion's process has: everything in this process is the completion's to use.
PEER = """
def find_peer():
    import gc
    for each in gc.get_objects():
        if type(each).__name__ == "Objects" and hasattr(each, "channel"):
            return each
"""
EQUAL = """
class Liar:
    def __init__(self, *arguments): pass
    __eq__ = __lt__ = __gt__ = __le__ = __ge__ = __contains__ = lambda self, *other: True
    __ne__ = lambda self, other: False
    __hash__ = lambda self: 0
"""


@dataclass(frozen=True)
class Attack:
    """A completion that lies, and the problem that must not believe it."""

    check: str
    code: str
    setup: str = ""
    reference: str | None = None
    prompt: str = ""
    entry_point: str | None = None


def liar_class(name: str, body: str = "") -> str:
    return f"{EQUAL}\nclass {name}(Liar):\n    pass\n{body}\n"


# A check that hands over a function which knows the answer, and a completion that steals it from there.
SECRET = "want = 41 + 1\ndef given(x): return x\nassert f(given) == want"


def thief(expression: str) -> str:
    return f"{PEER}\ndef f(g):\n    peer = find_peer()\n    return {expression}\n"


ATTACKS = {
    "asks for the globals of a function by a special method": Attack(
        SECRET, thief("peer.ask('__getattribute__', g, ('__globals__',))['want']")
    ),
    "has the judge format a text with a function in it": Attack(
        SECRET,
        thief("int(peer.ask('call', peer.ask('get', '{0.__globals__[want]}', ('format',)), (g,)))"),
    ),
    "has the judge call a builtin class": Attack(
        SECRET, thief("peer.ask('call', property, (g,)) and peer.ask('call', int, ('42',))")
    ),
    "has the judge read its own files": Attack(
        SECRET,
        f"{PEER}\nimport pathlib\ndef f(g):\n    peer = find_peer()\n"
        "    read = peer.ask('get', pathlib.PosixPath('/proc/self/cmdline'), ('read_bytes',))\n"
        "    return 42 if peer.ask('call', read) else 0\n",
    ),
    "has the judge write the verdict": Attack(
        SECRET,
        f"{PEER}\nimport pathlib\ndef f(g):\n    peer = find_peer()\n"
        "    read = peer.ask('get', pathlib.PosixPath('/proc/self/fd/0'), ('read_text',))\n"
        "    key = peer.ask('call', read)\n"
        "    write = peer.ask('get', pathlib.PosixPath('/proc/self/fd/1'), ('write_text',))\n"
        "    peer.ask('call', write, ('\\n' + key + ' passed p 0.1 0.1 0.0 0 0 - - 0.0 -\\n',))\n"
        "    return 42\n",
    ),
    "replaces the modules of the judge": Attack(
        "import sys\ndef given(x): return getattr(sys, 'planted', 0)\nassert f(given) == 1 and f(given) == 1",
        f"{PEER}\ndef f(g):\n    peer = find_peer()\n    peer.world.changes = lambda: {{'sys:planted': (1,)}}\n"
        "    return peer.ask('call', g, (0,))\n",
    ),
    "gives a check's class another equality": Attack(
        "assert f(Node(3)) == Node(4)",
        "def f(node):\n    type(node).__eq__ = lambda self, other: True\n    return node\n",
        setup="class Node:\n    def __init__(self, n): self.n = n\n"
        "    def __eq__(self, other): return type(other) is Node and self.n == other.n",
        reference="def f(node):\n    node.n += 1\n    return node\n",
    ),
    "gives a check's class another method": Attack(
        "assert Node.same(f(Node(3)), Node(4))",
        "def f(node):\n    type(node).same = lambda self, other: True\n    return node\n",
        setup="class Node:\n    def __init__(self, n): self.n = n\n    def same(self, other): return self.n == other.n",
        reference="def f(node):\n    node.n += 1\n    return node\n",
    ),
    "gives a check's object another method": Attack(
        "node = Node(3)\nf(node)\nassert node.is_four()",
        "def f(node):\n    node.is_four = lambda: True\n",
        setup="class Node:\n    def __init__(self, n): self.n = n\n    def is_four(self): return self.n == 4",
        reference="def f(node):\n    node.n += 1\n",
    ),
    "gives a check's object another method by its dictionary": Attack(
        "node = Node(3)\nf(node)\nassert node.is_four()",
        "def f(node):\n    node.__dict__['is_four'] = lambda: True\n",
        setup="class Node:\n    def __init__(self, n): self.n = n\n    def is_four(self): return self.n == 4",
        reference="def f(node):\n    node.n += 1\n",
    ),
    "ends a loop with an exception that has a name of the check": Attack(
        "assert all(map(f, [1, 2, 3]))",
        "Stop = type('f', (StopIteration,), {})\ndef f(n): raise Stop\n",
    ),
    "returns the object that the check has made, in a list": Attack(
        "c = Circle(2)\nassert c.areas() == [12]",
        liar_class("Circle", "Circle.areas = lambda self: [self]"),
    ),
    "returns the object that the check has made, in a tuple": Attack(
        "c = Circle(2)\nassert c.areas()[0] == 12",
        liar_class("Circle", "Circle.areas = lambda self: (self,)"),
    ),
    "returns an object before the check makes it": Attack(
        "x = known()\nc = Circle(2)\nc.grow()\nassert x == [12]",
        liar_class("Circle", "one = Circle()\nCircle.__new__ = lambda *a: one\nCircle.grow = known = lambda *a: [one]"),
    ),
    "returns the object that the check has made, to a with statement": Attack(
        "area = 0\nwith Circle(2) as area:\n    pass\narea.close()\nassert area == 12",
        liar_class("Circle", "Circle.__enter__ = lambda self: self\nCircle.__exit__ = Circle.close = lambda *a: None"),
    ),
    "has the class itself for a method": Attack(
        "assert Solution().two_sum([2, 7], 9) == [0, 1]",
        liar_class("Solution", "Solution.two_sum = Solution"),
    ),
    "has the class itself for a method, with a reference": Attack(
        "assert Solution().two_sum([2, 7], 9) == [0, 1]",
        liar_class("Solution", "Solution.two_sum = Solution"),
        reference="class Solution:\n    def two_sum(self, a, b): return [0, 1]\n",
    ),
    "hands out its class in a dictionary": Attack(
        "assert Solution().methods()['two_sum']([2, 7], 9) == [0, 1]",
        liar_class("Solution", "Solution.methods = lambda self: {'two_sum': Solution}"),
    ),
    "has the class in the place of a function": Attack(
        "assert total(Node(1)) == 1",
        liar_class("Node", "total = Node"),
        reference="class Node:\n    def __init__(self, n): self.n = n\ndef total(node): return node.n\n",
    ),
    "has the class in the place of a function, without a reference": Attack(
        "assert Node(1).n == 1\nassert total(Node(1)) == 1",
        liar_class("Node", "Node.n = 1\ntotal = Node"),
    ),
    "has a class in the place of a capitalized function": Attack(
        "assert abs(Area(2) - 12.566) < 1e-3",
        liar_class("Area", "Area.__sub__ = Area.__rsub__ = lambda self, other: 0"),
    ),
    "has a class in the place of a capitalized function in a rounded comparison": Attack(
        "assert round(Area(2), 2) == 12.57",
        liar_class("Area", "Area.__round__ = lambda self, *n: self"),
    ),
    "changes the counter of a check": Attack(
        "passed = 0\nfor n in range(5):\n    if f(n) == n * n + 7: passed += 1\nassert passed == 5",
        "passed = 0\ncalls = 0\ndef f(n):\n    global calls, passed\n    calls += 1\n"
        "    if calls == 5: passed = 5\n    return None\n",
    ),
    "changes what an earlier check has set": Attack(
        "assert f(3) == 3 * LIMIT",
        "LIMIT = 10\ndef f(n):\n    global LIMIT\n    return 0\nimport sys\nclass N(dict): pass\n"
        "def g():\n    global LIMIT\n    LIMIT = 0\n",
        setup="LIMIT = 10\ng()",
    ),
    "an order that functions of the reference do not have": Attack(
        "assert Money(5).value() < 6 and Money(5).value() > 4",
        liar_class("Money", "Money.value = lambda self: Liar()"),
        reference="class Money:\n    def __init__(self, n): self.n = n\n    def value(self): return self.n\n"
        "    def __lt__(self, other): return self.n < other.n\n",
    ),
    "an empty difference": Attack(
        "assert not Circle(2).points() - {(0, 2)}",
        liar_class(
            "Circle",
            "Circle.points = lambda self: Liar()\n"
            "Liar.__sub__ = lambda self, other: Liar()\nLiar.__bool__ = lambda self: False",
        ),
    ),
    "an empty difference by its length": Attack(
        "assert len(Circle(2).points() ^ {(0, 2)}) == 0",
        liar_class(
            "Circle",
            "Circle.points = lambda self: Liar()\n"
            "Liar.__xor__ = lambda self, other: Liar()\nLiar.__len__ = lambda self: 0",
        ),
    ),
    "contains everything": Attack(
        "assert (0, 2) in Circle(2).points()",
        liar_class("Circle", "Circle.points = lambda self: Liar()"),
    ),
    "starts with everything": Attack(
        "assert f(1).startswith('ab') and f(1).isdigit()",
        f"{EQUAL}\nLiar.startswith = Liar.isdigit = lambda *a: True\ndef f(n): return Liar()",
    ),
    "starts with everything, as an object of the class": Attack(
        "assert Robot(1).name().startswith('ab')",
        liar_class("Robot", "Robot.startswith = lambda *a: True\nRobot.name = lambda self: self"),
    ),
    "is every set, by name": Attack(
        "assert f(1).issubset({1, 2}) and f(1).issuperset({1})",
        f"{EQUAL}\nLiar.issubset = Liar.issuperset = lambda *a: True\ndef f(n): return Liar()",
    ),
    "explicit equality": Attack(
        "assert f(1).__eq__(2)", f"{EQUAL}\nclass N(int):\n    __eq__ = lambda *a: True\ndef f(n): return N(7)"
    ),
    "leaves out what a helper asserts": Attack(
        "check(Area)",
        liar_class(
            "Area",
            "Area.__enter__ = lambda self: self\nArea.__exit__ = lambda *a: True\n"
            "def fail(self): raise ValueError\nArea.value = property(fail)",
        ),
        setup="def check(made):\n    with made() as area:\n        assert area.value == 12",
    ),
    "an error class that is every error": Attack(
        "try:\n    f(-1)\n    assert False\nexcept NegativeError:\n    pass",
        "NegativeError = Exception\ndef f(n): return n",
    ),
    "a tuple of errors": Attack(
        "try:\n    f(-1)\n    assert False\nexcept NegativeError:\n    pass",
        "NegativeError = (ValueError, AssertionError)\ndef f(n): return n",
    ),
    "an error class of that name": Attack(
        "try:\n    f(-1)\n    assert False\nexcept NegativeError:\n    pass",
        "NegativeError = type('Exception', (Exception,), {'__module__': 'builtins'})\ndef f(n): return n",
    ),
    "returns the object that the check has made, in an exception": Attack(
        "b = Box(1)\ntry:\n    b.fail()\n    assert False\nexcept ValueError as e:\n    assert e.args[0] == 'bad'",
        liar_class("Box", "def fail(self): raise ValueError(self)\nBox.fail = fail"),
    ),
    "hands the object that the check has made to a function of the check": Attack(
        "def compare(item):\n    assert item == 4\nBox(1).each(compare)",
        liar_class("Box", "Box.each = lambda self, call: call(self)"),
        reference="class Box:\n    def __init__(self, n): pass\n    def each(self, call): call(4)\n",
    ),
    "a difference from a global object": Attack(
        "assert not DATA - {1, 2}", f"{EQUAL}Liar.__sub__ = lambda *a: set()\nDATA = Liar()", reference="DATA = {1}\n"
    ),
    "a fraction of nothing and nothing": Attack(
        "from decimal import Decimal\nassert Decimal('1.5') == f(1)",
        "from fractions import Fraction\nclass Zero(Fraction):\n    numerator = denominator = 0\n"
        "def f(n): return Zero(1, 3)",
    ),
    "a fraction that changes": Attack(
        "from decimal import Decimal\nassert Decimal('1.4') < f(1) < Decimal('1.6')",
        "import itertools, numbers\nparts = itertools.cycle([9, 0])\nclass Zero(numbers.Rational): pass\n"
        "for name in Zero.__abstractmethods__:\n    setattr(Zero, name, None)\n"
        "Zero.__abstractmethods__ = frozenset()\nZero.numerator = property(lambda self: next(parts))\n"
        "Zero.denominator = 1\ndel Zero.__lt__, Zero.__le__\ndef f(n): return Zero()",
    ),
    "a list that changes while it is looked at": Attack(
        "x = [3, 1, 2]\nr = f(x)\nassert all(a <= b for a, b in zip(r, r[1:]))\nassert sorted(x) == sorted(r)",
        "class Liar:\n    def __le__(self, other):\n        found[:] = [3, 1, 2]\n        return True\n"
        "found = [Liar(), Liar()]\ndef f(x): return found",
    ),
}


def score_attacks(job: Job, attacks: dict[str, Attack], timeout_seconds: float = 5.0) -> dict[str, ScoredCompletion]:
    problems = {
        name: Problem(
            name, attack.prompt, tests=(attack.check,), setup=attack.setup, reference=attack.reference,
            entry_point=attack.entry_point,
        )
        for name, attack in attacks.items()
    }  # fmt: skip
    completions = [Completion(name, name, code=attack.code) for name, attack in attacks.items()]
    options = ScoreOptions(limits=Limits(timeout_seconds=timeout_seconds), concurrency=4, caching=False)
    return {result.id: result for result in score(completions, problems, job=job, options=options).results}


def test_no_object_is_believed(job: Job) -> None:
    results = score_attacks(job, ATTACKS)
    believed = {name: str(result.trust) for name, result in results.items() if result.reward}
    assert believed == {}
    assert {name for name, result in results.items() if result.reward is None} == set()
