"""Trackio: a run in its local database (`TRACKIO_DIR`), or where its own variables say.

Trackio deletes no steps, so a run that is resumed is deleted and written again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from typing import Any

from sandrl.extras import require
from sandrl.runs.trackers.tracker import TrackedRun, TrackedStep
from sandrl.settings import ReportTo


class Trackio:
    """A run of Trackio that is a copy of a run."""

    kind = ReportTo.TRACKIO
    title = "Trackio"

    def __init__(self, run: TrackedRun) -> None:
        self._trackio = require("trackio", extra="trackio")
        self._run = run
        self._open: Any = None

    def begin(self, steps: Sequence[TrackedStep], attempt: int | None) -> str:
        run = self._run
        # It prints what it does.
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            # It knows a project from its first run on.
            with suppress(ValueError):
                for old in self._trackio.Api().runs(run.project):
                    if old.name == run.id:
                        old.delete()
            self._open = self._trackio.init(
                project=run.project,
                name=run.id,
                config=dict(run.options),
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )
            for step in steps:
                self.add(step)
        return f"trackio show --project {run.project}"

    def add(self, step: TrackedStep) -> None:
        tables = {
            name: self._trackio.Table(columns=list(table.columns), data=[list(row) for row in table.rows])
            for name, table in step.tables.items()
        }
        self._open.log({**step.metrics, **tables}, step=step.step)

    def end(self, *, failed: bool) -> None:
        if self._open is not None:
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                self._trackio.finish()
