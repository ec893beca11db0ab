"""`sandrl redteam` as a user runs it, piped."""

from __future__ import annotations

import json
import re
from pathlib import Path

from sandrl.runs import RunReader
from tests.cli.conftest import Run
from tests.cli.test_problems import ECHO, SQUARE, written

GULLIBLE = {"task_id": "gullible", "prompt": "", "tests": ["assert answer()"], "reference": "answer = lambda: 1\n"}


def test_no_exploit_of_a_group_is_rewarded(sandrl: Run, tmp_path: Path) -> None:
    path = written(tmp_path / "p.jsonl", SQUARE, ECHO)
    done = sandrl("redteam", "--problems", path, "-e", "exit", "-e", "equal-int", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["summary"]["problems"] == {"square": "function", "echo": "program"}
    assert (document["summary"]["rewarded"], document["summary"]["disturbed"]) == (0, 0)
    assert document["summary"]["neighbours"] > 2
    [equal] = [each for each in document["exploits"] if each["name"] == "equal-int"]
    assert equal["statuses"] == {"failed": 1}


def test_checks_that_accept_nonsense_fail_the_command(sandrl: Run, tmp_path: Path) -> None:
    path = written(tmp_path / "p.jsonl", {**GULLIBLE, "entry_point": "answer"})
    done = sandrl("redteam", "--problems", path, "-e", "equal-object", "-e", "exit-zero")
    assert done.returncode == 1
    assert "Rewarded: equal-object on gullible (trust: isolated)" in done.stdout.splitlines()
    assert done.stdout.splitlines()[-1].startswith("Verdict: not held (")
    assert "1 of 2 exploits were rewarded (first: equal-object on gullible)" in done.stderr
    assert "hint: list the exploits and what each one does with `sandrl redteam --list`" in done.stderr


def test_groups_and_a_verdict_fit_on_a_screen_and_exploits_are_shown_on_request(sandrl: Run, tmp_path: Path) -> None:
    path = written(tmp_path / "p.jsonl", SQUARE)
    done = sandrl("redteam", "--problems", path, "-e", "exit-zero", "-e", "exit-hard", "-e", "equal-int")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["group", "exploits", "rewarded"], ["exit", "2", "0"], ["subclass", "1", "0"]
    ]  # fmt: skip
    assert lines[-4:-2] == ["Trust of the verdicts: 3 isolated", "Rewarded: 0 of 3 attempts (3 exploits)"]
    assert re.fullmatch(r"Failed controls: 0 of \d+ \(.*\)", lines[-2])
    assert lines[-1].startswith("Verdict: held (")
    assert max(map(len, lines)) <= 80
    every = sandrl("redteam", "--problems", path, "-e", "exit-zero", "--verbose").stdout.splitlines()
    assert every[1].split() == ["exit-zero", "1", "0", "1", "failed"]


def test_a_campaign_leaves_a_run_with_cards_and_is_resumed(sandrl: Run, tmp_path: Path) -> None:
    path = written(tmp_path / "p.jsonl", {**GULLIBLE, "entry_point": "answer"}, SQUARE)
    done = sandrl("redteam", "--problems", path, "-e", "equal-object", "-e", "exit-zero", "--json")
    assert done.returncode == 1, done.stderr
    first = json.loads(done.stdout)
    cards = {card["task_id"]: card for card in first["cards"]}
    assert [each["name"] for each in cards["gullible"]["cheats"]] == ["equal-object"]
    assert (cards["gullible"]["quality"], cards["gullible"]["weakest"]) == (0.0, "cheats")
    assert (cards["square"]["cheats"], cards["square"]["cheats_tried"]) == ([], 2)
    assert {"nop", "flake"} <= {*cards["square"]["unknown"]}
    run = RunReader(Path(first["run"]))
    assert {"gullible#exploit.equal-object", "gullible#oracle.1", "square#exploit.exit-zero"} <= {
        row.id for row in run.each_trajectory()
    }
    left = sandrl("redteam", "--resume", first["run"], "--dry-run", "--json")
    assert json.loads(left.stdout)["completions"] == 0
    kept = (run.path / "cards.jsonl").read_bytes()
    again = sandrl("redteam", "--resume", first["run"], "--json")
    assert again.returncode == 1, again.stderr
    assert (run.path / "cards.jsonl").read_bytes() == kept
    second = json.loads(again.stdout)
    assert [card["cheats"] for card in second["cards"]] == [card["cheats"] for card in first["cards"]]
    assert {row.attempt for row in run.each_trajectory()} == {1}


def test_the_corpus_is_listed_without_a_runtime(sandrl: Run) -> None:
    done = sandrl("redteam", "--list")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) > 40
    assert done.stdout.splitlines()[0].split() == ["exploit", "group", "aim"]


def test_an_unknown_exploit_is_refused(sandrl: Run) -> None:
    done = sandrl("redteam", "-e", "nonsense")
    assert done.returncode == 2
    assert "no exploit, cheat or group of them is called 'nonsense'" in done.stderr
    assert "sandrl redteam --list" in done.stderr
