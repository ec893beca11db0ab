"""The card of a problem as a function of the results of its runs."""

from __future__ import annotations

from typing import Any

import pytest

from sandrl.events.results import ScoredCompletion, Status
from sandrl.problems import Problem
from sandrl.problems.tasks.task import Environment, Phase, Reach, Task, TaskStep, Verifier
from sandrl.rewards.cards import card_of
from sandrl.settings import NetworkMode

TASK = Problem(
    "task",
    "",
    task=Task(
        "task",
        "harbor 1.4",
        "0" * 64,
        Environment("image", network=Reach(NetworkMode.NONE)),
        (TaskStep("", verifier=Verifier(phase=Phase(network=Reach(NetworkMode.PUBLIC)))),),
    ),
)
CASES = Problem("cases", "", tests=("assert f(1) == 1",))
PROGRAM = Problem("program", "", check="exit_status")


def result(reward: float | None, **more: Any) -> ScoredCompletion:
    status = Status.INFRASTRUCTURE if reward is None else Status.PASSED if reward >= 1 else Status.FAILED
    passed = int(reward is not None and reward >= 1)
    return ScoredCompletion(0, "id", "task", reward, status, None, passed, 1, 1.0, None, more.pop("detail", ""), **more)


def runs(kind: str, *rewards: float | None) -> dict[str, ScoredCompletion]:
    return {f"{kind}.{number}": result(reward) for number, reward in enumerate(rewards, 1)}


def test_a_task_with_a_solution_that_always_passes_and_nothing_that_never_does_is_perfect() -> None:
    card = card_of(TASK, runs("oracle", 1.0, 1.0, 1.0) | runs("nop", 0.0, 0.0, 0.0))
    assert (card.oracle, card.oracle_runs, card.oracle_passes, card.nop, card.nop_runs) == (1.0, 3, 3, 0.0, 3)
    assert (card.flake_rate, card.flake_low, card.flake_runs, card.null_runs) == (0.0, 0.0, 3, 0)
    # Wilson's interval of 0 of 3.
    assert card.flake_high == pytest.approx(0.5615, abs=1e-4)
    assert (card.quality, card.unknown, card.network) == (
        1.0,
        ("cheats", "mutants"),
        {"agent": "none", "verifier": "public"},
    )
    assert card.stubs is None


def test_flakes_are_the_runs_that_end_otherwise_than_most_of_the_same_agent() -> None:
    card = card_of(TASK, runs("oracle", 1.0, 1.0, 0.5, 1.0, 0.0) | runs("nop", *[0.0] * 9, 1.0))
    assert (card.flake_rate, card.flake_runs) == (0.4, 5)
    assert (card.oracle, card.oracle_passes, card.nop) == (0.7, 3, 1.0)
    assert (card.quality, card.weakest) == (0.0, "nop")


def test_flakes_of_doing_nothing_count_where_the_solution_shows_none() -> None:
    idle = runs("nop", 0.0, 1.0, 0.0, 1.0, 0.0)
    assert card_of(TASK, runs("oracle", 1.0, 1.0, 1.0, 0.0, 1.0) | idle).flake_rate == 0.2
    assert card_of(TASK, runs("oracle", 1.0, 1.0, 1.0) | idle).flake_rate == 0.4
    assert card_of(TASK, idle).flake_rate == 0.4


def test_a_verifier_that_failed_before_it_gave_a_reward_has_flaked() -> None:
    retried = {"oracle.1": result(1.0, verifier_failures=1), "oracle.2": result(1.0)}
    assert card_of(TASK, retried).flake_rate == 0.5
    # One run alone shows no other outcome, but such a failure.
    assert card_of(TASK, runs("oracle", 1.0)).flake_rate is None
    assert card_of(TASK, {"oracle.1": result(1.0, verifier_failures=2)}).flake_rate == 1.0


def test_runs_without_a_reward_are_counted_apart() -> None:
    lost = {"nop.1": result(None, detail="the verifier gave no reward"), "nop.2": result(None, detail="later")}
    card = card_of(TASK, runs("oracle", 1.0, None, 1.0) | lost)
    assert (card.oracle_runs, card.oracle, card.flake_rate) == (2, 1.0, 0.0)
    assert (card.nop, card.nop_runs, card.null_runs) == (None, 0, 3)
    assert "nop" in card.unknown
    assert card_of(TASK, lost).null_reason == "the verifier gave no reward"


def test_without_a_solution_the_rest_is_known() -> None:
    card = card_of(TASK, runs("nop", 0.0, 0.0))
    assert (card.oracle, card.oracle_runs, card.nop, card.flake_rate, card.flake_runs) == (None, 0, 0.0, 0.0, 2)
    assert card.unknown == ("oracle", "cheats", "mutants")


def test_times_are_medians_of_the_solution_and_sizes_and_hosts_those_that_were_seen() -> None:
    seen = {"agent": ("b.example:443",), "verifier": ("a.example:80", "b.example:443")}
    solved = {
        f"oracle.{number}": result(
            1.0, phases={"agent": seconds, "verifier": 1.0}, state_bytes=7, image="i", reached=seen
        )
        for number, seconds in enumerate((1.0, 9.0, 2.0), 1)
    }
    card = card_of(TASK, solved | {"nop.1": result(0.0, phases={"agent": 50.0})}, {"i": 1000}.get)
    assert card.seconds == {"agent": 2.0, "verifier": 1.0}
    assert (card.image_bytes, card.state_bytes, card.reached) == (1000, 7, ("a.example:80", "b.example:443"))
    assert card_of(TASK, {"nop.1": result(0.0, phases={"agent": 50.0})}).seconds == {"agent": 50.0}
    assert card_of(TASK, runs("nop", 0.0)).reached is None


def test_the_stubs_of_other_problems_are_their_nothing() -> None:
    passes = runs("oracle", 1.0)
    card = card_of(CASES, passes | {"stub.None": result(0.0), "stub.its #stub. input": result(1.0)})
    assert (card.kind, card.oracle, card.nop, card.stubs) == ("tests", 1.0, 1.0, ("its #stub. input",))
    assert card.flake_rate is None
    assert card_of(CASES, passes | {"stub.None": result(0.0)}).nop == 0.0
    # Each was decided by the source of the checks.
    assert (card_of(CASES, passes).nop, card_of(CASES, passes).stubs) == (0.0, ())
    # A stub was not judged, or none can be.
    assert card_of(CASES, passes | {"stub.None": result(None)}).nop is None
    assert card_of(PROGRAM, passes).nop is None


def test_the_order_of_runs_and_other_runs_change_nothing() -> None:
    found = runs("oracle", 1.0, 0.0, 1.0) | runs("nop", 0.0, 0.0)
    card = card_of(TASK, found)
    other = dict(reversed(found.items())) | {"cheat.conftest": result(1.0), "oracle@separate": result(0.0)}
    unlike = {"measured_at"}
    assert card_of(TASK, other).model_dump(exclude=unlike) == card.model_dump(exclude=unlike)
