"""Reads the reward that a verifier has written: `reward.json`, or else `reward.txt`.

A text that is not a finite number is a failure of the verifier, never a zero. The files are read as Harbor reads them:
a text is a number as Python's `float` reads it, and JSON booleans are 1 and 0. The differences: a `reward.json` may be
a single number, as the format says; an empty object, a name that occurs twice and a number that no float holds are
failures. A `reward.json` that cannot be read is a failure also beside a valid `reward.txt`: the verifier's first word
is not replaced by another one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

DIRECTORY = "/logs/verifier"
"""Where a verifier writes, in its machine."""

JSON_NAME, TEXT_NAME = "reward.json", "reward.txt"
MOST_BYTES = 64 << 10
"""A reward file that is larger is a failure of the verifier."""

_MOST_NAMES = 256
_SHOWN_CHARACTERS = 60
_REWARD = "reward"


class InvalidRewardError(Exception):
    """A verifier left no valid reward; the message says why, in one line."""


def read_rewards(as_json: bytes | None, as_text: bytes | None) -> dict[str, float]:
    """The numbers that a verifier has written, by name; a single number is named `reward`.

    Args:
        as_json: The content of `reward.json`; None if there is none.
        as_text: That of `reward.txt`.

    Raises:
        InvalidRewardError: If there is no valid one.
    """
    if as_json is not None:
        return _read_json(as_json)
    if as_text is not None:
        text = _text(as_text, TEXT_NAME)
        try:
            return {_REWARD: _finite(float(text), TEXT_NAME)}
        except ValueError:
            raise InvalidRewardError(f"{TEXT_NAME} is not a number: {_shown(text)}") from None
    raise InvalidRewardError(f"it wrote neither {JSON_NAME} nor {TEXT_NAME} to {DIRECTORY}")


def score_of(rewards: Mapping[str, float]) -> float:
    """The reward that several names amount to: that of `reward`, else their mean."""
    return rewards[_REWARD] if _REWARD in rewards else math.fsum(rewards.values()) / len(rewards)


def _read_json(content: bytes) -> dict[str, float]:
    text = _text(content, JSON_NAME)
    try:
        value = json.loads(text, object_pairs_hook=_object)
    except (ValueError, RecursionError):
        raise InvalidRewardError(f"{JSON_NAME} is not JSON: {_shown(text)}") from None
    if not isinstance(value, dict):
        return {_REWARD: _number(value, JSON_NAME)}
    if not value:
        raise InvalidRewardError(f"{JSON_NAME} names no reward")
    if len(value) > _MOST_NAMES:
        raise InvalidRewardError(f"{JSON_NAME} names {len(value)} rewards, and {_MOST_NAMES} are allowed")
    return {name: _number(number, f"{_shown(name)} in {JSON_NAME}") for name, number in value.items()}


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InvalidRewardError(f"{JSON_NAME} has a name twice")
    return found


def _number(value: object, where: str) -> float:
    if not isinstance(value, int | float):
        raise InvalidRewardError(f"{where} is not a number: {_shown(repr(value))}")
    try:
        return _finite(float(value), where)
    except OverflowError:
        raise InvalidRewardError(f"{where} is too large") from None


def _finite(value: float, where: str) -> float:
    if not math.isfinite(value):
        raise InvalidRewardError(f"{where} is not finite: {value}")
    return value


def _text(content: bytes, name: str) -> str:
    if len(content) > MOST_BYTES:
        raise InvalidRewardError(f"{name} is larger than {MOST_BYTES >> 10} KiB")
    if not content.strip():
        raise InvalidRewardError(f"{name} is empty")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidRewardError(f"{name} is not text in UTF-8") from None


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[: _SHOWN_CHARACTERS - 1]}…"
