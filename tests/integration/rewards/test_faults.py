"""Real faults of real sandboxes: no result is lost, none is 0.0 that was not the code's fault, and totals add up."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from cwsandbox import AuthHeaders, Sandbox

from sandrl.config.scoring import RewardConfig
from sandrl.errors import InfrastructureError, RuntimeUnavailableError
from sandrl.events import CanaryFinished, Event, RetryScheduled, Warned
from sandrl.events.results import ScoredCompletion, Status
from sandrl.judge.calibration import PLAIN, Calibration
from sandrl.judge.guest_report import Execution
from sandrl.judge.judge import Judge
from sandrl.judge.limits import Limits
from sandrl.judge.verdict import Verdict
from sandrl.problems import Call, Completion, Problem
from sandrl.rewards import ScoreOptions, ScoreReport, run_reward, score
from sandrl.runs import WORKER_TAG, RunReader, SandboxEvent
from sandrl.runtime import daemon
from sandrl.sandboxes import CommandOutcome, Connection, Interrupt, Job, connect, new_job_id
from sandrl.sandboxes.providers.cwsandbox.client import SdkConnection
from sandrl.settings import RuntimeKind, Settings
from tests.support.assassin import Assassin

INC = Problem("inc", "Add one.", tests=("assert f(1) == 2",))
RIGHT, WRONG = "def f(x):\n    return x + 1\n", "def f(x):\n    return x\n"
SLOW = "import time\ntime.sleep(1.5)\n" + RIGHT
QUICK = ScoreOptions(backoff_seconds=0.01)


def completions(*codes: str) -> list[Completion]:
    return [Completion(f"c{number}", "inc", code=code) for number, code in enumerate(codes)]


def distinct(code: str, count: int) -> list[str]:
    return [f"# {number}\n{code}" for number in range(count)]


def assert_totals_add_up(report: ScoreReport) -> None:
    summary = report.summary
    assert summary.n == summary.executed + summary.cache_hits + summary.no_code
    assert summary.executions == summary.executed + summary.retries + summary.reruns
    assert summary.n == summary.scored + summary.unscorable


@contextmanager
def killing_sandboxes(connection: Connection, job_id: str, times: int) -> Iterator[None]:
    """Deletes the job's next sandboxes while they work, as an operator or a failing node would."""
    assert isinstance(connection, SdkConnection)
    auth = AuthHeaders(headers={"Authorization": f"Bearer {connection.token}"}, strategy="test")
    over = threading.Event()

    def work() -> None:
        killed: set[str] = set()
        while len(killed) < times and not over.wait(0.02):
            for sandbox in Sandbox.list(tags=[job_id], base_url=connection.address, auth=auth).result(30):
                if sandbox.sandbox_id and sandbox.sandbox_id not in killed:
                    time.sleep(0.2)  # let its command begin
                    killed.add(sandbox.sandbox_id)
                    deletion = Sandbox.delete(
                        sandbox.sandbox_id, base_url=connection.address, auth=auth, missing_ok=True
                    )
                    deletion.result(30)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("killed", [1, 3])
def test_who_lost_its_sandboxes_to_others_runs_once_more_after_the_last_one_when_the_canary_lives(
    connection: Connection, killed: int
) -> None:
    told: list[Event] = []
    options = ScoreOptions() if killed == 1 else QUICK
    with (
        Job(connection, job_id=new_job_id(), max_lifetime_seconds=60) as job,
        killing_sandboxes(connection, job.id, killed),
    ):
        report = score(completions(SLOW), {"inc": INC}, job=job, options=options, emit=told.append)
    [result] = report.results
    assert (result.status, result.reward, result.sandboxes, result.retries) == (
        Status.PASSED, 1.0, killed + 1, killed,
    )  # fmt: skip
    assert_totals_add_up(report)
    if killed == 3:
        assert [event.passed for event in told if isinstance(event, CanaryFinished)][-1]
        return
    [retry] = [event for event in told if isinstance(event, RetryScheduled)]
    assert result.failures == (retry.reason,)
    assert 0.25 < retry.delay_seconds < 0.75


