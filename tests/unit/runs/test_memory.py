"""Memory of what reads a run follows its longest row, not the run."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.sample_runs import trajectory

from sandrl.cli.runs import show
from sandrl.runs import RunReader, RunWriter
from sandrl.runs.report import write_report

ROWS, PRINTED = 400, 50_000
SIZE = ROWS * PRINTED


@pytest.fixture
def large(tmp_path: Path) -> RunReader:
    """A run of 20 MB whose job was killed: whatever is said of it has to be counted from its rows."""
    with RunWriter.create(tmp_path / "runs", command="reward", job_id="job-0", name="large") as writer:
        for index in range(ROWS):
            # What cannot be compressed: the report is large, too.
            text = "".join(f"{(index * PRINTED + place) ** 5:x}" for place in range(0, PRINTED, 16))[:PRINTED]
            writer.append(trajectory(index, step=None, task_id=f"t{index // 8}", stdout=text))
    return RunReader(writer.path)


def peak_of(work: Callable[[], object]) -> int:
    """The most bytes that Python objects took while `work` ran.

    The least of three times: threads that tests before have left, and garbage that is collected late, only add to it.
    """
    return min(_peak_of(work) for _ in range(3))


def _peak_of(work: Callable[[], object]) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


class _Nowhere:
    """A stream that keeps nothing."""

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return False


def test_rows_are_read_one_by_one(large: RunReader) -> None:
    assert peak_of(lambda: [row.index for row in large.each_trajectory()]) < SIZE / 10
    assert peak_of(large.trajectories) > SIZE / 2, "the measure sees texts"


def test_a_report_is_written_as_the_run_is_read(large: RunReader, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    assert peak_of(lambda: write_report(large, path)) < SIZE / 2.5
    assert path.stat().st_size > SIZE / 8


def test_a_run_is_shown_as_it_is_read(large: RunReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", _Nowhere())

    def show_some(limit: int | None) -> None:
        show(str(large.path), limit=limit, status=None, task=None, step=None)

    # What is imported, and what it takes to lay out a page, is no part of it.
    show_some(1)
    assert peak_of(lambda: show_some(None)) - peak_of(lambda: show_some(1)) < SIZE / 10
