"""`--runtime daemonless`: the same results as with the daemon, and nothing beside or after the command itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sandrl.runtime import daemon
from sandrl.runtime.usage import below
from tests.cli.conftest import PROBLEM, SANDRL, Run
from tests.support.fork_server import children

SLEEPER = '{"task_id": "inc", "code": "import time\\ntime.sleep(60)\\ndef f(x):\\n    return x + 1\\n"}\n'
SHOWN = ("status", "trust", "reward", "passed", "total", "task_id")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory of one test, in which no daemon runs unless one is started."""
    monkeypatch.setenv("SANDRL_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


def started(tmp_path: Path) -> subprocess.Popen[bytes]:
    """A command that is in the middle of its work, in a session of its own like one that a terminal has started."""
    (tmp_path / "p.jsonl").write_text(PROBLEM, encoding="utf-8")
    (tmp_path / "c.jsonl").write_text(SLEEPER * 4, encoding="utf-8")
    words = ["reward", str(tmp_path / "c.jsonl"), "--problems", str(tmp_path / "p.jsonl"), "--timeout", "100"]
    words += ["--no-cache", "--runtime", "daemonless", "--runs-dir", str(tmp_path / "runs"), "--run-name", "run"]
    process = subprocess.Popen(
        [*SANDRL, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    ledger = tmp_path / "runs" / "run" / "sandboxes.jsonl"
    ends_at = time.monotonic() + 60
    while not ledger.exists() or below(process.pid).processes < 6:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < ends_at
        time.sleep(0.05)
    return process


def family(pid: int) -> set[int]:
    """All descendants of a process."""
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        new = set(children(waiting.pop())) - found
        found |= new
        waiting += new
    return found


def alive(pids: set[int]) -> set[int]:
    """Those of the processes that exist, and are not about to be gone."""
    return {pid for pid in pids if Path(f"/proc/{pid}").exists()}


def wait_until_gone(pids: set[int]) -> None:
    ends_at = time.monotonic() + 20
    while left := alive(pids):
        assert time.monotonic() < ends_at, left
        time.sleep(0.05)


@pytest.mark.usefixtures("state")
def test_it_prints_the_same_results_as_the_daemon_and_starts_none(sandrl: Run, state: Path) -> None:
    without = sandrl("reward", "--json", "--runtime", "daemonless")
    assert without.returncode == 0, without.stderr
    assert daemon.find(state) is None
    try:
        with_one = sandrl("reward", "--json", "--runtime", "local")
    finally:
        daemon.stop(state)
    documents = [json.loads(each.stdout) for each in (without, with_one)]
    shown = [[{name: row[name] for name in SHOWN} for row in document["results"]] for document in documents]
    assert shown[0] == shown[1]
    assert [row["reward"] for row in shown[0]] == [1.0, 1.0, 0.0, 0.0, 1.0]


def test_every_sandbox_is_in_the_ledger_and_was_stopped(sandrl: Run, state: Path, tmp_path: Path) -> None:
    words = ("--runtime", "daemonless", "--fresh-sandboxes", "--runs-dir", "runs", "--run-name", "run")
    assert sandrl("reward", *words).returncode == 0
    rows = [json.loads(line) for line in (tmp_path / "runs/run/sandboxes.jsonl").read_text().splitlines()]
    events = {name: [row for row in rows if row.get("event") == name] for name in ("intend", "created", "stopped")}
    assert len(events["created"]) == len(events["stopped"]) == 5, rows
    assert not list((state / "jobs").iterdir())


def test_ctrl_c_ends_it_with_130_and_leaves_no_process(tmp_path: Path, state: Path) -> None:
    process = started(tmp_path)
    pids = family(process.pid)
    assert pids
    # As a terminal does: to the whole group.
    os.killpg(process.pid, signal.SIGINT)
    time.sleep(1.0)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    wait_until_gone(pids)
    assert not list((state / "jobs").iterdir())


def test_kill_9_leaves_no_process_and_ls_says_what_it_can_know(tmp_path: Path, sandrl: Run, state: Path) -> None:
    process = started(tmp_path)
    pids = family(process.pid)
    listed = sandrl("sandboxes", "ls", "--runtime", "daemonless", "--json")
    assert json.loads(listed.stdout)["sandboxes"] == []
    assert f"process {process.pid}" in listed.stderr
    process.kill()
    process.communicate(timeout=20)
    wait_until_gone(pids)
    listed = sandrl("sandboxes", "ls", "--runtime", "daemonless")
    assert listed.returncode == 0
    assert "visible only to the process that created them" in listed.stderr
    assert "none" in listed.stderr
    cleaned = sandrl("sandboxes", "cleanup", "--all", "--yes", "--runtime", "daemonless")
    assert (cleaned.returncode, daemon.find(state)) == (0, None)


def test_it_opens_no_port_and_loads_no_grpc(state: Path) -> None:
    program = (
        "import os, sys\n"
        "from sandrl.sandboxes import Command, Job, connect, new_job_id\n"
        "from sandrl.settings import RuntimeKind, load_settings\n"
        "connection = connect(load_settings(), runtime=RuntimeKind.DAEMONLESS)\n"
        "with Job(connection, job_id=new_job_id(), max_lifetime_seconds=60) as job:\n"
        "    launch = job.launch(Command(('true',)))\n"
        "    job.wait_any()\n"
        "    assert job.collect(launch).exit_code == 0\n"
        "    inodes = {os.readlink(f'/proc/self/fd/{fd}') for fd in os.listdir('/proc/self/fd') "
        "if os.path.exists(f'/proc/self/fd/{fd}')}\n"
        "    tcp = [line.split()[9] for line in open('/proc/net/tcp').readlines()[1:]]\n"
        "    assert not [inode for inode in tcp if f'socket:[{inode}]' in inodes]\n"
        "print(sorted(name for name in ('grpc', 'cwsandbox', 'google.protobuf') if name in sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "[]", "")


def test_a_forked_child_makes_sandboxes_of_its_own(state: Path) -> None:
    program = (
        "import os\n"
        "from sandrl.sandboxes import Command, Job, connect, new_job_id\n"
        "from sandrl.settings import RuntimeKind, load_settings\n"
        "def run():\n"
        "    connection = connect(load_settings(), runtime=RuntimeKind.DAEMONLESS)\n"
        "    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=60) as job:\n"
        "        launch = job.launch(Command(('echo', 'well')))\n"
        "        job.wait_any()\n"
        "        assert job.collect(launch).stdout == b'well\\n'\n"
        "        if child := os.fork():\n"
        "            assert os.waitpid(child, 0)[1] == 0\n"
        "            again = job.launch(Command(('true',)))\n"
        "            job.wait_any()\n"
        "            assert job.collect(again).exit_code == 0\n"
        "            return\n"
        "    run_once()\n"
        "    os._exit(0)\n"
        "def run_once():\n"
        "    connection = connect(load_settings(), runtime=RuntimeKind.DAEMONLESS)\n"
        "    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=60) as job:\n"
        "        launch = job.launch(Command(('true',)))\n"
        "        job.wait_any()\n"
        "        assert job.collect(launch).exit_code == 0\n"
        "run()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
