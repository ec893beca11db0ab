"""How an episode ends."""

from __future__ import annotations

from enum import StrEnum


class EpisodeEnd(StrEnum):
    """Why an episode ended, in the words of its row."""

    SUBMITTED = "submitted"
    NO_TOOL_CALLS = "no tool calls"
    NO_CALLS_LEFT = "no tool calls left"
    PASSED = "passed"
    NO_ATTEMPTS_LEFT = "no attempts left"
    CANNOT_BE_JUDGED = "cannot be judged"
    TOO_LONG = "the conversation became too long"
    LOST = "lost"
