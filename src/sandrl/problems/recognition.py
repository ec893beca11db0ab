"""Recognises rows by their fields, and compares an unknown row with what is known.

Problems and completions come in many formats. The fields of a row alone decide its format, so each format lists the
fields that it needs, and the error for an unknown row says which format is the nearest and what the row lacks of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
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
