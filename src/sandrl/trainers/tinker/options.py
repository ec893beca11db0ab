"""The options of a Tinker service, and the errors of a client's request as opposed to errors of the service."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

EXTRA = "art-tinker"
SERVICE_EXTRA = "tinker"

TINY_CONTEXT = 4_096
"""The longest conversation, in tokens, that the tiny policy is given."""


MOST_RANK = 1_024


class AdapterConfig(BaseModel):
    """The LoRA adapters that a client asks for, in the words of the API.

    Attributes:
        rank: Their rank.
        seed: Decides their initial weights; None for chance.
        train_unembed, train_mlp, train_attn: Where they are: on the output layer, on MLPs and experts, on attention.
    """

    model_config = ConfigDict(frozen=True)

    rank: int = Field(32, ge=1, le=MOST_RANK)
    seed: int | None = None
    train_unembed: bool = True
    train_mlp: bool = True
    train_attn: bool = True


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
        dtype: The numbers that the model computes with, `float32` or `bfloat16`; what is trained is in 32 bits.
        keep: How many checkpoints of each kind a training run keeps, the latest; None for all.
        max_queue: How many requests may wait.
    """

    model: str
    state: Path
    alias: str = ""
    trains_all: bool = False
    context: int | None = None
    seed: int | None = None
    dtype: str = "float32"
    keep: int | None = None
    max_queue: int = 4_096


class RequestError(Exception):
    """A request that cannot be done as it was made; the SDK raises it with the category `user`."""


class NotFoundError(RequestError):
    """The request names a model, a checkpoint or a sampler that does not exist."""


class NameTakenError(RequestError):
    """The request would save a checkpoint under a name that is in use."""


class QueueFullError(RequestError):
    """The queue is full; the SDK sends the request again later."""
