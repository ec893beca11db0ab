"""The configurations of the commands that score existing completions or need no model."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from sandrl.config.fields import OUTPUT, PROBLEMS, SANDBOXES, SCORING, SECONDS, option
from sandrl.config.model import Count, Seconds, Tries
from sandrl.config.parts import (
    CachePart,
    JudgePart,
    LockPart,
    MappingPart,
    NumProblems,
    OutputPart,
    Problems,
    QualityPart,
    RunPart,
    SandboxesPart,
    ScoringPart,
    SkipBadRows,
)
from sandrl.config.words import BUNDLED

MOST_REPEATS = 10_000
"""How often one agent runs in a validation at most: the interval of a flake rate is then below 0.04%."""

OF_SANDBOXES = (*SandboxesPart.model_fields, "cache", "second_opinion", "hash_seeds")
"""Options that say nothing where a service has the sandboxes."""


class ScoredRunConfig(OutputPart, SandboxesPart, CachePart, MappingPart, LockPart, QualityPart):
    """A run whose work is to score completions."""

    problems: Problems = BUNDLED
    skip_bad_rows: SkipBadRows = False
    service: str | None = option(
        None,
        "Score with the service (`sandrl serve`) at this address, without own sandboxes. Its token is read from"
        " SANDRL_SERVICE_TOKEN.",
        SANDBOXES,
        metavar="URL",
    )

    @model_validator(mode="after")
    def _service_has_the_sandboxes(self) -> Self:
        if self.service is None:
            return self
        own = [name for name in OF_SANDBOXES if getattr(self, name) != type(self).model_fields[name].default]
        if own:
            raise ValueError(f"{own[0]} cannot be used with service, which has its own sandboxes; leave one out")
        if getattr(self, "judge_base_url", None) is not None:
            raise ValueError("judge_base_url cannot be used with service, which grades nothing; leave one out")
        if ":" in self.reward:
            raise ValueError("reward names a function, and a service does not run functions: use binary or fraction")
        return self


class RewardConfig(ScoredRunConfig, JudgePart):
    """`sandrl reward`."""

    short_help: ClassVar[str] = (
        "problems reward timeout_seconds packages concurrency runtime out fail_under json_ verbose quiet config_file"
    )

    completions: str | None = option(
        None,
        "File of completions in any format of the field (JSONL, JSON, CSV, parquet, `.eval`), a directory (a run,"
        " samples of EvalPlus), or `-` for standard input. Default: the five completions of the bundled demo.",
        PROBLEMS,
        metavar="COMPLETIONS",
        is_argument=True,
    )
    completion_fields: tuple[str, ...] = option(
        (),
        "Map fields of rows of completions whose format is not recognised: `task_id=meta.task,completion=reply`."
        " `FIELD:=VALUE` sets one value for all rows.",
        PROBLEMS,
        metavar="FIELD=PATH,…",
        flag="--map-completions",
        separator=",",
    )
    job_id: str | None = option(None, "Id of this job; default: a random id.", SANDBOXES, metavar="ID")


class ValidateConfig(RunPart, SandboxesPart, CachePart, MappingPart, LockPart):
    """`sandrl problems validate`."""

    short_help: ClassVar[str] = (
        "problems num_problems repeats fields timeout_seconds packages concurrency runtime resume json_ verbose quiet"
        " config_file"
    )

    given: str | None = option(
        None,
        "The problems, as `--problems` names them.",
        PROBLEMS,
        metavar="[SET|FILE]",
        values="problem_sets",
        is_argument=True,
    )
    problems: Problems = BUNDLED
    num_problems: NumProblems = None
    skip_bad_rows: SkipBadRows = False
    repeats: Annotated[Count, Field(le=MOST_REPEATS)] | None = option(
        None,
        "Run each solution, and an agent that does nothing, N times, which shows how often a verifier flakes."
        " Default: 3 for tasks, 1 for other problems.",
        PROBLEMS,
        metavar="N",
    )

    @property
    def source(self) -> str:
        """Where the problems are."""
        return self.problems if self.given is None else self.given


class RedteamConfig(RunPart, SandboxesPart, ScoringPart, JudgePart, MappingPart, LockPart):
    """`sandrl redteam`."""

    short_help: ClassVar[str] = (
        "problems num_problems exploits list_ timeout_seconds reward concurrency runtime resume json_ verbose quiet"
        " config_file"
    )

    problems: Problems = BUNDLED
    num_problems: Tries | None = option(
        None,
        "Number of problems of each kind (functions, classes, programs), and of tasks; 0: all. Default: 2 of each kind,"
        " and all tasks.",
        PROBLEMS,
        metavar="N",
    )
    exploits: tuple[str, ...] = option(
        (),
        "Run only this exploit, or this cheat of tasks, or this group of them; repeatable.",
        PROBLEMS,
        metavar="NAME",
        flag="--exploit",
        short="-e",
        values="exploit_names",
    )
    mutants: Tries = option(
        12,
        "Change the final state of each task's solution in up to N ways, of which each must lower the reward; 0 for no"
        " change.",
        PROBLEMS,
        metavar="N",
    )
    timeout_seconds: Seconds = option(
        5.0, "Time limit for one completion and its checks.", SCORING, metavar=SECONDS, flag="--timeout"
    )

    @model_validator(mode="after")
    def _weighs_no_grade(self) -> Self:
        if self.judge_weight != type(self).model_fields["judge_weight"].default:
            raise ValueError("judge_weight: attacks are compared by their grades, without a weight; leave it out")
        return self


class RegradeConfig(SandboxesPart, ScoringPart, MappingPart, LockPart):
    """`sandrl runs regrade`; options that are not given have the values of the run."""

    short_help: ClassVar[str] = (
        "problems fail_on_flips reward timeout_seconds concurrency runtime runs_dir dry_run json_ verbose quiet"
    )

    run: str = option(
        "latest",
        "The run: its name, path or job id.",
        PROBLEMS,
        default="the latest run",
        metavar="[RUN]",
        values="run_names",
        is_argument=True,
    )
    problems: str | None = option(
        None, "The problems; default: those of the run.", PROBLEMS, metavar="SET|FILE", values="problem_sets"
    )
    fail_on_flips: bool = option(False, "Exit with 1 if a verdict has changed.", OUTPUT)
    runs_dir: str | None = option(None, "Also search this directory for runs; default: ./runs.", OUTPUT, metavar="DIR")
