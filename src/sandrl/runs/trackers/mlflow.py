"""MLflow: a run at the tracking server of `MLFLOW_TRACKING_URI`, or in the database that MLflow uses without it.

MLflow deletes no steps, so a run that is resumed becomes a new MLflow run with all steps; the old one is deleted, as
MLflow does it: it can be restored.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from typing import Any

from sandrl.addresses import without_users
from sandrl.extras import require
from sandrl.runs.trackers.tracker import TrackedRun, TrackedStep
from sandrl.settings import ReportTo

RUN_TAG = "sandrl.run"

_MOST_METRICS = 1000
_MOST_PARAMETERS = 100
_LONGEST_PARAMETER = 500
_UNNAMEABLE = re.compile(r"[^\w\-. :/]", re.ASCII)
# A training does not wait for minutes for a server, and MLflow tells its own nothing.
_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_LOGGING_LEVEL": "ERROR",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}


class Mlflow:
    """An MLflow run that is a copy of a run."""

    kind = ReportTo.MLFLOW
    title = "MLflow"

    def __init__(self, run: TrackedRun) -> None:
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        self._mlflow = require("mlflow", extra="mlflow")
        self._entities = require("mlflow.entities", extra="mlflow")
        self._run = run
        self._client: Any = None
        self._id = ""

    def begin(self, steps: Sequence[TrackedStep], attempt: int | None) -> str:
        run, entities = self._run, self._entities
        self._client = self._mlflow.MlflowClient()
        found = self._client.get_experiment_by_name(run.project)
        experiment = self._client.create_experiment(run.project) if found is None else found.experiment_id
        for old in self._client.search_runs([experiment], f"tags.`{RUN_TAG}` = '{run.id}'"):
            self._client.delete_run(old.info.run_id)
        tags = {RUN_TAG: run.id, "sandrl.command": run.command}
        self._id = self._client.create_run(experiment, run_name=run.name, tags=tags).info.run_id
        options = [
            entities.Param(_named(name), json.dumps(value, ensure_ascii=False)[:_LONGEST_PARAMETER])
            for name, value in run.options.items()
        ]
        for at in range(0, len(options), _MOST_PARAMETERS):
            self._client.log_batch(self._id, params=options[at : at + _MOST_PARAMETERS])
        self._log(steps)
        return f"{without_users(self._mlflow.get_tracking_uri())}, experiment {run.project}"

    def add(self, step: TrackedStep) -> None:
        self._log([step])

    def end(self, *, failed: bool) -> None:
        if self._id:
            self._client.set_terminated(self._id, "FAILED" if failed else "FINISHED")

    def _log(self, steps: Sequence[TrackedStep]) -> None:
        metrics = [
            self._entities.Metric(_named(name), value, int(step.time.timestamp() * 1000), step.step)
            for step in steps
            for name, value in step.metrics.items()
        ]
        for at in range(0, len(metrics), _MOST_METRICS):
            self._client.log_batch(self._id, metrics=metrics[at : at + _MOST_METRICS])
        for step in steps:
            for name, table in step.tables.items():
                # The format of MLflow's own tables.
                content = json.dumps({"columns": table.columns, "data": table.rows}, ensure_ascii=False)
                self._client.log_text(self._id, content, f"{name}-{step.step}.json")


def _named(name: str) -> str:
    # MLflow's names have no `@`.
    return _UNNAMEABLE.sub("_", name.replace("@", "_at_"))
