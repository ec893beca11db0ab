"""Budgets and sums of money, read and written."""

from __future__ import annotations

import math

import pytest

from sandrl.config.budget import Budget, Money, cost_of, duration_text
from sandrl.quantities import parse_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2h", 7200), ("90m", 5400), ("90 min", 5400), ("30s", 30), ("1h30m", 5400), ("1h 30m 5s", 5405), ("0.5h", 1800)],
)
def test_a_time_is_read_in_hours_minutes_and_seconds(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds
    assert Budget.parse(text) == Budget(seconds=seconds)


@pytest.mark.parametrize(
    ("text", "money"),
    [
        ("$5", Money(5, "USD")),
        ("$ 0.25", Money(0.25, "USD")),
        ("5 USD", Money(5, "USD")),
        ("USD 5", Money(5, "USD")),
        ("€2", Money(2, "EUR")),
        ("3.5 CHF", Money(3.5, "CHF")),
    ],
)
def test_money_is_read_with_its_currency(text: str, money: Money) -> None:
    assert Money.parse(text) == money
    assert Budget.parse(text) == Budget(money=money)
    assert Money.parse(str(money)) == money


@pytest.mark.parametrize(
    "text", ["", "2", "h", "2x", "-2h", "2h 2h", "$", "$5 EUR", "5 usd", "nan h", "inf", "1e5h", "$1e400"]
)
def test_what_is_no_budget_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match=r"2h, 90m, 30s, [$]5 or 5 USD") as refused:
        Budget.parse(text)
    assert str(refused.value).startswith(f"is {text!r}")
    assert ("has no unit" in str(refused.value)) == text.isdecimal()


@pytest.mark.parametrize("text", ["0s", "0h", "$0", "0.0 EUR"])
def test_a_budget_of_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be more than 0$"):
        Budget.parse(text)


def test_money_becomes_time_by_the_price_of_a_sandbox_hour() -> None:
    assert Budget.parse("$5").seconds_at(Money(0.5)) == 10 * 3600
    assert Budget.parse("30s").seconds_at(None) == 30
    assert Budget.parse("$5").seconds_at(Money(0.0)) == math.inf


def test_money_needs_a_price_in_its_own_currency() -> None:
    with pytest.raises(ValueError, match="no price"):
        Budget.parse("$5").seconds_at(None)
    with pytest.raises(ValueError, match="in EUR, and the budget in USD"):
        Budget.parse("$5").seconds_at(Money(1, "EUR"))


def test_a_cost_is_the_price_by_the_hours() -> None:
    assert cost_of(1800, Money(0.5, "EUR")) == Money(0.25, "EUR")


@pytest.mark.parametrize(
    ("amount", "shown"),
    [(0, "$0.00"), (12.345, "$12.35"), (0.04, "$0.04"), (0.0042, "$0.0042"), (0.00001, "less than $0.0001")],
)
def test_a_cost_is_shown_in_cents_or_smaller_where_it_is_less(amount: float, shown: str) -> None:
    assert Money(amount).shown == shown


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.25, "0.2s"), (2, "2s"), (59.4, "59s"), (192, "3m 12s"), (180, "3m"), (7260, "2h 1m"), (7200, "2h")],
)
def test_a_time_is_shown_by_its_two_largest_units(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
