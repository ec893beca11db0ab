"""The local runtime, or its fork server, is killed while completions are scored; or the service was never there."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandrl.runtime import daemon
from sandrl.settings import load_settings
from tests.cli.conftest import PROBLEM, RIGHT, SANDRL, Run
from tests.support.fork_server import inner_process

COMPLETIONS = 120
SLEEPER = '{"task_id": "inc", "code": "import time\\ntime.sleep(SECONDS)\\ndef f(x):\\n    return x + 1\\n"}\n'


IN_BOTH_WAYS = pytest.mark.parametrize("fresh", [(), ("--fresh-sandboxes",)], ids=["cells", "fresh"])


def score(
    folder: Path, strike: Callable[[daemon.RuntimeStatus], None], strikes: int, fresh: tuple[str, ...]
) -> tuple[Any, str, int]:
    """Scores completions, and strikes the runtime so many times while sandboxes run; answers what a user sees."""
    (folder / "p.jsonl").write_text(PROBLEM, encoding="utf-8")
    rows = [SLEEPER.replace("SECONDS", f"{0.05 + 0.05 * (number % 5):.2f}") for number in range(COMPLETIONS)]
    (folder / "c.jsonl").write_text("".join(rows), encoding="utf-8")
    words = ["reward", "c.jsonl", "--problems", "p.jsonl", "--no-cache", "-c", "6", "--json", *fresh]
    with (folder / "stderr").open("w") as stderr:
        process = subprocess.Popen([*SANDRL, *words], stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=folder)
        struck = 0
        while struck < strikes and process.poll() is None:
            found = daemon.status(load_settings().state_dir)
            if found.running and found.sandboxes >= (3 if fresh else 1) and inner_process(found.pid or 0):
                strike(found)
                struck += 1
                time.sleep(1.0)
            time.sleep(0.05)
        stdout, _ = process.communicate(timeout=300)
    assert struck == strikes, (folder / "stderr").read_text()
    return json.loads(stdout), (folder / "stderr").read_text(), process.returncode


@IN_BOTH_WAYS
@pytest.mark.usefixtures("own_runtime")
def test_a_fork_server_killed_twice_in_mid_run_costs_no_completion_its_reward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: tuple[str, ...]
) -> None:
    monkeypatch.setenv("SANDRL_RUNTIME_ISOLATION", "native")
    strike = lambda found: os.kill(inner_process(found.pid or 0), signal.SIGKILL)  # noqa: E731
    report, stderr, code = score(tmp_path, strike, 2, fresh)
    assert Counter(result["reward"] for result in report["results"]) == {1.0: COMPLETIONS}
    assert code == 0
    assert "Traceback" not in stderr
    assert daemon.status(load_settings().state_dir).restarts == 2


@IN_BOTH_WAYS
@pytest.mark.usefixtures("own_runtime")
def test_a_daemon_killed_in_mid_run_costs_no_reward_and_prints_no_traceback(
    tmp_path: Path, fresh: tuple[str, ...]
) -> None:
    report, stderr, code = score(tmp_path, lambda found: os.kill(found.pid or 0, signal.SIGKILL), 1, fresh)
    assert Counter(result["reward"] for result in report["results"]) == {1.0: COMPLETIONS}
    assert code == 0
    assert "Traceback" not in stderr
    assert len(stderr.splitlines()) < 40


def test_a_service_that_was_never_reached_has_no_sandboxes_to_stop(sandrl: Run, tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text(PROBLEM, encoding="utf-8")
    (tmp_path / "c.jsonl").write_text(RIGHT, encoding="utf-8")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # nobody listens there, and nobody else gets the port
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
        done = sandrl(
            *["reward", "c.jsonl", "--problems", "p.jsonl", "--no-cache", "--retries", "1"],
            CWSANDBOX_BASE_URL=address,
            CWSANDBOX_API_KEY="a-key",
        )
    assert done.returncode == 3, done.stderr
    assert "could not be stopped" not in done.stderr
    assert "could not be scored" in done.stderr
    assert "Connection refused" in done.stderr
