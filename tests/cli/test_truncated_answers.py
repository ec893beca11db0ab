"""Answers that are cut off at a token limit, or are nothing but reasoning, as a user of `sandrl eval` sees them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sandrl.problems import load_problems
from sandrl.runs import RunReader
from tests.cli.conftest import Run
from tests.support.chat_server import ChatServer
from tests.support.scripted_model import MODEL, Says

PROBLEMS = load_problems("toy").problems
PROMPTS = {problem.prompt: problem for problem in PROBLEMS.values()}


def reasoner(body: dict[str, Any]) -> Says:
    """Right; but of five answers one is cut off within its code, one within its reasoning, and one has no text."""
    answer = f"<answer>\n{PROMPTS[body['messages'][-1]['content']].reference}</answer>"
    match body["seed"]:
        case 0:
            return Says(answer[: len(answer) // 2], finish_reason="length")
        case 1:
            return Says(None, finish_reason="length", beside={"reasoning_content": "Let me think. def f"})
        case 2:
            return Says(None, beside={"reasoning": f"I would write {answer}"})
        case 3:
            return Says(answer, finish_reason="length", beside={"reasoning_content": "Easy."})
    return Says(answer)


def lines_of(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()]


def test_truncated_answers_are_counted_named_and_told_apart(sandrl: Run, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "cut"
    with ChatServer(reasoner) as server:
        words = ("--base-url", server.base_url, "--problems", "toy", "--samples", "1", "--run-name", "cut")
        done = sandrl("eval", *words, "--runs-dir", run.parent)
        again = sandrl("eval", "--resume", run, "--json")
    assert done.returncode == 0, done.stderr
    assert "Truncated: 3/5 (60%) completions were cut off at the token limit" in done.stdout.splitlines()[:6]
    assert "warning: 3 of 5 completions (60%) were cut off" in done.stderr
    assert "hint: allow longer answers with --max-tokens" in done.stderr
    document = json.loads(again.stdout)
    assert document["summary"]["truncated_answers"] == 3
    assert [each["finish_reason"] for each in document["results"]] == ["length", "length", "stop", "length", "stop"]
    details = {row.index: (row.status, row.detail) for row in RunReader(run).trajectories().rows}
    assert details[0][0] in ("failed", "syntax_error")
    assert details[0][1].endswith("; the answer was cut off at 2 tokens")
    no_code = "no code was found in the completion; "
    assert details[1] == ("no_code", no_code + "the answer was cut off within its reasoning at 1 token")
    assert details[2] == ("no_code", no_code + "the answer has only reasoning, and no text")
    assert details[3] == details[4] == ("passed", "")
    shown = sandrl("runs", "show", run, "--truncated")
    assert [name for name in PROBLEMS if f" {name} (" in shown.stdout] == [list(PROBLEMS)[at] for at in (0, 1, 3)]
    assert "Let me think." in shown.stdout
    assert "truncated_completions: completions/clipped_ratio: 60%, threshold 2%" in shown.stdout
    metrics = json.loads(sandrl("metrics", run, "--json").stdout)
    assert "truncated_answers" in json.dumps(metrics)


def test_no_limit_is_sent_unless_it_is_asked_for_and_the_command_says_so(sandrl: Run) -> None:
    with ChatServer(lambda body: "<answer>\n</answer>", models=[{"id": MODEL, "max_model_len": 4096}]) as server:
        words = ("eval", "--base-url", server.base_url, "--problems", "toy", "--greedy")
        done, limited = sandrl(*words), sandrl(*words, "--max-tokens", "7", "--json")
    said = "Token limit: the endpoint decides, because no limit is sent; the context of scripted has 4096 tokens"
    assert said in lines_of(done.stderr)
    assert "Token limit" not in limited.stderr
    assert {request.get("max_tokens") for request in server.requests[:5]} == {None}
    assert {request["max_tokens"] for request in server.requests[5:]} == {7}
    assert json.loads(limited.stdout)["max_tokens"] == 7


@pytest.mark.parametrize(
    "row",
    [
        {"completion": "def f", "finish_reason": "length"},
        {"response": {"body": {"choices": [{"message": {"content": "def f"}, "finish_reason": "length"}]}}},
        {"epoch": 1, "output": {"choices": [{"message": {"content": "def f"}, "stop_reason": "max_tokens"}]}},
    ],
    ids=["own", "openai-batch", "inspect"],
)
def test_files_of_completions_tell_why_answers_ended(sandrl: Run, tmp_path: Path, row: dict[str, Any]) -> None:
    name = "custom_id" if "response" in row else "id" if "epoch" in row else "task_id"
    (tmp_path / "answers.jsonl").write_text(json.dumps({name: next(iter(PROBLEMS)), **row}) + "\n")
    done = sandrl("reward", "answers.jsonl", "--problems", "toy", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    (result,) = document["results"]
    assert "the answer was cut off at the token limit" in result["detail"]
    assert (document["summary"]["truncated_answers"], result["reward"]) == (1, 0.0)
    assert "generate these completions again with a higher token limit" in done.stderr
