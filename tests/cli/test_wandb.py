"""Metrics to W&B, with the real `wandb`, offline."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sandrl.errors import MissingExtraError
from sandrl.events import Event, ReportingStarted, Warned
from sandrl.installation import install_command
from sandrl.runs import RunReader, RunWriter, SandboxEvent
from sandrl.runs.metrics import SANDBOX_METRICS, SDK_METRICS
from sandrl.runs.wandb import WandbSink, reported
from sandrl.settings import ReportTo, Settings
from tests.cli.conftest import RIGHT, WRONG, Run
from tests.support.wandb_file import read_offline_run

KEY = "0123456789" * 4


@pytest.fixture
def wandb_is_installed() -> None:
    pytest.importorskip("wandb", reason="needs the extra `wandb`")


@pytest.fixture
def writer(tmp_path: Path) -> RunWriter:
    return RunWriter.create(tmp_path / "runs", command="grpo", job_id="job-1", name="run", options={"steps": 3})


def settings(tmp_path: Path, **fields: Any) -> Settings:
    return Settings(state_dir=tmp_path / "state", cache_dir=tmp_path / "cache", **fields)


def script(tmp_path: Path, program: str, **environment: str) -> str:
    """Runs a training script of a few lines in a process of its own: W&B's service outlives what it served."""
    preamble = """
from pathlib import Path
from sandrl.runs import MetricsRecorder, RunWriter
from sandrl.runs import wandb as sink
from sandrl.settings import ReportTo, load_settings
sink.INIT_TIMEOUT_SECONDS = 1.0
writer = RunWriter.create(Path("runs"), command="grpo", job_id="job-1", name="run", options={"steps": 3})
"""
    done = subprocess.run(
        [sys.executable, "-c", preamble + program],
        cwd=tmp_path, env={**os.environ, **environment}, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


TRAINING = """
with writer, sink.reported(writer, ReportTo.AUTO, load_settings(), is_training=True, emit=print) as run_id:
    recorder = MetricsRecorder(writer)
    for step in range(3):
        recorder.log(step, {"loss": 0.5 ** step, "reward/mean": float("nan") if step == 1 else 0.5})
print("done")
"""


@pytest.mark.usefixtures("wandb_is_installed")
def test_a_scored_run_is_in_wandb_with_every_metric_and_its_sandboxes_say_so(sandrl: Run, problems: Path) -> None:
    done = sandrl(
        "reward", "-", "--problems", problems, "--report-to", "wandb", "--run-name", "r1", "--runs-dir", "mine",
        stdin=RIGHT + WRONG, WANDB_MODE="offline",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "offline" in next(line for line in done.stderr.splitlines() if line.startswith("W&B: run r1-"))
    reader = RunReader(problems.parent / "mine" / "r1")
    history, config = read_offline_run(reader.path)
    [row] = reader.metrics().rows
    assert {name: history[0].get(name) for name, value in row.metrics.items() if value is not None} == {
        name: value for name, value in row.metrics.items() if value is not None
    }
    assert config["extract"] == "auto"
    intents = [line for line in reader.sandboxes().rows if line.event is SandboxEvent.INTENT]
    assert all(any(tag.startswith("wandb-run") for tag in line.tags) for line in intents)


@pytest.mark.usefixtures("wandb_is_installed")
def test_wandb_has_the_metrics_of_sandboxes_by_both_names_once(sandrl: Run, problems: Path) -> None:
    done = sandrl(
        "reward", "-", "--problems", problems, "--report-to", "wandb", "--run-name", "r1", "--runs-dir", "mine",
        "--fresh-sandboxes", stdin=RIGHT + WRONG, WANDB_MODE="offline",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    history, _ = read_offline_run(problems.parent / "mine" / "r1")
    [row] = history.values()
    assert row["cwsandbox/executions"] == row["cwsandbox/startup_count"] == 2
    assert (row["cwsandbox/exec_completed_ok"], row["cwsandbox/exec_completed_nonzero"]) == (1, 1)
    assert {name: row[name] for name in SDK_METRICS} == {name: row[ours] for name, ours in SDK_METRICS.items()}
    assert {name for name in row if name.startswith("cwsandbox/")} == set(SDK_METRICS)


def test_the_second_names_are_those_of_the_reporter_of_the_sdk() -> None:
    from cwsandbox._types import ExecOutcome
    from cwsandbox._wandb import WandbReporter

    reporter = WandbReporter()
    # Without an active run it does not count the commands of each sandbox.
    reporter._run = Broken()  # type: ignore[assignment]
    reporter.record_sandbox_created()
    outcomes = (ExecOutcome.COMPLETED_OK, ExecOutcome.COMPLETED_NONZERO, ExecOutcome.FAILURE, ExecOutcome.FAILURE)
    for outcome in outcomes:
        reporter.record_exec_outcome(outcome, sandbox_id="s")
    reporter.record_startup_time(2.0)
    counted = reporter.get_metrics()
    assert set(SDK_METRICS) == set(counted)
    assert set(SDK_METRICS.values()) <= {metric.name for metric in SANDBOX_METRICS}
    # A failure of ours is a code other than 0; a failure of theirs brought no code.
    assert counted["cwsandbox/exec_failures"] == 2


@pytest.mark.usefixtures("wandb_is_installed")
def test_a_training_run_with_a_key_is_reported_at_its_steps(tmp_path: Path) -> None:
    said = script(tmp_path, TRAINING, WANDB_API_KEY=KEY, WANDB_MODE="offline")
    history, config = read_offline_run(tmp_path / "runs" / "run")
    assert {step: values["loss"] for step, values in history.items()} == {0: 1.0, 1: 0.5, 2: 0.25}
    assert history[1]["reward/mean"] in ("NaN", pytest.approx(float("nan"), nan_ok=True))
    assert config["steps"] == 3
    assert "ReportingStarted" in said


@pytest.mark.usefixtures("wandb_is_installed")
def test_where_wandb_does_not_answer_the_run_goes_on_offline_and_says_so(tmp_path: Path) -> None:
    said = script(tmp_path, TRAINING, WANDB_API_KEY=KEY, WANDB_BASE_URL="http://127.0.0.1:9")
    assert "W&B cannot be reached and works offline" in said
    assert said.endswith("done\n")
    history, _ = read_offline_run(tmp_path / "runs" / "run")
    assert sorted(history) == [0, 1, 2]


@pytest.mark.usefixtures("wandb_is_installed")
def test_an_active_run_is_used_and_left_open(tmp_path: Path) -> None:
    program = f"""
import wandb
run = wandb.init(mode="offline", project="theirs", dir=".", settings=wandb.Settings(silent=True))
{TRAINING}
assert wandb.run is run
run.log({{"after": 1.0}})
run.finish()
"""
    said = script(tmp_path, program)
    assert "ReportingStarted" in said
    history, _ = read_offline_run(tmp_path)
    assert history[0]["loss"] == 1.0
    assert any("after" in values for values in history.values())


@pytest.mark.usefixtures("wandb_is_installed")
def test_no_row_is_lost_where_the_steps_of_an_active_run_are_further(tmp_path: Path) -> None:
    program = f"""
import wandb
run = wandb.init(mode="offline", project="theirs", dir=".", settings=wandb.Settings(silent=True))
for step in range(5):
    run.log({{"theirs": step}})
{TRAINING}
run.log({{"after": 1.0}})
run.finish()
"""
    script(tmp_path, program)
    history, _ = read_offline_run(tmp_path)
    assert [values["theirs"] for values in history.values() if "theirs" in values] == [0, 1, 2, 3, 4]
    assert [(row["sandrl/step"], row["loss"]) for row in history.values() if "loss" in row] == [
        (0, 1.0),
        (1, 0.5),
        (2, 0.25),
    ]
    assert sorted(history) == list(range(9))


class Broken:
    """What W&B's run is when everything about it fails."""

    id = "abc"

    def log(self, *_: object, **__: object) -> None:
        raise RuntimeError("disk quota exceeded\nTraceback …")

    def finish(self, **_: object) -> None:
        raise AssertionError("it has failed before and must not be asked again")


def test_whatever_wandb_does_is_said_once_and_ends_nothing() -> None:
    told: list[Event] = []
    sink = WandbSink(Broken(), owns=True, emit=told.append)
    for step in range(3):
        sink(step, {"loss": 0.5})
    sink.close()
    assert [event.message for event in told if isinstance(event, Warned)] == [
        "W&B failed, and reporting to it has stopped: disk quota exceeded"
    ]


def test_without_a_key_or_an_active_run_auto_reports_nothing(tmp_path: Path, writer: RunWriter) -> None:
    told: list[Event] = []
    for is_training, mode in ((True, None), (False, None), (True, "disabled")):
        given = settings(tmp_path, wandb_mode=mode, wandb_api_key=KEY if mode or not is_training else None)
        with reported(writer, ReportTo.AUTO, given, is_training=is_training, emit=told.append) as run_id:
            assert run_id is None
    assert not [event for event in told if isinstance(event, ReportingStarted)]


def test_where_wandb_is_missing_asking_for_it_names_the_install_line(
    tmp_path: Path, writer: RunWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with (
        pytest.raises(MissingExtraError) as caught,
        reported(writer, ReportTo.WANDB, settings(tmp_path), is_training=True),
    ):
        pass
    assert caught.value.hint == install_command("wandb")
    told: list[Event] = []
    keyed = settings(tmp_path, wandb_api_key=KEY)
    with reported(writer, ReportTo.AUTO, keyed, is_training=True, emit=told.append) as run_id:
        assert run_id is None
    assert [event.message for event in told if isinstance(event, Warned)] == [
        "WANDB_API_KEY is set, but wandb is not installed, so no metrics are reported to W&B"
    ]
