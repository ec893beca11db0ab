"""`sandrl runtime`: the local runtime seen from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import SANDRL, Run


@pytest.fixture
def state(tmp_path: Path) -> str:
    """A state directory without a daemon."""
    return str(tmp_path / "state")


def test_without_a_daemon_status_says_so_and_starts_none(sandrl: Run, state: str) -> None:
    done = sandrl("runtime", "status", SANDRL_STATE_DIR=state)
    assert done.returncode == 0
    assert "not running" in done.stdout
    assert json.loads(sandrl("runtime", "status", "--json", SANDRL_STATE_DIR=state).stdout)["running"] is False
    assert "was not running" in sandrl("runtime", "stop", SANDRL_STATE_DIR=state).stdout


def test_a_daemon_is_shown_and_stopped(sandrl: Run, state: str) -> None:
    assert sandrl("reward", SANDRL_STATE_DIR=state).returncode == 0
    status = json.loads(sandrl("runtime", "status", "--json", SANDRL_STATE_DIR=state).stdout)
    assert status["running"] is True
    assert status["isolation"] in ("native", "bubblewrap")
    assert any(image.startswith("host python3.") for image in status["images"])
    assert "token" not in json.dumps(status)
    shown = sandrl("runtime", "status", SANDRL_STATE_DIR=state).stdout
    assert f"pid {status['pid']}" in shown
    assert f"; {status['stored_images']} stored (sandrl images ls)" in shown
    assert "serving on" in sandrl("runtime", "logs", SANDRL_STATE_DIR=state).stdout
    assert sandrl("runtime", "stop", SANDRL_STATE_DIR=state).stdout == "The local runtime is stopped.\n"
    assert "not running" in sandrl("runtime", "status", SANDRL_STATE_DIR=state).stdout


def test_serve_points_any_program_of_the_sdk_at_it(state: str, tmp_path: Path) -> None:
    environment = {**os.environ, "SANDRL_STATE_DIR": state}
    server = subprocess.Popen(
        [*SANDRL, "runtime", "serve"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert server.stdout is not None
        exports = [server.stdout.readline() for _ in range(2)]
        assert exports[0].startswith("export CWSANDBOX_BASE_URL=http://127.0.0.1:")
        assert exports[1].startswith("export CWSANDBOX_API_KEY=")
        program = (
            "from cwsandbox import Sandbox\n"
            "with Sandbox.run() as sandbox:\n"
            "    print(sandbox.exec(['echo', 'hello']).result().stdout)\n"
        )
        script = f'{"".join(exports)}\nexec {SANDRL[0]} -c "$PROGRAM"'
        done = subprocess.run(
            ["sh", "-c", script],
            capture_output=True,
            text=True,
            env={**os.environ, "PROGRAM": program},
            timeout=60,
            check=False,
        )
        assert done.stdout == "hello\n\n", done.stderr
    finally:
        server.send_signal(signal.SIGINT)
        _, stderr = server.communicate(timeout=20)
    assert "Traceback" not in stderr
