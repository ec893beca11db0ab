"""Weights & Biases.

W&B is asked where its run is: the last step of its history, the attempts that did the steps, which are in its
configuration, and the files of tables, which arrive later than their rows. Steps that differ from the run directory are
rewound (`resume_from`), and those that are missing are sent. Where W&B does not rewind, a further W&B run gets all
steps.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from sandrl.addresses import without_users
from sandrl.events import Emit, Warned
from sandrl.extras import require
from sandrl.files import read_regular, write_whole
from sandrl.runs.config import RunConfig
from sandrl.runs.metrics import SDK_METRICS
from sandrl.runs.trackers.tracker import TrackedRun, TrackedStep
from sandrl.settings import ReportTo

INIT_TIMEOUT_SECONDS = 8.0
"""The time limit for an answer of W&B; with the time of `init` it stays below 10 s."""

FINISH_TIMEOUT_SECONDS = 30.0
"""How long the end of a run waits for W&B to have uploaded everything."""

OWN_STEP = "sandrl/step"
"""The step of a row in a W&B run of another program whose own steps are further."""

_FILE = "wandb.json"
_MOST_BYTES = 64 * 1024
_ATTEMPTS = "sandrl_attempts"
_TABLE_FILE = re.compile(r"media/table/(.+)_[0-9a-f]+\.table\.json")


class WandbRecord(BaseModel):
    """The W&B run of a run; a file of the run directory has it."""

    id: str
    project: str

    @classmethod
    def read(cls, run: TrackedRun) -> WandbRecord:
        """Reads that of a run; if there is none, or it is damaged, the one that a new run gets."""
        try:
            return cls.model_validate_json(read_regular(run.path / _FILE, _MOST_BYTES))
        except (OSError, ValidationError):
            return cls(id=run.id, project=run.project)

    def write(self, run: Path) -> None:
        """Writes it."""
        write_whole(run / _FILE, self.model_dump_json().encode() + b"\n")


def wandb_id(config: RunConfig) -> str:
    """The id of a run's W&B run: the same for a resumed run, and for no other."""
    seed = f"{config.run_id} {config.created_at.isoformat()}"
    return f"{config.run_id[:60]}-{hashlib.sha256(seed.encode()).hexdigest()[:8]}".replace(".", "-")


def active_run() -> Any:
    """The W&B run that another program has open in this process; None if there is none."""
    # Not imported for this: a run can only be active where somebody has imported it.
    return getattr(sys.modules.get("wandb"), "run", None)


