"""Kernel objects with which completions that run at the same time could notice one another; a scan tries each kind."""

from __future__ import annotations

import ast
from pathlib import Path

from sandrl.problems import Completion, Problem
from sandrl.rewards import Limits, ScoreOptions, score
from sandrl.sandboxes import Job

SCAN = (Path(__file__).parents[2] / "support" / "inode_scan.py").read_text(encoding="utf-8")
PROBLEM = Problem("scan", "", tests=("assert f() == chr(0)",), entry_point="f")
# What no user namespace can have for itself: the inodes of devices, and the pages of a file, which are in memory once.
SHARED = {"futex", "flock of a device", "lock of a process of a device", "lock of a descriptor of a device"}
OWN_FILES = """\
import fcntl, os, sqlite3, struct, subprocess, sys
def f():
    with open("own", "w") as first, open("own", "w") as second:
        fcntl.flock(first, fcntl.LOCK_EX)
        try:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return "flock holds nobody off"
        except BlockingIOError:
            pass
        fcntl.flock(first, fcntl.LOCK_UN)
        fcntl.lockf(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        other = "import fcntl; fcntl.lockf(open('own', 'w'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
        if subprocess.run([sys.executable, "-c", other], stderr=subprocess.DEVNULL).returncode == 0:
            return "lockf holds nobody off"
    for place in ("/tmp/a.db", "b.db", os.path.expanduser("~/c.db")):
        with sqlite3.connect(place) as connection:
            connection.execute("pragma journal_mode=wal")
            connection.execute("create table t (n)")
            connection.execute("insert into t values (1)")
    with open(os.__file__) as library:
        fcntl.flock(library, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return "well"
"""


def test_no_kernel_object_of_the_files_that_completions_share_tells_of_another(job: Job) -> None:
    code = SCAN.partition("if __name__ ==")[0] + "\ndef f():\n    return scan()\n"
    completions = [Completion(str(number), "scan", code=f"{code}# {number}\n") for number in range(3)]
    options = ScoreOptions(limits=Limits(timeout_seconds=60.0), concurrency=3)
    report = score(completions, {"scan": PROBLEM}, job=job, options=options)
    for result in report.results:
        assert result.checks[0].got, result.detail
        crossings, _, files = ast.literal_eval(result.checks[0].got or "").rpartition("; ")
        assert int(files.split()[0]) > 100
        assert set(filter(None, crossings.split(", "))) <= SHARED


def test_a_completion_locks_its_own_files_and_those_that_it_can_only_read(job: Job) -> None:
    problem = Problem("own", "", tests=("assert f() == 'well'",), entry_point="f")
    completions = [Completion(str(number), "own", code=f"{OWN_FILES}# {number}\n") for number in range(3)]
    report = score(completions, {"own": problem}, job=job, options=ScoreOptions(concurrency=3))
    assert [(result.reward, result.detail) for result in report.results] == [(1.0, "")] * 3
