"""The configuration of `sandrl tinker serve`."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from sandrl.config.fields import MODEL, OUTPUT, SERVICE, TRAINING, Option
from sandrl.config.model import Config, Count
from sandrl.config.words import TINY

_LOCALHOST = "localhost"


class TinkerServeConfig(Config):
    """`sandrl tinker serve`."""

    model: Annotated[
        str,
        Option(
            "The model to serve: `tiny`, a directory, or a Hugging Face model (OWNER/NAME).", MODEL, metavar="MODEL"
        ),
    ] = TINY
    max_context: Annotated[
        Count | None,
        Option(
            "Maximum length of a sequence, in tokens.",
            MODEL,
            metavar="N",
            default="the limit of the model; 4096 for `tiny`",
        ),
    ] = None
    lora: Annotated[bool, Option("Train the LoRA adapters that clients request, or all weights.", TRAINING)] = True
    seed: Annotated[
        int | None,
        Field(ge=0, lt=2**32),
        Option("Random seed of the tiny policy, and of requests that name no seed.", TRAINING, metavar="N"),
    ] = None
    host: Annotated[str, Option("Address to listen on; must be a loopback address.", SERVICE, metavar="HOST")] = (
        "127.0.0.1"
    )
    port: Annotated[
        int, Field(ge=0, lt=65536), Option("Port to listen on; 0: any free port.", SERVICE, metavar="PORT")
    ] = 8643
    max_queue: Annotated[
        Count,
        Option("Maximum number of waiting requests; more are answered with status 429.", SERVICE, metavar="N"),
    ] = 4_096
    state: Annotated[
        Path | None,
        Option("Directory for checkpoints.", OUTPUT, metavar="DIR", default="tinker/ in the state directory"),
    ] = None

    @model_validator(mode="after")
    def _is_of_this_machine(self) -> Self:
        try:
            is_loopback = self.host == _LOCALHOST or ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            is_loopback = False
        if not is_loopback:
            raise ValueError(f"host: is {self.host!r}, and must be a loopback address, such as 127.0.0.1")
        return self
