"""An episode on a task that other threads drive: which calls are answered how, and what ends it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from sandrl.errors import InfrastructureError
from sandrl.events.results import ScoredCompletion, Status
from sandrl.problems.tasks.task import Environment, Phase, Task, TaskStep
from sandrl.rollouts.driven import DrivenEpisode
from sandrl.rollouts.sandbox import LOST

BEFORE = "error: a solution was submitted before"


def task(*instructions: str, seconds: float | None = None) -> Task:
    steps = tuple(TaskStep(each, agent=Phase(timeout_seconds=seconds)) for each in instructions)
    return Task("t", "harbor 1.0", "0", Environment("image"), steps)


def verdict(status: Status = Status.PASSED, detail: str = "") -> ScoredCompletion:
    reward = None if status is Status.INFRASTRUCTURE else 1.0
    return ScoredCompletion(0, "t", "t", reward, status, None, 1, 1, 0.0, None, detail)


class Trial:
    """Runs an agent on its own thread, as a trial does; the machine is none, because no call here needs one."""

    def __init__(self, of: Task, *, between: Callable[[], None] = lambda: None) -> None:
        self.of = of
        self.between = between

    def judge(self, agent: DrivenEpisode) -> Future[ScoredCompletion]:
        done: Future[ScoredCompletion] = Future()

        def run() -> None:
            machine: Any = None
            try:
                for number, step in enumerate(self.of.steps):
                    agent.act(machine, step, number)
                    self.between()
                told = verdict()
            except InfrastructureError as error:
                told = verdict(Status.INFRASTRUCTURE, error.message)
            with suppress(InvalidStateError):
                done.set_result(told)

        threading.Thread(target=run, daemon=True).start()
        return done


def begun(of: Task, *, most: int = 9, idle_seconds: float = 60.0, **how: Any) -> DrivenEpisode:
    episode = DrivenEpisode(of, most, idle_seconds=idle_seconds)
    episode.begin(Trial(of, **how).judge)
    return episode


def test_a_submission_ends_the_work_and_later_calls_have_no_effect() -> None:
    episode = begun(task("Do it."))
    assert episode.call("no such", {}).startswith("error: there is no tool 'no such'; the tools are bash, terminal,")
    assert episode.call("submit", "") == "Submitted."
    assert episode.result.result(5).is_pass
    assert [episode.call(name, "{") for name in ("submit", "bash")] == [BEFORE] * 2
    assert (episode.calls, episode.end, episode.loss) == (2, "submitted", "")


def test_who_hears_of_the_last_submission_knows_that_the_work_is_over() -> None:
    of = task("Do it.")
    episode = DrivenEpisode(of, 9)
    over: list[bool] = []
    episode.finish().add_done_callback(lambda _: over.append(episode.is_over))
    episode.begin(Trial(of).judge)
    assert episode.result.result(5).is_pass
    assert over == [True]


def test_the_answer_to_a_submission_has_the_next_instruction_once_the_step_is_verified() -> None:
    verified = threading.Event()
    episode = begun(task("First.", "Second."), between=lambda: assert_set(verified))
    assert episode.instruction == "First."
    submission = episode.ask("submit", {})
    assert not submission.done()
    verified.set()
    assert submission.result(5) == "Submitted. The next instruction:\n\nSecond."
    assert (episode.instruction, episode.number, episode.end) == ("Second.", 1, None)
    assert episode.finish().result(5) == "Submitted."
    assert episode.result.result(5).is_pass


def assert_set(event: threading.Event) -> None:
    assert event.wait(5)


def test_calls_that_are_too_many_are_told_so() -> None:
    episode = begun(task("Do it."), most=2)
    assert [episode.call("?", "")[:6] for _ in range(2)] == ["error:"] * 2
    assert episode.call("submit", "") == "error: no tool calls are left"
    assert episode.result.result(5).is_pass
    assert episode.calls == 2


def test_the_time_of_a_step_ends_it_without_a_call() -> None:
    episode = begun(task("Do it.", seconds=0.1))
    assert episode.result.result(5).is_pass
    assert episode.call("bash", {"command": "ls"}) == "error: the time for the task is up"


@pytest.mark.parametrize("ends_all", [False, True])
def test_an_end_that_comes_after_the_time_of_a_step_is_not_that_of_the_next(*, ends_all: bool) -> None:
    waits, verified = threading.Event(), threading.Event()

    def between() -> None:
        waits.set()
        assert_set(verified)

    of = task("First.", "Second.")
    of = replace(of, steps=(replace(of.steps[0], agent=Phase(timeout_seconds=0.05)), of.steps[1]))
    episode = begun(of, between=between)
    assert_set(waits)
    late = None if ends_all else episode.finish()
    if ends_all:
        episode.close()
    verified.set()
    if late is not None:
        assert late.result(5) == "Submitted. The next instruction:\n\nSecond."
        assert (episode.number, episode.end) == (1, None)
        assert episode.call("submit", "") == "Submitted."
    assert episode.result.result(5).is_pass


def test_an_episode_without_calls_is_lost() -> None:
    episode = begun(task("Do it."), idle_seconds=0.1)
    assert episode.result.result(5).reward is None
    assert episode.loss == "there was no call for 0.1 s"
    assert episode.call("submit", "") == LOST
    assert episode.end == "lost"


@pytest.mark.parametrize("calls", [0, 1])
def test_an_episode_that_is_given_up_answers_all_who_wait(calls: int) -> None:
    never = threading.Event()
    episode = begun(task("First.", "Second."), between=lambda: assert_set(never))
    waiting = [episode.ask("submit", {}) for _ in range(calls)]
    episode.give_up("the user went")
    episode.result.cancel()
    assert [each.result(5) for each in waiting] == [LOST] * calls
    assert episode.call("submit", "") == LOST
    never.set()


def test_an_episode_whose_machine_cannot_start_answers_its_calls() -> None:
    episode = DrivenEpisode(task("Do it."), 9)
    done: Future[ScoredCompletion] = Future()
    episode.begin(lambda _: done)
    call = episode.ask("bash", {"command": "ls"})
    done.set_result(verdict(Status.INFRASTRUCTURE, "there is no such image"))
    assert call.result(5) == LOST
    assert episode.loss == "there is no such image"
