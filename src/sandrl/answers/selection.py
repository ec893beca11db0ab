"""Selects which of several blocks of code are the answer.

There is one rule. The answer is the last block that compiles and defines the names that the problem requires, joined
with the blocks that define what it needs. If the problem requires a program, there are no such names: the answer is the
last block that runs by itself, reads if there is input, and prints if output is expected. In a language other than
Python, which names a block needs from elsewhere is unknown: a block is joined with earlier ones of imports, and with
earlier ones that define a word of it and nothing that it defines itself.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from sandrl.answers.requirements import Requirement
from sandrl.answers.sources import Source, Sources
from sandrl.problems.languages import PYTHON
from sandrl.syntax import try_parse


def select(blocks: Sequence[str], required: Requirement, sources: Sources, helpers: Collection[str] = ()) -> str | None:
    """The code of the answer: a block, or several joined; None if no block is one.

    Helpers are more blocks, before these: they are joined where a name of theirs is needed, and are no answers.
    """
    before = [source for code in helpers if (source := sources.read(code)) is not None]
    after = [source for code in blocks if (source := sources.read(sources.unescaped(code))) is not None]
    units = before + after
    if sources.language != PYTHON:
        chosen = _without_compiler(units, len(before), required, sources)
    elif required.is_program:
        chosen = _program(units, len(before), required, sources)
    else:
        chosen = _definitions(units, after, required)
    return join([unit.code for unit in chosen]) if chosen else None


def _definitions(units: Sequence[Source], after: Sequence[Source], required: Requirement) -> list[Source]:
    provided = frozenset[str]().union(*(unit.binds for unit in after))
    if not required.names & provided or (required.entry_point is not None and required.entry_point not in provided):
        return []
    places = {_binder(units, name, None) for name in required.names}
    return _with_needs(units, sorted(place for place in places if place is not None))


def _binder(units: Sequence[Source], name: str, user: int | None) -> int | None:
    # The last block before the one that uses the name, else the last one after it.
    places = [place for place, unit in enumerate(units) if name in unit.binds and place != user]
    earlier = [place for place in places if user is None or place < user]
    return earlier[-1] if earlier else places[-1] if places else None


def _with_needs(units: Sequence[Source], wanted: Sequence[int]) -> list[Source]:
    # Each after those that define what it needs.
    ordered: list[int] = []
    seen: set[int] = set()

    def include(place: int) -> None:
        if place in seen:
            return
        seen.add(place)
        needed = {_binder(units, name, place) for name in units[place].needs}
        is_lacking = None in needed
        needed |= {
            other for other, unit in enumerate(units[:place]) if unit.is_setting or (unit.is_open and is_lacking)
        }
        for each in sorted(each for each in needed if each is not None):
            include(each)
        ordered.append(place)

    for place in wanted:
        include(place)
    return [units[place] for place in ordered]


def _program(units: Sequence[Source], first: int, required: Requirement, sources: Sources) -> list[Source]:
    # The last program that is whole by itself, settings aside, else the last with the blocks that it needs.
    places = [place for place in range(len(units) - 1, first - 1, -1) if units[place].acts]
    joined = {place: _with_needs(units, [place]) for place in places}
    fitting = [place for place in places if _fits("\n".join(unit.code for unit in joined[place]), required, sources)]
    whole = [place for place in fitting if all(unit is units[place] or unit.is_setting for unit in joined[place])]
    return next((joined[place] for place in whole or fitting), [])


def _without_compiler(units: Sequence[Source], first: int, required: Requirement, sources: Sources) -> list[Source]:
    places = range(len(units) - 1, first - 1, -1)
    if required.is_program:
        programs = [place for place in places if units[place].acts]
        answers = [place for place in programs if _fits(units[place].code, required, sources)] or programs
    else:
        names = required.names if required.entry_point is None else {required.entry_point}
        answers = [place for place in places if names & units[place].binds]
    if not answers:
        return []
    chosen = answers[0]
    joined = [units[chosen]]
    needed, bound = set(units[chosen].needs), set(units[chosen].binds)
    for unit in reversed(units[:chosen]):
        if unit.is_open or (unit.binds & needed and not unit.binds & bound and not unit.acts):
            joined.insert(0, unit)
            needed |= unit.needs
            bound |= unit.binds
    return joined


def _fits(code: str, required: Requirement, sources: Sources) -> bool:
    reads = not required.reads or sources.reading.search(code) is not None
    return reads and (not required.prints or sources.printing.search(code) is not None)


def join(parts: Sequence[str]) -> str:
    """Several texts as one module; their `from __future__` statements, which must come first, do."""
    if len(parts) == 1:
        return parts[0]
    futures: list[str] = []
    rest: list[str] = []
    for part in parts:
        lines = part.split("\n")
        for statement in _future_imports(part):
            futures.append(ast.unparse(statement))
            last = statement.end_lineno or statement.lineno
            lines[statement.lineno - 1 : last] = [""] * (last - statement.lineno + 1)
        rest.append("\n".join(lines).strip("\n"))
    return "\n\n".join([*(["\n".join(dict.fromkeys(futures))] if futures else []), *rest])


def _future_imports(code: str) -> list[ast.ImportFrom]:
    tree = try_parse(code) if "__future__" in code else None
    body = [] if tree is None else tree.body
    return [node for node in body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
