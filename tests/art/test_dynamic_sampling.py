"""Dynamic sampling and truncated episodes with ART's own backend: what the server is given to train on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sandrl.errors import UsageError
from sandrl.runs import RunReader
from sandrl.runs.metrics import GENERATED_GROUPS, MISSING_GROUPS, REPLACED_GROUPS, TRUNCATED
from sandrl.trainers.art.results import GRADIENT_STEPS, ArtRun
from tests.art.test_art_train import Training, steps_of
from tests.art.training import PROBLEMS, Uneven, reference
from tests.support.scripted_model import Answer, Question, Says, ScriptedModel
from tests.support.tinker_server.process import TinkerServer

pytestmark = pytest.mark.timeout(600)

NAMES = tuple(PROBLEMS)[:8]
EASY = (NAMES[0], NAMES[1], NAMES[4])


@pytest.fixture
def training(tiny_server: TinkerServer, tmp_path: Path) -> Training:
    return Training(tiny_server, tmp_path)


class Teacher(Uneven):
    """Solves some problems always, and one episode in four of the others."""

    def __call__(self, question: Question) -> Answer:
        right = reference(question)
        if right in {str(PROBLEMS[name].reference) for name in EASY}:
            return Says(f"<answer>{right}</answer>", logprobs=False)
        return super().__call__(question)


@contextmanager
def taught(model: Any) -> Iterator[dict[str, Any]]:
    """The options of a training that learns from a teacher, two groups of four a step."""
    with ScriptedModel(model) as teacher:
        yield {
            "num_problems": 8,
            "batch_size": 8,
            "max_attempts": 1,
            "concurrency": 1,
            "policy": "teacher",
            "model": "scripted",
            "base_url": teacher.base_url,
        }


def tasks(run: ArtRun) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for row in RunReader(run.run_dir).trajectories().rows:
        names = found.setdefault(row.step or 0, [])
        names.extend({row.task_id} - set(names))
    return found


def test_groups_with_equal_rewards_are_replaced_by_those_of_the_next_problems(training: Training) -> None:
    with taught(Teacher()) as given:
        run = training.run(**given, steps=2, dynamic_sampling=1)
    run.raise_for_outcome()
    assert tasks(run) == {0: list(NAMES[:4]), 1: [*NAMES[4:7]]}
    counted = [
        [row.metrics[name] for name in (GENERATED_GROUPS, REPLACED_GROUPS, MISSING_GROUPS)] for row in steps_of(run)
    ]
    assert counted == [[4, 2, 0], [3, 1, 0]]
    sent = [row for row in training.records(run) if row["op"] == "forward_backward"]
    assert [len(row["data"]) for row in sent] == [8, 8]
    assert all(any(datum["advantages"]) for row in sent for datum in row["data"])
    numbers = [row.id for row in RunReader(run.run_dir).trajectories().rows]
    assert len(numbers) == len(set(numbers)) == 4 * 7


def test_what_no_group_replaces_is_counted_as_missing(training: Training) -> None:
    with taught(Teacher()) as given:
        with pytest.raises(UsageError, match="already has all 2 problems"):
            training.run(**{**given, "num_problems": 2}, name="none", steps=1, dynamic_sampling=1)
        run = training.run(**{**given, "num_problems": 3}, steps=1, dynamic_sampling=5)
    (row,) = steps_of(run)
    assert [row.metrics[name] for name in (GENERATED_GROUPS, REPLACED_GROUPS, MISSING_GROUPS)] == [3, 1, 1]
    assert row.metrics[GRADIENT_STEPS]


def test_a_resumed_training_takes_the_problems_that_the_uninterrupted_one_takes(training: Training) -> None:
    with taught(Teacher()) as given:
        whole = training.run(**given, name="whole", steps=3, dynamic_sampling=1)
    with taught(Teacher()) as given:
        training.run(**given, name="stopped", steps=1, dynamic_sampling=1)
        resumed = training.run(name="stopped", resume=True, steps=3)
    assert tasks(resumed) == tasks(whole)


def test_truncated_episodes_are_left_out_and_counted(training: Training) -> None:
    uneven = Uneven()

    def cut_off(question: Question) -> Answer:
        said = uneven(question)
        assert isinstance(said, Says)
        # Only right answers end in time.
        return (
            said if reference(question) in str(said.text) else Says(said.text, logprobs=False, finish_reason="length")
        )

    with taught(cut_off) as given:
        run = training.run(**{**given, "num_problems": 2}, steps=1, mask_truncated=True)
    row = steps_of(run)[0]
    assert row.metrics[TRUNCATED] == 6 == row.metrics["truncated_answers"]
    assert not row.metrics[GRADIENT_STEPS]
    assert "6 left out because they were cut off" in run.rounds[0].failure
