"""Which checks keep no state: the same judge can judge one completion with them after another.

Such checks import modules that only compute, call functions and methods, and compare. They change nothing that
outlasts them, and need nothing of the sandbox that the completion runs in: no file, process, connection or variable of
the environment. This is a list of what checks may do, not of what they may not; all others have a judge of their own.
"""

# ruff: noqa: SIM905

from __future__ import annotations

import ast
from functools import lru_cache

from sandrl.answers.reference import reference_of
from sandrl.judge.patches import changes_of
from sandrl.problems import Problem
from sandrl.syntax import Syntax, syntax_of

_MODULES = frozenset(
    "bisect cmath collections copy datetime decimal fractions functools heapq itertools json math numbers operator re"
    " statistics string typing __future__".split()
)
# Of builtins: what reads or runs something, or reaches other modules or scopes.
_BUILTINS = frozenset(
    "breakpoint classmethod compile copyright credits delattr dir eval exec exit getattr globals hasattr help id input"
    " license locals memoryview open object print property quit setattr staticmethod super type vars".split()
)
# Of modules: what changes them.
_ATTRIBUTES = frozenset("getcontext setcontext localcontext register purge cache_clear".split())
_NODES = (
    *(ast.Module, ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.alias, ast.keyword),
    *(ast.arguments, ast.arg, ast.comprehension, ast.ExceptHandler, ast.Import, ast.ImportFrom),
    *(ast.Expr, ast.Assert, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.If, ast.For, ast.While, ast.Break),
    *(ast.Continue, ast.Pass, ast.Return, ast.FunctionDef, ast.Lambda, ast.Raise, ast.Try),
    *(ast.BoolOp, ast.NamedExpr, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Dict, ast.Set, ast.List, ast.Tuple),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Compare, ast.Call, ast.JoinedStr),
    *(ast.FormattedValue, ast.Constant, ast.Attribute, ast.Subscript, ast.Starred, ast.Name, ast.Slice),
)
# Of these nodes not only the type decides.
_SEEN: tuple[type[ast.AST], ...] = (ast.Import, ast.ImportFrom, ast.Name, ast.Attribute, ast.FunctionDef, ast.alias)


@lru_cache(maxsize=4096)
def are_pure(problem: Problem) -> bool:
    """Whether the checks of a problem keep no state."""
    if changes_of(problem):
        return False
    read = [syntax_of(text) for text in (problem.setup, *problem.tests) if text.strip()]
    reference = reference_of(problem)
    if reference is not None:
        if reference.classes:
            return False  # the judge may run it
        used = {node.id for each in read for node in each.of(ast.Name)}
        read += [syntax_of(reference.imports[name]) for name in used & reference.imports.keys()]
    return all(map(_are_pure, read))


def _are_pure(syntax: Syntax) -> bool:
    return (
        syntax.tree is not None
        and all(issubclass(kind, _NODES) for kind in syntax.nodes)
        and all(_is_pure(node) for kind in _SEEN for node in syntax.of(kind))
    )


def _is_pure(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return all(name.name.partition(".")[0] in _MODULES for name in names)
        case ast.ImportFrom(module=module, level=level):
            return level == 0 and str(module).partition(".")[0] in _MODULES
        case ast.Name(id=name):
            return name not in _BUILTINS and not name.startswith("__")
        case ast.Attribute(attr=name, ctx=context):
            return isinstance(context, ast.Load) and name not in _ATTRIBUTES and not name.startswith("_")
        case ast.FunctionDef(decorator_list=decorators):
            return not decorators
        case ast.alias():
            return not node.name.startswith("_") and node.name not in _ATTRIBUTES
    return True
