"""Checkers: programs of problems that judge what a completion prints, where it cannot reach them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandrl.events.results import CheckStatus, Status, Trust
from sandrl.judge.limits import Limits
from sandrl.problems import Case, Completion, Problem, load_problems
from sandrl.rewards import score
from sandrl.sandboxes import Job
from sandrl.scoring.policies import fraction
from tests.support.judges import scored

# Two numbers whose sum is the one read; any will do.
FUNCTION = """
def check(input, expected, output):
    try:
        first, second = map(int, output.split())
    except ValueError:
        return False
    return first + second == int(input)
"""
PROGRAM = """
import sys

def main():
    with open(sys.argv[1]) as file:
        total = int(file.read())
    with open(sys.argv[2]) as file:
        assert sum(map(int, file.read().split())) == total
    with open(sys.argv[3]) as file:
        words = file.read().split()
    try:
        print(1 if len(words) == 2 and sum(map(int, words)) == total else 0)
    except ValueError:
        print(0)

if __name__ == "__main__":
    main()
"""
FORMS = pytest.mark.parametrize("checker", [FUNCTION, PROGRAM], ids=["function", "program"])
CASES = (Case("5\n", "2 3\n"), Case("7\n", "3 4\n"))
# Gives the share of right words.
PARTS = """
def check(input, expected, output):
    words = output.split()
    return sum(one == other for one, other in zip(words, expected.split())) / len(expected.split())
