from __future__ import annotations

import threading
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.sample_runs import trajectory

from sandrl.errors import ServiceError
from sandrl.events import (
    CheckStatus,
    CheckVerdict,
    CompletionFinished,
    Event,
    ExecutionFinished,
    LogLevel,
    Opinion,
    OpinionFinished,
    RetryScheduled,
    ScoredCompletion,
    Status,
    Trust,
    Warned,
)
from sandrl.problems import Completion
from sandrl.runs import (
    CheckRow,
    MetricsRecorder,
    RunReader,
    RunWriter,
    TrajectoryRow,
    completion_metrics,
    disagreements,
)
from sandrl.runs.log import RunLog, logged_executions
from sandrl.runs.metrics import METRICS, Group, find_metric, group_of
from sandrl.runs.recorder import ExecutionStats, execution_metrics
from sandrl.runs.rows import SandboxEvent, SandboxRow
from sandrl.runs.statistics import deviation, mean, percentile
from sandrl.runs.summary import opinion_metrics
from sandrl.scoring.records import Place, trajectory_row


def intent(key: str, *tags: str, event: SandboxEvent = SandboxEvent.INTENT) -> SandboxRow:
    return SandboxRow(job_id="job-1", event=event, key=key, tags=tags)


def result(task_id: str = "t", reward: float | None = 1.0, **fields: Any) -> ScoredCompletion:
    status = Status.INFRASTRUCTURE if reward is None else Status.PASSED if reward == 1.0 else Status.FAILED
    defaults: dict[str, Any] = {
        "index": 0, "id": "c", "task_id": task_id, "status": status, "reward": reward, "passed": int(reward == 1.0),
        "total": 1, "duration_seconds": 0.1, "detail": "", "sandboxes": 1, "trust": Trust.ISOLATED, "sandbox_id": "s",
    }  # fmt: skip
    return ScoredCompletion(**{**defaults, **fields})


def completion(task_id: str = "t", reward: float | None = 1.0, **fields: Any) -> CompletionFinished:
    return CompletionFinished(result(task_id, reward, **fields), finished=1, of=1)


def execution(sandbox_id: str | None = "s-1", outcome: str = "success", **fields: Any) -> ExecutionFinished:
    return ExecutionFinished("t", sandbox_id, outcome, **fields)


@pytest.fixture
def writer(tmp_path: Path) -> RunWriter:
    return RunWriter.create(tmp_path, command="reward", job_id="job-1", name="run", secrets=["sk-0123456789"])


def test_the_ten_metrics_count_commands_and_sandboxes() -> None:
    values = execution_metrics(
        [execution("a"), execution("a", "failure"), execution("a", "error"), execution("b"), execution(None, "error")]
    )
    assert {name: values[f"aviato/{name}"] for name in (
        "sandboxes_created", "executions", "exec_successes", "exec_failures", "exec_errors", "success_rate",
        "error_rate", "avg_execs_per_sandbox", "min_execs_per_sandbox", "max_execs_per_sandbox",
    )} == {
        "sandboxes_created": 2, "executions": 5, "exec_successes": 2, "exec_failures": 1, "exec_errors": 2,
        "success_rate": 0.4, "error_rate": 0.4, "avg_execs_per_sandbox": 2, "min_execs_per_sandbox": 1,
        "max_execs_per_sandbox": 3,
    }  # fmt: skip


def test_a_cell_counts_as_a_sandbox_of_its_own_but_for_the_sandboxes_that_were_created() -> None:
    values = execution_metrics([*[execution("worker", in_cell=True)] * 30, execution("a"), execution("a")])
    assert (values["aviato/sandboxes_created"], values["aviato/executions"]) == (2, 32)
    assert (values["aviato/min_execs_per_sandbox"], values["aviato/max_execs_per_sandbox"]) == (1, 2)


