"""Commands on pods of a cluster, which a stand-in plays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandrl.runtime import daemon
from sandrl.settings import Settings
from tests.cli.conftest import PROBLEM, SANDRL, Run
from tests.support.kubernetes_api import ClusterStandIn, cluster

pytest.importorskip("kubernetes", reason="the extra `kubernetes` is not installed")

_ANSWER = '{"task_id": "inc", "code": "def f(x):\\n    return x + %d\\n"}\n'
_SLEEPER = '{"task_id": "inc", "code": "import time\\ntime.sleep(%d)\\ndef f(x):\\n    return x + 1\\n"}\n'
_WORDS = ("c.jsonl", "--problems", "p.jsonl", "--runtime", "kubernetes", "--no-cache", "--runs-dir", "runs")


@pytest.fixture
def pods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterStandIn]:
    """A cluster for one test, which has a state directory of its own."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("SANDRL_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "p.jsonl").write_text(PROBLEM, encoding="utf-8")
    settings = Settings(state_dir=tmp_path / "pods", cache_dir=tmp_path / "cache")
    with cluster(settings, tmp_path) as found:
        yield found
    daemon.stop(settings.state_dir)


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    ends_at = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > ends_at:
            return False
        time.sleep(0.05)
    return True


def begin(directory: Path, *words: str, seconds: int = 60) -> subprocess.Popen[str]:
    """Begins to score answers that sleep, and waits until one does."""
    (directory / "c.jsonl").write_text(_SLEEPER % seconds, encoding="utf-8")
    command = [*SANDRL, "reward", *_WORDS, "--run-name", "run", "--timeout", "100", *words]
    process = subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    ledger = directory / "runs" / "run" / "sandboxes.jsonl"
    is_begun = within(60, lambda: process.poll() is not None or (ledger.exists() and '"created"' in ledger.read_text()))
    assert is_begun
    assert process.poll() is None, process.communicate()
    return process


def test_answers_have_their_rewards_and_nothing_is_left(sandrl: Run, pods: ClusterStandIn, tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text(_ANSWER % 1 + _ANSWER % 2, encoding="utf-8")
    scored = sandrl("reward", *_WORDS, "--json")
    assert scored.returncode == 0, scored.stderr
    assert [row["reward"] for row in json.loads(scored.stdout)["results"]] == [1.0, 0.0]
    assert pods.of("sandboxes") == pods.of("pods") == []


def test_a_killed_command_leaves_sandboxes_that_are_found_and_cleaned_up_by_tag_and_as_orphans(
    sandrl: Run, pods: ClusterStandIn, tmp_path: Path
) -> None:
    for selection in (("--orphans",), ("--tag", "model:mine/one")):
        process = begin(tmp_path, "--tag", "model:mine/one")
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert len(pods.of("pods")) > 0
        listed = sandrl("sandboxes", "ls", "--runtime", "kubernetes", "--tag", "model:mine/one", "--json")
        assert listed.returncode == 0, listed.stderr
        found = json.loads(listed.stdout)["sandboxes"]
        assert {each["id"] for each in found} == {each["metadata"]["name"] for each in pods.of("sandboxes")}
        shown = sandrl("sandboxes", "show", found[0]["id"], "--runtime", "kubernetes", "--json")
        assert shown.returncode == 0, shown.stderr
        cleaned = sandrl("sandboxes", "cleanup", "--runtime", "kubernetes", *selection, "--yes")
        assert cleaned.returncode == 0, cleaned.stderr
        assert pods.of("sandboxes") == pods.of("pods") == []
        os.rename(tmp_path / "runs", tmp_path / f"runs-{selection[0]}")


def test_a_pod_that_is_lost_is_no_reward(pods: ClusterStandIn, tmp_path: Path) -> None:
    process = begin(tmp_path, "--json", seconds=3)
    assert within(30, lambda: "running" in str(pods.of("pods")))
    time.sleep(0.5)
    # Its controller makes another one of the same name.
    for pod in pods.of("pods"):
        pods.delete("pods", pod["metadata"]["name"])
    out, err = process.communicate(timeout=100)
    assert [row["reward"] for row in json.loads(out)["results"]] == [1.0], err
    assert "again in a fresh sandbox" in err
    assert within(20, lambda: not pods.of("sandboxes"))
