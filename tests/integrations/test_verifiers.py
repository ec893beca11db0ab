"""The taskset of verifiers, evaluated by the real `vf-eval` against a scripted endpoint."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sandrl.errors import UsageError
from sandrl.integrations import verifiers as adapter
from sandrl.problems import load_problems
from tests.support.chat_server import ChatServer

pytestmark = [pytest.mark.needs("verifiers"), pytest.mark.timeout(600)]

RIGHT = "<answer>def f(x): return x + 1</answer>"


@dataclass(frozen=True)
class Evaluated:
    code: int
    output: str
    traces: list[dict[str, Any]]


Evaluate = Callable[..., Evaluated]


@pytest.fixture
def evaluate(tmp_path: Path) -> Evaluate:
    def run(*words: str, answer: Callable[[str], str], taskset: str = adapter.TASKSET) -> Evaluated:
        with ChatServer(lambda body: answer(body["messages"][-1]["content"])) as model:
            done = subprocess.run(
                [
                    *(str(Path(sys.executable).with_name("vf-eval")), taskset, "--model", "scripted"),
                    *("--client.base-url", model.base_url, "--no-push", "--no-rich", "--run.name", "run", *words),
                ],
                cwd=tmp_path,
                env={**os.environ, "PRIME_API_KEY": "none", "HOME": str(tmp_path), "PYTHONPATH": str(tmp_path)},
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
        file = tmp_path / "outputs" / "run" / "traces.jsonl"
        lines = file.read_text("utf-8").splitlines() if file.exists() else []
        traces = [trace for line in lines for trace in json.loads(line)["traces"]]
        traces.sort(key=lambda trace: int(trace["task"]["data"]["idx"]))
        return Evaluated(done.returncode, done.stdout + done.stderr, traces)

    return run


def test_vf_eval_evaluates_the_bundled_problems(evaluate: Evaluate, place: str | None) -> None:
    problems = list(load_problems("bundled").problems.values())[:20]

    def answer(asked: str) -> str:
        found = next(number for number, problem in enumerate(problems) if problem.prompt.strip()[:80] in asked)
        return f"<answer>{problems[found].reference}</answer>" if found % 2 else "I cannot."

    service = () if place is None else ("--env.taskset.task.service", place)
    done = evaluate("-n", "20", *service, answer=answer)
    assert done.code == 0, done.output
    assert [trace["task"]["data"]["task_id"] for trace in done.traces] == [problem.task_id for problem in problems]
    assert [trace["rewards"]["code"]["score"] for trace in done.traces] == [0.0, 1.0] * 10
    assert [trace["metrics"]["passed"] for trace in done.traces] == [0.0, 1.0] * 10
    assert [trace["info"]["sandrl"]["status"] for trace in done.traces] == ["no_code", "passed"] * 10
    assert all(trace["ok"] for trace in done.traces)


def test_no_hidden_check_stands_in_what_verifiers_writes(evaluate: Evaluate, problem_file: str) -> None:
    done = evaluate("--env.taskset.problems", problem_file, "-n", "1", answer=lambda _: RIGHT)
    assert done.code == 0, done.output
    assert "assert f(1) == 2" in json.dumps(done.traces)
    assert "assert f(2) == 3" not in json.dumps(done.traces)


def test_what_cannot_be_scored_is_an_error_of_its_rollout_and_no_reward(evaluate: Evaluate, problem_file: str) -> None:
    wrong = "<answer>def f(x): return None</answer>"
    options = ("--env.taskset.task.options.reward", "fraction")
    done = evaluate("--env.taskset.problems", problem_file, *options, answer=lambda _: wrong)
    right, broken = done.traces
    assert (right["ok"], right["rewards"]["code"]["score"]) == (True, 0.0)
    assert (broken["ok"], broken["rewards"]) == (False, {"code": None})
    assert broken["errors"][-1]["type"] == "TaskError"
    assert "invalid_problem" in broken["errors"][-1]["message"]
    assert broken["metrics"]["unscorable"] == 1.0


def test_a_harness_that_runs_commands_is_refused_on_this_machine(evaluate: Evaluate) -> None:
    done = evaluate("-n", "1", "--env.agent.harness.id", "bash", answer=lambda _: RIGHT)
    assert done.code != 0
    assert "would run the model's commands on this machine, in no sandbox" in done.output
    assert not done.traces


_OWN_TASKSET = """
import verifiers.v1 as vf
from sandrl.integrations.verifiers import score_reply
from sandrl_verifiers import CodeEnv, CodeHarness

class Harness(CodeHarness):
    pass

class Env(CodeEnv):
    pass

class Task(vf.Task[vf.TaskData, vf.State, vf.TaskConfig]):
    @vf.reward
    async def code(self, trace) -> float:
        row = {"prompt": self.data.prompt, "tests": ["assert f(1) == 2", "assert f(2) == 3"]}
        return await score_reply(row, trace, reward="fraction")

class Tasks(vf.Taskset[Task, vf.TasksetConfig]):
    def load(self):
        yield Task(vf.TaskData(prompt="Add one."), self.config.task)

__all__ = ["Env", "Harness", "Tasks"]
"""


def test_a_task_of_ones_own_scores_its_replies(evaluate: Evaluate, tmp_path: Path) -> None:
    (tmp_path / "own_tasks.py").write_text(_OWN_TASKSET, encoding="utf-8")
    done = evaluate(answer=lambda _: "<answer>def f(x): return 2 * x</answer>", taskset="own-tasks")
    assert done.code == 0, done.output
    assert [trace["rewards"]["code"]["score"] for trace in done.traces] == [0.5]
    assert done.traces[0]["info"]["sandrl"]["passed"] == 1


async def test_the_environment_is_made_in_python_and_references_are_valid(place: str | None) -> None:
    env = adapter.load_environment("bundled", num_problems=3, service=place, timeout_seconds=20)
    tasks = list(env.taskset)
    assert [task.data.task_id for task in tasks] == list(load_problems("bundled").problems)[:3]
    assert [await task.validate(None) for task in tasks] == [True] * 3
    with pytest.raises(UsageError, match="rewrad"):
        adapter.load_environment(rewrad="binary")


async def test_a_broken_reference_is_invalid_and_a_problem_without_one_is_not_checked(problem_file: str) -> None:
    env = adapter.load_environment(problem_file)
    assert [await task.validate(None) for task in env.taskset] == [None, False]