def test_where_nothing_ran_there_are_counts_and_no_rates() -> None:
    values = execution_metrics([])
    assert values["aviato/executions"] == values["aviato/sandboxes_created"] == 0
    assert values["aviato/success_rate"] is values["aviato/exec_seconds_p50"] is None
    assert values["aviato/max_execs_per_sandbox"] is mean([]) is deviation([]) is percentile([], 50) is None


def test_rewards_leave_out_what_could_not_be_scored() -> None:
    values = completion_metrics([result(reward=1.0), result(reward=0.0), result(reward=None)])
    assert (values["reward/mean"], values["reward/std"], values["pass_rate"]) == (0.5, 0.5, 0.5)
    assert (values["completions"], values["scored"]) == (3, 2)
    assert values["unscorable_share"] == pytest.approx(1 / 3)


def test_a_group_without_variance_has_no_gradient_and_is_counted() -> None:
    rewards: dict[str, list[float | None]] = {"same": [1.0, 1.0, None], "mixed": [1.0, 0.0], "alone": [0.0]}
    values = completion_metrics([result(task, reward) for task, each in rewards.items() for reward in each])
    assert (values["reward/groups"], values["reward/zero_variance_groups"]) == (2, 1)


def test_the_parts_of_what_is_trained_on_add_up_over_the_scored_completions() -> None:
    scored: list[tuple[str, float | None, dict[str, float]]] = [
        ("same", 0.0, {"format": 0.1, "length": -0.02}),
        ("same", 0.0, {"format": 0.1, "length": -0.02}),
        ("other", 0.0, {"format": 0.1, "length": -0.02}),
        ("other", 0.0, {"format": 0.0, "length": -0.02}),
        ("other", None, {}),
        ("mixed", 1.0, {"format": 0.0, "length": -0.05}),
    ]
    values = completion_metrics([result(task, reward, components=parts) for task, reward, parts in scored])
    parts = [values[name] or 0.0 for name in ("reward/mean", "component/format", "component/length")]
    assert values["training_reward/mean"] == pytest.approx(sum(parts))
    assert values["reward/mean"] == pytest.approx(0.2)
    assert values["component/format"] == pytest.approx(0.06)
    assert (values["reward/groups"], values["reward/zero_variance_groups"]) == (2, 1)
    assert not {"training_reward/mean", "training_reward/std"} & completion_metrics([result("a", 1.0)]).keys()


def test_every_name_that_is_written_is_in_the_registry() -> None:
    values = {
        **completion_metrics([result(components={"format": 0.1})]),
        **opinion_metrics(["passed", "failed", "infrastructure"]),
        **execution_metrics([execution()]),
    }
    assert [name for name in values if find_metric(name) is None] == []
    assert find_metric("nonsense") is None


def test_without_second_opinions_there_are_no_numbers_of_them() -> None:
    assert opinion_metrics([]) == {}
    assert opinion_metrics(["passed", "timeout", "infrastructure", "passed"]) == {
        "judge/second_opinions": 4, "judge/disagreements": 2, "judge/unavailable_opinions": 1,
    }  # fmt: skip


def test_a_row_and_a_result_give_the_same_metrics() -> None:
    scored = result(reward=0.0, retries=1, reruns=1, canaries=2, sandboxes=3, components={"length": -0.5})
    row = trajectory_row(scored, Completion("c", "t", completion="x"), Place("job-1"))
    assert completion_metrics([row]) == completion_metrics([scored])


