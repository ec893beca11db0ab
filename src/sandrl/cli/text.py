"""Making foreign text safe to show.

The design decision: whatever a model or its code wrote is data, never instructions to the user's terminal. Every
such text goes through `visible` on its way out: control characters and those that reorder or hide text become
visible escapes.
"""

from __future__ import annotations

import unicodedata

_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def visible(text: str, limit: int | None = None) -> str:
    """One line of printable characters that says the same as the text.

    Args:
        text: Anything.
        limit: Most characters to keep; what is longer ends in `…`.
    """
    if limit is not None and len(text) > 4 * limit:
        text = text[: 4 * limit]
    line = " ".join(text.split())
    if not line.isprintable():
        line = "".join(character if _is_plain(character) else _escape(character) for character in line)
    if limit is not None and len(line) > limit:
        line = line[: max(limit - 1, 0)] + "…"
    return line


def visible_lines(text: str) -> str:
    """The text with its lines and tabs, in which every other character that could act on a terminal is an escape."""
    if text.isprintable():
        return text
    return "".join(each if each in "\n\t" or _is_plain(each) else _escape(each) for each in text)


def _is_plain(character: str) -> bool:
    return character.isprintable() and unicodedata.category(character) not in _HIDDEN_CATEGORIES


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
