"""Python source that a model wrote: whether it compiles, which names it binds, and which it needs from elsewhere.

The compiler answers all three questions, and nothing is executed. The text is hostile, so the number of characters of
one completion that are compiled is bounded. `text_sources.py` reads other languages.
"""

from __future__ import annotations

import ast
import builtins
import html
import re
import symtable
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from sandrl.problems.languages import PYTHON
from sandrl.syntax import compiling, parse

MAX_CHARACTERS = 40_000
"""How much text is compiled for one completion, all attempts together: about 25 ms of ordinary code."""

MAX_LENGTH = 20_000
"""How long a text may be to be compiled."""

_BUILTINS = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__", "exit", "quit"}
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
_ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign)
_QUIET_CALLS = frozenset({"setrecursionlimit", "stack_size"})
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|#\d{1,5}|#x[0-9a-f]{1,5});", re.IGNORECASE)
# How the first line of a text that is nothing but code may begin.
_CODE_LINE = re.compile(
    r"""[ \t]*(?:[#@]|[rRbBuUfF]{0,2}(?:"|')"""
    r"""|(?:import|from|def|class|async|if|for|while|with|try|assert|global|del)\b"""
    r"""|[^\W\d][\w.]*[ \t]*(?:[=(\[,:]|[-+*/|&^%]=))"""
)

_CODE_BEGINS = re.compile(
    r"^(?:import|from|def|class|async[ \t]+def|@\w+|[^\W\d][\w, \t]*=[^=]|print\("
    r"|(?:for|while|with|if|try)\b.*:[ \t]*$)",
    re.MULTILINE,
)
_UNINDENTED = re.compile(r"^(?=[^\s)\]}#@])", re.MULTILINE)
_MAX_CUTS = 12


@dataclass(frozen=True, slots=True)
class Source:
    """A text that compiles.

    Attributes:
        binds: The names that it binds at the top level of a module.
        needs: The global names that it uses without binding them, or before it binds them; builtins left out.
        acts: Whether it does something when it runs, besides defining and assigning.
        is_open: Whether it also binds names that are not known, by a star import.
        is_setting: Whether it changes a setting of the interpreter, and does nothing else that shows.
        is_expression: Whether it is nothing but expressions without a call, like a quoted output.
    """

    code: str
    binds: frozenset[str]
    needs: frozenset[str]
    acts: bool
    is_open: bool
    is_setting: bool
    is_expression: bool


class Sources:
    """Reads texts as Python, up to a total length of `MAX_CHARACTERS`.

    Attributes:
        language: What it reads them as, by a name of `sandrl.problems.languages`.
        reading: How a program that reads input may do that.
        printing: How a program may print.
    """

    language = PYTHON
    reading = re.compile(r"\b(?:input|stdin|fileinput|open|read|readline|readlines)\b")
    printing = re.compile(r"\b(?:print|write|writelines|stdout|exec\w*|system|run|call)\b")

    def __init__(self) -> None:
        self._left = MAX_CHARACTERS
        self._known: dict[str, Source | None] = {}

    def read(self, code: str) -> Source | None:
        """A text as source; None if it does not compile, is too long, or if too much was compiled before."""
        if code not in self._known:
            if len(code) > min(MAX_LENGTH, self._left):
                return None
            self._left -= len(code)
            self._known[code] = self._source_of(code)
        return self._known[code]

    def compiles(self, code: str) -> bool:
        """Whether a text is known to compile."""
        return self.read(code) is not None

    def shown(self, code: str) -> str:
        """What of code that compiles may be something else than code: nothing."""
        return ""

    def hides(self, code: str, tag: re.Pattern[str]) -> bool:
        """Whether code that compiles has a tag in it, and only in a string or a comment."""
        return tag.search(code) is not None and self.compiles(code) and tag.search(self.shown(code)) is None

    def is_code(self, text: str) -> bool:
        """Whether a text is source, and more than a value."""
        source = self.read(text)
        return source is not None and not source.is_expression

    def is_value(self, text: str) -> bool:
        """Whether a text is source, and no more than a value."""
        return self.compiles(text) and not self.is_code(text)

    def whole(self, text: str) -> str:
        """The code of a text that is nothing but code."""
        return tidy(text)

    def pieces(self, text: str) -> Iterator[str]:
        """The parts of a text that may be code between sentences, the likeliest first."""
        for start in [found.start() for found in _CODE_BEGINS.finditer(text)][:_MAX_CUTS]:
            # With the text, or before one of its last lines without indentation.
            ends = [found.start() for found in _UNINDENTED.finditer(text[start:])][1:]
            for end in [len(text), *(start + end for end in reversed(ends) if end)][:_MAX_CUTS]:
                yield text[start:end].rstrip()

    def begins_like_code(self, text: str) -> bool:
        """Whether the first line of a text looks like code, not like a sentence."""
        return _CODE_LINE.match(text.lstrip("\n")) is not None

    def unescaped(self, code: str) -> str:
        """Code with its HTML entities replaced, if it compiles only so."""
        if _ENTITY.search(code) is None or self.compiles(code):
            return code
        plain = html.unescape(code)
        return plain if self.compiles(plain) else code

    def _source_of(self, code: str) -> Source | None:
        return read_source(code)


