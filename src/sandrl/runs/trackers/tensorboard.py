"""TensorBoard: one event file in the run directory, which is written anew when a run is resumed.

Scalars have 32 bits there.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from sandrl.extras import require
from sandrl.runs.trackers.tables import Cell, Table
from sandrl.runs.trackers.tracker import TrackedRun, TrackedStep
from sandrl.settings import ReportTo

FOLDER = "tensorboard"
_DT_STRING = 7


class Tensorboard:
    """An event file that is a copy of a run."""

    kind = ReportTo.TENSORBOARD
    title = "TensorBoard"

    def __init__(self, run: TrackedRun) -> None:
        self._place = run.path / FOLDER
        self._writers = require("tensorboard.summary.writer.event_file_writer", extra="tensorboard")
        self._event = require("tensorboard.compat.proto.event_pb2", extra="tensorboard")
        self._summary = require("tensorboard.compat.proto.summary_pb2", extra="tensorboard").Summary
        self._tensor = require("tensorboard.compat.proto.tensor_pb2", extra="tensorboard").TensorProto
        self._shape = require("tensorboard.compat.proto.tensor_shape_pb2", extra="tensorboard").TensorShapeProto
        self._text = require("tensorboard.plugins.text.metadata", extra="tensorboard")
        self._writer: Any = None

    def begin(self, steps: Sequence[TrackedStep], attempt: int | None) -> str:
        for old in self._place.glob("events.out.tfevents.*"):
            old.unlink()
        self._writer = self._writers.EventFileWriter(str(self._place), flush_secs=10)
        # A TensorBoard that shows the old file forgets it.
        start = self._event.SessionLog(status=self._event.SessionLog.START)
        self._writer.add_event(self._event.Event(wall_time=time.time(), step=0, session_log=start))
        for step in steps:
            self.add(step)
        self._writer.flush()
        return f"tensorboard --logdir {self._place}"

    def add(self, step: TrackedStep) -> None:
        values = [self._summary.Value(tag=name, simple_value=value) for name, value in step.metrics.items()]
        values += [self._table(name, table) for name, table in step.tables.items()]
        event = self._event.Event(wall_time=step.time.timestamp(), step=step.step, summary=self._summary(value=values))
        self._writer.add_event(event)

    def end(self, *, failed: bool) -> None:
        if self._writer is not None:
            self._writer.close()

    def _table(self, name: str, table: Table) -> Any:
        cells = [*table.columns, *(_cell(cell) for row in table.rows for cell in row)]
        sizes = (len(table.rows) + 1, len(table.columns))
        shape = self._shape(dim=[self._shape.Dim(size=size) for size in sizes])
        tensor = self._tensor(dtype=_DT_STRING, tensor_shape=shape, string_val=[cell.encode() for cell in cells])
        return self._summary.Value(tag=name, tensor=tensor, metadata=self._text.create_summary_metadata(name, ""))


def _cell(value: Cell) -> str:
    if value is None:
        return ""
    # TensorBoard shows Markdown: lines that are indented stay as they are.
    return "\n".join(f"    {line}" for line in value.splitlines()) if isinstance(value, str) else str(value)
