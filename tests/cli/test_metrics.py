"""`sandrl metrics` on run directories that the real writer wrote."""

from __future__ import annotations

import csv
import io
import json
import threading
from pathlib import Path

import pytest

from sandrl.runs import MetricsRow, RunOutcome, RunWriter
from sandrl.runs.metrics import Group
from tests.cli.conftest import SANDRL, Run
from tests.support.programs import require_program
from tests.support.sample_runs import failed, trajectory, write_run
from tests.support.terminal import run_on_terminal

pytestmark = pytest.mark.usefixtures("own_index")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    rows = [trajectory(n, step=n // 2) if n % 2 or n > 5 else failed(n, step=n // 2) for n in range(8)]
    return write_run(tmp_path / "runs", rows, command="grpo", extra={step: {"loss": 0.1 * step} for step in range(4)})


def test_the_latest_run_is_shown_with_the_course_of_each_metric(sandrl: Run, run: Path) -> None:
    shown = sandrl("metrics").stdout
    assert shown.startswith("Run sample: grpo, finished, 4 steps\n")
    [line] = [line for line in shown.splitlines() if line.startswith("pass_rate")]
    assert line.split() == ["pass_rate", "100.0%", "▁▁▁█", "0.5", "–", "1"]
    assert "aviato/executions" in shown


def test_an_interval_stands_beside_its_value(sandrl: Run, run: Path) -> None:
    shown = sandrl("metrics", "-m", "pass@*").stdout
    [line] = [line for line in shown.splitlines() if line.startswith("pass@1")]
    assert "100.0% [20.7%, 100.0%]" in line
    # Chosen by its own name, a bound is shown as any metric.
    assert "pass@1_low" in sandrl("metrics", "-m", "pass@1_low").stdout


def test_names_are_whole_on_eighty_columns_beside_intervals_and_a_long_course(sandrl: Run, tmp_path: Path) -> None:
    rows = [trajectory(n, step=n) for n in range(40)]
    extra: dict[int, dict[str, float | None]] = {
        step: {
            "held_out/pass@1": 0.3333 + step / 100,
            "held_out/pass@1_low": 0.1234,
            "held_out/pass@1_high": 0.9876,
            "held_out/greedy_problems": 64.0,
        }
        for step in range(40)
    }
    write_run(tmp_path / "runs", rows, command="grpo", extra=extra)
    shown = sandrl("metrics", "-m", "held_out/*", COLUMNS="80").stdout.splitlines()
    assert [line.split()[0] for line in shown[1:]] == [
        "metric", "reward", "held_out/pass@1", "held_out/greedy_problems",
    ]  # fmt: skip
    assert max(map(len, shown)) <= 80


def test_metrics_stand_in_groups_the_reward_first_and_what_never_changes_is_a_word(sandrl: Run, run: Path) -> None:
    lines = sandrl("metrics").stdout.splitlines()
    titles = [line for line in lines if line in set(Group)]
    assert titles == ["reward and passing", "training", "timing", "sandboxes", "completions"]
    assert lines[2:4] == ["reward and passing", next(line for line in lines if line.startswith("reward/mean"))]
    [constant] = [line for line in lines if line.startswith("unscorable_share")]
    assert constant.split() == ["unscorable_share", "0.0%", "constant"]


def test_a_long_list_is_paged_and_the_reward_is_on_the_first_page(run: Path, tmp_path: Path) -> None:
    require_program("less")
    words = [*SANDRL, "metrics", str(run)]
    environment = {"PAGER": "less", "LESS": "FRX"}
    shown = run_on_terminal(words, rows=12, environment=environment, typed=[(lambda text: "reward/mean" in text, b"q")])
    assert (shown.exit_code, "reward/mean" in shown.plain) == (0, True)
    assert "canaries" not in shown.plain
    whole = run_on_terminal(words, rows=12, environment={"PAGER": "cat"})
    assert "canaries" in whole.plain


def test_a_comparison_fits_a_narrow_terminal_and_keeps_both_ids_whole(run: Path, tmp_path: Path) -> None:
    names = ["grpo-20261124-180000-ab12", "grpo-20261124-190000-cd34"]
    for name in names:
        write_run(tmp_path / "runs", [trajectory(0), failed(1)], name=name)
    shown = run_on_terminal([*SANDRL, "metrics", "--compare", *names], columns=60).plain.splitlines()
    assert shown[:2] == [f"run 1: {names[0]}", f"run 2: {names[1]}"]
    assert max(map(len, shown)) <= 60


def test_json_has_every_value_and_its_unit(sandrl: Run, run: Path) -> None:
    document = json.loads(sandrl("metrics", "sample", "--metric", "loss", "--metric", "pass*", "--json").stdout)
    assert (document["state"], document["steps"], document["flags"]) == ("finished", 4, [])
    assert list(document["metrics"]) == ["pass_rate", "pass@1", "pass@1_low", "pass@1_high", "loss"]
    assert document["metrics"]["pass_rate"] == {
        "unit": "share", "last": 1.0, "steps": [0, 1, 2, 3], "values": [0.5, 0.5, 0.5, 1.0],
    }  # fmt: skip


def test_csv_has_a_row_per_step(sandrl: Run, run: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(sandrl("metrics", "--csv").stdout)))
    assert [(row["step"], row["pass_rate"], row["completions"]) for row in rows] == [
        ("0", "0.5", "2.0"), ("1", "0.5", "2.0"), ("2", "0.5", "2.0"), ("3", "1.0", "2.0"),
    ]  # fmt: skip


def test_two_runs_are_compared(sandrl: Run, run: Path, tmp_path: Path) -> None:
    write_run(tmp_path / "runs", [trajectory(0), failed(1)], name="other")
    lines = sandrl("metrics", "--compare", "sample", "other", "-m", "pass_rate", "-m", "loss").stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["metric", "sample", "other", "difference"],
        ["pass_rate", "100.0%", "50.0%", "-0.5"],
        ["loss", "0.3", "-"],
    ]


