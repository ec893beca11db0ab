"""Metrics to trackers: real W&B against a stand-in of its API, TensorBoard, MLflow and Trackio read by themselves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandrl.errors import MissingExtraError
from sandrl.events import Event, ReportingStarted, Warned
from sandrl.installation import install_command
from sandrl.runs import RunReader, RunWriter, SandboxEvent
from sandrl.runs.metrics import SANDBOX_METRICS, SDK_METRICS
from sandrl.runs.rows import MetricsRow, TrajectoryRow
from sandrl.runs.trackers import reporting
from sandrl.runs.trackers.tables import MAX_CHARACTERS, MAX_ROWS, CompletionTables
from sandrl.settings import ReportTo, Settings
from tests.cli.conftest import RIGHT, WRONG, Run
from tests.support.tracked_job import metrics_of
from tests.support.wandb_api import WandbApi, wandb_api
from tests.support.wandb_file import read_offline_run

KEY = "0123456789" * 4
JOB = Path(__file__).parents[1] / "support" / "tracked_job.py"


@pytest.fixture
def api() -> Iterator[WandbApi]:
    pytest.importorskip("wandb", reason="needs the extra `wandb`")
    with wandb_api() as api:
        yield api


@pytest.fixture
def writer(tmp_path: Path) -> RunWriter:
    return RunWriter.create(tmp_path / "runs", command="grpo", job_id="job-1", name="run", options={"steps": 3})


def settings(tmp_path: Path, **fields: Any) -> Settings:
    return Settings(state_dir=tmp_path / "state", cache_dir=tmp_path / "cache", **fields)


def online(api: WandbApi) -> dict[str, str]:
    # The SDK sends every 15 s unless told otherwise.
    return {"WANDB_API_KEY": KEY, "WANDB_BASE_URL": api.url, "WANDB__FILE_STREAM_TRANSMIT_INTERVAL": "1"}


def python(place: Path, *words: str | Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=place, env={**os.environ, **environment}, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode in (0, -9), done.stderr
    return done.stdout + done.stderr


def job(place: Path, trackers: str, attempt: int, first: int, last: int, *wait: float, **environment: str) -> str:
    """A job of the run, which is killed if it waits."""
    words = [trackers, *map(str, (attempt, first, last, *wait))]
    said = python(place, JOB, *words, PYTHONPATH=os.pathsep.join(sys.path), **environment)
    assert ("done" in said) == (not wait), said
    return said


def sync(place: Path, *words: str, **environment: str) -> str:
    return python(place, "-m", "sandrl", "runs", "sync", "run", "--runs-dir", "runs", *words, **environment)


KILLED_THRICE = {0: 1, 1: 1, 2: 1, 3: 3, 4: 3, 5: 3, 6: 3}
"""The attempt that did each step of a run whose second job began at step 4, and whose third at step 3."""


def assert_is_whole(api: WandbApi, name: str, attempts: dict[int, int]) -> None:
    """Each step once, as the attempt that counts did it, and the tables of every second step."""
    run = api.runs[name]
    assert run.steps == sorted(attempts)
    for row in run.rows:
        step = row["_step"]
        measured = {key: value for key, value in metrics_of(step, attempts[step]).items() if value is not None}
        assert {key: row.get(key) for key in measured} == pytest.approx(measured)
        assert "empty" not in row
        assert row["cwsandbox/executions"] == 3
        assert ("table/completions" in row) == (step % 2 == 0)
    for step in (step for step in attempts if step % 2 == 0):
        first, *_, last = run.table(step, "table/completions")
        assert first == {
            "task_id": "double", "prompt": "Write double(n).", "reward": 0, "passed": 0, "total": 2, "status": "failed",
            "completion": f"answer 0 of attempt {attempts[step]} [secret]", "reason": "check 2 of 2: wrong",
        }  # fmt: skip
        assert (last["reward"], last["status"], last["reason"]) == (1, "passed", "")


def test_a_run_killed_three_times_offline_is_in_wandb_once(tmp_path: Path, api: WandbApi) -> None:
    offline = {"WANDB_MODE": "offline", "WANDB_API_KEY": KEY}
    assert "sandrl runs sync run" in job(tmp_path, "wandb", 1, 0, 5, 0, **offline)
    job(tmp_path, "wandb", 2, 4, 7, 0, **offline)
    job(tmp_path, "wandb", 3, 3, 6, 0, **offline)
    assert not api.requests
    for _ in range(2):
        assert "run: 7 steps in W&B: http" in sync(tmp_path, **online(api))
        [name] = api.runs
        assert_is_whole(api, name, KILLED_THRICE)
    assert api.runs[name].exit_code == 1
    assert api.runs[name].display_name == "run"


def test_a_sync_that_is_killed_is_gone_on_with(tmp_path: Path, api: WandbApi) -> None:
    job(tmp_path, "wandb", 1, 0, 8, WANDB_MODE="offline", WANDB_API_KEY=KEY)
    for _ in range(2):
        syncing = subprocess.Popen(
            [sys.executable, "-m", "sandrl", "runs", "sync", "run", "--runs-dir", "runs"],
            cwd=tmp_path, env={**os.environ, **online(api)}, start_new_session=True,
        )  # fmt: skip
        while not api.lines and syncing.poll() is None:
            time.sleep(0.01)
        # W&B's own process dies, too.
        os.killpg(syncing.pid, 9)
        syncing.wait()
    sync(tmp_path, **online(api))
    [name] = api.runs
    assert_is_whole(api, name, dict.fromkeys(range(9), 1))


def test_an_online_run_that_is_resumed_is_rewound(tmp_path: Path, api: WandbApi) -> None:
    job(tmp_path, "wandb", 1, 0, 5, 3, **online(api))
    [name] = api.runs
    assert api.runs[name].steps[:4] == [0, 1, 2, 3]
    job(tmp_path, "wandb", 2, 4, 7, 3, **online(api))
    job(tmp_path, "wandb", 3, 3, 6, **online(api))
    assert "RewindRun" in api.requests
    assert_is_whole(api, name, KILLED_THRICE)
    assert [*api.runs] == [name]


def test_where_wandb_does_not_rewind_a_further_run_has_all_steps(tmp_path: Path, api: WandbApi) -> None:
    api.rewinds = False
    job(tmp_path, "wandb", 1, 0, 5, 3, **online(api))
    said = job(tmp_path, "wandb", 2, 3, 6, **online(api))
    first, second = api.runs
    assert second == f"{first}-2"
    assert f"W&B does not rewind its run {first}" in said
    assert_is_whole(api, second, {0: 1, 1: 1, 2: 1, 3: 2, 4: 2, 5: 2, 6: 2})
    sync(tmp_path, **online(api))
    assert [*api.runs] == [first, second]


def test_a_run_begun_offline_is_whole_when_it_goes_on_online(tmp_path: Path, api: WandbApi) -> None:
    job(tmp_path, "wandb", 1, 0, 4, 0, WANDB_MODE="offline", WANDB_API_KEY=KEY)
    job(tmp_path, "wandb", 2, 3, 6, **online(api))
    [name] = api.runs
    assert_is_whole(api, name, {0: 1, 1: 1, 2: 1, 3: 2, 4: 2, 5: 2, 6: 2})


def test_what_wandb_did_not_take_is_sent_later(tmp_path: Path, api: WandbApi) -> None:
    program = """
