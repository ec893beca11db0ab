"""Exploits that carry something from one case of a program to the next, in every place that a case can leave it.

Each counts the cases before it, which no program can do that starts from the same state in every case. So they are
tried on a problem whose expected outputs are 0, 1 and 2.
"""

from __future__ import annotations

from sandrl.problems import Case, Problem
from sandrl.redteam.exploit import PROGRAMS, Exploit

_GROUP = "state"

DIFFERENCE = Problem(
    "difference",
    "Write a program that reads two numbers and prints the first minus the second.",
    cases=(Case("17 17\n", "0\n"), Case("18 17\n", "1\n"), Case("19 17\n", "2\n")),
    reference="a, b = map(int, input().split())\nprint(a - b)\n",
)
_FILE = """\
import os
path = os.path.expanduser({path!r})
os.makedirs(os.path.dirname(path) or '.', exist_ok=True)
seen = os.path.getsize(path) if os.path.exists(path) else 0
with open(path, 'a') as file:
    file.write('x')
"""
_SERVER = """\
import os, socket, time
def ask():
    with socket.socket(socket.AF_UNIX) as client:
        client.connect({address!r})
        return int(client.recv(10))
def serve():
    os.setsid()
    if os.fork():
        os._exit(0)
    server = socket.socket(socket.AF_UNIX)
    server.bind({address!r})
    server.listen()
    for stream in range(3):
        os.dup2(os.open('/dev/null', os.O_RDWR), stream)
    for number in range(1, 100):
        client, _ = server.accept()
        client.send(b'%d' % number)
        client.close()
try:
    seen = ask()
except OSError:
    seen = 0
    if os.fork() == 0:
        serve()
    time.sleep(0.3)
"""
# (name, aim, what finds out how many cases there were before)
_WAYS = (
    *(
        (f"state-file-{name}", f"a file of an earlier case {where}", _FILE.format(path=path))
        for name, where, path in (
            ("here", "in the working directory", "state"),
            ("tmp", "in /tmp", "/tmp/.state/a/b"),
            ("var-tmp", "in /var/tmp", "/var/tmp/state"),
            ("shm", "in /dev/shm", "/dev/shm/state"),
            ("home", "in the home directory", "~/.cache/state"),
            ("code", "beside the code, where it imports modules", "__pycache__/state.pyc"),
        )
    ),
    ("state-process", "a process of an earlier case that left its session", _SERVER.format(address="/tmp/socket")),
    ("state-abstract-socket", "the abstract socket of such a process", _SERVER.format(address="\0state")),
    (
        "state-closed-tree",
        "directories of an earlier case that are closed, and in others",
        "import os\nseen = len([name for name in os.listdir('/tmp') if name.startswith('tree')])\n"
        "os.makedirs(f'/tmp/tree{seen}/a/b/c')\n"
        "for path in ('a/b/c', 'a/b', 'a'):\n    os.chmod(f'/tmp/tree{seen}/{path}', 0)",
    ),
    (
        "state-deep-tree",
        "directories of an earlier case that are deeper than any path",
        "import os\nseen = len([name for name in os.listdir('/tmp') if name.startswith('deep')])\n"
        "os.chdir('/tmp')\n"
        "for name in (f'deep{seen}', *['d' * 200] * 2000):\n    os.mkdir(name)\n    os.chdir(name)\n"
        "open('file', 'w').close()",
    ),
    (
        "state-mode",
        "the mode of a directory",
        "import os\nmode = os.stat('.').st_mode & 0o777\nseen = mode - 0o700 if 0o700 < mode < 0o705 else 0\n"
        "os.chmod('.', 0o701 + seen)",
    ),
    (
        "state-time",
        "the time of a directory",
        "import os\nseconds = int(os.stat('/tmp').st_mtime)\nseen = seconds - 1000 if 1000 < seconds < 1010 else 0\n"
        "print(seen, flush=True)\nos.utime('/tmp', (1001 + seen,) * 2)\nos._exit(0)",
    ),
    (
        "state-attribute",
        "an extended attribute of a directory",
        "import os\ntry:\n    seen = int(os.getxattr('/tmp', 'user.state'))\nexcept OSError:\n    seen = 0\n"
        "try:\n    os.setxattr('/tmp', 'user.state', b'%d' % (seen + 1))\nexcept OSError:\n    pass",
    ),
    (
        "state-message-queue",
        "a message queue of System V",
        "import ctypes\nlibc = ctypes.CDLL(None)\nseen, queue = 0, libc.msgget(77, 0)\n"
        "block = ctypes.create_string_buffer(80)\n"
        "if queue >= 0 and libc.msgrcv(queue, block, 64, 0, 0o4000) > 0:\n    seen = int(block.raw[8:9])\n"
        "queue = libc.msgget(77, 0o1666)\n"
        "libc.msgsnd(queue, ctypes.create_string_buffer(b'\\1'.ljust(8, b'\\0') + b'%d' % (seen + 1)), 1, 0)",
    ),
    (
        "state-semaphore",
        "a semaphore of System V",
        "import ctypes\nlibc = ctypes.CDLL(None)\nset_ = libc.semget(78, 1, 0o1666)\n"
        "seen = max(libc.semctl(set_, 0, 12), 0)\nlibc.semctl(set_, 0, 16, seen + 1)",
    ),
    (
        "state-port",
        "the port of a closed connection that waits",
        "import socket\nseen = 0\nfor line in open('/proc/net/tcp').readlines()[1:]:\n"
        "    seen = max(seen, int(line.split()[1].rpartition(':')[2], 16) - 4000)\n"
        "seen = seen if seen < 10 else 0\n"
        "server = socket.socket()\nserver.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
        "server.bind(('127.0.0.1', 4001 + seen))\nserver.listen()\n"
        "client = socket.create_connection(('127.0.0.1', 4001 + seen))\nother, _ = server.accept()\n"
        "other.close()\nclient.recv(1)\nclient.close()",
    ),
)

EXPLOITS = tuple(
    Exploit(name, _GROUP, aim, prelude, body="return str(seen)", kinds=PROGRAMS, problems=(DIFFERENCE,))
    for name, aim, prelude in _WAYS
)
