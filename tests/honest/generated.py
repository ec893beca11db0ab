"""Random classes with special methods, and checks that use them: the judge must decide each check as plain Python does.

No expectation is written by hand: plain Python evaluates every expression in a sandbox. The value gives a right check
and a wrong one, and both are judged in plain Python and by the judge. If the judge does not support a method, a right
check fails; if it accepts an object that it must not accept, a wrong check passes.
"""

from __future__ import annotations

import ast
import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sandrl.events.results import CheckStatus
from sandrl.problems import Completion, Problem
from sandrl.problems.vacuity import complaint
from sandrl.rewards import Limits, ScoreOptions, score
from sandrl.sandboxes import Command, Job

_SECONDS = 60.0
# A check that never ends must not hide what became of the others.
_LIMITS = Limits(timeout_seconds=_SECONDS, check_timeout_seconds=10.0)
_PROGRAM = (Path(__file__).parent / "plain_checks.py").read_text(encoding="utf-8")

# A special method: its head, bodies to choose from, expressions that use it. In bodies `V` is the object's own number,
# `o` another object or number, `N` a random number; in expressions `X` and `Y` are fresh objects.
_BINARY = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "and": "&", "or": "|", "xor": "^"}
_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_OTHER = "getattr(o, 'n', o)"


@dataclass(frozen=True, slots=True)
class _Method:
    head: str
    bodies: tuple[str, ...]
    uses: tuple[str, ...]


