"""Trials of a job whose budget is used up, or whose user asks to stop."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from sandrl.events import Event, ExecutionFinished
from sandrl.events.results import Status
from sandrl.models.client import Stopped
from sandrl.problems import Completion, Problem, load_problems
from sandrl.rewards import Judge, ScoreOptions, VerdictCache, score
from sandrl.rollouts.shared_job import SharedJob
from sandrl.sandboxes import Interrupt, Job, connect, new_job_id
from sandrl.sandboxes.spending import Allowance
from sandrl.scoring import task_judging
from sandrl.scoring.summary import ScoreReport
from sandrl.settings import RuntimeKind, load_settings
from sandrl.trials.answers import Script
from sandrl.trials.capacity import Capacity
from tests.support.tasks.base import import_task_base
from tests.support.tasks.shell import write_shell_task

AT_ONCE = 2


@pytest.fixture(scope="module", autouse=True)
def _base() -> None:
    import_task_base(os.environ)


@pytest.fixture
def problem(tmp_path: Path) -> Problem:
    (problem,) = load_problems(str(write_shell_task(tmp_path / "t"))).problems.values()
    return problem


@pytest.fixture
def room_for_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_judging, "capacity_of", lambda _: Capacity(1 << 40, float(AT_ONCE)))


@pytest.fixture
def open_job() -> Iterator[Callable[..., Job]]:
    jobs: list[Job] = []

    def make(allowance: Allowance | None = None, interrupt: Interrupt | None = None) -> Job:
        connection = connect(load_settings(), runtime=RuntimeKind.LOCAL)
        job = Job(connection, job_id=new_job_id(), max_lifetime_seconds=300, allowance=allowance, interrupt=interrupt)
        jobs.append(job.__enter__())
        return job

    yield make
    for job in jobs:
        job.__exit__(None, None, None)
        assert job.unstopped == ()


def scored(
    problem: Problem, scripts: list[str], job: Job, interrupt: Interrupt, emit: Callable[[Event], None]
) -> ScoreReport:
    answers = [
        Completion(f"{number}", problem.task_id, code=f"{text} # {number}") for number, text in enumerate(scripts)
    ]
    return score(answers, [problem], job=job, interrupt=interrupt, emit=emit)


def test_trials_that_began_together_do_not_exceed_a_budget_by_much(
    problem: Problem, open_job: Callable[..., Job]
) -> None:
    interrupt = Interrupt()
    job = open_job(Allowance("60s", 60.0), interrupt)
    report = scored(problem, ["true", *["sleep 120"] * 11], job, interrupt, lambda _: None)
    assert [result.status for result in report.results] == [Status.FAILED]
    assert report.unfinished == 11
    assert interrupt.is_exhausted
    # What stops takes its time, as much for each of them.
    assert job.spending.seconds < 100


@pytest.mark.usefixtures("room_for_two")
def test_the_first_wish_to_stop_lets_trials_end_that_have_room(problem: Problem, open_job: Callable[..., Job]) -> None:
    interrupt = Interrupt()
    commands: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, ExecutionFinished):
            commands.append(event.task_id)
            if not interrupt.level:
                interrupt.request(2)

    report = scored(problem, ["sleep 2; echo done >answer"] * 6, open_job(), interrupt, hear)
    assert [result.status for result in report.results] == [Status.PASSED] * AT_ONCE
    assert report.unfinished == 6 - AT_ONCE
    assert {*commands} == {problem.task_id}


@pytest.mark.usefixtures("room_for_two")
def test_the_second_wish_ends_them_as_well(problem: Problem, open_job: Callable[..., Job]) -> None:
    interrupt = Interrupt()

    def hear(event: Event) -> None:
        if isinstance(event, ExecutionFinished):
            interrupt.request(2)

    assert scored(problem, ["sleep 300"] * 6, open_job(), interrupt, hear).unfinished == 6


@pytest.mark.usefixtures("room_for_two")
def test_episodes_that_wait_for_a_machine_are_withdrawn(problem: Problem, open_job: Callable[..., Job]) -> None:
    job = open_job()
    options = ScoreOptions()
    with (
        SharedJob(job, Judge.on(job.connection), options, VerdictCache()) as place,
        ThreadPoolExecutor() as threads,
    ):
        script = Script("sleep 2; echo done >answer")

        def play(number: int) -> object:
            try:
                return place.judge(Completion(f"{number}", problem.task_id), problem, number, agent=script).reward
            except Stopped:
                return None

        began = [threads.submit(play, number) for number in range(4 * AT_ONCE)]
        wait(began, return_when=FIRST_COMPLETED)
        place.withdraw_trials()
        ends = [future.result() for future in began]
        assert ends.count(1.0) in range(AT_ONCE, 2 * AT_ONCE + 1)
        assert ends.count(None) == len(ends) - ends.count(1.0)
        assert play(len(ends)) is None