class Wandb:
    """A W&B run that is a copy of a run.

    The metrics of sandboxes have a second name there, that of the SDK's own reporter. This reporter is switched off: it
    counts what the SDK runs (a worker is one command), and it logs without steps.
    """

    kind = ReportTo.WANDB
    title = "W&B"

    def __init__(self, run: TrackedRun, emit: Emit, *, finish_seconds: float = FINISH_TIMEOUT_SECONDS) -> None:
        self._wandb = require("wandb", extra="wandb")
        self._wandb.setup(self._wandb.Settings(silent=True))
        self._run = run
        self._emit = emit
        self._finish_seconds = finish_seconds
        self._record = WandbRecord.read(run)
        # The environment may name another project when the run goes on.
        self._record.write(run.path)
        self._open: Any = None

    @property
    def id(self) -> str:
        """The id of the W&B run."""
        return self._record.id

    @property
    def has_key(self) -> bool:
        """Whether there is a key, in the environment or where `wandb login` puts it."""
        return bool(self._wandb.login(prompt=False, verify=False))

    def begin(self, steps: Sequence[TrackedStep], attempt: int | None) -> str:
        attempts = _attempts(steps, attempt)
        while True:
            last, kept, without_files = self._kept(steps)
            if last == (steps[kept - 1].step if kept else -1):
                self._open = self._opened(attempts, resume="allow")
                break
            reason = "its first step is another"
            if kept:
                try:
                    moment = f"{self._record.id}?_step={steps[kept - 1].step}"
                    self._open = self._opened(attempts, resume_from=moment)
                    break
                except self._wandb.errors.Error as error:
                    reason = first_line(error)
            self._take_next_id(reason)
        for step in without_files:
            for name, table in tables_of(self._wandb, step).items():
                # Uploads the file that a row of the history names.
                table.bind_to_run(self._open, name, step.step)
        for step in steps[kept:]:
            self.add(step)
        return str(self._open.url)

    def add(self, step: TrackedStep) -> None:
        self._open.log(values_of(self._wandb, step), step=step.step, commit=True)

    def end(self, *, failed: bool) -> None:
        run, self._open = self._open, None
        if run is not None:
            run.finish(exit_code=int(failed))

    def has(self, steps: Sequence[TrackedStep]) -> bool:
        """Asks W&B whether its run has these steps and no other."""
        last, kept, without_files = self._kept(steps)
        return kept == len(steps) and not without_files and last == (steps[-1].step if steps else -1)

    def _opened(self, attempts: str, **moment: str) -> Any:
        run, wandb = self._run, self._wandb
        settings = wandb.Settings(
            # Nothing is printed by it, its answers become events; and our signals stay ours.
            silent=True,
            console="off",
            init_timeout=INIT_TIMEOUT_SECONDS,
            finish_timeout=self._finish_seconds,
            finish_timeout_raises=True,
        )
        return wandb.init(
            mode="online",
            project=self._record.project,
            id=self._record.id,
            name=run.name,
            job_type=run.command,
            config={**run.options, _ATTEMPTS: attempts},
            dir=str(run.path),
            settings=settings,
            **moment,
        )

    def _kept(self, steps: Sequence[TrackedStep]) -> tuple[int, int, list[TrackedStep]]:
        # The last step that W&B has, -1 for none, how many of the steps it has as they are, and those of them whose
        # tables have no file.
        api = self._wandb.Api(timeout=math.ceil(INIT_TIMEOUT_SECONDS))
        try:
            found = api.run(f"{self._record.project}/{self._record.id}")
        except ValueError:
            return -1, 0, []
        except self._wandb.errors.CommError as error:
            if "not find" in str(error) or "not found" in str(error):
                return -1, 0, []
            raise
        last = int(found.lastHistoryStep)
        try:
            had = [(int(first), int(attempt)) for first, attempt in json.loads(found.config.get(_ATTEMPTS, "[]"))]
        except (ValueError, TypeError):
            had = []

        def is_there(step: TrackedStep) -> bool:
            attempt = next((attempt for first, attempt in reversed(had) if first <= step.step), None)
            return step.step <= last and attempt == step.attempt

        kept = [*takewhile(is_there, steps)]
        with_tables = [step for step in kept if step.has_tables]
        names = (file.name for file in found.files(pattern="media/table/%")) if with_tables else ()
        files = {match[1] for name in names if (match := _TABLE_FILE.fullmatch(name))}
        without = [step for step in with_tables if any(f"{name}_{step.step}" not in files for name in step.tables)]
        return last, len(kept), without

    def _take_next_id(self, reason: str) -> None:
        old = self._record.id
        suffix = old.removeprefix(f"{self._run.id}-")
        number = int(suffix) if suffix.isdecimal() and old != self._run.id else 1
        self._record = WandbRecord(id=f"{self._run.id}-{number + 1}", project=self._record.project)
        self._record.write(self._run.path)
        message = f"W&B does not rewind its run {old}: {reason}"
        self._emit(Warned(message, hint=f"the W&B run {self._record.id} gets all steps"))


class ActiveWandb:
    """The W&B run of another program, which is told each step and stays open."""

    kind = ReportTo.WANDB
    title = "W&B"

    def __init__(self, run: Any) -> None:
        self._run = run

    def begin(self, steps: Sequence[TrackedStep], attempt: int | None) -> str:
        return str(self._run.url or self._run.settings.sync_dir)

    def add(self, step: TrackedStep) -> None:
        values = values_of(sys.modules["wandb"], step)
        if step.step >= self._run.step:
            self._run.log(values, step=step.step)
        else:
            # W&B drops what comes for a step before the current one, and the run's owner has logged further steps.
            self._run.log({**values, OWN_STEP: step.step})

    def end(self, *, failed: bool) -> None:
        pass


def values_of(wandb: Any, step: TrackedStep) -> dict[str, Any]:
    """What W&B's history has of a step; metrics of sandboxes also have the names of the SDK's reporter."""
    metrics = step.metrics
    second = {name: metrics[ours] for name, ours in SDK_METRICS.items() if ours in metrics}
    return {**metrics, **second, **tables_of(wandb, step)}


def tables_of(wandb: Any, step: TrackedStep) -> dict[str, Any]:
    """W&B's tables of a step, by name."""
    return {
        name: wandb.Table(columns=list(table.columns), data=[list(row) for row in table.rows])
        for name, table in step.tables.items()
    }


def first_line(error: Exception) -> str:
    """The first line of what an error says, without passwords of addresses, or its kind."""
    lines = without_users(str(error)).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _attempts(steps: Sequence[TrackedStep], attempt: int | None) -> str:
    # Which attempt did the steps from which one on, as JSON.
    found: list[tuple[int, int]] = []
    for step in steps:
        if not found or found[-1][1] != step.attempt:
            found.append((step.step if found else 0, step.attempt))
    if attempt is not None:
        found.append((steps[-1].step + 1 if steps else 0, attempt))
    return json.dumps(found)
