"""Patterns of paths: those of `COPY` and `ADD`, and the lines of a `.dockerignore`."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from sandrl.errors import InputError

_MOST_CHARACTERS = 4096
_WILD = re.compile(r"[*?\[]")


class Pattern:
    """A pattern with `*`, `?`, `[…]`, and `**` for any number of directories.

    Its time is proportional to the lengths of pattern and path, whatever they are.

    Raises:
        InputError: If it is malformed.
    """

    def __init__(self, text: str) -> None:
        if len(text) > _MOST_CHARACTERS:
            raise InputError(f"the pattern {text[:40]!r} is too long")
        self._parts = [None if part == "**" else _compiled(part) for part in text.split("/")]

    def fits(self, path: str) -> bool:
        """Whether it describes the whole of a path such as `a/b`."""
        names = path.split("/")
        place = name = 0
        retried: tuple[int, int] | None = None
        while name < len(names):
            part = self._parts[place] if place < len(self._parts) else _NOTHING
            if part is None:
                retried = (place + 1, name)
                place += 1
            elif part.fullmatch(names[name]):
                place, name = place + 1, name + 1
            elif retried is not None:
                # `**` takes one directory more.
                retried = (retried[0], retried[1] + 1)
                place, name = retried
            else:
                return False
        return all(part is None for part in self._parts[place:])


_NOTHING = re.compile(r"(?!)")


def _compiled(part: str) -> re.Pattern[str]:
    # As `fnmatch` has it, which never tries a `*` again.
    pieces, place = [], 0
    while place < len(part):
        character = part[place]
        if character == "\\" and place + 1 < len(part):
            place += 1
            pieces.append(f"[{part[place]}]" if part[place] in "*?[" else part[place])
        elif character == "[" and part[place + 1 : place + 2] == "^":
            place += 1
            pieces.append("[!")
        else:
            pieces.append(character)
        place += 1
    if part.count("[") and "]" not in part:
        raise InputError(f"the pattern {part!r} has no closing ]")
    return re.compile(fnmatch.translate("".join(pieces)))


@lru_cache(1024)
def compiled(pattern: str) -> Pattern:
    """A pattern, made once."""
    return Pattern(pattern)


def is_wild(text: str) -> bool:
    """Whether a path has characters of a pattern."""
    return _WILD.search(text) is not None


@dataclass(frozen=True, slots=True)
class Ignored:
    """What is not part of a context: the last pattern that fits a path, or a directory above it, decides.

    Attributes:
        rules: Patterns, and whether each leaves out what fits it.
    """

    rules: tuple[tuple[str, bool], ...] = ()

    @classmethod
    def parse(cls, lines: Sequence[str]) -> Ignored:
        """Reads the lines of a `.dockerignore`.

        Raises:
            InputError: If a pattern is malformed.
        """
        rules = []
        for line in lines:
            text = line.strip()
            if line.startswith("#") or not text:
                continue
            is_left_out = not text.startswith("!")
            parts = [part for part in text.removeprefix("!").strip().split("/") if part not in ("", ".")]
            if ".." in parts or not parts:
                continue
            compiled("/".join(parts))
            rules.append(("/".join(parts), is_left_out))
        return cls(tuple(rules))

    def leaves_out(self, path: str) -> bool:
        """Whether a path below the context, such as `a/b`, is left out."""
        result = False
        parts = path.split("/")
        above = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        for pattern, is_left_out in self.rules:
            if is_left_out != result and any(compiled(pattern).fits(each) for each in above):
                result = is_left_out
        return result

    @property
    def has_exceptions(self) -> bool:
        """Whether files of a directory that is left out may be part of the context."""
        return any(not is_left_out for _, is_left_out in self.rules)
