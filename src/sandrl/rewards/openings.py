"""The code in a language other than Python that a problem gives to begin with, and the name that it requires.

Datasets give a function without its body: as the whole prompt (MultiPL-E), in a fence of it, or in `starter_code`. A
text is treated as code to be continued only if it ends within a definition that it begins, so prose is never put before
an answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from sandrl.problems import Problem
from sandrl.problems.languages import find_language
from sandrl.rewards.definitions import Definition, read_text
from sandrl.rewards.markup import fences
from sandrl.rewards.syntaxes import SYNTAXES, Syntax

_MAX_LENGTH = 20_000
_NAME = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class Opening:
    """Code to begin with.

    Attributes:
        name: The function that it leaves open.
        beginning: The code up to where the body goes.
        preamble: What stands before the function, or before the class that it is in.
        container: The class that the function is in; empty for none.
        header: The beginning of that class, from its first line to its brace; empty for none.
    """

    name: str
    beginning: str
    preamble: str
    container: str = ""
    header: str = ""


@lru_cache(maxsize=4096)
def opening_of(problem: Problem) -> Opening | None:
    """The code in the problem's language that it gives to begin with; None if it gives none."""
    syntax = SYNTAXES.get(problem.language)
    if syntax is None:
        return None
    for text in _texts(problem):
        found = _read(text, syntax)
        if found is not None:
            return found
    return None


def asked_name(problem: Problem) -> str | None:
    """The function that a problem in another language asks for, if it says so."""
    if problem.entry_point:
        names = _NAME.findall(problem.entry_point)
        return names[-1] if names else None
    opening = opening_of(problem)
    return None if opening is None else opening.name


def _texts(problem: Problem) -> Iterator[str]:
    if problem.starter_code:
        yield problem.starter_code
    prompt = problem.prompt.replace("\r\n", "\n")
    if len(prompt) > _MAX_LENGTH:
        return
    blocks = fences(prompt)
    for block in reversed(blocks):
        language = find_language(block.language) if block.language else None
        if language is None or language.name == problem.language:
            yield block.code
    if not blocks:
        yield prompt


def _read(code: str, syntax: Syntax) -> Opening | None:
    text = read_text(code, syntax)
    outer = _open(text.definitions)
    if outer is None:
        return None
    beginning = code if code.endswith("\n") else code + "\n"
    if not outer.is_class:
        return Opening(outer.name, beginning, code[: outer.start])
    inner = _open(text.inner(outer))
    if inner is None or inner.is_class:
        return None
    return Opening(inner.name, beginning, code[: outer.start], outer.name, code[outer.start : outer.inside])


def _open(definitions: tuple[Definition, ...]) -> Definition | None:
    return definitions[-1] if definitions and not definitions[-1].is_whole else None
