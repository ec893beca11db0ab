"""Restores the order of problems and completions when a trainer resumes from a checkpoint.

Checkpoints contain weights, optimizer and random state, but two more things decide the next step, and the libraries do
not restore them. TRL's sampler draws one permutation per epoch from a generator that a new process starts again, so
this module gives every epoch the permutation of its number. If completions are generated for several steps at once, a
checkpoint can fall between these steps, so the checkpoint also contains the remaining completions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from pathlib import Path
from typing import Any

from sandrl.models import libraries


class EpochOrder:
    """A sampler whose order depends on the number of the epoch alone.

    Args:
        make: Makes a sampler whose n-th iteration has the order of the n-th epoch.
        epoch: Says which epoch begins, from 0.
    """

    def __init__(self, make: Callable[[], Any], epoch: Callable[[], int]) -> None:
        self._make = make
        self._epoch = epoch
        self._length = len(make())

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        sampler = self._make()
        for _ in range(self._epoch()):
            # An iteration draws its permutation when it is asked for the first index.
            next(iter(sampler), None)
        return iter(sampler)


def resumable_trainer(trainer: Any) -> Any:
    """The class of a trainer whose resumed runs equal uninterrupted ones.

    Args:
        trainer: TRL's `GRPOTrainer`, or what an engine has made of it.
    """

    class ResumableTrainer(trainer):  # type: ignore[misc]
        def _get_train_sampler(self, dataset: Sized | None = None) -> EpochOrder:
            make = super()._get_train_sampler
            return EpochOrder(lambda: make(dataset), lambda: int(self.state.epoch or 0))

        def _save_rng_state(self, output_dir: str) -> None:
            super()._save_rng_state(output_dir)
            if self._step % (self.args.steps_per_generation * self.num_iterations):
                kept = {"step": self._step, "processes": self.args.world_size, "inputs": self._buffered_inputs}
                libraries.load("torch").save(kept, self._generated(output_dir))

        def _load_rng_state(self, checkpoint: str | None) -> None:
            super()._load_rng_state(checkpoint)
            if checkpoint is None or not self._generated(checkpoint).is_file():
                return
            kept = libraries.load("torch").load(
                self._generated(checkpoint), map_location=self.args.device, weights_only=True
            )
            self._step = kept["step"]
            if kept["processes"] == self.args.world_size:
                self._buffered_inputs = kept["inputs"]

        def _generated(self, checkpoint: str) -> Path:
            """The file with the completions that later steps of this process will use."""
            return Path(checkpoint) / f"generated_{self.args.process_index}.pt"

    return ResumableTrainer
