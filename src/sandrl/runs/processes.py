"""The processes of a distributed training run, and the values that they exchange.

Each process owns its sandboxes and writes its own files; together they need to agree on three small values (the run,
its rewards, when to stop), which they exchange through the process group that the trainer creates anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from sandrl.extras import require

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Processes:
    """The processes that train together; the rank of this one counts from 0."""

    rank: int = 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this is the one that shows progress and writes what there is one of."""
        return self.rank == 0

    def from_first(self, value: T) -> T:
        """The value that the first process passes, in all of them."""
        if self.count == 1:
            return value
        holder = [value]
        require("accelerate.utils", extra="grpo").broadcast_object_list(holder)
        return holder[0]

    def gather(self, values: list[T]) -> list[T]:
        """The values of all processes, in the order of their ranks."""
        if self.count == 1:
            return values
        gathered: list[T] = require("accelerate.utils", extra="grpo").gather_object(values)
        return gathered

    def wait(self) -> None:
        """Waits until all processes are here."""
        if self.count > 1:
            require("accelerate.utils", extra="grpo").wait_for_everyone()
