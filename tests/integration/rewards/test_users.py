"""Completions of one sandbox as processes of different users, in a container in which no cell can be made."""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from sandrl.errors import SandrlError
from sandrl.problems import Case, Problem
from sandrl.problems.checkers import Checker
from sandrl.rewards import Judge, Limits, Verdict
from sandrl.rewards.guest_report import Execution
from sandrl.sandboxes.commands import CommandOutcome
from sandrl.sandboxes.workers import CellLimits
from tests.support import containers
from tests.support.fork_server import children
from tests.support.scans import scan_for

pytestmark = pytest.mark.skipif(not containers.can_make_one(), reason="making a container with many users takes root")

INC = Problem("inc", "Add one.", tests=("assert f(1) == 2", "assert f(2) == 3"))
HONEST = "def f(x):\n    return x + 1\n"
HEADER_BYTES = 128


@dataclass
class Workshop:
    """A worker in a container, and what it was asked."""

    process: subprocess.Popen[bytes]
    judge: Judge = field(default_factory=Judge)
    known: set[str] = field(default_factory=set)
    asked: dict[str, Execution] = field(default_factory=dict)

    @classmethod
    def start(cls, limits: CellLimits) -> Workshop:
        judge = Judge()
        cell = judge.prepare(INC, HONEST, Limits()).command.cell
        assert cell is not None
        argv = [containers.PYTHON if word == "python" else word for word in cell.worker.argv]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.containers", *argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None
        process.stdin.write(cell.worker.begin(limits.words(1)))
        process.stdin.flush()
        return cls(process)

    def words(self) -> list[str]:
        assert self.process.stdout is not None
        while True:
            words = self.process.stdout.readline().decode().split()
            if words != ["alive"]:
                return words

    def judged(self, codes: list[str], problem: Problem = INC, seconds: float = 5.0) -> list[Verdict | str]:
        """The verdicts on completions that are sent at once; of one that has none, how its process ended."""
        assert self.process.stdin is not None
        runs = []
        for code in codes:
            execution = self.judge.prepare(problem, code, Limits(timeout_seconds=seconds))
            cell = execution.command.cell
            assert cell is not None
            run = f"r{len(self.asked)}"
            self.asked[run] = execution
            runs.append(run)
            block = b"" if cell.program in self.known else cell.program_block
            self.known.add(cell.program)
            milliseconds = int(execution.command.timeout_seconds * 1000)
            header = f"run {run} {len(cell.request)} {cell.program} {cell.open_bytes} {milliseconds}"
            self.process.stdin.write(block + header.encode().ljust(HEADER_BYTES) + cell.request)
        self.process.stdin.flush()
        found: dict[str, Verdict | str] = {}
        while len(found) < len(runs):
            kind, run, exit_code, _, *printed = self.words()
            assert kind == "result"
            out, err = (b"" if word == "-" else base64.b64decode(word) for word in printed)
            try:
                outcome = CommandOutcome("container", int(exit_code), out, err)
                found[run] = self.judge.interpret(self.asked[run], outcome)
            except (SandrlError, ValueError):
                found[run] = exit_code
        return [found[run] for run in runs]


def passed(verdicts: list[Verdict | str]) -> list[bool]:
    assert all(isinstance(verdict, Verdict) for verdict in verdicts), verdicts
    return [isinstance(verdict, Verdict) and verdict.is_pass for verdict in verdicts]


@pytest.fixture
def workshop() -> Iterator[Workshop]:
    started = Workshop.start(CellLimits(takes_users=True))
    try:
        assert started.words()[:2] == ["ready", "process"]
        yield started
    finally:
        started.process.kill()
        started.process.communicate()


def test_nothing_of_this_happens_where_it_was_not_asked_for() -> None:
    started = Workshop.start(CellLimits())
    try:
        word, why = started.words()
        assert word == "refused"
        assert "user namespace" in bytes.fromhex(why).decode()
        assert started.process.wait(20) == 3
    finally:
        started.process.kill()
        started.process.communicate()


def test_right_and_wrong_answers_get_their_verdicts_each_as_another_user(workshop: Workshop) -> None:
    shown = "import os\nprint(os.getuid(), os.getgid(), os.getgroups(), os.getcwd())\n"
    codes = [shown + (HONEST if number % 3 else "def f(x):\n    return 0\n") for number in range(12)]
    verdicts = workshop.judged(codes)
    assert passed(verdicts) == [number % 3 > 0 for number in range(12)]
    printed = [verdict.stdout.split(maxsplit=3) for verdict in verdicts if isinstance(verdict, Verdict)]
    assert len({user for user, *_ in printed}) == len({folder for *_, folder in printed}) == 12
    assert all(user == group != "0" and groups == "[]" for user, group, groups, _ in printed)


