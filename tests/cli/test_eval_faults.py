"""`sandrl eval` against an endpoint with every fault that servers have: nothing hangs, nothing that came is lost."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from sandrl.problems import load_problems
from sandrl.runs import AnswerRow, RunReader, TrajectoryRow
from tests.cli.conftest import SANDRL, Run
from tests.support.scripted_model import Answer, Fault, Question, Says, ScriptedModel

PROBLEMS = {problem.prompt: problem for problem in load_problems("toy").problems.values()}
SAMPLES = 4
EVAL = ("--problems", "toy", "--samples", str(SAMPLES), "--json", "--request-timeout", "3")
TOO_LONG = {"error": {"message": "This model's maximum context length is 8 tokens", "code": "context_length_exceeded"}}

# What a question is answered with for good, by its seed, which is also the place of its completion.
LASTING: dict[int, tuple[Fault, str]] = {
    1: (Fault(500, body={"error": {"message": "tired"}}), "HTTP 500: tired"),
    2: (Fault(pause_seconds=20.0), "it did not answer in time"),
    3: (Fault(cut=True), "did not answer"),
    5: (Fault(raw=b'{"choices": [{"message": {"content": "def'), "incomplete or is not JSON"),
    6: (Fault(headers={"Content-Type": "text/html"}, raw=b"<html>busy</html>"), "incomplete or is not JSON"),
    7: (Fault(headers={"Content-Type": "text/event-stream"}, raw=b'data: {"choices": []}\n\n'), "is not JSON"),
    9: (Fault(body={"choices": []}), "the answer has no message"),
    10: (Fault(400, body=TOO_LONG), "maximum context length"),
}


def solution(question: Question) -> Says:
    """Right where the seed is even."""
    problem = PROBLEMS[question.messages[-1]["content"]]
    code = problem.reference if question.body["seed"] % 2 == 0 else "print('no')\n"
    return Says(f"<answer>\n{code}</answer>", logprobs=False)


class Faulty:
    """Answers like a model on its worst day, and keeps what each completion was asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.is_well = False
        self._lock = threading.Lock()
        self._limited: set[int] = set()

    def __call__(self, question: Question) -> Answer:
        seed = question.body["seed"]
        with self._lock:
            self.asked.append(seed)
            is_first = seed not in self._limited
            self._limited.add(seed)
        if self.is_well:
            return solution(question)
        if seed == 4 and is_first:
            return Fault(429, {"Retry-After": "0.2"})
        return LASTING[seed][0] if seed in LASTING else solution(question)


def trajectories(run: Path) -> dict[int, TrajectoryRow]:
    rows = RunReader(run).trajectories().rows
    assert len({row.index for row in rows}) == len(rows), "one row counts for each completion"
    return {row.index: row for row in rows}


def answers(run: Path) -> dict[int, AnswerRow]:
    return {row.index: row for row in RunReader(run).answers().rows}


def run_of(tmp_path: Path) -> Path:
    (run,) = (tmp_path / "runs").iterdir()
    return run


