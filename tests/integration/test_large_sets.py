"""What a large set costs in memory: as much as its names and its largest rows, whatever its checks amount to."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support import large_completions, large_set

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

ROWS, CASES, CHARACTERS = 10_000, 20, 4000
# An interpreter with what it takes to read parquet has some 120 MB, and 64 MB of problems may be in memory.
MOST_BYTES = 256 << 20
HAS_PARQUET = pytest.mark.skipif(find_spec("datasets") is None, reason="`datasets` is not installed")


@pytest.fixture(scope="module", params=["jsonl", pytest.param("parquet", marks=HAS_PARQUET)])
def large(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / f"large.{request.param}"
    # By another process: what this one has taken counts as taken by those that it starts.
    numbers = map(str, (ROWS, CASES, CHARACTERS))
    subprocess.run((sys.executable, large_set.__file__, str(path), *numbers), check=True)
    return path


# A process that is forked has taken, as the kernel counts, what its parent has: a small one starts what is measured.
MEASURE = """
import os, subprocess, sys
with open(sys.argv[1], "wb") as file:
    process = subprocess.Popen(sys.argv[2:], stdout=file)
    _, status, usage = os.wait4(process.pid, 0)
process.returncode = os.waitstatus_to_exitcode(status)
assert process.returncode == 0
print(usage.ru_maxrss)
"""


def peak_bytes(*words: str, folder: Path) -> tuple[int, str]:
    """The memory that a command takes at most, and what it prints."""
    out = folder / "out"
    command = (sys.executable, "-c", MEASURE, str(out), sys.executable, *words)
    measured = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return int(measured.stdout) * 1024, out.read_text("utf-8")


SPLITS = """
import sys
from sandrl.problems.splits import load_splits
splits = load_splits(sys.argv[1], num_problems=None, eval_problems=100, seed=0)
print(len(splits.train), len(splits.evaluation), sum(len(each.cases) for each in splits.all.values()))
print(sum(1 for _ in splits.content()))
"""


def test_the_memory_of_a_command_does_not_grow_with_the_checks_of_a_set(large: Path, tmp_path: Path) -> None:
    assert large.stat().st_size > 2.9 * MOST_BYTES
    peak, listed = peak_bytes("-m", "sandrl", "problems", "ls", str(large), folder=tmp_path)
    assert (peak < MOST_BYTES, listed.count("\n")) == (True, ROWS + 1)
    words = ("-m", "sandrl", "problems", "show", "count-9999", "--problems", str(large), "--json")
    peak, shown = peak_bytes(*words, folder=tmp_path)
    assert (peak < MOST_BYTES, json.loads(shown)["checks"]) == (True, CASES)
    # What a trainer has: all problems, two splits of them, by index as often as it likes.
    peak, split = peak_bytes("-c", SPLITS, str(large), folder=tmp_path)
    assert (peak < MOST_BYTES, split.split()) == (True, ["8000", "100", str(8_100 * CASES), "8102"])


def test_completions_of_a_large_set_are_scored_with_the_problems_that_they_name(large: Path, tmp_path: Path) -> None:
    answers = tmp_path / "answers.jsonl"
    code = "first, *others = input().split()\nprint(others.count(first))"
    rows = [{"task_id": f"count-{number * 999}", "code": code} for number in range(10)]
    answers.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    words = ("reward", str(answers), "--problems", str(large), "--json", "--runs-dir", str(tmp_path))
    peak, document = peak_bytes("-m", "sandrl", *words, folder=tmp_path)
    assert peak < MOST_BYTES
    assert json.loads(document)["summary"]["total_reward"] == 10


LOAD = """
import sys
from sandrl import load_completions
completions = load_completions(sys.argv[1], task_ids=["add"]).completions
print(len(completions), completions[-1].id, len(completions[-1].completion))
"""
MOST_BYTES_OF_COMPLETIONS = 300 << 20


@pytest.mark.parametrize("shape", large_completions.SHAPES)
def test_a_gigabyte_of_completions_takes_no_gigabyte_of_memory(tmp_path: Path, shape: str) -> None:
    path = tmp_path / ("answers.csv" if shape == "csv" else "answers.json")
    subprocess.run((sys.executable, large_completions.__file__, shape, str(path), str(1 << 30), "4000"), check=True)
    assert path.stat().st_size > 2**30 * 0.9
    peak, loaded = peak_bytes("-c", LOAD, str(path), folder=tmp_path)
    assert loaded.startswith("268436 add#268436 ")
    assert peak < MOST_BYTES_OF_COMPLETIONS


def test_a_run_of_many_completions_keeps_none_of_their_texts(tmp_path: Path) -> None:
    path, problems = tmp_path / "answers.jsonl", tmp_path / "problems.jsonl"
    problems.write_text('{"task_id": "add", "prompt": "Add.", "tests": ["assert add(1, 2) == 3"]}', encoding="utf-8")
    numbers = (str(1 << 30), str(1 << 20))
    subprocess.run((sys.executable, large_completions.__file__, "lines", str(path), *numbers), check=True)
    words = ("reward", str(path), "--problems", str(problems), "--json", "--runs-dir", str(tmp_path / "runs"))
    peak, document = peak_bytes("-m", "sandrl", *words, folder=tmp_path)
    summary = json.loads(document)["summary"]
    assert (summary["n"], summary["pass_rate"]) == (1025, 1.0)
    assert peak < MOST_BYTES_OF_COMPLETIONS
