"""What a cheat has earned, by the results of its trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.tasks.shell import write_shell_task

from sandrl.config.words import VerifierPlace
from sandrl.events.results import ScoredCompletion, Status, Trust
from sandrl.problems import Problem, load_problems
from sandrl.redteam import CHEATS
from sandrl.redteam.tasks import TaskAttack, attack_tasks, count_runs
from sandrl.rewards.cards import card_of
from sandrl.rewards.measuring import Run
from sandrl.runs.cards import Card
from sandrl.scoring.options import ScoreOptions

CHEAT = CHEATS[0]


def result(run: Run, reward: float | None, *, applies: bool = True) -> ScoredCompletion:
    status = Status.FAILED if reward is not None else Status.INFRASTRUCTURE
    trust = Trust.SHARED if applies else None
    return ScoredCompletion(0, run.id, run.task_id, reward, status, trust, 0, 1, 1.0, None, "why")


@dataclass(frozen=True)
class Context:
    options: ScoreOptions


class Measured:
    """A run whose results are known: doing nothing earns -0.5, and the cheat what is said."""

    place = VerifierPlace.TASK

    def __init__(self, problems: Mapping[str, Problem], reward: float | None, applies: bool) -> None:
        self._problems = problems
        self._cheated: dict[str, Any] = {"reward": reward, "applies": applies}
        self.interrupt = SimpleNamespace(level=0)
        self.context = Context(ScoreOptions())

    def judge(self, runs: Sequence[Run], **_: Any) -> dict[str, ScoredCompletion]:
        return {
            run.id: result(run, -0.5) if run.label == "nop.1" else result(run, **self._cheated)
            for run in runs
            if "@" not in run.label
        }

    def card_of(self, task_id: str, runs: Mapping[str, ScoredCompletion]) -> Card:
        return card_of(self._problems[task_id], runs)

    def keep(self, card: object) -> None:
        pass


def attack(place: Path, reward: float | None, *, applies: bool = True) -> TaskAttack:
    write_shell_task(place / "task")
    problems = load_problems(place).problems
    measured: Any = Measured(problems, reward, applies)
    (found,) = attack_tasks(measured, problems, (CHEAT,), mutants=0)
    return found


@pytest.mark.parametrize(
    ("reward", "applies", "earned"), [(0.0, True, True), (-0.5, True, False), (0.0, False, False), (None, True, False)]
)
def test_a_cheat_that_did_nothing_earned_nothing_where_doing_nothing_earns_less_than_0(
    tmp_path: Path, reward: float | None, applies: bool, earned: bool
) -> None:
    found = attack(tmp_path, reward, applies=applies)
    assert bool(found.earned) is earned
    assert found.card is not None
    assert len(found.card.cheats) == earned <= (found.card.cheats_tried or 0)


def test_mutants_are_trials_of_tasks_with_a_solution_alone(tmp_path: Path) -> None:
    write_shell_task(tmp_path / "solved", files={"solution/solve.sh": "echo done > answer\n"})
    write_shell_task(tmp_path / "unsolved", instruction="Write done.")
    problems = load_problems(tmp_path).problems
    assert {name: count_runs(each, CHEATS[:2], 5) for name, each in problems.items()} == {"solved": 10, "unsolved": 3}
    assert count_runs(problems["solved"], CHEATS[:2]) == count_runs(problems["solved"], CHEATS[:2], 0) == 4
