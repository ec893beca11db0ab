"""A model that an ART backend trains: it is sampled from, scores the messages of others, and takes optimizer steps.

A backend reports steps and tokens, not success. A step that changed no weights is detected from these numbers, because
the libraries raise no error for it.
"""

from __future__ import annotations

import secrets
import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from sandrl.config.art import ArtPolicy, ArtTrainConfig
from sandrl.models.client import ModelEndpoint
from sandrl.models.messages import TOKEN_ID, Message
from sandrl.trainers.art.groups import Group, Sample, art_group
from sandrl.trainers.art.loop import EventLoop

# What ART and what it calls raise for a conversation or a batch they cannot deal with, besides errors of services.
UNTRAINABLE = (ValueError, TypeError, KeyError, AssertionError, NotImplementedError, RuntimeError)


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step of training did.

    Attributes:
        step: How many steps the model has had now, as the backend counts.
        gradient_steps: How often its weights were changed.
        tokens: How many sampled tokens were trained on.
        metrics: What the backend measured, by its own names.
    """

    step: int
    gradient_steps: int
    tokens: int
    metrics: Mapping[str, float] = field(default_factory=dict)


class TrainedModel(ABC):
    """A model that is being trained.

    Attributes:
        needs_logprobs: Whether sampled tokens without logprobs are scored nowhere, so that they cannot be trained on.
        extra_body: What requests for its answers have besides the options of the sampling.
        found: Of a run that is resumed: what is known of the last step, of which the run may have no row.
    """

    extra: ClassVar[str]

    def __init__(self, config: ArtTrainConfig, loop: EventLoop) -> None:
        self.needs_logprobs = config.policy is ArtPolicy.TRAINED
        self.extra_body: Mapping[str, Any] = {}
        self.found: StepResult | None = None
        self._config = config
        self._loop = loop
        self._token = secrets.token_urlsafe(32)
        self._model: Any = None
        self._backend: Any = None

    @property
    @abstractmethod
    def step(self) -> int:
        """How many steps it has had."""

    @property
    def endpoint(self) -> ModelEndpoint:
        """Where it can be asked, with the token that takes."""
        return ModelEndpoint.of(self._config, self._model.inference_base_url, self._model.inference_api_key)

    @property
    def name(self) -> str:
        """What its endpoint calls it, as it is after its last step."""
        return str(self._model.get_inference_name(self.step))

    @abstractmethod
    def check_alive(self) -> None:
        """Makes sure, within seconds, that what it depends on answers.

        Raises:
            ServiceError: If it does not.
        """

    @abstractmethod
    def score(self, groups: Sequence[Group], tools: Sequence[Mapping[str, Any]]) -> Sequence[Group]:
        """Finds the tokens and logprobs that what others said has under the model as it is now.

        Turns that the model cannot read have none.

        Raises:
            ServiceError: If the backend fails.
            InterruptedRunError: If the user does not want to wait any more.
        """

    @abstractmethod
    def train(self, groups: Sequence[Group], tools: Sequence[Mapping[str, Any]], *, learning_rate: float) -> StepResult:
        """Takes one step, by groups with logprobs whose rewards differ.

        Raises:
            ServiceError: If the backend fails.
            TrainingError: If ART cannot train on these groups.
            InterruptedRunError: If the user does not want to wait any more.
        """

    def close(self) -> None:
        """Ends its server; what was trained stays."""
        self._loop.close(self._backend.close())

    def _register(self) -> None:
        # Finds the last checkpoint, or makes the model, and starts its server: on loopback alone, with a token.
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = int(found.getsockname()[1])
        server = {"server_args": {"host": "127.0.0.1", "port": port, "api_key": self._token}}
        self._loop.run(self._model.register(self._backend, _openai_client_config=server))

    def _trained(self, groups: Sequence[Group], tools: Sequence[Mapping[str, Any]], **options: Any) -> Any:
        art_groups = [art_group(group, tools, extra=self.extra) for group in groups]
        return self._loop.run(self._backend.train(self._model, art_groups, **options), is_step=True)


def scored_message(message: Message, tokens: Sequence[int], logprobs: Sequence[float | None]) -> Message:
    """A message with the ids and logprobs of its tokens; without any unless there is a logprob for each token."""
    known = tuple(each for each in logprobs if each is not None)
    if not len(known) == len(logprobs) == len(tokens):
        return replace(message, tokens=(), logprobs=())
    return replace(message, tokens=tuple(f"{TOKEN_ID}{token}" for token in tokens), logprobs=known)


def regrouped(groups: Sequence[Group], samples: Sequence[Sample]) -> list[Group]:
    """The groups with other samples, which are in the order of theirs."""
    found = iter(samples)
    return [replace(group, samples=tuple(next(found) for _ in group.samples)) for group in groups]
