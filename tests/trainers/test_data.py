"""Trainings that choose and order their problems by pass rates, and take them from several sources."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from sandrl.errors import UsageError
from sandrl.problems import load_problems
from sandrl.runs import RunReader
from sandrl.settings import load_settings
from sandrl.trainers.plan import check_plan, make_plan
from tests.support.sample_runs import failed, trajectory, write_run
from tests.trainers.conftest import TrainHere
from tests.trainers.test_resumption import completions, cut

GIVEN: dict[str, Any] = {
    "model": "tiny",
    "batch_size": 4,
    "samples": 2,
    "eval_problems": 0,
    "save_steps": 1,
    "keep_checkpoints": 20,
    "runtime": "local",
}


def write(path: Path, begin: int, count: int) -> list[str]:
    chosen = list(load_problems("tiny:train").problems.values())[begin : begin + count]
    rows = [{"task_id": each.task_id, "prompt": each.prompt, "tests": list(each.tests)} for each in chosen]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return [each.task_id for each in chosen]


def measured(names: list[str], passed: list[int]) -> Path:
    """A run in which each problem has four completions, of which some passed."""
    rows = [
        (trajectory if number < good else failed)(4 * at + number, task_id=name, sandboxes=0, sandbox_id=None)
        for at, (name, good) in enumerate(zip(names, passed, strict=True))
        for number in range(4)
    ]
    return write_run(load_settings().runs_dir, rows, name="measured", command="eval")


def order(run: Path, *, attempt: int = 1) -> dict[int, list[str]]:
    """The problems of each step."""
    return {step: sorted({name for name, _ in made}) for step, made in completions(run, attempt=attempt).items()}


def test_a_policy_is_trained_on_problems_of_a_difficulty_and_goes_on_with_the_same_ones(
    train_here: TrainHere, tmp_path: Path
) -> None:
    settings, names = load_settings(), write(tmp_path / "six.jsonl", 0, 6)
    profile = measured(names, [0, 1, 2, 4, 4, 0])
    given = {**GIVEN, "problems": str(tmp_path / "six.jsonl"), "steps": 1, "profile": str(profile)}
    plan = check_plan(make_plan({**given, "difficulty": "0.1..0.9"}, settings), settings)
    told = "2 of 6 training problems have a pass rate in 0.1..0.9; left out: 2 pass less often, 2 pass more often"
    assert f"profile measured: {told}" in plan.sets.notes
    run = train_here(**given, length_penalty=0.1, difficulty="0.1..0.9")
    assert {row.task_id for row in RunReader(run).trajectories().rows} == set(names[1:3])
    shutil.rmtree(profile)
    train_here(resume=run, steps=2)
    rows = RunReader(run).trajectories().rows
    assert ({row.step for row in rows}, {row.task_id for row in rows}) == ({0, 1}, set(names[1:3]))
    with pytest.raises(UsageError, match="difficulty has changed"):
        train_here(resume=run, difficulty="0.2..0.9")


def test_a_mixture_is_trained_by_weight_and_in_the_order_of_a_curriculum(train_here: TrainHere, tmp_path: Path) -> None:
    many, few = write(tmp_path / "many.jsonl", 0, 8), write(tmp_path / "few.jsonl", 8, 4)
    profile = measured([*many, *few], [0, 1, 2, 3, 4, 3, 2, 1, 0, 4, 1, 2])
    run = train_here(
        **{**GIVEN, "batch_size": 6, "steps": 3},
        problems=f"{tmp_path}/many.jsonl=2,{tmp_path}/few.jsonl=1",
        profile=str(profile),
        curriculum="hard-first",
    )
    of_step = order(run)
    rates = dict(zip([*many, *few], [0, 1, 2, 3, 4, 3, 2, 1, 0, 4, 1, 2], strict=True))
    for source, count in ((many, 2), (few, 1)):
        taken = [sorted(rates[name] for name in of_step[step] if name in source) for step in range(3)]
        assert [len(each) for each in taken] == [count] * 3
        assert (in_order := [rate for step in taken for rate in step]) == sorted(in_order)


@pytest.mark.parametrize("options", [{"curriculum": "easy-first"}, {"difficulty": "0.1..0.9"}])
def test_what_a_run_measures_itself_decides_its_later_passes_and_those_of_a_resumed_one(
    train_here: TrainHere, tmp_path: Path, options: dict[str, str]
) -> None:
    write(tmp_path / "six.jsonl", 0, 6)
    given = {**GIVEN, **options, "problems": str(tmp_path / "six.jsonl"), "steps": 7, "profile": "this"}
    whole = train_here(**given, run_name="whole")
    expected = completions(whole, attempt=1)
    # The first pass takes each problem once, whatever it measures.
    assert len({name for step in range(3) for name, _ in expected[step]}) == 6
    for step in (2, 5):
        resumed = train_here(resume=cut(whole, step))
        assert completions(resumed, attempt=2) == {each: made for each, made in expected.items() if each >= step}
