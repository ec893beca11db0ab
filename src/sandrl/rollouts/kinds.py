"""The words for how an episode goes; a module of its own, because the command line needs them to show its help."""

from __future__ import annotations

from enum import StrEnum

DEFAULT_CONCURRENCY = 32
"""How many episodes are played at once."""


class EpisodeKind(StrEnum):
    """How an episode goes: with tools to call, or with code in answers and errors fed back."""

    ATTEMPTS = "attempts"
    TOOLS = "tools"


class ToolSet(StrEnum):
    """What a policy may use in an episode: execute and submit code, or shell and files, too."""

    CODE = "code"
    ALL = "all"


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
