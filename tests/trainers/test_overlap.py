"""Rewards that begin early change no reward, are counted once, and a run that is one step behind resumes exactly."""

from __future__ import annotations

from pathlib import Path

from sandrl.runs import RunReader
from sandrl.runs.identity import disagreements
from tests.trainers.conftest import TrainHere
from tests.trainers.test_resumption import EPOCHS, completions, cut


def losses(run: Path) -> list[tuple[float | None, ...]]:
    """What the trainer has measured in each step."""
    names = ("loss", "grad_norm", "completions/mean_length", "num_tokens", "reward/mean")
    return [tuple(row.metrics[name] for name in names) for row in RunReader(run).metrics().rows]


def test_answers_that_are_judged_as_they_end_change_nothing(train_here: TrainHere) -> None:
    usual = train_here(**EPOCHS, run_name="usual")
    early = train_here(**EPOCHS, run_name="early", overlap="answers")
    assert completions(early, attempt=1) == completions(usual, attempt=1)
    assert losses(early) == losses(usual)
    assert not disagreements(RunReader(early), is_complete=True)


def test_a_run_that_is_one_step_behind_resumes_exactly(train_here: TrainHere) -> None:
    whole = train_here(**EPOCHS, run_name="whole", overlap="step")
    usual = train_here(**{**EPOCHS, "steps": 1}, run_name="usual")
    expected = completions(whole, attempt=1)
    # The first step has nothing before it that it could be behind of.
    assert expected[0] == completions(usual, attempt=1)[0]
    assert [len(expected[step]) for step in range(6)] == [8] * 6
    assert not disagreements(RunReader(whole), is_complete=True)
    last = Path("checkpoints") / "checkpoint-6" / "model.safetensors"
    for step in (1, 2, 5):
        resumed = train_here(resume=cut(whole, step))
        assert completions(resumed, attempt=2) == {each: expected[each] for each in range(step, 6)}
        assert losses(resumed) == losses(whole)
        assert (resumed / last).read_bytes() == (whole / last).read_bytes()


def test_answers_are_judged_early_with_dynamic_sampling(train_here: TrainHere) -> None:
    given = {**EPOCHS, "steps": 2, "dynamic_sampling": 2}
    usual = train_here(**given, run_name="usual")
    early = train_here(**given, run_name="early", overlap="answers")
    assert completions(early, attempt=1) == completions(usual, attempt=1)
    assert losses(early) == losses(usual)
    assert not disagreements(RunReader(early), is_complete=True)


def test_a_run_with_an_order_of_its_own_resumes_exactly_one_step_behind(train_here: TrainHere) -> None:
    given = {**EPOCHS, "steps": 4, "problems": "tiny:train=2,tiny:test=1"}
    whole = train_here(**given, run_name="whole", overlap="step")
    resumed = train_here(resume=cut(whole, 2))
    assert completions(resumed, attempt=2) == {each: completions(whole, attempt=1)[each] for each in (2, 3)}
    assert losses(resumed) == losses(whole)
