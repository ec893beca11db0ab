"""Recognises rows by their fields, and compares an unknown row with what is known.

Problems and completions come in many formats. The fields of a row alone decide its format, so each format lists the
fields that it needs, and the error for an unknown row says which format is the nearest and what the row lacks of it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

_SHOWN_FIELDS = 12
_SHOWN_CHOICES = 3


@dataclass(frozen=True, slots=True)
class Recognition:
    """How rows of a format are recognised: by fields; of those in one group of `needs`, one is enough."""

    name: str
    needs: tuple[tuple[str, ...], ...]

    def has_fields(self, value: Mapping[str, Any]) -> bool:
        return all(any(field in value for field in group) for group in self.needs)

    def recognised_by(self, value: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(field for group in self.needs for field in group if field in value)

    def missing(self, value: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
        return tuple(group for group in self.needs if not any(field in value for field in group))


RecognitionT = TypeVar("RecognitionT", bound=Recognition)


def nearest_of(
    formats: Iterable[RecognitionT], value: Mapping[str, Any], preferred: Callable[[RecognitionT], bool]
) -> RecognitionT:
    """The format of which a row lacks the least; of those as near, a preferred one."""
    return min(formats, key=lambda each: (len(each.missing(value)) / len(each.needs), not preferred(each)))


def unknown_fields(value: Mapping[str, Any], nearest: Recognition, noun: str = "format") -> str:
    """Says that no format has the fields of a row, and what it lacks of the nearest."""
    shown = [f"`{name if len(name) <= 40 else name[:39] + '…'}`" for name in list(value)[:_SHOWN_FIELDS]]
    more = f" and {len(value) - len(shown)} more" if len(value) > len(shown) else ""
    missing = [_one_of(group) for group in nearest.missing(value)]
    return (
        f"no known {noun} has the fields {', '.join(shown)}{more}; the nearest is {nearest.name}, which also needs"
        f" {' and '.join(missing) or 'other values in them'}"
    )


def _one_of(group: tuple[str, ...]) -> str:
    return " or ".join(f"`{name}`" for name in group[:_SHOWN_CHOICES]) + (
        " or …" if len(group) > _SHOWN_CHOICES else ""
    )


_NUMBERED = re.compile(r"(.+)/(0|[1-9][0-9]{0,17})", re.DOTALL)
_LAST_NUMBER = re.compile(r"[0-9]{1,18}$")
_SHOWN_NAMES = 3
_SHOWN_CHARACTERS = 60
# Beyond, comparing letters takes seconds for each wrong row.
_MOST_COMPARED = 5_000


class KnownNames:
    """The names of the problems that there are, for messages about an unknown name.

    Rows without an id are numbered by set and line, which is specific to sandrl. So a message shows the form of the
    names, and a number leads to the problem with that number, not to the name with the most similar letters.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._names

    def did_you_mean(self, task_id: str) -> str:
        """The problem that may have been meant, as the end of a message; nothing if none comes close."""
        found = self._nearest(task_id)
        return f"; did you mean {_quoted(found)}?" if found is not None else ""

    @cached_property
    def form(self) -> str:
        """The names in a few words: `'train/1' to 'train/374'`, or the first of them."""
        if self._ranges and len(self._ranges) <= _SHOWN_NAMES:
            return ", ".join(
                _quoted(f"{prefix}/{first}") + (f" to {_quoted(f'{prefix}/{last}')}" if last > first else "")
                for prefix, (first, last) in self._ranges.items()
            )
        names = sorted(self._names) if isinstance(self._names, set | frozenset) else list(self._names)
        shown = ", ".join(map(_quoted, names[:_SHOWN_NAMES]))
        return shown + (f", … ({len(names)} in all)" if len(names) > _SHOWN_NAMES else "")

    def _nearest(self, task_id: str) -> str | None:
        folded = task_id.strip().casefold()
        if (same := self._folded.get(folded)) is not None:
            return same
        if (number := _LAST_NUMBER.search(folded)) is not None:
            value = str(int(number[0]))
            meant = [prefix for prefix in self._ranges if prefix.casefold() in folded]
            for name in (*(f"{prefix}/{value}" for prefix in meant or self._ranges), value):
                if name in self._names:
                    return name
            if self._ranges:
                # There is no such number: a name with nearly the same digits is another problem.
                return None
        if len(self._names) > _MOST_COMPARED:
            return None
        return next(iter(difflib.get_close_matches(task_id[:1000], self._names, n=1)), None)

    @cached_property
    def _folded(self) -> dict[str, str]:
        return {name.casefold(): name for name in self._names}

    # The lowest and the highest number of each set; empty where some name is not of this form.
    @cached_property
    def _ranges(self) -> dict[str, tuple[int, int]]:
        ranges: dict[str, tuple[int, int]] = {}
        for name in self._names:
            found = _NUMBERED.fullmatch(name)
            if found is None:
                return {}
            number = int(found[2])
            first, last = ranges.get(found[1], (number, number))
            ranges[found[1]] = min(first, number), max(last, number)
        return ranges


def _quoted(name: str) -> str:
    return repr(name if len(name) <= _SHOWN_CHARACTERS else name[: _SHOWN_CHARACTERS - 1] + "…")
