"""The arguments of `load_problems` that a configuration sets.

Every command that loads problems reads them in the same way, so these settings are taken from the configuration in one
place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypedDict


class Reading(TypedDict, total=False):
    """Arguments of `load_problems`; see there."""

    prelude: str | None
    fields: Sequence[str]
    max_cases: int | None
    language: str | None


class _Configuration(Protocol):
    @property
    def prelude(self) -> str | None: ...

    @property
    def fields(self) -> tuple[str, ...]: ...

    @property
    def max_cases(self) -> int | None: ...

    @property
    def language(self) -> str | None: ...


def reading_of(config: _Configuration) -> Reading:
    """What a command's configuration says of how rows are read."""
    return Reading(prelude=config.prelude, fields=config.fields, max_cases=config.max_cases, language=config.language)
