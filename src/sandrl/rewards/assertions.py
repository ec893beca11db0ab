"""Names both sides of the comparisons in a problem's asserts, so that a failed check can show what it compared.

`assert f(1) == 2` becomes `assert (_side_… :=(f(1))) == (_side_… :=(2))`. Each side is evaluated once, where and when
it was before, and the line numbers stay the same. `; _side_… = '_side_'` after the assert releases both values, so
objects live no longer than before, and many asserts take no more memory than one. An assert is left unchanged if the
names could change its meaning: in a loop of two comparisons, the name of the second one might hold the value of an
earlier round; a check that looks at its own names or at the lifetime of objects might find them; and in the body of a
class, names would become attributes of the class.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from sandrl.rewards.guest.sides import MARK, MARKED, RELEASED
from sandrl.syntax import parse

# Texts with these words look at their own names, or at the lifetime or the number of objects.
_LEFT_ALONE = re.compile(
    r"\b(?:locals|globals|vars|dir|inspect|weakref|gc|getrefcount|del|settrace|id|yield|tracemalloc|f_locals|_getframe)\b"
)
_OPERATORS: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Is: "is",
    ast.IsNot: "isnot",
    ast.In: "in",
    ast.NotIn: "notin",
}
_SYMMETRIC = frozenset({"eq", "ne", "is", "isnot"})
# Functions whose first two arguments are compared.
_COMPARING = frozenset(
    {"isclose", "allclose", "array_equal", "assert_allclose", "assert_array_equal", "assert_almost_equal"}
)
_METHODS = {
    "assertEqual": "eq",
    "assertEquals": "eq",
    "assertAlmostEqual": "eq",
    "assertListEqual": "eq",
    "assertDictEqual": "eq",
    "assertTupleEqual": "eq",
    "assertSetEqual": "eq",
    "assertSequenceEqual": "eq",
    "assertMultiLineEqual": "eq",
    "assertCountEqual": "eq",
    "assertNotEqual": "ne",
    "assertIs": "is",
    "assertIsNot": "isnot",
    "assertIn": "in",
    "assertNotIn": "notin",
    "assertLess": "lt",
    "assertLessEqual": "le",
    "assertGreater": "gt",
    "assertGreaterEqual": "ge",
}
# Larger ones are suites of many asserts, made by programs.
_LONGEST_TEST_CHARACTERS = 100_000
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_COMPREHENSIONS = (ast.GeneratorExp, ast.ListComp)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass(frozen=True, slots=True)
class _Pair:
    """A comparison whose sides get names.

    Attributes:
        got: The side that the completion decides, as far as the source says.
        expected: The other side; None if there is none.
        operator: Its name.
    """

    got: ast.expr
    expected: ast.expr | None
    operator: str


def marked_tests(tests: tuple[str, ...]) -> list[str]:
    """Tests with names for the sides of their asserts.

    Args:
        tests: Texts of Python; one that is no Python stays as it is.
    """
    return [_marked(test) for test in tests]


@lru_cache(maxsize=1024)
def _marked(test: str) -> str:
    if len(test) > _LONGEST_TEST_CHARACTERS or "assert" not in test:
        return test
    if MARK in test or "\f" in test or _LEFT_ALONE.search(test):
        return test
    try:
        marked = _inserted(test, _insertions(parse(test)))
        if marked != test:
            # The compiler has limits, such as 200 parentheses.
            parse(marked)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return test
    return marked


def _insertions(tree: ast.Module) -> list[tuple[int, int, str]]:
    found: list[tuple[int, int, str]] = []
    numbers: dict[tuple[int, int], int] = {}
    for statement, pairs in _asserts(tree, is_repeated=False, is_class=False):
        lines = statement.lineno, statement.end_lineno or statement.lineno
        around: list[tuple[int, int, str]] = []
        names = []
        for pair in pairs:
            number = numbers[lines] = numbers.get(lines, -1) + 1
            name = f"{MARK}{lines[0]}_{lines[1]}_{number}_{pair.operator}_"
            for side, node in (("g", pair.got), ("e", pair.expected)):
                if node is not None:
                    names.append(f"{name}{side}")
                    around += _around(node, f"({name}{side}{MARKED}")
        if names:
            # First of those at its place, so it is behind them.
            release = "; " + "".join(name + RELEASED for name in names) + f"'{MARK}'"
            found.append((lines[1], statement.end_col_offset or 0, release))
            found += around
    return found


def _around(node: ast.expr, begin: str) -> list[tuple[int, int, str]]:
    assert node.end_lineno is not None, "parsed from text"
    assert node.end_col_offset is not None, "parsed from text"
    return [(node.lineno, node.col_offset, begin), (node.end_lineno, node.end_col_offset, "))")]


def _inserted(text: str, insertions: list[tuple[int, int, str]]) -> str:
    """A text with others inserted; offsets count bytes of UTF-8, as those of syntax trees do."""
    # As the tokenizer does, which knows no other ends of lines.
    lines = [line.encode("utf-8") for line in re.split(r"(?<=\n)|(?<=\r)(?!\n)", text)]
    for line, column, inserted in sorted(insertions, key=lambda each: each[:2], reverse=True):
        whole = lines[line - 1]
        lines[line - 1] = whole[:column] + inserted.encode() + whole[column:]
    return b"".join(lines).decode("utf-8")


def _asserts(node: ast.AST, *, is_repeated: bool, is_class: bool) -> Iterator[tuple[ast.stmt, list[_Pair]]]:
    """The asserts below a node, with the comparisons in each.

    Args:
        node: A statement or a whole tree.
        is_repeated: Whether it runs more than once.
        is_class: Whether it is in the body of a class.
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Assert | ast.Expr):
            if is_class:
                continue
            if isinstance(child, ast.Assert):
                yield child, _pairs_of(child.test, is_repeated=is_repeated)
            else:
                yield child, _pairs_of_call(child.value)
        elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            # A function's names are new in each call.
            repeats = isinstance(child, _LOOPS) or (is_repeated and not isinstance(child, _SCOPES))
            yield from _asserts(
                child,
                is_repeated=repeats,
                is_class=isinstance(child, ast.ClassDef) or (is_class and not isinstance(child, _SCOPES)),
            )