def _methods() -> tuple[_Method, ...]:
    methods = [
        _Method("__len__(self)", ("return abs(V) % 7", "return N"), ("len(X)", "bool(X)", "not X")),
        _Method("__bool__(self)", ("return V > N", "return V % 2 == 0"), ("bool(X)", "1 if X else 2", "X and 5")),
        _Method("__int__(self)", ("return V * N",), ("int(X)",)),
        _Method("__float__(self)", ("return V / 2",), ("float(X)", "math.sqrt(abs(X.n)) + float(X)")),
        _Method("__complex__(self)", ("return complex(V, N)",), ("complex(X)",)),
        _Method(
            "__index__(self)",
            ("return abs(V) % 5",),
            ("[9, 8, 7, 6, 5][X]", "hex(X)", "list(range(X))", "'abcdef'[:X]"),
        ),
        _Method("__round__(self, d=None)", ("return V if d is None else V + d",), ("round(X)", "round(X, 2)")),
        _Method("__trunc__(self)", ("return V // 2",), ("math.trunc(X)",)),
        _Method("__floor__(self)", ("return V - 1",), ("math.floor(X)",)),
        _Method("__ceil__(self)", ("return V + 1",), ("math.ceil(X)",)),
        _Method("__abs__(self)", ("return C(abs(V))", "return abs(V)"), ("abs(X)",)),
        _Method("__neg__(self)", ("return C(-V)", "return -V"), ("-X", "-(-X)")),
        _Method("__pos__(self)", ("return self",), ("+X",)),
        _Method("__invert__(self)", ("return C(~V)",), ("~X",)),
        _Method("__divmod__(self, o)", (f"return divmod(V, {_OTHER} or 1)",), ("divmod(X, 3)", "divmod(X, Y)")),
        _Method("__pow__(self, e, m=None)", ("return pow(V, 2, m)", "return C(V * V)"), ("X ** 2", "pow(X, 2, 7)")),
        _Method("__matmul__(self, o)", (f"return [V, {_OTHER}]",), ("X @ Y", "X @ 3")),
        _Method("__str__(self)", ("return f'<{V}>'",), ("str(X)", "f'{X}'", "'%s' % X", "'{:>6}'.format(str(X))")),
        _Method("__repr__(self)", ("return f'C({V})'",), ("repr(X)", "f'{X!r}'", "str([X, Y])", "'%r' % X")),
        _Method("__format__(self, spec)", ("return spec + str(V)",), ("f'{X:abc}'", "format(X)", "'{:z}'.format(X)")),
        _Method("__bytes__(self)", ("return bytes([abs(V) % 256])",), ("bytes(X)",)),
        _Method("__hash__(self)", ("return V % 3",), ("hash(X)", "len({X, Y})", "{X: 1}.get(Y, 2)")),
        _Method(
            "__call__(self, *a, **k)",
            ("return [V, *a, k]",),
            ("X()", "X(1, b=2)", "list(map(X, [1, 2]))", "callable(X)"),
        ),
        _Method(
            "__getitem__(self, i)",
            ("return [V, i]", "return (V, N, 3)[i]"),
            ("X[0]", "X[1:2]", "X['k']", "X[1, 2]", "list(itertools.islice(X, 2))"),
        ),
        _Method(
            "__contains__(self, o)", ("return o == V", "return o in (V, N)"), ("3 in X", "X.n in X", "'a' not in X")
        ),
        _Method(
            "__iter__(self)",
            ("return iter([V, N])", "yield V; yield from 'ab'"),
            ("list(X)", "tuple(X)", "[*X, 1]", "sorted(map(str, X))", "dict(enumerate(X))", "next(iter(X))", "V_ in X"),
        ),
        _Method("__reversed__(self)", ("return iter([N, V])",), ("list(reversed(X))",)),
        _Method("__length_hint__(self)", ("return N",), ("operator.length_hint(X)",)),
        _Method("__enter__(self)", ("return V",), ("contextlib.ExitStack().enter_context(X)",)),
        _Method("__exit__(self, *a)", ("return False",), ()),
        _Method(
            "__getattr__(self, name)",
            ("return (name, V) if name[0] == 'q' else object.__getattribute__(self, name)",),
            ("X.qa", "X.zz", "getattr(X, 'zz', 4)", "hasattr(X, 'qq')", "hasattr(X, 'zz')"),
        ),
        _Method("__dir__(self)", ("return ['b', 'a']",), ("dir(X)",)),
        _Method("__copy__(self)", ("return C(V + 1)",), ("copy.copy(X)",)),
        _Method("__deepcopy__(self, memo)", ("return C(V + 2)",), ("copy.deepcopy(X)",)),
        _Method("__fspath__(self)", ("return f'/tmp/{V}'",), ("os.fspath(X)",)),
        _Method("__sizeof__(self)", ("return 64",), ("X.__sizeof__()",)),
        _Method("keys(self)", ("return ['a', 'b']",), ("sorted(X.keys())",)),
        _Method("__await__(self)", ("return iter(())",), ()),
        _Method("__class_getitem__(cls, k)", ("return [k]",), ("C[int] == [int]", "C[3]")),
    ]
    for name, sign in _BINARY.items():
        plain = f"return V {sign} ({_OTHER} or 1)"
        bodies = (plain, f"return C(V {sign} ({_OTHER} or 1))", "return NotImplemented", "raise ValueError('own')")
        methods.append(
            _Method(f"__{name}__(self, o)", bodies, (f"X {sign} Y", f"X {sign} 2", f"2 {sign} X", f"X {sign} 'a'"))
        )
        methods.append(_Method(f"__r{name}__(self, o)", (f"return C(o {sign} (V or 1))",), (f"2 {sign} X",)))
        methods.append(_Method(f"__i{name}__(self, o)", ("self.n += 10; return self",), (f"inplace(X, {sign!r}, 3)",)))
    for name, sign in _COMPARISONS.items():
        compared = (f"return V {sign} {_OTHER}", "return NotImplemented")
        methods.append(
            _Method(f"__{name}__(self, o)", compared, (f"X {sign} Y", f"X {sign} 3", f"3 {sign} X", "min(X, Y)"))
        )
    equal = (f"return isinstance(o, C) and V == {_OTHER}", f"return abs(V) == abs({_OTHER})", "return NotImplemented")
    uses = (
        "X == Y",
        "X != Y",
        "X == X.n",
        "X in [Y, 1]",
        "[X] == [Y]",
        "(X, 1) == (Y, 1)",
        "[Y, X].index(X)",
        "X == 'a'",
    )
    methods.append(_Method("__eq__(self, o)", equal, uses))
    return tuple(methods)


_METHODS = _methods()
_SETUP = """\
import contextlib, copy, itertools, math, operator, os
def inplace(x, sign, o):
    if sign == '+': x += o
    elif sign == '-': x -= o
    elif sign == '*': x *= o
    elif sign == '//': x //= o
    elif sign == '%': x %= o
    elif sign == '&': x &= o
    elif sign == '|': x |= o
    else: x ^= o
    return x
"""
_ALWAYS = (
    "X.n",
    "X.twice()",
    "type(X).__name__",
    "type(X) is C",
    "isinstance(X, C)",
    "vars(X)",
    "X.prop",
    "C.make(4).n",
)