@pytest.mark.parametrize("killed", [1, 3])
def test_a_reference_that_loses_its_sandbox_costs_no_completion_a_zero(
    connection: Connection, killed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SANDRL_CACHE_DIR", str(tmp_path))
    problem = Problem("inc", "Add one.", fn="f", calls=(Call.asking([1]),), reference=SLOW)
    with (
        Job(connection, job_id=new_job_id(), max_lifetime_seconds=60) as job,
        killing_sandboxes(connection, job.id, killed),
    ):
        report = score(completions(RIGHT, WRONG), {"inc": problem}, job=job, options=QUICK)
    if killed == 1:
        assert [result.reward for result in report.results] == [1.0, 0.0]
        assert [(result.sandboxes, result.retries) for result in report.results] == [(1, 0)] * 2
        assert_totals_add_up(report)
    else:
        assert [(result.status, result.reward) for result in report.results] == [(Status.INFRASTRUCTURE, None)] * 2
        assert not list(tmp_path.glob("references/*/*"))


@pytest.mark.parametrize("retries", [0, 2])
def test_a_completion_that_kills_its_sandbox_every_time_has_crashed(connection: Connection, retries: int) -> None:
    told: list[Event] = []
    with Assassin() as assassin, Job(connection, job_id=new_job_id(), max_lifetime_seconds=60) as job:
        codes = [assassin.code + RIGHT, *distinct(RIGHT, 3)]
        options = replace(QUICK, retries=retries, concurrency=2)
        report = score(completions(*codes), {"inc": INC}, job=job, options=options, emit=told.append)
    killer, *neighbours = report.results
    assert (killer.status, killer.reward) == (Status.CRASHED, 0.0)
    assert killer.sandboxes == assassin.kills == retries + 2
    assert killer.detail.startswith(
        f"its sandbox failed {retries + 2} times, and a known-good program ran without a failure: "
    )
    canaries = [event for event in told if isinstance(event, CanaryFinished)]
    assert [(event.passed, event.same_sandbox) for event in canaries] == [(False, True), (True, False)] * 2
    assert [result.reward for result in neighbours] == [1.0] * 3
    assert_totals_add_up(report)


@pytest.mark.parametrize("stays_away", [False, True])
def test_a_runtime_that_dies_in_the_middle_is_started_again_or_leaves_no_reward_and_no_zero(
    settings: Settings, stays_away: bool
) -> None:
    connection = connect(settings, runtime=RuntimeKind.LOCAL)
    endpoint = daemon.find(settings.state_dir)
    assert endpoint is not None
    told: list[Event] = []

    def refuse() -> Connection:
        raise RuntimeUnavailableError("it does not start")

    def kill_after_first(result: ScoredCompletion) -> None:
        if result.index == 0:
            os.kill(endpoint.pid, signal.SIGKILL)

    if stays_away:
        connection = replace(connection, renew=refuse)
    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=60, emit=told.append) as job:
        codes = (RIGHT, *distinct(SLOW, 2), WRONG)
        options = replace(QUICK, concurrency=2)
        report = score(completions(*codes), {"inc": INC}, job=job, options=options, on_result=kill_after_first)
    assert_totals_add_up(report)
    rewards = [result.reward for result in report.results]
    if stays_away:
        assert rewards == [1.0, None, None, None]
        assert {result.status for result in report.results[1:]} == {Status.INFRASTRUCTURE}
        assert report.results[-1].sandbox_id is None, "it never got a sandbox"
        assert report.results[-1].failures[-1] == "the runtime ended, and its sandboxes with it"
        assert (report.summary.scored, report.summary.infrastructure) == (1, 3)
    else:
        assert rewards == [1.0, 1.0, 1.0, 0.0]
        assert report.summary.retries >= 2
        assert any(isinstance(event, Warned) and "continues with another one" in event.message for event in told)
        assert job.cleanup_error() is None


@pytest.mark.parametrize("failing", [2, 3])
def test_creating_a_sandbox_may_fail_as_often_as_there_are_retries(connection: Connection, failing: int) -> None:
    told: list[Event] = []
    nowhere = replace(connection, address="http://127.0.0.1:9", renew=None)
    with Job(nowhere, job_id=new_job_id(), max_lifetime_seconds=60) as job:

        def heal(event: Event) -> None:
            told.append(event)
            if isinstance(event, RetryScheduled) and event.attempt == failing + 1:
                job.connection = connection
                job._session.direct_to(connection)

        report = score(completions(WRONG), {"inc": INC}, job=job, options=QUICK, emit=heal)
    [result] = report.results
    if failing == 2:
        assert (result.status, result.reward, result.sandboxes) == (Status.FAILED, 0.0, 3)
    else:
        assert (result.status, result.reward, result.sandboxes) == (Status.INFRASTRUCTURE, None, 3)
    assert result.retries == 2
    assert not any(isinstance(event, CanaryFinished) for event in told), "code that never ran needs no canary"
    assert_totals_add_up(report)


