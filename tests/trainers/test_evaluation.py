"""`sandrl eval` with a model in its process: asked, judged, reported, interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sandrl.errors import UsageError
from sandrl.models import Stopped
from sandrl.runs import RunReader

EVAL = (sys.executable, "-m", "sandrl", "eval")
Evaluate = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def evaluate(tmp_path: Path, tiny_directory: Path) -> Evaluate:
    def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
        argv = [*EVAL, *map(str, words)]
        return subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path, timeout=170, check=False)

    return run


def test_a_sampled_evaluation_is_one_json_document_with_its_run(evaluate: Evaluate, tmp_path: Path) -> None:
    done = evaluate("--num-problems", 96, "--samples", 5, "--json", "--runs-dir", tmp_path, "--run-name", "sampled")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [document[name] for name in ("model", "source", "problems", "samples", "temperature")] == [
        "tiny",
        "tiny:test",
        96,
        5,
        1.0,
    ]
    summary = document["summary"]
    assert (summary["n"], summary["unscorable"]) == (480, 0)
    # What the tiny policy promises is 0.35 to 0.46, measured on more than this.
    assert 0.28 < summary["pass_at_k"]["1"] < 0.53
    assert summary["pass_at_k"]["1"] < summary["pass_at_k"]["5"]
    assert [result["id"] for result in document["results"][:6]] == [
        *(f"{document['results'][0]['task_id']}#{number}" for number in range(1, 6)),
        f"{document['results'][5]['task_id']}#1",
    ]
    run = RunReader(tmp_path / "sampled")
    assert (run.config.command, run.config.options["model"], run.config.options["samples"]) == ("eval", "tiny", 5)
    rows = run.trajectories().rows
    assert sorted(row.index for row in rows) == list(range(480))
    assert all((row.completion or "").startswith("<answer>") for row in rows[:20])
    assert "Model: tiny, 96 problems, 5 completions per problem" in done.stderr
    assert "Loading" not in done.stderr


def test_a_saved_policy_is_evaluated_by_its_directory(evaluate: Evaluate, tmp_path: Path, tiny_directory: Path) -> None:
    (tmp_path / "policy").symlink_to(tiny_directory)
    done = evaluate("--model", "policy", "--problems", "toy", "--samples", 2, "--max-tokens", 24)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == [
        "Model: policy, sampled at temperature 1",
        "Problems: 5 of toy, 2 completions per problem",
    ]


def test_ctrl_c_saves_what_is_scored(tmp_path: Path, tiny_directory: Path) -> None:
    argv = [*EVAL, "--samples", "50", "--batch-size", "8", "--run-name", "cut", "--runs-dir", str(tmp_path)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    rows = tmp_path / "cut" / "trajectories.jsonl"
    while not rows.exists():
        assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=120)
    assert process.returncode == 130, told
    assert "of 9500 completions are scored and saved in" in told
    run = RunReader(tmp_path / "cut")
    assert run.config.jobs[0].outcome == "interrupted"
    assert 0 < len(run.trajectories().rows) < 9500


def test_an_evaluation_that_was_killed_is_completed(evaluate: Evaluate, tmp_path: Path) -> None:
    words = ("--num-problems", 6, "--samples", 2, "--batch-size", 4, "--runs-dir", tmp_path, "--run-name", "killed")
    assert evaluate(*words).returncode == 0
    run = tmp_path / "killed"
    for name, keep in (("trajectories", 3), ("answers", 8)):
        lines = (run / f"{name}.jsonl").read_bytes().splitlines(keepends=True)
        (run / f"{name}.jsonl").write_bytes(b"".join(lines[:keep]) + lines[keep][:20])
    done = evaluate("--resume", run, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["summary"]["n"] == 12
    reader = RunReader(run)
    assert sorted(row.index for row in reader.trajectories().rows) == list(range(12))
    asked_anew = [row.index for row in reader.answers().rows if row.job_id == reader.config.jobs[-1].job_id]
    assert len(asked_anew) == 4


def test_a_model_in_this_process_says_what_it_can_do_and_does_it(tiny_directory: Path) -> None:
    from sandrl.models import Message, Question, Sampling
    from sandrl.models.in_process import InProcessModel

    stop = threading.Event()
    model = InProcessModel(str(tiny_directory), Sampling(temperature=0.0, max_tokens=24), batch_size=2, stop=stop)
    said = [Message("user", "Write a function that adds one.")]
    alone = model.reply(said).message
    assert (alone.role, bool(alone.content)) == ("assistant", True)
    answers = list(model.answers([Question(number, said) for number in (7, 8, 9)]))
    assert [each.number for each in answers] == [7, 8, 9]
    assert {each.reply.message.content for each in answers if each.reply} == {alone.content}
    with pytest.raises(UsageError, match="cannot use tools"):
        model.reply(said, [{"name": "execute_code"}])
    stop.set()
    with pytest.raises(Stopped):
        model.reply(said)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--model", "./nowhere"), "there is no model './nowhere'"),
        (("--model", "."), "does not contain a model: it has neither config.json nor adapter_config.json"),
        (("--greedy", "--samples", 2), "all greedy completions of a problem are the same"),
        (("--greedy", "--temperature", 0.5), "--greedy and --temperature cannot be used together"),
        (("--max-tokens", 0), "'--max-tokens': Input should be greater than or equal to 1"),
        (("--temperature", -1), "'--temperature': Input should be greater than or equal to 0"),
        (("--problems", "tiny:dev"), "tiny has no split 'dev'"),
    ],
)
def test_what_cannot_be_evaluated_is_said_in_a_line(evaluate: Evaluate, words: tuple[str, ...], complaint: str) -> None:
    done = evaluate(*words)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
