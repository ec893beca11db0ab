"""Completions in their order, on the disk if they are many; each has a name that no other has.

Memory holds the names that rows give, and two numbers for each completion. The other names are made of a problem and
the number of a sample when a completion is read.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, overload

from sandrl.problems.completion import Completion
from sandrl.problems.store import MEMORY_BYTES, ObjectStore


class CompletionStore(Sequence[Completion]):
    """Completions in the order in which they were added."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._objects: ObjectStore[Completion] = ObjectStore("completions", memory_bytes)
        self._tasks: dict[str, int] = {}
        self._task_of = array("I")
        # Of each completion without a name of its own; 0: the name of its problem is its name.
        self._samples = array("I")
        self._lines: dict[str, int] = {}

    def add(self, completion: Completion, line: int = 0) -> None:
        """Adds a completion; `named` gives one without an `id` its name."""
        self._objects.add(completion)
        self._task_of.append(self._tasks.setdefault(completion.task_id, len(self._tasks)))
        if completion.id:
            self._lines.setdefault(completion.id, line)

    def line_of(self, identifier: str) -> int | None:
        """The line of the completion of that name; None if there is none so far."""
        return self._lines.get(identifier)

    def named(self) -> Sequence[Completion]:
        """The completions, each with a name, when all have been added: a tuple, if they are in memory."""
        counts, last = array("I", [0]) * len(self._tasks), array("I", [0]) * len(self._tasks)
        for task in self._task_of:
            counts[task] += 1
        names = list(self._tasks)
        self._samples = array("I")
        for task in self._task_of:
            name = names[task]
            if counts[task] == 1 and name not in self._lines:
                self._samples.append(0)
                continue
            number = last[task] + 1
            while (taken := f"{name}#{number}") in self._lines or taken in self._tasks:
                number += 1
            last[task] = number
            self._samples.append(number)
        return self if self._objects.is_on_disk else tuple(self)

    @overload
    def __getitem__(self, number: int) -> Completion: ...

    @overload
    def __getitem__(self, number: slice) -> list[Completion]: ...

    def __getitem__(self, number: int | slice) -> Completion | list[Completion]:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        completion = self._objects[number]
        if completion.id:
            return completion
        sample = self._samples[number]
        return replace(completion, id=f"{completion.task_id}#{sample}" if sample else completion.task_id)

    def __len__(self) -> int:
        return len(self._objects)

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (tuple(self),)
