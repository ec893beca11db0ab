"""The configuration of `sandrl tinker serve`."""

from __future__ import annotations

import ipaddress
from enum import StrEnum
from pathlib import Path
from typing import Self

from pydantic import model_validator

from sandrl.config.fields import MODEL, OUTPUT, SERVICE, TRAINING, option
from sandrl.config.model import Config, Count, Port, Seed
from sandrl.config.words import TINY

_LOCALHOST = "localhost"


class Dtype(StrEnum):
    """The numbers of weights."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


class TinkerServeConfig(Config):
    """`sandrl tinker serve`."""

    model: str = option(
        TINY, "The model to serve: `tiny`, a directory, or a Hugging Face model (OWNER/NAME).", MODEL, metavar="MODEL"
    )
    max_context: Count | None = option(
        None,
        "Maximum length of a sequence, in tokens.",
        MODEL,
        metavar="N",
        default="the limit of the model; 4096 for `tiny`",
    )
    lora: bool = option(True, "Train the LoRA adapters that clients request, or all weights.", TRAINING)
    dtype: Dtype = option(
        Dtype.FLOAT32,
        "Numbers that the model computes with; `bfloat16` halves its memory. Trained tensors have 32 bits.",
        MODEL,
    )
    seed: Seed | None = option(
        None, "Random seed of the tiny policy, and of requests that name no seed.", TRAINING, metavar="N"
    )
    host: str = option("127.0.0.1", "Address to listen on; must be a loopback address.", SERVICE, metavar="HOST")
    port: Port = option(8643, "Port to listen on; 0: any free port.", SERVICE, metavar="PORT")
    max_queue: Count = option(
        4_096, "Maximum number of waiting requests; more are answered with status 429.", SERVICE, metavar="N"
    )
    state: Path | None = option(
        None, "Directory for checkpoints.", OUTPUT, metavar="DIR", default="tinker/ in the state directory"
    )

    @model_validator(mode="after")
    def _is_of_this_machine(self) -> Self:
        try:
            is_loopback = self.host == _LOCALHOST or ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            is_loopback = False
        if not is_loopback:
            raise ValueError(f"host: is {self.host!r}, and must be a loopback address, such as 127.0.0.1")
        return self
