"""Commands that have a model work on tasks: evaluations and rollouts, of tasks alone and beside other problems."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from sandrl.runs import RunReader, TrajectoryRow
from tests.cli.conftest import SANDRL, Run
from tests.support.scripted_model import Answer, Fault, Question, Says, ScriptedModel
from tests.support.tasks.base import import_task_base
from tests.support.tasks.shell import judge, write_shell_task

SUBMIT = Says("", [("submit", {})])


@pytest.fixture(scope="session", autouse=True)
def _base() -> None:
    import_task_base(os.environ)


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    """A folder of three tasks; the number of each is what its file must contain."""
    for number in range(3):
        instruction = f"Write {number} into the file answer."
        write_shell_task(tmp_path / "tasks" / f"write-{number}", instruction=instruction, test=judge(str(number)))
    return tmp_path / "tasks"


def number_in(question: Question) -> int:
    """The number that the instruction of a task asks for."""
    return int(question.messages[1]["content"].split()[1])


def works(question: Question) -> Says:
    """Writes the number, except 1, and submits."""
    number = number_in(question)
    return SUBMIT if question.turn else Says("", [("bash", {"command": f"echo {number * (number != 1)} > answer"})])


def rows_of(run: Path) -> dict[str, TrajectoryRow]:
    return {row.id: row for row in RunReader(run).trajectories().rows}


def test_an_evaluation_on_tasks_plays_episodes_with_tools(sandrl: Run, tasks: Path, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "evaluated"
    with ScriptedModel(works) as server:
        words = (
            "--base-url",
            server.base_url,
            "--samples",
            "2",
            "--runs-dir",
            str(run.parent),
            "--run-name",
            run.name,
            "--json",
        )
        done = sandrl("eval", "--problems", tasks, *words, "--out", "out.jsonl")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [(each["id"], each["reward"]) for each in document["results"]] == [
        (f"write-{number}#{sample}", float(number != 1)) for number in range(3) for sample in (1, 2)
    ]
    assert document["summary"]["pass_at_k"]["1"] == pytest.approx(2 / 3)
    row = rows_of(run)["write-2#1"]
    assert [message.role for message in row.messages] == ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert (row.episode["end"], row.episode["tool_calls"]) == ("submitted", 2)
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 6
    assert {tool["function"]["name"] for tool in server.questions[0].body["tools"]} >= {"bash", "submit"}


def test_lost_episodes_are_played_again_and_no_others(sandrl: Run, tasks: Path, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "resumed"
    is_well = False

    def flaky(question: Question) -> Answer:
        return Fault(400, body={"error": {"message": "no"}}) if question.turn and not is_well else works(question)

    def unsteady(question: Question) -> Answer:
        return works(question) if number_in(question) == 0 else flaky(question)

    with ScriptedModel(unsteady) as server:
        words = ("--base-url", server.base_url, "--samples", "1", "--runs-dir", str(run.parent), "--run-name", run.name)
        first = sandrl("eval", "--problems", tasks, *words)
        assert first.returncode == 3, first.stderr
        assert {name: row.reward for name, row in rows_of(run).items()} == {
            "write-0#1": 1.0,
            "write-1#1": None,
            "write-2#1": None,
        }
        is_well, asked = True, len(server.questions)
        again = sandrl("eval", "--resume", run, "--json")
    assert again.returncode == 0, again.stderr
    assert [each["reward"] for each in json.loads(again.stdout)["results"]] == [1.0, 0.0, 1.0]
    assert {number_in(each) for each in server.questions[asked:]} == {1, 2}


def test_tasks_and_other_problems_are_in_one_evaluation(sandrl: Run, tasks: Path, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"task_id": "inc", "prompt": "Write f(x), which adds one.", "tests": ["assert f(1) == 2"]},
        {"task_id": "task", "task": str(tasks / "write-2")},
    ]
    (tmp_path / "mixed.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def either(question: Question) -> Says:
        if "adds one" in question.messages[1]["content"]:
            assert "tools" not in question.body
            assert "<answer>" in question.messages[0]["content"]
            return Says("<answer>\ndef f(x):\n    return x + 1\n</answer>")
        return works(question)

    with ScriptedModel(either) as server:
        words = ("--base-url", server.base_url, "--samples", "1", "--json", "--problems", "mixed.jsonl")
        done = sandrl("eval", *words)
    assert done.returncode == 0, done.stderr
    assert [(each["task_id"], each["reward"]) for each in json.loads(done.stdout)["results"]] == [
        ("inc", 1.0),
        ("task", 1.0),
    ]


def test_single_answers_to_tasks_are_scripts(sandrl: Run, tasks: Path) -> None:
    def answers(question: Question) -> Says:
        number = number_in(question)
        return Says(f"<answer>\necho {number * (number != 1)} > answer\n</answer>")

    with ScriptedModel(answers) as server:
        words = ("--base-url", server.base_url, "--samples", "1", "--rollout", "attempts", "--json")
        done = sandrl("eval", "--problems", tasks, *words)
    assert done.returncode == 0, done.stderr
    assert [each["reward"] for each in json.loads(done.stdout)["results"]] == [1.0, 0.0, 1.0]
    system = server.questions[0].messages[0]["content"]
    assert system == ("Solve the task with a shell script. Reply with the script only, between <answer> and </answer>.")


def test_rollouts_on_tasks_have_tools_unless_told_otherwise(sandrl: Run, tasks: Path, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "played"
    with ScriptedModel(works) as server:
        words = ("--base-url", server.base_url, "--model", "scripted", "--steps", "1", "--problems-per-step", "3")
        done = sandrl(
            "art",
            "rollout",
            "--problems",
            tasks,
            *words,
            "--samples",
            "2",
            "--runs-dir",
            str(run.parent),
            "--run-name",
            run.name,
        )
    assert done.returncode == 0, done.stderr
    assert sorted(row.reward or 0.0 for row in rows_of(run).values()) == [0.0, 0.0, 1.0, 1.0, 1.0, 1.0]
    options = RunReader(run).config.options
    tools: Any = options["tool_schemas"]
    assert [tool["name"] for tool in tools] == ["bash", "terminal", "write_file", "edit_file", "submit"]


def test_what_has_no_episodes_is_refused_before_a_question(sandrl: Run, tasks: Path) -> None:
    with ScriptedModel(works) as server:
        served = sandrl("eval", "--problems", tasks, "--base-url", server.base_url, "--service", "http://127.0.0.1:1")
        tools = sandrl("eval", "--rollout", "tools", "--base-url", server.base_url, "--service", "http://127.0.0.1:1")
    assert (served.returncode, "--service: runs no episodes" in served.stderr) == (2, True), served.stderr
    assert (tools.returncode, "--rollout cannot be used with service" in tools.stderr) == (2, True), tools.stderr
    assert not server.questions


def test_problems_with_checks_may_be_worked_on_with_tools_in_an_evaluation(sandrl: Run, problems: Path) -> None:
    code = "def f(x):\n    return x + 1\n"

    def submits(question: Question) -> Says:
        calls: list[tuple[str, object]] = [("execute_code", {"code": "print(1)"}), ("submit_solution", {"code": code})]
        return Says("", [calls[question.turn]])

    with ScriptedModel(submits) as server:
        words = ("--base-url", server.base_url, "--samples", "1", "--rollout", "tools", "--json")
        done = sandrl("eval", "--problems", problems, *words)
    assert done.returncode == 0, done.stderr
    assert [each["reward"] for each in json.loads(done.stdout)["results"]] == [1.0]


def test_an_evaluation_that_is_interrupted_is_completed_later(sandrl: Run, tasks: Path, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "interrupted"
    is_well = False

    def slow(question: Question) -> Says:
        if is_well or number_in(question) == 0:
            return works(question)
        return Says("", [("bash", {"command": "sleep 600", "timeout_seconds": 600})])

    with ScriptedModel(slow) as server:
        words = ("--problems", str(tasks), "--base-url", server.base_url, "--samples", "1", "--run-name", run.name)
        with subprocess.Popen(
            [*SANDRL, "eval", *words, "--runs-dir", str(run.parent)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
        ) as command:
            while command.poll() is None and (len(server.questions) < 4 or not has_rows(run)):
                time.sleep(0.1)
            # The first one lets no more begin, the second one ends what is in hand.
            for _ in range(2):
                command.send_signal(signal.SIGINT)
                time.sleep(0.5)
            _, errors = command.communicate(timeout=120)
        assert command.returncode == 130, errors.decode()
        assert {name: row.reward for name, row in rows_of(run).items()} == {"write-0#1": 1.0}
        is_well = True
        again = sandrl("eval", "--resume", run, "--json")
    assert again.returncode == 0, again.stderr
    assert [each["reward"] for each in json.loads(again.stdout)["results"]] == [1.0, 0.0, 1.0]


def has_rows(run: Path) -> bool:
    return (run / "trajectories.jsonl").is_file()
