"""Trainings with ART that take their problems from several sources, by pass rates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sandrl.errors import InputError, UsageError
from sandrl.runs import RunReader
from sandrl.runs.index import find_run
from sandrl.trainers.art.plan import make_request, plan_of
from tests.art.test_art_train import Training
from tests.art.training import PROBLEMS, RENDERER, Uneven
from tests.support.sample_runs import failed, trajectory, write_run
from tests.support.scripted_model import ScriptedModel
from tests.support.tinker_server.process import TinkerServer

pytestmark = pytest.mark.timeout(600)

NAMES = tuple(PROBLEMS)[:8]
PASSED = (0, 4, 1, 2, 3, 3, 1, 2)


@pytest.fixture
def training(tiny_server: TinkerServer, tmp_path: Path) -> Training:
    return Training(tiny_server, tmp_path)


def write(path: Path, *names: str) -> str:
    rows = [{"task_id": each, "prompt": PROBLEMS[each].prompt, "tests": list(PROBLEMS[each].tests)} for each in names]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return str(path)


def test_episodes_are_played_on_a_mixture_in_the_order_of_a_curriculum(training: Training, tmp_path: Path) -> None:
    rows = [
        (trajectory if number < passed else failed)(4 * at + number, task_id=name, sandboxes=0, sandbox_id=None)
        for at, (name, passed) in enumerate(zip(NAMES, PASSED, strict=True))
        for number in range(4)
    ]
    profile = write_run(tmp_path / "runs", rows, name="measured", command="eval")
    many, few = write(tmp_path / "many.jsonl", *NAMES[:5]), write(tmp_path / "few.jsonl", *NAMES[5:])
    with ScriptedModel(Uneven()) as teacher:
        given: dict[str, Any] = {
            "problems": f"{many}=2,{few}=1",
            "num_problems": 6,
            "batch_size": 12,
            "policy": "teacher",
            "model": "scripted",
            "base_url": teacher.base_url,
            "profile": str(profile),
            "difficulty": "0.1..0.9",
            "curriculum": "easy-first",
            "backend": "tinker",
            "base_model": str(training.server.model),
            "renderer": RENDERER,
        }
        settings = training.settings
        plan = plan_of(make_request(given, settings), settings)
        assert [(part.source, len(part.names)) for part in plan.parts] == [(many, 3), (few, 3)]
        assert any("6 of 8 training problems have a pass rate in 0.1..0.9" in note for note in plan.notes)
        run = training.run(**given, steps=2)
    run.raise_for_outcome()
    played = RunReader(find_run("run", settings.state_dir, settings.runs_dir)).trajectories().rows
    assert [{row.task_id for row in played if row.step == step} for step in (0, 1)] == [
        {NAMES[4], NAMES[3], NAMES[5]},
        {NAMES[2], NAMES[4], NAMES[6]},
    ]


def test_what_cannot_be_mixed_or_has_no_effect_is_refused(training: Training, tmp_path: Path) -> None:
    one, other = write(tmp_path / "a.jsonl", *NAMES[:3]), write(tmp_path / "b.jsonl", *NAMES[2:])
    with pytest.raises(InputError, match=r"has a problem '.*', and so has") as bad:
        training.run(problems=f"{one}=1,{other}=1", policy="trained")
    assert bad.value.fields == ("problems",)
    write_run(tmp_path / "runs", [trajectory(0)], name="recorded")
    with pytest.raises(UsageError, match="deduplicate: chooses problems, and the episodes are recorded"):
        training.run(trajectories="recorded", deduplicate=True)
