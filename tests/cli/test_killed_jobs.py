"""Jobs killed with SIGKILL at any moment: what they leave is found, and nothing of a living job is mistaken for it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandrl.sandboxes import Job, connect, find_owner, liveness, read_jobs
from sandrl.sandboxes.inventory import Inventory
from sandrl.sandboxes.owner import Liveness
from sandrl.sandboxes.providers.protocol import SandboxInfo
from sandrl.settings import RuntimeKind, load_settings
from tests.cli.conftest import PROBLEM, SANDRL, Run
from tests.support.lost_job import sleeping_job
from tests.support.programs import require_program

pytestmark = pytest.mark.usefixtures("own_runtime")

SLEEPER = '{"task_id": "inc", "code": "import time\\ntime.sleep(SECONDS)\\ndef f(x):\\n    return x + 1\\n"}\n'
ROOT = Path(__file__).parents[2]
Start = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Starts a job that scores quick and slow completions, four at once."""
    (tmp_path / "p.jsonl").write_text(PROBLEM, encoding="utf-8")
    rows = [SLEEPER.replace("SECONDS", seconds) for seconds in ("0", "0", "0.3", "60")]
    (tmp_path / "c.jsonl").write_text("".join(rows) * 20, encoding="utf-8")
    words = (
        f"reward {tmp_path}/c.jsonl --problems {tmp_path}/p.jsonl --runs-dir {tmp_path}/runs --no-cache -c 4".split()
    )

    def start(job_id: str) -> subprocess.Popen[bytes]:
        argv = [*SANDRL, *words, "--timeout", "100", "--job-id", job_id, "--run-name", job_id]
        return subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    return start


@pytest.fixture
def living(own_runtime: None) -> Iterator[Job]:
    """A job of this process with two sandboxes, beside those that are killed."""
    with sleeping_job(2) as job:
        yield job


def settled(inventory: Inventory) -> list[SandboxInfo]:
    """All sandboxes, once requests that were on their way when their job died have become some or nothing."""
    before: frozenset[str] = frozenset()
    while True:
        found = inventory.list()
        now = frozenset(each.id for each in found)
        if now == before:
            return list(found)
        before = now
        time.sleep(0.5)


def kill_at_random(start: Start, job_id: str, ledger: Path) -> None:
    """Kills a job while it starts, or up to two seconds after its first sandbox was asked for."""
    process = start(job_id)
    if random.random() < 0.25:
        time.sleep(2.0 * random.random())
    else:
        while not ledger.exists():
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(2.0 * random.random() ** 2)
    process.kill()
    assert process.wait(10) == -signal.SIGKILL


def check(sandrl: Run, start: Start, runs: Path, living: Job, kills: int) -> None:
    """Kills so many jobs, and after each compares what is found with what they left."""
    inventory = Inventory(connect(load_settings(), runtime=RuntimeKind.LOCAL))
    jobs = [f"job-kill-{os.getpid()}-{number}" for number in range(kills)]
    for job_id in jobs:
        kill_at_random(start, job_id, runs / job_id / "sandboxes.jsonl")
    found = settled(inventory)
    left = {each.id for each in found if set(jobs) & set(each.tags)}
    assert left, "not one of them had a sandbox"
    for each in found:
        (owner_hash,) = [tag.removeprefix("owner-") for tag in each.tags if tag.startswith("owner-")]
        owner = find_owner(load_settings().state_dir, owner_hash)
        assert liveness(owner) is (Liveness.GONE if each.id in left else Liveness.ALIVE), each.tags
    orphans = json.loads(sandrl("sandboxes", "ls", "--orphans", "--json").stdout)["sandboxes"]
    assert {each["id"] for each in orphans} == left
    for job_id in {tag for each in found for tag in each.tags if tag in jobs}:
        mine = [each for each in found if job_id in each.tags]
        done = sandrl("sandboxes", "cleanup", "--tag", job_id, "-y")
        assert done.stdout == f"stopped {len(mine)}, already ended 0, failed 0\n", done.stderr
    assert all(living.id in each.tags for each in inventory.list())
    assert len(inventory.list(tags=[living.id])) == 2


def test_what_killed_jobs_leave_is_found_and_nothing_else(
    sandrl: Run, start: Start, tmp_path: Path, living: Job
) -> None:
    check(sandrl, start, tmp_path / "runs", living, kills=4)


@pytest.mark.slow
def test_twenty_jobs_killed_at_random_moments(sandrl: Run, start: Start, tmp_path: Path, living: Job) -> None:
    check(sandrl, start, tmp_path / "runs", living, kills=20)


def test_a_job_killed_in_another_pid_namespace_is_never_taken_for_gone(sandrl: Run) -> None:
    """As in a container that shares host name and home: its process cannot be looked for from here."""
    unshare = [require_program("unshare"), "--pid", "--fork", "--mount-proc", "--kill-child"]
    probe = subprocess.run([*unshare, "true"], capture_output=True, text=True, check=False)
    if probe.returncode:
        pytest.skip(f"this user may make no pid namespace: {probe.stderr.strip()}")
    connect(load_settings(), runtime=RuntimeKind.LOCAL)  # or the daemon would live and die in that namespace
    # Below a shell, because the first process of a namespace cannot kill itself.
    words = ["sh", "-c", '"$@"; true', "sh", sys.executable, "-m", "tests.support.lost_job", "2"]
    lost = subprocess.run([*unshare, *words], stdout=subprocess.PIPE, text=True, timeout=100, check=False, cwd=ROOT)
    job_id, *ids = lost.stdout.split()
    assert len(ids) == 2
    (entry,) = [entry for entry in read_jobs(load_settings().state_dir) if entry.job_id == job_id]
    assert liveness(entry.process) is Liveness.OTHER_HOST
    assert json.loads(sandrl("sandboxes", "ls", "--orphans", "--json").stdout)["sandboxes"] == []
    done = sandrl("sandboxes", "cleanup", "--tag", job_id, "-y")
    assert done.stdout == "stopped 2, already ended 0, failed 0\n", done.stderr
