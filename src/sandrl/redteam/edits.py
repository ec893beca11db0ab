"""Small changes to the content of a file, each of which a verifier that looks at this content must notice.

They are made of the content alone, which strangers have written, and of a seed: the same ones whenever they are asked
for. A value is changed where it stands, so nothing else of the file differs.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MOST_TEXT_BYTES = 256 << 10
"""How much of a text is searched for what can be changed."""

_MOST_OF_A_KIND = 4
_SHOWN_CHARACTERS = 40
_FEW_WORDS = 30
_WORDS_OF_A_SENTENCE = 6

_JSON = (".json", ".jsonl", ".ndjson", ".geojson", ".ipynb")
_PROSE = (".md", ".rst", ".adoc", ".log", ".html", ".xml", ".svg")
_TABLES = (".csv", ".tsv")
_WITH_SLASHES = (
    *(".c", ".h", ".i", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".cu", ".metal", ".m", ".mm", ".rs", ".go", ".js"),
    *(".mjs", ".ts", ".tsx", ".jsx", ".java", ".kt", ".scala", ".swift", ".cs", ".php", ".zig", ".dart", ".v"),
)
_WITH_HASHES = (".py", ".rb", ".pl", ".r", ".jl", ".awk", ".tcl", ".ex", ".nim", ".cmake", ".mk")
_WITH_DASHES = (".sql", ".lua", ".hs")
_SHELLS = (".sh", ".bash", ".zsh")
_PROGRAM_HEADS = (b"\x7fELF", b"!<arch>", b"\xcf\xfa\xed\xfe", b"MZ")

# Each ends where its line does, if nothing else ends it: no text makes a search slow.
_STRINGS = (
    r'"""(?s:.*?)(?:"""|\Z)|'
    + r"'''(?s:.*?)(?:'''|\Z)|"
    + r'"(?:\\[^\n]|[^"\\\n])*\\?"?|'
    + (r"'(?:\\[^\n]|[^'\\\n])*\\?'?")
)
_HASHED = re.compile(rf"#[^\n]*|{_STRINGS}")
_SLASHED = re.compile(rf"//[^\n]*|/\*(?s:.*?)(?:\*/|\Z)|^[ \t]*#[^\n]*|{_STRINGS}", re.MULTILINE)
_DASHED = re.compile(rf"--[^\n]*|{_STRINGS}")
_COMMENT_LINES = re.compile(r"^[ \t]*(?:#|//|;)[^\n]*", re.MULTILINE)

_JSON_TOKEN = re.compile(r'"(?P<text>(?:\\[^\n]|[^"\\\n])*)\\?"?(?P<colon>\s*:)?|(?P<word>[\w.+-]+)')
_NUMBER = re.compile(r"(?<![\w.$%-])-?\d{1,18}(?:\.\d{1,18})?(?!\w|\.\d)")
_BOOLEAN = re.compile(r"(?<![\w.-])(?:true|false|True|False|TRUE|FALSE|yes|no|on|off)(?![\w.-])")
_VALUE = re.compile(
    r"^[ \t]*(?:- )?[\w.\"'-]{1,80}[ \t]*[:=][ \t]*(?P<value>[^\s#;{\[|>][^\n#;]{0,200})$", re.MULTILINE
)
_CELL = re.compile(r"(?<=[,\t;|\n])[ ]*(?P<value>[^\W\d][^,\t;|\n\"]{0,80})(?=[,\t;|\n])")
_ITEM = re.compile(r"^[ \t]*(?P<value>[^\W\d]\S{0,200})[ \t]*$", re.MULTILINE)
_MOMENT = re.compile(
    r"\d{2,4}[-/]\d\d[-/]\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?|\d\d:\d\d(?::\d\d)?(?:[.,]\d{1,9})?",
)
_PLAIN_WORD = re.compile(r"(?<!\S)[A-Za-z]{2,40}[.,;:]?(?!\S)")
_WORD = re.compile(r"(?P<value>[^\W\d_]{2,60})")
_OPERATOR = re.compile(r"(?<= )(?:==|!=|<=|>=|&&|\|\||[<>+*-]|and|or|-eq|-ne|-lt|-gt|-le|-ge)(?= )|[+-](?==)")
_LETTER = re.compile(r"\\u[0-9a-fA-F]{4}|\\.|[A-Za-z0-9]")

_PAIRS = re.findall(
    r"(\S+)~(\S+)",
    "==~!= <=~< >=~> &&~|| and~or +~- -eq~-ne -lt~-le -gt~-ge true~false True~False TRUE~FALSE yes~no on~off",
)
_OPPOSITES = {"*": "+", **dict(_PAIRS), **{new: old for old, new in _PAIRS}}
# Arithmetic and comparisons look like redirections and options in a shell.
_OF_SHELLS = frozenset(("&&", "||", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge"))


@dataclass(frozen=True, slots=True)
class Edit:
    """A change to the content of a file: what stands there instead of its bytes from `begin` to `end`.

    Attributes:
        operation: The kind of change, in one word.
        name: Says what is changed, in one line of printable characters; `PATH` stands for the file's path.
    """

    operation: str
    name: str
    begin: int
    end: int
    new: bytes = b""

    def applied(self, content: bytes) -> bytes:
        """The content after the change."""
        return content[: self.begin] + self.new + content[self.end :]


@dataclass(frozen=True, slots=True)
class _Span:
    # A part of a text, and what stands there instead.
    begin: int
    end: int
    new: str
    key: str = ""


def edits_of(path: str, content: bytes, seed: str) -> list[Edit]:
    """Changes to the content of a file, the most telling first; none for an empty file.

    Args:
        path: Its ending says what the content is.
        seed: Decides which of many values are changed.
    """
    text = _text_of(content)
    found = _of_bytes(content) if text is None else _of_text(path, text, seed)
    half = _half(content, text)
    whole = [Edit("truncated", "PATH cut in the middle", half, len(content))] if half else []
    if content:
        whole.append(Edit("emptied", "PATH emptied", 0, len(content)))
    different: dict[tuple[int, int, bytes], Edit] = {}
    for each in (*found, *whole):
        if each.new != content[each.begin : each.end]:
            different.setdefault((each.begin, each.end, each.new), each)
    return list(different.values())


def shown(text: str, most: int = _SHOWN_CHARACTERS) -> str:
    """A text of strangers in one line of printable characters, without its end if it is long."""
    line = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text[: most + 1])
    return line if len(line) <= most else f"{line[: most - 1]}…"


def rotated(text: str) -> str:
    """A text of the same form: each ASCII letter and digit is the next one; escapes of JSON stay."""
    return _LETTER.sub(lambda found: _next(found[0]), text)


def _next(letter: str) -> str:
    if len(letter) > 1:
        return letter
    first, count = ("0", 10) if letter.isdigit() else ("a" if letter.islower() else "A", 26)
    return chr(ord(first) + (ord(letter) - ord(first) + 1) % count)


def _text_of(content: bytes) -> str | None:
    if b"\0" in content:
        return None
    try:
        return content[:MOST_TEXT_BYTES].decode()
    except UnicodeDecodeError as error:
        # A character may be cut at the end of what is searched.
        is_cut = len(content) > MOST_TEXT_BYTES and error.start > MOST_TEXT_BYTES - 4
        return content[: error.start].decode() if is_cut else None


def _of_text(path: str, text: str, seed: str) -> Iterator[Edit]:
    kinds = _kinds(path, text)
    # The first of each kind come first.
    chosen = [(kind, _chosen(spans, f"{seed} {path} {kind}")) for kind, spans in kinds]
    for place in range(_MOST_OF_A_KIND):
        for kind, spans in chosen:
            if place < len(spans):
                span = spans[place]
                old = text[span.begin : span.end]
                where = f", line {text.count(_NEWLINE, 0, span.begin) + 1}" if _NEWLINE in text.strip() else ""
                begin = len(text[: span.begin].encode())
                changed = f"{shown(old.strip())} -> {shown(span.new.strip())}" if span.new else shown(old.strip())
                key = f"{shown(span.key)}: " if span.key else ""
                end = begin + len(old.encode())
                yield Edit(kind, f"{_NAMES[kind]}{where}: {key}{changed}", begin, end, span.new.encode())


_NEWLINE = "\n"
_NAMES = {
    "number": "a number in PATH",
    "boolean": "a boolean in PATH",
    "value": "a value in PATH",
    "operator": "an operator in PATH",
    "line": "a line removed from PATH",
    "swapped": "two lines swapped in PATH",
}


def _kinds(path: str, text: str) -> list[tuple[str, list[_Span]]]:
    ending = posixpath.splitext(path)[1].lower()
    if ending in _JSON or (text.lstrip()[:1] in ("{", "[") and '"' in text):
        rows = [("line", _lines(text, ()))] if ending in (".jsonl", ".ndjson") else []
        return [*_json(text), *rows]
    if (comments := _comments(path, ending, text)) is not None:
        is_shell = ending in _SHELLS or (comments is _HASHED and _is_of_shell(text))
        return _code(text, [found.span() for found in comments.finditer(text)], is_shell=is_shell)
    return _data(ending, text)


def _data(ending: str, text: str) -> list[tuple[str, list[_Span]]]:
    comments = [found.span() for found in _COMMENT_LINES.finditer(text)]
    # A number in a sentence, or in a time, says little to a program.
    idle = [*comments, *_sentences(text), *(found.span() for found in _MOMENT.finditer(text))]
    numbers, lines = _numbers(text, sorted(idle)), _lines(text, comments)
    rest: list[tuple[str, list[_Span]]] = []
    if ending in _TABLES:
        header = text.find(_NEWLINE)
        cells = [each for each in _rotations(_CELL, text, comments) if each.begin > header]
        rest = [("value", cells), ("swapped", _swaps(text)[1:])]  # not a header with its first row
    elif ending not in _PROSE:
        values = _rotations(_VALUE, text, comments)
        is_list = _VALUE.search(text) is None
        if is_list:
            values = _rotations(_ITEM, text, comments)
        if is_list and not values and len(text.split()) <= _FEW_WORDS:
            values = _rotations(_WORD, text, comments)
        rest = [("value", values), ("boolean", _replaced(_BOOLEAN, text, comments))]
        rest += [("swapped", _swaps(text))] if is_list else []
    return [("number", numbers), *rest[:1], ("line", lines if len(lines) > 1 else []), *rest[1:]]


def _comments(path: str, ending: str, text: str) -> re.Pattern[str] | None:
    # What is left out of a program; None if it is none.
    if ending in _WITH_SLASHES:
        return _SLASHED
    if ending in _WITH_DASHES:
        return _DASHED
    is_named = posixpath.basename(path) in ("Makefile", "Dockerfile", "Rakefile", "CMakeLists.txt")
    return _HASHED if ending in (*_WITH_HASHES, *_SHELLS) or is_named or text.startswith("#!") else None


def _is_of_shell(text: str) -> bool:
    first = text.split("\n", 1)[0]
    return first.startswith("#!") and "sh" in first


def _code(text: str, left_out: Sequence[tuple[int, int]], *, is_shell: bool) -> list[tuple[str, list[_Span]]]:
    operators = _replaced(_OPERATOR, text, left_out)
    if is_shell:
        operators = [each for each in operators if text[each.begin : each.end] in _OF_SHELLS]
    return [
        ("operator", operators),
        ("number", _numbers(text, left_out)),
        ("boolean", _replaced(_BOOLEAN, text, left_out)),
        ("line", _lines(text, left_out)),
    ]


def _json(text: str) -> list[tuple[str, list[_Span]]]:
    kinds: dict[str, list[_Span]] = {"number": [], "value": [], "boolean": []}
    key = ""
    for found in _JSON_TOKEN.finditer(text):
        word, span = found["word"], found.span()
        if found["colon"] is not None:
            key = found["text"]
        elif word is None:
            new = rotated(found["text"])
            if new != found["text"]:
                kinds["value"].append(_Span(*found.span("text"), new, key))
        elif word in ("true", "false"):
            kinds["boolean"].append(_Span(*span, _OPPOSITES[word], key))
        elif _NUMBER.fullmatch(word):
            kinds["number"].append(_Span(*span, _plus_one(word), key))
    return list(kinds.items())


def _outside(pattern: re.Pattern[str], text: str, left_out: Sequence[tuple[int, int]]) -> Iterator[re.Match[str]]:
    # Both are in the order of the text.
    others = iter((*left_out, (len(text) + 1, len(text) + 1)))
    begin, end = next(others)
    for found in pattern.finditer(text):
        while end <= found.start():
            begin, end = next(others)
        if found.end() <= begin:
            yield found


def _numbers(text: str, left_out: Sequence[tuple[int, int]]) -> list[_Span]:
    return [_Span(*found.span(), _plus_one(found[0])) for found in _outside(_NUMBER, text, left_out)]


def _plus_one(number: str) -> str:
    whole, point, rest = number.partition(".")
    if whole.startswith("-") and int(whole) == 0:
        return f"0{point}{rest}"
    new = str(int(whole) + 1)
    return f"{new.zfill(len(whole)) if not whole.startswith('-') else new}{point}{rest}"


def _replaced(pattern: re.Pattern[str], text: str, left_out: Sequence[tuple[int, int]]) -> list[_Span]:
    return [_Span(*found.span(), _OPPOSITES[found[0]]) for found in _outside(pattern, text, left_out)]


def _rotations(pattern: re.Pattern[str], text: str, left_out: Sequence[tuple[int, int]]) -> list[_Span]:
    found = [each for each in _outside(pattern, text, left_out) if not _is_plain(each["value"].strip(" \"',;"))]
    return [_Span(*each.span("value"), rotated(each["value"])) for each in found if rotated(each[0]) != each[0]]


def _is_plain(value: str) -> bool:
    return bool(_NUMBER.fullmatch(value) or _BOOLEAN.fullmatch(value))


def _lines(text: str, left_out: Sequence[tuple[int, int]]) -> list[_Span]:
    # Without those that say nothing by themselves.
    comments = {begin for begin, _ in left_out}
    found, begin = [], 0
    for line in text.splitlines(keepends=True):
        stripped = line.strip()
        first = begin + len(line) - len(line.lstrip())
        if any(map(str.isalnum, stripped)) and first not in comments and not _IS_IDLE.match(stripped):
            found.append(_Span(begin, begin + len(line), ""))
        begin += len(line)
    return found


_IS_IDLE = re.compile(r"(?:#!|import |from |use |using |#include|set -|pass$|end$|else\b|fi$|done$|esac$|package )")


def _sentences(text: str) -> list[tuple[int, int]]:
    found, begin = [], 0
    for line in text.splitlines(keepends=True):
        if len(_PLAIN_WORD.findall(line)) >= _WORDS_OF_A_SENTENCE:
            found.append((begin, begin + len(line)))
        begin += len(line)
    return found


def _swaps(text: str) -> list[_Span]:
    found, begin, before = [], 0, ""
    for line in text.splitlines(keepends=True):
        if before.strip() and line.strip() and before.endswith("\n") and line.endswith("\n") and before != line:
            found.append(_Span(begin - len(before), begin + len(line), line + before))
        begin, before = begin + len(line), line
    return found


def _of_bytes(content: bytes) -> Iterator[Edit]:
    if len(content) > 1 and not content.startswith(_PROGRAM_HEADS):
        place = len(content) // 2
        old, new = content[place], content[place] ^ 0xFF
        yield Edit("byte", f"byte {place} of PATH: {old:#04x} -> {new:#04x}", place, place + 1, bytes([new]))


def _half(content: bytes, text: str | None) -> int:
    # Where the first half ends: what is lost says something, and no character is cut.
    half = len(content if text is None else content.strip()) // 2
    while text is not None and half and content[half] & 0xC0 == 0x80:
        half -= 1
    return half


def _chosen(spans: Sequence[_Span], seed: str) -> list[_Span]:
    # Some of them, which are the same for the same seed.
    left, found = list(range(len(spans))), []
    for number in range(min(_MOST_OF_A_KIND, len(left))):
        digest = hashlib.sha256(f"{seed} {number}".encode("utf-8", "surrogateescape")).digest()
        place = left.pop(int.from_bytes(digest[:8], "big") % len(left))
        found.append(spans[place])
    return found
