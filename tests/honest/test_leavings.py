"""Honest programs that leave threads, children and orphans behind: cells, fresh sandboxes and plain Python agree."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import pytest

from sandrl.sandboxes import Job, connect, new_job_id
from sandrl.settings import RuntimeKind, load_settings
from tests.honest.comparison import compare, judge_with_sandrl
from tests.honest.leavings import HABITS, make_entry


def differences(seeds: Sequence[int], job: Job) -> list[str]:
    """The programs that plain Python, a cell and a fresh sandbox do not judge alike, and as they are marked."""
    entries = [make_entry(seed) for seed in seeds]
    in_cells = compare(entries, job)
    connection = connect(load_settings(), runtime=RuntimeKind.LOCAL)
    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=1800, has_cells=False) as alone:
        fresh = judge_with_sandrl(entries, alone)
    return [
        f"{found}\n{found.plain_failure or 'passes'}; fresh: {fresh[found.entry.id].status}\n{found.entry.code}"
        for found in in_cells
        if not found.is_sound or not found.agrees or fresh[found.entry.id].status is not found.result.status
    ]


def test_every_seed_makes_the_same_program_again_and_every_habit_occurs() -> None:
    made = [make_entry(seed) for seed in range(300)]
    assert made == [make_entry(seed) for seed in range(300)]
    for entry in made:
        ast.parse(entry.code)
    assert len({entry.code for entry in made}) == len(made)
    assert any(entry.is_wrong for entry in made)
    for habit in HABITS.values():
        first = habit.split("\n", 1)[0]
        assert any(first[:12] in entry.code for entry in made), first


def test_what_a_program_leaves_behind_is_no_reason_for_another_verdict(job: Job) -> None:
    assert differences(range(24), job) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_nor_is_it_for_a_thousand_programs(job: Job) -> None:
    assert differences(range(1000), job) == []
