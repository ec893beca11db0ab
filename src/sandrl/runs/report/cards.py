"""The cards of a run, as its pages show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sandrl.runs.cards import Card, CardSet, card_document

# What only the page of one card shows; there may be thousands of cards.
_LONG = ("mutants", "reached", "null_reason", "stubs")


def card_brief(card: Card) -> dict[str, Any]:
    """What a list has of a card: some fields of its document."""
    document = {name: value for name, value in card_document(card).items() if name not in _LONG}
    return {**document, "cheats": [{"name": each.name, "group": each.group} for each in card.cheats]}


def cards_part(found: Sequence[Card]) -> dict[str, Any] | None:
    """The card of the set; None if there are no cards."""
    return CardSet.of(found).document() if found else None
