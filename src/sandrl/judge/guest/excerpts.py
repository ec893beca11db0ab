"""Excerpts of what a failed check compared: bounded texts that show the same place of both sides.

The process that compares holds the expected output; the supervisor must not, because every process of the completion is
forked from it. So the answer on a case holds an excerpt of what was printed and the place where it begins, and the host
cuts its own text of the expected output at that place.
"""

from __future__ import annotations

LONGEST_EXCERPT_CHARACTERS = 1000
# Of all failed checks of a completion together; a problem may have a thousand.
ALL_EXCERPTS_CHARACTERS = 6000
LINES_BEFORE = 3
LONGEST_BEGIN = 200
CHARACTERS_BEFORE = 100
CUT = "…"


class ExcerptRoom:
    def __init__(self) -> None:
        self.left = ALL_EXCERPTS_CHARACTERS

    def take(self, text: str | None) -> str | None:
        """A text as far as there is room for it; None for None, and where nothing is left."""
        if text is None or self.left <= 0:
            return None
        most = min(LONGEST_EXCERPT_CHARACTERS, self.left)
        text = text if len(text) <= most else text[: most - 1] + CUT
        self.left -= len(text)
        return text


def first_difference(text: str, expected: str) -> tuple[int, int]:
    """The line and column, from 1, where two texts first differ, blanks at the ends of lines aside; else (0, 0)."""
    one, other = text.rstrip().split("\n"), expected.rstrip().split("\n")
    for number, (line, wanted) in enumerate(zip(one, other), 1):
        line, wanted = line.rstrip(), wanted.rstrip()
        if line != wanted:
            return number, common_length(line, wanted) + 1
    return (0, 0) if len(one) == len(other) else (min(len(one), len(other)) + 1, 1)


def common_length(text: str, other: str) -> int:
    """How many characters two texts have in common at their beginning; halved again and again: lines may be long."""
    same, most = 0, min(len(text), len(other))
    while same < most:
        middle = (same + most + 1) // 2
        if text[same:middle] == other[same:middle]:
            same = middle
        else:
            most = middle - 1
    return same


def begin_of(line: int, column: int) -> tuple[int, int]:
    """Where an excerpt around a place begins, as numbers of lines and of characters that are left out."""
    return max(line - 1 - LINES_BEFORE, 0), (column - CHARACTERS_BEFORE if column > LONGEST_BEGIN else 0)


def excerpt_at(text: str, lines: int, characters: int) -> str:
    """The part of a text that begins after some lines, without the first characters of each; never long."""
    position = 0
    for _ in range(lines):
        end = text.find("\n", position)
        if end < 0:
            return ""
        position = end + 1
    most = LONGEST_EXCERPT_CHARACTERS
    if characters:
        shown, left = [], most
        while left > 0 and position <= len(text):
            end = text.find("\n", position)
            end = len(text) if end < 0 else end
            first = min(position + characters, end)
            line = (CUT if first > position else "") + text[first : min(end, first + left)]
            shown.append(line)
            left -= len(line) + 1
            position = end + 1
        part = "\n".join(shown)
        is_cut = left <= 0
    else:
        part = text[position : position + most]
        is_cut = len(text) - position > most
    if lines:
        part = f"{CUT} ({lines} lines before)\n{part}" if lines > 1 else f"{CUT} (1 line before)\n{part}"
    return part[: most - 1] + CUT if is_cut or len(part) > most else part
