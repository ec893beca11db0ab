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
        str, Option("The model to serve: `tiny`, a directory, or a model of the hub.", MODEL, metavar="MODEL")
    ] = TINY
    max_context: Annotated[
        Count | None,
        Option("The longest sequence, in tokens.", MODEL, metavar="N", default="the limit of the model; tiny: 4096"),
    ] = None
    lora: Annotated[bool, Option("Train the adapters that clients ask for, or all weights.", TRAINING)] = True
    seed: Annotated[
        int | None,
        Field(ge=0, lt=2**32),
        Option("Decides the tiny policy, and the samples of requests that name no seed.", TRAINING, metavar="N"),
    ] = None
    host: Annotated[str, Option("The address of this machine alone to listen on.", SERVICE)] = "127.0.0.1"
    port: Annotated[
        int, Field(ge=0, lt=65536), Option("The port to listen on; 0 for any that is free.", SERVICE, metavar="PORT")
    ] = 8643
    max_queue: Annotated[
        Count, Option("How many requests may wait; more are answered with 429.", SERVICE, metavar="N")
    ] = 4_096
    state: Annotated[
        Path | None,
        Option("Where checkpoints are kept.", OUTPUT, metavar="DIR", default="tinker in the state directory"),
    ] = None

    @model_validator(mode="after")
    def _is_of_this_machine(self) -> Self:
        try:
            is_loopback = self.host == _LOCALHOST or ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            is_loopback = False
        if not is_loopback:
            raise ValueError(f"host: is {self.host!r}, and the service listens on addresses of this machine alone")
        return self
