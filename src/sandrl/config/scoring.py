"""The configurations of the commands that score completions there are already, or that need no model."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import model_validator

from sandrl.config.fields import OUTPUT, PROBLEMS, SANDBOXES, SCORING, Option
from sandrl.config.model import Seconds, Tries
from sandrl.config.parts import (
    CachePart,
    MappingPart,
    NumProblems,
    OutputPart,
    Problems,
    SandboxesPart,
    ScoringPart,
    SkipBadRows,
)
from sandrl.config.words import BUNDLED

OF_SANDBOXES = (*SandboxesPart.model_fields, "cache", "second_opinion")
"""Options that say nothing where a service has the sandboxes."""


class ScoredRunConfig(OutputPart, SandboxesPart, CachePart, MappingPart):
    """A run whose work is to score completions."""

    problems: Problems = BUNDLED
    service: Annotated[
        str | None,
        Option(
            "Address of a `sandrl serve` that scores, instead of sandboxes of this command. Its token is in"
            " SANDRL_SERVICE_TOKEN.",
            SANDBOXES,
            metavar="URL",
        ),
    ] = None

    @model_validator(mode="after")
    def _service_has_the_sandboxes(self) -> Self:
        if self.service is None:
            return self
        own = [name for name in OF_SANDBOXES if getattr(self, name) != type(self).model_fields[name].default]
        if own:
            raise ValueError(f"{own[0]} is an option of sandboxes, and with service the service has them")
        if ":" in self.reward:
            raise ValueError("reward names a function, which a service does not run: take binary or fraction")
        return self


class RewardConfig(ScoredRunConfig):
    """`sandrl reward`."""

    completions: Annotated[
        str | None,
        Option(
            "JSONL file with `task_id` and `completion` (or `code`) in each row; `-` for standard input. Without it:"
            " the five completions of the bundled demo.",
            PROBLEMS,
            metavar="COMPLETIONS",
            is_argument=True,
        ),
    ] = None
    skip_bad_rows: SkipBadRows = False
    job_id: Annotated[str | None, Option("Id of this job instead of a random one.", SANDBOXES)] = None


class ValidateConfig(SandboxesPart, CachePart, MappingPart):
    """`sandrl problems validate`."""

    problems: Problems = BUNDLED
    num_problems: NumProblems = None


class RedteamConfig(SandboxesPart, ScoringPart, MappingPart):
    """`sandrl redteam`."""

    problems: Problems = BUNDLED
    num_problems: Annotated[
        Tries, Option("Problems of each kind (functions, classes, programs); 0 for all.", PROBLEMS, metavar="N")
    ] = 2
    exploits: Annotated[
        tuple[str, ...],
        Option(
            "Only this exploit or group of exploits; repeatable.",
            PROBLEMS,
            metavar="NAME",
            flag="--exploit",
            short="-e",
            values="exploit_names",
        ),
    ] = ()
    timeout_seconds: Annotated[
        Seconds,
        Option("Time for one completion with its checks.", SCORING, metavar="SECONDS", flag="--timeout"),
    ] = 5.0


class RegradeConfig(SandboxesPart, ScoringPart, MappingPart):
    """`sandrl runs regrade`: what is not given is what the run had."""

    run: Annotated[
        str,
        Option(
            "Name, path or job id of the run. The latest unless given.",
            PROBLEMS,
            metavar="[RUN]",
            values="run_names",
            is_argument=True,
        ),
    ] = "latest"
    problems: Annotated[
        str | None,
        Option("The problems; default: those of the run.", PROBLEMS, metavar="SET|FILE", values="problem_sets"),
    ] = None
    fail_on_flips: Annotated[bool, Option("Exit 1 if a verdict is another one now.", OUTPUT)] = False
    runs_dir: Annotated[
        str | None, Option("Look for runs there, too; default: ./runs.", OUTPUT, metavar="DIR")
    ] = None  # fmt: skip