def test_every_fault_is_an_unscorable_completion_with_its_reason_and_resuming_completes_the_run(
    sandrl: Run, tmp_path: Path
) -> None:
    script = Faulty()
    words = ("--runs-dir", tmp_path / "runs", "--request-retries", "1")
    with ScriptedModel(script) as server:
        first = sandrl("eval", "--base-url", server.base_url, *EVAL, *words)
        run = run_of(tmp_path)
        kept = answers(run)
        script.is_well, script.asked = True, []
        second = sandrl("eval", "--resume", run.name, "--json", *words)
        third = sandrl("eval", "--resume", run.name, "--json", *words)
    assert (first.returncode, "Traceback" in first.stderr) == (3, False), first.stderr
    assert f"hint: sandrl eval --resume {run.name}" in first.stderr
    document = json.loads(first.stdout)
    results = document["results"]
    assert [result["id"].partition("#")[2] for result in results] == ["1", "2", "3", "4"] * 5
    for place, (_, reason) in LASTING.items():
        assert (results[place]["reward"], results[place]["status"]) == (None, "infrastructure")
        assert reason in results[place]["detail"]
        assert (kept[place].text, reason in kept[place].failure) == (None, True)
    assert document["summary"]["n"] == 20
    assert document["summary"]["unscorable"] == len(LASTING)
    assert [document["summary"][name] for name in ("scored", "total_reward")] == [12, 7.0]

    assert second.returncode == 0, second.stderr
    assert sorted(script.asked) == sorted(LASTING), "only what is missing is asked for"
    document = json.loads(second.stdout)
    assert [result["reward"] for result in document["results"]] == [float(place % 2 == 0) for place in range(20)]
    assert document["summary"]["n"] == document["summary"]["scored"] == 20
    assert (document["summary"]["pass_rate"], document["samples"]) == (0.5, SAMPLES)
    rows = trajectories(run)
    assert [rows[place].reward for place in range(20)] == [float(place % 2 == 0) for place in range(20)]
    reader = RunReader(run)
    assert [job.outcome for job in reader.config.jobs][:2] == ["finished", "finished"]
    (metrics,) = reader.metrics().rows
    names = ("completions", "scored", "unscorable", "reward/total", "pass_rate")
    assert [metrics.metrics[name] for name in names] == [20, 20, 0, 10, 0.5]

    assert (third.returncode, script.asked) == (0, script.asked[: len(LASTING)]), "nothing is left to ask"
    assert json.loads(third.stdout)["summary"] == document["summary"]


def test_a_server_that_dies_ends_the_evaluation_soon_and_what_it_said_is_scored(sandrl: Run, tmp_path: Path) -> None:
    server = ScriptedModel(lambda question: solution(question) if question.number < 7 else Fault(cut=True))
    words = ("--runs-dir", tmp_path / "runs", "--request-retries", "0", "--batch-size", "1")
    with server:
        first = sandrl("eval", "--base-url", server.base_url, *EVAL, *words)
    assert (first.returncode, "Traceback" in first.stderr) == (3, False), first.stderr
    run = run_of(tmp_path)
    rows = trajectories(run)
    assert [rows[place].reward for place in range(7)] == [float(place % 2 == 0) for place in range(7)]
    # The request after the eighth failure may be on its way when that failure is counted.
    assert len(server.questions) - 7 in (8, 9), "an endpoint that failed eight times in a row is not asked any more"
    assert rows[19].detail.startswith("not sent, because 8 requests in a row had no answer; the last one: ")
    with ScriptedModel(solution) as other:
        second = sandrl("eval", "--resume", run.name, "--base-url", other.base_url, "--json", *words[:2])
    assert second.returncode == 0, second.stderr
    assert len(other.questions) == 13
    assert json.loads(second.stdout)["summary"]["pass_rate"] == 0.5


def test_a_key_that_is_refused_in_the_middle_ends_the_run_and_loses_nothing(sandrl: Run, tmp_path: Path) -> None:
    def script(question: Question) -> Answer:
        return solution(question) if question.number < 6 else Fault(401, body={"error": {"message": "expired"}})

    words = ("--runs-dir", tmp_path / "runs", "--batch-size", "1")
    with ScriptedModel(script) as server:
        first = sandrl("eval", "--base-url", server.base_url, *EVAL, *words, OPENAI_API_KEY="sk-very-secret")
        run = run_of(tmp_path)
        assert (first.returncode, "HTTP 401: expired" in first.stderr) == (3, True), first.stderr
        assert "sk-very-secret" not in first.stderr + "".join(path.read_text() for path in run.glob("*.json*"))
        assert f"sandrl eval --resume {run.name}" in first.stderr
        assert sorted(answers(run)) == list(range(6))
        assert sorted(trajectories(run)) == list(range(6)), "what came is scored all the same"
        server._script = solution
        second = sandrl("eval", "--resume", run.name, "--json", *words[:2])
    assert (second.returncode, json.loads(second.stdout)["summary"]["scored"]) == (0, 20), second.stderr
    assert len(server.questions) == 6 + 1 + 14


