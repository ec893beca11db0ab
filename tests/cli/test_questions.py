"""Control over what a model is asked: one part of the configuration, for evaluations, rollouts and training alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sandrl.config.art import ArtTrainConfig
from sandrl.config.eval import EvalConfig
from sandrl.config.grpo import GrpoConfig
from sandrl.config.layers import resolve
from sandrl.config.parts import QuestionPart
from sandrl.errors import UsageError
from sandrl.problems import Problem, load_problems
from sandrl.problems.prompting import Prompting
from sandrl.runs import RunReader
from sandrl.trainers.config import resolve as resolve_grpo
from tests.cli.conftest import Run
from tests.support.chat_server import ChatServer
from tests.support.scripted_model import Fault, Question, Says, ScriptedModel

BUNDLED = load_problems("bundled").problems


def asked(**fields: Any) -> EvalConfig:
    """A configuration of a question."""
    return EvalConfig.model_validate(fields)


def answering(body: dict[str, Any]) -> str:
    return "<answer>\nprint('no')\n</answer>"


def test_all_that_is_asked_is_sent_and_kept_and_a_resumed_evaluation_asks_the_same(sandrl: Run, tmp_path: Path) -> None:
    (tmp_path / "system.txt").write_text("You write {language}.\n")
    run = tmp_path / "runs" / "asked"
    words = (
        *("--system-prompt", "@system.txt", "--prompt-template", "Task {task_id} {x}:\n{prompt}\nGo."),
        *("--few-shot", "2", "--few-shot-from", "bundled", "--top-p", "0.9", "--top-k", "20", "--min-p", "0.05"),
        *("--stop", "\\n\\n", "--stop", "END", "--extra-body", '{"chat_template_kwargs": {"enable_thinking": false}}'),
    )
    with ChatServer(answering) as server:
        base = ("--base-url", server.base_url, "--problems", "toy", "--samples", "1", "--num-problems", "2")
        printed = sandrl("eval", *base, *words, "--print-config")
        assert printed.returncode == 0, printed.stderr
        (tmp_path / "eval.toml").write_text(printed.stdout)
        done = sandrl("eval", "--config", "eval.toml", "--runs-dir", run.parent, "--run-name", run.name)
        assert done.returncode == 0, done.stderr
        (tmp_path / "system.txt").write_text("Another.\n")
        again = sandrl("eval", "--resume", run, "--json")
        changed = sandrl("eval", "--resume", run, "--system-prompt", "@system.txt")
        fewer = sandrl("eval", "--resume", run, "--few-shot", "1")
    bodies = server.requests
    assert again.returncode == 0, again.stderr
    assert len(bodies) == 2
    names = list(load_problems("toy").problems)
    for body, name in zip(sorted(bodies, key=lambda each: each["seed"]), names, strict=False):
        roles = [message["role"] for message in body["messages"]]
        assert roles == ["system", "user", "assistant", "user", "assistant", "user"]
        assert body["messages"][0]["content"] == "You write python."
        last = body["messages"][-1]["content"]
        assert (last.startswith(f"Task {name} {{x}}:\n"), last.endswith("\nGo.")) == (True, True)
        assert (body["top_p"], body["top_k"], body["min_p"], body["stop"]) == (0.9, 20, 0.05, ["\n\n", "END"])
        assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert (changed.returncode, "--system-prompt: the run" in changed.stderr) == (2, True)
    assert (fewer.returncode, "--few-shot: the run" in fewer.stderr) == (2, True)
    options = RunReader(run).config.options
    assert options["system_prompt"] == "You write {language}."
    prompts = {row.task_id: row.prompt for row in RunReader(run).problems().values()}
    assert prompts[names[0]].startswith(f"Task {names[0]}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--prompt-template", "Solve it."), "--prompt-template: has no {prompt}"),
        (("--extra-body", '{"temperature": 1}'), "temperature has an option of its own"),
        (("--extra-body", "not json"), "must be a JSON object"),
        (("--extra-body", "@nowhere.json"), "nowhere.json', which cannot be read: No such file"),
        (("--system-prompt", "@nowhere.txt"), "nowhere.txt', which cannot be read: No such file"),
        (("--few-shot-from", "toy"), "has no effect without --few-shot"),
        (("--few-shot", "40"), "different examples with a reference solution, and 41 are needed"),
        (("--temperature", "0", "--top-p", "0.5"), "--top-p: has no effect with"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_its_name(sandrl: Run, words: tuple[str, ...], said: str) -> None:
    with ChatServer(answering) as server:
        done = sandrl("eval", "--base-url", server.base_url, "--problems", "toy", *words)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert not server.requests


def test_what_an_endpoint_does_not_take_ends_the_command_with_the_name_of_the_option(sandrl: Run) -> None:
    def strict(question: Question) -> Says | Fault:
        if "top_k" in question.body:
            return Fault(400, body={"error": {"message": "Unrecognized request argument: top_k", "param": "top_k"}})
        return Says("x")

    with ScriptedModel(strict) as server:
        done = sandrl("eval", "--base-url", server.base_url, "--problems", "toy", "--top-k", "5")
    assert done.returncode == 2, done.stderr
    assert "--top-k: the endpoint does not take it: " in done.stderr


def test_rollouts_ask_with_the_same_options(sandrl: Run) -> None:
    with ScriptedModel([Says("```python\nx\n```")]) as server:
        words = ("--model", "scripted", "--problems", "toy", "--steps", "1", "--num-problems", "2")
        more = ("--problems-per-step", "2", "--max-attempts", "1", "--system-prompt", "Hm.", "--few-shot", "1")
        sandrl("art", "rollout", "--base-url", server.base_url, *words, *more, "--stop", "END", "--top-k", "3")
        tools = sandrl("art", "rollout", "--base-url", server.base_url, *words, "--rollout", "tools", "--few-shot", "1")
    assert server.questions
    for question in server.questions:
        assert [message["role"] for message in question.messages] == ["system", "user", "assistant", "user"]
        assert question.messages[0]["content"] == "Hm."
        assert (question.body["stop"], question.body["top_k"]) == (["END"], 3)
    assert (tools.returncode, "--few-shot: examples are texts" in tools.stderr) == (2, True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"max_attempts": 2}, "max_attempts: TRL generates one answer for each completion"),
        ({"stop": ["END"]}, "stop: TRL has stop strings only with"),
        ({"extra_body": {"guided_json": {}}}, "TRL takes only chat_template_kwargs of it, not guided_json"),
        ({"top_p": 0.9, "set": {"top_p": 0.5}}, "top_p also has an option of its own"),
        ({"rollout": "tools", "few_shot": 1}, "few_shot: examples are texts"),
    ],
)
def test_a_trainer_refuses_what_it_cannot_ask(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        resolve_grpo(given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"min_p": 0.1, "policy": "trained"}, "min_p: Tinker cannot sample the trained model with it"),
        ({"system_prompt": "Hm.", "trajectories": "run"}, "system_prompt: recorded episodes are not asked again"),
        ({"chat_template": "own"}, "chat_template: with Tinker, a renderer makes texts of conversations"),
        (
            {"judge_base_url": "http://localhost:1/v1", "trajectories": "run"},
            "judge_base_url: recorded episodes are not graded again",
        ),
        (
            {"max_flat_rounds": 9, "trajectories": "run"},
            "max_flat_rounds: recorded episodes are trained on to their end",
        ),
        ({"few_shot": 1, "rollout": "tools"}, "few_shot: examples are texts"),
    ],
)
def test_a_training_with_art_refuses_what_has_no_effect(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        resolve(ArtTrainConfig, {"backend": "tinker", "rollout": "attempts"}, given)


def test_a_trainer_passes_on_what_its_library_has_under_the_names_of_the_library() -> None:
    config = GrpoConfig.model_validate(
        {"model": "m", "problems": "toy", "top_p": 0.9, "top_k": 7, "extra_body": {"chat_template_kwargs": {"a": 1}}}
    )
    assert config.trl_fields == {"top_p": 0.9, "top_k": 7, "chat_template_kwargs": {"a": 1}}
    assert set(QuestionPart.model_fields) <= set(GrpoConfig.model_fields)


def test_an_evaluation_in_attempts_tells_the_model_what_failed_and_counts_its_last_answer(
    sandrl: Run, tmp_path: Path
) -> None:
    run = tmp_path / "runs" / "again"
    tests = [f"assert twice({number}) == {2 * number}" for number in (1, 5)]
    rows = [{"task_id": f"twice-{number}", "prompt": f"Write twice ({number}).", "tests": tests} for number in range(3)]
    (tmp_path / "twice.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    bodies = ("n + 1", "2 * n")

    def learns(question: Question) -> Says:
        # One learns from the first failure, one from the second, one never.
        lesson = int(question.messages[1]["content"].split("(")[1][0])
        return Says(f"```python\ndef twice(n):\n    return {bodies[question.turn > lesson and lesson < 2]}\n```")

    words = ("--problems", "twice.jsonl", "--samples", "2", "--max-attempts", "3", "--out", "out.jsonl")
    with ScriptedModel(learns) as server:
        done = sandrl("eval", "--base-url", server.base_url, *words, "--runs-dir", run.parent, "--run-name", run.name)
        again = sandrl("eval", "--resume", run, "--json")
        served = sandrl("eval", "--base-url", server.base_url, *words, "--service", "http://127.0.0.1:1")
    assert done.returncode == 0, done.stderr
    assert "Pass rate: 4/6 (67%)" in done.stdout
    assert len(server.questions) == 2 * (2 + 3 + 3)
    found = {row.id: row for row in RunReader(run).trajectories().rows}
    assert {name: (row.status, row.episode["attempts"]) for name, row in found.items()} == {
        f"twice-{number}#{sample}": expected
        for number, expected in enumerate((("passed", 2), ("passed", 3), ("failed", 3)))
        for sample in (1, 2)
    }
    first = found["twice-0#1"].messages
    assert [message.role for message in first] == ["system", "user", "assistant", "user", "assistant"]
    assert "Your code does what the task shows, but not all of what it asks for" in first[3].content
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 6
    summary = json.loads(again.stdout)["summary"]
    assert (summary["n"], summary["pass_at_k"]["1"]) == (6, pytest.approx(2 / 3))
    assert (served.returncode, "--max-attempts cannot be used with service" in served.stderr) == (2, True)


def test_a_problem_is_never_its_own_example_and_a_seed_chooses_the_examples(tmp_path: Path) -> None:
    def shown(**fields: Any) -> dict[str, tuple[str, ...]]:
        prompting = Prompting.of(asked(**fields), BUNDLED)
        said = {name: prompting.messages(problem) for name, problem in BUNDLED.items()}
        return {name: tuple(each["content"] for each in messages[1:-1:2]) for name, messages in said.items()}

    first = shown(few_shot=3)
    assert all(len(set(examples)) == 3 for examples in first.values())
    for name, examples in first.items():
        assert not any(example.startswith(BUNDLED[name].prompt.strip()) for example in examples)
    assert first == shown(few_shot=3)
    assert first != shown(few_shot=3, few_shot_seed=1)
    twin = next(iter(BUNDLED.values()))
    (tmp_path / "examples.jsonl").write_text(
        "".join(
            json.dumps({"prompt": text, "completion": f"answer to {text}"}) + "\n" for text in ("a", "b", twin.prompt)
        )
    )
    own = Prompting.of(asked(few_shot=2, few_shot_from=str(tmp_path / "examples.jsonl")), BUNDLED)
    said = own.messages(twin)
    assert [each["content"] for each in said[1:-1]] in (
        ["a", "answer to a", "b", "answer to b"],
        ["b", "answer to b", "a", "answer to a"],
    )


def test_examples_answer_in_the_form_that_is_asked_for() -> None:
    problem = Problem("p", "Add.", tests=("assert f(1) == 2",))
    other = {"q": Problem("q", "Subtract.", tests=("assert f(1) == 0",), reference="def f(x):\n    return x - 1\n")}
    tagged = Prompting.of(asked(few_shot=1, few_shot_from=None), {**other, "p": problem, "r": _like(other["q"])})
    assert tagged.messages(problem)[2]["content"].startswith("<answer>\ndef f")
    fenced = Prompting.of(asked(few_shot=1, system_prompt="Reply with code."), {**other, "r": _like(other["q"])})
    assert fenced.messages(problem)[2]["content"].startswith("```python\ndef f")
    silent = Prompting.of(asked(system_prompt="none"), other)
    assert [each["role"] for each in silent.messages(problem)] == ["user"]
    escaped = Prompting.of(asked(system_prompt="@@you"), other)
    assert escaped.messages(problem)[0]["content"] == "@you"


def _like(problem: Problem) -> Problem:
    return Problem("r", "Negate.", tests=problem.tests, reference=problem.reference)
