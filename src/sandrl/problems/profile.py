"""The pass rate of each problem in an earlier run, by which a training chooses and orders its problems.

A rate is that of the latest step of a problem, without greedy answers and completions without a reward: of an
evaluation, all of them. A problem that has other checks than the problem of that name in the run counts as unmeasured.
A training keeps the rates that it has used, so it has the same problems when it is resumed, also if the earlier run is
gone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sandrl.config.difficulty import Range
from sandrl.errors import InputError, ServiceError
from sandrl.files import write_whole
from sandrl.problems.problem import Problem
from sandrl.problems.problem_records import problem_row
from sandrl.problems.schedule import THIS
from sandrl.problems.store import select
from sandrl.runs.columns import RunColumns
from sandrl.runs.comparison import Part, Selection, Tally, checks_of, tallies
from sandrl.runs.index import find_run
from sandrl.runs.reader import RunReader
from sandrl.settings import Settings

FILE = "profile.json"
"""The rates that a training has used, in its run directory."""

_OF_PROBLEMS = frozenset({"problems validate", "redteam"})


class _Configuration(Protocol):
    @property
    def profile(self) -> str | None: ...

    @property
    def difficulty(self) -> str | None: ...


class _Kept(BaseModel):
    model_config = ConfigDict(extra="ignore")

    rates: dict[str, float] = Field(default_factory=dict)


@dataclass(slots=True)
class Profile:
    """Pass rates by name, and which problems they left out.

    Attributes:
        name: The run that measured them.
        rates: Those of the training problems, from 0 to 1, when these have been chosen.
        harder: How many problems were left out because they pass less often than the range says; `easier` more often.
        unmeasured: How many have no rate; `changed` of these have other checks in the run.
    """

    name: str
    difficulty: Range | None = None
    rates: dict[str, float] = field(default_factory=dict)
    chosen: int = 0
    harder: int = 0
    easier: int = 0
    unmeasured: int = 0
    changed: int = 0
    columns: RunColumns | None = None

    @classmethod
    def of(cls, config: _Configuration, settings: Settings, *, resume: Path | None = None) -> Self | None:
        """The profile that a configuration asks for; None if it asks for none, or is to measure its own.

        Args:
            resume: The directory of the run to resume, whose rates are used.

        Raises:
            InputError: If there is no such run, or it has measured nothing about a model.
        """
        if config.profile is None or config.profile == THIS:
            return None
        difficulty = None if config.difficulty is None else Range.of(config.difficulty)
        if resume is not None:
            try:
                kept = _Kept.model_validate_json((resume / FILE).read_bytes())
            except (OSError, ValidationError) as error:
                message = "the pass rates that the run was begun with cannot be read, so it cannot be resumed"
                raise InputError(message, path=resume / FILE, hint="start a new run", fields=("profile",)) from error
            return cls(config.profile, difficulty, kept.rates)
        run = find_run(config.profile, settings.state_dir, settings.runs_dir)
        reader = RunReader(run)
        if reader.is_running:
            message = "is still running, so its pass rates change"
            raise InputError(message, path=run, hint="wait for its end, or name another run", fields=("profile",))
        command = reader.config.command
        if command in _OF_PROBLEMS:
            message = f"is a run of `sandrl {command}`, which measures problems and no model"
            raise InputError(message, path=run, hint="measure a model: sandrl eval", fields=("profile",))
        columns = RunColumns(run, settings.cache_dir)
        columns.refresh(math.inf)
        return cls(run.name, difficulty, columns=columns)

    def choose(self, problems: Mapping[str, Problem], source: str) -> Mapping[str, Problem]:
        """The problems within the range of difficulty; without one, all.

        Raises:
            InputError: If none of them was measured, or none is left.
        """
        if self.columns is not None:
            self._measure(problems, self.columns)
        self.unmeasured = sum(name not in self.rates for name in problems)
        if self.unmeasured == len(problems):
            others = f", {self.changed} of these with other checks" if self.changed else ""
            raise InputError(
                f"the profile {self.name} has a pass rate of none of the {len(problems)} training problems{others}",
                path=source,
                hint="measure them: sandrl eval --problems SET --samples 8",
                fields=("profile",),
            )
        if self.difficulty is None:
            return problems
        known = {name: self.rates[name] for name in problems if name in self.rates}
        names = [name for name, rate in known.items() if rate in self.difficulty]
        self.chosen = len(names)
        self.harder = sum(rate < self.difficulty.low for rate in known.values())
        self.easier = sum(rate > self.difficulty.high for rate in known.values())
        if not names:
            raise InputError(
                f"no problem is left by difficulty: {self.remark}",
                path=source,
                hint="use a wider range, or measure with more samples: sandrl eval --samples 8",
                fields=("difficulty",),
            )
        return select(problems, names)

    @property
    def remark(self) -> str:
        """How many problems were left out and why, in one line; empty if none was."""
        other = f" ({self.changed} of these have other checks there)" if self.changed else ""
        if self.difficulty is None:
            what = f"profile {self.name}: {self.unmeasured} training problems were not measured{other}; they count as"
            return f"{what} half solved" if self.unmeasured else ""
        parts = [
            f"{self.harder} pass less often" if self.harder else "",
            f"{self.easier} pass more often" if self.easier else "",
            f"{self.unmeasured} were not measured{other}" if self.unmeasured else "",
        ]
        left_out = ", ".join(filter(None, parts))
        among = self.chosen + self.harder + self.easier + self.unmeasured
        range_ = f"{self.difficulty.low:g}..{self.difficulty.high:g}"
        kept = f"profile {self.name}: {self.chosen} of {among} training problems have a pass rate in {range_}"
        return f"{kept}; left out: {left_out}" if left_out else ""

    def keep(self, run: Path) -> None:
        """Keeps the rates in a run directory, unless it has some.

        Raises:
            ServiceError: If they cannot be written.
        """
        path = run / FILE
        try:
            if not path.exists():
                write_whole(path, _Kept(rates=self.rates).model_dump_json().encode() + b"\n")
        except OSError as error:
            raise ServiceError(f"{path}: cannot be written: {error.strerror}") from error

    def _measure(self, problems: Mapping[str, Problem], columns: RunColumns) -> None:
        with columns.opened() as database:
            found = {tally.task_id: tally for tally in tallies(database, Selection(Part.LATEST))}
            if not any(tally.scored for tally in found.values()):
                message = "has no completion with a reward, so it has no pass rates"
                raise InputError(message, path=columns.run, hint="name another run", fields=("profile",))

            def is_other(problem: Problem, tally: Tally) -> bool:
                record = None if tally.digest is None else columns.problem(database, tally.digest)
                return record is not None and checks_of(record) != checks_of(problem_row(problem, job_id=""))

            for name, problem in problems.items():
                tally = found.get(name)
                if tally is None or tally.share is None:
                    continue
                if is_other(problem, tally):
                    self.changed += 1
                else:
                    self.rates[name] = tally.share