class _SilentJudge(Judge):
    """Loses the verdicts of some programs, as a runtime would that cannot run the judge."""

    def __init__(self, word: str) -> None:
        super().__init__()
        self._word = word
        self._lost: set[str] = set()

    def prepare(
        self, problem: Problem, code: str, limits: Limits, known: Calibration = PLAIN, *, together: bool = False
    ) -> Execution:
        execution = super().prepare(problem, code, limits, known, together=together)
        if self._word in code:
            self._lost.add(execution.key)
        return execution

    def interpret(self, execution: Execution, outcome: CommandOutcome) -> Verdict:
        if execution.key in self._lost:
            raise InfrastructureError("the judge ended with exit status 127 and no verdict")
        return super().interpret(execution, outcome)


def test_without_any_verdict_the_runtime_is_to_blame(job: Job) -> None:
    report = score(completions(RIGHT, WRONG), {"inc": INC}, job=job, judge=_SilentJudge(""), options=QUICK)
    assert [(result.status, result.reward) for result in report.results] == [(Status.INFRASTRUCTURE, None)] * 2
    assert [result.canaries for result in report.results] == [2, 2], "one in the same sandbox, one in a fresh one"
    assert_totals_add_up(report)


def test_who_alone_has_no_verdict_has_crashed_although_its_sandbox_lives(job: Job) -> None:
    told: list[Event] = []
    judge = _SilentJudge("# 1")
    report = score(
        completions(*distinct(RIGHT, 2)), {"inc": INC}, job=job, judge=judge, options=QUICK, emit=told.append
    )
    assert [(result.status, result.reward) for result in report.results] == [
        (Status.PASSED, 1.0),
        (Status.CRASHED, 0.0),
    ]
    canaries = [event for event in told if isinstance(event, CanaryFinished)]
    assert [(event.passed, event.same_sandbox) for event in canaries] == [(True, True)] * 2
    assert_totals_add_up(report)


def test_a_wish_to_stop_does_not_wait_for_retries(connection: Connection) -> None:
    interrupt = Interrupt()
    nowhere = replace(connection, address="http://127.0.0.1:9", renew=None)
    told: list[Event] = []

    def stop(event: Event) -> None:
        told.append(event)
        if isinstance(event, RetryScheduled):
            interrupt.request(signal.SIGINT)

    with Job(nowhere, job_id=new_job_id(), max_lifetime_seconds=60) as job:
        options = ScoreOptions(backoff_seconds=1000)
        report = score(completions(RIGHT), {"inc": INC}, job=job, options=options, emit=stop, interrupt=interrupt)
    assert (report.results, report.unfinished) == ((), 1)


@pytest.mark.parametrize("fresh", [False, True], ids=["cells", "fresh"])
def test_the_ledger_has_every_execution_and_marks_canaries(settings: Settings, tmp_path: Path, fresh: bool) -> None:
    problems, answers = tmp_path / "p.jsonl", tmp_path / "c.jsonl"
    problems.write_text('{"task_id": "inc", "prompt": "", "tests": ["assert f(1) == 2"]}\n')
    with Assassin() as assassin:
        lines = [{"task_id": "inc", "code": code} for code in (assassin.code, RIGHT, RIGHT, "")]
        answers.write_text("".join(json.dumps(line) + "\n" for line in lines))
        request = RewardConfig(
            completions=str(answers),
            problems=str(problems),
            runtime=RuntimeKind.LOCAL,
            runs_dir=tmp_path,
            retries=1,
            fresh_sandboxes=fresh,
        )
        finished = run_reward(request, settings)
    report = finished.report
    assert [result.status for result in report.results] == ["crashed", "passed", "passed", "no_code"]
    run = RunReader(finished.run_dir)
    intents = [line for line in run.sandboxes().rows if line.event is SandboxEvent.INTENT]
    canaries = [line for line in intents if "canary" in line.tags]
    workers = [line for line in intents if WORKER_TAG in line.tags]
    cells = sum(result.cells for result in report.results)
    assert (cells > 0) == (len(workers) > 0) == (not fresh)
    assert len(intents) - len(canaries) - len(workers) == report.summary.executions - cells
    assert len(canaries) == 2
    [row] = [row for row in run.trajectories().rows if row.status == "crashed"]
    # In a cell, one execution more: who ends a cell is not blamed for it, but judged again in fresh sandboxes.
    in_a_cell = not fresh
    assert (row.retries, row.canaries, len(row.failures)) == (2 + in_a_cell, 4, 3 + in_a_cell)
    [metrics] = run.metrics().rows
    assert metrics.metrics["retries"] == 2 + in_a_cell
    assert metrics.metrics["completions"] == 4
    assert_totals_add_up(report)
    finished.raise_for_outcome()