def test_answers_that_a_killed_job_had_not_scored_are_scored_and_not_asked_for_again(
    sandrl: Run, tmp_path: Path
) -> None:
    with ScriptedModel(solution) as server:
        words = ("eval", "--base-url", server.base_url, *EVAL, "--runs-dir", tmp_path / "runs")
        assert sandrl(*words).returncode == 0
        run = run_of(tmp_path)
        # As the death of the process leaves a run: the last lines are missing, or cut.
        for name, keep in (("trajectories", 5), ("answers", 15)):
            lines = (run / f"{name}.jsonl").read_bytes().splitlines(keepends=True)
            (run / f"{name}.jsonl").write_bytes(b"".join(lines[:keep]) + lines[keep][:40])
        (run / "metrics.jsonl").unlink()
        server.questions.clear()
        done = sandrl("eval", "--resume", str(run), "--json")
    assert (done.returncode, len(server.questions)) == (0, 5), done.stderr
    summary = json.loads(done.stdout)["summary"]
    assert (summary["n"], summary["scored"], summary["pass_rate"]) == (20, 20, 0.5)
    rows = trajectories(run)
    assert [rows[place].reward for place in range(20)] == [float(place % 2 == 0) for place in range(20)]
    (metrics,) = RunReader(run).metrics().rows
    assert metrics.metrics["completions"] == 20


def test_ctrl_c_cancels_what_is_being_asked_and_keeps_what_came(tmp_path: Path) -> None:
    def script(question: Question) -> Answer:
        return solution(question) if question.body["seed"] < 4 else Fault(pause_seconds=30.0)

    with ScriptedModel(script) as server:
        words = [*SANDRL, "eval", "--base-url", server.base_url, *EVAL[:4], "--runs-dir", str(tmp_path / "runs")]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
        while len(server.questions) < 20 or len(scored_lines(tmp_path)) < 4:
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=20)
        run = run_of(tmp_path)
    assert process.returncode == 130, told
    assert "interrupted: 4 of 20 completions are scored and saved in" in told
    assert f"sandrl eval --resume {run.name}" in told
    assert sorted(answers(run)) == [0, 1, 2, 3]


def scored_lines(tmp_path: Path) -> list[str]:
    files = list((tmp_path / "runs").glob("*/trajectories.jsonl"))
    return files[0].read_text().splitlines() if files else []


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--samples", "2"), "--samples: the run {run!r} has 4, not 2"),
        (("--model", "other"), "--model: the run {run!r} has scripted, not other"),
        (("--temperature", "0.5"), "--temperature: the run {run!r} has 1.0, not 0.5"),
        (("--reward", "fraction"), "--reward: the run {run!r} has binary, not fraction"),
        (("--run-name", "again"), "--run-name: a resumed run already has a name"),
    ],
)
def test_an_evaluation_is_resumed_as_it_was_begun(
    sandrl: Run, tmp_path: Path, words: tuple[str, ...], complaint: str, evaluated: Path
) -> None:
    done = sandrl("eval", "--resume", str(evaluated), *words)
    assert (done.returncode, complaint.format(run=evaluated.name) in done.stderr) == (2, True), done.stderr


def test_only_an_evaluation_of_the_same_problems_is_resumed(sandrl: Run, tmp_path: Path, evaluated: Path) -> None:
    config = evaluated / "config.json"
    before: dict[str, Any] = json.loads(config.read_text())
    config.write_text(json.dumps({**before, "options": {**before["options"], "problems": "bundled"}}))
    done = sandrl("eval", "--resume", str(evaluated))
    assert (done.returncode, "the content of bundled has changed" in done.stderr) == (2, True), done.stderr
    config.write_text(json.dumps({**before, "command": "reward"}))
    done = sandrl("eval", "--resume", str(evaluated))
    assert (done.returncode, "is a run of `sandrl reward`" in done.stderr) == (2, True), done.stderr


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished evaluation."""
    path = tmp_path_factory.mktemp("evaluated")
    with ScriptedModel(solution) as server:
        words = [*SANDRL, "eval", "--base-url", server.base_url, *EVAL, "--runs-dir", str(path / "runs")]
        done = subprocess.run(words, capture_output=True, text=True, cwd=path, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^Run: ", done.stderr, re.MULTILINE)
    return run_of(path)
