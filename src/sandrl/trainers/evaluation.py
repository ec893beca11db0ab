"""Evaluates the policy of TRL's trainer before, during and after training, without any effect on the training.

The trainer generates and the reward function judges, as in training, so both measure the same policy. This module
schedules the evaluations: each one follows the checkpoint of its step, so a job that is killed during an evaluation
loses only that evaluation. Evaluations use a random state derived from the seed and the step, and the state of the
training is restored afterwards: evaluations change no completion of the training, and a resumed run evaluates like an
uninterrupted one.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from typing import Any

from sandrl.models import libraries
from sandrl.runs.recorder import EventCounts
from sandrl.trainers.batches import evaluation_batch, missing_problems
from sandrl.trainers.plan import Context
from sandrl.trainers.recording import Recorder
from sandrl.trainers.rewarding import GREEDY_COLUMN, PADDING_COLUMN
from sandrl.trainers.training import Training

_SAMPLED, _GREEDY = "sampled", "greedy"


def evaluation_datasets(context: Context, rows: Sequence[Mapping[str, Any]], batch: int) -> dict[str, Any]:
    """What is evaluated on, by the way of answering, with as much padding as the processes need for equal batches.

    `rows` has a row for each problem, and `batch` is how many sampled answers a process evaluates at once.
    """
    config = context.config
    datasets = {_SAMPLED: _dataset(context, rows, config.eval_samples, batch)}
    if config.has_greedy_answers:
        greedy = [{**row, GREEDY_COLUMN: True} for row in rows]
        datasets[_GREEDY] = _dataset(context, greedy, 1, _greedy_batch(context))
    return datasets


def _dataset(context: Context, rows: Sequence[Mapping[str, Any]], answers: int, batch: int) -> Any:
    missing = missing_problems(len(rows), answers, processes=context.processes.count, batch=batch)
    padding = ({**row, PADDING_COLUMN: True} for row in cycle(rows))
    return libraries.load("datasets").Dataset.from_list([*rows, *islice(padding, missing)])


def _greedy_batch(context: Context) -> int:
    chosen = context.config.set.get("per_device_eval_batch_size")
    if chosen is not None:
        return int(str(chosen))
    count = context.processes.count
    most = context.config.batch_size // count
    return evaluation_batch(len(context.sets.evaluation), 1, processes=count, most=most)


class Evaluator:
    """Evaluates the policy of TRL's trainer, which has the datasets of `evaluation_datasets`, when it is due."""

    def __init__(self, trainer: Any, context: Context, training: Training, recorder: Recorder) -> None:
        self._trainer = trainer
        self._config = context.config
        self._processes = context.processes
        self._has_problems = bool(context.sets.evaluation)
        self._greedy_batch = _greedy_batch(context) if self._has_problems else 0
        self._take = training.take
        self._recorder = recorder

    def is_due(self, done: int) -> bool:
        """Whether the policy is to be evaluated with so many steps, and was not yet."""
        is_wanted = self._has_problems and self._config.is_evaluated_after(done)
        return is_wanted and done not in self._recorder.evaluations

    def evaluate(self, done: int) -> None:
        """Evaluates the policy, which has had so many steps; all processes must."""
        self._recorder.begin_evaluation(done)
        greedy: EventCounts | None = None
        with own_random_state(self._config.seed, done, self._processes.rank):
            self._trainer.evaluate(_SAMPLED)
            sampled = self._take()
            if self._config.has_greedy_answers:
                with _greedy_answers(self._trainer, self._greedy_batch):
                    self._trainer.evaluate(_GREEDY)
                greedy = self._take()
        self._recorder.record_evaluation(done, sampled, greedy)


@contextmanager
def own_random_state(*words: int) -> Iterator[None]:
    """Lets a `with` block draw from a random state that these numbers decide, and restores the one before."""
    numpy, torch = libraries.load("numpy"), libraries.load("torch")
    before = random.getstate(), numpy.random.get_state(), torch.get_rng_state()
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    digest = hashlib.sha256(" ".join(map(str, words)).encode()).digest()
    libraries.load("transformers").set_seed(int.from_bytes(digest[:4], "big"))
    try:
        yield
    finally:
        random.setstate(before[0])
        numpy.random.set_state(before[1])
        torch.set_rng_state(before[2])
        if devices:
            torch.cuda.set_rng_state_all(devices)


@contextmanager
def _greedy_answers(trainer: Any, batch: int) -> Iterator[None]:
    # TRL's trainer takes the likeliest token everywhere, once for each problem, in the `with` block.
    changes: list[tuple[Any, str, Any]] = [
        (trainer, "num_generations_eval", 1),
        (trainer.args, "per_device_eval_batch_size", batch),
    ]
    if getattr(trainer, "generation_config", None) is not None:
        # Both: where a model is generated with, TRL has the second one replace what the model's own settings say.
        changes.append((trainer.generation_config, "do_sample", False))
        changes.append((trainer, "generation_kwargs", {**trainer.generation_kwargs, "do_sample": False}))
    if getattr(trainer, "vllm_generation", None) is not None:
        changes.append((trainer.vllm_generation, "temperature", 0.0))
    before = [getattr(of, name) for of, name, _ in changes]
    for of, name, value in changes:
        setattr(of, name, value)
    try:
        yield
    finally:
        for (of, name, _), value in zip(changes, before, strict=True):
            setattr(of, name, value)
