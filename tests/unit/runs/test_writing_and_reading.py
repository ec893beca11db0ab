from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.sample_runs import JOB, trajectory

from sandrl.errors import InputError, ServiceError, UsageError
from sandrl.runs import (
    EvaluationRow,
    MetricsRow,
    OpinionPart,
    OpinionRow,
    OwnerRow,
    RunOutcome,
    RunReader,
    RunWriter,
    SandboxEvent,
    disagreements,
    step_rows,
)
from sandrl.runs.cards import Card
from sandrl.runs.overview import count_steps
from sandrl.runs.rows import SCHEMA, SandboxRow


def create(runs_dir: Path, **options: Any) -> RunWriter:
    return RunWriter.create(runs_dir, **{"command": "reward", "job_id": JOB, **options})


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    row = trajectory(
        3, trust="in_process", passed=2, total=2, timing={"cpu": 0.1}, sandbox_id="s-1", sandboxes=1,
        completion="text", code="pass", stdout="out\n", stderr="err", truncated=True, detail="why",
    )  # fmt: skip
    metrics = MetricsRow(job_id=JOB, step=0, metrics={"reward/mean": 0.5, "held_out": None})
    with create(tmp_path, options={"timeout": 10.0}, versions={"sandrl": "1"}) as writer:
        writer.append(row)
        writer.append(metrics)
        writer.finish(RunOutcome.FINISHED)
    reader = RunReader(writer.path)
    assert reader.trajectories().rows == (row,)
    assert reader.metrics().rows == (metrics,)
    assert reader.config.options == {"timeout": 10.0}
    [job] = reader.config.jobs
    assert (job.job_id, job.outcome, job.versions) == (JOB, RunOutcome.FINISHED, {"sandrl": "1"})
    assert job.finished_at is not None


def test_every_file_carries_the_schema_number(tmp_path: Path) -> None:
    with create(tmp_path) as writer:
        writer.append(trajectory())
        writer.append_sandbox(SandboxRow(job_id=JOB, event=SandboxEvent.INTENT, key="1"))
    files = [writer.path / name for name in ("config.json", "trajectories.jsonl", "sandboxes.jsonl")]
    assert [json.loads(file.read_text())["schema"] for file in files] == [SCHEMA] * 3


def test_the_ledger_tells_of_a_sandbox_before_it_exists_and_who_owns_it(tmp_path: Path) -> None:
    owner = OwnerRow(host="node-1", boot_id="b", pid_namespace="pid:[1]", pid=42, started_ticks=7)
    with create(tmp_path) as writer:
        row = {"job_id": JOB, "key": "000001"}
        intent = SandboxRow(**row, event=SandboxEvent.INTENT, tags=("rl-training", JOB), owner=owner)
        writer.append_sandbox(intent)
        for event in (SandboxEvent.CREATED, SandboxEvent.STOPPED):
            writer.append_sandbox(SandboxRow(**row, event=event, sandbox_id="sandbox-9"))
    intent, created, stopped = RunReader(writer.path).sandboxes().rows
    assert (intent.event, intent.sandbox_id, intent.tags, intent.owner) == (
        SandboxEvent.INTENT, None, ("rl-training", JOB), owner,
    )  # fmt: skip
    assert (created.event, created.sandbox_id, created.owner) == (SandboxEvent.CREATED, "sandbox-9", None)
    assert (stopped.event, stopped.key) == (SandboxEvent.STOPPED, "000001")


def test_text_that_utf8_cannot_hold_is_escaped_not_refused(tmp_path: Path) -> None:
    with create(tmp_path, options={"argument": "x\udcff"}) as writer:
        writer.append(trajectory(stdout="half \ud83d", code="é\x00\x1b[31m\u2028", detail="x" * 100_000))
    reader = RunReader(writer.path)
    [row] = reader.trajectories().rows
    assert (row.stdout, row.code) == ("half \\ud83d", "é\x00\x1b[31m\u2028")
    assert reader.config.options == {"argument": "x\\udcff"}


