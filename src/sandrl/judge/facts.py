"""Determines from the source of a problem's checks what the judge needs before anything runs.

Setup and tests are parsed once, with their scopes, into one record, `CheckFacts`: the names that each text can mean,
also through the functions that it defines, and the names that it binds; which names are classes of the completion;
whether a check runs an answer as code; and whether the checks do something that only means the same in one process.
Source that a completion cannot influence is the only source of this. Of a text that cannot be parsed, nothing is known,
and no name in it means anything of the completion's.
"""

# ruff: noqa: SIM905

from __future__ import annotations

import ast
import builtins
import re
import symtable
import sys
from collections.abc import Sequence, Set
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sandrl.answers.reference import names_under_test, reference_of
from sandrl.judge.patches import changes_of, words_of_import
from sandrl.problems import Problem
from sandrl.problems.calls import function_of
from sandrl.syntax import Syntax, compiling, syntax_of, written

# What a check may use that acts on its own process, and so misses the completion's: modules that replace functions,
# record warnings and logs, start threads, or look into functions and classes instead of calling them; and names, which
# count as attributes of a module, too.
_MODULES = frozenset(
    "mock inspect gc weakref threading multiprocessing warnings logging signal tracemalloc contextvars locale traceback"
    " linecache atexit ctypes dataclasses dis faulthandler resource symtable".split()
)
_NAMES = frozenset(
    "patch monkeypatch capsys capfd caplog seed getstate setstate settrace setprofile globals locals vars id super"
    " environ putenv chdir getcwd argv setrecursionlimit getrecursionlimit getrefcount asdict astuple fields"
    " is_dataclass get_type_hints Thread ThreadPoolExecutor ProcessPoolExecutor Queue Event Condition Semaphore Future"
    " TaskGroup ContextVar SimpleNamespace".split()
)
# Of these, what is carried to the completion's process.
_CARRIED = frozenset(
    "mock patch monkeypatch capsys capfd warnings locale seed getstate setstate environ chdir getcwd argv"
    " setrecursionlimit getrecursionlimit assertWarns assertWarnsRegex".split()
)
# Methods of `TestCase` that record what happens in their process.
_METHODS = frozenset("assertLogs assertNoLogs assertWarns assertWarnsRegex".split())
# What makes code of a text or of bytes, as functions and as modules: an answer that runs so would run in the judge.
_CODE_RUNNERS = frozenset("eval exec __import__ system popen spawn".split())
_CODE_LOADERS = frozenset("pickle marshal shelve importlib runpy subprocess".split())

# Functions that are asked about objects, and seldom about plain values.
_OF_OBJECTS = frozenset("repr hash isinstance type dir iter next hasattr getattr setattr copy deepcopy".split())


# What a check makes of the difference of two numbers.
_OF_DIFFERENCES = frozenset(("abs", "round", "float"))


_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class TextFacts:
    """What is known of the setup or of one test.

    Attributes:
        means: The global names that it may mean.
        kept: Those of them that its functions and classes mean, which may run in any later check.
        binds: The global names that it binds.
        modules: Those of `means` that it uses for nothing but their attributes, as a module is used.
        imports: The modules that it imports.
        defines: Whether it defines functions or classes.
        spares: Whether a `with` block in it contains asserts: a context that ends an exception would leave these out.
    """

    means: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()
    binds: frozenset[str] = frozenset()
    modules: frozenset[str] = frozenset()
    imports: frozenset[str] = frozenset()
    defines: bool = False
    spares: bool = False

    def request(self) -> dict[str, Any]:
        names = {name: sorted(getattr(self, name)) for name in ("means", "kept", "binds", "modules", "imports")}
        return {**names, "defines": self.defines, "spares": self.spares}


