"""Evaluations before, between and after steps: what they measure, and that they change nothing of the training."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sandrl.problems import Problem
from sandrl.runs import RunReader
from sandrl.runs.index import RunEntry
from sandrl.runs.overview import HELD_OUT, best_checkpoint, overview
from sandrl.runs.rows import EvaluationRow, now
from tests.trainers.conftest import Train, TrainHere
from tests.trainers.test_processes import LAUNCHER
from tests.trainers.test_resumption import cut

EVERY: dict[str, Any] = {
    "model": "tiny",
    "num_problems": 4,
    "batch_size": 8,
    "samples": 4,
    "steps": 3,
    "eval_problems": 4,
    "eval_samples": 2,
    "eval_every": 1,
    "save_steps": 3,
    "keep_checkpoints": 9,
    "runtime": "local",
}

Answers = dict[tuple[int, bool], list[tuple[str, str]]]


def answers(run: Path, *, attempt: int | None = None) -> Answers:
    """The answers to held-out problems by step, and by whether they are greedy; of all attempts unless given."""
    found: Answers = {}
    for path in run.glob("trajectories*.jsonl"):
        for row in map(json.loads, path.read_text("utf-8").splitlines()):
            if row["held_out"] and attempt in (None, row["attempt"]):
                found.setdefault((row["step"], row["greedy"]), []).append((row["task_id"], row["completion"]))
    return {place: sorted(each) for place, each in found.items()}


def trained(run: Path) -> set[tuple[int, str, str]]:
    """The completions of the training, by step."""
    rows = RunReader(run).trajectories().rows
    return {(row.step or 0, row.id, row.completion or "") for row in rows if not row.held_out}


def killed_in_the_evaluation(whole: Path, step: int) -> Path:
    """A copy of a run as it was when the evaluation after a step had judged a few answers."""
    copy = cut(whole, step)
    lines = (copy / "evaluations.jsonl").read_text("utf-8").splitlines(keepends=True)
    (copy / "evaluations.jsonl").write_text("".join(lines[:step]), encoding="utf-8")
    rows = [json.loads(line) for line in (copy / "trajectories.jsonl").read_text("utf-8").splitlines()]
    before = [row for row in rows if row["step"] < step]
    some = [row for row in rows if row["step"] == step and row["held_out"]][:3]
    (copy / "trajectories.jsonl").write_text("".join(json.dumps(row) + "\n" for row in before + some), encoding="utf-8")
    metrics = [json.loads(line) for line in (copy / "metrics.jsonl").read_text("utf-8").splitlines()]
    kept = "".join(json.dumps(row) + "\n" for row in metrics if row["step"] < step)
    (copy / "metrics.jsonl").write_text(kept, encoding="utf-8")
    return copy


def test_evaluations_change_no_completion_of_the_training_and_no_weight(train_here: TrainHere) -> None:
    often = train_here(**EVERY, run_name="often")
    never = train_here(**{**EVERY, "eval_problems": 0, "eval_every": None}, run_name="never")
    # Other problems are trained on where none are held out, unless these have a split of their own, as tiny has.
    assert trained(often) == trained(never)
    assert len(trained(often)) == 24
    weights = Path("checkpoints") / "checkpoint-3" / "model.safetensors"
    assert (often / weights).read_bytes() == (never / weights).read_bytes()

    # Two sampled answers and a greedy one to each problem, before training and after each step.
    found = answers(often)
    assert {place: Counter(name for name, _ in each) for place, each in found.items()} == {
        (step, greedy): dict.fromkeys({name for name, _ in found[0, True]}, 1 if greedy else 2)
        for step in range(4)
        for greedy in (False, True)
    }
    reader = RunReader(often)
    rows = reader.evaluations().rows
    assert [row.step for row in rows] == [0, 1, 2, 3]
    assert [row.checkpoint for row in rows] == [None, *(f"checkpoints/checkpoint-{step}" for step in (1, 2, 3))]
    for row, measured in zip(rows, reader.metrics().rows, strict=True):
        own = [each for each in reader.trajectories().rows if each.held_out and each.step == row.step]
        passed = Counter(each.greedy for each in own if each.is_pass)
        assert row.metrics[HELD_OUT] == pytest.approx(passed[False] / 8)
        assert row.metrics["held_out/greedy"] == pytest.approx(passed[True] / 4)
        assert (row.metrics["held_out/problems"], row.metrics["held_out/greedy_problems"]) == (4, 4)
        assert row.metrics.items() <= measured.metrics.items()


def test_a_resumed_run_makes_the_evaluations_that_are_missing_and_no_other(train_here: TrainHere) -> None:
    whole = train_here(**EVERY, run_name="whole")
    expected = answers(whole)

    in_it = train_here(resume=killed_in_the_evaluation(whole, 2))
    assert answers(in_it, attempt=2) == {place: expected[place] for place in expected if place[0] >= 2}
    after_it = train_here(resume=cut(whole, 1))
    assert answers(after_it, attempt=2) == {place: expected[place] for place in expected if place[0] >= 2}
    for resumed in (in_it, after_it):
        reader = RunReader(resumed)
        assert [row.metrics for row in reader.evaluations().rows] == [
            row.metrics for row in RunReader(whole).evaluations().rows
        ]
        held_out = [row for row in reader.trajectories().rows if row.held_out]
        assert len(held_out) == 4 * 12, "each evaluation is there once, whichever attempt made it"
        assert [row.metrics.get(HELD_OUT) for row in reader.metrics().rows] == [
            row.metrics[HELD_OUT] for row in RunReader(whole).evaluations().rows
        ]
        assert trained(resumed) == trained(whole)


def test_the_best_checkpoint_is_kept_and_named_and_of_equal_ones_the_earliest(train_here: TrainHere) -> None:
    # At such a rate the policy is lost at once, so no later policy is better than that after the first step.
    given = {**EVERY, "steps": 4, "keep_checkpoints": 1, "learning_rate": 1.0, "lr_schedule": "constant"}
    run = train_here(**given, set={"warmup_steps": 0, "max_grad_norm": 0.0}, run_name="best")
    assert sorted(path.name for path in (run / "checkpoints").glob("checkpoint-*")) == ["checkpoint-1", "checkpoint-4"]
    best = overview(RunEntry("best", run, now())).best
    assert best is not None
    assert (best.step, best.path) == (1, run / "checkpoints" / "checkpoint-1")


def test_greedy_answers_are_those_that_eval_gets_of_the_checkpoint(train_here: TrainHere) -> None:
    import threading

    from sandrl.models import Message, Question, Sampling
    from sandrl.models.in_process import InProcessModel
    from sandrl.problems import ANSWER_INSTRUCTION, chat_prompt, load_problems

    run = train_here(**{**EVERY, "steps": 1}, run_name="greedy")
    checkpoint = str(run / "checkpoints" / "checkpoint-1")
    model = InProcessModel(checkpoint, Sampling(temperature=0.0, max_tokens=48), batch_size=4, stop=threading.Event())
    problems = load_problems("tiny:test").problems
    expected = answers(run)[1, True]
    questions = [
        Question(
            number,
            [
                Message(each["role"], each["content"])
                for each in chat_prompt(problems[name], show_tests=1, instruction=ANSWER_INSTRUCTION)
            ],
        )
        for number, (name, _) in enumerate(expected)
    ]
    found = {each.number: each.reply.message.content for each in model.answers(questions) if each.reply}
    assert [found[number] for number in range(4)] == [text for _, text in expected]


def test_another_set_is_evaluated_on_and_nothing_is_withheld(train_here: TrainHere, tmp_path: Path) -> None:
    from sandrl.problems import load_problems

    def row_of(name: str, problem: Problem) -> dict[str, Any]:
        return {"task_id": name, "prompt": problem.prompt, "tests": list(problem.tests)}

    new, known = (list(load_problems(f"tiny:{split}").problems.values()) for split in ("test", "train"))
    rows = [row_of(f"new-{n}", new[n]) for n in range(3)] + [row_of(f"known-{n}", known[n]) for n in range(2)]
    (tmp_path / "other.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    given = {**EVERY, "eval_set": str(tmp_path / "other.jsonl"), "eval_problems": 128, "steps": 1}
    run = train_here(**given, run_name="other")
    assert {name for name, _ in answers(run)[0, False]} == {"new-0", "new-1", "new-2"}
    assert RunReader(run).evaluations().rows[-1].problems == 3


def test_evaluations_draw_from_a_random_state_of_their_own_and_restore_the_trainings() -> None:
    from sandrl.models import libraries
    from sandrl.trainers.evaluation import own_random_state

    numpy, torch = libraries.load("numpy"), libraries.load("torch")

    def draw() -> tuple[float, float, float]:
        return random.random(), float(numpy.random.random()), float(torch.rand(1))

    random.seed(7)
    numpy.random.seed(7)
    torch.manual_seed(7)
    expected = [draw(), draw()]
    random.seed(7)
    numpy.random.seed(7)
    torch.manual_seed(7)
    found = [draw()]
    drawn = []
    for words in ((0, 1, 0), (0, 1, 0), (0, 2, 0), (1, 1, 0), (0, 1, 1)):
        with own_random_state(*words):
            drawn.append(draw())
    found.append(draw())
    assert found == expected
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) == 4


def row(step: int, rate: float | None, run: Path) -> EvaluationRow:
    """An evaluation whose checkpoint is there."""
    (run / f"checkpoint-{step}").mkdir()
    return EvaluationRow(
        job_id="j", step=step, problems=4, metrics={HELD_OUT: rate}, checkpoint=f"checkpoint-{step}" if step else None
    )


@pytest.mark.parametrize(
    ("rates", "best"),
    [([0.9, 0.5, 0.7, 0.7], 2), ([0.1, None, 0.0, 0.0], 2), ([0.5, None, None], None), ([0.5], None)],
)
def test_the_best_is_the_highest_that_was_measured_of_a_checkpoint(
    tmp_path: Path, rates: list[float | None], best: int | None
) -> None:
    rows = [row(step, rate, tmp_path) for step, rate in enumerate(rates)]
    found = best_checkpoint(tmp_path, rows)
    assert (None if found is None else found.step) == best
    if found is not None:
        shutil.rmtree(found.path)
        again = best_checkpoint(tmp_path, rows)
        assert again is None or again.step != best


@pytest.mark.slow
@pytest.mark.parametrize("change", [{"lora": True, "learning_rate": 4e-3}, {"rollout": "tools", "max_tokens": 96}])
def test_with_adapters_and_with_tools_they_change_nothing_either(train_here: TrainHere, change: dict[str, Any]) -> None:
    often = train_here(**{**EVERY, **change}, run_name="often")
    never = train_here(**{**EVERY, **change, "eval_problems": 0, "eval_every": None}, run_name="never")
    assert completions_of_training(often) == completions_of_training(never)
    assert {place[0] for place in answers(often)} == {0, 1, 2, 3}


def completions_of_training(run: Path) -> set[tuple[int, str, str]]:
    """As `trained`, but with what was said in episodes."""
    rows = RunReader(run).trajectories().rows
    return {
        (row.step or 0, row.id, (row.completion or "") + "".join(each.content for each in row.messages))
        for row in rows
        if not row.held_out
    }


@pytest.mark.slow
def test_two_processes_evaluate_each_problem_once_between_steps(train: Train) -> None:
    def run(name: str, **change: Any) -> Path:
        given = {**EVERY, "eval_problems": 3, **change}
        words = [f"--{key.replace('_', '-')}={value}" for key, value in given.items() if value is not None]
        done = train(*words, name=name, launcher=LAUNCHER)
        assert done.code in (0, 1), done.stderr
        return done.run

    often, never = run("often"), run("never", eval_problems=0, eval_every=None)
    assert trained(often) == trained(never)
    assert [len(each) for _, each in sorted(answers(often).items())] == [6, 3] * 4
    assert [row.metrics["held_out/problems"] for row in RunReader(often).evaluations().rows] == [3.0] * 4
    again = cut(often, 1)
    resumed = train("--resume", again, launcher=LAUNCHER)
    assert resumed.code in (0, 1), resumed.stderr
    assert answers(again, attempt=2) == {place: each for place, each in answers(often).items() if place[0] > 1}
