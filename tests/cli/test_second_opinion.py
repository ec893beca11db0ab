"""`--second-opinion` as a user gives it, piped, and what the views of a run show of it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import RIGHT, WRONG, Run

LIES = "class L:\n    def __eq__(self, other):\n        return True\ndef f(x):\n    return L()\n"
LIAR = json.dumps({"task_id": "inc", "code": LIES}) + "\n"


def test_the_disagreements_follow_the_totals_and_the_exit_code_is_0(sandrl: Run, problems: Path) -> None:
    done = sandrl("reward", "-", "--problems", problems, "--second-opinion", "1", stdin=RIGHT + WRONG + LIAR)
    assert done.returncode == 0, done.stderr
    total, rate, pass_at_1, opinion, disagreement = done.stdout.splitlines()[-5:]
    assert (total, rate) == ("Total reward: 1.0/3", "Pass rate: 1/3 (33%)")
    assert pass_at_1.startswith("pass@1: 33.3% [")
    assert opinion == "Second opinion: 1 of 2 failed completions pass in one process"
    assert disagreement.startswith("  inc#3: failed isolated, passed in one process: check 1 of 2")


def test_many_disagreements_are_cut_with_the_command_that_shows_all(sandrl: Run, problems: Path) -> None:
    liars = [json.dumps({"task_id": "inc", "code": f"{LIES}# {number}"}) + "\n" for number in range(23)]
    done = sandrl("reward", "-", "--problems", problems, "--second-opinion", "1", stdin="".join(liars))
    assert done.stdout.splitlines()[-1] == "  … and 3 more: sandrl runs show --disagreements"
    shown = sandrl("runs", "show", "--disagreements", "--json")
    assert json.loads(shown.stdout)["n"] == 23


def test_json_has_the_totals_and_each_opinion_that_was_asked_for(sandrl: Run, problems: Path, tmp_path: Path) -> None:
    words = ("reward", "-", "--problems", problems, "--json", "--out", tmp_path / "o.jsonl")
    asked = json.loads(sandrl(*words, "--second-opinion", "1", stdin=RIGHT + WRONG + LIAR).stdout)
    assert asked["summary"]["second_opinion"] == {"rate": 1.0, "asked": 2, "disagreements": 1, "unavailable": 0}
    assert [result.get("second_opinion", {}).get("status") for result in asked["results"]] == [None, "failed", "passed"]
    assert [result["reward"] for result in asked["results"]] == [1.0, 0.0, 0.0]
    rows = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert not any("second_opinion" in row for row in rows), "results are written before there are opinions"
    plain = json.loads(sandrl(*words, stdin=WRONG).stdout)
    assert "second_opinion" not in plain["summary"]
    assert "second_opinion" not in plain["results"][0]


def test_a_share_is_said(sandrl: Run, problems: Path) -> None:
    codes = [json.dumps({"task_id": "inc", "code": f"def f(x): return x  # {number}"}) + "\n" for number in range(20)]
    done = sandrl("reward", "-", "--problems", problems, "--second-opinion", "0.5", stdin="".join(codes))
    line = done.stdout.splitlines()[-1]
    assert line.startswith("Second opinion: 0 of ")
    assert line.endswith(" failed completions pass in one process (requested for a share of 0.5)")


def test_trajectories_and_metrics_of_a_run_have_its_opinions(sandrl: Run, problems: Path) -> None:
    sandrl("reward", "-", "--problems", problems, "--second-opinion", "1", stdin=RIGHT + WRONG + LIAR)
    shown = sandrl("runs", "show").stdout
    assert "Second opinion: 1 of 2 failed completions pass in one process\n" in shown
    assert "second opinion: passes in one process\n" in shown
    assert "second opinion: also failed in one process: check 1 of 2" in shown
    only = sandrl("runs", "show", "--disagreements").stdout
    assert only.count("── ") == 1
    assert "── 2: inc" in only
    metrics = sandrl("metrics", "-m", "judge/*").stdout
    assert "judge/disagreements" in metrics
    assert "! 1 of 2 failed completions pass in one process" in metrics


def test_a_run_without_opinions_says_how_to_get_them(sandrl: Run, problems: Path) -> None:
    sandrl("reward", "-", "--problems", problems, stdin=WRONG)
    done = sandrl("runs", "show", "--disagreements")
    assert "the run has no second opinions; score with --second-opinion RATE" in done.stderr


def test_validation_says_of_failing_references_whether_they_pass_in_one_process(sandrl: Run, tmp_path: Path) -> None:
    shared = "assert f.__globals__ is globals() and f(1) == 2"
    right = "def f(x):\n    return x + 1\n"
    rows = [
        {"task_id": "liar", "prompt": "", "tests": ["assert f(1) == 2"], "reference": LIES},
        {"task_id": "shared", "prompt": "", "tests": [shared], "reference": right},
    ]
    path = tmp_path / "v.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    done = sandrl("problems", "validate", "--problems", path, "--second-opinion", "1")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert "Judged in one process (their checks cannot run apart from the code): shared" in lines
    assert any(line.startswith("  shared, isolated: ") for line in lines)
    assert "Second opinion: 1 of 1 references that fail isolated pass in one process" in lines
    document = json.loads(sandrl("problems", "validate", "--problems", path, "--second-opinion", "1", "--json").stdout)
    assert document["summary"]["second_opinion"]["disagreements"] == 1
    assert list(document["summary"]["in_process_reasons"]) == ["shared"]


def test_a_run_that_is_judged_again_names_completions_by_their_place_in_the_run(sandrl: Run, problems: Path) -> None:
    done = sandrl("reward", "-", "--problems", problems, stdin=RIGHT + WRONG + LIAR)
    run = done.stderr.splitlines()[-1].removeprefix("Run: ")
    again = sandrl("runs", "regrade", run, "--second-opinion", "1")
    flipped, opinion, disagreement = again.stdout.splitlines()
    assert (flipped, opinion) == (
        "Flipped: 0 of 3 verdicts", "Second opinion: 1 of 2 failed completions pass in one process",
    )  # fmt: skip
    assert disagreement.startswith("  inc#3: ")
