"""A run that goes on takes the problems that follow, whenever it was killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandrl.problems.schedule import Part, Schedule
from sandrl.trainers.order import KeptOrder, keep_order, restore_order

NAMES = tuple("abcdefg")
GROUPS = 2


def schedule() -> Schedule:
    return Schedule((Part(NAMES),), seed=1)


@pytest.mark.parametrize("following", [2, 3])
def test_a_round_that_was_killed_is_repeated_and_one_that_was_trained_is_not(tmp_path: Path, following: int) -> None:
    whole = schedule()
    taken = []
    for number, count in enumerate((2, 4, 3)):
        before = whole.state
        taken.append(whole.take(count))
        keep_order(tmp_path / "art", KeptOrder(round=number, before=before, after=whole.state))
    # Round 2 was played. It is the next one if it was not trained, else round 3 is.
    resumed = schedule()
    restore_order(resumed, tmp_path / "art", following, GROUPS)
    assert resumed.take(3) == (taken[2] if following == 2 else whole.take(3))


def test_a_run_that_kept_no_order_goes_on_after_the_groups_of_its_rounds(tmp_path: Path) -> None:
    whole, resumed = schedule(), schedule()
    for _ in range(3):
        whole.take(GROUPS)
    restore_order(resumed, tmp_path, 3, GROUPS)
    assert resumed.take(GROUPS) == whole.take(GROUPS)
