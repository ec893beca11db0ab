"""Decides whether a test can fail: a test that cannot fail would reward every answer.

The source decides, before anything runs. A test must assert something, raise something, or call a function that the
problem itself defines, and it must use at least one name that is not Python's own. A text that only looks like a test
(a comparison without `assert`, a tuple, a function that nothing calls) is refused, with the reason.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Sequence

# Some sets ask for functions with names of builtins, so those that compute something may be the completion's.
_COMPUTING = frozenset(
    {"abs", "all", "any", "bin", "divmod", "filter", "hash", "hex", "map", "max", "min", "oct", "pow", "reversed"}
    | {"round", "sorted", "sum", "zip"}
)
_BUILTINS = frozenset(dir(builtins)) - _COMPUTING
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)
_CATCHES_FAILURES = frozenset({"AssertionError", "Exception", "BaseException"})
_SOUNDS_LIKE_CHECK = ("assert", "check", "verify", "raises", "expect", "test")
_RUNS_CODE = frozenset({"exec", "eval", "exit", "quit"})


def can_fail(statements: Sequence[ast.stmt], known: frozenset[str]) -> bool:
    """Whether some statement checks something when it runs; `known` are functions and classes of the problem itself."""
    return any(_checks(statement, known) for statement in _executed(statements))


def calls_something(statements: Sequence[ast.stmt]) -> bool:
    """Whether statements call anything when they run: a call may raise, or take too long."""
    return any(isinstance(node, ast.Call) for statement in _executed(statements) for node in ast.walk(statement))


def complaint(statements: Sequence[ast.stmt]) -> str | None:
    """Why a test is refused that cannot fail, or that throws away what it compares; None if it may stay.

    A test of assignments, imports and definitions alone may stay: the tests after it may use them.
    """
    executed = list(_executed(statements))
    for statement in executed:
        if isinstance(statement, ast.Assert) and (reason := _always_true(statement.test)) is not None:
            return reason
    for statement in _outside_guards(statements):
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Compare | ast.BoolOp | ast.UnaryOp):
            return f"compares values but asserts nothing: write `assert {_short(statement.value)}`"
    if not executed and not any(isinstance(each, (*_DEFINITIONS, *_IMPORTS)) for each in statements):
        return "checks nothing"
    if not executed and all(isinstance(each, _DEFINITIONS) for each in statements if not _is_constant(each)):
        names = ", ".join(each.name for each in statements if isinstance(each, _DEFINITIONS))
        return f"defines {names} and calls nothing: call it, or name it test_…"
    return None


def uses_something(trees: Iterable[ast.AST], own: frozenset[str]) -> bool:
    """Whether tests use a name of `own`, or one that is not Python's nor bound by them: one of the completion."""
    loaded: set[str] = set()
    bound: set[str] = set()
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Raise | ast.Assert) and not any(
                isinstance(each, ast.Name) for each in ast.walk(node)
            ):
                return True  # `assert False` rewards nothing
            if isinstance(node, ast.Name):
                (loaded if isinstance(node.ctx, ast.Load) else bound).add(node.id)
            elif isinstance(node, _DEFINITIONS):
                bound.add(node.name)
            elif isinstance(node, ast.arg):
                bound.add(node.arg)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                # A test that imports the answer's module uses the answer.
                loaded.add("import")
    return bool(loaded - bound - (_BUILTINS - own - _RUNS_CODE)) or bool(loaded & own)


# The statements outside of `try` and `with` blocks: a comparison in such a block may be there to raise.
def _outside_guards(statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in statements:
        yield statement
        if isinstance(statement, ast.If | ast.While | ast.For | ast.AsyncFor):
            yield from _outside_guards([*statement.body, *statement.orelse])


# The statements that run when a test runs, those within blocks included, but no definitions and constants.
def _executed(statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in statements:
        if isinstance(statement, (*_DEFINITIONS, *_IMPORTS, ast.Pass, ast.Global, ast.Nonlocal)):
            continue
        if _is_constant(statement):
            continue
        yield statement
        match statement:
            case ast.If(test=ast.Constant(value=False | 0 | None)):
                yield from _executed(statement.orelse)
            case ast.If() | ast.While() | ast.For() | ast.AsyncFor():
                yield from _executed([*statement.body, *statement.orelse])
            case ast.With() | ast.AsyncWith():
                yield from _executed(statement.body)
            case ast.Try():
                inside = [] if _swallows(statement) else statement.body
                handled = [each for handler in statement.handlers for each in handler.body]
                yield from _executed([*inside, *handled, *statement.orelse, *statement.finalbody])
            case _:
                pass


def _checks(statement: ast.stmt, known: frozenset[str]) -> bool:
    match statement:
        case ast.Assert():
            return _always_true(statement.test) is None
        case ast.Raise():
            return True
        case ast.With() | ast.AsyncWith():
            return any(_is_check_call(item.context_expr, known) for item in statement.items)
        case ast.Expr(value=ast.Await(value=value)) | ast.Expr(value=value):
            return any(_is_check_call(node, known) for node in ast.walk(value))
        case ast.Assign(value=value):
            # `result = run_tests(f)` may raise as well as return.
            return isinstance(value, ast.Call) and _is_check_call(value, known)
        case _:
            return False


# Whether a node calls something that checks: a function of the problem's own, or a method named like an assertion.
def _is_check_call(node: ast.AST, known: frozenset[str]) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if any(
        each.arg == "check" and isinstance(each.value, ast.Constant) and each.value.value is True
        for each in node.keywords
    ):
        return True  # as of `subprocess.run`
    given = [*node.args, *(each.value for each in node.keywords)]
    if any(isinstance(each, ast.Name) and each.id in known for each in given):
        return True  # a function of the test that the completion is to call
    match node.func:
        case ast.Name(id=name):
            return name in known or name in _RUNS_CODE
        case ast.Attribute(attr=name, value=owner):
            root = owner
            while isinstance(root, ast.Attribute | ast.Call):
                root = root.value if isinstance(root, ast.Attribute) else root.func
            is_own = isinstance(root, ast.Name) and root.id in known
            return is_own or name == "exit" or name.lower().startswith(_SOUNDS_LIKE_CHECK)
        case _:
            return False


# Why an asserted expression is true whatever runs; None if it may be false.
def _always_true(test: ast.expr) -> str | None:
    match test:
        case ast.Tuple(elts=[_, *_]):
            return f"asserts a tuple, which is always true: write `assert {_short(test.elts[0])}`"
        case ast.BoolOp(op=ast.Or(), values=values) if any(_always_true(value) for value in values):
            return f"asserts `{_short(test)}`, which is always true"
        case _ if not any(isinstance(node, ast.Name | ast.Call | ast.Attribute) for node in ast.walk(test)):
            try:
                is_true = bool(ast.literal_eval(test))
            except (ValueError, TypeError, MemoryError, RecursionError):
                return f"asserts `{_short(test)}`, in which no name is used"
            return f"asserts `{_short(test)}`, which is always true" if is_true else None
        case _:
            return None


def _swallows(statement: ast.Try) -> bool:
    for handler in statement.handlers:
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        names = {None if kind is None else getattr(kind, "id", "") for kind in kinds}
        if None in names or names & _CATCHES_FAILURES:
            return not any(isinstance(node, ast.Raise | ast.Assert | ast.Call) for node in ast.walk(handler))
    return False


def _is_constant(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _short(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else text[:57] + "…"