def test_a_row_has_every_field_of_the_result_and_survives_the_disk() -> None:
    check = CheckVerdict(CheckStatus.FAILED, "1 != 2 \udc80")
    scored = result(
        reward=0.5, failures=("lost",), cached=True, cpu_seconds=0.25, code="x = 1", stdout="out",
        stderr="\udc80", truncated=True, checks=(check,), detail="why", compile_seconds=0.5,
        score=0.5, scores={"a": 0.25}, states=("d",), phases={"agent": 2.0}, verifier_failures=2, state_bytes=3,
        reached={"agent": ("pypi.org:443",), "verifier": ()},
    )  # fmt: skip
    place = Place("job-1", rank=1, step=3, attempt=2, held_out=True)
    said = Completion("c", "t", completion="said")
    row = TrajectoryRow.model_validate_json(trajectory_row(scored, said, place).to_json())
    assert (row.rank, row.step, row.attempt, row.held_out) == (1, 3, 2, True)
    assert (row.completion, row.timing, row.stderr) == ("said", {"cpu": 0.25, "agent": 2.0}, "\\udc80")
    assert row.checks == (CheckRow(status="failed", detail="1 != 2 \\udc80"),)
    others = {field.name for field in fields(scored)} - {"cpu_seconds", "why_in_process", "stderr", "checks", "phases"}
    assert {name: getattr(row, name) for name in others} == {name: getattr(scored, name) for name in others}
    assert type(row.status) is str


def test_a_line_of_the_log_has_the_result_without_its_texts(writer: RunWriter) -> None:
    opinion = Opinion(Status.PASSED, "fair", "s-2")
    with writer:
        log = RunLog(writer)
        log(CompletionFinished(result(code="x = 1", stdout="long"), finished=1, of=2))
        log(OpinionFinished(result(reward=0.0, code="x = 1"), opinion))
    completed, second = RunReader(writer.path).log().rows
    assert (completed.fields["status"], completed.fields["finished"], completed.fields["sandbox_id"]) == (
        "passed", 1, "s",
    )  # fmt: skip
    assert not {"code", "stdout", "stderr", "checks", "result"} & completed.fields.keys()
    assert second.fields["opinion"] == {"status": "passed", "detail": "fair", "sandbox_id": "s-2", "sandboxes": 1}


@given(st.lists(st.floats(0, 100), min_size=1), st.floats(1, 100))
def test_a_percentile_is_a_value_that_so_many_do_not_exceed(values: list[float], percent: float) -> None:
    found = percentile(values, percent)
    assert found in values
    assert sum(value <= found for value in values) >= len(values) * percent / 100 - 1e-9
    assert sum(value < found for value in values) < len(values) * percent / 100 + 1e-9


def test_each_step_counts_anew_unless_told_otherwise(writer: RunWriter) -> None:
    with writer, MetricsRecorder(writer) as recorder:
        for step, reset in ((0, True), (1, False), (2, True)):
            recorder(completion())
            recorder(execution(f"s-{step}"))
            recorder.log(step, {"loss": 0.5}, reset=reset)
    rows = RunReader(writer.path).metrics().rows
    assert [row.metrics["completions"] for row in rows] == [1, 1, 2]
    assert [row.metrics["aviato/executions"] for row in rows] == [1, 1, 2]
    assert all(row.metrics["loss"] == 0.5 for row in rows)


def test_a_crash_loses_no_number(writer: RunWriter) -> None:
    def crash() -> None:
        with writer, MetricsRecorder(writer) as recorder:
            recorder.log(4)
            recorder(completion())
            raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        crash()
    rows = RunReader(writer.path).metrics().rows
    assert [(row.step, row.metrics.get("completions")) for row in rows] == [(4, None), (5, 1)]


def test_a_disk_that_is_full_at_the_end_is_told_and_covers_no_other_error(writer: RunWriter) -> None:
    told: list[Event] = []
    (writer.path / "metrics.jsonl").symlink_to("/dev/full")
    recorder = MetricsRecorder(writer, emit=told.append)
    recorder(completion())
    with pytest.raises(ServiceError, match="No space"):
        recorder.log(0)
    recorder(completion())
    recorder.close()
    assert [isinstance(event, Warned) and "the last metrics are lost" in event.message for event in told] == [True]


def test_the_statistics_of_each_sandbox_are_kept_until_the_step_ends() -> None:
    recorder = MetricsRecorder()
    for event in (execution("a"), execution("a", "error"), execution("b", "failure")):
        recorder(event)
    assert recorder.execution_stats() == {
        "a": ExecutionStats(total=2, successes=1, errors=1),
        "b": ExecutionStats(total=1, failures=1),
    }
    recorder.log(0)
    assert recorder.execution_stats() == {}


