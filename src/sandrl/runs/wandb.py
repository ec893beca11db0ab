"""Reports metrics to Weights & Biases.

The run directory is the primary record; W&B receives each row after it is on the disk. If W&B fails in any way (no
network, a full quota, a bug), one message says so and reporting stops: no training run ends, waits for long or loses a
number because of W&B.
"""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sandrl.errors import MissingExtraError
from sandrl.events import Emit, ReportingStarted, Warned, ignore
from sandrl.extras import require
from sandrl.runs.config import read_config
from sandrl.runs.metrics import SDK_METRICS
from sandrl.runs.writer import RunWriter
from sandrl.settings import ReportTo, Settings

INIT_TIMEOUT_SECONDS = 8.0
"""The time limit for an answer of W&B before the run works offline; with the time of `init` it stays below 10 s."""

FINISH_TIMEOUT_SECONDS = 30.0
"""How long the end of a run waits for W&B to have uploaded everything."""

OWN_STEP = "sandrl/step"
"""The step of a row in a W&B run of another program whose own steps are further."""

_PROJECT = "sandrl"


@contextmanager
def reported(
    writer: RunWriter,
    report_to: ReportTo,
    settings: Settings,
    *,
    is_training: bool,
    project: str | None = None,
    emit: Emit = ignore,
) -> Iterator[str | None]:
    """Reports a run's metrics to W&B for the length of a `with` block, if that is wanted and possible.

    `auto` attaches to an active W&B run, and in training starts one where a key is set. Its project is what the
    environment says, else `sandrl`, unless one is given.

    Yields:
        The id of the W&B run, for the sandboxes' tags; None if nothing is reported.

    Raises:
        MissingExtraError: If W&B was asked for by name and is not installed.
    """
    sink = _open(writer, report_to, settings, is_training=is_training, project=project, emit=emit)
    if sink is None:
        yield None
        return
    writer.tell_metrics_to(sink)
    try:
        yield sink.run_id
    except BaseException:
        sink.close(failed=True)
        raise
    sink.close()


def wandb_tags(run_id: str | None) -> tuple[str, ...]:
    """The tags of a job's sandboxes that lead to its W&B run; none without one."""
    return () if run_id is None else (f"wandb-run:{run_id}",)


class WandbSink:
    """Tells one W&B run the metrics of each step; one that it owns was started here, and ends here.

    The metrics of sandboxes have a second name there, that of the SDK's own reporter. This reporter is switched off: it
    counts what the SDK runs (a worker is one command), and it logs without steps.
    """

    def __init__(self, run: Any, *, owns: bool, emit: Emit = ignore) -> None:
        self.run_id = str(run.id)
        self._run = run
        self._owns = owns
        self._emit = emit
        self._has_failed = False

    def __call__(self, step: int, metrics: Mapping[str, float | None]) -> None:
        """Logs the metrics of a step; what was not measured is left out."""
        values = {name: value for name, value in metrics.items() if value is not None}
        values |= {name: values[ours] for name, ours in SDK_METRICS.items() if ours in values}
        self._guarded(lambda: self._log(step, values))

    def _log(self, step: int, values: dict[str, float]) -> None:
        if self._owns or step >= self._run.step:
            self._run.log(values, step=step)
        else:
            # W&B drops what comes for a step before the current one, and the run's owner has logged further steps.
            self._run.log({**values, OWN_STEP: step})

    def close(self, *, failed: bool = False) -> None:
        """Ends the W&B run, if it was started here, and waits for it a while."""
        if not self._owns:
            return
        finishing = threading.Thread(
            target=self._guarded, args=(lambda: self._run.finish(exit_code=int(failed)),), daemon=True
        )
        finishing.start()
        finishing.join(FINISH_TIMEOUT_SECONDS)
        if finishing.is_alive():
            place = getattr(self._run.settings, "sync_dir", "")
            self._emit(Warned("W&B has not uploaded all data yet", hint=f"upload the rest: wandb sync {place}"))

    def _guarded(self, call: Callable[[], object]) -> None:
        if self._has_failed:
            return
        try:
            call()
        except Exception as error:  # noqa: BLE001 - whatever it is, the metrics are on disk and the run goes on
            self._has_failed = True
            self._emit(
                Warned(
                    f"W&B failed, and reporting to it has stopped: {_first_line(error)}",
                    hint="sandrl metrics shows all metrics",
                )
            )


def _open(
    writer: RunWriter,
    report_to: ReportTo,
    settings: Settings,
    *,
    is_training: bool,
    project: str | None,
    emit: Emit,
) -> WandbSink | None:
    if report_to is ReportTo.NONE or settings.wandb_mode == "disabled":
        return None
    # Not imported for this: a run can only be active where somebody has imported it.
    active = getattr(sys.modules.get("wandb"), "run", None)
    if active is not None:
        emit(ReportingStarted(str(active.id), str(active.url or ""), is_online=not active.offline))
        return WandbSink(active, owns=False, emit=emit)
    if report_to is ReportTo.AUTO and not (is_training and settings.wandb_api_key):
        return None
    try:
        wandb = require("wandb", extra="wandb")
    except MissingExtraError as error:
        if report_to is ReportTo.WANDB:
            raise
        emit(
            Warned(
                "WANDB_API_KEY is set, but wandb is not installed, so no metrics are reported to W&B", hint=error.hint
            )
        )
        return None
    try:
        run = _started(wandb, writer, settings, project or settings.wandb_project or _PROJECT, emit)
    except Exception as error:  # noqa: BLE001 - training does not depend on W&B, in whatever way it fails
        message, hint = f"W&B cannot be used: {_first_line(error)}", "set `report_to` to none to run without W&B"
        emit(Warned(message, hint, fields=("report_to",)))
        return None
    emit(ReportingStarted(str(run.id), str(run.url or run.settings.sync_dir), is_online=not run.offline))
    return WandbSink(run, owns=True, emit=emit)


def _started(wandb: Any, writer: RunWriter, settings: Settings, project: str, emit: Emit) -> Any:
    # From the file, in which secrets are masked.
    config = read_config(writer.path)
    seed = f"{config.run_id} {config.created_at.isoformat()}"
    options: dict[str, Any] = {
        "project": project,
        # The same for a resumed run, and for no other.
        "id": f"{config.run_id[:60]}-{hashlib.sha256(seed.encode()).hexdigest()[:8]}".replace(".", "-"),
        "name": config.run_id,
        "job_type": config.command,
        "config": dict(config.options),
        "dir": str(writer.path),
        # Nothing is printed by it, its answers become events; and our signals stay ours.
        "settings": wandb.Settings(silent=True, console="off", init_timeout=INIT_TIMEOUT_SECONDS),
    }
    wandb.setup(wandb.Settings(silent=True))
    if settings.wandb_mode == "offline":
        return wandb.init(mode="offline", **options)
    if not settings.wandb_api_key:
        emit(
            Warned(
                "WANDB_API_KEY is not set, so W&B works offline", hint="upload it later: wandb login, then wandb sync"
            )
        )
        return wandb.init(mode="offline", **options)
    try:
        return wandb.init(mode="online", resume="allow" if len(config.jobs) > 1 else None, **options)
    except wandb.errors.Error as error:
        message = f"W&B cannot be reached and works offline: {_first_line(error)}"
        emit(Warned(message, hint="upload it later: wandb sync"))
        # The attempt that failed still holds its id within this process.
        return wandb.init(mode="offline", **{**options, "id": f"{options['id']}-offline"})


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
