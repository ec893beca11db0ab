"""The command line as users have it: processes of their own, on the local runtime of the test session."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandrl.runtime import daemon
from tests.support.forked_commands import ForkedCommands

SANDRL = (sys.executable, "-m", "sandrl")
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def forked_commands() -> Iterator[ForkedCommands]:
    """What runs commands without starting an interpreter for each."""
    with ForkedCommands() as commands:
        yield commands


@pytest.fixture
def sandrl(tmp_path: Path, forked_commands: ForkedCommands) -> Run:
    """Runs `sandrl` with some words in a directory of its own; a new interpreter only where its start may matter."""

    def run(*words: str | Path, stdin: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        variables, texts = {**os.environ, **environment}, [*map(str, words)]
        if forked_commands.can_run(variables):
            return forked_commands.run(
                texts, stdin=stdin, directory=tmp_path, environment=variables, timeout_seconds=120
            )
        return subprocess.run(
            [*SANDRL, *texts],
            input=stdin,
            stdin=None if stdin is not None else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=variables,
            timeout=120,
            check=False,
        )

    return run


@pytest.fixture
def own_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state directory and runs of one test."""
    (tmp_path / "state").mkdir(mode=0o700)
    monkeypatch.setenv("SANDRL_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("SANDRL_RUNS_DIR", str(tmp_path / "runs"))


@pytest.fixture
def own_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A state directory, and so a runtime, of one test: nothing there is left over from another."""
    monkeypatch.setenv("SANDRL_STATE_DIR", str(tmp_path / "state"))
    yield
    daemon.stop(tmp_path / "state")


PROBLEM = '{"task_id": "inc", "prompt": "Add one.", "tests": ["assert f(1) == 2", "assert f(2) == 3"]}\n'
RIGHT = '{"task_id": "inc", "code": "def f(x):\\n    return x + 1\\n"}\n'
WRONG = '{"task_id": "inc", "completion": "<answer>def f(x): return x</answer>"}\n'


@pytest.fixture
def problems(tmp_path: Path) -> Path:
    path = tmp_path / "problems.jsonl"
    path.write_text(PROBLEM, encoding="utf-8")
    return path
