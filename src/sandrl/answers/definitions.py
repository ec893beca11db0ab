"""Finds the top-level definitions of a text in a language other than Python, and where each one begins and ends.

Ends are found by counting braces, or by lines that end a function at the indentation of its beginning. So a text need
not compile or be complete: the code that a problem gives to begin with ends in the middle of a function.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sandrl.answers.syntaxes import Syntax, masked

MAX_LENGTH = 60_000
"""How long a text may be to be read: its answer is then taken as it is."""

_MAX_HEADER = 2000
_BOUNDARY = re.compile(r"[{};]")
_BRACE = re.compile(r"[{}]")
_HOLDER = re.compile(r"\b(?:class|impl|mod|module)\b")
_CALLED = re.compile(r"(~?\b[A-Za-z_]\w*)\s*\(")
_CLASS = re.compile(r"\b(?:class|struct|interface|enum|record|union|namespace)\s+(?P<name>[A-Za-z_]\w*)")
_ANNOTATION = re.compile(r"@\w+(?:\([^()]*\))?")
_NO_FUNCTIONS = frozenset(
    {"if", "for", "while", "switch", "catch", "return", "sizeof", "else", "do", "try", "synchronized"}
)


@dataclass(frozen=True, slots=True)
class Definition:
    """One definition.

    Attributes:
        start: Where the line begins that it begins on.
        end: Where it ends; the end of the text if it is not whole.
        inside: Where its body begins; its end if it has none.
        is_whole: Whether it has an end.
        is_class: Whether it is a class, or something else that holds functions.
    """

    name: str
    start: int
    end: int
    inside: int
    is_whole: bool
    is_class: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """A text in a language.

    Attributes:
        plain: The text without its comments and strings, which are blanks.
        definitions: What it defines at its top level, in order.
        depth: How many braces are open at its end; negative where it closes more than it opens.
    """

    code: str
    plain: str
    syntax: Syntax
    definitions: tuple[Definition, ...]
    depth: int

    def find(self, name: str) -> Definition | None:
        """The last definition of a name."""
        return next((each for each in reversed(self.definitions) if each.name == name), None)

    def header(self, definition: Definition) -> str:
        """What stands before the body of a definition, without comments and strings."""
        return self.plain[definition.start : definition.inside]

    def inner(self, outer: Definition) -> tuple[Definition, ...]:
        """What is defined at the top level of a class."""
        end = outer.end - 1 if outer.is_whole else outer.end
        return tuple(_definitions(self.plain, self.syntax, outer.inside, end))


def read_text(code: str, syntax: Syntax) -> Text:
    """Reads a text."""
    plain = masked(code, syntax)
    depth = plain.count("{") - plain.count("}") if syntax.closes == "}" else 0
    return Text(code, plain, syntax, tuple(_definitions(plain, syntax, 0, len(plain))), depth)


def without(code: str, spans: Iterable[tuple[int, int]]) -> str:
    """Code without some of its parts, from one place to another each."""
    kept, last = [], 0
    for start, end in sorted(spans):
        kept.append(code[last:start])
        last = max(end, last)
    return "".join([*kept, code[last:]])


def _definitions(plain: str, syntax: Syntax, start: int, end: int) -> Iterator[Definition]:
    if syntax.definition is None:
        yield from _by_headers(plain, start, end)
    else:
        yield from _by_keywords(plain, syntax.definition, syntax.closes, start, end)


def _by_headers(plain: str, start: int, end: int) -> Iterator[Definition]:
    # Functions and classes of C, C++ and Java: what stands before a brace says what it begins.
    depth, boundary, opened, named = 0, start, 0, None
    for found in _BOUNDARY.finditer(plain, start, end):
        place = found.start()
        if found[0] == "{":
            if depth == 0:
                named, opened = _named(plain[boundary:place]), place
            depth += 1
        elif found[0] == "}":
            depth = max(depth - 1, 0)
            if depth == 0:
                if named is not None:
                    yield Definition(named[0], _begin(plain, boundary), place + 1, opened + 1, True, named[1])
                named, boundary = None, place + 1
        elif depth == 0:
            boundary = place + 1
    if depth and named is not None:
        yield Definition(named[0], _begin(plain, boundary), end, opened + 1, False, named[1])


def _named(header: str) -> tuple[str, bool] | None:
    # What a header names, and whether it is a class; None if it begins no definition.
    header = _ANNOTATION.sub(" ", header.strip())
    if len(header) > _MAX_HEADER:
        return None

    if (found := _CLASS.search(header)) is not None and "(" not in header[: found.start()]:
        after = header[found.end() :]
        if "(" not in after or re.match(r"\s*\(", after):
            return found["name"], True
    found = _CALLED.search(header)
    if found is None or header.count("(") != header.count(")") or "=" in header[: found.start()]:
        return None
    name = found[1]
    before = header[: found.start()].split()
    is_statement = name in _NO_FUNCTIONS or (bool(before) and before[-1] in ("return", "new", "else", "throw"))
    return None if is_statement or not before else (name, False)


def _begin(plain: str, boundary: int) -> int:
    found = re.compile(r"\s*+").match(plain, boundary)
    first = boundary if found is None else found.end()
    return max(plain.rfind("\n", 0, first) + 1, boundary)


def _by_keywords(plain: str, pattern: re.Pattern[str], closes: str, start: int, end: int) -> Iterator[Definition]:
    has_braces = closes == "}"
    braces = [(found.start(), found[0]) for found in _BRACE.finditer(plain, start, end)] if has_braces else []
    place, depth, last = 0, 0, start
    for found in pattern.finditer(plain, start, end):
        if found.start() < last:
            continue
        while place < len(braces) and braces[place][0] < found.start():
            depth = max(depth + (1 if braces[place][1] == "{" else -1), 0)
            place += 1
        if depth:
            continue
        definition = _to_brace(plain, found, braces, place, end) if has_braces else _to_line(plain, found, closes, end)
        last = definition.end
        yield definition


def _name_of(found: re.Match[str]) -> tuple[str, bool]:
    # And whether it is a class.
    groups = found.groupdict()
    return groups["name"] or groups.get("word") or "", _HOLDER.search(found[0]) is not None


def _line_end(plain: str, place: int, end: int) -> int:
    found = plain.find("\n", place, end)
    return end if found < 0 else found


def _to_brace(plain: str, found: re.Match[str], braces: list[tuple[int, str]], place: int, end: int) -> Definition:
    name, is_class = _name_of(found)
    place = _body(plain, found.end(), braces, place)
    opening = braces[place][0] if place < len(braces) and braces[place][1] == "{" else end
    opening = opening if opening < found.end() + _MAX_HEADER else end
    # A brace on a line of its own, or after arguments on several lines, begins the body, unless a statement ends.
    limit = min(found.end() + _MAX_HEADER, end)
    stop = re.compile(r";|\n[ \t]*+\n|\n(?=[ \t]*+\w++[ \t]*+[=(.])").search(plain, found.end(), limit)
    head = plain[found.end() : min(opening, limit)]
    if opening == end or (stop is not None and stop.start() < opening and head.count("(") == head.count(")")):
        last = min(stop.end(), end) if stop is not None and stop[0] == ";" else _line_end(plain, found.end(), end)
        return Definition(name, found.start(), max(last, found.end()), max(last, found.end()), True)
    depth = 0
    for at, brace in braces[place:]:
        depth += 1 if brace == "{" else -1
        if depth == 0:
            return Definition(name, found.start(), _statement_end(plain, at + 1, end), opening + 1, True, is_class)
    return Definition(name, found.start(), end, opening + 1, False, is_class)


def _body(plain: str, start: int, braces: list[tuple[int, str]], place: int) -> int:
    # Which brace begins the body: none in the types of arguments and results, such as `interface{}`.
    while place < len(braces) and braces[place][1] == "{":
        opening = braces[place][0]
        head = plain[start:opening]
        after, depth = place, 0
        while after < len(braces):
            depth += 1 if braces[after][1] == "{" else -1
            after += 1
            if depth == 0:
                break
        is_type = head.count("(") > head.count(")")
        if depth == 0 and (is_type or re.compile(r"[ \t\[\]]*+\{").match(plain, braces[after - 1][0] + 1)):
            place = after
        else:
            break
    return place


def _statement_end(plain: str, place: int, end: int) -> int:
    # Behind what ends a definition after its brace: `;`, or `);`.
    found = re.compile(r"[ \t]*+\)*+;?").match(plain, place, end)
    return place if found is None else found.end()


def _to_line(plain: str, found: re.Match[str], closes: str, end: int) -> Definition:
    # A line with a word ends it, at the indentation of the line that begins it.
    name, is_class = _name_of(found)
    indentation = found[0][: len(found[0]) - len(found[0].lstrip(" \t"))]
    line_end = _line_end(plain, found.end(), end)
    if re.search(rf"\b{closes}[ \t]*$", plain[found.start() : line_end]) is not None:
        return Definition(name, found.start(), line_end, line_end, True, is_class)
    closing = re.compile(rf"^{indentation}{closes}\b", re.MULTILINE).search(plain, found.end(), end)
    last = end if closing is None else closing.end()
    return Definition(name, found.start(), last, min(line_end + 1, last), closing is not None, is_class)
