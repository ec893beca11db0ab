"""`--notify`: a command when a run ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import RIGHT, WRONG, Run

WRITE = 'env > "$PWD/told"; echo printed'


def told(tmp_path: Path) -> dict[str, str]:
    lines = (tmp_path / "told").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


@pytest.fixture
def words(tmp_path: Path, problems: Path) -> list[str]:
    (tmp_path / "answers.jsonl").write_text(RIGHT + WRONG, encoding="utf-8")
    return ["reward", "answers.jsonl", "--problems", str(problems), "--runs-dir", "runs", "--run-name", "mine"]


def test_a_run_that_finished_tells_its_facts_and_no_key(sandrl: Run, words: list[str], tmp_path: Path) -> None:
    done = sandrl(*words, "--notify", WRITE, "--json", OPENAI_API_KEY="sk-secret-of-mine", MY_COPY="sk-secret-of-mine")
    assert done.returncode == 0, done.stderr
    facts = told(tmp_path)
    assert {name: value for name, value in facts.items() if name in SHOWN} == {
        "SANDRL_RUN_ID": "mine", "SANDRL_OUTCOME": "finished", "SANDRL_EXIT_CODE": "0", "SANDRL_MESSAGE": "",
    }  # fmt: skip
    assert Path(facts["SANDRL_RUN_DIR"]).samefile(tmp_path / "runs" / "mine")
    assert "sk-secret-of-mine" not in facts.values()
    # What the command prints stands beside the results, not among them.
    assert json.loads(done.stdout)["summary"]


SHOWN = {"SANDRL_RUN_ID", "SANDRL_OUTCOME", "SANDRL_EXIT_CODE", "SANDRL_MESSAGE"}


def test_an_exit_code_that_says_no_is_told_with_its_message(sandrl: Run, words: list[str], tmp_path: Path) -> None:
    done = sandrl(*words, "--notify", WRITE, "--fail-under", "0.9")
    facts = told(tmp_path)
    assert (done.returncode, facts["SANDRL_EXIT_CODE"]) == (1, "1")
    assert facts["SANDRL_MESSAGE"] in done.stderr
    assert facts["SANDRL_MESSAGE"]


def test_a_command_that_fails_is_a_warning_and_changes_no_exit_code(sandrl: Run, words: list[str]) -> None:
    done = sandrl(*words, "--notify", "exit 7")
    assert done.returncode == 0
    assert "warning: the command of --notify ended with exit code 7" in done.stderr


def test_a_command_line_that_makes_no_run_tells_nothing(sandrl: Run, words: list[str], tmp_path: Path) -> None:
    assert sandrl(*words, "--notify", WRITE, "--print-config").returncode == 0
    assert not (tmp_path / "told").exists()
