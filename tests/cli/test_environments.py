"""Several environments of one user, each with its own daemon: every command that looks or stops covers them all."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sandrl.runtime import daemon
from sandrl.runtime.state import find_all
from tests.cli.conftest import PROBLEM

ROOT = Path(__file__).parents[2]
SLEEPER = '{"task_id": "inc", "code": "import time\\ntime.sleep(1100)\\ndef f(x):\\n    return x + 1\\n"}\n'


@dataclass(frozen=True)
class Environment:
    """A copy of sandrl, whose commands have a daemon of their own."""

    copy: Path
    folder: Path

    @property
    def variables(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.copy), "SANDRL_STATE_DIR": str(self.folder / "state")}

    def run(self, *words: str, code: int = 0) -> tuple[str, str]:
        done = subprocess.run(
            [sys.executable, "-m", "sandrl", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self.variables,
            timeout=150,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout, done.stderr

    def sandboxes(self, *words: str) -> dict[str, str]:
        """The job of each sandbox that it lists."""
        document: dict[str, Any] = json.loads(self.run("sandboxes", "ls", "--json", *words)[0])
        return {each["id"]: each["job_id"] for each in document["sandboxes"]}

    @contextmanager
    def job(self, job_id: str) -> Iterator[subprocess.Popen[bytes]]:
        """A job whose completions sleep, once it has its two sandboxes; killed at the end."""
        words = ["reward", "c.jsonl", "--problems", "p.jsonl", "--no-cache", "--fresh-sandboxes", "--timeout", "1200"]
        process = subprocess.Popen(
            [sys.executable, "-m", "sandrl", *words, "--job-id", job_id, "--run-name", job_id],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            env=self.variables,
        )
        try:
            deadline = time.monotonic() + 120
            while list(self.sandboxes().values()).count(job_id) < 2:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.3)
            yield process
        finally:
            process.kill()
            process.wait(30)

    def lose_job(self, job_id: str) -> None:
        """Kills such a job."""
        with self.job(job_id):
            pass


@pytest.fixture
def environments(tmp_path: Path) -> Iterator[list[Environment]]:
    (tmp_path / "p.jsonl").write_text(PROBLEM, encoding="utf-8")
    (tmp_path / "c.jsonl").write_text(SLEEPER + SLEEPER.replace("1100", "1101"), encoding="utf-8")
    made = []
    for name in "ABC":
        copy = tmp_path / name
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        made.append(Environment(copy, tmp_path))
    yield made
    for endpoint in find_all(tmp_path / "state"):
        daemon.stop_one(endpoint)


@pytest.mark.timeout(600)
def test_orphans_of_three_environments_are_seen_and_stopped_from_each(environments: list[Environment]) -> None:
    a, b, c = environments
    with a.job("job-a11fe") as living:
        for place, environment in (("a", a), ("b", b), ("c", c)):
            environment.lose_job(f"job-{place}dead")
        state = a.folder / "state"
        assert len(find_all(state)) == 3
        orphans = {environment.copy.name: environment.sandboxes("--orphans") for environment in environments}
        assert sorted(orphans["A"].values()) == sorted(["job-adead", "job-bdead", "job-cdead"] * 2)
        assert orphans["A"] == orphans["B"] == orphans["C"]
        assert json.loads(b.run("sandboxes", "count", "--json")[0])["total"] == 8
        one = next(each for each, job in orphans["B"].items() if job == "job-adead")
        assert "job-adead" in b.run("sandboxes", "show", one[:12])[0]
        assert b.run("sandboxes", "exec", one, "--", "echo", "hello")[0] == "hello\n"

        # The end of a job, here of another environment, stops nothing of others.
        b.run("reward", "--run-name", "demo")
        assert c.sandboxes("--orphans") == orphans["C"]

        out, _ = b.run("sandboxes", "cleanup", "--tag", "job-adead", "--orphans", "--yes")
        assert out == "stopped 2, already ended 0, failed 0\n"
        out, _ = c.run("sandboxes", "cleanup", "--orphans", "--yes")
        assert out == "stopped 4, already ended 0, failed 0\n"
        assert set(a.sandboxes().values()) == {"job-a11fe"}
        assert living.poll() is None

        status = json.loads(b.run("runtime", "status", "--json")[0])
        assert status["running"]
        assert sorted(each["sandboxes"] for each in status["others"]) == [0, 2]
        assert "job-a11fe" in b.run("runtime", "status")[0]
        assert len(b.run("runtime", "logs", "--path")[0].splitlines()) == 3

        out, err = b.run("runtime", "stop")
        assert out.count("is stopped.") == 2
        assert "Not stopped: " in err
        assert "2 sandboxes of reward (job-a11fe); --all stops it" in err
        assert len(a.sandboxes()) == 2
    assert b.run("runtime", "stop")[0].count("is stopped.") == 1
    assert find_all(state) == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_daemons_with_damaged_files_and_without_an_answer_hide_only_their_own_sandboxes(
    environments: list[Environment],
) -> None:
    c = environments[-1]
    for environment in environments:
        environment.lose_job(f"job-{environment.copy.name.lower()}dead")
    state = c.folder / "state"
    pids = {daemon.status_of(each).pid: each for each in find_all(state)}
    own = {str(each["pid"]) for each in [json.loads(c.run("runtime", "status", "--json")[0])]}
    damaged, silent = [pid for pid in pids if str(pid) not in own]
    assert damaged is not None
    assert silent is not None
    folder = state / "runtime" / pids[damaged].name
    (folder / "daemon.json").write_text("{", encoding="utf-8")
    os.kill(silent, signal.SIGSTOP)
    # What is no directory of a daemon.
    (state / "runtime" / "stale").mkdir()
    (state / "runtime" / "stale" / "daemon.json").write_text('{"base_url": "http://127.0.0.1:1", "pid": 1}')
    (state / "runtime" / "stale" / "alive.lock").touch()
    (state / "runtime" / "file").touch()
    (state / "runtime" / "empty").mkdir(mode=0o000)
    try:
        out, err = c.run("sandboxes", "cleanup", "--orphans", "--yes", code=3)
        assert out == "stopped 2, already ended 0, failed 0\n"
        assert (
            f"warning: some sandboxes cannot be listed: the local runtime (pid {silent}) is stopped by a signal" in err
        )
        assert f"kill -CONT {silent}" in err
        assert f"the local runtime (pid {damaged}) cannot be asked, because its files in {folder} are damaged" in err
        assert "kill -9" not in err
        assert "runtime stop" not in err
        shown = c.run("runtime", "status")[0]
        assert "NOT WORKING: the local runtime" in shown
    finally:
        os.kill(silent, signal.SIGCONT)
        (state / "runtime" / "empty").chmod(0o700)
    assert c.run("sandboxes", "cleanup", "--orphans", "--yes", code=3)[0] == "stopped 2, already ended 0, failed 0\n"
    assert c.run("runtime", "stop")[0].count("is stopped.") == 3
    assert find_all(state) == []