@dataclass(frozen=True, slots=True)
class CheckFacts:
    """What is known of the checks of a problem.

    Attributes:
        texts: Of the setup, then of each test.
        runs_answers: Whether a check may run an answer as code.
        needs_one_process: Whether a check does something that may mean another thing when the completion is in another
            process.
        own: Names that mean exception classes which no completion can define.
        classes: The names that checks use as classes of the completion.
        comparable: Those whose own `==` and `<` may compare objects that a check makes with plain values.
        mentions: The words of all texts, in names and in texts, if checks use mocks; else None.
    """

    texts: tuple[TextFacts, ...]
    runs_answers: bool
    needs_one_process: bool
    own: frozenset[str]
    classes: frozenset[str]
    comparable: frozenset[str]
    mentions: frozenset[str] | None

    def request(self) -> dict[str, Any]:
        return {
            "texts": [text.request() for text in self.texts],
            "runs_answers": self.runs_answers,
            "classes": sorted(self.classes),
            "comparable": sorted(self.comparable),
            "mentions": None if self.mentions is None else sorted(self.mentions),
        }


@lru_cache(maxsize=4096)
def facts_of(problem: Problem) -> CheckFacts:
    texts, read = (problem.setup, *problem.tests), _syntax_of_checks(problem)
    under_test = names_under_test(problem)
    return CheckFacts(
        texts=tuple(map(_facts_of_text, texts, read)) if problem.fn is None else (_facts_of_call(problem.fn),),
        runs_answers=any(_runs_code(each, under_test) for each in read),
        needs_one_process=_needs_one_process(problem, read),
        own=_own_names(read) - under_test,
        classes=class_names(problem),
        comparable=comparable_names(problem),
        mentions=frozenset(_WORD.findall(" ".join(texts))) if "mock" in changes_of(problem).kinds else None,
    )


def _facts_of_call(function: str) -> TextFacts:
    return TextFacts(means=frozenset(function_of(function)))


def _facts_of_text(text: str, syntax: Syntax) -> TextFacts:
    if syntax.tree is None:
        return TextFacts()  # not Python
    names = syntax.of(ast.Name)
    if all(issubclass(kind, _WITHOUT_SCOPES) for kind in syntax.nodes):
        means, kept = frozenset(node.id for node in names), frozenset[str]()
        binds = frozenset(node.id for node in names if not isinstance(node.ctx, ast.Load))
    else:
        if sys.version_info >= (3, 12) and any(kind in syntax.nodes for kind in _COMPREHENSIONS):
            text = written(_WithScopes().visit(deepcopy(syntax.tree)))
        means, kept, binds = _symbols_of(text)
    bases = {id(node.value) for node in syntax.of(ast.Attribute)}
    return TextFacts(
        means=means,
        kept=kept,
        binds=binds,
        modules=frozenset(node.id for node in names if id(node) in bases)
        - {node.id for node in names if id(node) not in bases},
        imports=frozenset().union(*map(words_of_import, syntax.imports)),
        defines=any(kind in syntax.nodes for kind in _SCOPES),
        spares=any(
            isinstance(inner, ast.Assert)
            for node in (*syntax.of(ast.With), *syntax.of(ast.AsyncWith))
            for inner in ast.walk(node)
        ),
    )


def _symbols_of(text: str) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    # The global names that a text may mean, those of them that its functions and classes mean, and those that it binds.
    with compiling():
        top = symtable.symtable(text, "<check>", "exec")
    scopes = [*top.get_children()]
    for scope in scopes:
        scopes += scope.get_children()
    of_scopes = [symbol for scope in scopes for symbol in scope.get_symbols() if symbol.is_global()]
    symbols = [*top.get_symbols(), *of_scopes]
    bound = [symbol for symbol in symbols if symbol.is_assigned() or symbol.is_imported()]
    means, kept, binds = (frozenset(each.get_name() for each in found) for found in (symbols, of_scopes, bound))
    return means, kept, binds


class _WithScopes(ast.NodeTransformer):
    # From Python 3.12 on, of comprehensions only generators have a scope of their own.
    def visit_ListComp(self, node: ast.ListComp | ast.SetComp) -> ast.AST:
        self.generic_visit(node)
        return ast.GeneratorExp(node.elt, node.generators)

    visit_SetComp = visit_ListComp  # noqa: N815

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        self.generic_visit(node)
        return ast.GeneratorExp(ast.Tuple([node.key, node.value], ast.Load()), node.generators)


