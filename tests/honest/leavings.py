"""Honest programs that leave threads, children and orphans behind, made from a seed.

Each is a small solution with some of the habits below, at its top or in its function. What it leaves is no reason for
another verdict: plain Python decides them by their answers, and so must the judge, in cells and in fresh sandboxes.
"""

from __future__ import annotations

import random
import re
import textwrap

from sandrl.problems import Case, Problem
from sandrl.rewards import Extraction
from tests.honest.entries import Entry

STYLE = "leavings"
# One in so many solutions is wrong: it must stay wrong.
_WRONG = 10
# What a program does besides its task; T is a short time, N a small number, S a status.
HABITS: dict[str, str] = {
    "daemon thread": (
        "def spin():\n    while True:\n        time.sleep(0.01)\nthreading.Thread(target=spin, daemon=True).start()"
    ),
    "thread that ends": "threading.Thread(target=time.sleep, args=(T,)).start()",
    "timer": "threading.Timer(T, lambda: None).start()",
    "executor": (
        "executor = concurrent.futures.ThreadPoolExecutor(N)\nfor _ in range(N):\n    executor.submit(time.sleep, T)"
    ),
    "double fork": (
        "pid = os.fork()\nif pid == 0:\n    if os.fork():\n        os._exit(0)\n    time.sleep(T)\n    os._exit(0)\n"
        "assert os.waitpid(pid, 0)[0] == pid"
    ),
    "daemon": (
        "pid = os.fork()\nif pid == 0:\n    os.setsid()\n    if os.fork():\n        os._exit(0)\n    os.umask(0)\n"
        "    time.sleep(T)\n    os._exit(0)\nassert os.waitpid(pid, 0)[1] == 0"
    ),
    "session that holds the pipes": "if os.fork() == 0:\n    os.setsid()\n    time.sleep(T)\n    os._exit(0)",
    "background sleep": "assert os.system('sleep T &') == 0",
    "many in the background": "for _ in range(40 * N):\n    assert os.system('true &') == 0",
    "background in a shell": (
        "ran = subprocess.run('sleep T & echo N', shell=True, capture_output=True, text=True)\n"
        "assert (ran.returncode, ran.stdout) == (0, 'N\\n')"
    ),
    "left process": "left = subprocess.Popen(['sleep', 'T'])",
    "many left processes": "left = [subprocess.Popen(['true']) for _ in range(8 * N)]",
    "session of its own": "left = subprocess.Popen(['sleep', 'T'], start_new_session=True)",
    "nohup": "assert os.system('nohup setsid sleep T >/dev/null 2>&1 &') == 0",
    "zombies": "for _ in range(5 * N):\n    if os.fork() == 0:\n        os._exit(0)",
    # Not beside a pool that is left: the end of the child's interpreter would wait for it for ever.
    "child that exits": "if 'pool' not in globals() and os.fork() == 0:\n    raise SystemExit(0)",
    "child with a status": (
        "pid = os.fork()\nif pid == 0:\n    os._exit(S)\nassert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == S"
    ),
    "child that dies": (
        "child = subprocess.Popen(['sleep', '5'])\nchild.terminate()\nassert child.wait() == -signal.SIGTERM"
    ),
    "child that is stopped": (
        "child = subprocess.Popen(['sleep', '5'])\nchild.send_signal(signal.SIGSTOP)\ntime.sleep(T)\n"
        "child.send_signal(signal.SIGCONT)\nchild.kill()\nassert child.wait() == -signal.SIGKILL"
    ),
    "waits for each": (
        "pids = [os.fork() or os._exit(0) for _ in range(N)]\n"
        "assert [os.waitpid(pid, 0) for pid in pids] == [(pid, 0) for pid in pids]"
    ),
    "notices its children": (
        "ended = []\nbefore = signal.signal(signal.SIGCHLD, lambda number, frame: ended.append(number))\n"
        "subprocess.run(['true'], check=True)\nsignal.signal(signal.SIGCHLD, before)\nassert ended"
    ),
    "interrupts itself": (
        "try:\n    os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(5)\n    raise AssertionError\n"
        "except KeyboardInterrupt:\n    pass"
    ),
    "interrupts its child": (
        "code = 'import time\\ntry: time.sleep(9)\\nexcept KeyboardInterrupt: raise SystemExit(S)'\n"
        "child = subprocess.Popen([sys.executable, '-c', 'print(1, flush=True)\\n' + code], stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\ntime.sleep(0.2)\nchild.send_signal(signal.SIGINT)\nassert child.wait() == S"
    ),
    "alarm": (
        "rang = []\nsignal.signal(signal.SIGALRM, lambda number, frame: rang.append(number))\n"
        "signal.setitimer(signal.ITIMER_REAL, T)\ntime.sleep(T + 0.1)\nassert rang"
    ),
    "pool": "with multiprocessing.Pool(2) as pool:\n    assert pool.map(abs, range(-N, 0)) == list(range(N, 0, -1))",
    "pool that is left": "pool = multiprocessing.Pool(2)\nassert pool.map(abs, [-N]) == [N]",
    "left daemon of multiprocessing": "multiprocessing.Process(target=time.sleep, args=(T,), daemon=True).start()",
    "process of multiprocessing": (
        "process = multiprocessing.Process(target=time.sleep, args=(T,))\nprocess.start()\nprocess.join()\n"
        "assert process.exitcode == 0"
    ),
    "exit hook": "atexit.register(time.sleep, T)",
    "ignores signals": (
        "if os.fork() == 0:\n    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):\n"
        "        signal.signal(number, signal.SIG_IGN)\n    time.sleep(T)\n    os._exit(0)"
    ),
    "orphans of orphans": (
        "if os.fork() == 0:\n    for _ in range(N):\n        if os.fork() == 0:\n            if os.fork() == 0:\n"
        "                time.sleep(T)\n            os._exit(0)\n    os._exit(0)"
    ),
}
_IMPORTS = "import atexit, concurrent.futures, multiprocessing, os, signal, subprocess, sys, threading, time\n"


def make_entry(seed: int) -> Entry:
    """The program of a seed."""
    chance = random.Random(seed)
    name = f"{STYLE}/{seed}"
    factor, summand, is_wrong = chance.randint(2, 9), chance.randint(1, 99), chance.randrange(_WRONG) == 0
    answer = f"x * {factor} + {summand + is_wrong}"
    asked = [(x, x * factor + summand) for x in chance.sample(range(-50, 50), 3)]
    code = _IMPORTS + "\n".join(_habit(chance) for _ in range(chance.randint(1, 3))) + "\n"
    if chance.random() < 0.5:
        inside = textwrap.indent(_habit(chance), "    ") + "\n" if chance.random() < 0.3 else ""
        code += f"def f(x):\n{inside}    return {answer}\n"
        problem = Problem(name, "", tests=tuple(f"assert f({x}) == {y}" for x, y in asked))
    else:
        code += f"x = int(input())\nprint({answer})\n"
        problem = Problem(name, "", cases=tuple(Case(f"{x}\n", f"{y}\n") for x, y in asked))
    return Entry(name, STYLE, code, problem, None, Extraction.AUTO, is_wrong)


def _habit(chance: random.Random) -> str:
    values = {"T": f"{chance.uniform(0.02, 0.4):.2f}", "N": f"{chance.randint(1, 4)}", "S": f"{chance.randint(1, 99)}"}
    return re.sub(r"\b[TNS]\b", lambda found: values[found[0]], HABITS[chance.choice(sorted(HABITS))])