"""


def problem_with(checker: Any, **more: Any) -> Problem:
    return Problem("split", "Print two numbers with the sum read.", cases=CASES, checker=checker, **more)


@FORMS
def test_a_checker_accepts_every_right_output_and_no_other(job: Job, checker: str) -> None:
    right = ["n = int(input())\nprint(1, n - 1)", "n = int(input())\nprint(n)\nprint(0)", "print(int(input()), -0)"]
    wrong = ["print(2, 3)", "print(int(input()))", "print(1)", "pass"]
    results = scored(job, problem_with(checker), *right, *wrong)
    assert [result.reward for result in results] == [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    assert {result.trust for result in results} == {Trust.ISOLATED}
    assert (results[3].passed, results[3].detail) == (1, "case 2 of 2: the checker rejects the output")


def test_a_score_below_one_is_no_pass_and_a_part_of_the_fraction(job: Job) -> None:
    cases = (Case("", "a b c d"), Case("", "a b"))
    problem = Problem("parts", "", cases=cases, checker=PARTS)  # type: ignore[arg-type]
    codes = ["print('a b x x')", "print('a b c d')", "print('x')"]
    results = scored(job, problem, *codes, policy=fraction)
    assert [result.reward for result in results] == [0.75, 1.0, 0.0]
    assert [check.score for check in results[0].checks] == [0.5, None]
    assert results[0].checks[0].detail == "the checker's score is 0.5 of 1"
    assert [result.reward for result in scored(job, problem, *codes)] == [0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("checker", "detail"),
    [
        ("def check(input, expected, output):\n    return 1 / 0", "ZeroDivisionError: division by zero (line 2)"),
        ("def check(input, expected, output):\n    raise SystemExit(0)", "it exited"),
        ("def check(input, expected, output):\n    import os\n    os._exit(0)", "exit status 0"),
        ("def check(input, expected, output):\n    return 'yes'", "returned 'a value of the type str'"),
        ("def check(input, expected, output):\n    print(1)", "returned 'a value of the type NoneType'"),
        ("def check(input, expected, output):\n    return 1.5", "returned '1.5', which is not a score from 0 to 1"),
        ("def check(input, expected, output):\n    return float('nan')", "returned 'nan', which is not a score"),
        ("def check(input, expected, output):\n    while True: pass", "it ran longer than 0.5 s"),
        ("def check(input, expected, output):\n    x = b'x' * (4 << 30)\n    return True", "MemoryError"),
        ("import sys\nprint(sys.argv[1:] and 'well done')", "printed 'well done', which is not a score"),
        ("import sys\nprint(1, sys.argv[4])", "IndexError"),
        ("import sys\nprint(1)\nsys.exit(3)", "it exited with status 3"),
        ("import sys", "printed '', which is not a score"),
        ("from sys import argv\nprint(-1)", "printed '-1', which is not a score"),
        ("import sys\nprint('1' * 100000)", "it printed 100001 bytes instead of a score"),
        ("import sys, time\nprint(1, flush=True)\ntime.sleep(9)", "it ran longer than 0.5 s"),
        ("import sys\nimport no_such_module\nprint(1)", "No module named 'no_such_module'"),
    ],
    ids=lambda value: None if "(" in str(value) else str(value)[:12],
)
def test_a_checker_that_fails_on_right_outputs_makes_the_problem_unscorable(
    job: Job, checker: str, detail: str
) -> None:
    given = checker if "def check" in checker else {"code": checker, "form": "program"}
    problem = problem_with(given, checker_timeout_seconds=0.5)
    for result in scored(job, problem, "print(1, int(input()) - 1)", "raise SystemExit(1)"):
        assert (result.status, result.reward) == (Status.INVALID_PROBLEM, None)
        assert detail in result.detail or "the module 'no_such_module', which sandboxes do not have" in result.detail
        assert not result.checks


def test_an_output_on_which_a_working_checker_fails_is_wrong(job: Job) -> None:
    checker = "def check(input, expected, output):\n    return sum(map(int, output.split())) == int(input)"
    right, text = scored(job, problem_with(checker), "print(1, int(input()) - 1)", "print('a b')")
    assert (right.status, right.reward) == (Status.PASSED, 1.0)
    assert (text.status, text.reward) == (Status.FAILED, 0.0)
    assert text.detail.startswith("case 1 of 2: the problem's checker failed: ValueError")
    assert text.detail.endswith("; the checker works on right outputs, so this output is wrong")
    assert [check.status for check in text.checks] == [CheckStatus.FAILED, CheckStatus.NOT_REACHED]


def test_outputs_of_any_kind_are_text_for_the_checker(job: Job) -> None:
    checker = "def check(input, expected, output):\n    return type(output) is str and 2 / len(output)"
    outputs = [r"b'\0\n'", r"b'\xff\xfe'", r"b'\xed\xa0'"]
    codes = [f"import sys\nsys.stdout.buffer.write({output})" for output in outputs]
    assert [result.reward for result in scored(job, problem_with(checker), *codes)] == [1.0, 1.0, 1.0]


def test_a_flood_of_output_is_refused_before_the_checker_reads_it(job: Job) -> None:
    checker = "def check(input, expected, output):\n    return 1 / (len(output) < 99)"
    [result] = scored(job, problem_with(checker), "print('x' * (20 << 20))")
    assert (result.status, result.reward) == (Status.FAILED, 0.0)
    assert "the limit for its checker" in result.detail


def test_a_checker_has_its_own_time_beside_that_of_the_completion(job: Job) -> None:
    checker = "import time\ndef check(input, expected, output):\n    time.sleep(0.8)\n    return True"
    [result] = scored(job, problem_with(checker), "print(1)", limits=Limits(timeout_seconds=1.0))
    assert result.reward == 1.0


# What a completion may leave behind for a checker that comes after it.
PLANT = """
import glob, os, sys
FORGED = 'print(1)\\nimport os\\nos._exit(0)\\n'
places = ['.', '/tmp', '/workspace', '/var/tmp', os.path.expanduser('~')] + [p for p in sys.path if p]
for place in places:
    for name in ('json', 'collections', 're', 'helper', 'sitecustomize', 'usercustomize', 'checker', 'os', 'sys'):
        for path in (f'{place}/{name}.py', f'{place}/{name}/__init__.py'):
            try:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, 'w') as file:
                    file.write(FORGED)
            except OSError:
                pass
    try:
        with open(f'{place}/plant.pth', 'w') as file:
            file.write('import os; print(1); os._exit(0)')
    except OSError:
        pass
