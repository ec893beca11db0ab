"""The range of pass rates that makes a problem worth training on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Range:
    """Pass rates from `low` to `high`, both included."""

    low: float
    high: float

    @classmethod
    def of(cls, text: str) -> Self:
        """Reads `0.1..0.9`; either end may be left out.

        Raises:
            ValueError: If it is no range within 0 to 1.
        """
        begin, dots, end = text.partition("..")
        try:
            low, high = float(begin or 0.0), float(end or 1.0)
        except ValueError:
            low, high = 1.0, 0.0
        if not dots or not 0.0 <= low <= high <= 1.0:
            raise ValueError(f"{text!r} is not a range of pass rates such as 0.1..0.9")
        return cls(low, high)

    def __contains__(self, rate: float) -> bool:
        return self.low <= rate <= self.high