def test_threads_can_share_a_recorder() -> None:
    recorder = MetricsRecorder()

    def tell() -> None:
        for _ in range(500):
            recorder(execution())

    threads = [threading.Thread(target=tell) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recorder.log(0)["aviato/executions"] == 2000


def test_each_execution_is_one_line_of_the_log_without_secrets(writer: RunWriter) -> None:
    done = execution(returncode=1, stdout_bytes=7, error="the key sk-0123456789 was refused", exec_seconds=0.5)
    with writer:
        log = RunLog(writer)
        log.step = 3
        log(done)
    [row] = RunReader(writer.path).log().rows
    assert (row.level, row.event, row.step) == ("error", "execution_finished", 3)
    assert row.fields["stdout_bytes"] == 7
    assert row.fields["error"] == "the key [secret] was refused"
    assert logged_executions([row]) == (replace(done, error="the key [secret] was refused"),)


@pytest.mark.parametrize(("level", "lines"), [("debug", 3), ("info", 3), ("warning", 2), ("error", 1)])
def test_the_level_decides_what_is_logged(writer: RunWriter, level: str, lines: int) -> None:
    with writer:
        log = RunLog(writer, LogLevel(level))
        for event in (execution(), RetryScheduled(0, 2, 3, "lost"), execution(None, "error", error="no sandbox")):
            log(event)
    assert len(RunReader(writer.path).log().rows) == lines


def test_a_log_line_of_another_version_is_passed_over(writer: RunWriter) -> None:
    with writer:
        RunLog(writer)(execution())
    file = writer.path / "log.jsonl"
    file.write_text(file.read_text() + file.read_text().replace('"outcome"', '"ending"').replace('"t"', "null"))
    assert len(logged_executions(RunReader(writer.path).log().rows)) == 1


def test_numbers_that_disagree_are_named(writer: RunWriter) -> None:
    with writer, MetricsRecorder(writer) as recorder:
        writer.append(trajectory(0, sandboxes=1))
        checks = (CheckRow(status="passed"), CheckRow(status="failed"))
        writer.append(trajectory(1, sandboxes=2, passed=2, total=2, checks=checks))
        writer.append_sandbox(intent("1", "canary"))
        writer.append_sandbox(intent("2"))
        recorder(completion())
        recorder.log(0)
    lines = disagreements(RunReader(writer.path), is_complete=True)
    assert "executions: 3, but executed + retries + reruns: 2" in lines
    assert "sandboxes in the ledger: 1, but executions: 3" in lines
    assert "step 0: completions in the metrics: 1, but in the completions: 2" in lines
    assert "completions whose counts differ from their single checks: 1" in lines


def test_sandboxes_of_another_process_have_the_same_keys(writer: RunWriter) -> None:
    with writer, RunWriter(writer.path, job_id=writer.job_id, rank=1) as other:
        writer.append(trajectory(0, sandboxes=1))
        for each in (writer, other):
            each.append_sandbox(intent("000001", "warm"))
        writer.append_sandbox(intent("000001", "problem-t", event=SandboxEvent.TAKEN))
    lines = disagreements(RunReader(writer.path), is_complete=True)
    assert [line for line in lines if "ledger" in line] == []


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("reward/mean", Group.REWARD),
        ("held_out/pass@4_low", Group.REWARD),
        ("loss", Group.TRAINING),
        ("step_seconds", Group.TIMING),
        ("episodes/policy_seconds", Group.TIMING),
        ("aviato/executions", Group.SANDBOXES),
        ("status/timeout", Group.COMPLETIONS),
        ("nonsense", Group.OTHER),
    ],
)
def test_every_metric_is_in_one_group(name: str, group: Group) -> None:
    assert group_of(name) is group
    assert {group_of(metric.name.replace("{k}", "1")) for metric in METRICS} == set(Group) - {Group.OTHER}
