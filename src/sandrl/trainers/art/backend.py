"""The protocol of a training backend: it samples from the model and performs optimizer steps.

A backend reports steps and tokens, not success. A step that changed no weights is detected from these numbers, because
the libraries raise no error for it.
"""

from __future__ import annotations

import math
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sandrl.models.client import ModelEndpoint
from sandrl.trainers.art.groups import Group

LOOPBACK = "127.0.0.1"

# What ART and what it calls raise for a conversation or a batch they cannot deal with, besides errors of services.
UNTRAINABLE = (ValueError, TypeError, KeyError, AssertionError, NotImplementedError, RuntimeError)


def served_here(token: str) -> dict[str, Any]:
    """What a server for a model is started with, as ART takes it: loopback alone, a port nobody listens at, a token."""
    return {"server_args": {"host": LOOPBACK, "port": free_port(), "api_key": token}}


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as found:
        found.bind((LOOPBACK, 0))
        return int(found.getsockname()[1])


@dataclass(frozen=True, slots=True)
class Trained:
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


class TrainedModel(Protocol):
    """A model that is being trained, between the two ends of its life."""

    needs_logprobs: bool
    """Whether sampled tokens without logprobs are scored nowhere, so that they cannot be trained on."""

    @property
    def step(self) -> int:
        """How many steps it has had."""
        ...

    @property
    def endpoint(self) -> ModelEndpoint:
        """Where it can be asked, with the token that takes."""
        ...

    @property
    def name(self) -> str:
        """What its endpoint calls it, as it is after its last step."""
        ...

    def check_alive(self) -> None:
        """Makes sure, within seconds, that what it depends on answers.

        Raises:
            ServiceError: If it does not.
        """
        ...

    def score(self, groups: Sequence[Group], tools: Sequence[Mapping[str, Any]]) -> Sequence[Group]:
        """Finds the tokens and logprobs that what others said has under the model as it is now.

        Args:
            groups: What was said.
            tools: The tools that were offered.

        Returns:
            The same, but without any where the model cannot read that much.

        Raises:
            ServiceError: If the backend fails.
            InterruptedRunError: If the user does not want to wait any more.
        """
        ...

    def train(self, groups: Sequence[Group], tools: Sequence[Mapping[str, Any]], *, learning_rate: float) -> Trained:
        """Takes one step, by groups whose rewards differ.

        Args:
            groups: What to learn from, with logprobs.
            tools: The tools that were offered.
            learning_rate: Of the step.

        Raises:
            ServiceError: If the backend fails.
            InterruptedRunError: If the user does not want to wait any more.
        """
        ...

    def close(self) -> None:
        """Ends its server; what was trained stays."""
        ...


def left_out(groups: Sequence[Group]) -> int:
    """How many episodes of groups could not be scored."""
    return sum(not sample.has_logprobs for group in groups for sample in group.samples)


def count_tokens(groups: Sequence[Group]) -> int:
    """How many sampled tokens of groups have an advantage that is not 0."""
    return sum(
        len(sample.messages[turn].tokens)
        for group in groups
        for sample in group.samples
        if not math.isclose(sample.reward, group.mean_reward, abs_tol=1e-9)
        for turn in sample.turns
    )
