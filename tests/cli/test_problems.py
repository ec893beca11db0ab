"""`sandrl problems` as a user runs it, piped."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

from sandrl.problems import load_problems
from sandrl.runs import RunReader
from tests.cli.conftest import SANDRL, Run
from tests.support.format_rows import ROWS

SQUARE: dict[str, Any] = {
    "task_id": "square",
    "prompt": "Square a number.",
    "tests": ["assert square(2) == 4", "assert square(-3) == 9"],
    "entry_point": "square",
    "reference": "def square(n):\n    return n * n\n",
}
ECHO: dict[str, Any] = {
    "task_id": "echo",
    "prompt": "Print what you read.",
    "cases": [{"stdin": "a\n", "stdout": "a\n"}, {"stdin": "b\n", "stdout": "b\n"}],
    "reference": "print(input())",
}
# Its author forgot that a negative number has a cube, too.
CUBE = {**SQUARE, "task_id": "cube", "entry_point": "cube", "reference": "def cube(n):\n    return abs(n) ** 3\n"}
CUBE["tests"] = ["assert cube(2) == 8", "assert cube(-2) == -8"]


def written(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_the_bundled_set_is_listed(sandrl: Run) -> None:
    done = sandrl("problems", "ls")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["id", "checks", "number", "entry", "point"]
    assert ["museum-ticket", "tests", "4", "museum_ticket"] in lines
    assert ["robot-walk", "cases", "4", "-"] in lines
    assert ["slow-sum", "tests", "1", "slow_sum"] in lines
    assert len(lines) > 45


def test_a_list_is_one_json_document(sandrl: Run, tmp_path: Path) -> None:
    echo = {**ECHO, "reference": None, "timeout_seconds": 2, "tolerance": {"absolute": 0.5}}
    path = written(tmp_path / "p.jsonl", SQUARE, echo)
    document = json.loads(sandrl("problems", "ls", path, "--json").stdout)
    assert document == {
        "source": str(path),
        "n": 2,
        "formats": [
            {"format": "sandrl's own", "recognised_by": ["prompt", "tests"], "kind": "tests", "rows": 1},
            {"format": "sandrl's own", "recognised_by": ["prompt", "cases"], "kind": "cases", "rows": 1},
        ],
        "problems": [
            {
                "task_id": "square", "kind": "tests", "checks": 2, "entry_point": "square", "has_reference": True,
                "timeout_seconds": None, "check_timeout_seconds": None, "tolerance": None,
            },
            {
                "task_id": "echo", "kind": "cases", "checks": 2, "entry_point": None, "has_reference": False,
                "timeout_seconds": 2.0, "check_timeout_seconds": None,
                "tolerance": {"absolute": 0.5, "relative": 0.0},
            },
        ],
    }  # fmt: skip


def test_fields_of_other_names_are_mapped_in_every_command(sandrl: Run, tmp_path: Path) -> None:
    row = {"uid": "a", "question": "Square a number.", "info": json.dumps({"asserts": SQUARE["tests"]})}
    path = written(tmp_path / "p.jsonl", {**row, "solution": SQUARE["reference"]})
    words = ("--map", "task_id=uid,prompt=question,tests=info.asserts,reference=solution")
    assert sandrl("problems", "ls", path, *words).stdout.splitlines()[-1].split()[:2] == ["a", "tests"]
    assert "Square a number." in sandrl("problems", "show", "a", "--problems", path, *words).stdout
    validated = sandrl("problems", "validate", "--problems", path, *words)
    assert "References that pass: 1/1" in validated.stdout, validated.stderr
    answers = written(tmp_path / "c.jsonl", {"task_id": "a", "code": "def square(n):\n    return n * n"})
    report = json.loads(sandrl("reward", answers, "--problems", path, *words, "--json").stdout)
    assert [result["reward"] for result in report["results"]] == [1.0]
    for command in (("problems", "ls", path), ("problems", "validate", "--problems", path)):
        done = sandrl(*command, "--map", "promt=question")
        assert (done.returncode, "a problem has no field 'promt'" in done.stderr) == (2, True)
        assert "--map" in done.stderr


def test_a_list_says_which_format_was_recognised_and_by_what(sandrl: Run, tmp_path: Path) -> None:
    rows = [{"question": "?", "input_output": json.dumps({"inputs": ["1"], "outputs": [n]})} for n in "12"]
    done = sandrl("problems", "ls", written(tmp_path / "apps.jsonl", *rows))
    assert done.stderr == "Format: APPS/TACO, by question, input_output: 2 rows with cases\n"
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["id", "apps/1", "apps/2"]


def test_problems_of_every_format_are_written_as_rows_that_mean_the_same(sandrl: Run, tmp_path: Path) -> None:
    path, out = tmp_path / "p.jsonl", tmp_path / "own.jsonl"
    path.write_text("".join(json.dumps({**row, "task_id": str(n)}) + "\n" for n, (_, row) in enumerate(ROWS)))
    done = sandrl("problems", "convert", path, out)
    assert (done.returncode, done.stderr) == (0, f"{len(ROWS)} problems written to {out}\n")
    assert load_problems(out).problems == load_problems(path).problems
    assert {name.name for name in load_problems(out).formats} == {"sandrl's own"}
    again = sandrl("problems", "convert", path, out)
    assert (again.returncode, "cannot be written: File exists" in again.stderr) == (2, True)


def test_checks_are_shown_on_request_only(sandrl: Run, tmp_path: Path) -> None:
    path = written(tmp_path / "p.jsonl", SQUARE, ECHO)
    words = ("problems", "show", "square", "--problems", path)
    assert "-3" not in sandrl(*words).stdout
    assert "# Check 2\n\nassert square(-3) == 9\n" in sandrl(*words, "--checks").stdout
    assert json.loads(sandrl(*words, "--checks", "--json").stdout)["tests"] == SQUARE["tests"]
    assert "# Check 1: output\n" in sandrl("problems", "show", "echo", "--problems", path, "--checks").stdout
    path = written(tmp_path / "c.jsonl", {"task_id": "add", "prompt": "?", "fn": "A.add", "cases": [[[1, 2], 3]]})
    method = ("problems", "show", "add", "--problems", path, "--checks")
    assert "# Check 1\n\nassert A().add(1, 2) == 3\n" in sandrl(*method).stdout
    document = json.loads(sandrl(*method, "--json").stdout)
    assert (document["fn"], document["cases"]) == ("A.add", [[[1, 2], 3]])


def test_a_problem_is_shown_as_a_model_sees_it(sandrl: Run, tmp_path: Path) -> None:
    path = written(tmp_path / "p.jsonl", SQUARE)
    done = sandrl("problems", "show", "square", "--problems", path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "# square: 2 tests (1 shown, 1 hidden), entry point square\n\n"
        "Square a number.\n\nYour code should pass this test:\n\n```python\nassert square(2) == 4\n```\n"
    )


def test_more_tests_and_the_reference_are_shown_when_asked_for(sandrl: Run, tmp_path: Path) -> None:
    path = written(tmp_path / "p.jsonl", SQUARE)
    words = ("problems", "show", "square", "--problems", path, "--show-tests", "2", "--reference")
    done = sandrl(*words)
    assert "assert square(2) == 4\nassert square(-3) == 9\n" in done.stdout
    assert done.stdout.endswith("# Reference\n\ndef square(n):\n    return n * n\n\n")
    document = json.loads(sandrl(*words, "--json").stdout)
    assert (document["shown"], document["hidden"], document["reference"]) == (2, 0, SQUARE["reference"])
    assert "assert square(-3) == 9" in document["prompt"]
    assert "reference" not in json.loads(sandrl(*words[:5], "--json").stdout)


def test_what_a_problem_says_to_the_terminal_is_made_visible_and_blanks_are_kept(sandrl: Run, tmp_path: Path) -> None:
    hostile = {**SQUARE, "prompt": "Two  blanks\tand \x1b[2J\r\nan indent:\n    x\u202e"}
    done = sandrl("problems", "show", "square", "--problems", written(tmp_path / "p.jsonl", hostile))
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout
    assert "Two  blanks and \\x1b[2J\nan indent:\n    x\\u202e\n" in done.stdout


def test_an_unknown_problem_is_told_which_may_be_meant(sandrl: Run) -> None:
    done = sandrl("problems", "show", "slow-sun")
    assert done.returncode == 2
    assert done.stderr == (
        "sandrl: error: there is no problem 'slow-sun'; did you mean 'slow-sum'?\n"
        "  hint: sandrl problems ls SET|FILE lists the names\n"
    )


def test_every_bundled_reference_passes_in_a_real_sandbox(sandrl: Run) -> None:
    done = sandrl("problems", "validate", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    summary = document["summary"]
    assert summary["n"] == summary["passed"] == len(document["results"]) > 45
    assert (summary["failed"], summary["unscorable"], summary["without_reference"]) == ([], 0, 0)
    assert summary["statuses"] == {"passed": summary["n"]}
    assert sum(summary["trust"].values()) == summary["n"]


def test_a_reference_that_fails_is_named_and_ends_the_command_with_1(sandrl: Run, tmp_path: Path) -> None:
    path = written(tmp_path / "p.jsonl", SQUARE, CUBE, ECHO, {**ECHO, "task_id": "no-reference", "reference": None})
    done = sandrl("problems", "validate", "--problems", path, "-c", "2")
    assert done.returncode == 1
    failed, rate, statuses, trust, *_ = done.stdout.splitlines()
    assert failed.startswith("  cube: reward=0.0 [FAIL] check 2 of 2: ")
    assert rate.startswith("References that pass: 2/3 (66.7%), in ")
    assert statuses == "Statuses of the references: 2 passed, 1 failed"
    assert trust.startswith("Trust of the verdicts: ")
    assert "warning: 1 problems have no reference solution and are left out" in done.stderr
    assert done.stderr.endswith("sandrl: error: 1 of 3 reference solutions fail their own checks\n")


def test_a_problem_whose_checks_cannot_be_split_from_the_code_is_named(sandrl: Run, tmp_path: Path) -> None:
    logging = {**SQUARE, "task_id": "logging", "prompt": "Return the level of the root logger."}
    logging["reference"] = "import logging\ndef level():\n    return logging.getLogger().level\n"
    # The check sets the level in its own process.
    logging["tests"] = ["import logging\nlogging.getLogger().setLevel(10)\nassert level() == 10"]
    path = written(tmp_path / "p.jsonl", logging)
    words = ("problems", "validate", "--problems", path)
    summary = json.loads(sandrl(*words, "--json").stdout)["summary"]
    assert (summary["passed"], summary["in_process"]) == (1, ["logging"])
    assert "(their checks cannot run apart from the code): logging\n" in sandrl(*words).stdout
    refused = sandrl(*words, "--require-isolated")
    assert (refused.returncode, "Statuses of the references: 1 not_isolated\n" in refused.stdout) == (1, True)
    assert refused.stderr.endswith("sandrl: error: the checks of 1 of 1 problems cannot be isolated\n")


def test_checks_that_accept_an_answer_without_any_work_are_named_then_and_wherever_they_reward(
    sandrl: Run, tmp_path: Path
) -> None:
    weak = {**SQUARE, "task_id": "weak", "tests": ["assert square(2) is None or square(2) == 4"]}
    path = written(tmp_path / "p.jsonl", SQUARE, weak, ECHO)
    done = sandrl("problems", "validate", "--problems", path)
    assert done.returncode == 0
    assert done.stdout.endswith(
        "Checks that accept an answer that does no work: weak, echo\n"
        "  weak: an answer that gives None\n  echo: an answer that gives its input\n"
    )
    summary = json.loads(sandrl("problems", "validate", "--problems", path, "--json").stdout)["summary"]
    assert summary["accepted_stubs"] == {"weak": ["None"], "echo": ["its input"]}
    answers = written(tmp_path / "c.jsonl", {"task_id": "weak", "code": "def square(n): return n * n"})
    scored = sandrl("reward", answers, "--problems", path)
    assert (
        "warning: the checks of weak accepted an answer that does no work: an answer that gives None\n" in scored.stderr
    )
    # Other checks are other checks.
    path = written(tmp_path / "p.jsonl", {**weak, "tests": SQUARE["tests"]})
    assert "does no work" not in sandrl("reward", answers, "--problems", path).stderr


def test_test_functions_are_checks_with_names(sandrl: Run, tmp_path: Path) -> None:
    test = (
        "import unittest\nfrom pytest import approx\n\ndef test_float():\n    assert square(0.1) == approx(0.01)\n\n"
        "class TestSquare(unittest.TestCase):\n    def setUp(self):\n        self.two = 2\n\n"
        "    def test_square(self):\n        self.assertEqual(square(self.two), 4)\n\n"
        "    def test_error(self):\n        with self.assertRaises(TypeError):\n            square(None)\n"
    )
    path = written(tmp_path / "p.jsonl", {**SQUARE, "tests": [test]})
    answers = written(
        tmp_path / "c.jsonl",
        {"task_id": "square", "id": "right", "code": "def square(n):\n    return n * n"},
        {"task_id": "square", "id": "wrong", "code": "def square(n):\n    return n + n"},
        {"task_id": "square", "id": "stub", "code": "def square(n):\n    return None"},
    )
    document = json.loads(sandrl("reward", answers, "--problems", path, "--json").stdout)
    results = {result["id"]: result for result in document["results"]}
    assert {name: result["reward"] for name, result in results.items()} == {"right": 1.0, "wrong": 0.0, "stub": 0.0}
    assert {result["trust"] for result in results.values()} == {"isolated"}
    assert [check["name"] for check in results["right"]["checks"]] == [
        "test_float",
        "TestSquare.test_square",
        "TestSquare.test_error",
    ]
    assert results["wrong"]["detail"].startswith("check 1 of 3 (test_float): AssertionError")


def test_an_interrupted_validation_tells_how_far_it_came_and_is_resumed(sandrl: Run, tmp_path: Path) -> None:
    reference = "import time; time.sleep(2); print(input())"
    slow = [
        {**ECHO, "task_id": f"slow-{n}", "reference": reference, "cases": [{"stdin": f"{n}\n", "stdout": f"{n}\n"}]}
        for n in range(9)
    ]
    path = written(tmp_path / "p.jsonl", *slow)
    words = (*SANDRL, "problems", "validate", "--problems", str(path), "-c", "1")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert any(line.startswith("Job: ") for line in process.stderr)
        process.send_signal(signal.SIGINT)
        _, remarks = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopping: finishing " in remarks
    told = re.search(r"sandrl: error: interrupted: (\d+) of (\d+) runs were judged and saved in (\S+)\n", remarks)
    assert told is not None, remarks
    judged, run = int(told[1]), Path(told[3])
    assert judged < 9
    assert f"hint: sandrl problems validate --resume {run.name} judges the others" in remarks
    done = sandrl("problems", "validate", "--resume", str(run))
    assert f"Resumed: {judged} result" in done.stderr
    assert "References that pass: 9/9" in done.stdout, done.stderr
    assert (
        len(RunReader(run).trajectories().rows)
        == len({row.id for row in RunReader(run).trajectories().rows})
        == int(told[2])
    )
    assert {card.task_id for card in RunReader(run).cards().rows} == {f"slow-{n}" for n in range(9)}


def test_a_limit_validates_the_first_problems_only(sandrl: Run, tmp_path: Path) -> None:
    path = written(tmp_path / "p.jsonl", SQUARE, CUBE)
    done = sandrl("problems", "validate", "--problems", path, "--num-problems", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("References that pass: 1/1 (100.0%)")


def test_two_sets_cannot_be_validated_at_once(sandrl: Run) -> None:
    done = sandrl("problems", "validate", "tiny", "--problems", "bundled")
    assert done.returncode == 2
    assert "two sets of problems are named, 'tiny' and 'bundled', and one is validated" in done.stderr


def test_a_set_without_references_cannot_be_validated(sandrl: Run, tmp_path: Path) -> None:
    path = written(tmp_path / "p.jsonl", {**SQUARE, "reference": None})
    done = sandrl("problems", "validate", "--problems", path)
    assert done.returncode == 2
    assert done.stderr == f"sandrl: error: {path}: field 'reference': no problem has a reference solution\n"


def test_a_checker_must_accept_the_expected_outputs_and_no_stub(sandrl: Run, tmp_path: Path) -> None:
    cases = [{"stdin": "5\n", "stdout": "2 3\n"}, {"stdin": "7\n", "stdout": "3 4\n"}]
    row = {"prompt": "Split.", "cases": cases}
    right = (
        "def check(input, expected, output):\n"
        "    words = output.split()\n"
        "    return len(words) == 2 and all(map(str.isdigit, words)) and sum(map(int, words)) == int(input)\n"
    )
    path = written(
        tmp_path / "p.jsonl",
        {**row, "task_id": "right", "checker": right},
        {**row, "task_id": "broken", "checker": "def check(input, expected, output):\n    return 1 / 0"},
        {**row, "task_id": "gullible", "checker": "def check(input, expected, output):\n    return True"},
        {**row, "task_id": "compares"},
    )
    done = sandrl("problems", "validate", "--problems", path)
    assert done.returncode == 1, done.stderr
    assert "1 problems have no reference solution and are left out" in done.stderr
    assert "  broken: " in done.stdout
    assert "the problem's checker failed: ZeroDivisionError: division by zero (line 2)" in done.stdout
    assert "References that pass: 2/2 (100.0%)" in done.stdout
    assert "Checks that accept an answer that does no work: gullible\n" in done.stdout


def test_a_checker_and_files_are_shown_and_converted(sandrl: Run, tmp_path: Path) -> None:
    checker = "def check(input, expected, output):\n    return True"
    row: dict[str, Any] = {"task_id": "a", "prompt": "?", "cases": [{"stdin": "1", "stdout": "2"}], "checker": checker}
    row |= {
        "checker_timeout_seconds": 3.0,
        "files": {"data.txt": "7", "b": {"base64": "/w=="}},
        "memory_bytes": 1 << 28,
    }
    path, out = written(tmp_path / "p.jsonl", row), tmp_path / "own.jsonl"
    shown = sandrl("problems", "show", "a", "--problems", path, "--checks").stdout
    assert "# Checker\n\ndef check(input, expected, output):" in shown
    assert "# File data.txt: 1 bytes" in shown
    document = json.loads(sandrl("problems", "show", "a", "--problems", path, "--checks", "--json").stdout)
    assert (document["checker"], document["files"], document["memory_bytes"]) == (checker, row["files"], 1 << 28)
    assert sandrl("problems", "convert", path, str(out)).returncode == 0
    assert json.loads(out.read_text()) == row


def test_a_wrong_row_hides_no_other(sandrl: Run, tmp_path: Path) -> None:
    path = written(tmp_path / "p.jsonl", SQUARE, {"task_id": "wrong", "prompt": "none"})
    assert "Square a number." in sandrl("problems", "show", "square", "--problems", path).stdout
    assert "has no check" in sandrl("problems", "show", "wrong", "--problems", path).stderr
    assert sandrl("problems", "ls", path).returncode == 2
    done = sandrl("problems", "ls", path, "--skip-bad-rows")
    assert done.returncode == 0
    assert "square" in done.stdout
    assert "1 rows of problems skipped" in done.stderr


def test_duplicates_are_listed_within_a_set_and_between_two(sandrl: Run, tmp_path: Path) -> None:
    prompt = "Return the largest sum of neighbours in a list of whole numbers, or zero for an empty list of numbers."
    mine = written(
        tmp_path / "mine.jsonl", SQUARE, {**ECHO, "prompt": prompt}, {**CUBE, "prompt": f"{prompt} Think first."}
    )
    theirs = written(tmp_path / "theirs.jsonl", {**ECHO, "task_id": "sum\x1b[31m", "prompt": prompt.upper()})
    done = sandrl("problems", "duplicates", mine)
    assert done.returncode == 0, done.stderr
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["problem", "like", "in", "common"],
        ["cube", "echo", "90%"],
    ]
    assert done.stderr == "1 of 3 problems are near duplicates of earlier ones\n"
    done = sandrl("problems", "duplicates", mine, theirs)
    assert "\x1b" not in done.stdout
    assert done.stderr.splitlines() == [
        f"1 of 1 problems are contaminated by problems of {mine}",
        "1 of 1 have the same checks or the same prompt as one of them",
    ]
    document = json.loads(sandrl("problems", "duplicates", mine, theirs, "--json").stdout)
    assert (document["n"], document["duplicates"]) == (1, 1)
    assert {(each["other"], each["share"]) for each in document["matches"]} == {("echo", 1.0), ("cube", 1.0)}
