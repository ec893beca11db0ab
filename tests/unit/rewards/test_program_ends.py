"""Programs end as their interpreter would end them, and their exit status is what counts."""

from __future__ import annotations

import os
import shutil
import sys

import pytest
from tests.support.judges import InProcessJudge, judge_outside

from sandrl.events.results import Status
from sandrl.judge.verdict import Verdict
from sandrl.problems import Case, Problem

JUDGE = InProcessJudge()


def judged(
    code: str,
    stdout: str = "a\nb\n",
    stdin: str = "1 2\n",
    problem: Problem | None = None,
    python: str = sys.executable,
) -> Verdict:
    problem = problem or Problem("p", "", cases=(Case(stdin, stdout),))
    return judge_outside(JUDGE, problem, code, python=python)


@pytest.mark.parametrize(
    "code",
    [
        "import os\nprint('a\\nb', flush=True)\nos._exit(0)",
        "import os, sys\nprint('a', flush=True)\nos.execv(sys.executable, ['python', '-c', 'print(\"b\")'])",
        "import os, sys\nif len(sys.argv) < 2:\n    print('a', flush=True)\n"
        "    os.execv(sys.executable, ['python', *sys.argv, 'x'])\nprint('b')",
        "import os\nprint('a', flush=True)\nos.execvp('sh', ['sh', '-c', 'echo b'])",
        "import io\nout = io.BufferedWriter(io.FileIO(1, 'w', closefd=False))\nout.write(b'a\\nb')",
        "import sys\nsys.stdout = open(1, 'w', closefd=False)\nprint('a\\nb')",
        "class C:\n    def __del__(self): print('b')\nc = C()\nprint('a')",
        "class C:\n    __slots__ = ()\n    def __del__(self): print('b')\nc = C()\nprint('a')",
        "def g():\n    try: yield\n    finally: print('b')\nx = g()\nnext(x)\nprint('a')",
        "import atexit\natexit.register(print, 'b')\nprint('a')",
        "import weakref\nclass C: pass\nc = C()\nweakref.finalize(c, print, 'b')\nprint('a')",
        "import weakref\nclass C: pass\nc = C()\nr = weakref.ref(c, lambda _: print('b'))\nprint('a')\ndel c",
        "import threading, time\nthreading.Timer(0.05, print, ['b']).start()\nprint('a')",
        "import ctypes\nctypes.CDLL(None).printf(b'a\\nb\\n')",
        "import os\nif os.fork(): os.wait(); print('b')\nelse: print('a')",
        "import gc\ngc.unfreeze()\nclass C:\n    def __del__(self): print('b')\nc = C()\nprint('a')",
        "import sys\nprint('a\\nb')\nsys.stdout.close()",
        "import sys\nprint('a\\nb')\nclass W:\n    flush = write = lambda *_: None\nsys.stdout = W()\nprint('unseen')",
        "import sys\nprint('a\\nb')\nsys.stdout = sys.__stdout__ = None",
        "import sys\nsys.stdout.write('a\\nb')\nsys.exit()",
        "print('a\\nb')\nexit(256)",
    ],
)
def test_output_that_is_written_at_the_end_counts(code: str) -> None:
    verdict = judged(code)
    assert (verdict.status, verdict.detail) == (Status.PASSED, ""), verdict.stdout


@pytest.mark.parametrize(
    ("code", "detail"),
    [
        ("import os\nprint('a\\nb', flush=True)\nos._exit(3)", "it exited with status 3"),
        ("import sys\nprint('a\\nb')\nsys.exit('no')", "it exited with status 1"),
        ("import os\nprint('a\\nb')\nos._exit(0)", "the output differs from the expected output"),
        ("import os\nprint('a\\nb')\nos.close(1)", "it exited with status 120: its output could not be written"),
        ("print('a\\nb')\nraise KeyError(1)", "KeyError: 1 (line 2)"),
        ("print('a\\nb')\nx = (", "SyntaxError: '(' was never closed (line 2)"),
        ("import os\nprint('a\\nb', flush=True)\nos.execvp('false', ['false'])", "it exited with status 1"),
    ],
)
def test_an_exit_status_other_than_0_fails_whatever_was_printed(code: str, detail: str) -> None:
    verdict = judged(code)
    assert (verdict.passed, verdict.detail) == (0, f"case 1 of 1: {detail}")


def test_an_exception_is_shown_as_python_shows_it() -> None:
    shown = judged("def f():\n    raise ValueError('no')\nf()").stderr
    assert shown.startswith("Traceback (most recent call last):\n  File ")
    assert "judge" not in shown
    assert "    raise ValueError('no')\n" in shown
    assert shown.endswith("ValueError: no\n")


def test_a_hook_for_exceptions_may_end_the_program() -> None:
    code = "import os, sys\ndef hook(*_):\n    print('b', flush=True)\n    os._exit(0)\n"
    assert judged(code + "sys.excepthook = hook\nprint('a')\nraise ValueError").is_pass
    verdict = judged("import sys\nsys.excepthook = lambda *_: print('b')\nprint('a')\nraise ValueError")
    assert verdict.detail == "case 1 of 1: ValueError (line 4)"


@pytest.mark.parametrize(
    "code",
    [
        "print(sum(map(int, open(0).read().split())))",
        "print(sum(map(int, open('/dev/stdin').read().split())))",
        "import os, io\nprint(sum(map(int, io.BytesIO(os.read(0, os.fstat(0).st_size)).read().split())))",
        "import mmap\nprint(sum(map(int, mmap.mmap(0, 0, access=mmap.ACCESS_READ).readline().split())))",
        "import fileinput\nprint(sum(int(n) for line in fileinput.input() for n in line.split()))",
        "import subprocess\nsubprocess.run(['sh', '-c', 'read a b; echo $((a + b))'], check=True)",
    ],
)
def test_standard_input_is_a_file_of_its_own(code: str) -> None:
    assert judged(code, "3").is_pass


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes another user")
def test_the_user_that_root_becomes_may_open_the_standard_streams_by_their_names() -> None:
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if python is None:
        pytest.skip("no Python that every user may run")
    code = (
        "import os\nassert os.getuid()\nopen('/dev/stdout', 'a').write(open('/dev/stdin').read())\n"
        "open('/dev/stderr', 'a').write('b')\n"
    )
    verdict = judged(code, "1 2\n", python=python)
    assert verdict.is_pass, verdict
    assert verdict.stderr == "b"


def test_a_program_that_exits_early_earns_no_more_than_it_prints() -> None:
    problem = Problem("p", "", cases=(Case("1", "1"), Case("2", "2")))
    verdict = judged("import os\nprint(1, flush=True)\nos._exit(0)", problem=problem)
    assert (verdict.status, verdict.passed) == (Status.FAILED, 1)


@pytest.mark.parametrize("status", ["passed", "timeout", "not_isolated", "infrastructure", "nonsense"])
def test_a_program_cannot_say_how_it_ended(status: str) -> None:
    code = "import os\nfor fd in range(3, 30):\n    try: os.write(fd, b'end %s 00\\n')\n    except OSError: pass\n"
    verdict = judged((code % status) + "os._exit(5)", problem=Problem("p", "", check="exit_status"))
    assert (verdict.status, verdict.detail) == (Status.FAILED, "it exited with status 5")
