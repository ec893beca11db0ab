"""The code that a problem gives to begin with: a function without its body, or a class without its methods' bodies.

Datasets give it in many ways: the prompt is nothing but code (HumanEval), the prompt quotes it in a fence or between
sentences (LeetCode, LiveCodeBench), or a field of its own has it. A text is treated as code to be continued only if it
parses as Python, with `pass` for the missing body, so prose is never put before an answer.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from sandrl.problems import Problem
from sandrl.rewards.asked import asked_by
from sandrl.rewards.markup import fences
from sandrl.syntax import parse

_MAX_STARTS = 12
_MAX_LENGTH = 20_000
_STEP = "    "
_STARTS = re.compile(r"^(?:import|from|def|class|async[ \t]+def|@\w|[A-Za-z_]\w*[ \t]*=)", re.MULTILINE)
_ENDS = re.compile(r"^(?=[^\s)\]}#@])", re.MULTILINE)
_NAME = re.compile(r"[^\W\d]\w*")

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Starter:
    """Code to begin with.

    Attributes:
        name: The name that it defines at the top level of a module.
        preamble: The code before that definition: imports, helpers, constants.
        method: The method that it leaves open, where it defines a class; None otherwise.
        before_method: The class as far as that method; empty where it defines a function.
        beginning: Preamble and definition up to where a body goes; None if no body is left open.
        indentation: The blanks before each line of that body.
    """

    name: str
    preamble: str
    method: str | None = None
    before_method: str = ""
    beginning: str | None = None
    indentation: str = _STEP


@lru_cache(maxsize=4096)
def starter_of(problem: Problem) -> Starter | None:
    """The code that a problem gives to begin with; None if it gives none."""
    names = _asked_names(problem)
    if not names:
        return None
    for text in _texts(problem, names):
        starter = _read(text, names)
        if starter is not None:
            return starter
    return None


def _asked_names(problem: Problem) -> tuple[str, ...]:
    """The names that a problem asks for: those in its entry point, or the one name that its checks use."""
    if problem.entry_point:
        # `Solution().solve` and `Solution.solve` name a class and its method.
        return tuple(_NAME.findall(problem.entry_point)[:2])
    names = asked_by(problem).names
    return tuple(names) if len(names) == 1 else ()


def _texts(problem: Problem, names: tuple[str, ...]) -> Iterator[str]:
    """Texts that may be the code to begin with, the likeliest first."""
    if problem.starter_code:
        yield problem.starter_code
    prompt = problem.prompt.replace("\r\n", "\n")
    if len(prompt) > _MAX_LENGTH or not any(re.search(rf"\b{re.escape(name)}\b", prompt) for name in names):
        return
    yield prompt
    yield from (block.code for block in reversed(fences(prompt)))
    for start in [found.start() for found in _STARTS.finditer(prompt)][:_MAX_STARTS]:
        text = prompt[start:]
        yield text
        # Sentences may follow the code.
        ends = [found.start() for found in _ENDS.finditer(text) if found.start()]
        yield from (text[:end] for end in reversed(ends[:_MAX_STARTS]))


def _read(text: str, names: tuple[str, ...]) -> Starter | None:
    """What a text begins; None if it is no code, or defines none of the names."""
    code = text.strip("\n").rstrip()
    tree = _tree(code)
    if tree is None:
        return None
    for node in tree.body:
        if isinstance(node, _Function) and node.name == names[0]:
            return _of_function(code, node, is_last=node is tree.body[-1])
        if isinstance(node, ast.ClassDef) and (node.name == names[0] or _method(node, names[0]) is not None):
            method = next((found for name in reversed(names) if (found := _method(node, name)) is not None), None)
            return _of_class(code, node, method, is_last=node is tree.body[-1])
    return None


def _tree(code: str) -> ast.Module | None:
    """The syntax tree of a text, or of the text with a body for what ends with a header."""
    last = code.rpartition("\n")[2]
    indentation = last[: len(last) - len(last.lstrip())]
    deeper = indentation + _STEP if last.rstrip().endswith(":") else indentation or _STEP
    for completed in (code, f"{code}\n{deeper}pass", f"{code}\n{indentation}{_STEP}pass"):
        try:
            return parse(completed)
        except SyntaxError:
            continue
    return None


def _method(node: ast.ClassDef, name: str) -> _Function | None:
    return next((each for each in node.body if isinstance(each, _Function) and each.name == name), None)


def _of_function(code: str, node: _Function, *, is_last: bool) -> Starter:
    preamble = _lines_before(code, node)
    beginning = _beginning(code, node) if is_last else None
    return Starter(node.name, preamble.strip(), beginning=beginning, indentation=_indentation(code, node))


def _of_class(code: str, node: ast.ClassDef, method: _Function | None, *, is_last: bool) -> Starter:
    functions = [each for each in node.body if isinstance(each, _Function)]
    if method is None and len(functions) == 1:
        [method] = functions
    preamble = _lines_before(code, node).strip()
    if method is None:
        return Starter(node.name, preamble)
    beginning = _beginning(code, method) if is_last and method is node.body[-1] else None
    return Starter(
        node.name,
        preamble,
        method=method.name,
        before_method=_lines_before(code, method) if method is node.body[-1] else "",
        beginning=beginning,
        indentation=_indentation(code, method),
    )


def _lines_before(code: str, node: _Function | ast.ClassDef) -> str:
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    return "\n".join(code.split("\n")[: first - 1])


def _indentation(code: str, node: _Function) -> str:
    """The blanks of a function's body: those of its docstring, or four more than the function has."""
    lines = code.split("\n")
    header = lines[node.lineno - 1]
    own = header[: len(header) - len(header.lstrip())]
    first = node.body[0]
    if first.lineno > node.lineno and first.lineno <= len(lines):
        return lines[first.lineno - 1][: first.col_offset]
    return own + _STEP


def _beginning(code: str, node: _Function) -> str | None:
    """The code up to where the body of its last function goes; None if that function has a body of its own."""
    lines = code.split("\n")
    statements = list(node.body)
    kept = statements.pop(0) if _is_docstring(statements[0]) else None
    if not all(map(_is_placeholder, statements)):
        return None
    if not statements or statements[0].lineno > len(lines):
        return code
    first = statements[0]
    line = lines[first.lineno - 1]
    if line[: first.col_offset].strip():
        # `def f(x): pass`, or a docstring and `pass` in one line.
        before = line[: first.col_offset].rstrip().rstrip(";")
        return "\n".join([*lines[: first.lineno - 1], before])
    last = kept.end_lineno or kept.lineno if kept is not None else node.lineno
    return "\n".join([*lines[: max(first.lineno - 1, last)]])


def _is_docstring(statement: ast.stmt) -> bool:
    is_constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_constant and isinstance(statement.value.value, str)  # type: ignore[attr-defined]


def _is_placeholder(statement: ast.stmt) -> bool:
    """Whether a statement only stands for a body that is to be written."""
    match statement:
        case ast.Pass() | ast.Expr(ast.Constant()) | ast.Return(None) | ast.Return(ast.Constant(None)):
            return True
        case ast.Raise(ast.Name("NotImplementedError") | ast.Call(ast.Name("NotImplementedError"))):
            return True
        case _:
            return False
