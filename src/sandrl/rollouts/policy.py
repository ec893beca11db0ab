"""A policy as those see it who ask it: questions in, texts out.

The design decision: a policy answers a batch, whole, so that a model in this process can generate it at once and an
endpoint be asked for all of it in parallel; how many make a good batch is for the policy to say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from sandrl.errors import UsageError


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to generate.

    Attributes:
        temperature: 0 is greedy; nothing else cuts the distribution off.
        max_tokens: The longest answer.
    """

    temperature: float = 1.0
    max_tokens: int = 512

    def __post_init__(self) -> None:
        if not 0 <= self.temperature <= 100:
            raise UsageError(f"--temperature must be from 0 to 100, not {self.temperature:g}")
        if self.max_tokens < 1:
            raise UsageError(f"--max-tokens must be 1 or more, not {self.max_tokens}")

    @property
    def is_greedy(self) -> bool:
        """Whether the likeliest token is always taken."""
        return self.temperature == 0


@dataclass(frozen=True, slots=True)
class Question:
    """What a policy is asked.

    Attributes:
        messages: The conversation to continue, as chat messages.
        seed: Decides what is sampled, as far as the policy can.
    """

    messages: Sequence[dict[str, str]]
    seed: int = 0


class Policy(Protocol):
    """Something that answers.

    Attributes:
        name: What it is called in reports and tags.
        batch_size: How many questions it likes to be asked at once.
    """

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def batch_size(self) -> int:
        """How many questions at once."""
        ...

    def answer(
        self, questions: Sequence[Question], sampling: Sampling, *, is_stopped: Callable[[], bool]
    ) -> list[str] | None:
        """Answers each question, in order.

        Args:
            questions: What to answer.
            sampling: How.
            is_stopped: Looked at often; once it is true, the answers are not wanted any more.

        Returns:
            The texts; None if it was stopped.

        Raises:
            ServiceError: If an endpoint does not answer, or refuses.
        """
        ...
