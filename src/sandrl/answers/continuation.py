"""Joins an answer to the code that its problem gives to begin with (`requirements.py`).

An answer may be the body of a function, a method of a class, or the whole definition. Each is joined so that its
meaning is kept: a body and a method are placed where the problem leaves them open, and a definition gets the imports
and helpers that stand before it. `assembly.py` does the same for languages other than Python.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from sandrl.answers import assembly
from sandrl.answers.requirements import Starter, starter_of
from sandrl.answers.selection import join
from sandrl.answers.sources import read_source
from sandrl.problems import Problem
from sandrl.problems.calls import SOLUTION, function_of

_DOES_SOMETHING = re.compile(r"\b(?:return|yield|raise|pass|for|while|if|with|assert)\b|[=(]")


def join_to_starter(problem: Problem, code: str) -> str:
    """Joins code to what its problem gives to begin with: its preamble, or what leaves a body open."""
    if not problem.is_python:
        return assembly.join_to_tests(problem, code)
    starter = starter_of(problem)
    if starter is None:
        return code
    if _defines(code, starter.name) or _defines_what_is_called(problem, code):
        return join([starter.preamble, code]) if starter.preamble else code
    whole = _continued(starter, code)
    if whole is not None:
        return whole
    if starter.beginning is None or read_source(code) is not None:
        return code
    first = next((line for line in code.split("\n") if line.strip()), "")
    body = code if first[:1] in (" ", "\t") else textwrap.indent(code, starter.indentation)
    return starter.beginning + "\n" + body


def continues(problem: Problem, code: str) -> bool:
    """Whether code is the method or the body that is missing from what the problem begins."""
    if not problem.is_python:
        return assembly.continues(problem, code)
    starter = starter_of(problem)
    return starter is not None and _continued(starter, code) is not None


def _defines(code: str, name: str) -> bool:
    word = re.escape(name)
    if re.search(rf"^(?:(?:async[ \t]+)?def|class)[ \t]+{word}\b|^{word}[ \t]*=", code, re.MULTILINE):
        return True
    source = read_source(code) if name in code else None
    return source is not None and name in source.binds


def _defines_what_is_called(problem: Problem, code: str) -> bool:
    # In the form that its problem does not begin with. A function whose first parameter is `self` is a method that was
    # given without its class.
    if problem.fn is None or read_source(code) is None:
        return False
    owner, name = function_of(problem.fn)
    if owner != SOLUTION:
        return False
    is_method = re.search(rf"^(?:async[ \t]+)?def[ \t]+{re.escape(name)}[ \t]*\(\s*self\b", code, re.MULTILINE)
    return _defines(code, owner) or (is_method is None and _defines(code, name))


def _continued(starter: Starter, code: str) -> str | None:
    # The indentation that generation loses is put back: of all lines, or of the first. Where the whole does not
    # compile, what follows the body is left out.
    if starter.beginning is None or _DOES_SOMETHING.search(code) is None:
        return None
    wholes = _wholes(starter, code.strip("\n").rstrip())
    return next((whole for whole in wholes if read_source(whole) is not None), None)


def _wholes(starter: Starter, code: str) -> Iterator[str]:
    if starter.header:
        plain = textwrap.dedent(code)
        if _defines(plain, starter.method):
            outer = starter.indentation.removesuffix("    ") or "    "
            yield f"{starter.header}\n{textwrap.indent(plain, outer)}"
    for body in _bodies(code, starter.indentation):
        yield f"{starter.beginning}\n{body}"


def _bodies(code: str, indentation: str) -> Iterator[str]:
    first, _, rest = code.partition("\n")
    is_indented = first[:1] in (" ", "\t")
    if is_indented:
        yield code
    yield textwrap.indent(textwrap.dedent(code), indentation)
    mended = f"{indentation}{first.lstrip()}\n{rest}"
    if rest:
        yield mended
    end = re.search(r"^\S", rest, re.MULTILINE)
    if end is not None:
        if is_indented:
            yield f"{first}\n{rest[: end.start()]}"
        if rest[:1] in (" ", "\t"):
            yield f"{indentation}{first.lstrip()}\n{rest[: end.start()]}"