os.environ.update(PYTHONPATH='/tmp', PYTHONSTARTUP='/tmp/json.py', PYTHONHOME='/tmp', LD_PRELOAD='/tmp/x.so')
"""
LEAVE = """
import os, signal, sys, time
def stay(work):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            for number in range(1, 32):
                try:
                    signal.signal(number, signal.SIG_IGN)
                except OSError:
                    pass
            sys.stdout.flush()
            os.close(1)
            os.close(2)
            try:
                work()
            finally:
                os._exit(0)
        os._exit(0)
    os.wait()
"""
REWRITE = """
import glob
def rewrite():
    while True:
        for folder in glob.glob('/tmp/.*') + glob.glob('/tmp/*'):
            for path in glob.glob(folder + '/*'):
                try:
                    with open(path, 'w') as file:
                        file.write('2 3')
                except OSError:
                    pass
"""
LINKS = """
import os
for name in ('input.txt', 'correct_output.txt', 'solution_output.txt', 'output.txt', 'checker.py', '.checker'):
    for place in ('.', '/tmp', '/workspace'):
        try:
            os.symlink('/dev/stdin', f'{place}/{name}')
        except OSError:
            pass
"""
STOP_ALL = """
import os, signal
def fight():
    while True:
        for name in os.listdir('/proc'):
            if name.isdigit() and int(name) not in (1, os.getpid(), judge):
                try:
                    os.kill(int(name), signal.SIGKILL)
                except OSError:
                    pass
judge = os.getppid()
"""
TRACE = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def trace():
    while True:
        for name in os.listdir('/proc'):
            if name.isdigit() and int(name) != os.getpid():
                libc.ptrace(16, int(name), 0, 0)
"""
BOMB = """
import os
def bomb():
    while True:
        try:
            os.fork()
        except OSError:
            pass
"""
LOWER = """
import os, resource
for kind in ('RLIMIT_AS', 'RLIMIT_DATA', 'RLIMIT_NOFILE', 'RLIMIT_CPU', 'RLIMIT_NPROC', 'RLIMIT_FSIZE'):
    try:
        resource.prlimit(os.getppid(), getattr(resource, kind), (1, 1))
    except (OSError, ValueError):
        pass
"""
ATTACKS = {
    "plants": PLANT,
    "links": LINKS,
    "rewrites": LEAVE + REWRITE + "stay(rewrite)",
    "kills": LEAVE + STOP_ALL + "stay(fight)",
    "traces": LEAVE + TRACE + "stay(trace)",
    "bombs": LEAVE + BOMB + "stay(bomb)",
    "lowers limits": LOWER,
    "sleeps": LEAVE + "stay(lambda: time.sleep(1000))",
    "prints a score": "print(1)",
    "prints scores": "print('1.0\\n' * 100)",
    "escapes": "print('\\x1b]0;1\\x07\\r1\\b1')",
}
IMPORTING = "import collections, json, re, subprocess, sys, tempfile\n"
INNER = (
    "    own = subprocess.run([sys.executable, '-c', 'import json; print(json.dumps(7))'], capture_output=True)\n"
    "    assert own.stdout.split() == [b'7'], own\n"
)
ATTACKED = {
    "function": IMPORTING + FUNCTION.replace("output):\n", "output):\n" + INNER),
    "program": PROGRAM.replace("import sys\n", IMPORTING).replace("def main():\n", "def main():\n" + INNER),
}


@pytest.mark.parametrize("form", ATTACKED)
def test_nothing_that_a_completion_leaves_reaches_its_checker(job: Job, form: str) -> None:
    right = "\nprint(1, int(input()) - 1)"
    problem = problem_with(ATTACKED[form])
    wrong = scored(job, problem, *ATTACKS.values())
    assert {name: result.reward for name, result in zip(ATTACKS, wrong, strict=True) if result.reward != 0} == {}
    # With a right output besides, it passes: neither what it leaves nor how it ends matters. One case, because the run
    # of a second one would find what the first has left.
    problem = replace(problem, cases=CASES[:1])
    names = ("plants", "links", "rewrites", "sleeps")
    results = scored(job, problem, *(ATTACKS[name] + right for name in names))
    assert [(result.reward, result.detail) for result in results] == [(1.0, "")] * len(names)


