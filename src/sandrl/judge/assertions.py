"""Rewrites a problem's checks so that the judge sees what an assert compared, and what became of a failed one.

Two things are inserted. The first is a name for both sides of each comparison, so that a failed check can show them.

`assert f(1) == 2` becomes `assert (_side_… :=(f(1))) == (_side_… :=(2))`. Each side is evaluated once, where and when
it was before, and the line numbers stay the same. `; _side_… = '_side_'` after the assert releases both values, so
objects live no longer than before, and many asserts take no more memory than one. An assert is left unchanged if the
names could change its meaning: in a loop of two comparisons, the name of the second one might hold the value of an
earlier round; a check that looks at its own names or at the lifetime of objects might find them; and in the body of a
class, names would become attributes of the class.

The second is for the judge in a process of its own, and costs nothing while asserts pass. An assert in a function, a
class, a `try` or a `with`, where something might catch its failure, reports to the judge that it fails. Each handler
reports what it is about to catch, and whether its classes are named by words that no completion can define. So the
judge detects if the failure of an assert was caught by something else (`client.py`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from sandrl.judge.guest.sides import CAUGHT, FAILS, MARK, MARKED, RAISED, RELEASED
from sandrl.syntax import parse, syntax_of

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
    f"assert{name}": operator
    for operator, names in {
        "eq": "Equal Equals AlmostEqual ListEqual DictEqual TupleEqual SetEqual"
        " SequenceEqual MultiLineEqual CountEqual",
        "ne": "NotEqual",
        "is": "Is",
        "isnot": "IsNot",
        "in": "In",
        "notin": "NotIn",
        "lt": "Less",
        "le": "LessEqual",
        "gt": "Greater",
        "ge": "GreaterEqual",
    }.items()
    for name in names.split()
}
# Larger ones are suites of many asserts, made by programs.
_LONGEST_TEST_CHARACTERS = 100_000
_SHORT_CHARACTERS, _FEW_BRACKETS = 1_000, 100
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_COMPREHENSIONS = (ast.GeneratorExp, ast.ListComp)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass(frozen=True, slots=True)
class _Pair:
    # The side that the completion decides, as far as the source says, and the other one.
    got: ast.expr
    expected: ast.expr | None
    operator: str


@lru_cache(maxsize=4096)
def marked(test: str, own: frozenset[str] | None = None, *, names_sides: bool = True) -> str:
    """A text with names for the sides of its asserts; as it is if it is no Python.

    Args:
        own: Names that mean exception classes which no completion can define: then the text also tells the judge of
            asserts that fail, and of what catches them.
    """
    names_sides = names_sides and len(test) <= _LONGEST_TEST_CHARACTERS and "assert" in test
    names_sides = names_sides and MARK not in test and "\f" not in test and _LEFT_ALONE.search(test) is None
    if own is None and not names_sides:
        return test
    tree = syntax_of(test).tree
    if tree is None:
        return test
    try:
        sides = _insertions(tree) if names_sides else ([], [])
        watches = [] if own is None else list(_watches(tree, own, is_top=True, may_catch=False))
        changed = _inserted(test, [*sides[0], *watches, *sides[1]])
        if changed != test and not _is_short(test, tree):
            # The compiler has limits, such as 200 parentheses.
            parse(changed)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return marked(test, own, names_sides=False) if names_sides and own is not None else test
    return changed


def _is_short(test: str, tree: ast.Module) -> bool:
    # A single assert with few brackets and operators, far from every limit of the compiler.
    is_assert = len(tree.body) == 1 and isinstance(tree.body[0], ast.Assert)
    return is_assert and len(test) <= _SHORT_CHARACTERS and sum(map(test.count, "([{")) <= _FEW_BRACKETS


def _watches(node: ast.AST, own: frozenset[str], *, is_top: bool, may_catch: bool) -> Iterator[tuple[int, int, str]]:
    # `own` names exception classes that no completion can define; nothing around a node at the top can catch what it
    # raises, and what is in a `try` with a handler of a class that a completion may define may be caught.
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Assert) and not is_top:
            if child.msg is None:
                yield child.end_lineno or 0, child.end_col_offset or 0, f", {FAILS}()"
            else:
                yield from _around(child.msg, f" {FAILS}(", ")")
        elif isinstance(child, ast.Raise) and child.exc is not None and not is_top:
            raised = child.exc.func if isinstance(child.exc, ast.Call) else child.exc
            if may_catch or (isinstance(raised, ast.Name) and raised.id in own and raised.id == "AssertionError"):
                yield from _around(child.exc, f" {RAISED}(", ")")
        elif isinstance(child, ast.ExceptHandler):
            begin = f" {CAUGHT}({child.type is None or _is_own(child.type, own)}, "
            if child.type is None:
                yield child.lineno, child.col_offset + len("except"), begin + "BaseException)"
            else:
                yield from _around(child.type, begin, ")")
        if isinstance(child, ast.Try | ast.TryStar):
            catches = any(each.type is not None and not _is_own(each.type, own) for each in child.handlers)
            for part in child.body:
                body = ast.Module([part], [])
                yield from _watches(body, own, is_top=False, may_catch=may_catch or catches)
            others = ast.Module([*child.handlers, *child.orelse, *child.finalbody], [])  # type: ignore[list-item]
            yield from _watches(others, own, is_top=is_top, may_catch=may_catch)
        elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            opens = isinstance(child, (*_SCOPES, ast.With, ast.AsyncWith))
            yield from _watches(
                child, own, is_top=is_top and not opens, may_catch=may_catch and not isinstance(child, _SCOPES)
            )


def _is_own(kinds: ast.expr, own: frozenset[str]) -> bool:
    if isinstance(kinds, ast.Tuple):
        return all(_is_own(each, own) for each in kinds.elts)
    while isinstance(kinds, ast.Attribute):
        kinds = kinds.value
    return isinstance(kinds, ast.Name) and kinds.id in own


def _insertions(tree: ast.Module) -> tuple[list[tuple[int, int, str]], list[tuple[int, int, str]]]:
    releases: list[tuple[int, int, str]] = []
    found: list[tuple[int, int, str]] = []
    numbers: dict[tuple[int, int], int] = {}
    for statement, pairs in _asserts(tree, is_repeated=False, is_class=False):
        lines = statement.lineno, statement.end_lineno or statement.lineno
        names = []
        for pair in pairs:
            number = numbers[lines] = numbers.get(lines, -1) + 1
            name = f"{MARK}{lines[0]}_{lines[1]}_{number}_{pair.operator}_"
            for side, node in (("g", pair.got), ("e", pair.expected)):
                if node is not None:
                    names.append(f"{name}{side}")
                    found += _around(node, f"({name}{side}{MARKED}", "))")
        if names:
            # Of those at its place, the first is behind the others.
            release = "; " + "".join(name + RELEASED for name in names) + f"'{MARK}'"
            releases.append((lines[1], statement.end_col_offset or 0, release))
    return releases, found


def _around(node: ast.expr, begin: str, end: str) -> list[tuple[int, int, str]]:
    assert node.end_lineno is not None, "parsed from text"
    assert node.end_col_offset is not None, "parsed from text"
    return [(node.lineno, node.col_offset, begin), (node.end_lineno, node.end_col_offset, end)]


def _inserted(text: str, insertions: list[tuple[int, int, str]]) -> str:
    # A text with others inserted; offsets count bytes of UTF-8, as those of syntax trees do.
    # As the tokenizer does, which knows no other ends of lines.
    lines = [line.encode("utf-8") for line in re.split(r"(?<=\n)|(?<=\r)(?!\n)", text)]
    for line, column, inserted in sorted(insertions, key=lambda each: each[:2], reverse=True):
        whole = lines[line - 1]
        lines[line - 1] = whole[:column] + inserted.encode() + whole[column:]
    return b"".join(lines).decode("utf-8")


def _asserts(node: ast.AST, *, is_repeated: bool, is_class: bool) -> Iterator[tuple[ast.stmt, list[_Pair]]]:
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
    return isinstance(node, ast.Compare | ast.BoolOp)
