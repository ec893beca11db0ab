"""The configuration of `sandrl serve`, and the options that a request to it may set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from sandrl.bounds import LARGEST_WEIGHT
from sandrl.config.fields import BYTES, PROBLEMS, SANDBOXES, SECONDS, SERVICE, option
from sandrl.config.model import Bytes, Count, Port, Seconds
from sandrl.config.parts import (
    PROBLEMS_HELP,
    CachePart,
    MappingPart,
    QualityPart,
    SandboxesPart,
    ScoringPart,
    SkipBadRows,
)

POLICIES = ("binary", "fraction")
"""The rewards that a request may ask for; a function of one's own is the operator's to name."""


class RequestOptions(ScoringPart, MappingPart):
    """How the completions of one request are scored; what is not given is what the service was started with."""

    @model_validator(mode="after")
    def _is_the_clients_to_choose(self) -> Self:
        if self.second_opinion:
            raise ValueError("second_opinion is not an option of a request; use `sandrl reward`")
        if self.hash_seeds > 1:
            raise ValueError("hash_seeds is not an option of a request; use `sandrl reward`")
        return self


class ServeConfig(SandboxesPart, CachePart, MappingPart, QualityPart):
    """`sandrl serve`."""

    short_help: ClassVar[str] = (
        "problems host port certificate certificate_key reward timeout_seconds sandbox_memory_bytes concurrency"
        " runtime max_queue access_log config_file"
    )

    problems: tuple[str, ...] = option(
        (),
        PROBLEMS_HELP + " Requests name its problems by `task_id`; they can also contain problems. Repeatable.",
        PROBLEMS,
        metavar="SET|FILE",
        values="problem_sets",
    )
    skip_bad_rows: SkipBadRows = False
    host: str = option("127.0.0.1", "Address to listen on.", SERVICE, metavar="HOST")
    port: Port = option(8642, "Port to listen on; 0: any free port.", SERVICE, metavar="PORT")
    certificate: Path | None = option(
        None, "PEM file with the certificate chain; enables HTTPS.", SERVICE, metavar="FILE"
    )
    certificate_key: Path | None = option(
        None, "PEM file with the private key of the certificate.", SERVICE, metavar="FILE", flag="--key"
    )
    insecure: bool = option(False, "Allow a --host other than this machine's loopback without HTTPS.", SERVICE)
    max_queue: Count = option(
        65_536, "Maximum number of waiting completions; more are answered with status 429.", SERVICE, metavar="N"
    )
    max_body_bytes: Bytes = option(
        64 << 20, "Maximum size of a request body.", SERVICE, metavar=BYTES, flag="--max-body"
    )
    max_episodes: Count = option(
        64,
        "Maximum number of unfinished episodes of a client; more are answered with status 429.",
        SERVICE,
        metavar="N",
    )
    episode_idle_seconds: Seconds = option(
        900.0,
        "An episode without a call for this long ends without a reward.",
        SERVICE,
        metavar=SECONDS,
        flag="--episode-idle",
    )
    drain_seconds: Seconds = option(
        60.0, "Time for current requests to finish after SIGTERM or Ctrl-C.", SERVICE, metavar=SECONDS, flag="--drain"
    )
    access_log: bool = option(
        False, "Log a line for each request: method, route, status, time; never the contents.", SERVICE
    )
    unscorable_reward: Annotated[float | None, Field(ge=-LARGEST_WEIGHT, le=LARGEST_WEIGHT, allow_inf_nan=False)] = (
        option(
            None,
            "Reward that `/get_reward` returns for an unscorable completion; default: the request fails with status"
            " 503.",
            SERVICE,
            metavar="NUMBER",
        )
    )
    sandbox_memory_bytes: Bytes = option(
        1 << 30,
        "Memory of each sandbox. The default is the value that `/run_code` clients usually request.",
        SANDBOXES,
        metavar=BYTES,
        flag="--sandbox-memory",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if (self.certificate is None) != (self.certificate_key is None):
            raise ValueError("certificate and certificate_key belong together: give both, or neither")
        if self.second_opinion:
            raise ValueError("second_opinion is not an option of a service; use `sandrl reward`")
        if self.hash_seeds > 1:
            raise ValueError("hash_seeds is not an option of a service; use `sandrl reward`")
        return self
