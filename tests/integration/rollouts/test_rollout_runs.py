"""Whole runs of episodes, many at once, against a server that fails now and then."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandrl.config.episodes import RolloutConfig
from sandrl.config.layers import resolve
from sandrl.errors import InputError, UsageError
from sandrl.events import Event, Warned, ignore
from sandrl.models import client
from sandrl.problems import Completion, load_problems
from sandrl.rewards import Verdict
from sandrl.rollouts.results import RolloutRun
from sandrl.rollouts.run import run_rollouts
from sandrl.runs import RunOutcome, RunReader, SandboxEvent, disagreements
from sandrl.sandboxes import Interrupt
from sandrl.settings import load_settings
from sandrl.trainers.art.groups import groups_of_rows
from tests.support.scripted_model import MODEL, Answer, Fault, Question, Says, ScriptedModel

PROBLEMS = load_problems("bundled").problems


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_FIRST_PAUSE_SECONDS", 0.01)


def reference(question: Question) -> str:
    asked = question.messages[1]["content"]
    found = next(problem for problem in PROBLEMS.values() if asked.startswith(problem.prompt.strip("\n")))
    assert found.reference is not None
    return found.reference


def solve(question: Question) -> Answer:
    """Looks around first; answers wrongly at every third problem."""
    wrong = sum(question.messages[1]["content"].encode()) % 3 == 0
    code = "def nothing(): pass" if wrong else reference(question)
    if "tools" not in question.body:
        return Says(f"```python\n{code}\n```")
    call = ("submit_solution", {"code": code}) if question.turn else ("execute_code", {"code": "print(1)"})
    return Says("", [call])


FAULTS = (
    Fault(429, {"Retry-After": "0.05"}),
    Fault(500),
    Fault(cut=True),
    Fault(raw=b"no json"),
    Fault(pause_seconds=25.0),
)


def unreliable(question: Question) -> Answer:
    """Every tenth answer is a fault, of each kind in turn; some questions are never answered."""
    if question.number % 10 == 9:
        return FAULTS[question.number // 10 % len(FAULTS)]
    return solve(question)


def run(
    server: ScriptedModel,
    runs_dir: Path,
    interrupt: Interrupt | None = None,
    emit: Callable[[Event], None] = ignore,
    **options: object,
) -> RolloutRun:
    where = {"model": MODEL, "base_url": server.base_url, "problems": "bundled", "runtime": "local"}
    request = resolve(RolloutConfig, where, {"runs_dir": runs_dir}, options)
    return run_rollouts(request, load_settings(), interrupt=interrupt, emit=emit)


def check_that_all_is_accounted_for(finished: RolloutRun, episodes: int) -> Counter[str]:
    reader = RunReader(finished.run_dir)
    rows = reader.trajectories().rows
    assert len(rows) == len({row.id for row in rows}) == episodes
    for row in rows:
        assert (row.reward is None) == row.dropped, row.detail
        assert not row.dropped or row.detail
        assert row.dropped or row.messages[-1].role in ("assistant", "tool")
    events = Counter(row.event for row in reader.sandboxes().rows)
    assert events[SandboxEvent.INTENT] == events[SandboxEvent.STOPPED]
    assert finished.cleanup_error is None
    assert disagreements(reader, is_complete=True) == ()
    return Counter("dropped" if row.dropped else row.status for row in rows)


@pytest.mark.parametrize("rollout", ["tools", "attempts"])
def test_a_server_with_faults_costs_episodes_only_where_it_never_answers(rollout: str, tmp_path: Path) -> None:
    with ScriptedModel(unreliable) as server:
        finished = run(
            server,
            tmp_path,
            rollout=rollout,
            steps=2,
            problems_per_step=10,
            request_retries=0,
            request_timeout_seconds=2.0,
        )
    found = check_that_all_is_accounted_for(finished, 20)
    # How many faults meet an episode depends on the order in which the episodes ask.
    assert found["dropped"] == finished.total.dropped >= 1
    assert found["passed"] == finished.total.passed > 0
    assert finished.total.passed < len(finished.total.rewards) == 20 - found["dropped"]


def test_a_wrong_row_is_left_out_where_that_is_asked_for(tmp_path: Path) -> None:
    problem = {"task_id": "one", "prompt": "Write one().", "tests": ["assert one() == 1"]}
    (tmp_path / "set.jsonl").write_text(f"{json.dumps(problem)}\n{{}}\n")
    told: list[Event] = []
    with ScriptedModel(lambda _: Says("```python\ndef one(): return 1\n```")) as server:
        where: dict[str, Any] = {
            "problems": str(tmp_path / "set.jsonl"),
            "samples": 1,
            "steps": 1,
            "rollout": "attempts",
        }
        with pytest.raises(InputError, match="jsonl:2"):
            run(server, tmp_path, **where)
        finished = run(server, tmp_path, emit=told.append, skip_bad_rows=True, **where)
    assert {row.task_id for row in RunReader(finished.run_dir).trajectories().rows} == {"one"}
    assert [each.message for each in told if isinstance(each, Warned) and "1 rows of problems skipped" in each.message]


def test_what_training_will_need_is_in_the_run(tmp_path: Path) -> None:
    with ScriptedModel(solve) as server:
        finished = run(server, tmp_path, rollout="tools", steps=1, problems_per_step=1, samples=2)
    reader = RunReader(finished.run_dir)
    first, second = reader.trajectories().rows
    assert (first.task_id, first.step) == (second.task_id, second.step)
    assert [message.role for message in first.messages][:3] == ["system", "user", "assistant"]
    sampled = [message for message in first.messages if message.role == "assistant"]
    assert all(message.tokens and len(message.tokens) == len(message.logprobs) for message in sampled)
    assert first.messages[3].tool_call_id == first.messages[2].tool_calls[0].id != ""
    assert first.tokens["completion"] == 2
    assert {"policy", "sandbox", "judge", "episode"} <= first.timing.keys()
    assert first.episode["end"] == "submitted"
    # What was judged is the code, not what was said along with it.
    assert (first.completion, first.code is None) == (None, False)
    options: dict[str, Any] = dict(reader.config.options)
    assert [tool["name"] for tool in options["tool_schemas"]] == ["execute_code", "submit_solution"]
    assert (options["learning_rate"], options["project"]) == (2e-5, "aviato-rl-demo")


def test_the_first_wish_to_stop_finishes_the_batch_and_the_second_ends_it(tmp_path: Path) -> None:
    for wishes in (1, 2):
        interrupt = Interrupt()

        def stop(question: Question, wishes: int = wishes, interrupt: Interrupt = interrupt) -> Answer:
            while interrupt.level < wishes:
                interrupt.request(2)
            return solve(question) if wishes == 1 else Fault(pause_seconds=5.0)

        with ScriptedModel(stop) as server:
            finished = run(server, tmp_path, interrupt, steps=3, problems_per_step=4)
        assert finished.signal_number == 2
        assert (len(finished.steps), finished.finished) == (1, 2 - wishes)
        assert len(finished.steps[0].rewards) == (4 if wishes == 1 else 0)
        assert finished.total.unfinished == (0 if wishes == 1 else 4)
        reader = RunReader(finished.run_dir)
        assert reader.config.jobs[0].outcome is RunOutcome.INTERRUPTED
        events = Counter(row.event for row in reader.sandboxes().rows)
        assert events[SandboxEvent.INTENT] == events[SandboxEvent.STOPPED]


def worded(verdict: Verdict, completion: Completion) -> float:
    """More than nothing for any code, and more for a pass."""
    return 0.25 + verdict.is_pass if completion.code else 0.0


def unwilling(verdict: Verdict, completion: Completion) -> float:
    """Refuses to value a pass."""
    if verdict.is_pass:
        raise ValueError("no opinion")
    return 0.0


@pytest.mark.parametrize("rollout", ["tools", "attempts"])
def test_a_reward_function_and_components_value_episodes_and_stand_in_their_rows(rollout: str, tmp_path: Path) -> None:
    with ScriptedModel(solve) as server:
        finished = run(
            server,
            tmp_path,
            steps=1,
            problems_per_step=6,
            rollout=rollout,
            reward=f"{__name__}:worded",
            length_penalty=0.5,
        )
    reader = RunReader(finished.run_dir)
    rows = reader.trajectories().rows
    assert {(row.status == "passed", row.reward) for row in rows} == {(True, 1.25), (False, 0.25)}
    assert all(row.components.keys() == {"length"} and row.components["length"] < 0 for row in rows)
    assert reader.config.options["reward"] == f"{__name__}:worded"
    assert reader.config.options["length_penalty"] == 0.5
    [groups] = groups_of_rows(rows).values()
    trained = {sample.id: sample.reward for group in groups for sample in group.samples}
    assert trained == {row.id: pytest.approx((row.reward or 0.0) + row.components["length"]) for row in rows}


def test_an_episode_is_judged_with_every_scoring_option(tmp_path: Path) -> None:
    liar = "class L:\n    def __eq__(self, other):\n        return True\ndef f(x):\n    return L()\n"
    rows: list[dict[str, object]] = [
        {"task_id": "lie", "prompt": "Add one.", "tests": ["assert f(1) == 2"]},
        {"task_id": "shared", "prompt": "Add two.", "tests": ["assert f.__globals__ is globals() and f(1) == 3"]},
    ]
    rows[1]["reference"] = "def f(x):\n    return x + 2\n"
    problems = tmp_path / "problems.jsonl"
    problems.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options: dict[str, Any] = {
        "problems": str(problems),
        "steps": 1,
        "problems_per_step": 2,
        "show_tests": 0,
        "max_attempts": 2,
        "second_opinion": 1.0,
        "require_isolated": True,
        "cache": tmp_path / "cache",
    }
    with ScriptedModel(lambda _: Says(f"```python\n{liar}```")) as server:
        first = run(server, tmp_path / "runs", **options)
        second = run(server, tmp_path / "runs", **options)
    for finished, is_cached in ((first, False), (second, True)):
        reader = RunReader(finished.run_dir)
        found = {row.task_id: row for row in reader.trajectories().rows}
        # The second attempt is the code of the first: one verdict, one opinion, that of the episode.
        assert (found["lie"].status, found["lie"].reward, found["lie"].cached) == ("failed", 0.0, is_cached)
        [opinion] = reader.opinions().rows
        assert (opinion.task_id, opinion.step, opinion.opinion.status) == ("lie", 0, "passed")
        assert (found["shared"].status, found["shared"].reward) == ("not_isolated", None)
        assert disagreements(reader, is_complete=True) == ()


def test_a_reward_function_that_fails_ends_the_run_when_the_step_is_written_down(tmp_path: Path) -> None:
    with (
        ScriptedModel(solve) as server,
        pytest.raises(UsageError, match=r"have no reward: .*raised ValueError: no "),
    ):
        run(server, tmp_path, steps=2, problems_per_step=6, rollout="attempts", reward=f"{__name__}:unwilling")
    [path] = tmp_path.iterdir()
    reader = RunReader(path)
    assert Counter(row.reward for row in reader.trajectories().rows).keys() == {None, 0.0}
    assert len(reader.trajectories().rows) == 6
    assert reader.config.jobs[0].outcome is RunOutcome.FAILED
