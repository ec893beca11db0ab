"""Determines what a problem requires of a completion's code: names that it must define, or a program."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from sandrl.problems import EXIT_STATUS, Problem
from sandrl.problems.calls import function_of
from sandrl.rewards.definitions import MAX_LENGTH, read_text
from sandrl.rewards.openings import asked_name
from sandrl.rewards.reference import names_under_test
from sandrl.rewards.sources import Sources
from sandrl.rewards.syntaxes import SYNTAXES

_MAX_TESTS = 10
_CALLED = re.compile(r"([^\W\d]\w*)[ \t]*\(")


@dataclass(frozen=True, slots=True)
class Asked:
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


NOTHING = Asked()
"""Nothing is known of what is asked for."""


@lru_cache(maxsize=128)
def asked_by(problem: Problem) -> Asked:
    """What a problem asks for, by its entry point, its checks and its reference."""
    if not problem.is_python:
        return _in_another_language(problem)
    if problem.check == EXIT_STATUS:
        return Asked(is_program=True)
    if problem.cases:
        return _program(problem)
    if problem.fn is not None:
        return Asked(frozenset(function_of(problem.fn)))
    entry_point = _first_name(problem.entry_point or "")
    names = _names_used(problem)
    if problem.reference is not None:
        names &= names_under_test(problem)
    return Asked(names | ({entry_point} if entry_point else frozenset()), entry_point)


def _program(problem: Problem) -> Asked:
    reads = any(case.stdin.strip() for case in problem.cases)
    return Asked(is_program=True, reads=reads, prints=any(case.stdout.strip() for case in problem.cases))


def _in_another_language(problem: Problem) -> Asked:
    """What a problem asks for in another language than Python: a name it says, or the functions that its tests call."""
    if not problem.tests:
        return _program(problem)
    name = asked_name(problem)
    syntax = SYNTAXES[problem.language]
    called: set[str] = set()
    for test in problem.tests[:_MAX_TESTS]:
        text = read_text(test[:MAX_LENGTH], syntax)
        called |= {found[1] for found in _CALLED.finditer(text.plain)} - {each.name for each in text.definitions}
    return Asked(frozenset(called if name is None else {name}), name)


def _first_name(entry_point: str) -> str | None:
    """`Solution` of `Solution().solve`, as some sets write it."""
    found = re.match(r"\s*([^\W\d]\w*)", entry_point)
    return found.group(1) if found is not None else None


def _names_used(problem: Problem) -> frozenset[str]:
    """The names that the first checks use, and neither they nor the setup define."""
    sources = Sources()
    used: set[str] = set()
    defined: set[str] = set()
    for text in (problem.setup, *problem.tests[:_MAX_TESTS]):
        source = sources.read(text)
        if source is not None:
            used |= source.needs
            defined |= source.binds
    return frozenset(used - defined)