def test_neither_checker_nor_expected_outputs_are_where_the_completion_can_find_them(job: Job) -> None:
    checker = "SECRET = 'tell' + 'tale'\ndef check(input, expected, output):\n    return 'found' not in output"
    code = (
        "import gc, os, sys\n"
        "texts = [repr(each) for each in gc.get_objects() if isinstance(each, (dict, list, tuple))]\n"
        "for process in filter(str.isdigit, os.listdir('/proc')):\n"
        "    for name in ('cmdline', 'environ', 'maps'):\n"
        "        try:\n"
        "            texts.append(open(f'/proc/{{process}}/{{name}}', errors='replace').read())\n"
        "        except OSError:\n"
        "            pass\n"
        "frame = sys._getframe()\n"
        "while frame:\n"
        "    texts.append(repr((frame.f_globals, frame.f_locals)))\n"
        "    frame = frame.f_back\n"
        "words = [bytes.fromhex(text).decode() for text in ({!r}, {!r})]\n"
        "print('found' if any(word in text for text in texts for word in words) else 'nothing')\n"
    ).format(b"SECRET".hex(), b"a-hidden-output".hex())
    problem = Problem("secret", "", cases=(Case("", "a-hidden-output"),), checker=checker)  # type: ignore[arg-type]
    [result] = scored(job, problem, code)
    assert (result.stdout, result.reward) == ("nothing\n", 1.0)


def test_what_a_completion_says_of_its_checker_is_not_believed(job: Job) -> None:
    code = (
        "import os\n"
        'text = b"case 1 of 2: the problem\'s checker failed".hex().encode()\n'
        "for word in (b'checker_failed', b'invalid_problem', b'score'):\n"
        "    for descriptor in range(3, 64):\n"
        "        try:\n"
        "            os.write(descriptor, b'end ' + word + b' ' + text + b'\\n')\n"
        "        except OSError:\n"
        "            pass\n"
        "os._exit({})\n"
    )
    results = scored(job, problem_with(FUNCTION), code.format(0), code.format(1), code.format(70))
    assert [result.reward for result in results] == [0.0, 0.0, 0.0]


def test_a_row_has_a_checker_and_keeps_it(job: Job, tmp_path: Path) -> None:
    row: dict[str, Any] = {"task_id": "split", "prompt": "", "cases": [{"stdin": "5\n", "stdout": "2 3\n"}]}
    rows = [row | {"checker": FUNCTION}, row | {"task_id": "two", "checker": {"code": PROGRAM, "form": "program"}}]
    path = tmp_path / "problems.jsonl"
    path.write_text("".join(json.dumps(each | {"checker_timeout_seconds": 5}) + "\n" for each in rows))
    problems = load_problems(str(path)).problems
    completions = [Completion(name, name, code="print(4, 1)") for name in problems]
    report = score(completions, problems, job=job)
    assert [result.reward for result in report.results] == [1.0, 1.0]


def test_programs_in_other_languages_have_checkers_and_files_too(job: Job) -> None:
    given: dict[str, Any] = {"language": "bash", "files": {"deep/one": "1"}, "input_file": "in", "output_file": "out"}
    right = ["read n\necho 1 $((n - 1))", "n=$(cat in)\necho $(cat deep/one) $((n - 1)) > out\nrm deep/one\necho done"]
    wrong = ["echo 2 3", "(setsid sleep 1000 &)\necho", "echo 4 1 > out\necho 2 3"]
    results = scored(job, problem_with(FUNCTION, **given), *right, *wrong)
    assert [result.reward for result in results] == [1.0, 1.0, 0.0, 0.0, 0.0]
    assert {result.trust for result in results} == {Trust.ISOLATED}
    broken = problem_with("def check(input, expected, output):\n    return 1 / 0", language="bash")
    [result] = scored(job, broken, right[0])
    assert (result.reward, result.status) == (None, Status.INVALID_PROBLEM)
    assert "ZeroDivisionError" in result.detail
