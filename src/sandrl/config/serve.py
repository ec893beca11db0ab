"""The configuration of `sandrl serve`, and what a request to it may ask for by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from sandrl.bounds import LARGEST_WEIGHT
from sandrl.config.fields import PROBLEMS, SANDBOXES, SERVICE, Option
from sandrl.config.model import Count, Seconds
from sandrl.config.parts import PROBLEMS_HELP, CachePart, MappingPart, SandboxesPart, ScoringPart, SkipBadRows

POLICIES = ("binary", "fraction")
"""The rewards that a request may ask for; a function of one's own is the operator's to name."""


class RequestOptions(ScoringPart, MappingPart):
    """How the completions of one request are scored; what is not given is what the service was started with."""

    @model_validator(mode="after")
    def _is_the_clients_to_choose(self) -> Self:
        if self.second_opinion:
            raise ValueError("second_opinion is no option of a request: `sandrl reward` measures it")
        return self


class ServeConfig(SandboxesPart, CachePart, MappingPart):
    """`sandrl serve`."""

    problems: Annotated[
        tuple[str, ...],
        Option(
            "A set of problems that requests may name by `task_id`; repeatable. Requests may always bring problems of"
            " their own. " + PROBLEMS_HELP,
            PROBLEMS,
            metavar="SET|FILE",
            values="problem_sets",
        ),
    ] = ()
    skip_bad_rows: SkipBadRows = False
    host: Annotated[str, Option("The address to listen on.", SERVICE)] = "127.0.0.1"
    port: Annotated[
        int, Field(ge=0, lt=65536), Option("The port to listen on; 0 for any that is free.", SERVICE, metavar="PORT")
    ] = 8642
    certificate: Annotated[
        Path | None, Option("PEM file with the certificate chain: the service speaks HTTPS.", SERVICE, metavar="FILE")
    ] = None
    certificate_key: Annotated[
        Path | None, Option("PEM file with the key of the certificate.", SERVICE, metavar="FILE", flag="--key")
    ] = None  # fmt: skip
    insecure: Annotated[
        bool, Option("Listen on other addresses than this machine's own without TLS.", SERVICE)
    ] = False  # fmt: skip
    max_queue: Annotated[
        Count, Option("How many completions may wait; more are answered with 429.", SERVICE, metavar="N")
    ] = 65_536
    max_body_bytes: Annotated[
        Count,
        Option("The largest body of a request.", SERVICE, metavar="BYTES", flag="--max-body"),
    ] = 64 << 20
    drain_seconds: Annotated[
        Seconds,
        Option(
            "How long requests in hand may take after SIGTERM or Ctrl-C.",
            SERVICE,
            metavar="SECONDS",
            flag="--drain",
        ),
    ] = 60.0
    access_log: Annotated[
        bool, Option("Log a line for each request: method, route, status, time. Nothing that a client sends.", SERVICE)
    ] = False  # fmt: skip
    unscorable_reward: Annotated[
        float | None,
        Field(ge=-LARGEST_WEIGHT, le=LARGEST_WEIGHT, allow_inf_nan=False),
        Option(
            "What `/get_reward` answers for a completion without a reward; by default the request fails with 503.",
            SERVICE,
            metavar="NUMBER",
        ),
    ] = None
    sandbox_memory_bytes: Annotated[
        Count,
        Option(
            "Memory of each sandbox. The default is what clients of `/run_code` ask for as a rule.",
            SANDBOXES,
            metavar="BYTES",
            flag="--sandbox-memory",
        ),
    ] = 1 << 30

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if (self.certificate is None) != (self.certificate_key is None):
            raise ValueError("certificate and certificate_key belong together: give both, or none of them")
        if self.second_opinion:
            raise ValueError("second_opinion is no option of a service: `sandrl reward` measures it")
        return self
