from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.support.sample_runs import event_of, failed, trajectory

from sandrl.runs import MetricsRecorder, MetricsRow, RunReader, RunWriter, step_rows
from sandrl.runs.index import RunEntry
from sandrl.runs.overview import overview
from sandrl.runs.report import report_document, report_trajectories
from sandrl.runs.selection import RowSelection
from sandrl.runs.series import series_of


def rows(**series: Sequence[float | None]) -> tuple[MetricsRow, ...]:
    steps = max(map(len, series.values()))
    return tuple(
        MetricsRow(
            job_id="job-1",
            step=step,
            metrics={name.replace("__", "/"): each[step] for name, each in series.items() if step < len(each)},
        )
        for step in range(steps)
    )


def test_a_series_has_the_steps_in_which_it_was_measured() -> None:
    series = series_of(rows(loss=[0.1, None, 0.3], zebra=[1.0], reward__mean=[0.5]))
    assert list(series) == ["reward/mean", "loss", "zebra"], "the registry's order, then the rest"
    assert (series["loss"].steps, series["loss"].values, series["loss"].last) == ((0, 2), (0.1, 0.3), 0.3)


def test_what_evaluates_the_policy_is_in_no_step_s_numbers(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path, command="grpo", job_id="job-1", name="run") as writer:
        for index, held_out in enumerate((False, False, True)):
            row = failed(index, step=0) if held_out else trajectory(index, step=0)
            writer.append(row.model_copy(update={"held_out": held_out}))
    reader = RunReader(writer.path)
    assert [row.metrics["completions"] for row in step_rows(reader)] == [2]
    rows = reader.trajectories().rows
    chosen = {wanted: len(list(RowSelection(held_out=wanted).choose(rows))) for wanted in (None, True, False)}
    assert chosen == {None: 3, True: 1, False: 2}


def test_every_view_of_a_run_can_be_taken_while_its_job_writes(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path, command="grpo", job_id="job-1", name="run") as writer:
        recorder = MetricsRecorder(writer)
        is_done = threading.Event()

        def work() -> None:
            for index in range(300):
                row = trajectory(index, step=index // 10, stdout="x" * 3_000)
                writer.append(row)
                recorder(event_of(row))
                if index % 10 == 9:
                    recorder.log(index // 10)
            is_done.set()

        job = threading.Thread(target=work)
        job.start()
        views = 0
        while not is_done.is_set() or not views:
            document = report_document(RunReader(writer.path))
            assert document["run"]["state"] == "running"
            assert not any("could not be read" in note for note in document["notes"])
            seen = overview(RunEntry("run", writer.path, datetime.now(UTC)))
            assert seen.completions <= 300
            views += 1
        job.join()
        assert len(list(report_trajectories(RunReader(writer.path)))) == 300
