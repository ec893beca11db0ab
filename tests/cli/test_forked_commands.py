"""Commands that are forked for speed do what commands that are started do."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import SANDRL
from tests.support.forked_commands import ForkedCommands


@pytest.mark.parametrize("words", [["runs", "--help"], ["runs", "ls", "--json"], ["reward", "-", "--no-such-option"]])
def test_a_forked_command_prints_and_ends_like_a_started_one(
    words: list[str], tmp_path: Path, forked_commands: ForkedCommands
) -> None:
    environment = {**os.environ, "COLUMNS": "60", "SANDRL_RUNS_DIR": str(tmp_path)}
    forked = forked_commands.run(words, stdin="x\n", directory=tmp_path, environment=environment, timeout_seconds=60)
    started = subprocess.run(
        [*SANDRL, *words], input="x\n", capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert (forked.returncode, forked.stdout, forked.stderr) == (started.returncode, started.stdout, started.stderr)
    assert started.stdout + started.stderr


def test_a_forked_command_that_does_not_end_is_killed(tmp_path: Path, forked_commands: ForkedCommands) -> None:
    def run(*words: str, timeout_seconds: float) -> str:
        return forked_commands.run(
            words, stdin=None, directory=tmp_path, environment=os.environ, timeout_seconds=timeout_seconds
        ).stdout

    with pytest.raises(subprocess.TimeoutExpired):
        run("sandboxes", "ls", "--watch", timeout_seconds=0.5)
    assert run("--version", timeout_seconds=60).startswith("sandrl ")


def test_what_python_reads_at_its_start_is_no_forked_commands(forked_commands: ForkedCommands) -> None:
    assert forked_commands.can_run({**os.environ, "HOME": "/", "SANDRL_STATE_DIR": "/"})
    assert not forked_commands.can_run({**os.environ, "PYTHONPATH": "/"})
    assert not forked_commands.can_run({**os.environ, "LC_ALL": "tr_TR.UTF-8"})
