"""The values of fields that several packages use and no other package at this level defines."""

from __future__ import annotations

from enum import StrEnum

BUNDLED = "bundled"
"""The problems that come with sandrl, which need no file."""

TINY = "tiny"
"""The name of the tiny policy, and of the problems that it can learn."""


NO_SYSTEM_PROMPT = "none"
"""The word for a conversation without a system message."""

OWN_TEMPLATE, PLAIN_TEMPLATE = "own", "plain"
"""The words for a model's own chat template, and for the texts of a conversation without one."""


class Extraction(StrEnum):
    """Where in a completion its code is.

    Attributes:
        AUTO: An `<answer>`, else fenced blocks (Python ones first), else a `<code>`, else a text that is code.
        ANSWER: An `<answer>`; an open one counts.
        EXACT: The whole text must be one `<answer>…</answer>`.
        FENCE: Fenced blocks, Python ones first.
        RAW: The text as it is.
    """

    AUTO = "auto"
    ANSWER = "answer"
    EXACT = "exact"
    FENCE = "fence"
    RAW = "raw"


class EpisodeKind(StrEnum):
    """How an episode goes: with tools to call, or with code in answers and errors fed back."""

    ATTEMPTS = "attempts"
    TOOLS = "tools"


class Overlap(StrEnum):
    """What sandboxes do while the policy samples and learns.

    Attributes:
        NONE: They wait until a batch is generated.
        ANSWERS: They judge each answer when it has ended.
        STEP: They also judge the answers of a step while the step before it trains, and the next one is sampled.
    """

    NONE = "none"
    ANSWERS = "answers"
    STEP = "step"


class ToolSet(StrEnum):
    """What a policy may use in an episode: execute and submit code, or shell and files, too."""

    CODE = "code"
    ALL = "all"


class VerifierPlace(StrEnum):
    """Where the verifier of a task runs whose task does not say `separate`; the weakest first.

    Attributes:
        TASK: As the task says.
        SEPARATE: In a fresh sandbox, from the whole state that the agent left.
        ARTIFACTS: In a fresh sandbox of the untouched image, with nothing of the agent's but the working directory and
            the paths that the verifier mentions.
    """

    TASK = "task"
    SEPARATE = "separate"
    ARTIFACTS = "artifacts"


class Curriculum(StrEnum):
    """In which order each pass goes through the problems, by their pass rates."""

    EASY_FIRST = "easy-first"
    HARD_FIRST = "hard-first"
