"""How commands end when they are told to, by whatever signal: with their results saved and no sandbox left."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandrl.errors import InterruptedRunError
from sandrl.runtime import daemon
from sandrl.sandboxes import read_jobs
from sandrl.settings import load_settings
from tests.cli.conftest import PROBLEM, SANDRL
from tests.support.terminal import CTRL_C, run_on_terminal


@pytest.fixture(scope="module", autouse=True)
def _runtime_of_these_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A state directory of these tests, in which no other's sandboxes and jobs are."""
    state = tmp_path_factory.mktemp("runtime") / "state"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SANDRL_STATE_DIR", str(state))
        yield
    daemon.stop(state)


SLEEPER = '{"task_id": "inc", "code": "import time\\ntime.sleep(SECONDS)\\ndef f(x):\\n    return x + 1\\n"}\n'


def test_the_exit_code_is_that_of_the_signal() -> None:
    assert InterruptedRunError("x").exit_code == 130
    assert InterruptedRunError("x", signal_number=signal.SIGTERM).exit_code == 143
    assert InterruptedRunError("x", signal_number=signal.SIGHUP).exit_code == 129


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "p.jsonl").write_text(PROBLEM, encoding="utf-8")
    (tmp_path / "c.jsonl").write_text(SLEEPER.replace("SECONDS", "2") * 40, encoding="utf-8")
    files = [str(tmp_path / "c.jsonl"), "--problems", str(tmp_path / "p.jsonl"), "--out", str(tmp_path / "out.jsonl")]
    return [*SANDRL, "reward", *files, "--no-cache", "--runs-dir", str(tmp_path / "runs"), "--run-name", "r"]


IN_BOTH_WAYS = pytest.mark.parametrize("way", [[], ["--fresh-sandboxes"]], ids=["cells", "fresh"])


def wait_for_completions(run: Path, way: list[str], count: int) -> None:
    """Waits until so many completions were handed over."""
    end = time.monotonic() + 60
    # In cells, they are when there is a worker for them.
    event, wanted = ('"intent"', count) if way else ('"created"', 1)
    ledger = run / "sandboxes.jsonl"
    while time.monotonic() < end:
        if ledger.exists() and ledger.read_text().count(event) >= wanted:
            return
        time.sleep(0.02)
    raise AssertionError(f"{ledger} never had {wanted} times {event}")


@IN_BOTH_WAYS
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_sigterm_and_sighup_count_like_ctrl_c(
    files: list[str], tmp_path: Path, number: signal.Signals, way: list[str]
) -> None:
    words = [*files, "-c", "4", *way]
    with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as job:
        wait_for_completions(tmp_path / "runs" / "r", way, 4)
        job.send_signal(number)
        if number == signal.SIGHUP:
            # A shell tells its jobs, and the kernel tells them again: still one end of one terminal.
            time.sleep(0.2)
            job.send_signal(number)
        _, told = job.communicate(timeout=60)
    assert job.returncode == 128 + number
    assert "interrupted: 4 of 40 completions are scored and saved in" in told
    assert str(tmp_path / "out.jsonl") in told
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 4
    assert daemon.status(load_settings().state_dir).sandboxes == 0
    assert read_jobs(load_settings().state_dir) == ()


@IN_BOTH_WAYS
def test_a_closed_terminal_loses_no_result_and_leaves_no_sandbox(
    files: list[str], tmp_path: Path, way: list[str]
) -> None:
    """The terminal goes while the table is drawn: everything that is written to it from then on fails."""
    words = [sys.executable, "-c", _ON_A_TERMINAL_THAT_GOES, str(tmp_path / "runs/r"), json.dumps(way)]
    words += [*files, "-c", "4", *way]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert ended.stdout.split() == ["129"], ended.stderr
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 4
    assert daemon.status(load_settings().state_dir).sandboxes == 0


_ON_A_TERMINAL_THAT_GOES = """
import json, os, pathlib, pty, sys, threading
from tests.cli.test_signals import wait_for_completions
run, way, argv = pathlib.Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3:]
pid, terminal = pty.fork()
if pid == 0:
    os.execvpe(argv[0], argv, {**os.environ, "TERM": "xterm"})
def drain():
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:
        pass
threading.Thread(target=drain, daemon=True).start()
wait_for_completions(run, way, 4)
os.close(terminal)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_a_signal_that_was_switched_off_stays_off(files: list[str], tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text(SLEEPER.replace("SECONDS", "1") * 4, encoding="utf-8")
    with subprocess.Popen(
        [*files, "-c", "4"],
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    ) as job:
        wait_for_completions(tmp_path / "runs" / "r", [], 4)
        job.send_signal(signal.SIGHUP)
        assert job.wait(60) == 0
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 4


def test_ctrl_c_with_32_sandboxes_in_flight_leaves_none_and_saves_every_result(
    files: list[str], tmp_path: Path
) -> None:
    def all_fly(text: str) -> bool:
        return len(re.findall("running", text.rpartition("row  id")[2])) == 32

    (tmp_path / "c.jsonl").write_text(SLEEPER.replace("SECONDS", "4") * 64, encoding="utf-8")
    shown = run_on_terminal([*files, "-c", "32"], rows=60, typed=[(all_fly, CTRL_C)], timeout_seconds=120)
    assert shown.exit_code == 130
    assert "finishing 32 in flight" in shown.plain
    found = re.search(r"interrupted: (\d+) of 64 completions are scored", shown.plain.replace("\n", " "))
    assert found is not None
    scored = int(found[1])
    assert scored >= 32
    for saved in (tmp_path / "out.jsonl", tmp_path / "runs" / "r" / "trajectories.jsonl"):
        assert len(saved.read_text().splitlines()) == scored
    assert daemon.status(load_settings().state_dir).sandboxes == 0
    assert read_jobs(load_settings().state_dir) == ()
    assert os.listdir(load_settings().state_dir / "jobs") == []


def test_every_command_ends_alike(tmp_path: Path) -> None:
    reference = "import time\\ntime.sleep(3)\\ndef f(x):\\n    return x + 1\\n"
    row = PROBLEM.replace('"prompt"', f'"reference": "{reference}", "prompt"')
    rows = [row.replace('"inc"', f'"inc{number}"', 1) for number in range(12)]
    (tmp_path / "p.jsonl").write_text("".join(rows), encoding="utf-8")
    for words in (["problems", "validate"], ["redteam", "--num-problems", "0"]):
        job = [*SANDRL, *words, "--problems", str(tmp_path / "p.jsonl"), "-c", "4"]
        with subprocess.Popen(job, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            assert any("Job: job-" in line for line in lines)
            process.send_signal(signal.SIGTERM)
            told = "".join(lines)
        assert process.returncode == 143, told
        assert "interrupted: " in told
        assert daemon.status(load_settings().state_dir).sandboxes == 0
