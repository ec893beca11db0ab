"""Cells of one worker sandbox: nothing of a completion reaches another one, before it, beside it or after it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from sandrl.events import CompletionFinished, Event, RetryScheduled
from sandrl.events.results import Isolation, ScoredCompletion, Status
from sandrl.problems import Case, Completion, Problem
from sandrl.rewards import Limits, ScoreOptions, score
from sandrl.runs import WORKER_TAG
from sandrl.sandboxes import Connection, Job, new_job_id
from sandrl.sandboxes.busy_processes import BusyProcesses
from tests.support.lines import Lines
from tests.support.scans import scan_for

INC = Problem("inc", "Add one.", tests=("assert f(1) == 2", "assert f(2) == 3"))
HONEST = "def f(x):\n    return x + 1\n"


@pytest.fixture
def ledger() -> Lines:
    return Lines()


@pytest.fixture
def cells(connection: Connection, ledger: Lines) -> Iterator[Job]:
    """A job of which every completion runs in a cell of one worker sandbox."""
    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=600, ledger=ledger, has_cells=True) as job:
        yield job


def score_codes(
    job: Job, codes: list[str], problem: Problem = INC, timeout_seconds: float = 4.0, concurrency: int | None = None
) -> list[ScoredCompletion]:
    completions = [Completion(f"c{number}", problem.task_id, code=code) for number, code in enumerate(codes)]
    limits = Limits(timeout_seconds=timeout_seconds)
    options = ScoreOptions(limits=limits, concurrency=concurrency, caching=False, backoff_seconds=0.01)
    return list(score(completions, {problem.task_id: problem}, job=job, options=options).results)


def worker_count(ledger: Lines) -> int:
    return sum(WORKER_TAG in tags for [tags, *_] in ledger.tags.values())


def assert_all_in_cells_of_one_worker(results: list[ScoredCompletion], ledger: Lines) -> None:
    assert [result.failures for result in results] == [()] * len(results)
    assert {result.isolation for result in results} == {Isolation.CELL}
    assert len({result.sandbox_id for result in results}) == 1
    assert worker_count(ledger) == len(ledger.tags) == 1


# Each leaves something behind and passes; then looks for what others have left, and fails if there is anything.
LEFT_BEHIND = {
    "a process": (
        "import os, time\n"
        "assert len([each for each in os.listdir('/proc') if each.isdigit()]) <= 3, os.listdir('/proc')\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        time.sleep(100)\n"
        "    os._exit(0)\n"
    ),
    "files": (
        "import os\n"
        # Some lead to the same place.
        "places = {os.path.realpath(p) for p in ('/tmp', '/var/tmp', '/dev/shm', '.', os.path.expanduser('~'))}\n"
        "for place in places:\n"
        "    assert not os.path.exists(place + '/left'), place\n"
        "    with open(place + '/left', 'w') as file: file.write('left')\n"
    ),
    "shared memory": (
        "from multiprocessing import resource_tracker, shared_memory\n"
        "resource_tracker.register = lambda *_: None\n"
        "shared_memory.SharedMemory('left', create=True, size=4096)\n"
    ),
    "an abstract socket": (
        "import os, socket\n"
        "server = socket.socket(socket.AF_UNIX)\n"
        "server.bind('\\0left')\n"
        "server.listen()\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    server.accept()\n"
    ),
    "a port": (
        "import os, socket\n"
        "server = socket.create_server(('127.0.0.1', 4321))\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    server.accept()\n"
    ),
    "packets": (
        "import socket\n"
        "counts = open('/proc/net/dev').read().split('lo:')[1].split()[:4]\n"
        "assert counts == ['0'] * 4, counts\n"
        "one, two = socket.socket(type=socket.SOCK_DGRAM), socket.socket(type=socket.SOCK_DGRAM)\n"
        "one.bind(('127.0.0.1', 0))\n"
        "two.sendto(b'left', one.getsockname())\n"
    ),
    "a request that no network serves": (
        "import socket\n"
        "lines = [line.split() for line in open('/proc/net/snmp') if line.startswith('Ip:')]\n"
        "assert dict(zip(*lines))['OutNoRoutes'] == '0'\n"
        "try: socket.socket(type=socket.SOCK_DGRAM).sendto(b'left', ('192.0.2.1', 9))\n"
        "except OSError: pass\n"
    ),
    "a socket in flight": (
        "import array, socket\n"
        "assert open('/proc/net/sockstat').readline() == 'sockets: used 0\\n'\n"
        "one, two = socket.socketpair()\n"
        "one.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [two.fileno()]))])\n"
    ),
    "a label of flows": (
        "import os, socket, struct\n"
        "if os.path.exists('/proc/net/ip6_flowlabel'):\n"
        "    labels = open('/proc/net/ip6_flowlabel').read()\n"
        "    assert labels.count('\\n') == 1, labels\n"
        "    asked = b'left'.ljust(16, b'.') + struct.pack('!I', 7) + struct.pack('BBHHHI', 0, 255, 1, 60, 60, 0)\n"
        "    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as own: own.setsockopt(41, 32, asked)\n"
    ),
    "a lock": (
        "import fcntl, os\n"
        "file = open('/usr/bin/env', 'rb')\n"
        "try: fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)\n"
        "except OSError: raise AssertionError('locked')\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    import time; time.sleep(100)\n"
    ),
    "limits": (
        "import resource\n"
        "assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 20\n"
        "assert resource.getrlimit(resource.RLIMIT_CORE)[1] != 7\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))\n"
    ),
    "a signal's disposition": (
        "import signal\n"
        "assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL\n"
        "assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL\n"
        "signal.signal(signal.SIGUSR1, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    ),
    "a timer": (
        "import signal\nassert signal.getitimer(signal.ITIMER_REAL)[0] == 0\nsignal.setitimer(signal.ITIMER_REAL, 30)\n"
    ),
    "a mask and a directory": (
        "import os\nassert os.umask(0o777) != 0o777\nassert os.getcwd() != '/proc'\nos.chdir('/proc')\n"
    ),
    "a module": (
        "import json, sys\nassert not hasattr(json, 'left')\njson.left = 1\nsys.modules['json'] = None\n"
    ),
    "a name": (
        "import socket\nassert socket.gethostname() != 'left'\n"
        "try: socket.sethostname('left')\nexcept OSError: pass\n"
    ),
    "a queue": (
        "import os\nassert not os.path.exists('/dev/mqueue/left')\n"
        "try: open('/dev/mqueue/left', 'w').close()\nexcept OSError: pass\n"
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", LEFT_BEHIND)
def test_what_a_completion_leaves_behind_is_not_there_for_the_next(cells: Job, ledger: Lines, what: str) -> None:
    codes = [f"# {number}\n{LEFT_BEHIND[what]}{HONEST}" for number in range(6)]
    results = score_codes(cells, codes)
    assert [(result.status, result.detail) for result in results] == [(Status.PASSED, "")] * 6
    assert_all_in_cells_of_one_worker(results, ledger)


def test_what_a_completion_left_behind_is_gone_when_its_neighbour_looks_at_the_same_time(
    cells: Job, ledger: Lines
) -> None:
    """All of them at once, each while the others still run."""
    codes = [f"{left}\nimport time\ntime.sleep(0.5)\n{HONEST}" for left in LEFT_BEHIND.values() for _ in range(2)]
    results = score_codes(cells, codes)
    assert [(result.status, result.detail) for result in results] == [(Status.PASSED, "")] * len(codes)
    assert_all_in_cells_of_one_worker(results, ledger)


_MEET = """
import os, socket, time
name = {name!r}
found = []
end = time.monotonic() + 1.5
def tries():
    yield lambda: open('/tmp/' + name).read()
    yield lambda: open('/dev/shm/' + name).read()
    yield lambda: socket.create_connection(('127.0.0.1', 4567), 0.1)
    def connect():
        other = socket.socket(socket.AF_UNIX)
        other.connect(chr(0) + name)
    yield connect
    def signal_all():
        mine = os.getpid(), os.getppid()
        others = [int(each) for each in os.listdir('/proc') if each.isdigit() and int(each) not in (1, *mine)]
        assert others
    yield signal_all
    def read_memory_of_others():
        for pid in range(2, 400):
            if pid not in (os.getpid(), os.getppid()):
                with open(f'/proc/{{pid}}/mem', 'rb'): return
        raise OSError
    yield read_memory_of_others
