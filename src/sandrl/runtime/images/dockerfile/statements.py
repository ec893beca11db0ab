"""The lines of a Dockerfile joined to statements: directives, comments, continued lines and here-documents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sandrl.errors import InputError

MOST_BYTES = 4 << 20
_DIRECTIVE = re.compile(r"#\s*([A-Za-z][A-Za-z0-9]*)\s*=\s*(.+?)\s*")
_KEYWORD = re.compile(r"(\S+)\s*(.*)", re.DOTALL)
_HERE = re.compile(r"\d*<<(-?)([^<\s]+)")
_HERE_NAME = re.compile(r"""(["']?)([^"'\\$`\s]+)\1""")
_WITH_DOCUMENTS = frozenset({"RUN", "COPY", "ADD"})
_FRONTENDS = re.compile(r"(?:docker\.io/)?docker/dockerfile(?:-upstream)?(?::[\w.-]+)?(?:@sha256:[0-9a-f]{64})?")
_MOST_DOCUMENTS = 100


@dataclass(frozen=True, slots=True)
class Document:
    """A here-document.

    Attributes:
        name: The word that ends it.
        expands: Whether its variables are replaced: its name is not quoted.
    """

    name: str
    content: str
    expands: bool


@dataclass(frozen=True, slots=True)
class Statement:
    """An instruction as it is written.

    Attributes:
        keyword: In capital letters.
        rest: What follows it, without comments and the ends of continued lines.
        line: Its first line, from 1.
    """

    keyword: str
    rest: str
    line: int
    documents: tuple[Document, ...] = ()

    @property
    def text(self) -> str:
        """The instruction in one line, for people."""
        return " ".join(f"{self.keyword} {self.rest}".split())


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements of a file, and its escape character: a backslash or a backtick."""

    all: tuple[Statement, ...]
    escape: str


def read_statements(text: str) -> Statements:
    """Splits the text of a Dockerfile.

    Raises:
        InputError: If it is malformed; it names the line.
    """
    if "\0" in text:
        raise InputError("has a null character", line=text.count("\n", 0, text.index("\0")) + 1)
    # Other characters that Unicode takes for ends of lines are parts of them.
    lines = [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]
    escape, first = _directives(lines)
    return Statements(tuple(_statements(lines, first, escape)), escape)


def _directives(lines: list[str]) -> tuple[str, int]:
    known: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        found = _DIRECTIVE.fullmatch(line)
        name = found[1].lower() if found else ""
        if found is None or name not in ("syntax", "escape", "check"):
            break
        if name in known:
            raise InputError(f"the directive `{name}` is given twice", line=number)
        known[name] = found[2]
        if name == "escape" and found[2] not in ("\\", "`"):
            raise InputError(f"the escape character {found[2]!r} is neither a backslash nor a backtick", line=number)
        if name == "syntax" and not _FRONTENDS.fullmatch(found[2]):
            message = f"the syntax {found[2]!r} is not supported: only that of docker/dockerfile is"
            raise InputError(message, line=number)
    return known.get("escape", "\\"), len(known)


def _statements(lines: list[str], place: int, escape: str) -> Iterator[Statement]:
    end = re.escape(escape)
    continued = re.compile(rf"(?:^|(?<!{end})){end}[ \t]*$")
    while place < len(lines):
        start = place
        parts: list[str] = []
        while place < len(lines):
            line = lines[place]
            place += 1
            stripped = line.strip()
            if stripped.startswith("#") or (not stripped and parts):
                continue
            parts.append(continued.sub("", line))
            if not stripped or parts[-1] == line:
                break
            if len(parts) == 1:
                start = place - 1
        joined = "".join(parts).strip()
        if not joined:
            continue
        if len(parts) == 1:
            start = place - 1
        found = _KEYWORD.fullmatch(joined)
        assert found is not None, "it is not empty"
        keyword, rest = found[1].upper(), found[2]
        documents: list[Document] = []
        if keyword in _WITH_DOCUMENTS and "<<" in rest and not _is_list(rest):
            for name, strips, expands in _heads(rest, escape, start + 1):
                content, place = _document(lines, place, name, strips=strips, line=start + 1)
                documents.append(Document(name, content, expands))
        yield Statement(keyword, rest, start + 1, tuple(documents))


def _is_list(rest: str) -> bool:
    # Of options and an array in JSON.
    return re.fullmatch(r"(?:--\S+\s+)*\[.*\]\s*", rest, re.DOTALL) is not None


def raw_words(text: str, escape: str) -> list[str]:
    """The words of a line, separated by blanks that are not quoted, with their quotes."""
    words, word, quote, place = [], "", "", 0
    pieces: list[str] = []
    while place < len(text):
        character = text[place]
        if character == escape and quote != "'" and place + 1 < len(text):
            pieces.append(text[place : place + 2])
            place += 2
            continue
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character.isspace():
            if word := "".join(pieces):
                words.append(word)
            pieces.clear()
            place += 1
            continue
        pieces.append(character)
        place += 1
    if word := "".join(pieces):
        words.append(word)
    return words


def _heads(rest: str, escape: str, line: int) -> Iterator[tuple[str, bool, bool]]:
    count = 0
    for word in raw_words(rest, escape):
        head = _HERE.fullmatch(word)
        name = _HERE_NAME.fullmatch(head[2]) if head else None
        if head is None or name is None:
            continue
        count += 1
        if count > _MOST_DOCUMENTS:
            raise InputError(f"has more than {_MOST_DOCUMENTS} here-documents", line=line)
        yield name[2], bool(head[1]), not name[1]


def _document(lines: list[str], place: int, name: str, *, strips: bool, line: int) -> tuple[str, int]:
    content: list[str] = []
    while place < len(lines):
        each = lines[place].lstrip("\t") if strips else lines[place]
        place += 1
        if each == name:
            return "".join(f"{each}\n" for each in content), place
        content.append(each)
    raise InputError(f"the here-document {name!r} has no end: no line has only {name}", line=line)
