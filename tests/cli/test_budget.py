"""`--budget` and `sandrl prices`, with real sandboxes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sandrl.config.budget import duration_text
from sandrl.runs import RunReader, SandboxEvent
from sandrl.runs.held import held_by
from sandrl.runtime import daemon
from tests.cli.conftest import Run
from tests.support.chat_server import ChatServer

SLEEP_SECONDS = 0.5
# Starting and stopping a sandbox, on a machine that has much else to do.
SLACK_SECONDS = 4.0


@pytest.fixture(autouse=True)
def _own_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDRL_CONFIG_DIR", str(tmp_path / "config"))


@pytest.fixture
def completions(tmp_path: Path, problems: Path) -> Path:
    """Completions that take a while each, and no two of them alike."""
    path = tmp_path / "completions.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number in range(60):
            code = f"import time\ntime.sleep({SLEEP_SECONDS})\ndef f(x):\n    return x + 1 + {number} - {number}\n"
            file.write(json.dumps({"task_id": "inc", "id": str(number), "code": code}) + "\n")
    return path


def run_of(stderr: str) -> Path:
    return Path(next(line for line in stderr.splitlines() if line.startswith("Run: ")).removeprefix("Run: "))


def metrics_of(run: Path) -> dict[str, Any]:
    [row] = RunReader(run).metrics().rows
    return dict(row.metrics)


@pytest.mark.parametrize("kind", ["--no-fresh-sandboxes", "--fresh-sandboxes"])
def test_a_run_stops_at_its_budget_keeps_what_was_done_and_agrees_with_its_ledger(
    sandrl: Run, completions: Path, problems: Path, kind: str
) -> None:
    done = sandrl("reward", completions, "--problems", problems, "--budget", "6s", "-c", "3", kind)
    assert done.returncode == 1, done.stderr
    run = run_of(done.stderr)
    reader = RunReader(run)
    rows = reader.trajectories().rows
    assert 0 < len(rows) < 60
    assert all(row.reward == 1.0 for row in rows)
    assert "error: the budget of 6s is used up (" in done.stderr
    assert f"{len(rows)} of 60 completions are scored and saved in {run}" in done.stderr
    assert "larger --budget" in done.stderr
    held = held_by(reader).seconds
    assert 4.0 < held < 6.0 + SLEEP_SECONDS + SLACK_SECONDS
    assert metrics_of(run)["sandbox_seconds"] == pytest.approx(held, abs=0.01)
    assert "cost" not in metrics_of(run)
    ledger = reader.sandboxes().rows
    times = {event: {row.key: row.time for row in ledger if row.event is event} for event in SandboxEvent}
    begun, ended = times[SandboxEvent.INTENT], times[SandboxEvent.STOPPED]
    assert begun.keys() == ended.keys()
    assert sum((ended[key] - begun[key]).total_seconds() for key in begun) == pytest.approx(held)
    job = reader.config.jobs[-1]
    assert (job.outcome, str(job.error)[:24]) == ("interrupted", "the budget of 6s is used")


def test_an_evaluation_goes_on_with_a_larger_budget_and_counts_all_of_its_jobs(
    sandrl: Run, problems: Path, tmp_path: Path
) -> None:
    def slow(body: dict[str, Any]) -> str:
        number = body["seed"]
        return f"<answer>import time\ntime.sleep(0.5)\ndef f(x):\n    return x + 1 + {number} - {number}\n</answer>"

    with ChatServer(slow) as server:
        asked = ("--base-url", server.base_url, "--problems", problems, "--samples", "24", "-c", "2")
        first = sandrl("eval", *asked, "--run-name", "mine", "--budget", "3s")
        assert first.returncode == 1, first.stderr
        assert "sandrl eval --resume mine --budget … continues with a larger budget" in first.stderr
        run = run_of(first.stderr)
        done = len(RunReader(run).trajectories().rows)
        assert 0 < done < 24
        used = held_by(RunReader(run)).seconds
        again = sandrl("eval", "--resume", run)
        assert again.returncode == 1
        assert (
            f"the budget of 3s is used up: the run 'mine' has used {duration_text(used)} of sandbox time"
            in again.stderr
        )
        assert "a larger --budget resumes the run" in again.stderr
        rest = sandrl("eval", "--resume", run, "--budget", "1h")
    assert rest.returncode == 0, rest.stderr
    reader = RunReader(run)
    assert len(reader.trajectories().rows) == 24
    assert all(row.reward == 1.0 for row in reader.trajectories().rows)
    assert held_by(reader).seconds > used
    assert metrics_of(run)["sandbox_seconds"] == pytest.approx(held_by(reader).seconds, abs=0.01)
    assert reader.config.options["budget"] == "1h"
    assert [job.outcome for job in reader.config.jobs] == ["interrupted", "finished"]


def test_a_budget_that_is_large_enough_changes_nothing(sandrl: Run, problems: Path, tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text('{"task_id": "inc", "code": "f = lambda x: x + 1"}\n')
    done = sandrl("reward", "c.jsonl", "--problems", problems, "--budget", "1h")
    assert done.returncode == 0, done.stderr
    run = run_of(done.stderr)
    assert RunReader(run).config.options["budget"] == "1h"
    assert "Sandbox time: " in done.stderr
    assert "$" not in done.stderr


def test_money_needs_a_price_and_then_bounds_the_run(sandrl: Run, completions: Path, problems: Path) -> None:
    words = ("reward", completions, "--problems", problems, "--budget", "$0.05", "-c", "2")
    refused = sandrl(*words, "--out", "results.jsonl")
    assert refused.returncode == 2
    assert not (completions.parent / "results.jsonl").exists()
    assert "--budget $0.05 cannot be used on runtime local: no price is set" in refused.stderr
    assert "sandrl prices set local PRICE" in refused.stderr
    assert "Job:" not in refused.stderr
    # A cent for each second.
    assert sandrl("prices", "set", "local", "$36").returncode == 0
    done = sandrl(*words)
    assert done.returncode == 1, done.stderr
    run = run_of(done.stderr)
    metrics = metrics_of(run)
    assert 0.03 < metrics["cost"] < 0.05 + (SLEEP_SECONDS + SLACK_SECONDS) / 100
    assert metrics["cost"] == pytest.approx(metrics["sandbox_seconds"] / 100)
    assert RunReader(run).config.options["sandbox_hour_price"] == "$36"
    assert ", $0.0" in done.stderr
    assert "cost" in sandrl("metrics", run).stdout
    shown = json.loads(sandrl("runs", "show", run, "--json").stdout)
    assert shown["held"] == {
        "sandbox_seconds": pytest.approx(metrics["sandbox_seconds"]),
        "cost": pytest.approx(metrics["cost"]),
        "currency": "USD",
    }


def test_what_is_no_budget_is_refused(sandrl: Run) -> None:
    refused = sandrl("reward", "--budget=-1h")
    assert refused.returncode == 2
    assert "--budget is " in refused.stderr


def test_prices_are_shown_set_and_removed(sandrl: Run, tmp_path: Path) -> None:
    assert "No price is set" in sandrl("prices").stderr
    assert sandrl("prices", "set", "remote", "$0.12").stdout == "A sandbox-hour on remote costs $0.12\n"
    assert sandrl("prices", "set", "ray", "0.5 EUR").returncode == 0
    assert sandrl("prices").stdout.splitlines()[1:] == ["ray      0.50 EUR", "remote   $0.12"]
    document = json.loads(sandrl("prices", "show", "--json").stdout)
    assert document == {
        "path": str(tmp_path / "config" / "prices.toml"),
        "sandbox_hour": {"ray": "0.50 EUR", "remote": "$0.12"},
    }
    assert sandrl("prices", "rm", "ray").returncode == 0
    assert sandrl("prices", "rm", "ray").returncode == 0
    assert sandrl("prices", "set", "cloud", "$1").returncode == 2
    assert sandrl("prices", "set", "local", "1").returncode == 2


def test_a_broken_file_of_prices_is_an_error_that_names_its_line(sandrl: Run, tmp_path: Path) -> None:
    path = tmp_path / "config" / "prices.toml"
    path.parent.mkdir(mode=0o700)
    path.write_text('[sandbox_hour]\nlocal = "cheap"\n', encoding="utf-8")
    for words in (("prices",), ("reward",)):
        done = sandrl(*words)
        assert done.returncode == 2
        assert f"{path}:2: field 'local': 'cheap' is not a price" in done.stderr
    assert not [name for name in os.listdir(tmp_path) if name == "runs"]


DRY = (
    ("reward", "completions.jsonl", "--problems", "problems.jsonl"),
    ("reward", "--fresh-sandboxes"),
    ("eval", "--base-url", "http://127.0.0.1:1/v1", "--problems", "bundled", "--samples", "2"),
    ("problems", "validate", "--num-problems", "3"),
    ("redteam", "--num-problems", "1"),
    ("art", "rollout", "--base-url", "http://127.0.0.1:1/v1", "--problems", "bundled"),
)


@pytest.mark.parametrize("words", DRY, ids=" ".join)
def test_a_dry_run_says_what_it_would_take_at_most_and_starts_nothing(
    sandrl: Run, completions: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    state = tmp_path / "state"
    environment = {"SANDRL_STATE_DIR": str(state), "SANDRL_RUNS_DIR": str(tmp_path / "runs")}
    done = sandrl(*words, "--dry-run", "--budget", "1s", **environment)
    assert done.returncode == 0, done.stderr
    titles = [line.split(":")[0] for line in done.stdout.splitlines()]
    assert titles == ["Completions", "Sandboxes", "Sandbox time", "Cost", "Budget"]
    assert "no price set: sandrl prices set local PRICE" in done.stdout
    assert "1s; possibly not sufficient" in done.stdout
    document = json.loads(sandrl(*words, "--dry-run", "--json", **environment).stdout)
    assert document["completions"] == int(done.stdout.splitlines()[0].split()[1]) > 0
    assert document["sandboxes"]["in_all"] >= 1
    assert document["budget"] is None
    assert not (tmp_path / "runs").exists()
    assert daemon.find(state) is None
    assert not list(state.rglob("*.json"))


def test_a_dry_run_knows_prices_and_whether_the_budget_suffices(sandrl: Run, problems: Path, tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text('{"task_id": "inc", "code": "f = lambda x: x + 1"}\n' * 3)
    words = ("reward", "c.jsonl", "--problems", problems, "--dry-run", "--json")
    sandrl("prices", "set", "local", "$3600")
    document = json.loads(sandrl(*words, "--budget", "1h").stdout)
    assert document["sandbox_seconds"]["at_most"] > 0
    assert document["cost"]["at_most"] == pytest.approx(document["sandbox_seconds"]["at_most"])
    assert document["budget"] == {"budget": "1h", "seconds": 3600, "used_seconds": 0, "holds": True}
    assert json.loads(sandrl(*words, "--budget", "0.001s").stdout)["budget"]["holds"] is None


def test_a_regrading_can_be_looked_ahead_at_too(sandrl: Run, problems: Path, tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text('{"task_id": "inc", "code": "f = lambda x: x + 1"}\n' * 3)
    done = sandrl("reward", "c.jsonl", "--problems", problems)
    before = sorted(os.listdir(run_of(done.stderr)))
    dry = sandrl("runs", "regrade", run_of(done.stderr), "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert dry.stdout.startswith("Completions: 3\nSandboxes: ")
    assert sorted(os.listdir(run_of(done.stderr))) == before


def test_a_budget_of_money_without_a_price_is_refused_by_a_dry_run_too(sandrl: Run) -> None:
    refused = sandrl("reward", "--dry-run", "--budget", "$1")
    assert refused.returncode == 2
    assert "sandrl prices set local PRICE" in refused.stderr


def test_where_a_service_has_the_sandboxes_there_are_none(sandrl: Run) -> None:
    done = sandrl("reward", "--dry-run", "--service", "http://127.0.0.1:1")
    assert done.stdout.splitlines()[1] == "Sandboxes: run by the service at http://127.0.0.1:1"
