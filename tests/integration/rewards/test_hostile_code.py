"""Hostile completions in real sandboxes: none passes, and each gets a status of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sandrl.events.results import Status
from sandrl.problems import Case, Completion, Problem
from sandrl.rewards import Limits, score
from sandrl.sandboxes import Job
from tests.support.judges import scored

INC = Problem("inc", "Add one.", tests=("assert f(1) == 2", "assert f(2) == 3"))
HONEST = "def f(x):\n    return x + 1\n"

ATTACKS = {
    "leaves with success": ("import sys\nsys.exit(0)", Status.FAILED),
    "leaves without cleaning up": ("import os\nos._exit(0)", Status.CRASHED),
    "segfaults": ("import ctypes\nctypes.string_at(0)", Status.CRASHED),
    "kills the judge": ("import os\nos.kill(os.getppid(), 9)", Status.CRASHED),
    "kills everything": ("import os\nos.kill(-1, 9)", Status.CRASHED),
    "takes all memory at once": ("x = bytearray(4 << 30)", Status.RESOURCE_LIMIT),
    "takes all memory in pieces": ("x = []\nwhile True:\n    x.append(bytearray(1 << 20))", Status.RESOURCE_LIMIT),
    "forks without end": ("import os\nwhile True:\n    os.fork()", Status.RESOURCE_LIMIT),
    "floods its output": ("while True:\n    print('x' * 100_000)", Status.RESOURCE_LIMIT),
    "fills the disk": (
        "n = 0\nwhile True:\n    n += 1\n    open(f'/tmp/{n}', 'wb').write(bytes(10 << 20))",
        Status.RESOURCE_LIMIT,
    ),
    "loops": ("while True: pass", Status.TIMEOUT),
    "sleeps": ("import time\ntime.sleep(60)", Status.TIMEOUT),
    "blames its problem": (
        "import os\n"
        "for fd in range(3, 30):\n"
        "    try: os.write(fd, b'end invalid_problem 61\\n')\n"
        "    except OSError: pass\n"
        "os._exit(0)",
        Status.CRASHED,
    ),
    "nests too deeply": ("(" * 100_000, Status.SYNTAX_ERROR),
}


def test_no_attack_passes_and_no_honest_neighbour_suffers(job: Job, has_cells: bool) -> None:
    codes = [code for attack, _ in ATTACKS.values() for code in (attack, HONEST)]
    results = scored(job, INC, *codes, limits=Limits(timeout_seconds=4.0))
    attacked, honest = results[::2], results[1::2]
    statuses = {name: result.status for name, result in zip(ATTACKS, attacked, strict=True)}
    # Either the interpreter notices first, or the runtime's watchdog, which takes the judge along.
    assert statuses.pop("takes all memory in pieces") in (Status.RESOURCE_LIMIT, Status.CRASHED)
    expected = {name: status for name, (_, status) in ATTACKS.items()}
    if has_cells:
        # No signal from a cell reaches process 1: the code goes on. The judge is outside, and so is the parent of the
        # completion, whose number is 0, which means the completion itself.
        expected |= {"kills everything": Status.FAILED, "kills the judge": Status.RESOURCE_LIMIT}
    assert statuses.items() <= expected.items()
    assert [result.reward for result in attacked] == [0.0] * len(ATTACKS)
    assert [result.reward for result in honest] == [1.0] * len(ATTACKS)


def test_the_way_to_the_host_is_out_of_a_completions_reach(job: Job) -> None:
    code = (
        "import os\n"
        "opened = []\n"
        "for n in range(10):\n"
        "    try: opened.append(os.open(f'/proc/{os.getppid()}/fd/{n}', os.O_WRONLY))\n"
        "    except OSError: pass\n"
        "assert not opened, opened\n" + HONEST
    )
    assert [result.status for result in scored(job, INC, code)] == [Status.PASSED]


@pytest.mark.slow
def test_stopping_the_judges_clock_is_a_timeout(job: Job) -> None:
    stopped = "import os, signal, time\nos.kill(os.getppid(), signal.SIGSTOP)\ntime.sleep(60)"
    [result] = scored(job, INC, stopped, limits=Limits(timeout_seconds=0.5))
    assert (result.status, result.reward) == (Status.TIMEOUT, 0.0)


def test_no_completion_buys_itself_a_null_by_breaking_what_its_problem_needs(job: Job) -> None:
    problem = Problem(
        "echo",
        "",
        setup=f"import os  # {job.id}\nos.makedirs('/tmp/work', exist_ok=True)",
        cases=(Case("1\n", "1\n"), Case("2\n", "2\n")),
    )
    broken = replace(problem, task_id="broken", setup="import no_such_module")
    spoiler = "import os\nos.rmdir('/tmp/work')\nopen('/tmp/work', 'w').close()\nprint(input())"
    completions = [
        Completion("spoils", "echo", code=spoiler),
        Completion("spoils too", "echo", code=spoiler + "\n"),
        Completion("honest", "echo", code="print(input())"),
        Completion("not its fault", "broken", code="print(input())"),
    ]
    results = score(completions, {"echo": problem, "broken": broken}, job=job).results
    assert [(result.status, result.reward) for result in results] == [
        # What the first case spoils is there again for the second one.
        (Status.PASSED, 1.0),
        (Status.PASSED, 1.0),
        (Status.PASSED, 1.0),
        (Status.INVALID_PROBLEM, None),
    ]
    assert sum(result.canaries for result in results) == 2, "each problem is tried once, before its completions"


KILLS_THE_OTHER_CHILD = """\
import os, signal
for name in filter(str.isdigit, os.listdir("/proc")):
    if int(name) in (os.getpid(), os.getppid(), 1):
        continue
    with open(f"/proc/{name}/stat") as file:
        parent = int(file.read().rpartition(")")[2].split()[1])
    if parent == os.getppid():
        os.kill(int(name), signal.SIGKILL)
"""
READS_THE_OTHER_CHILD = """\
import os
found = []
for name in filter(str.isdigit, os.listdir("/proc")):
    for place in ("mem", "fd/0", "environ", "maps", "fd"):
        if int(name) == os.getpid():
            continue
        try:
            os.listdir(f"/proc/{name}/{place}") if place == "fd" else open(f"/proc/{name}/{place}", "rb").read(1)
        except OSError:
            continue
        found.append((name, place))
assert not found, found
"""
ADD = Problem("add", "", cases=tuple(Case(f"{number}\n", f"{number + 1}\n") for number in range(3)))
ADDS = "print(int(input()) + 1)"


def test_the_process_that_compares_cannot_be_killed_for_a_reward_or_looked_into(job: Job) -> None:
    codes = [ADDS + "\n" + KILLS_THE_OTHER_CHILD, KILLS_THE_OTHER_CHILD + ADDS, READS_THE_OTHER_CHILD + ADDS]
    *killed, looked = scored(job, ADD, *codes)
    assert [(result.reward, result.status) for result in killed] == [(0.0, Status.CRASHED)] * 2
    assert (looked.reward, looked.detail) == (1.0, "")
