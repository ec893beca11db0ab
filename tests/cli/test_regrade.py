"""`sandrl runs regrade` on real runs and the real local runtime."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from sandrl.config.parts import ScoringPart
from sandrl.config.scoring import RewardConfig
from tests.cli.conftest import RIGHT, WRONG, Run
from tests.support.wheels import Index

NO_CODE = '{"task_id": "inc", "completion": "I do not know."}\n'
STRICTER = '{"task_id": "inc", "prompt": "Add one.", "tests": ["assert f(1) == 2", "assert f(0.5) == 2"]}\n'


@pytest.fixture
def run(sandrl: Run, problems: Path, tmp_path: Path) -> Path:
    done = sandrl("reward", "-", "--problems", problems, "--runs-dir", "r", stdin=RIGHT + WRONG + NO_CODE)
    assert done.returncode == 0, done.stderr
    return Path(done.stderr.splitlines()[-1].removeprefix("Run: "))


def test_with_the_same_judge_and_problems_nothing_flips(sandrl: Run, run: Path) -> None:
    before = {file.name: file.read_bytes() for file in run.iterdir() if file.is_file()}
    done = sandrl("runs", "regrade", run, "--fail-on-flips")
    assert (done.returncode, done.stdout) == (0, "Flipped: 0 of 3 verdicts\n"), done.stderr
    assert {file.name: file.read_bytes() for file in run.iterdir() if file.is_file()} == before


def test_verdicts_that_flipped_are_listed_and_no_others(sandrl: Run, run: Path, problems: Path) -> None:
    problems.write_text(STRICTER, encoding="utf-8")
    done = sandrl("runs", "regrade", run)
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.splitlines()
    assert first.startswith("  0 (inc): passed → failed, reward 1 → 0: check 2 of 2")
    assert last == "Flipped: 1 of 3 verdicts"
    gated = sandrl("runs", "regrade", run, "--fail-on-flips", "--json")
    assert gated.returncode == 1
    document = json.loads(gated.stdout)
    assert [(flip["task_id"], flip["before"]["status"], flip["after"]["status"]) for flip in document["flips"]] == [
        ("inc", "passed", "failed")
    ]


def test_problems_that_are_gone_can_be_named(sandrl: Run, run: Path, problems: Path, tmp_path: Path) -> None:
    problems.rename(tmp_path / "moved.jsonl")
    done = sandrl("runs", "regrade", run)
    assert (done.returncode, done.stdout) == (2, "")
    assert "its problems cannot be loaded" in done.stderr
    assert "hint: name them with --problems" in done.stderr
    assert sandrl("runs", "regrade", run, "--problems", "moved.jsonl").stdout == "Flipped: 0 of 3 verdicts\n"


def test_completions_of_other_problems_are_left_out_and_said(sandrl: Run, run: Path, tmp_path: Path) -> None:
    done = sandrl("runs", "regrade", run, "--problems", "toy")
    assert done.returncode == 2
    assert "has no completion that can be judged again" in done.stderr


EVERY_OPTION = (
    "--extract", "fence", "--timeout", "3", "--check-timeout", "1", "--max-output-bytes", "50000",
    "--max-file-bytes", "20000", "--prelude", "from math import prod", "--require-isolated", "--no-cache",
    "--retries", "1", "--reward", "fraction", "--format-reward", "0.5", "--length-penalty", "0.25",
    "--timeout-penalty", "0.125", "--max-cases", "50", "--all-checks",
    "--compile-timeout", "20", "--hash-seed", "3", "--hash-seeds", "2",
    "--image", "python:3.11", "--packages", "typing-extensions", "--verifier", "artifacts", "--pass-env", "HOME",
)  # fmt: skip
ANSWERS = [
    "```python\nimport typing_extensions\ndef f(x):\n    return prod([x + 1])\n```",  # packages and prelude
    "```python\ndef f(x):\n    return x + 1\n```\n<answer>def f(x): return 0</answer>",  # extract
    "```python\ndef f(x):\n    while x == 2: pass\n    return x + 1\n```",  # check_timeout
    "```python\ndef f(x):\n    open('big', 'wb').write(bytes(100000))\n    return x + 1\n```",  # max_file_bytes
    "```python\ndef f(x):\n    return 2\n```",  # reward
    "```python\nimport sys\ndef f(x):\n    return sys._getframe(1).f_globals['x'] + x\n```",
]


def test_a_run_with_every_scoring_option_is_judged_again_with_all_of_them(
    sandrl: Run, problems: Path, tmp_path: Path, index: Index
) -> None:
    index.add("typing-extensions")
    rows = [json.dumps({"task_id": "inc", "completion": text}) + "\n" for text in ANSWERS]
    done = sandrl("reward", "-", "--problems", problems, "--runs-dir", "r", *EVERY_OPTION, stdin="".join(rows))
    assert done.returncode == 0, done.stderr
    run = Path(done.stderr.splitlines()[-1].removeprefix("Run: "))
    options = json.loads((tmp_path / run / "config.json").read_text("utf-8"))["options"]
    usual = RewardConfig().document()
    judged = {*ScoringPart.model_fields, "image", "packages"} - {"second_opinion"}
    assert {name for name in judged if options[name] == usual[name]} == set(), "an option is at its default"
    saved = [json.loads(line) for line in (tmp_path / run / "trajectories.jsonl").read_text("utf-8").splitlines()]
    rewards = {row["index"]: (row["status"], row["reward"]) for row in saved}
    assert [rewards[index][1] for index in range(6)] == [1.0, 1.0, 0.5, 0.0, 0.5, 0.0]
    again = json.loads(sandrl("runs", "regrade", run, "--json", "--fail-on-flips").stdout)
    assert (again["compared"], again["flips"], again["left_out"]) == (6, [], 0)
    kept = sandrl("runs", "regrade", run, "--print-config").stdout
    assert {name: tomllib.loads(kept)[name] for name in judged} == {name: options[name] for name in judged}
    # Each of these options decides a verdict here: without it another one is found.
    for option in (
        ["--extract", "auto"],
        ["--prelude", "pass"],
        ["--reward", "binary"],
        ["--max-file-bytes", "1000000"],
    ):
        assert json.loads(sandrl("runs", "regrade", run, "--json", *option).stdout)["flips"], option


def test_a_run_whose_options_cannot_be_read_says_so(sandrl: Run, run: Path, tmp_path: Path) -> None:
    path = tmp_path / run / "config.json"
    document = json.loads(path.read_text("utf-8"))
    document["options"]["extract"] = "telepathy"
    path.write_text(json.dumps(document), encoding="utf-8")
    done = sandrl("runs", "regrade", run)
    assert (done.returncode, done.stdout) == (2, "")
    assert "was made by an incompatible version of sandrl" in done.stderr


def test_the_problems_of_a_mixture_are_found_in_all_of_its_sources(
    sandrl: Run, run: Path, problems: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text('{"task_id": "dec", "prompt": "Subtract one.", "tests": ["assert f(1) == 0"]}\n', encoding="utf-8")
    config = json.loads((run / "config.json").read_text("utf-8"))
    config["options"]["problems"] = f"{other}=2,{problems}=1"
    (run / "config.json").write_text(json.dumps(config), encoding="utf-8")
    done = sandrl("runs", "regrade", run)
    assert (done.returncode, done.stdout) == (0, "Flipped: 0 of 3 verdicts\n"), done.stderr
