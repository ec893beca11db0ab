"""Rewards that begin early change no reward, are counted once, and a run that is one step behind resumes exactly."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from sandrl.runs import RunReader
from sandrl.runs.identity import disagreements
from sandrl.trainers.overlap import hearing_ends
from tests.trainers.conftest import Train, TrainHere
from tests.trainers.test_processes import LAUNCHER
from tests.trainers.test_resumption import EPOCHS, completions, cut


def losses(run: Path) -> list[tuple[float | None, ...]]:
    """What the trainer has measured in each step."""
    names = ("loss", "grad_norm", "completions/mean_length", "num_tokens", "reward/mean")
    return [tuple(row.metrics[name] for name in names) for row in RunReader(run).metrics().rows]


def test_sequences_are_heard_when_they_end_as_the_trainer_cuts_them(tiny_directory: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(tiny_directory)
    tokenizer = AutoTokenizer.from_pretrained(tiny_directory, padding_side="left")
    prompts = tokenizer(["Write `solve(n)`: it returns n plus 7.", "Hello"] * 4, return_tensors="pt", padding=True)
    heard: dict[int, list[int]] = {}
    ends = [tokenizer.eos_token_id]
    sampling = {"do_sample": True, "max_new_tokens": 30, "pad_token_id": tokenizer.pad_token_id}
    found = []
    for is_listening in (False, True):
        torch.manual_seed(7)
        with hearing_ends(model, ends, heard.__setitem__) if is_listening else nullcontext():
            found.append(model.generate(**prompts, **sampling))
    assert torch.equal(*found)
    sampled = found[0][:, prompts["input_ids"].size(1) :].tolist()
    assert heard == {row: ids[: ids.index(ends[0]) + 1] for row, ids in enumerate(sampled) if ends[0] in ids}
    assert heard


def test_the_loss_corrects_for_the_policy_that_sampled(train_here: TrainHere) -> None:
    given = {**EPOCHS, "steps": 4, "learning_rate": 2e-2, "lr_schedule": "constant"}
    clipped = {}
    for overlap in ("answers", "step"):
        rows = RunReader(train_here(**given, run_name=overlap, overlap=overlap)).metrics().rows
        clipped[overlap] = [row.metrics["clip_ratio/region_mean"] or 0.0 for row in rows]
    # The policy that samples a step is the one that is trained in it: every ratio is 1.
    assert clipped["answers"] == [0.0] * 4
    assert clipped["step"][0] == 0.0
    assert max(clipped["step"]) > 0.0


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
    for step in (1, 5):
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


@pytest.mark.slow
def test_completions_of_several_steps_are_generated_one_generation_ahead(train_here: TrainHere) -> None:
    passes = {"num_iterations": 2, "steps_per_generation": 2}
    given = {**EPOCHS, "batch_size": 4, "steps": 8, "set": passes, "overlap": "step"}
    whole = train_here(**given, run_name="whole")
    assert completions(whole, attempt=1).keys() == {0, 4}
    assert not disagreements(RunReader(whole), is_complete=True)
    last = Path("checkpoints") / "checkpoint-8" / "model.safetensors"
    for step in (3, 4):
        resumed = train_here(resume=cut(whole, step))
        assert completions(resumed, attempt=2) == {4: completions(whole, attempt=1)[4]}
        assert (resumed / last).read_bytes() == (whole / last).read_bytes()


@pytest.mark.slow
def test_two_processes_are_one_step_behind_together(train: Train) -> None:
    words = [f"--{name.replace('_', '-')}={value}" for name, value in EPOCHS.items()]
    done = train(*words, "--overlap", "step", name="whole", launcher=LAUNCHER)
    assert done.code in (0, 1), done.stderr
    expected = completions(done.run, attempt=1)
    assert [len(expected[step]) for step in range(6)] == [8] * 6
    assert not disagreements(RunReader(done.run), is_complete=True)
    copy = cut(done.run, 3)
    resumed = train("--resume", copy, launcher=LAUNCHER)
    assert resumed.code in (0, 1), resumed.stderr
    assert completions(copy, attempt=2) == {each: expected[each] for each in (3, 4, 5)}
    last = Path("checkpoints") / "checkpoint-6" / "model.safetensors"
    assert (copy / last).read_bytes() == (done.run / last).read_bytes()