while time.monotonic() < end:
    for attempt in tries():
        try:
            attempt()
        except (OSError, AssertionError):
            pass
        else:
            found.append(attempt.__name__)
    time.sleep(0.01)
assert not found, found
def f(x):
    return x + 1
"""
_MET = """
import os, socket, time
name = {name!r}
for place in ('/tmp/', '/dev/shm/'):
    with open(place + name, 'w') as file: file.write('here')
server = socket.create_server(('127.0.0.1', 4567))
abstract = socket.socket(socket.AF_UNIX)
abstract.bind(chr(0) + name)
abstract.listen()
time.sleep(1.5)
def f(x):
    return x + 1
"""


def test_completions_beside_each_other_do_not_meet(cells: Job, ledger: Lines) -> None:
    name = f"meet-{secrets.token_hex(4)}"
    results = score_codes(cells, [text.format(name=name) for text in (_MET, _MEET, _MET, _MEET)])
    assert [(result.status, result.detail) for result in results] == [(Status.PASSED, "")] * 4
    assert_all_in_cells_of_one_worker(results, ledger)


def test_no_readable_memory_or_file_holds_a_byte_of_the_checks_of_others(cells: Job, ledger: Lines) -> None:
    marker = secrets.token_hex(16)
    hidden = Problem("hidden", "", tests=(f"assert f(1) == 2, '{marker}'", f"assert f('{marker}'[:0] and 1 or 1) == 2"))
    others = score_codes(cells, [f"# {number}\n{HONEST}" for number in range(100)], hidden)
    assert {result.reward for result in others} == {1.0}
    # In the middle of others with the same marker, which run before, beside and after them.
    scan = scan_for(marker)
    codes = [code for number in range(4) for code in (f"# {number}\n{scan}", f"# {number} b\n{HONEST}")]
    scanning = score_codes(cells, codes, hidden, timeout_seconds=20)
    assert [(result.status, result.detail) for result in scanning] == [(Status.PASSED, "")] * 8
    assert_all_in_cells_of_one_worker(others + scanning, ledger)


BREACHES = {
    "memory at once": "x = bytearray(4 << 30)\n",
    "memory of several": ("import os, time\nfor _ in range(6): os.fork()\nx = bytearray(200 << 20)\ntime.sleep(9)\n"),
    "processes": "import os\nwhile True: os.fork()\n",
    "disk": "n = 0\nwhile True:\n    n += 1\n    open(f'/tmp/{n}', 'wb').write(bytes(10 << 20))\n",
    "files": "n = 0\nwhile True:\n    n += 1\n    open(f'/tmp/{n}', 'wb').close()\n",
    "output": "while True: print('x' * 100_000)\n",
    "shared memory": (
        "import mmap\nx = []\nwhile True:\n    x.append(mmap.mmap(-1, 64 << 20))\n    x[-1].write(bytes(64 << 20))\n"
    ),
    "sockets": "import socket\nx = []\nwhile True: x.append(socket.socketpair())\n",
    "time": "while True: pass\n",
}
SLEEPER = "import time\ntime.sleep(1.0)\n" + HONEST


@pytest.mark.parametrize("what", BREACHES)
def test_a_breach_of_a_limit_ends_its_own_cell_alone(cells: Job, ledger: Lines, what: str) -> None:
    told: list[Event] = []
    codes = [SLEEPER, BREACHES[what], SLEEPER, HONEST]
    completions = [Completion(f"c{number}", "inc", code=code) for number, code in enumerate(codes)]
    options = ScoreOptions(limits=Limits(timeout_seconds=4.0), caching=False, backoff_seconds=0.01)
    results = score(completions, {"inc": INC}, job=cells, options=options, emit=told.append).results
    assert [result.reward for result in results] == [1.0, 0.0, 1.0, 1.0]
    assert {event.index for event in told if isinstance(event, RetryScheduled)} <= {1}
    honest = [result for result in results if result.index != 1]
    assert {(result.isolation, result.sandboxes, result.sandbox_id) for result in honest} == {
        (Isolation.CELL, 1, honest[0].sandbox_id)
    }
    assert worker_count(ledger) == 1


NO_WAY_OUT = {
    "a new user namespace": "ctypes.CDLL(None, use_errno=True).unshare(0x10000000) == -1",
    "a new mount namespace": "ctypes.CDLL(None, use_errno=True).unshare(0x20000) == -1",
    "a mount": "ctypes.CDLL(None, use_errno=True).mount(b'none', b'/tmp', b'tmpfs', 0, b'') == -1",
    "an unmount": "all(ctypes.CDLL(None).umount2(place, 2) == -1 for place in (b'/tmp', b'/proc', b'/dev/pts'))",
    "another root": "ctypes.CDLL(None).chroot(b'/tmp') == -1",
    "effective capabilities": "int(open('/proc/self/status').read().split('CapEff:')[1].split()[0], 16) == 0",
    "permitted capabilities": "int(open('/proc/self/status').read().split('CapPrm:')[1].split()[0], 16) == 0",
    "new privileges": "'NoNewPrivs:\\t1' in open('/proc/self/status').read()",
    "another user": "ctypes.CDLL(None).setuid(0) == -1 and os.getuid() != 0",
    "the limit of namespaces": "refused(lambda: open('/proc/sys/user/max_user_namespaces', 'w').write('9'))",
    "the system": "all(refused(lambda: open(p + '/x', 'w')) for p in ('/usr', '/etc', '/', '/dev', '/proc/sys'))",
    "the first process": "refused(lambda: open('/proc/1/mem', 'rb')) and refused(lambda: os.listdir('/proc/1/fd'))",
    "the network": "refused(lambda: socket.create_connection(('10.0.0.1', 80), 0.2))",
    "the worker's spool": "not [n for n in os.listdir('/tmp') if n.endswith(('.request', '.out', '.err'))]",
    "the first process's files": "all(refused(lambda: os.listdir('/proc/1/' + n)) for n in ('root', 'cwd', 'ns'))",
    "the first process's facts": "all(refused(lambda: open('/proc/1/' + n).read()) for n in ('environ', 'maps', 'io'))",
    "the end of the first process": "[os.kill(1, n) for n in (1, 2, 9, 15, 17, 19)] and os.kill(1, 0) is None",
    "namespaces": "all(ctypes.CDLL(None).setns(os.open('/proc/self/ns/' + n, 0), 0) for n in ('user', 'mnt', 'net'))",
    "a bind below": "ctypes.CDLL(None).mount(b'/proc/1/root', b'/tmp', b'', 4096, b'') == -1",
    "tracing": "ctypes.CDLL(None).ptrace(16, 1, 0, 0) == -1",
    "the clock": "refused(lambda: time.clock_settime(time.CLOCK_REALTIME, 0))",
    "a descriptor of the worker": "not [p for p in map(link, range(100)) if '.request' in p or '.out' in p]",
}  # fmt: skip


@pytest.mark.parametrize("way", NO_WAY_OUT)
def test_there_is_no_way_out_of_a_cell(cells: Job, ledger: Lines, way: str) -> None:
    code = (
        "import ctypes, os, socket, time\n"
        "def refused(attempt):\n"
        "    try: attempt()\n"
        "    except OSError: return True\n"
        "    return False\n"
        "def link(n):\n"
        "    try: return os.readlink(f'/proc/self/fd/{n}')\n"
        "    except OSError: return ''\n"
        f"assert {NO_WAY_OUT[way]}\n{HONEST}"
    )
    results = score_codes(cells, [code, HONEST])
    assert [(result.status, result.detail) for result in results] == [(Status.PASSED, "")] * 2
    assert_all_in_cells_of_one_worker(results, ledger)


_ENVIRONMENT = """
import os, resource, sys
names = ('NOFILE', 'NPROC', 'MEMLOCK', 'STACK', 'CORE', 'FSIZE', 'DATA')
print(sorted(os.environ.items()))
print(os.getcwd(), os.path.expanduser('~'), os.getuid(), os.getgid(), sys.argv, sys.path, sys.flags)
print([(name, resource.getrlimit(getattr(resource, 'RLIMIT_' + name))) for name in names])
print(sorted(each for each in os.listdir('/') if not each.startswith('.')), sorted(os.listdir('.')))
print(sorted(os.listdir('/dev')), oct(os.stat('/tmp').st_mode), oct(os.stat('/dev/shm').st_mode))
print(os.statvfs('/tmp').f_blocks, os.statvfs('/tmp').f_files)
print(open('/proc/self/status').read().split('CapEff:')[1].split()[0], os.umask(0), os.isatty(0))
"""


def test_code_finds_the_same_environment_as_in_a_fresh_sandbox(connection: Connection, cells: Job) -> None:
    shown = Problem("shown", "", cases=(Case("", "never"),))
    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=60) as fresh:
        [in_cell], [in_sandbox] = [score_codes(job, [_ENVIRONMENT], shown) for job in (cells, fresh)]
    assert (in_cell.isolation, in_sandbox.isolation) == (Isolation.CELL, Isolation.SANDBOX)
    assert in_cell.stdout == in_sandbox.stdout
    assert "/workspace" in in_cell.stdout


def test_cells_share_no_random_numbers_and_no_seed(cells: Job, ledger: Lines) -> None:
    drawn = "import random, tempfile\nprint(random.random(), next(tempfile._get_candidate_names()), hash('a'))\n"
    results = score_codes(cells, [f"{drawn}# {number}\n{HONEST}" for number in range(6)])
    assert_all_in_cells_of_one_worker(results, ledger)
    numbers, names, _ = zip(*[result.stdout.split() for result in results], strict=True)
    assert len({*numbers, *names}) == 12


def test_a_file_of_a_problem_is_imported_before_a_module_that_the_worker_has_loaded(cells: Job, ledger: Lines) -> None:
    problem = Problem("own", "", tests=("assert f() == 'own'",), files=(("heapq.py", b"name = 'own'\n"),))
    results = score_codes(cells, ["import heapq\ndef f():\n    return heapq.name\n"], problem)
    assert [result.reward for result in results] == [1.0], results[0].detail
    assert_all_in_cells_of_one_worker(results, ledger)


def test_more_completions_than_a_worker_holds_are_all_judged_there(cells: Job, ledger: Lines) -> None:
    codes = [(HONEST if number % 3 else "def f(x): return 0\n") + f"# {number}" for number in range(120)]
    results = score_codes(cells, codes)
    assert [result.reward for result in results] == [float(number % 3 > 0) for number in range(120)]
    assert_all_in_cells_of_one_worker(results, ledger)


# Each ends its judge, or tries to leave something in it.
FOR_THE_JUDGE = {
    "bytes in all pipes": (
        "import os\nfor number in range(3, 30):\n    try: os.write(number, b'!' * 60_000)\n    except OSError: pass\n"
    ),
    "the head of a message": (
        "import os\n"
        "for number in range(3, 30):\n"
        "    try: os.write(number, (1 << 20).to_bytes(4, 'little') + b'r')\n"
        "    except OSError: pass\n"
        "os._exit(0)\n"
    ),
    "a process that holds the pipes": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(100)\nos._exit(0)\n"
    ),
    "classes of its own": "class int(int): __eq__ = lambda self, other: True\ndef f(x): return int(x)\n",
    "an exception of its own": "class E(BaseException): pass\ndef f(x): raise E(E)\n",
    "a value of a library": "import decimal\ndef f(x): return decimal.Decimal(x)\n",
    "a large value": "def f(x): return [0] * 2_000_000\n",
    "a deep value": "def f(x):\n    a = []\n    for _ in range(100_000): a = [a]\n    return a\n",
    "no answer": "def f(x):\n    while True: pass\n",
}


def test_no_completion_leaves_anything_in_a_judge(cells: Job, ledger: Lines) -> None:
    wrong = "def f(x):\n    return x\n"
    codes = [code for hostile in FOR_THE_JUDGE.values() for code in (hostile, HONEST, wrong)]
    # One after another: all of them have the same judge, or its successor.
    results = score_codes(cells, codes, timeout_seconds=1.0, concurrency=1)
    assert [result.reward for result in results] == [0.0, 1.0, 0.0] * len(FOR_THE_JUDGE)
    assert {result.status for result in results[2::3]} == {Status.FAILED}
    assert not any(result.failures for result in results)
    assert worker_count(ledger) == 1


_NAMES_NETWORK = """
import socket
SO_NETNS_COOKIE = 71
with socket.socket() as own:
    cookie = own.getsockopt(socket.SOL_SOCKET, SO_NETNS_COOKIE, 8).hex()
{use}raise ValueError(cookie)
"""
_USES_NETWORK = "socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))\n"


@pytest.mark.parametrize(
    ("fresh", "use", "networks"),
    [(False, "", 1), (False, _USES_NETWORK, 3), (True, "", 3)],
    ids=["not-used", "used", "fresh"],
)
def test_a_network_that_was_used_serves_no_other_cell(
    connection: Connection, fresh: bool, use: str, networks: int
) -> None:
    codes = [f"# {number}\n{_NAMES_NETWORK.format(use=use)}" for number in range(3)]
    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=600, has_cells=True, fresh_networks=fresh) as job:
        results = score_codes(job, codes, concurrency=1)
    assert all(result.detail.startswith("ValueError: ") for result in results), [each.detail for each in results]
    assert len({result.detail for result in results}) == networks


def test_a_job_that_was_closed_in_the_middle_is_no_longer_busy(connection: Connection) -> None:
    def fail(event: Event) -> None:
        if isinstance(event, CompletionFinished):
            raise KeyError("no results are wanted")

    code = "import time\ntime.sleep({seconds})\n" + HONEST
    completions = [Completion(f"c{index}", "inc", code=code.format(seconds=10 * (index > 0))) for index in range(3)]
    options = ScoreOptions(limits=Limits(timeout_seconds=20.0), caching=False)
    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=600, has_cells=True) as job:
        with pytest.raises(KeyError):
            score(completions, {"inc": INC}, job=job, options=options, emit=fail)
        assert count_of_busy(connection) == 2
    assert count_of_busy(connection) == 1


def count_of_busy(connection: Connection) -> int:
    asked = BusyProcesses(connection.state_dir)
    asked.set_busy(True)
    return asked.count()
