"""Determines what a problem requires of an answer, and which code it gives to begin with.

A problem requires a program, or names that the answer must define. Datasets give a function without its body, or a
class without its methods' bodies, in many ways: as the whole prompt (HumanEval, MultiPL-E), in a fence of the prompt or
between its sentences (LeetCode, LiveCodeBench), or in a field of its own. A text is treated as code to be continued
only if it parses as Python with `pass` for the missing body, or, in another language, if it ends within a definition;
so prose is never put before an answer.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from sandrl.answers.definitions import MAX_LENGTH, read_text
from sandrl.answers.markup import fences
from sandrl.answers.reference import names_under_test
from sandrl.answers.sources import Sources
from sandrl.answers.syntaxes import SYNTAXES, Syntax
from sandrl.problems import EXIT_STATUS, Problem
from sandrl.problems.calls import function_of
from sandrl.problems.languages import find_language
from sandrl.syntax import try_parse

_MAX_TESTS = 10
_MAX_STARTS = 12
_MAX_LENGTH = 20_000
_STEP = "    "
_CALLED = re.compile(r"([^\W\d]\w*)[ \t]*\(")
_STARTS = re.compile(r"^(?:import|from|def|class|async[ \t]+def|@\w|[A-Za-z_]\w*[ \t]*=)", re.MULTILINE)
_ENDS = re.compile(r"^(?=[^\s)\]}#@])", re.MULTILINE)
_NAME = re.compile(r"[^\W\d]\w*")

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Requirement:
    """What code must be to be an answer.

    Attributes:
        names: What its checks use and nothing else defines; empty for a program.
        entry_point: The one of these that the problem names, if it names one.
        is_program: Whether it runs as a program.
        reads: Whether the program is given input.
        prints: Whether the program must print.
    """

    names: frozenset[str] = frozenset()
    entry_point: str | None = None
    is_program: bool = False
    reads: bool = False
    prints: bool = False


@dataclass(frozen=True, slots=True)
class Starter:
    """Code to begin with.

    Attributes:
        name: The name that it defines at its top level.
        preamble: The code before that definition: imports, helpers, constants.
        method: The method that it leaves open, where it defines a class; empty otherwise.
        header: In Python, all of it as far as that method; else the class as far as its brace. Empty for a function.
        beginning: All of it up to where a body goes; None if no body is left open.
        indentation: The blanks before each line of that body, in Python.
    """

    name: str
    preamble: str
    method: str = ""
    header: str = ""
    beginning: str | None = None
    indentation: str = _STEP


@lru_cache(maxsize=128)
def requirement_of(problem: Problem) -> Requirement:
    """What a problem requires, by its entry point, its checks and its reference."""
    if problem.check == EXIT_STATUS and problem.is_python:
        return Requirement(is_program=True)
    if problem.cases or not (problem.is_python or problem.tests):
        reads = any(case.stdin.strip() for case in problem.cases)
        return Requirement(is_program=True, reads=reads, prints=any(case.stdout.strip() for case in problem.cases))
    if not problem.is_python:
        name = required_function(problem)
        return Requirement(_functions_called(problem) if name is None else frozenset({name}), name)
    if problem.fn is not None:
        return Requirement(frozenset(function_of(problem.fn)))
    # `Solution` of `Solution().solve`, as some sets write it.
    found = re.match(r"\s*([^\W\d]\w*)", problem.entry_point or "")
    entry_point = None if found is None else found[1]
    names = _names_used(problem)
    if problem.reference is not None:
        names &= names_under_test(problem)
    return Requirement(names | ({entry_point} if entry_point else frozenset()), entry_point)


def required_function(problem: Problem) -> str | None:
    """The function that a problem in another language than Python requires, if it names one or begins it."""
    if problem.entry_point:
        names = _NAME.findall(problem.entry_point)
        return names[-1] if names else None
    starter = starter_of(problem)
    return None if starter is None else starter.method or starter.name


@lru_cache(maxsize=4096)
def starter_of(problem: Problem) -> Starter | None:
    """The code that a problem gives to begin with; None if it gives none."""
    return next((starter for starter in _starters(problem) if starter is not None), None)


def _starters(problem: Problem) -> Iterator[Starter | None]:
    if not problem.is_python:
        syntax = SYNTAXES[problem.language]
        yield from (_read_definitions(text, syntax) for text in _texts(problem))
        return
    # `Solution().solve` and `Solution.solve` name a class and its method.
    names = tuple(_NAME.findall(problem.entry_point or "")[:2])
    if not problem.entry_point:
        used = requirement_of(problem).names
        names = tuple(used) if len(used) == 1 else ()
    if names:
        yield from (_read(text, names) for text in _texts(problem, names))


def _functions_called(problem: Problem) -> frozenset[str]:
    syntax = SYNTAXES[problem.language]
    called: set[str] = set()
    for test in problem.tests[:_MAX_TESTS]:
        text = read_text(test[:MAX_LENGTH], syntax)
        called |= {found[1] for found in _CALLED.finditer(text.plain)} - {each.name for each in text.definitions}
    return frozenset(called)


def _names_used(problem: Problem) -> frozenset[str]:
    sources = Sources()
    texts = (problem.setup, *problem.tests[:_MAX_TESTS])
    read = [source for text in texts if (source := sources.read(text)) is not None]
    defined = {name for source in read for name in source.binds}
    return frozenset(name for source in read for name in source.needs if name not in defined)


def _texts(problem: Problem, names: tuple[str, ...] = ()) -> Iterator[str]:
    # The likeliest first.
    if problem.starter_code:
        yield problem.starter_code
    prompt = problem.prompt.replace("\r\n", "\n")
    if len(prompt) > _MAX_LENGTH:
        return
    if not problem.is_python:
        blocks = fences(prompt)
        for block in reversed(blocks):
            if find_language(block.language) is None or block.is_in(problem.language):
                yield block.code
        if not blocks:
            yield prompt
    elif any(name in prompt and re.search(rf"\b{re.escape(name)}\b", prompt) for name in names):
        yield prompt
        yield from (block.code for block in reversed(fences(prompt)))
        for start in [found.start() for found in _STARTS.finditer(prompt)][:_MAX_STARTS]:
            text = prompt[start:]
            yield text
            # Sentences may follow the code.
            ends = [found.start() for found in _ENDS.finditer(text) if found.start()]
            yield from (text[:end] for end in reversed(ends[:_MAX_STARTS]))


# In Python


def _read(text: str, names: tuple[str, ...]) -> Starter | None:
    code = text.strip("\n").rstrip()
    tree = _tree(code)
    if tree is None:
        return None
    for node in tree.body:
        is_last = node is tree.body[-1]
        if isinstance(node, _Function) and node.name == names[0]:
            beginning = _beginning(code, node) if is_last else None
            preamble, indentation = _lines_before(code, node).strip(), _indentation(code, node)
            return Starter(node.name, preamble, beginning=beginning, indentation=indentation)
        if isinstance(node, ast.ClassDef) and (node.name == names[0] or _method(node, names[0]) is not None):
            method = next((found for name in reversed(names) if (found := _method(node, name)) is not None), None)
            return _of_class(code, node, method, is_last=is_last)
    return None


def _tree(code: str) -> ast.Module | None:
    # A text that ends with a header gets a body.
    last = code.rpartition("\n")[2]
    indentation = last[: len(last) - len(last.lstrip())]
    deeper = indentation + _STEP if last.rstrip().endswith(":") else indentation or _STEP
    texts = (code, f"{code}\n{deeper}pass", f"{code}\n{indentation}{_STEP}pass")
    return next((tree for text in texts if (tree := try_parse(text)) is not None), None)


def _method(node: ast.ClassDef, name: str) -> _Function | None:
    return next((each for each in node.body if isinstance(each, _Function) and each.name == name), None)


def _of_class(code: str, node: ast.ClassDef, method: _Function | None, *, is_last: bool) -> Starter:
    functions = [each for each in node.body if isinstance(each, _Function)]
    if method is None and len(functions) == 1:
        [method] = functions
    preamble = _lines_before(code, node).strip()
    if method is None:
        return Starter(node.name, preamble)
    is_open = method is node.body[-1]
    return Starter(
        node.name,
        preamble,
        method=method.name,
        header=_lines_before(code, method) if is_open else "",
        beginning=_beginning(code, method) if is_last and is_open else None,
        indentation=_indentation(code, method),
    )


def _lines_before(code: str, node: _Function | ast.ClassDef) -> str:
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    return "\n".join(code.split("\n")[: first - 1])


def _indentation(code: str, node: _Function) -> str:
    lines = code.split("\n")
    first = node.body[0]
    if node.lineno < first.lineno <= len(lines):
        return lines[first.lineno - 1][: first.col_offset]
    header = lines[node.lineno - 1]
    return header[: len(header) - len(header.lstrip())] + _STEP


def _beginning(code: str, node: _Function) -> str | None:
    # None where the function has a body already.
    lines = code.split("\n")
    statements = list(node.body)
    kept = statements.pop(0) if ast.get_docstring(node, clean=False) is not None else None
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
    return "\n".join(lines[: max(first.lineno - 1, last)])


def _is_placeholder(statement: ast.stmt) -> bool:
    match statement:
        case ast.Pass() | ast.Expr(ast.Constant()) | ast.Return(None) | ast.Return(ast.Constant(None)):
            return True
        case ast.Raise(ast.Name("NotImplementedError") | ast.Call(ast.Name("NotImplementedError"))):
            return True
        case _:
            return False


# In other languages


def _read_definitions(code: str, syntax: Syntax) -> Starter | None:
    text = read_text(code, syntax)
    outer = text.definitions[-1] if text.definitions else None
    if outer is None or outer.is_whole:
        return None
    preamble, beginning = code[: outer.start], code if code.endswith("\n") else code + "\n"
    if not outer.is_class:
        return Starter(outer.name, preamble, beginning=beginning)
    inner = next(reversed(text.inner(outer)), None)
    if inner is None or inner.is_whole or inner.is_class:
        return None
    return Starter(outer.name, preamble, inner.name, code[outer.start : outer.inside], beginning)
