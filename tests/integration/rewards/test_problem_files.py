"""Files of a problem: there before the code runs, for every kind of check, fresh for each case, and for nobody else."""

from __future__ import annotations

from typing import Any

import pytest

from sandrl.events.results import Status
from sandrl.problems import EXIT_STATUS, Case, Problem
from sandrl.sandboxes import Job
from tests.support.judges import scored

FILES = {"data.txt": "7\n", "deep/er/bytes": b"\xff\x00"}
READ = "open('data.txt').read() == '7\\n' and open('deep/er/bytes', 'rb').read() == b'\\xff\\x00'"


@pytest.mark.parametrize(
    ("checks", "code"),
    [
        ({"tests": ["assert f() is True"]}, f"def f():\n    return {READ}"),
        ({"fn": "f", "calls": [([], True)]}, f"def f():\n    return {READ}"),
        ({"check": EXIT_STATUS}, f"assert {READ}"),
        ({"cases": [Case("", "True")]}, f"print({READ})"),
    ],
    ids=["tests", "calls", "exit_status", "cases"],
)
def test_the_files_are_there_before_the_code_runs(job: Job, checks: dict[str, Any], code: str) -> None:
    with_files = Problem("p", "", files=FILES, **checks)  # type: ignore[arg-type]
    [result] = scored(job, with_files, code)
    assert (result.reward, result.detail) == (1.0, "")
    [without] = scored(job, Problem("p", "", **checks), code)
    assert without.reward == 0.0


def test_each_case_has_files_and_a_directory_of_its_own(job: Job) -> None:
    problem = Problem("p", "", files=FILES, cases=(Case("1", "7 0"), Case("2", "7 0"), Case("3", "7 0")))  # type: ignore[arg-type]
    code = (
        "import os\n"
        "print(open('data.txt').read().strip(), os.path.exists('left'))\n"
        "open('left', 'w').write('x' * 1000)\n"
        "open('data.txt', 'w').write('8')\n"
        "os.mkdir('deep/more')\n"
        "os.symlink('/', 'deep/more/root')\n"
    ).replace("os.path.exists('left')", "int(os.path.exists('left'))")
    [result] = scored(job, problem, code)
    assert (result.reward, result.detail) == (1.0, "")


def test_a_program_may_read_and_write_files_in_place_of_its_streams(job: Job) -> None:
    cases = (Case("2\n", "4\n"), Case("5\n", "10\n"))
    problem = Problem("p", "", cases=cases, input_file="input.txt", output_file="output.txt")
    files = "n = int(open('input.txt').read())\nwith open('output.txt', 'w') as file:\n    print({}, file=file)\n"
    streams = "print(2 * int(input()))"
    other = files.format("2 * n") + "print('done')"
    wrong = [files.format("n"), files.format("n") + "print(2 * n)", "print(1)", "pass"]
    results = scored(job, problem, files.format("2 * n"), streams, other, *wrong)
    assert [result.reward for result in results] == [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "made", ["os.symlink('/etc/passwd', 'output.txt')", "os.mkfifo('output.txt')", "os.mkdir('output.txt')"]
)
def test_an_output_that_is_no_plain_file_is_none(job: Job, made: str) -> None:
    problem = Problem("p", "", cases=(Case("", "1"),), output_file="output.txt")
    [result] = scored(job, problem, f"import os\n{made}\nprint(1)")
    assert result.reward == 1.0


def test_a_checker_gets_the_file_that_a_program_has_written(job: Job) -> None:
    problem = Problem(
        "p",
        "",
        cases=(Case("5", "2 3"),),
        input_file="input.txt",
        output_file="output.txt",
        checker="def check(input, expected, output): return sum(map(int, output.split())) == int(input)",  # type: ignore[arg-type]
    )
    code = "print(open('input.txt').read(), 0, file=open('output.txt', 'w'))"
    results = scored(job, problem, code, code.replace(" 0", " 1"))
    assert [result.reward for result in results] == [1.0, 0.0]


def test_many_cases_with_large_files_leave_room(job: Job) -> None:
    cases = tuple(Case(str(number), "20971520") for number in range(20))
    problem = Problem("p", "", files={"large": b"x" * (20 << 20)}, cases=cases)  # type: ignore[arg-type]
    [result] = scored(job, problem, "print(len(open('large').read()))")
    assert (result.reward, result.detail) == (1.0, "")


def test_a_case_that_leaves_no_room_for_files_takes_none_from_the_next(job: Job) -> None:
    problem = Problem("p", "", files=FILES, cases=(Case("", "1"), Case("", "1")))  # type: ignore[arg-type]
    code = (
        "import os\n"
        "print(1, flush=True)\n"
        "number = 0\n"
        "while True:\n"
        "    number += 1\n"
        "    with open(f'/tmp/fill{number}', 'wb') as file:\n"
        "        file.write(b'x' * (16 << 20))\n"
    )
    [result] = scored(
        job, problem, f"try:\n{''.join('    ' + line + chr(10) for line in code.splitlines())}except OSError:\n    pass"
    )
    assert (result.status, result.reward, result.passed) == (Status.PASSED, 1.0, 2)
