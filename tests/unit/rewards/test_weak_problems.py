"""Warnings of problems that are known to reward other things than a solution."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sandrl.config.words import VerifierPlace
from sandrl.events import Event, Warned
from sandrl.problems import Problem
from sandrl.problems.quality import card_digest
from sandrl.rewards.weak_problems import warn_of_weak_problems
from sandrl.runs.card_record import CardRecord
from sandrl.runs.cards import Card, Cheat

WEAK = Problem("weak", "", tests=("assert f(1) is None",))
STRONG = Problem("strong", "", tests=("assert f(1) == 2",))


def card(problem: Problem, **parts: Any) -> Card:
    return Card(task_id=problem.task_id, kind="task", digest=card_digest(problem), **parts)


def warnings(state: Path, *problems: Problem) -> list[str]:
    seen: list[Event] = []
    warn_of_weak_problems(problems, state, seen.append, VerifierPlace.TASK)
    return [event.message for event in seen if isinstance(event, Warned)]


@pytest.mark.parametrize(
    ("parts", "fault"),
    [
        ({"nop": 1, "stubs": ("None",)}, "accepted an answer that does no work: an answer that gives None"),
        ({"nop": 0.5, "nop_runs": 3}, "rewarded an agent that does nothing with 0.5"),
        (
            {
                "cheats_tried": 9,
                "cheats": (Cheat(name="a", group="g", reward=0.5), Cheat(name="b", group="g", reward=1)),
            },
            "rewarded the cheat b with 1, and 1 more",
        ),
        ({"flake_rate": 0.1, "flake_runs": 30}, "ended otherwise than usual in 10% of 30 runs"),
        ({"oracle_runs": 3, "oracle_passes": 2}, "gave its own solution less than 1 in 1 of 3 runs"),
    ],
)
def test_a_known_weakness_is_named(tmp_path: Path, parts: dict[str, Any], fault: str) -> None:
    sound = {"nop": 0, "nop_runs": 3, "oracle_runs": 3, "oracle_passes": 3, "cheats_tried": 9, "flake_rate": 0}
    CardRecord(tmp_path).add([card(WEAK, **parts), card(STRONG, **sound)])
    assert warnings(tmp_path, STRONG, WEAK) == [f"the checks of weak {fault}"]


def test_a_warning_follows_the_checks_and_ends_when_they_change(tmp_path: Path) -> None:
    CardRecord(tmp_path).add([card(WEAK, nop=1, stubs=("None",))])
    other_name = Problem("other", "x", tests=WEAK.tests)
    other_checks = Problem("weak", "", tests=("assert f(1) == 1",))
    assert len(warnings(tmp_path, other_name)) == 1
    assert warnings(tmp_path, other_checks) == []
    CardRecord(tmp_path).add([card(WEAK, nop=0, stubs=())])
    assert warnings(tmp_path, other_name) == []


def test_ten_problems_are_named_and_the_others_counted(tmp_path: Path) -> None:
    problems = [Problem(f"p{number}", "", tests=(f"assert f({number}) is None",)) for number in range(13)]
    CardRecord(tmp_path).add(card(each, nop=1) for each in problems)
    messages = warnings(tmp_path, *problems)
    assert len(messages) == 11
    assert "p9" in messages[9]
    assert messages[10].startswith("the checks or verifiers of 3 more problems")


def test_a_record_that_cannot_be_read_is_no_obstacle(tmp_path: Path) -> None:
    # Also what earlier versions have left.
    (tmp_path / "weak-checks.jsonl").write_text('{"checks": "x", "task_id": "weak", "stubs": ["None"]}\n')
    assert warnings(tmp_path, WEAK) == []
    (tmp_path / "cards.jsonl").write_bytes(b'{"digest": 1\n[]\n\xff\n')
    assert warnings(tmp_path, WEAK) == []
    (tmp_path / "cards.jsonl").unlink()
    (tmp_path / "cards.jsonl").mkdir()
    assert warnings(tmp_path, WEAK) == []
