"""The module a completion runs in: its name, its file, and what the standard library finds by them, for both judges."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.judges import InProcessJudge, judge_outside

from sandrl.events.results import Status
from sandrl.judge.judge import Judge
from sandrl.judge.verdict import Verdict
from sandrl.problems import Problem

JUDGES = (InProcessJudge(), Judge())
PROBLEM = Problem("inc", "Add one.", tests=("assert f(1) == 2",))


@pytest.fixture(params=JUDGES, ids=["in_process", "isolated"])
def judge(request: pytest.FixtureRequest) -> Judge:
    found: Judge = request.param
    return found


def judged(judge: Judge, code: str) -> Verdict:
    return judge_outside(judge, PROBLEM, code)


F = "def f(x):\n    return x + 1\n"


@pytest.mark.parametrize(
    "end",
    [
        "import unittest\n    unittest.main()",
        "import sys\n    sys.exit(print(f(1)))",
        "f(int(input()))",
        "import argparse\n    p = argparse.ArgumentParser()\n    p.add_argument('n')\n    p.parse_args()",
        "raise SystemExit('usage: …')",
        "while True: pass",
    ],
)
def test_what_only_a_program_does_is_not_run(judge: Judge, end: str) -> None:
    assert judged(judge, f"{F}if __name__ == '__main__':\n    {end}\n").is_pass


@pytest.mark.parametrize(
    "claim",
    [
        "__name__ == 'solution'",
        "sys.modules[__name__].f is f",
        "__import__('__main__').f is f",
        "__import__('solution').f is f",
        "f.__module__ == __name__",
        "pickle.loads(pickle.dumps(C())).__class__ is C",
        "typing.get_type_hints(C)['next'] == typing.Optional[C]",
        "inspect.getsource(C).startswith('class C:')",
        "inspect.getsource(f).startswith('def f(x):')",
        "inspect.getmodule(f).__name__ == __name__",
        "'assert x > 0' in open(__file__).read()",
        "pathlib.Path(__file__).is_absolute()",
        "pathlib.Path(__file__).parent == pathlib.Path.cwd()",
        "sys.path[0] == str(pathlib.Path(__file__).parent)",
        "sys.argv == ['solution.py']",
        "'assert x > 0' in trace()",
        "'solution.py\", line ' in trace()",
        "doctest.testmod().attempted == 1",
        "callable(exit) and callable(quit) and callable(help)",
        "sys.gettrace() is None",
    ],
)
def test_the_standard_library_finds_the_module_and_its_source(judge: Judge, claim: str) -> None:
    code = (
        "import doctest, inspect, pathlib, pickle, sys, traceback, typing\n"
        "class C:\n    next: 'typing.Optional[C]' = None\n"
        'def g(x):\n    """\n    >>> g(1)\n    2\n    """\n    assert x > 0\n    return x + 1\n'
        "def trace():\n    try:\n        g(0)\n    except AssertionError:\n        return traceback.format_exc()\n"
        f"def f(x):\n    return x + bool({claim})\n"
    )
    assert judged(judge, code).is_pass, claim


def test_a_module_written_beside_the_code_can_be_imported(judge: Judge) -> None:
    code = "import pathlib\npathlib.Path('beside.py').write_text('step = 1')\nimport beside\n"
    assert judged(judge, code + "def f(x):\n    return x + beside.step\n").is_pass


def test_a_byte_order_mark_is_no_syntax_error(judge: Judge) -> None:
    assert judged(judge, "\ufeff" + F).is_pass


def test_a_file_that_cannot_be_written_does_no_harm(judge: Judge, working_directory: Path) -> None:
    (working_directory / "solution.py").mkdir()
    assert judged(judge, F).is_pass


def test_a_link_in_place_of_the_file_is_not_followed(judge: Judge, working_directory: Path) -> None:
    (working_directory / "solution.py").symlink_to("other.py")
    assert judged(judge, F).is_pass
    assert not (working_directory / "other.py").exists()


def test_a_trace_function_of_the_code_s_own_stays(judge: Judge) -> None:
    code = "import sys\nsys.settrace(lambda *_: None)\ndef f(x):\n    return x + (sys.gettrace() is not None)\n"
    assert judged(judge, code).is_pass


def test_code_that_exits_at_its_top_level_fails(judge: Judge) -> None:
    verdict = judged(judge, F + "import sys\nsys.exit(0)\n")
    assert (verdict.status, verdict.detail) == (Status.FAILED, "it exited before its checks ran")


def test_a_failure_names_the_line_of_the_code(judge: Judge) -> None:
    assert judged(judge, "def f(x):\n\n    return 1 / 0\n").detail.endswith("division by zero (line 3)")
    assert judged(judge, "x = 1\nx = 1 / 0\n").detail == "ZeroDivisionError: division by zero (line 2)"


def test_a_warning_of_the_compiler_takes_no_name_from_the_code(judge: Judge) -> None:
    code = "import sys\ndef f(x):\n    assert x is 1 and '\\d'\n    assert 'solution.py' in f.__code__.co_filename\n"
    assert judged(judge, code + "    return x + 1\n").is_pass
