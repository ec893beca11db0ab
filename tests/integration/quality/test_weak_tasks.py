"""Tasks with a weakness: the cheat for it earns a reward there, and no cheat does in the repaired twin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandrl.runs import RunReader
from sandrl.runs.cards import Card
from tests.support.tasks import weak
from tests.support.tasks.base import import_task_tools
from tests.support.tasks.weak import WeakTask

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
CHEATED = [task for task in weak.TASKS if task.cheat]
# What stops a cheat, where more than one task needs it: its processes end, or the verifier has a sandbox of its own.
STOPPED = {
    "survivor-during": "end_processes",
    "survivor-after": "end_processes",
    "survivor-tests": "end_processes",
    "preload": "artifacts",
}


@pytest.fixture(scope="module")
def of_weak_tasks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Card]:
    """Their cards, after the cheats for them."""
    chosen = [word for name in sorted({task.cheat for task in CHEATED}) for word in ("--exploit", name)]
    return _cards(tmp_path_factory.mktemp("weak"), *chosen, twin=False, exit_code=1)


@pytest.fixture(scope="module")
def of_twins(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Card]:
    """Their cards, after all cheats."""
    return _cards(tmp_path_factory.mktemp("twins"), twin=True, exit_code=0)


@pytest.mark.parametrize("task", CHEATED, ids=lambda task: task.name)
def test_a_cheat_earns_what_the_weakness_gives_away(of_weak_tasks: dict[str, Card], task: WeakTask) -> None:
    card = of_weak_tasks[task.name]
    assert (card.oracle, card.nop) == (1.0, 0.0)
    (cheat,) = [each for each in card.cheats if each.name == task.cheat]
    assert cheat.reward == 1.0
    assert cheat.advice or cheat.stopped_by
    assert (card.weakest, card.quality) == ("cheats", 0.0)


@pytest.mark.parametrize(("name", "setting"), STOPPED.items())
def test_the_card_says_which_setting_stops_a_cheat(of_weak_tasks: dict[str, Card], name: str, setting: str) -> None:
    wanted = weak.TASKS_BY_NAME[name].cheat
    (cheat,) = [each for each in of_weak_tasks[name].cheats if each.name == wanted]
    assert setting in cheat.stopped_by


def test_an_empty_machine_that_is_accepted_is_the_weakest_part(of_weak_tasks: dict[str, Card]) -> None:
    card = of_weak_tasks["empty-machine"]
    assert (card.oracle, card.nop, card.quality) == (1.0, 1.0, 0.0)
    # Nothing earns more than doing nothing.
    assert (card.weakest, card.cheats) == ("nop", ())


@pytest.mark.parametrize("task", weak.TASKS, ids=lambda task: task.name)
def test_nothing_earns_a_reward_of_a_twin_but_its_solution(of_twins: dict[str, Card], task: WeakTask) -> None:
    card = of_twins[task.name]
    assert (card.oracle, card.nop, card.cheats) == (1.0, 0.0, ())
    assert card.cheats_tried


def _cards(place: Path, *options: str, twin: bool, exit_code: int) -> dict[str, Card]:
    import_task_tools(os.environ)
    for task in weak.TASKS:
        task.write(place / "tasks", twin=twin)
    command = [sys.executable, "-m", "sandrl", "redteam", "--problems", str(place / "tasks")]
    done = subprocess.run([*command, "--mutants", "0", "--json", *options], capture_output=True, text=True, check=False)
    assert done.returncode == exit_code, done.stderr[-2000:]
    return {card.task_id: card for card in RunReader(Path(json.loads(done.stdout)["run"])).cards().rows}