import sys
from sandrl.runs.trackers import wandb
wandb.Wandb.__init__.__kwdefaults__["finish_seconds"] = 1.0
sys.argv = ["tracked_job.py", "wandb,tensorboard", "1", "0", "8"]
from tests.support.tracked_job import main
main()
"""
    # The service answers the SDK until it has a line of history.
    api.fail_after = 1
    said = python(tmp_path, "-c", program, PYTHONPATH=os.pathsep.join([*sys.path, os.getcwd()]), **online(api))
    assert "W&B failed, and reporting to it has stopped" in said
    assert said.count("reporting to it has stopped") == 1
    assert "sandrl runs sync run --to wandb" in said
    assert "done" in said
    assert len(scalars(tmp_path)["loss"]) == 9
    api.fail_after = None
    sync(tmp_path, **online(api))
    [name] = api.runs
    assert_is_whole(api, name, dict.fromkeys(range(9), 1))


def test_where_wandb_does_not_answer_the_run_goes_on_and_says_so(tmp_path: Path) -> None:
    pytest.importorskip("wandb", reason="needs the extra `wandb`")
    nowhere = {"WANDB_API_KEY": KEY, "WANDB_BASE_URL": "http://127.0.0.1:9"}
    said = job(tmp_path, "auto", 1, 0, 2, **nowhere)
    assert "W&B failed, and reporting to it has stopped" in said
    assert len(RunReader(tmp_path / "runs" / "run").metrics().rows) == 3
    done = subprocess.run(
        [sys.executable, "-m", "sandrl", "runs", "sync", "run", "--runs-dir", "runs"],
        cwd=tmp_path, env={**os.environ, **nowhere}, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert "hint: send the rest: sandrl runs sync run --to wandb" in done.stderr
    assert "Traceback" not in done.stderr


def scalars(place: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard reads of the run."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(place / "runs" / "run" / "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [(each.step, each.value) for each in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def by_metric(place: Path) -> dict[str, list[tuple[int, float]]]:
    """The same of `metrics.jsonl`, as the latest attempts did the steps that led to where the run is."""
    found: dict[str, list[tuple[int, float]]] = {}
    for row in RunReader(place / "runs" / "run").metrics().rows:
        for name, value in row.metrics.items():
            if value is not None:
                found.setdefault(name, []).append((row.step, value))
    return {name: sorted(values) for name, values in found.items()}


@pytest.mark.parametrize("is_synced", [False, True])
def test_tensorboard_has_each_step_once(tmp_path: Path, is_synced: bool) -> None:
    pytest.importorskip("tensorboard", reason="needs the extra `tensorboard`")
    to = "none" if is_synced else "tensorboard"
    job(tmp_path, to, 1, 0, 5, 0)
    job(tmp_path, to, 2, 4, 7, 0)
    job(tmp_path, to, 3, 3, 8)
    if is_synced:
        for _ in range(2):
            sync(tmp_path, "--to", "tensorboard")
    expected = by_metric(tmp_path)
    found = scalars(tmp_path)
    assert {*found} == {*expected}
    for name, values in expected.items():
        # Scalars of TensorBoard have 32 bits.
        assert [step for step, _ in found[name]] == [step for step, _ in values]
        assert [value for _, value in found[name]] == pytest.approx([value for _, value in values], rel=1e-6)
    assert [step for step, _ in found["loss"]] == [*range(9)]
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    events = EventAccumulator(str(tmp_path / "runs" / "run" / "tensorboard"), size_guidance={"tensors": 0})
    events.Reload()
    tables = {each.step: make_ndarray(each.tensor_proto) for each in events.Tensors("table/completions")}
    assert {*tables} == {0, 2, 4, 6, 8}
    assert tables[4].shape == (4, 8)
    assert tables[4][0].tolist()[:3] == [b"task_id", b"prompt", b"completion"]
    assert tables[4][1][2].strip() == b"answer 0 of attempt 3 None"


@pytest.mark.filterwarnings("ignore")
def test_mlflow_has_each_step_once(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow", reason="needs the extra `mlflow`")
    store = {"MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path / 'mlflow.db'}"}
    job(tmp_path, "mlflow", 1, 0, 5, 0, **store)
    job(tmp_path, "mlflow", 2, 3, 8, **store)
    sync(tmp_path, "--to", "mlflow", **store)
    client = mlflow.MlflowClient(store["MLFLOW_TRACKING_URI"])
    experiment = client.get_experiment_by_name("sandrl").experiment_id
    [run] = client.search_runs([experiment])
    assert run.info.status == "FINISHED"
    assert run.data.params["steps"] == "9"
    for name, values in by_metric(tmp_path).items():
        history = client.get_metric_history(run.info.run_id, name.replace("@", "_at_"))
        assert sorted((each.step, each.value) for each in history) == values
    [file] = tmp_path.glob(f"mlruns/**/{run.info.run_id}/**/table/completions-4.json")
    table = json.loads(file.read_text())
    assert dict(zip(table["columns"], table["data"][0], strict=True))["status"] == "failed"


def test_trackio_has_each_step_once(tmp_path: Path) -> None:
    pytest.importorskip("trackio", reason="needs the extra `trackio`")
    store = {"TRACKIO_DIR": str(tmp_path / "trackio")}
    job(tmp_path, "trackio", 1, 0, 5, 0, **store)
    said = job(tmp_path, "trackio", 2, 3, 8, **store)
    assert "* " not in said
    sync(tmp_path, "--to", "trackio", **store)
    program = """