def test_a_plot_has_its_axes(sandrl: Run, run: Path) -> None:
    done = sandrl("metrics", "--plot", "reward/mean", COLUMNS="60")
    assert done.stdout.startswith("reward/mean: 1 at step 3\n")
    assert "└" in done.stdout
    assert "█" in done.stdout


def test_trouble_is_flagged_with_what_to_do(sandrl: Run, tmp_path: Path) -> None:
    rows = [trajectory(n, reward=None, status="infrastructure") for n in range(3)]
    write_run(tmp_path / "runs", [*rows, trajectory(9)])
    lines = [
        "! 75% of the completions have no reward",
        "  read the reasons: sandrl runs show --status infrastructure",
        "  many_unscorable: unscorable_share: 75%, threshold 5%, step 0",
    ]
    for words in (("metrics",), ("runs", "show")):
        assert "\n".join(lines) in sandrl(*words).stdout
    narrow = sandrl("metrics", COLUMNS="60").stdout
    assert max(map(len, narrow.splitlines())) <= 60
    assert " ".join(lines[0].split()) in " ".join(narrow.split())
    documents = [json.loads(sandrl(*words, "--json").stdout) for words in (("metrics",), ("runs", "show"))]
    assert documents[0]["flags"] == documents[1]["flags"] == [
        {
            "name": "many_unscorable", "message": "75% of the completions have no reward", "fields": [],
            "hint": "read the reasons: sandrl runs show --status infrastructure", "metrics": ["unscorable_share"],
            "value": 0.75, "threshold": 0.05, "unit": "share", "first_step": 0, "last_step": 0,
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nope",), "there is no run 'nope'"),
        (("--metric", "reward/maen"), "did you mean 'reward/mean'?"),
        (("--json", "--csv"), "use only one of --watch, --plot"),
    ],
)
def test_what_cannot_be_shown_is_said_in_a_line(sandrl: Run, run: Path, words: tuple[str, ...], message: str) -> None:
    done = sandrl("metrics", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_numbers_that_are_none_are_shown_and_written_as_such(sandrl: Run, tmp_path: Path) -> None:
    write_run(tmp_path / "runs", [trajectory(0)], extra={0: {"loss": float("nan")}})
    assert "! the loss of step 0 is NaN or infinite" in sandrl("metrics").stdout
    assert json.loads(sandrl("metrics", "--json").stdout)["metrics"]["loss"]["last"] == "NaN"


def test_watching_ends_with_the_job_and_shows_what_came_last(tmp_path: Path) -> None:
    writer = RunWriter.create(tmp_path / "runs", command="grpo", job_id="job-1", name="live")
    writer.append(MetricsRow(job_id="job-1", step=0, metrics={"loss": 1.0}))

    def end() -> None:
        writer.append(MetricsRow(job_id="job-1", step=1, metrics={"loss": 0.125}))
        writer.finish(RunOutcome.FINISHED)
        writer.close()

    seen = threading.Event()

    def has_begun(text: str) -> bool:
        if "grpo, running, 1 step" in text and not seen.is_set():
            seen.set()
            end()
        return False

    shown = run_on_terminal([*SANDRL, "metrics", str(writer.path), "--watch"], typed=[(has_begun, b"")])
    assert shown.exit_code == 0
    assert seen.is_set()
    assert "grpo, finished, 2 steps" in shown.plain
    assert "0.125" in shown.plain


def test_ctrl_c_is_the_way_out_of_watching(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "runs", command="grpo", job_id="job-1", name="live") as writer:
        shown = run_on_terminal(
            [*SANDRL, "metrics", str(writer.path), "--watch"], typed=[(lambda text: "running" in text, b"\x03")]
        )
    assert shown.exit_code == 0
    assert "Traceback" not in shown.text