def test_values_that_are_no_numbers_survive(tmp_path: Path) -> None:
    with create(tmp_path) as writer:
        writer.append(MetricsRow(job_id=JOB, step=0, metrics={"loss": math.nan, "norm": math.inf}))
    json.loads((writer.path / "metrics.jsonl").read_text(), parse_constant=lambda name: pytest.fail(name))
    [row] = RunReader(writer.path).metrics().rows
    assert math.isnan(row.metrics["loss"] or 0)
    assert row.metrics["norm"] == math.inf


@pytest.mark.parametrize("secret", ["sk-0123456789", 'quo"ted\\sécret'])
def test_a_secret_is_masked_wherever_it_occurs(tmp_path: Path, secret: str) -> None:
    with create(tmp_path, secrets=[secret], options={"header": f"Bearer {secret}"}) as writer:
        writer.append(trajectory(stdout=f"key={secret}"))
    reader = RunReader(writer.path)
    assert reader.config.options == {"header": "Bearer [secret]"}
    assert reader.trajectories().rows[0].stdout == "key=[secret]"


def test_an_existing_name_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    with create(tmp_path, name="mine") as writer:
        writer.append(trajectory())
    with pytest.raises(UsageError, match="'mine' already exists") as caught:
        create(tmp_path, name="mine")
    assert "`run_name`" in str(caught.value.hint)
    assert len(RunReader(writer.path).trajectories().rows) == 1


def test_resuming_keeps_the_configuration_and_adds_the_job(tmp_path: Path) -> None:
    with create(tmp_path, name="mine", options={"timeout": 10}) as writer:
        writer.append(trajectory(0))
        writer.finish(RunOutcome.INTERRUPTED)
    with create(tmp_path, name="mine", resume=True, job_id="job-2", options={"timeout": 99}) as writer:
        writer.append(trajectory(1))
        writer.finish(RunOutcome.FINISHED)
    reader = RunReader(writer.path)
    assert reader.config.options == {"timeout": 10}
    assert [(job.job_id, job.outcome) for job in reader.config.jobs] == [(JOB, "interrupted"), ("job-2", "finished")]
    assert [row.index for row in reader.trajectories().rows] == [0, 1]


def test_there_must_be_something_to_resume(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no run 'mine'"):
        create(tmp_path, name="mine", resume=True)
    with pytest.raises(UsageError, match="resume requires run_name"):
        create(tmp_path, resume=True)


@pytest.mark.parametrize("name", ["latest", "", "../up", "a/b", ".hidden", "-x", "x" * 101, "ü", "a b"])
def test_a_name_that_cannot_name_a_run_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="is not a valid name of a run"):
        create(tmp_path, name=name)


def test_runs_started_in_the_same_second_get_different_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = iter(["same", "same", "other"])
    monkeypatch.setattr("sandrl.runs.directory.new_run_id", lambda command: next(names))
    with create(tmp_path) as first, create(tmp_path) as second:
        assert (first.run_id, second.run_id) == ("same", "other")


def test_a_directory_that_cannot_be_written_names_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="runs cannot be saved in this directory") as caught:
        create(tmp_path / "file")
    assert "`runs_dir`" in str(caught.value.hint)


def test_a_run_that_is_being_written_is_running_and_cannot_be_resumed(tmp_path: Path) -> None:
    with create(tmp_path, name="mine") as writer:
        assert RunReader(writer.path).is_running
        with pytest.raises(UsageError, match="is being written by another process"):
            create(tmp_path, name="mine", resume=True)
    assert not RunReader(writer.path).is_running


def test_a_full_disk_is_a_service_error_that_names_the_file(tmp_path: Path) -> None:
    with create(tmp_path) as writer:
        (writer.path / "trajectories.jsonl").symlink_to("/dev/full")
        with pytest.raises(ServiceError, match=r"trajectories\.jsonl: .*No space left"):
            writer.append(trajectory())


