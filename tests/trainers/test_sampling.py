"""A model with generation settings of its own is sampled in training and evaluation as one without."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from sandrl.models import Message, Sampling
from sandrl.models.in_process import InProcessModel
from sandrl.models.protocol import Question
from sandrl.problems import chat_prompt, load_problems
from sandrl.runs import RunReader
from tests.trainers.conftest import SMALL, Train

SETTINGS = {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2, "min_p": 0.4, "top_k": 3, "typical_p": 0.5}


@pytest.fixture
def opinionated(tmp_path: Path, tiny_directory: Path) -> Path:
    """The tiny policy, saved with settings of its own."""
    path = tmp_path / "opinionated"
    shutil.copytree(tiny_directory, path)
    file = path / "generation_config.json"
    present = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({**present, **SETTINGS, "do_sample": True}))
    return path


def answers(model: Path, sampling: Sampling) -> list[str]:
    problems = list(load_problems("tiny:test").problems.values())[:12]
    questions = [
        Question(number, [Message(each["role"], each["content"]) for each in chat_prompt(problem, show_tests=1)], 7)
        for number, problem in enumerate(problems)
    ]
    return [
        answer.reply.message.content
        for answer in InProcessModel(str(model), sampling).answers(questions)
        if answer.reply
    ]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_answers_in_this_process_are_those_of_the_model_without_its_settings(
    opinionated: Path, tiny_directory: Path, temperature: float
) -> None:
    plain = answers(tiny_directory, Sampling(temperature, 24))
    assert len(plain) == 12
    assert answers(opinionated, Sampling(temperature, 24)) == plain
    assert answers(opinionated, Sampling(temperature, 24, use_own=True)) != plain


def test_what_a_model_would_change_is_known_and_its_end_tokens_are_none_of_it(opinionated: Path) -> None:
    assert InProcessModel(str(opinionated)).own_settings == SETTINGS


def test_training_samples_as_without_them_and_its_run_says_which_are_not_used(
    train: Train, opinionated: Path, tiny_directory: Path, tmp_path: Path
) -> None:
    words = ("--problems", "tiny", "--extract", "exact", "--steps", "1", "--max-tokens", "24", *SMALL)
    rows: list[Any] = []
    for model in (tiny_directory, opinionated):
        trained = train("--model", str(model), *words, name=f"of-{model.name}")
        assert trained.code == 0, trained.stderr
        assert ("Sampling: " in trained.stderr) is (model == opinionated)
        run = RunReader(trained.run)
        rows.append(sorted((row.task_id, row.completion) for row in run.trajectories().rows))
    assert len(rows[0]) == 8
    assert rows[0] == rows[1]
    assert "own top_k=3, min_p=0.4, typical_p=0.5, repetition_penalty=1.3, no_repeat_ngram_size=2 are not applied" in (
        trained.stderr
    )
    options = run.config.options
    assert options["unused_model_settings"] == SETTINGS
    assert isinstance(options["sampling"], dict)
    assert (options["sampling"]["repetition_penalty"], options["sampling"]["top_k"]) == (1.0, 0)
