"""`config.json`: the options of a run, and the jobs that worked on it.

It is the only file of a run that is rewritten, always as a whole: a reader sees the old version or the new one. The
first process of a job writes it. A failure of another process is in a file of its own, and readers find it in the job's
record.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from sandrl.errors import InputError, RunOutcome
from sandrl.files import read_regular
from sandrl.runs.rows import Json, Stored, Text, now

CONFIG_FILE = "config.json"
FAILURE_FILE = "failure.rank-{rank}.json"
"""The error of a process of a distributed job, other than the first process."""
ORIGIN = "origin"
"""The option of a run that says with the weights of which other run it began."""

TOOL_SCHEMAS = "tool_schemas"
"""The fact of a run that has the tools that were offered."""

JUDGE_AGREEMENT = "judge_agreement"
"""The fact of a run that says how far its judge agrees with labelled answers: a `JudgeMeasured`."""


class JobRecord(BaseModel):
    """A job that worked on the run.

    Attributes:
        finished_at: UTC; None while it runs, and for ever if it was killed.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    job_id: str
    started_at: datetime = Field(default_factory=now)
    finished_at: datetime | None = None
    outcome: RunOutcome | None = None
    error: Text | None = None
    versions: dict[str, str] = Field(default_factory=dict)


class RunConfig(Stored):
    """The resolved configuration of a run.

    Attributes:
        jobs: The jobs that worked on it, oldest first.
    """

    run_id: str
    command: str
    created_at: datetime = Field(default_factory=now)
    options: dict[Text, Json] = Field(default_factory=dict)
    jobs: tuple[JobRecord, ...] = ()

    @property
    def subject(self) -> str | None:
        """What was evaluated or trained: the model, or the file of completions; None if the run does not say."""
        return next((each for name in ("base_model", "model", "completions") if (each := self._text(name))), None)

    @property
    def source(self) -> str | None:
        """The name of its problem set, as it was given; None if the run does not say."""
        return self._text("problems")

    @property
    def measures_problems(self) -> bool:
        """Whether its rows are runs of solutions, stubs and cheats: that one passes is not a success."""
        return self.command in ("problems validate", "redteam")

    @property
    def judge_agreement(self) -> str | None:
        """How far the model that grades its answers agrees with labelled ones; None if that was not measured."""
        found = self.options.get(JUDGE_AGREEMENT)
        text = found.get("text") if isinstance(found, dict) else None
        return text if isinstance(text, str) else None

    def _text(self, name: str) -> str | None:
        value = self.options.get(name)
        return value if isinstance(value, str) else None

    def with_end(self, end: JobRecord) -> RunConfig:
        """The same with the end of a job; the first failure of a job stands."""
        ended = end.model_dump(include={"finished_at", "outcome", "error"})
        jobs = (
            job.model_copy(update=ended) if job.job_id == end.job_id and job.outcome is not RunOutcome.FAILED else job
            for job in self.jobs
        )
        return self.model_copy(update={"jobs": tuple(jobs)})


# Far more than the options of a run ever take.
_MOST_CONFIG_BYTES = 16 << 20


def read_config(directory: Path) -> RunConfig:
    """Reads a run's configuration.

    Raises:
        InputError: If the directory is no run, or the file is damaged.
    """
    path = directory / CONFIG_FILE
    try:
        config = RunConfig.model_validate_json(read_regular(path, _MOST_CONFIG_BYTES))
        for path in sorted(directory.glob(FAILURE_FILE.format(rank="*"))):
            config = config.with_end(JobRecord.model_validate_json(read_regular(path, _MOST_CONFIG_BYTES)))
        return config
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"is not a run directory: it has no {CONFIG_FILE}", path=directory) from error
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
    except ValidationError as error:
        raise InputError("is damaged, or was written by an incompatible version of sandrl", path=path) from error


class Origin(BaseModel):
    """The checkpoint, after so many steps, that a run began with; the run that saved it, if that is known."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    run_id: Text | None = None
    step: int
    checkpoint: Text

    def __str__(self) -> str:
        """The checkpoint in a few words."""
        of = "" if self.run_id is None else f"run {self.run_id} "
        return f"{of}after {self.step} steps ({self.checkpoint})"


def origin_of(options: Mapping[str, JsonValue]) -> Origin | None:
    """The checkpoint that a run with these options began with; None if it was not one of another run."""
    try:
        return None if options.get(ORIGIN) is None else Origin.model_validate(options[ORIGIN])
    except ValidationError:
        return None
