"""Words of instructions: quotes, escapes, and variables with their modifiers, as BuildKit replaces them."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Mapping

from sandrl.errors import InputError
from sandrl.runtime.images.dockerfile.statements import raw_words

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]|[@*#?$!-]")
_MOST_CHARACTERS = 1 << 20
_MOST_DEPTH = 30
_MOST_MATCHED = 1 << 12
_MOST_DIGITS = 10
_SURROGATE = re.compile("[\ud800-\udfff]")


def expand(text: str, variables: Mapping[str, str], escape: str = "\\") -> str:
    """A word without its quotes and with the values of its variables.

    Raises:
        InputError: If a quote or a brace is not closed, a modifier is unknown, or the result is too long.
    """
    return _Word(text, variables, escape).read("", 0)


def expand_document(text: str, variables: Mapping[str, str], escape: str = "\\") -> str:
    """A here-document with the values of its variables; quotes stay.

    Raises:
        InputError: As `expand`.
    """
    return _Word(text, variables, escape, keeps_quotes=True).read("", 0)


def pairs(text: str, escape: str) -> list[tuple[str, str]]:
    """Names and values of `ENV` and `LABEL`, with their quotes: `NAME=VALUE …`, or `NAME VALUE` for one.

    Raises:
        InputError: If a name or a value is missing.
    """
    words = raw_words(text, escape)
    if not words:
        raise InputError("has no name")
    if "=" not in words[0]:
        value = text.strip().removeprefix(words[0]).lstrip()
        if not value:
            raise InputError(f"{words[0]!r} has no value: write {words[0]}=VALUE")
        return [(words[0], value)]
    found = []
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise InputError(f"{word!r} is not NAME=VALUE")
        found.append((name, value))
    return found


def array(text: str) -> tuple[str, ...] | None:
    """The strings of an array in JSON; None if the text is none.

    Raises:
        InputError: If one has a character that no argument and no file name can have.
    """
    if not text.lstrip().startswith("["):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(found, list) and all(isinstance(each, str) for each in found):
        if any("\0" in each or _SURROGATE.search(each) for each in found):
            raise InputError("has a character that no argument and no file name can have")
        return tuple(found)
    return None


def number_of(text: str, what: str, *, base: int = 10) -> int:
    """A number of few digits.

    Raises:
        InputError: If it is none; it names `what`.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS) or (base == 8 and set("89") & set(text)):
        raise InputError(f"{what} is not a number: {text[:40]!r}")
    return int(text, base)


class _Word:
    def __init__(self, text: str, variables: Mapping[str, str], escape: str, *, keeps_quotes: bool = False) -> None:
        self._text = text
        self._variables = variables
        self._escape = escape
        self._keeps_quotes = keeps_quotes
        self._place = 0

    def read(self, end: str, depth: int) -> str:
        # Up to a character that is not quoted, which is taken, too; to the end of the text if it is empty.
        if depth > _MOST_DEPTH:
            raise InputError(f"variables are nested more than {_MOST_DEPTH} deep")
        parts: list[str] = []
        length = 0
        while self._place < len(self._text):
            character = self._text[self._place]
            if end and character == end:
                self._place += 1
                return "".join(parts)
            if character == "'" and not self._keeps_quotes:
                part = self._single()
            elif character == '"' and not self._keeps_quotes:
                part = self._double(depth)
            elif character == "$":
                part = self._variable(depth)
            elif character == self._escape:
                part = self._escaped()
            else:
                self._place += 1
                part = character
            parts.append(part)
            length += len(part)
            if length > _MOST_CHARACTERS:
                raise InputError(f"is longer than {_MOST_CHARACTERS} characters with the values of its variables")
        if end:
            raise InputError(f"{self._text[:60]!r} has no closing {end}")
        return "".join(parts)

    def _escaped(self) -> str:
        following = self._text[self._place + 1 : self._place + 2]
        self._place += 2
        if self._keeps_quotes and following not in ("$", self._escape):
            return self._escape + following
        return following

    def _single(self) -> str:
        end = self._text.find("'", self._place + 1)
        if end < 0:
            raise InputError(f"{self._text[:60]!r} has a quote that is not closed")
        part, self._place = self._text[self._place + 1 : end], end + 1
        return part

    def _double(self, depth: int) -> str:
        self._place += 1
        parts: list[str] = []
        while self._place < len(self._text):
            character = self._text[self._place]
            if character == '"':
                self._place += 1
                return "".join(parts)
            if character == "$":
                parts.append(self._variable(depth))
                continue
            following = self._text[self._place + 1 : self._place + 2]
            if character == self._escape and following in ('"', "$", self._escape):
                self._place += 1
                character = following
            parts.append(character)
            self._place += 1
        raise InputError(f"{self._text[:60]!r} has a quote that is not closed")

    def _variable(self, depth: int) -> str:
        self._place += 1
        if self._text[self._place : self._place + 1] != "{":
            found = _NAME.match(self._text, self._place)
            if found is None:
                return "$"
            self._place = found.end()
            return self._variables.get(found[0], "")
        found = _NAME.match(self._text, self._place + 1)
        if found is None:
            raise InputError(f"{self._text[:60]!r} has a variable without a name")
        self._place = found.end()
        return self._modified(found[0], depth)

    def _modified(self, name: str, depth: int) -> str:
        value = self._variables.get(name)
        rest = self._text[self._place :]
        modifier = next((each for each in _MODIFIERS if rest.startswith(each)), None)
        if modifier is None:
            raise InputError(f"`${{{name}{rest[:10]}` has an unknown modifier, or no closing brace")
        self._place += len(modifier)
        if modifier == "}":
            return value or ""
        if modifier[0] in "#%/" and len(value or "") > _MOST_MATCHED:
            raise InputError(f"the value of {name} is too long for a pattern: more than {_MOST_MATCHED} characters")
        if modifier in ("/", "//"):
            pattern = self._pattern(self.read("/", depth + 1))
            return re.sub(pattern, _literal(self.read("}", depth + 1)), value or "", count=modifier == "/")
        word = self.read("}", depth + 1)
        is_given = value is not None and not (modifier.startswith(":") and not value)
        match modifier[-1]:
            case "-":
                return (value or "") if is_given else word
            case "+":
                return word if is_given else ""
            case "?":
                if not is_given:
                    raise InputError(f"the variable {name} is not set: {word or 'it is needed'}")
                return value or ""
        return _trimmed(value or "", self._pattern(word), modifier)

    @staticmethod
    def _pattern(text: str) -> str:
        if text.count("*") > 2:
            raise InputError(f"the pattern {text[:60]!r} has more than two `*`")
        return fnmatch.translate(text).removeprefix("(?s:").rpartition(")")[0]


_MODIFIERS = (":-", ":+", ":?", "-", "+", "?", "##", "#", "%%", "%", "//", "/", "}")


def _literal(text: str) -> str:
    return text.replace("\\", "\\\\")


def _trimmed(value: str, pattern: str, modifier: str) -> str:
    expression = re.compile(pattern, re.DOTALL)
    longest = len(modifier) == 2
    places = range(len(value) + 1)
    if modifier[0] == "#":
        ends = [end for end in (reversed(places) if longest else places) if expression.fullmatch(value, 0, end)]
        return value[ends[0] :] if ends else value
    starts = [start for start in (places if longest else reversed(places)) if expression.fullmatch(value, start)]
    return value[: starts[0]] if starts else value
