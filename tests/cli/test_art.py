"""`sandrl art rollout` as users have it, against a server that speaks the real protocol."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
from pathlib import Path

from sandrl.runs import RunReader
from tests.cli.conftest import SANDRL, Run
from tests.support.scripted_model import MODEL, Answer, Fault, Question, Says, ScriptedModel

RIGHT = Says("```python\ndef f(x):\n    return x + 1\n```")
WRONG = Says("```python\ndef f(x):\n    return x\n```")
KEY = "sk-a-key-that-nobody-may-see"


def words(server: ScriptedModel, problems: Path, *more: str) -> tuple[str, ...]:
    # The session's own directory of runs is other tests' business.
    runs = str(problems.parent / "runs")
    where = ("--base-url", server.base_url, "--model", MODEL, "--problems", str(problems), "--runs-dir", runs)
    return ("art", "rollout", *where, *more)


def test_each_step_has_a_line_and_the_total_the_last(sandrl: Run, problems: Path) -> None:
    def half(question: Question) -> Answer:
        return RIGHT if question.headers.get("Authorization") == f"Bearer {KEY}" and question.number % 2 else WRONG

    with ScriptedModel(half) as server:
        more = ("--steps", "2", "--problems-per-step", "2", "--max-attempts", "1", "-c", "1", "--run-name", "r")
        done = sandrl(*words(server, problems, *more), OPENAI_API_KEY=KEY)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Step 0: reward=0.500, success=50.0% (1/2), time=")
    assert lines[1].startswith("Step 1: reward=0.500, success=50.0% (1/2), time=")
    assert lines[2].startswith("Total of 2 steps: reward=0.500, success=50.0% (2/4), time=")
    assert len(lines) == 3
    run = problems.parent / "runs" / "r"
    assert len(RunReader(run).trajectories().rows) == 4
    written = b"".join(path.read_bytes() for path in run.rglob("*") if path.is_file())
    assert KEY.encode() not in written
    assert KEY not in done.stdout + done.stderr


def test_episodes_are_graded_and_one_without_a_grade_has_no_reward(sandrl: Run, problems: Path) -> None:
    def grade(question: Question) -> Answer:
        document = json.loads(question.messages[1]["content"])
        return Says(json.dumps({"id": document["id"], "points": 4})) if "x + 1" in document["answer"] else Says("?")

    with ScriptedModel([RIGHT, WRONG]) as server, ScriptedModel(grade) as judge:
        more = ("--steps", "1", "--problems-per-step", "2", "--max-attempts", "1", "-c", "1", "--run-name", "r")
        done = sandrl(*words(server, problems, *more, "--judge-base-url", judge.base_url))
    rows = RunReader(problems.parent / "runs" / "r").trajectories().rows
    assert [(row.reward, row.status, row.components) for row in rows] == [
        (1.0, "passed", {"judge": 0.4}),
        (None, "judge_error", {}),
    ]
    assert done.returncode == 3
    assert "1 of 2 episodes were lost and are not counted: the judge did not answer in the form" in done.stderr


def test_an_episode_that_the_reward_function_abstains_from_is_not_lost(sandrl: Run, problems: Path) -> None:
    (problems.parent / "mine.py").write_text(
        "def passes(verdict, completion):\n    return 1.0 if verdict.is_pass else None\n"
    )
    with ScriptedModel([WRONG, WRONG, RIGHT, WRONG]) as server:
        more = ("--steps", "1", "--problems-per-step", "2", "--max-attempts", "2", "-c", "1", "--run-name", "r")
        done = sandrl(*words(server, problems, *more, "--reward", "mine.py:passes"))
    assert done.returncode == 0, done.stderr
    rows = RunReader(problems.parent / "runs" / "r").trajectories().rows
    assert sorted((row.status, row.dropped) for row in rows) == [("abstained", False), ("passed", False)]


def test_a_document_has_every_step_and_lost_episodes_end_with_3(sandrl: Run, problems: Path) -> None:
    with ScriptedModel(lambda question: Fault(500) if question.number == 1 else RIGHT) as server:
        more = ("--json", "--steps", "1", "--problems-per-step", "2", "-c", "1", "--request-retries", "0")
        done = sandrl(*words(server, problems, *more))
    assert done.returncode == 3
    assert "1 of 2 episodes were lost and are not counted" in done.stderr
    document = json.loads(done.stdout)
    (step,) = document["steps"]
    for figures in (step, document["total"]):
        assert (figures["reward"], figures["success"], figures["scored"], figures["dropped"]) == (1.0, 1.0, 1, 1)


def test_ctrl_c_finishes_the_batch(problems: Path) -> None:
    asked = threading.Event()

    def slow(question: Question) -> Answer:
        asked.set()
        return Fault(pause_seconds=2.0, body={"choices": [{"message": {"content": RIGHT.text}}]})

    with ScriptedModel(slow) as server:
        command = [*SANDRL, *words(server, problems, "--problems-per-step", "2", "--steps", "50")]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=problems.parent, env={**os.environ}
        ) as process:
            assert asked.wait(60)
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Step 0: reward=1.000, success=100.0% (2/2)" in output
    assert "interrupted after 1 of 50 steps" in errors


def test_nothing_is_made_where_the_endpoint_is_of_no_use(sandrl: Run, problems: Path, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    rollout = ("art", "rollout", "--problems", problems)
    unreachable = sandrl(*rollout, "--base-url", f"http://127.0.0.1:{port}/v1")
    assert unreachable.returncode == 3
    assert "cannot be reached: Connection refused" in unreachable.stderr
    with ScriptedModel([RIGHT], models=("other",)) as server:
        unknown = sandrl(*rollout, "--base-url", server.base_url, "--model", "mine")
    assert unknown.returncode == 2
    assert "has no model 'mine'" in unknown.stderr
    assert "--model to one of its models: other" in unknown.stderr
    keyless = sandrl(*rollout, "--use-openai")
    assert keyless.returncode == 3
    assert "OPENAI_API_KEY is not set" in keyless.stderr
    address = sandrl(*rollout, "--base-url", "localhost:8000")
    assert address.returncode == 2
    assert not (tmp_path / "runs").exists()


def test_a_dry_run_asks_no_model_and_its_help_says_so(sandrl: Run, problems: Path) -> None:
    with ScriptedModel([RIGHT]) as server:
        done = sandrl(*words(server, problems, "--dry-run"), OPENAI_API_KEY=KEY)
        named = sandrl("art", "rollout", "--problems", problems, "--dry-run", OPENAI_BASE_URL=server.base_url)
        assert server.questions == []
    for each in (done, named):
        assert each.returncode == 0, each.stderr
        assert each.stdout.startswith("Completions: ")
    assert not (problems.parent / "runs").exists()
    help_ = " ".join(sandrl("art", "rollout", "--help-all", COLUMNS="200").stdout.split())
    assert "Starts no sandbox and requests no completion." in help_