import json, trackio
from trackio.sqlite_storage import SQLiteStorage
[run] = trackio.Api().runs("sandrl")
rows = SQLiteStorage.get_logs("sandrl", run.name)
print(json.dumps([[row["step"], row["loss"], "table/completions" in row] for row in rows]))
"""
    rows = json.loads(python(tmp_path, "-c", program, **store).splitlines()[-1])
    assert [(step, loss) for step, loss, _ in rows] == by_metric(tmp_path)["loss"]
    assert [has_table for *_, has_table in rows] == [step % 2 == 0 for step in range(9)]


def test_a_tracker_that_fails_stops_no_other(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs the extra `tensorboard`")
    pytest.importorskip("mlflow", reason="needs the extra `mlflow`")
    said = job(tmp_path, "mlflow,tensorboard", 1, 0, 8, MLFLOW_TRACKING_URI="http://me:hunter22@127.0.0.1:9")
    assert "MLflow failed, and reporting to it has stopped" in said
    assert "hunter22" not in said
    assert len(scalars(tmp_path)["loss"]) == 9


def test_a_sync_without_a_key_says_so(sandrl: Run, tmp_path: Path, writer: RunWriter) -> None:
    pytest.importorskip("wandb", reason="needs the extra `wandb`")
    with writer:
        writer.append(MetricsRow(job_id="job-1", step=0, metrics={"loss": 0.5}))
    done = sandrl("runs", "sync", "run", "--runs-dir", tmp_path / "runs", HOME=str(tmp_path))
    assert done.returncode == 3
    assert done.stderr == (
        "sandrl: error: W&B needs a key to receive a run\n  hint: set WANDB_API_KEY, or use wandb login\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--to", "comet"], "the list of trackers names 'comet'; use one or more of"),
        (["--to", "none"], "the list of trackers must name each of them, once"),
        (["--to", "tensorboard"], "the run run has no metrics to send"),
    ],
)
def test_a_sync_that_is_impossible_is_refused(sandrl: Run, tmp_path: Path, words: list[str], message: str) -> None:
    pytest.importorskip("tensorboard", reason="needs the extra `tensorboard`")
    RunWriter.create(tmp_path / "runs", command="grpo", job_id="job-1", name="run").close()
    done = sandrl("runs", "sync", "run", "--runs-dir", tmp_path / "runs", *words)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_run_that_is_written_is_not_synced(sandrl: Run, tmp_path: Path, writer: RunWriter) -> None:
    with writer:
        done = sandrl("runs", "sync", "run", "--runs-dir", tmp_path / "runs")
    assert done.returncode == 2
    assert "the job of run is running" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--report-to", "none,wandb"], "--report-to names none and others"),
        (["--report-to", "tensorbord"], "--report-to names 'tensorbord'"),
        (["--report-to", "none", "--log-completions", "2"], "no tracker gets a table"),
    ],
)
def test_options_of_trackers_that_make_no_sense_are_refused(
    sandrl: Run, problems: Path, words: list[str], message: str
) -> None:
    done = sandrl("reward", "-", "--problems", problems, *words, stdin=RIGHT)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_scored_run_is_in_wandb_with_every_metric_and_its_sandboxes_say_so(
    sandrl: Run, problems: Path, api: WandbApi
) -> None:
    done = sandrl(
        "reward", "-", "--problems", problems, "--report-to", "wandb", "--run-name", "r1", "--runs-dir", "mine",
        "--fresh-sandboxes", "--log-completions", "1", stdin=RIGHT + WRONG, **online(api),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    [name] = api.runs
    assert f"W&B: run {name}, {api.url}" in done.stderr
    reader = RunReader(problems.parent / "mine" / "r1")
    [row] = reader.metrics().rows
    [sent] = api.runs[name].rows
    measured = {key: value for key, value in row.metrics.items() if value is not None}
    assert {key: sent.get(key) for key in measured} == measured
    assert sent["cwsandbox/executions"] == sent["cwsandbox/startup_count"] == 2
    assert (sent["cwsandbox/exec_completed_ok"], sent["cwsandbox/exec_completed_nonzero"]) == (1, 1)
    assert {key: sent[key] for key in SDK_METRICS} == {key: sent[ours] for key, ours in SDK_METRICS.items()}
    assert {key for key in sent if key.startswith("cwsandbox/")} == {*SDK_METRICS}
    assert [each["status"] for each in api.runs[name].table(0, "table/completions")] == ["passed", "failed"]
    assert api.runs[name].config["extract"] == {"value": "auto"}
    intents = [line for line in reader.sandboxes().rows if line.event is SandboxEvent.INTENT]
    assert all(any(tag.startswith("wandb-run") for tag in line.tags) for line in intents)


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


FOREIGN = """
from pathlib import Path
import wandb
from sandrl.runs import MetricsRecorder, RunWriter
from sandrl.runs.trackers import reporting
from sandrl.settings import ReportTo, load_settings