def _own_names(read: Sequence[Syntax]) -> frozenset[str]:
    # Names that mean the interpreter's own exceptions, or what a check imports, and that nothing binds otherwise.
    bound: set[str] = set()
    for syntax in read:
        bound |= {node.id for node in syntax.of(ast.Name) if not isinstance(node.ctx, ast.Load)}
        bound |= {node.arg for node in syntax.of(ast.arg)}
        for kind, nodes in syntax.nodes.items():
            if "name" in kind._fields and kind is not ast.alias:
                # Functions, classes, handlers and patterns.
                bound |= {getattr(node, "name", None) or "" for node in nodes}
    return frozenset((_names_of_imports(read) | _EXCEPTIONS) - bound)


_EXCEPTIONS = frozenset(
    name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)
)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


# What makes no scope, and binds a name only where the name is stored.
_WITHOUT_SCOPES = (
    *(ast.Module, ast.Assert, ast.Expr, ast.Assign, ast.Call, ast.keyword, ast.Name, ast.Constant, ast.Attribute),
    *(
        ast.Subscript,
        ast.Slice,
        ast.Starred,
        ast.List,
        ast.Tuple,
        ast.Dict,
        ast.Set,
        ast.Compare,
        ast.BoolOp,
        ast.BinOp,
    ),
    *(ast.UnaryOp, ast.IfExp, ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
)


def _runs_code(syntax: Syntax, under_test: Set[str]) -> bool:
    words = _words(syntax)
    if not words.isdisjoint(_CODE_LOADERS) or not (words - under_test).isdisjoint(_CODE_RUNNERS):
        return True
    looks = (node for node in syntax.of(ast.Call) if isinstance(node.func, ast.Name) and node.func.id == "getattr")
    given = (each for node in looks for each in node.args[1:2])
    return any(isinstance(each, ast.Constant) and each.value in _CODE_RUNNERS for each in given)


def _needs_one_process(problem: Problem, read: Sequence[Syntax]) -> bool:
    # Such a check is tried apart from the completion all the same; a completion that fails it there is judged again in
    # one process with the check. Coroutines count only where nothing catches: in one process, a completion may catch
    # what a check raises.
    changes = changes_of(problem)
    reasons = _MODULES | _METHODS | _NAMES | _CODE_RUNNERS | _CODE_LOADERS
    if not changes.obstacle and not changes.looks:
        reasons -= _CARRIED
    if not all(_words(syntax).isdisjoint(reasons) for syntax in read):
        return True
    kinds = {kind for syntax in read for kind in syntax.nodes}
    if ast.AsyncFunctionDef in kinds and kinds.isdisjoint((ast.Try, ast.TryStar, ast.With, ast.AsyncWith)):
        return True
    if ast.ClassDef not in kinds:
        return False
    bound = {node.id for syntax in read for node in syntax.of(ast.Name) if not isinstance(node.ctx, ast.Load)}
    for syntax in read:
        for kind in (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef):
            bound |= {str(getattr(node, "name", "")) for node in syntax.of(kind)}
    known = bound | _names_of_imports(read) | vars(builtins).keys()
    return not all(_names_of_class(node) <= known for syntax in read for node in syntax.of(ast.ClassDef))


def _names_of_imports(read: Sequence[Syntax]) -> set[str]:
    imports = [node for syntax in read for node in syntax.imports]
    return {(alias.asname or alias.name).partition(".")[0] for node in imports for alias in node.names}


def _names_of_class(node: ast.ClassDef) -> set[str]:
    # The names that make a class: bases, decorators, and what its body evaluates outside of its functions.
    parts: list[ast.AST] = [*node.bases, *node.keywords, *node.decorator_list]
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            parts += statement.decorator_list
        else:
            parts.append(statement)
    own = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)}
    own |= {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
    return {each.id for part in parts for each in ast.walk(part) if isinstance(each, ast.Name)} - own


def _words(syntax: Syntax) -> set[str]:
    words = {node.id for node in syntax.of(ast.Name)}
    for node in syntax.of(ast.Attribute):
        # `user.id` is an attribute of an object, `random.seed` one of a module.
        is_of_module = isinstance(node.value, ast.Name) and node.value.id in sys.stdlib_module_names
        if is_of_module or node.attr in _MODULES or node.attr in _METHODS:
            words.add(node.attr)
    return words.union(*map(words_of_import, syntax.imports))


@lru_cache(maxsize=4096)
def class_names(problem: Problem) -> frozenset[str]:
    """The names that checks use as classes of the completion.

    With a reference, these are its classes. Without one, a name counts that looks like a class; a name of capital
    letters only, which may be a function's, counts if it is also used like a class.
    """
    if problem.fn is not None:
        return frozenset({function_of(problem.fn)[0]})
    reference = reference_of(problem)
    if reference is not None:
        return reference.classes | {name for name in reference.names if _looks_like_class(name)}
    named = {node.id for syntax in _syntax_of_checks(problem) for node in syntax.of(ast.Name)}
    return frozenset(
        name for name in named if _looks_like_class(name) or (name[:1].isupper() and name in comparable_names(problem))
    )


@lru_cache(maxsize=4096)
def comparable_names(problem: Problem) -> frozenset[str]:
    """The classes whose own `==` and `<` may compare objects that a check makes with plain values.

    A completion's word does not count: it could define a class in the place of a function, and let its objects equal
    anything. So the problem must show that it means a class: its prompt declares the name, the checks use the name
    without calling it, take attributes of what is no module and no literal, or never compare what the call returns with
    a literal.
    """
    if problem.fn is not None:
        return frozenset()  # what a call returns is compared with plain values only
    if reference_of(problem) is not None:
        return class_names(problem)
    read = _syntax_of_checks(problem)
    named = {node.id for syntax in read for node in syntax.of(ast.Name) if node.id[:1].isupper()}
    return frozenset(name for name in named if _is_declared(name, problem) or _is_used_as_class(name, read))


def _looks_like_class(name: str) -> bool:
    return name[:1].isupper() and name[1:2].islower()


def _is_declared(name: str, problem: Problem) -> bool:
    return re.search(rf"\bclass(?:es)?[\s`*]+{re.escape(name)}\b", problem.prompt) is not None


def _is_used_as_class(name: str, read: Sequence[Syntax]) -> bool:
    modules = sys.stdlib_module_names | _names_of_imports(read)
    nodes = [node for syntax in read for found in syntax.nodes.values() for node in found]
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    is_compared = False
    for node in nodes:
        if isinstance(node, ast.Attribute) and not (_is_literal(node.value) or _is_name(node.value, modules)):
            return True
        if (_is_name(node, {name}) and id(node) not in called) or _is_of_objects(node, name):
            return True
        if isinstance(node, ast.Compare) and not isinstance(node.ops[0], ast.In | ast.NotIn):
            sides = [node.left, *node.comparators]
            is_compared |= any(_is_made_of(side, name) for side in sides) and any(map(_is_literal, sides))
    return not is_compared


def _is_of_objects(node: ast.AST, name: str) -> bool:
    # Whether a node does with what a name's call returns what is done with objects: relates two, or looks into one.
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in _OF_OBJECTS and _is_any_call(node.args, name)
    if isinstance(node, ast.Compare):
        return _is_call(node.left, name) and _is_any_call(node.comparators, name)
    if isinstance(node, ast.BinOp):
        return _is_call(node.left, name) and _is_call(node.right, name)
    if isinstance(node, ast.Dict):
        return _is_any_call([key for key in node.keys if key is not None], name)
    return isinstance(node, ast.Set) and _is_any_call(node.elts, name)


def _is_any_call(nodes: list[ast.expr], name: str) -> bool:
    return any(_is_call(node, name) for node in nodes)


def _is_made_of(node: ast.AST, name: str) -> bool:
    # Whether a value is that of a name's call, or its difference from another one, as of two numbers.
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _OF_DIFFERENCES:
        return any(isinstance(argument, ast.BinOp) and _is_made_of(argument, name) for argument in node.args)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        return any(_is_call(side, name) and not _is_any_call([other], name) for side, other in _both_ways(node))
    return _is_call(node, name)


def _both_ways(node: ast.BinOp) -> tuple[tuple[ast.expr, ast.expr], ...]:
    return (node.left, node.right), (node.right, node.left)


def _is_call(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and _is_name(node.func, {name})


def _is_name(node: ast.AST, names: Set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _is_literal(node: ast.AST) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _is_literal(node.operand)
    return isinstance(node, ast.Constant | ast.JoinedStr | ast.List | ast.Tuple | ast.Dict | ast.Set)


def _syntax_of_checks(problem: Problem) -> list[Syntax]:
    return [syntax_of(text) for text in (problem.setup, *problem.tests)]
