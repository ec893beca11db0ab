"""The budget of a command: a maximum of sandbox time or of money.

Both are one option, because a command has one bound. The price of the runtime (`sandrl.prices`) converts money into
time, so the counted quantity is always the time for which sandboxes exist.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Self

from sandrl.quantities import parse_seconds

EXAMPLES = "2h, 90m, 30s, $5 or 5 USD"
"""Budgets as users write them."""

_SIGNS = {"$": "USD", "€": "EUR", "£": "GBP"}
_NUMBER = r"\d+(?:\.\d+)?|\.\d+"
_MONEY = re.compile(
    rf"(?:(?P<sign>[$€£])\s*|(?P<before>[A-Z]{{3}})\s*)?(?P<amount>{_NUMBER})(?:\s*(?P<after>[A-Z]{{3}}))?"
)
_SECONDS_OF_AN_HOUR = 3_600.0
# More than any account or clock holds; beyond it, sums of floats lose cents.
_MOST = 1e12


@dataclass(frozen=True, slots=True)
class Money:
    """A sum of money.

    Attributes:
        amount: In the currency's own unit.
        currency: Three letters, such as USD.
    """

    amount: float
    currency: str = "USD"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Reads `$5`, `5 USD` or `USD 5`; None if it is no sum of money, or names no currency."""
        match = _MONEY.fullmatch(text.strip())
        if match is None:
            return None
        named = [_SIGNS.get(match["sign"] or "", ""), match["before"] or "", match["after"] or ""]
        known = {name for name in named if name}
        if len(known) != 1:
            return None
        amount = float(match["amount"])
        return cls(amount, known.pop()) if amount <= _MOST else None

    def times(self, factor: float) -> Money:
        """So many times this sum."""
        return Money(self.amount * factor, self.currency)

    def __str__(self) -> str:
        """The exact sum, as `parse` reads it."""
        whole, _, rest = f"{self.amount:.12f}".rstrip("0").partition(".")
        return self._written(f"{whole}.{rest:0<2}" if rest else whole)

    @property
    def shown(self) -> str:
        """The sum for people: two decimals, more where it is less than ten cents."""
        amount = self.amount
        if amount == 0 or amount >= 0.1:
            return self._written(f"{amount:.2f}")
        if amount < 0.0001:
            return f"less than {self._written('0.0001')}"
        return self._written(f"{amount:.2f}" if amount >= 0.01 else f"{amount:.4f}")

    def _written(self, number: str) -> str:
        return f"${number}" if self.currency == "USD" else f"{number} {self.currency}"


@dataclass(frozen=True, slots=True)
class Budget:
    """A bound on what a command uses: sandbox time, or money.

    Attributes:
        seconds: Seconds for which sandboxes exist, summed over all of them; None where money is the bound.
        money: What they may cost; None where time is the bound.
    """

    seconds: float | None = None
    money: Money | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads a budget.

        Raises:
            ValueError: If it is none; the message says why, without the name of the field.
        """
        text = text.strip()
        seconds, money = parse_seconds(text), Money.parse(text)
        if seconds is None and money is None:
            why = "has no unit" if re.fullmatch(_NUMBER, text) else "is not a budget"
            raise ValueError(f"is {text!r}, which {why}: use sandbox time or money, such as {EXAMPLES}")
        if not (seconds or (money is not None and money.amount)):
            raise ValueError(f"is {text!r}; it must be more than 0")
        return cls(seconds, None if seconds is not None else money)

    def seconds_at(self, price: Money | None) -> float:
        """How many seconds this is at the price of a sandbox-hour; infinity where sandboxes cost nothing.

        Raises:
            ValueError: If there is no price, or it is in another currency.
        """
        if self.seconds is not None:
            return self.seconds
        assert self.money is not None, "a budget is one or the other"
        if price is None:
            raise ValueError("no price is set")
        if price.currency != self.money.currency:
            raise ValueError(f"the price is in {price.currency}, and the budget in {self.money.currency}")
        return math.inf if not price.amount else self.money.amount / price.amount * _SECONDS_OF_AN_HOUR

    def __str__(self) -> str:
        """The budget, as `parse` reads it."""
        return str(self.money) if self.seconds is None else duration_text(self.seconds)


def cost_of(seconds: float, price: Money) -> Money:
    """What so many seconds of sandboxes cost at the price of a sandbox-hour."""
    return price.times(seconds / _SECONDS_OF_AN_HOUR)


def duration_text(seconds: float) -> str:
    """A time as people write it, such as `3m 12s`: its two largest units."""
    if seconds < 60:
        return f"{seconds:.0f}s" if seconds >= 10 or seconds == int(seconds) else f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 3_600:
        minutes, rest = divmod(whole, 60)
        return f"{minutes}m {rest}s" if rest else f"{minutes}m"
    hours, rest = divmod(round(whole / 60), 60)
    return f"{hours}h {rest}m" if rest else f"{hours}h"