def test_a_stop_from_outside_costs_no_right_answer_its_verdict(workshop: Workshop) -> None:
    def stop() -> None:
        time.sleep(1.5)
        below = [workshop.process.pid]
        for pid in below:
            below += children(pid)
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in below:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            time.sleep(8)

    thread = threading.Thread(target=stop)
    thread.start()
    slow = "import os, time\nos.system('sleep 0.1 &')\ntime.sleep(3)\n"
    assert passed(workshop.judged([slow + f"# {number}\n" + HONEST for number in range(4)])) == [True] * 4
    thread.join()


# Each leaves something behind and passes; then looks for what others have left, and fails if there is anything.
LEFT_BEHIND = {
    "a process": (
        "import os, time\n"
        "def users():\n"
        "    for pid in filter(str.isdigit, os.listdir('/proc')):\n"
        "        try: yield open(f'/proc/{pid}/status').read().split('Uid:')[1].split()[0]\n"
        "        except (OSError, IndexError): pass\n"
        "assert {*users()} <= {'0', str(os.getuid())}, {*users()}\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        time.sleep(100)\n"
        "    os._exit(0)\n"
    ),
    "processes that make more": (
        "import os, signal\n"
        "for number in range(1, 65):\n"
        "    try: signal.signal(number, signal.SIG_IGN)\n"
        "    except (OSError, ValueError): pass\n"
        "if os.fork() == 0:\n"
        "    while True:\n"
        "        try:\n"
        "            if os.fork(): os._exit(0)\n"
        "        except OSError: pass\n"
    ),
    "files": (
        "import os\n"
        "for place in ('/tmp', '/var/tmp', '/dev/shm'):\n"
        "    assert not os.path.exists(place + '/left'), place\n"
        "    here = os.open(place, os.O_RDONLY)\n"
        "    for depth in range(300):\n"
        "        os.mkdir('left', 0o000, dir_fd=here)\n"
        "        os.chmod('left', 0o777, dir_fd=here)\n"
        "        inner = os.open('left', os.O_RDONLY, dir_fd=here)\n"
        "        os.symlink('/etc', 'link', dir_fd=inner)\n"
        "        os.close(here); here = inner\n"
        "    os.close(here)\n"
    ),
    "what cannot be read": (
        "import os\n"
        "assert not os.path.exists('/tmp/closed')\n"
        "os.makedirs('/tmp/closed/inner/deeper')\n"
        "open('/tmp/closed/inner/file', 'w').close()\n"
        "for path in ('/tmp/closed/inner/file', '/tmp/closed/inner', '/tmp/closed'): os.chmod(path, 0)\n"
        "os.makedirs('own/inner'); os.chmod('own', 0); os.chmod('.', 0)\n"
    ),
    "a System V object": (
        "import ctypes\n"
        "libc = ctypes.CDLL(None)\n"
        "assert libc.shmget(4711, 4096, 0) == libc.msgget(4711, 0) == libc.semget(4711, 1, 0) == -1\n"
        "assert min(libc.shmget(4711, 4096, 0o1666), libc.msgget(4711, 0o1666), libc.semget(4711, 1, 0o1666)) >= 0\n"
    ),
}


@pytest.mark.parametrize("what", LEFT_BEHIND)
def test_what_a_completion_leaves_behind_is_not_there_for_the_next(workshop: Workshop, what: str) -> None:
    for number in range(3):
        [verdict] = workshop.judged([f"{LEFT_BEHIND[what]}# {number}\n{HONEST}"])
        assert isinstance(verdict, Verdict)
        assert verdict.is_pass, verdict.detail