run = wandb.init(mode="offline", project="theirs", dir=".", settings=wandb.Settings(silent=True))
for step in range({theirs}):
    run.log({{"theirs": step}})
writer = RunWriter.create(Path("runs"), command="grpo", job_id="job-1", name="run", options={{"steps": 3}})
with writer, reporting(writer, [ReportTo.AUTO], load_settings(), is_training=True) as told:
    assert told.wandb_run == run.id
    recorder = MetricsRecorder(writer)
    for step in range(3):
        recorder.log(step, {{"loss": 0.5 ** step}})
assert wandb.run is run
run.log({{"after": 1.0}})
run.finish()
"""


@pytest.mark.parametrize("theirs", [0, 5])
def test_an_active_run_has_every_row_and_is_left_open(tmp_path: Path, theirs: int) -> None:
    pytest.importorskip("wandb", reason="needs the extra `wandb`")
    python(tmp_path, "-c", FOREIGN.format(theirs=theirs))
    history, _ = read_offline_run(tmp_path)
    rows = [row for row in history.values() if "loss" in row]
    assert [row["loss"] for row in rows] == [1.0, 0.5, 0.25]
    # W&B drops rows of steps before its own.
    assert [row.get("sandrl/step") for row in rows] == ([0, 1, 2] if theirs else [None] * 3)
    assert sum("theirs" in row for row in history.values()) == theirs
    assert any("after" in row for row in history.values())


class Broken:
    """What W&B's run is when everything about it fails."""

    id = "abc"
    url = "https://wandb.test/abc"
    step = 0

    def log(self, *_: object, **__: object) -> None:
        raise RuntimeError("disk quota exceeded\nTraceback …")

    def finish(self, **_: object) -> None:
        raise AssertionError("it has failed before and must not be asked again")


