"""Makes text from models and their code safe to print.

Such text is data, never instructions to the user's terminal. So every such text passes through `visible` before it is
printed: control characters, and characters that reorder or hide text, become visible escapes.
"""

from __future__ import annotations

import unicodedata

_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def visible(text: str, limit: int | None = None) -> str:
    """One line of printable characters that says the same as the text; what is longer than the limit ends in `…`."""
    if limit is not None and len(text) > 4 * limit:
        text = text[: 4 * limit]
    line = " ".join(text.split())
    if not line.isprintable():
        line = "".join(character if _is_plain(character) else _escape(character) for character in line)
    if limit is not None and len(line) > limit:
        line = line[: max(limit - 1, 0)] + "…"
    return line


def counted(count: int, noun: str, plural: str = "") -> str:
    """A count with its noun, which takes an s in the plural unless another is given: `1 problem`, `2 problems`."""
    return f"{count} {noun}" if count == 1 else f"{count} {plural or noun + 's'}"


def human_size(size: int) -> str:
    """A number of bytes as people read it."""
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1_000 or unit == "GB":
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
        amount /= 1_000
    raise AssertionError("the last unit takes all")


def share_text(value: float, low: float | None, high: float | None) -> str:
    """A share as a percentage, with its interval if that is known."""
    return f"{value:.1%}" if low is None or high is None else f"{value:.1%} [{low:.1%}, {high:.1%}]"


def visible_lines(text: str) -> str:
    """The text with its lines and tabs, in which every other character that could act on a terminal is an escape."""
    if text.isprintable():
        return text
    return "".join(each if each in "\n\t" or _is_plain(each) else _escape(each) for each in text)


def visible_block(text: str, *, most_lines: int | None = None, longest_line: int | None = None) -> str:
    """A text of several lines like `visible_lines`, cut where it is long; what is missing is said."""
    lines = text.replace("\r\n", "\n").expandtabs(4).split("\n")
    missing = 0 if most_lines is None else max(len(lines) - most_lines, 0)
    kept = lines[: len(lines) - missing]
    if longest_line is not None:
        kept = [line if len(line) <= longest_line else _shortened(line, longest_line) for line in kept]
    shown = [visible_lines(line) for line in kept]
    if missing:
        shown.append(f"… {missing} more lines")
    return "\n".join(shown)


def _shortened(line: str, longest: int) -> str:
    return f"{line[:longest]} … {len(line) - longest} more characters"


def _is_plain(character: str) -> bool:
    return character.isprintable() and unicodedata.category(character) not in _HIDDEN_CATEGORIES


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
