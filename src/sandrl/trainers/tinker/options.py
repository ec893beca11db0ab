"""The options of a Tinker service, and the errors of a client's request as opposed to errors of the service."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

EXTRA = "art-tinker"

TINY_CONTEXT = 4_096
"""The longest conversation, in tokens, that the tiny policy is given."""


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """A service of the Tinker API.

    Attributes:
        model: What `from_pretrained` of transformers takes: a directory, or the name of a model on the hub.
        state: The directory of the checkpoints.
        alias: A further name under which clients may ask for the model; empty for none.
        trains_all: Train all weights; else the LoRA adapters that a client asks for.
        context: The longest sequence in tokens; the model's own limit unless given.
        seed: Decides the samples of requests that name no seed; None for samples that differ from run to run.
        keep: How many checkpoints of each kind a training run keeps, the latest; None for all.
        max_queue: How many requests may wait.
    """

    model: str
    state: Path
    alias: str = ""
    trains_all: bool = False
    context: int | None = None
    seed: int | None = None
    keep: int | None = None
    max_queue: int = 4_096


class RequestError(Exception):
    """A request that cannot be done as it was made; the SDK raises it with the category `user`."""


class NotFoundError(RequestError):
    """The request names a model, a checkpoint or a sampler that does not exist."""


class NameTakenError(RequestError):
    """The request would save a checkpoint under a name that is in use; the SDK takes this for a save done twice."""


class QueueFullError(RequestError):
    """The queue is full; the SDK sends the request again later."""
