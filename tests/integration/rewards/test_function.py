"""The reward function in real sandboxes, with the batches that trainers pass."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

import sandrl
from sandrl.errors import InfrastructureError, InputError, InterruptedRunError
from sandrl.judge.guest_report import Execution
from sandrl.judge.verdict import Verdict
from sandrl.problems import Problem
from sandrl.rewards import Components, Judge
from sandrl.rewards.function import RewardFunction
from sandrl.runs.rows import SandboxEvent, SandboxRow
from sandrl.sandboxes import CommandOutcome, Connection, Interrupt, Job, new_job_id
from sandrl.scoring.context import ScoringContext

INC = Problem("inc", "Add one.", tests=("assert f(1) == 2", "assert f(2) == 3"))
RIGHT, HALF = "<answer>def f(x): return x + 1</answer>", "<answer>def f(x): return 2</answer>"


def chat(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


def test_a_batch_of_conversations_and_one_of_texts_get_the_same_rewards(job: Job) -> None:
    function = sandrl.reward_function([INC], job=job)
    asked = [[{"role": "user", "content": "Add one."}]] * 3
    answers = [RIGHT, HALF, "I cannot."]
    columns = {"completion_ids": [[1]] * 3, "trainer_state": object(), "log_extra": None}
    assert function(asked, [chat(answer) for answer in answers], **columns) == [1.0, 0.0, 0.0]
    assert function(prompts=["Add one."] * 3, completions=answers, task_id=["inc"] * 3) == [1.0, 0.0, 0.0]
    assert function.last_report is not None
    assert (function.last_report.summary.cache_hits, function.last_report.summary.no_code) == (2, 1)


def test_policy_and_components_make_the_number_that_is_trained_on(job: Job) -> None:
    function = sandrl.reward_function([INC], job=job, reward="fraction", components=Components(format_reward=0.25))
    logged: dict[str, float] = {}
    rewards = function(["Add one."] * 3, [RIGHT, HALF, "So: " + HALF], log_metric=logged.__setitem__)
    assert rewards == [1.25, 0.75, 0.5]
    assert logged["sandrl/pass_rate"] == pytest.approx(1 / 3)
    assert logged["sandrl/unscorable"] == 0


def test_sandboxes_of_a_step_are_found_by_the_step(connection: Connection) -> None:
    intents: list[tuple[str, ...]] = []

    def ledger(row: SandboxRow) -> None:
        if row.event is SandboxEvent.INTENT:
            intents.append(row.tags)

    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=60, ledger=ledger) as job:
        function = sandrl.reward_function([INC], job=job)
        function(["Add one."], [RIGHT], trainer_state=SimpleNamespace(global_step=7))
        function(["Add one."], [HALF])
    assert [tags[-2:] for tags in intents] == [("problem-inc", "step-7"), (job.tags[-1], "problem-inc")]


def test_an_episode_that_was_lost_cannot_be_scored_whatever_it_submitted(job: Job) -> None:
    function = sandrl.reward_function([INC], job=job)
    right = "def f(x): return x + 1"
    environments = [SimpleNamespace(submission=right, loss=""), SimpleNamespace(submission=right, loss="it is gone")]
    assert function(["Add one."] * 2, ["Done."] * 2, environments=environments) == [1.0, None]
    assert function.last_report is not None
    lost = function.last_report.results[1]
    assert (lost.status, lost.detail, lost.sandboxes) == ("infrastructure", "it is gone", 0)


async def test_batches_can_be_awaited_at_the_same_time(job: Job) -> None:
    score = sandrl.reward_function([INC], job=job).as_async()
    batches = await asyncio.gather(*(score(["Add one."], [text]) for text in (RIGHT, HALF, RIGHT)))
    assert batches == [[1.0], [0.0], [1.0]]


class _MuteJudge(Judge):
    def interpret(self, execution: Execution, outcome: CommandOutcome) -> Verdict:
        raise InfrastructureError("no verdict")


@pytest.mark.parametrize(("word", "expected"), [("mask", [None]), ("zero", [-0.5]), ("raise", InfrastructureError)])
def test_what_has_no_reward_becomes_what_was_asked_for(job: Job, word: str, expected: Any) -> None:
    function = sandrl.reward_function([INC], job=job, retries=0, on_infrastructure_error=word, fallback_reward=-0.5)
    function._context = ScoringContext.of(function._options.score, _MuteJudge(), job.connection)
    if isinstance(expected, list):
        assert function(["Add one."], [RIGHT]) == expected
    else:
        with pytest.raises(expected, match="could not be scored: infrastructure: no verdict"):
            function(["Add one."], [RIGHT])


def test_a_broken_problem_is_bad_input_where_errors_are_to_be_raised(job: Job) -> None:
    unsplittable = Problem("id", "Same.", tests=("import logging\nlogging.getLogger().setLevel(10)\nassert f() == 10",))
    function = sandrl.reward_function([unsplittable], job=job, require_isolated=True, on_infrastructure_error="raise")
    with pytest.raises(InputError, match="not_isolated"):
        function(["Same."], ["<answer>import logging\ndef f():\n    return logging.getLogger().level\n</answer>"])


def test_a_batch_torn_open_by_ctrl_c_does_not_disturb_the_next(job: Job) -> None:
    function = sandrl.reward_function([INC], job=job)
    slow = f"<answer>import time\ntime.sleep(1)\n{RIGHT[8:]}"
    main = threading.main_thread().ident
    assert main is not None
    threading.Timer(0.4, signal.pthread_kill, (main, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        function(["Add one."], [slow])
    assert function(["Add one."] * 2, [RIGHT, HALF]) == [1.0, 0.0]


@pytest.mark.usefixtures("connection")
def test_a_job_of_its_own_ends_with_the_process_and_leaves_no_sandbox() -> None:
    program = (
        "import sandrl\n"
        "inc = sandrl.Problem('inc', 'Add one.', tests=('assert f(1) == 2',))\n"
        "told = []\n"
        "function = sandrl.reward_function([inc], emit=told.append)\n"
        "import atexit\n"
        "atexit.register(lambda: print([type(event).__name__ for event in told].count('SandboxStopped')))\n"
        f"print(function(['Add one.'], [{RIGHT!r}]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "[1.0]\n1\n"), done.stderr
    assert done.stderr == ""


def test_a_wish_to_cancel_ends_the_batch_and_each_result_is_told_as_it_comes(job: Job) -> None:
    interrupt, told = Interrupt(), []
    function = RewardFunction(
        {"inc": INC},
        job=job,
        interrupt=interrupt,
        on_result=lambda result, completion: told.append((result.reward, completion.completion)),
    )
    assert function(["Add one."], [RIGHT]) == [1.0]
    assert told == [(1.0, RIGHT)]
    interrupt.request(signal.SIGINT)
    interrupt.request(signal.SIGINT)
    with pytest.raises(InterruptedRunError, match="2 of 2 completions of the batch were not scored"):
        function(["Add one."] * 2, [HALF, HALF + " "])
