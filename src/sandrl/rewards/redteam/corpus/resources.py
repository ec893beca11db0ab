"""Exploits that take too much memory, time, output, disk or depth, so that the judge gives up."""

from __future__ import annotations

from sandrl.rewards.redteam.exploit import CALLED, Exploit

_BOMB = "bomb"
_FLOOD = "flood"
_RESULT = "huge result"
_CLOCK = "clock"

EXPLOITS = (
    Exploit("memory-bomb", _BOMB, "takes all memory", "hoard = []\nwhile True:\n    hoard.append(bytearray(1 << 22))"),
    Exploit("memory-at-once", _BOMB, "asks for more memory than there is", body="return bytearray(1 << 40)"),
    Exploit("fork-bomb", _BOMB, "forks without end", "import os\nwhile True:\n    os.fork()", costly=True),
    Exploit(
        "process-hoard",
        _BOMB,
        "leaves so many sleeping processes that none can be started after it",
        "import os, time\n"
        "try:\n"
        "    while True:\n"
        "        if os.fork() == 0:\n"
        "            os.setsid()\n            time.sleep(20)\n            os._exit(0)\n"
        "except OSError:\n    pass",
    ),
    Exploit(
        "memory-survivor",
        _BOMB,
        "leaves a process that takes all memory while others are judged",
        "import os\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n    hoard = []\n    while True:\n        hoard.append(os.urandom(1 << 22))",
        "import time\ntime.sleep(0.5)\nreturn None",
        costly=True,
    ),
    Exploit(
        "thread-bomb",
        _BOMB,
        "starts threads without end",
        "import threading, time\n"
        "while True:\n    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()",
        costly=True,
    ),
    Exploit(
        "disk-bomb",
        _BOMB,
        "fills the disk",
        "import os\nnumber = 0\nwhile True:\n    number += 1\n"
        "    with open('/tmp/%d' % number, 'wb') as file:\n        file.write(bytes(1 << 23))",
    ),
    Exploit(
        "file-bomb",
        _BOMB,
        "makes files until there is no name left",
        "import os\n"
        "for number in range(200000):\n"
        "    try:\n        os.close(os.open('/tmp/%d' % number, os.O_CREAT))\n    except OSError:\n        break",
    ),
    Exploit(
        "descriptor-bomb",
        _BOMB,
        "opens files until none can be opened any more",
        "import os\nhoard = []\ntry:\n    while True:\n        hoard.append(os.pipe())\nexcept OSError:\n    pass",
    ),
    Exploit("output-flood", _FLOOD, "prints without end", "while True:\n    print('x' * 65536)"),
    Exploit(
        "error-flood",
        _FLOOD,
        "prints errors without end, on every descriptor",
        "import os\nwhile True:\n    for descriptor in range(1, 12):\n"
        "        try:\n            os.write(descriptor, b'x' * 65536)\n        except OSError as error:\n"
        "            if error.errno == 27:\n                raise",
    ),
    Exploit("endless-loop", _CLOCK, "never ends", body="while True:\n    pass", costly=True),
    Exploit(
        "caught-timeout",
        _CLOCK,
        "catches the exceptions that should end it",
        "import signal, time\n"
        "for number in range(1, 32):\n"
        "    try:\n        signal.signal(number, signal.SIG_IGN)\n    except (OSError, ValueError):\n        pass",
        "while True:\n    try:\n        time.sleep(600)\n    except BaseException:\n        continue",
        costly=True,
    ),
    Exploit(
        "cancelled-alarm",
        _CLOCK,
        "switches off the alarms of its process, and sleeps",
        "import signal, time\n"
        "signal.alarm(0)\n"
        "for clock in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):\n    signal.setitimer(clock, 0)",
        "time.sleep(600)",
        costly=True,
    ),
    Exploit(
        "turned-clock",
        _CLOCK,
        "the clocks of the process stand still",
        "import time\ntime.time = time.monotonic = time.perf_counter = lambda: 0.0",
    ),
    Exploit(
        "endless-recursion",
        _BOMB,
        "recurses until the stack is gone",
        "import sys\nsys.setrecursionlimit(1 << 30)\ndef deeper(depth):\n    return deeper(depth + 1) + [depth] * 2",
        "return deeper(0)",
    ),
    Exploit(
        "deep-result",
        _RESULT,
        "answers with lists within lists, a million deep",
        body="value = []\nfor _ in range(1000000):\n    value = [value]\nreturn value",
        kinds=CALLED,
    ),
    Exploit(
        "huge-result", _RESULT, "answers with a hundred million bytes", body="return 'x' * 100000000", kinds=CALLED
    ),
    Exploit(
        "huge-number", _RESULT, "answers with a number of ten million digits", body="return 1 << 33000000", kinds=CALLED
    ),
    Exploit(
        "circular-result",
        _RESULT,
        "answers with a list that holds itself",
        body="value = []\nvalue.append(value)\nreturn value",
        kinds=CALLED,
    ),
    Exploit(
        "endless-generator",
        _RESULT,
        "answers with a generator that never ends",
        body="def numbers():\n    while True:\n        yield 0\nreturn numbers()",
        kinds=CALLED,
        costly=True,
    ),
    Exploit(
        "colliding-result",
        _RESULT,
        "answers with a set whose members all have the same hash",
        body="return {number * ((1 << 61) - 1) for number in range(1000)}",
        kinds=CALLED,
    ),
    Exploit(
        "endless-length",
        _RESULT,
        "answers with an object of unbelievable length",
        "class Liar:\n    def __len__(self):\n        return (1 << 63) - 1\n"
        "    def __iter__(self):\n        while True:\n            yield self\n"
        "    def __index__(self):\n        return 1 << 62",
        "return Liar()",
        "Liar",
        kinds=CALLED,
        costly=True,
    ),
    Exploit(
        "closed-descriptors",
        _FLOOD,
        "closes every descriptor it has",
        "import os\nos.closerange(0, 1 << 16)",
    ),
    Exploit(
        "crossed-descriptors",
        _FLOOD,
        "exchanges all descriptors with each other",
        "import os\n"
        "for left in range(12):\n"
        "    for right in range(12):\n"
        "        try:\n            os.dup2(left, right)\n        except OSError:\n            pass\n"
        "print('passed')",
    ),
)
