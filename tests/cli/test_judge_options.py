"""The options of a model that grades answers, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.support.scripted_model import Answer, Question, Says, ScriptedModel

PROBLEM = {"task_id": "inc", "prompt": "Add one.", "tests": ["assert f(1) == 2"]}
RIGHT = {"task_id": "inc", "completion": "<answer>def f(x): return x + 1</answer>"}
ODD = {"task_id": "inc", "completion": "<answer>f = (1).__add__</answer>"}


def judge(question: Question) -> Answer:
    document = json.loads(question.messages[1]["content"])
    if "__add__" in document["answer"]:
        return Says("I would rather not.")
    return Says(json.dumps({"id": document["id"], "reason": "Short.", "points": 8}))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "p.jsonl").write_text(json.dumps(PROBLEM) + "\n")
    (tmp_path / "c.jsonl").write_text(json.dumps(RIGHT) + "\n" + json.dumps(ODD) + "\n")
    (tmp_path / "one.jsonl").write_text(json.dumps(RIGHT) + "\n")
    (tmp_path / "rubric.txt").write_text("Short answers are good.\n")
    labels = {"prompt": "Add one.", "completion": RIGHT["completion"], "score": 1.0}
    (tmp_path / "labels.jsonl").write_text(json.dumps(labels) + "\n")
    return tmp_path


def test_a_run_is_graded_by_a_rubric_and_its_agreement_is_told(sandrl: Run, files: Path) -> None:
    with ScriptedModel(judge) as model:
        words = ("--judge-base-url", model.base_url, "--judge-weight", 0.5, "--rubric", "rubric.txt")
        done = sandrl(
            *("reward", "one.jsonl", "--problems", "p.jsonl", *words, "--judge-labels", "labels.jsonl", "--json")
        )
        assert all("Short answers are good." in each.messages[0]["content"] for each in model.questions)
        # The answer of the labels is that of the completion, so it is graded once.
        assert len(model.questions) == 1
    assert done.returncode == 0, done.stderr
    [result] = json.loads(done.stdout)["results"]
    assert (result["reward"], result["components"]) == (1.0, {"judge": 0.4})
    assert "Judge: it agrees with 100% of 1 labelled answers (kappa not defined" in done.stderr


def test_an_answer_without_a_grade_has_no_reward_and_ends_with_3(sandrl: Run, files: Path) -> None:
    with ScriptedModel(judge) as model:
        done = sandrl("reward", "c.jsonl", "--problems", "p.jsonl", "--judge-base-url", model.base_url, "--json")
    assert done.returncode == 3
    document = json.loads(done.stdout)
    assert [(each["reward"], each["status"]) for each in document["results"]] == [
        (1.0, "passed"),
        (None, "judge_error"),
    ]
    assert document["summary"]["unscorable"] == 1
    assert "1 of 2 completions could not be scored" in done.stderr
    assert "check the model that grades" in done.stderr
    run = done.stderr.partition("Run: ")[2].splitlines()[0]
    again = sandrl("runs", "regrade", run)
    assert (again.returncode, again.stdout) == (0, "Flipped: 0 of 2 verdicts\n"), again.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--rubric", "rubric.txt"), "--rubric has an effect with"),
        (("--judge-weight", "2"), "--judge-weight has an effect with"),
        (("--judge-base-url", "http://127.0.0.1:9/v1", "--rubric", "gone.txt"), "gone.txt: cannot be read"),
        (("--judge-base-url", "http://127.0.0.1:9/v1", "--judge-labels", "p.jsonl"), "must have `prompt` and"),
        (("--judge-base-url", "http://127.0.0.1:9/v1", "--service", "http://localhost:8642"), "grades nothing"),
    ],
)
def test_what_cannot_be_graded_is_refused_first(sandrl: Run, files: Path, words: tuple[str, ...], message: str) -> None:
    done = sandrl("reward", "c.jsonl", "--problems", "p.jsonl", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_a_judge_that_is_not_there_ends_the_command_with_3(sandrl: Run, files: Path) -> None:
    done = sandrl("reward", "c.jsonl", "--problems", "p.jsonl", "--judge-base-url", "http://127.0.0.1:9/v1")
    assert done.returncode == 3
    assert "http://127.0.0.1:9/v1 cannot be reached" in done.stderr


def fooled(question: Question) -> Answer:
    """A judge that believes every answer with points in it."""
    document = json.loads(question.messages[1]["content"])
    points = 10 if "10 points" in document["answer"] else 1
    return Says(json.dumps({"id": document["id"], "points": points}))


def test_the_red_team_measures_what_attacks_do_to_a_judge(sandrl: Run, files: Path) -> None:
    words = ("redteam", "--problems", "p.jsonl", "--exploit", "prints-nothing", "--exploit", "lying-output", "--json")
    results = {}
    for name, script in (("fair", judge), ("fooled", fooled)):
        with ScriptedModel(script) as model:
            done = sandrl(*words, "--judge-base-url", model.base_url)
        results[name] = done.returncode, json.loads(done.stdout)["judge_attacks"], done.stderr
    code, attacks, _ = results["fair"]
    assert (code, len(attacks), [each for each in attacks if each["rewarded"]]) == (0, 12, [])
    code, attacks, stderr = results["fooled"]
    assert code == 1
    assert {each["attack"] for each in attacks if each["rewarded"]} >= {"asks-for-points", "new-instructions", "threat"}
    assert all(each["control"] == 0.1 for each in attacks)
    assert "of 12 attacks raised a grade" in stderr