@dataclass(frozen=True, slots=True)
class Generated:
    """A class and expressions about it.

    Attributes:
        name: Names the seed.
        code: The solution.
        expressions: What checks ask.
    """

    name: str
    code: str
    expressions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A check on which the judge and plain Python disagree."""

    name: str
    check: str
    plain_passes: bool
    code: str

    def __str__(self) -> str:
        return f"{self.name}: plain Python {'passes' if self.plain_passes else 'fails'}: {self.check!r}\n{self.code}"


@dataclass(frozen=True, slots=True)
class GeneratedReport:
    """What came of judging generated classes.

    Attributes:
        checks: How many checks were compared.
        disagreements: Those that were decided differently.
    """

    checks: int
    disagreements: tuple[Disagreement, ...]


def generate(seed: int) -> Generated:
    """A random class, the same for the same seed."""
    rng = random.Random(seed)
    lines = ["class C:", "    def __init__(self, n):", "        self.n = n", "        self.items = [n]"]
    lines += ["    def twice(self):", "        return 2 * self.n", "    @property", "    def prop(self):"]
    lines += ["        return [self.n]", "    @classmethod", "    def make(cls, n):", "        return cls(n)"]
    expressions = list(rng.sample(_ALWAYS, 3))
    for method in rng.sample(_METHODS, rng.randint(2, 7)):
        number = str(rng.randint(1, 9))
        body = re.sub(r"\bN\b", number, re.sub(r"\bV\b", "self.n", rng.choice(method.bodies)))
        lines += [f"    def {method.head}:", f"        {body}"]
        expressions += rng.sample(method.uses, min(len(method.uses), 3))
    numbers = [rng.randint(-4, 9) for _ in range(2)]
    texts = [text.replace("V_", str(numbers[0])) for text in expressions]
    texts = [_with_objects(text, numbers) for text in texts]
    return Generated(f"seed {seed}", "\n".join(lines) + "\n", tuple(dict.fromkeys(texts)))


def _with_objects(text: str, numbers: Sequence[int]) -> str:
    tree = ast.parse(text, mode="eval")

    class Fill(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            if node.id not in ("X", "Y"):
                return node
            return ast.parse(f"C({numbers[node.id == 'Y']})", mode="eval").body

    return ast.unparse(ast.fix_missing_locations(Fill().visit(tree)))


def compare_generated(seeds: Sequence[int], job: Job, concurrency: int = 4) -> GeneratedReport:
    """Judges the checks of generated classes in both ways."""
    made = [generate(seed) for seed in seeds]
    # A check that no class can fail is refused by `Problem`, and shows nothing.
    decided = [
        [(check, passes) for check, passes in checks if complaint(ast.parse(check).body) is None]
        for checks in _in_plain_python(made, job)
    ]
    problems, completions = {}, []
    for one, checks in zip(made, decided, strict=True):
        problems[one.name] = Problem(one.name, "", setup=_SETUP, tests=tuple(check for check, _ in checks))
        completions.append(Completion(one.name, one.name, code=one.code))
    options = ScoreOptions(limits=_LIMITS, concurrency=concurrency, caching=False)
    results = {result.id: result for result in score(completions, problems, job=job, options=options).results}
    found = [
        Disagreement(one.name, check, passes, one.code)
        for one, checks in zip(made, decided, strict=True)
        for (check, passes), verdict in zip(checks, results[one.name].checks or [None] * len(checks), strict=True)
        if verdict is None or (verdict.status is CheckStatus.PASSED) != passes
    ]
    return GeneratedReport(sum(map(len, decided)), tuple(found))


def _in_plain_python(made: Sequence[Generated], job: Job) -> list[list[tuple[str, bool]]]:
    request = json.dumps([{"code": one.code, "setup": _SETUP, "expressions": one.expressions} for one in made])
    command = Command(("python", "-I", "-c", _PROGRAM), stdin=request.encode(), timeout_seconds=_SECONDS + len(made))
    launch = job.launch(command)
    while launch not in job.wait_any():
        pass
    outcome = job.collect(launch)
    assert outcome.exit_code == 0, outcome
    return [[(check, passes) for check, passes in checks] for checks in json.loads(outcome.stdout)]