def test_damage_is_reported_with_its_line_and_an_unfinished_last_line_is_none(tmp_path: Path) -> None:
    with create(tmp_path) as writer:
        writer.append(trajectory(0))
        writer.append(trajectory(1))
    file = writer.path / "trajectories.jsonl"
    file.write_bytes(b'garbage\n{"schema": 1}\n' + file.read_bytes()[:-20])
    read = RunReader(writer.path).trajectories()
    assert [row.index for row in read.rows] == [0]
    assert [error.line for error in read.damaged] == [1, 2]
    assert read.is_truncated


def test_a_directory_that_is_no_run_and_a_damaged_configuration_are_input_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is not a run directory: it has no config\.json"):
        RunReader(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        RunReader(tmp_path)


def test_of_a_step_done_twice_the_later_attempt_counts(tmp_path: Path) -> None:
    with create(tmp_path) as writer:
        for step, attempt, value in ((0, 1, 0.0), (1, 1, 0.1), (1, 2, 0.2), (2, 2, 0.3)):
            writer.append(MetricsRow(job_id=JOB, step=step, attempt=attempt, metrics={"reward/mean": value}))
            writer.append(trajectory(step, step=step, attempt=attempt))
    reader = RunReader(writer.path)
    assert [row.metrics["reward/mean"] for row in reader.metrics().rows] == [0.0, 0.2, 0.3]
    assert [(row.step, row.attempt) for row in reader.trajectories().rows] == [(0, 1), (1, 2), (2, 2)]


def test_each_rank_writes_its_own_files_and_a_reader_sees_all(tmp_path: Path) -> None:
    with create(tmp_path) as first:
        for rank in (10, 2):
            with RunWriter(first.path, job_id=JOB, rank=rank) as other:
                other.append(trajectory(rank, rank=rank))
        first.append(trajectory(0))
        assert [row.index for row in RunReader(first.path).trajectories().rows] == [0, 2, 10]


def test_rows_of_another_version_lose_only_what_is_not_understood(tmp_path: Path) -> None:
    with create(tmp_path) as writer:
        writer.append(trajectory())
    file = writer.path / "trajectories.jsonl"
    file.write_text(json.dumps({**json.loads(file.read_text()), "schema": 2, "new_field": [1]}) + "\n")
    [row] = RunReader(writer.path).trajectories().rows
    assert row.schema_version == 2


def _fifty_times(call: Callable[[Any], object], argument: object) -> None:
    for _ in range(50):
        call(argument)


def test_threads_can_share_a_writer(tmp_path: Path) -> None:
    with create(tmp_path) as writer:
        threads = [threading.Thread(target=_fifty_times, args=(writer.append, trajectory(n))) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    read = RunReader(writer.path).trajectories()
    assert (len(read.rows), read.is_truncated, read.damaged) == (200, False, ())


def test_a_killed_writer_loses_nothing_it_had_reported_and_leaves_the_run_unlocked(tmp_path: Path) -> None:
    program = f"""
import sys
from pathlib import Path
from sandrl.runs import RunWriter, TrajectoryRow
writer = RunWriter.create(Path({str(tmp_path)!r}), command="reward", job_id="job-1", name="mine")
for index in range(100_000):
    writer.append(TrajectoryRow(job_id="job-1", index=index, id=str(index), task_id="t", reward=1.0,
                                          status="passed", duration_seconds=0.0))
    print(index, flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(50):
            process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
        reported = 49 + process.stdout.read().count(b"\n")
    reader = RunReader(tmp_path / "mine")
    assert len(reader.trajectories().rows) >= reported
    assert reader.config.jobs[0].outcome is None
    assert not reader.is_running
    with create(tmp_path, name="mine", resume=True, job_id="job-2") as writer:
        writer.append(trajectory(-1))
    assert RunReader(tmp_path / "mine").trajectories().rows[-1].index == -1


def test_a_program_started_meanwhile_does_not_keep_a_closed_run_locked(tmp_path: Path) -> None:
    writer = create(tmp_path)
    with subprocess.Popen(["sleep", "60"], close_fds=False) as child:
        writer.close()
        try:
            assert not RunReader(writer.path).is_running
        finally:
            child.kill()


def test_of_the_cards_of_a_problem_the_latest_counts_and_damage_among_them_is_said(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path, command="redteam", job_id=JOB, name="cards") as writer:
        writer.append(Card(task_id="a", kind="task", digest="1", nop=0.0, nop_runs=1))
        writer.append(Card(task_id="b", kind="task", digest="2"))
        writer.append(Card(task_id="a", kind="task", digest="1", nop=1.0, nop_runs=3))
    with (writer.path / "cards.jsonl").open("a") as stream:
        stream.write('{"task_id": "no digest", "kind": "task"}\n{"task_id": "c", "digest": "3", "ki')
    read = RunReader(writer.path).cards()
    assert [(card.task_id, card.nop) for card in read.rows] == [("a", 1.0), ("b", None)]
    assert read.is_truncated
    assert [error.line for error in read.damaged] == [4]


def test_opinions_are_joined_to_their_completions_and_damage_among_them_is_said(tmp_path: Path) -> None:
    part = OpinionPart(status="passed")
    with create(tmp_path) as writer:
        # Two calls for rewards in one step, and a first attempt at it: their positions are the same.
        for attempt, sandbox_id in ((1, "s-1"), (2, "s-2"), (2, "s-3")):
            writer.append(trajectory(step=0, attempt=attempt, reward=0.0, status="failed", sandbox_id=sandbox_id))
        for attempt, sandbox_id in ((1, "s-1"), (2, "s-3")):
            place: dict[str, Any] = {"job_id": JOB, "step": 0, "attempt": attempt, "index": 0}
            writer.append(
                OpinionRow(**place, id="c0", task_id="inc", status="failed", sandbox_id=sandbox_id, opinion=part)
            )
    with (writer.path / "opinions.jsonl").open("ab") as file:
        file.write(b'{"nonsense": 1}\n{"index": 1')
    read = RunReader(writer.path).trajectories()
    assert [(row.sandbox_id, row.second_opinion) for row in read.rows] == [("s-2", None), ("s-3", part)]
    assert (read.is_truncated, len(read.damaged)) == (True, 1)


def test_opinions_that_the_metrics_of_their_step_have_as_null_are_a_contradiction(tmp_path: Path) -> None:
    with create(tmp_path) as writer:
        row: dict[str, Any] = {"job_id": JOB, "step": 0, "index": 0, "id": "c0", "task_id": "inc", "status": "failed"}
        writer.append(OpinionRow(**row, opinion=OpinionPart(status="passed")))
        writer.append(MetricsRow(job_id=JOB, step=0, metrics={"judge/disagreements": None}))
    wrong = disagreements(RunReader(writer.path), is_complete=False)
    assert any(line.startswith("step 0: judge/disagreements in the metrics") for line in wrong), wrong


def test_an_evaluation_stays_when_the_step_after_it_is_done_again(tmp_path: Path) -> None:
    with create(tmp_path) as writer:
        for attempt, held_out in ((1, True), (1, False), (2, False)):
            writer.append(trajectory(attempt, step=20, attempt=attempt, held_out=held_out))
        writer.append(EvaluationRow(job_id=JOB, step=20, problems=1, metrics={"held_out/pass@1": 0.0}))
        writer.append(EvaluationRow(job_id=JOB, step=20, attempt=2, problems=1, metrics={"held_out/pass@1": 1.0}))
        writer.append(MetricsRow(job_id=JOB, step=19, metrics={"loss": 0.5}))
    reader = RunReader(writer.path)
    rows = [(row.held_out, row.attempt) for row in reader.trajectories().rows]
    assert rows == [(True, 1), (False, 2)]
    assert [row.metrics for row in reader.evaluations().rows] == [{"held_out/pass@1": 1.0}]
    # The step after it is not done: its row has the evaluation alone, and counts as no step.
    measured = step_rows(reader)
    assert [(row.step, dict(row.metrics)) for row in measured] == [(19, {"loss": 0.5}), (20, {"held_out/pass@1": 1.0})]
    assert count_steps(measured) == 1