def tidy(code: str) -> str:
    """Drops empty lines around the code and the indentation that all of its lines share."""
    return textwrap.dedent(re.sub(r"\A(?:[ \t]*\n)+", "", code)).rstrip()


def refusal(code: str) -> str | None:
    """Why the compiler refuses a text, in one line; None if it compiles."""
    try:
        with compiling():
            compile(code, "<check>", "exec", dont_inherit=True)
    except SyntaxError as error:
        return f"{error.msg} (line {error.lineno})" if error.lineno else error.msg
    return None


def read_source(code: str) -> Source | None:
    """A text as source; None if the compiler refuses it."""
    try:
        with compiling():
            compile(code, "<completion>", "exec", dont_inherit=True)
            tree = parse(code)
            table = symtable.symtable(code, "<completion>", "exec")
            binds, uses = _names(table)
            early = _used_early(tree) & binds if binds & uses else frozenset()
            binds -= _stubs(tree) | _borrowed(tree)
    except SyntaxError:
        return None
    acts = any(map(_acts, tree.body))
    is_expression = all(isinstance(statement, ast.Expr) for statement in tree.body) and not acts
    return Source(
        code=code,
        binds=binds,
        needs=(uses - binds | early) - _BUILTINS,
        acts=acts,
        is_open=any(isinstance(each, ast.ImportFrom) and each.names[0].name == "*" for each in tree.body),
        is_setting=not acts and any(setting in code for setting in _QUIET_CALLS),
        is_expression=is_expression,
    )


def _borrowed(tree: ast.Module) -> frozenset[str]:
    # Names that are imported from a module outside the standard library, as tests of a solution import from it.
    return frozenset(
        alias.asname or alias.name
        for statement in tree.body
        if isinstance(statement, ast.ImportFrom)
        and (statement.level or (statement.module or "").partition(".")[0] not in sys.stdlib_module_names)
        for alias in statement.names
    )


def _names(table: symtable.SymbolTable) -> tuple[frozenset[str], frozenset[str]]:
    binds: set[str] = set()
    uses: set[str] = set()
    for scope in _scopes(table):
        is_module = scope is table
        for symbol in scope.get_symbols():
            if not (is_module or symbol.is_global()):
                continue
            if symbol.is_assigned() or symbol.is_imported() or (is_module and symbol.is_namespace()):
                binds.add(symbol.get_name())
            if symbol.is_referenced():
                uses.add(symbol.get_name())
    return frozenset(binds), frozenset(uses)


def _scopes(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    waiting = [table]
    while waiting:
        scope = waiting.pop()
        yield scope
        waiting += scope.get_children()


def _used_early(tree: ast.Module) -> frozenset[str]:
    # Names that simple statements use before the module binds them, as in `f = cache(f)`.
    bound: set[str] = set()
    early: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for expression in statement.decorator_list:
                early |= _loaded(expression) - bound
            bound.add(statement.name)
        elif isinstance(statement, ast.Expr | ast.Assign | ast.AnnAssign):
            early |= _loaded(statement) - bound
        elif isinstance(statement, ast.AugAssign):
            target = {statement.target.id} if isinstance(statement.target, ast.Name) else set()
            early |= (_loaded(statement) | target) - bound
        bound |= _stored(statement)
        if isinstance(statement, ast.Import | ast.ImportFrom | ast.If | ast.Try):
            bound |= _defined_within(statement)
    return frozenset(early)


def _stubs(tree: ast.Module) -> frozenset[str]:
    # Names of functions that have a signature only, as in a quoted task: a docstring, or `...`.
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    empty = {node.name for node in functions if all(map(_is_constant, node.body))}
    return frozenset(empty - {node.name for node in functions if not all(map(_is_constant, node.body))})


def _is_constant(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _loaded(node: ast.AST) -> set[str]:
    waiting, loaded = [node], set()
    while waiting:
        each = waiting.pop()
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
            loaded.add(each.id)
        if not isinstance(each, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            waiting += ast.iter_child_nodes(each)
    return loaded


def _stored(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def _defined_within(statement: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
    return names


def _acts(statement: ast.stmt) -> bool:
    if isinstance(statement, (*_DEFINITIONS, *_ASSIGNMENTS)):
        return False
    if isinstance(statement, ast.Raise | ast.Assert):
        return True
    calls = [node.func for node in ast.walk(statement) if isinstance(node, ast.Call)]
    return any(getattr(call, "attr", None) not in _QUIET_CALLS for call in calls)