def test_completions_beside_each_other_reach_nothing_of_each_other(workshop: Workshop) -> None:
    victim = (
        "import os, time\nopen('secret', 'w').write('marker')\nopen('/tmp/mine', 'w').write('marker')\n"
        "time.sleep(1.5)\nassert open('secret').read() == open('/tmp/mine').read() == 'marker'\n"
    )
    attacker = (
        "import os, signal, time\ntime.sleep(0.3)\nread = []\n"
        "try: os.kill(-1, signal.SIGKILL)\nexcept OSError: pass\n"
        "for pid in filter(str.isdigit, os.listdir('/proc')):\n"
        "    if int(pid) == os.getpid(): continue\n"
        "    for name in ('environ', 'mem', 'maps', 'cwd/secret', 'fd/0'):\n"
        "        try: read.append(open(f'/proc/{pid}/{name}', 'rb').read(1))\n"
        "        except OSError: pass\n"
        "for folder, names, files in os.walk('/tmp'):\n"
        "    read += [name for name in files if name != 'mine']\n"
        "try: os.remove('/tmp/mine'); read.append('removed')\nexcept OSError: pass\n"
        "own = os.getcwd().rsplit('/', 1)\n"
        "for user in range(31000, 31100):\n"
        "    try: user != int(own[1]) and read.append(os.listdir(f'{own[0]}/{user}'))\n"
        "    except OSError: pass\n"
        "assert not read, read\n"
    )
    verdicts = workshop.judged([victim + HONEST, attacker + HONEST])
    assert passed(verdicts) == [True, True], verdicts


def test_no_readable_memory_or_file_holds_a_byte_of_the_checks_of_others(workshop: Workshop) -> None:
    marker = secrets.token_hex(16)
    hidden = Problem("hidden", "", tests=(f"assert f(1) == 2, '{marker}'", f"assert f('{marker}'[:0] and 1 or 1) == 2"))
    assert all(passed(workshop.judged([f"# {number}\n{HONEST}" for number in range(40)], hidden)))
    scan = scan_for(marker, ("/tmp", "/var/tmp", "/dev", "/run"))
    codes = [code for number in range(4) for code in (f"# {number}\n{scan}", f"# {number} b\n{HONEST}")]
    verdicts = workshop.judged(codes, hidden, seconds=20.0)
    assert passed(verdicts) == [True] * 8, verdicts


def test_a_link_that_a_neighbour_puts_into_a_tree_leads_nowhere(workshop: Workshop) -> None:
    # The first leaves a tree in which all may write; the other swaps its directories for links while it is removed.
    keeps = "import os, time\nopen('/tmp/kept', 'w').close()\ntime.sleep(2.5)\nassert os.path.exists('/tmp/kept')\n"
    leaves = (
        "import os, time\nos.umask(0)\n"
        "for number in range(300):\n    os.makedirs(f'/tmp/tree/{number}/a/b')\n"
        "os.chmod('/tmp/tree', 0o777)\ntime.sleep(1)\n"
    )
    swaps = (
        "import os, time\nends_at = time.monotonic() + 2\n"
        "while time.monotonic() < ends_at:\n"
        "    for number in range(300):\n"
        "        try:\n"
        "            os.rename(f'/tmp/tree/{number}/a', f'/tmp/tree/{number}/c')\n"
        "            os.symlink('/tmp', f'/tmp/tree/{number}/a')\n"
        "        except OSError: pass\n"
    )
    verdicts = workshop.judged([keeps + HONEST, swaps + HONEST, leaves + HONEST], seconds=10.0)
    assert passed(verdicts) == [True] * 3, verdicts
    assert passed(workshop.judged([f"{keeps}# again\n{HONEST}"], seconds=10.0)) == [True]


def test_one_that_takes_too_long_is_ended_with_all_it_has_started(workshop: Workshop) -> None:
    endless = "import os, time\nif os.fork() == 0:\n    os.setsid()\ntime.sleep(1000)\n"
    [late] = workshop.judged([endless + HONEST], seconds=0.5)
    assert isinstance(late, Verdict)
    assert late.status == "timeout"
    assert passed(workshop.judged([LEFT_BEHIND["a process"] + HONEST])) == [True]


KINDS = {
    "a program with cases": (Problem("c", "", cases=(Case("3\n", "4\n"),)), "print(int(input()) + 1)\n", "print(3)\n"),
    "an exit status": (Problem("e", "", check="exit_status"), "open('own', 'w').close()\n", "raise SystemExit(1)\n"),
    "a file of the problem": (
        Problem("f", "", tests=("assert f() == 'given'",), files=(("d/given.txt", b"given"),)),
        "def f():\n    return open('d/given.txt').read()\n",
        "def f():\n    return open('/tmp/given.txt').read()\n",
    ),
    "a checker": (
        Problem("k", "", cases=(Case("3\n", "4\n"),), checker=Checker("def check(i, e, o):\n    return int(o) > 3\n")),
        "print(int(input()) + 9)\n",
        "print(0)\n",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_check_works(workshop: Workshop, kind: str) -> None:
    problem, right, wrong = KINDS[kind]
    verdicts = workshop.judged([right, wrong, right + "# again\n"], problem)
    assert passed(verdicts) == [True, False, True], verdicts