def _pairs_of(test: ast.expr, *, is_repeated: bool) -> list[_Pair]:
    match test:
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            return [_pair(left, right, _OPERATORS[type(operator)])]
        case ast.BoolOp(op=ast.And(), values=values) if not is_repeated:
            found = [_pairs_of(value, is_repeated=True) for value in values]
            # A part without names would leave those of the part before it, which was true.
            return [pair for pairs in found for pair in pairs] if all(found) else []
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return [] if _is_bool_of(operand) else [_Pair(operand, None, "eq")]
        case ast.Call(func=ast.Name(id="all"), args=[ast.GeneratorExp() | ast.ListComp() as each], keywords=[]):
            # A list is made as a whole: its last round is not the one that failed.
            if not isinstance(each, ast.GeneratorExp) or any(part.is_async for part in each.generators):
                return []
            return _pairs_of(each.elt, is_repeated=True) if not _has_scope(each.elt) else []
        case ast.Call():
            return _pairs_of_call(test) or [_Pair(test, None, "eq")]
        case _:
            return []


def _pairs_of_call(call: ast.expr) -> list[_Pair]:
    """The comparison that a call makes, of a method of `unittest` or a function of a library of numbers."""
    match call:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[left, right, *_]):
            if isinstance(left, ast.Starred) or isinstance(right, ast.Starred):
                return []
            operator = _METHODS.get(name, "eq" if name in _COMPARING else None)
            return [] if operator is None else [_pair(left, right, operator)]
        case _:
            return []


def _pair(left: ast.expr, right: ast.expr, operator: str) -> _Pair:
    if operator in _SYMMETRIC and not _calls(left) and _calls(right):
        return _Pair(right, left, operator)
    return _Pair(left, right, operator)


def _calls(node: ast.expr) -> bool:
    return any(isinstance(each, ast.Call | ast.Name | ast.Attribute | ast.Subscript) for each in ast.walk(node))


def _has_scope(node: ast.expr) -> bool:
    return any(isinstance(each, (*_SCOPES, *_COMPREHENSIONS, ast.SetComp, ast.DictComp)) for each in ast.walk(node))


def _is_bool_of(node: ast.expr) -> bool:
    """Whether a value says nothing but true: the source says what it was."""
    return isinstance(node, ast.Compare | ast.BoolOp)
