"""Selects which of several blocks of code are the answer.

There is one rule. The answer is the last block that compiles and defines the names that the problem requires, joined
with the blocks that define what it needs. If the problem requires a program, there are no such names: the answer is the
last block that runs by itself, reads if there is input, and prints if output is expected.
"""

from __future__ import annotations

import ast
import html
import re
from collections.abc import Collection, Sequence

from sandrl.rewards.asked import Asked
from sandrl.rewards.sources import Source, Sources
from sandrl.syntax import parse

_READS = re.compile(r"\b(?:input|stdin|fileinput|open|read|readline|readlines)\b")
_PRINTS = re.compile(r"\b(?:print|write|writelines|stdout|exec\w*|system|run|call)\b")
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|#\d{1,5}|#x[0-9a-f]{1,5});", re.IGNORECASE)


def select(blocks: Sequence[str], asked: Asked, sources: Sources, helpers: Collection[str] = ()) -> str | None:
    """The code of the answer.

    Args:
        blocks: Blocks of code, in order.
        asked: What the problem asks for.
        sources: Compiles them.
        helpers: More blocks, before these: they are joined where a name of theirs is needed, and are no answers.

    Returns:
        The block, or several joined; None if no block is one.
    """
    before = [source for code in helpers if (source := sources.read(code)) is not None]
    after = [source for code in blocks if (source := sources.read(unescaped(code, sources))) is not None]
    units = before + after
    if not after:
        return None
    if asked.is_program:
        return _program(units, len(before), asked)
    provided = frozenset().union(*(unit.binds for unit in after))
    if not asked.names & provided or (asked.entry_point is not None and asked.entry_point not in provided):
        return None
    chosen = {_binder(units, name, None) for name in asked.names}
    return _joined(_with_needs(units, sorted(place for place in chosen if place is not None)))


def unescaped(code: str, sources: Sources) -> str:
    """Code with its HTML entities replaced, if it compiles only so."""
    if _ENTITY.search(code) is None or sources.compiles(code):
        return code
    plain = html.unescape(code)
    return plain if sources.compiles(plain) else code


def _binder(units: Sequence[Source], name: str, user: int | None) -> int | None:
    """The last block before the one that uses a name which binds it, else the last one after it."""
    places = [place for place, unit in enumerate(units) if name in unit.binds and place != user]
    earlier = [place for place in places if user is None or place < user]
    return earlier[-1] if earlier else places[-1] if places else None


def _with_needs(units: Sequence[Source], wanted: Sequence[int]) -> list[Source]:
    """Blocks, each after those that define what it needs."""
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


def _program(units: Sequence[Source], first: int, asked: Asked) -> str | None:
    """The last program that is whole by itself, settings aside, else the last with the blocks that it needs."""
    places = [place for place in range(len(units) - 1, first - 1, -1) if units[place].acts]
    joined = {place: _with_needs(units, [place]) for place in places}
    fitting = [place for place in places if _fits("\n".join(unit.code for unit in joined[place]), asked)]
    whole = [place for place in fitting if all(unit is units[place] or unit.is_setting for unit in joined[place])]
    best = whole or fitting
    return _joined(joined[best[0]]) if best else None


def _fits(code: str, asked: Asked) -> bool:
    reads = not asked.reads or _READS.search(code) is not None
    return reads and (not asked.prints or _PRINTS.search(code) is not None)


def _joined(units: Sequence[Source]) -> str:
    return join([unit.code for unit in units])


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
    if "__future__" not in code:
        return []
    try:
        body = parse(code).body
    except SyntaxError:
        return []
    return [node for node in body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