def test_whatever_a_tracker_does_is_said_once_and_ends_nothing(
    writer: RunWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Event] = []
    monkeypatch.setitem(sys.modules, "wandb", type("Module", (), {"run": Broken()}))
    given = Settings(state_dir=writer.path, cache_dir=writer.path)
    with writer, reporting(writer, [ReportTo.AUTO], given, is_training=True, emit=told.append):
        for step in range(3):
            writer.append(MetricsRow(job_id="job-1", step=step, metrics={"loss": 0.5}))
    assert [event.message for event in told if isinstance(event, Warned)] == [
        "W&B failed, and reporting to it has stopped: disk quota exceeded"
    ]


def test_without_a_key_or_an_active_run_auto_reports_nothing(tmp_path: Path, writer: RunWriter) -> None:
    told: list[Event] = []
    for is_training, mode in ((True, None), (False, None), (True, "disabled")):
        given = settings(tmp_path, wandb_mode=mode, wandb_api_key=KEY if mode or not is_training else None)
        with reporting(writer, [ReportTo.AUTO], given, is_training=is_training, emit=told.append) as trackers:
            assert trackers.wandb_run is None
    assert not [event for event in told if isinstance(event, ReportingStarted)]


@pytest.mark.parametrize("tracker", ["wandb", "tensorboard", "mlflow", "trackio"])
def test_where_a_tracker_is_missing_asking_for_it_names_the_install_line(
    tmp_path: Path, writer: RunWriter, monkeypatch: pytest.MonkeyPatch, tracker: str
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == tracker]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, tracker, None)
    with (
        pytest.raises(MissingExtraError) as caught,
        reporting(writer, [ReportTo(tracker)], settings(tmp_path), is_training=True),
    ):
        pass
    assert caught.value.hint == install_command(tracker)


def test_a_key_without_wandb_is_said(tmp_path: Path, writer: RunWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    told: list[Event] = []
    keyed = settings(tmp_path, wandb_api_key=KEY)
    with reporting(writer, [ReportTo.AUTO], keyed, is_training=True, emit=told.append) as trackers:
        assert trackers.wandb_run is None
    assert [event.message for event in told if isinstance(event, Warned)] == [
        "WANDB_API_KEY is set, but wandb is not installed, so no metrics are reported to W&B"
    ]


def test_a_table_is_bounded_and_reads_what_can_be_read(writer: RunWriter) -> None:
    with writer:
        for index in reversed(range(MAX_ROWS + 50)):
            writer.append(
                TrajectoryRow(
                    job_id="job-1", step=4, index=index, id="c", task_id=str(index), reward=None, duration_seconds=0,
                    status="infrastructure", completion="x" * 10 * MAX_CHARACTERS,
                )
            )  # fmt: skip
        tables = CompletionTables(writer.path, 4)
        [table] = tables.at(4).values()
        assert [row[0] for row in table.rows] == [str(index) for index in range(MAX_ROWS)]
        assert all(MAX_CHARACTERS < len(str(row[2])) < MAX_CHARACTERS + 100 for row in table.rows)
        assert table.rows[0][3] is None
        with (writer.path / "trajectories.jsonl").open("ab") as file:
            file.write(b'[]\n{"index": "x"}\n\xff\n{"index": 1, "step": 8}\n{"index": 2, "st')
        assert [len(each.rows) for each in tables.at(8).values()] == [0]
        assert tables.at(5) == {}
