"""The protocol of a model that generates answers, behind an endpoint or in this process.

A failed answer is a value, not an exception: a caller with a thousand questions gets the 999 answers, and the reason
why one is missing. Only failures that every further question would share (a refused key, an unknown model) are raised.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from sandrl.config.parts import SamplingPart
from sandrl.errors import UsageError
from sandrl.models.messages import Message, Reply


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to generate.

    Attributes:
        temperature: 0 is greedy; nothing else cuts the distribution off.
        max_tokens: The longest answer; None leaves it to the model.
        use_own: Apply the settings that the model has of its own, besides; only in this process.
        top_p: The likeliest tokens with this total probability are sampled from; None for all.
        top_k: So many of the likeliest tokens are; None for all.
        min_p: Tokens with at least this share of the highest probability are; None for all.
        extra_body: Further fields of a request to an endpoint; of a model in this process only `chat_template_kwargs`.
    """

    temperature: float = 1.0
    max_tokens: int | None = None
    use_own: bool = False
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    stop: tuple[str, ...] = ()
    extra_body: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 <= self.temperature <= 100:
            message = f"temperature must be from 0 to 100, not {self.temperature:g}"
            raise UsageError(message, fields=("temperature",))
        if self.max_tokens is not None and self.max_tokens < 1:
            raise UsageError(f"max_tokens must be 1 or more, not {self.max_tokens}", fields=("max_tokens",))

    @classmethod
    def of(cls, config: SamplingPart) -> Self:
        return cls(
            config.temperature,
            config.max_tokens,
            top_p=config.top_p,
            top_k=config.top_k,
            min_p=config.min_p,
            stop=config.stop,
            extra_body=config.extra_body,
        )

    @property
    def chosen(self) -> dict[str, Any]:
        """The settings that cut the distribution off, as far as they were asked for."""
        settings = {"top_p": self.top_p, "top_k": self.top_k, "min_p": self.min_p}
        return {name: value for name, value in settings.items() if value is not None}

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0


@dataclass(frozen=True, slots=True)
class TokenLimit:
    """The longest answer of a model, None if no limit is set here, and where that comes from, as a clause."""

    tokens: int | None
    why: str


@dataclass(frozen=True, slots=True)
class Question:
    """What a model is asked; the tools that it may call are JSON schemas of functions."""

    number: int
    messages: Sequence[Message]
    seed: int = 0
    tools: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a question: a reply, or why there is none; `is_lost` if that was not the fault of this question."""

    number: int
    reply: Reply | None
    failure: str = ""
    is_lost: bool = False


class Player(Protocol):
    """A model that continues conversations; threads may share one.

    Attributes:
        has_tools: Whether it can be offered tools.
    """

    name: str
    has_tools: bool

    def reply(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        stop: threading.Event | None = None,
    ) -> Reply:
        """The next message of a conversation, in which the tools, JSON schemas of functions, may be called.

        Args:
            stop: Once it is set, this answer is not wanted any more.

        Raises:
            ServiceError: If there is no answer.
            UsageError: If the question, or the model, cannot be used.
            Stopped: If the answer is not wanted any more.
        """
        ...

    def close(self) -> None: ...


class Model(Player, Protocol):
    """A model that can be asked many questions at once, so many as its batch size says."""

    batch_size: int

    @property
    def limit(self) -> TokenLimit: ...

    def answers(self, questions: Sequence[Question]) -> Iterator[Answer]:
        """Answers questions, in the order in which answers come; ends early once they are not wanted any more."""
        ...
