"""Problems by name, and completions in their order, stored on the disk if they are many.

Memory holds the names, and objects up to `MEMORY_BYTES`. Those of a larger set are in an unnamed file, and are read
when they are used. So memory grows with the number of problems, some 150 bytes for each, and not with their checks; a
caller has a mapping of problems in both cases. The file disappears with the process, also after a crash. No other user
can open it, and only this module writes it, so loading its pickles is safe.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import threading
import weakref
from array import array
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast, overload

from sandrl import forks
from sandrl.digests import digest_of
from sandrl.errors import ServiceError
from sandrl.problems.completion import Completion
from sandrl.problems.problem import Problem

MEMORY_BYTES = 64 << 20
"""How much memory problems may take before they are stored on the disk; then, how much the last ones read may take."""

# Unlike /tmp, it is never in memory.
_DISK = Path("/var/tmp")
_TEXT_BYTES, _OBJECT_BYTES = 60, 80


T = TypeVar("T")


class ObjectStore(Sequence[T]):
    """Objects in the order in which they were added, on the disk if they are many."""

    def __init__(self, noun: str, memory_bytes: int = MEMORY_BYTES) -> None:
        self._noun = noun
        self._memory_bytes = memory_bytes
        self._count = 0
        # All of them while there is no file; then those that were read last.
        self._near: dict[int, T] = {}
        self._near_bytes = 0
        self._descriptor: int | None = None
        # Where each ends in the file, and the next begins.
        self._ends = array("Q")

    def add(self, value: T) -> None:
        self._count += 1
        if self._descriptor is not None:
            self._write(value)
            return
        self._near[self._count - 1] = value
        self._near_bytes += memory_of(value)
        if self._near_bytes > self._memory_bytes:
            self._open()

    @property
    def is_on_disk(self) -> bool:
        return self._descriptor is not None

    @overload
    def __getitem__(self, number: int) -> T: ...

    @overload
    def __getitem__(self, number: slice) -> list[T]: ...

    def __getitem__(self, number: int | slice) -> T | list[T]:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(self._count))]
        if number < 0:
            number += self._count
        if not 0 <= number < self._count:
            raise IndexError(number)
        return self._value(number)

    def _value(self, number: int) -> T:
        near = self._near.get(number)
        if near is not None or self._descriptor is None:
            return near if near is not None else self._near[number]
        begin = self._ends[number - 1] if number else 0
        value: T = pickle.loads(os.pread(self._descriptor, self._ends[number] - begin, begin))
        # Threads may do this at once: what is lost then is read again.
        self._near_bytes += memory_of(value)
        if self._near_bytes > self._memory_bytes:
            self._near, self._near_bytes = {}, memory_of(value)
        self._near[number] = value
        return value

    def __len__(self) -> int:
        return self._count

    def _open(self) -> None:
        is_usable = "TMPDIR" not in os.environ and os.access(_DISK, os.W_OK)
        try:
            with tempfile.TemporaryFile(dir=_DISK if is_usable else None) as file:
                self._descriptor = os.dup(file.fileno())
        except OSError as error:
            raise self._no_room(error) from error
        weakref.finalize(self, os.close, self._descriptor)
        near, self._near, self._near_bytes = self._near, {}, 0
        for value in near.values():
            self._write(value)

    def _write(self, value: T) -> None:
        assert self._descriptor is not None, "it was opened"
        data = memoryview(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
        self._ends.append((self._ends[-1] if self._ends else 0) + len(data))
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            raise self._no_room(error) from error

    def _no_room(self, error: OSError) -> ServiceError:
        message = f"the {self._noun} cannot be stored on the disk: {error.strerror}"
        return ServiceError(message, hint="free space there, or set TMPDIR to a directory on a disk with free space")


class CompletionStore(ObjectStore[Completion]):
    """Completions in the order in which they were added, each with a name that no other has.

    Memory holds the names that rows give, and two numbers for each completion. The other names are made of a problem
    and the number of a sample when a completion is read.
    """

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        super().__init__("completions", memory_bytes)
        self._tasks: dict[str, int] = {}
        self._task_of = array("I")
        # Of each completion without a name of its own; 0: the name of its problem is its name.
        self._samples = array("I")
        self._lines: dict[str, int] = {}

    def add(self, completion: Completion, line: int = 0) -> None:
        """Adds a completion; `named` gives one without an `id` its name."""
        super().add(completion)
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
        return self if self.is_on_disk else tuple(self)

    def _value(self, number: int) -> Completion:
        completion = super()._value(number)
        if completion.id:
            return completion
        sample = self._samples[number]
        return replace(completion, id=f"{completion.task_id}#{sample}" if sample else completion.task_id)

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (tuple(self),)


class _ByName(Mapping[str, Problem]):
    # By `task_id`, in their order, where each problem is.
    _places: Mapping[str, Any]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, task_id: object) -> bool:
        return task_id in self._places

    def __reduce__(self) -> tuple[Any, ...]:
        return ProblemStore, (tuple(self.items()),)


class ProblemStore(_ByName):
    def __init__(self, problems: Iterable[tuple[str, Problem]] = (), *, memory_bytes: int = MEMORY_BYTES) -> None:
        self._objects: ObjectStore[Problem] = ObjectStore("problems", memory_bytes)
        self._places: dict[str, int] = {}
        for name, problem in problems:
            self.add(name, problem)

    def add(self, name: str, problem: Problem) -> None:
        self._places[name] = len(self._places)
        self._objects.add(problem)

    @property
    def is_on_disk(self) -> bool:
        return self._objects.is_on_disk

    def __getitem__(self, task_id: str) -> Problem:
        return self._objects[self._places[task_id]]


class Selection(_ByName):
    """Some of the problems of one or several mappings; nothing of them is copied."""

    def __init__(self, sources: Mapping[str, Mapping[str, Problem]]) -> None:
        self._places = sources

    def __getitem__(self, task_id: str) -> Problem:
        found: Problem = self._places[task_id][task_id]
        return found


def select(problems: Mapping[str, Problem], names: Iterable[str]) -> Selection:
    return Selection(dict.fromkeys(names, problems))


def joined(*parts: Mapping[str, Problem]) -> Selection:
    """The problems of several mappings; of those with the same name the last."""
    return Selection({name: part for part in parts for name in part})


def memory_of(value: object) -> int:
    """About how many bytes of memory a problem takes, or a field of one."""
    if isinstance(value, str | bytes):
        return _TEXT_BYTES + len(value)
    if isinstance(value, tuple):
        return sum(map(memory_of, value)) if value else 0
    if isinstance(value, Mapping):
        return sum(memory_of(key) + memory_of(each) for key, each in value.items())
    names = _names_of_fields(cast("Hashable", type(value)))
    return _OBJECT_BYTES + sum(map(memory_of, _given(value, names))) if names else 0


def _given(value: object, names: tuple[str, ...]) -> Iterator[object]:
    return (given for name in names if (given := getattr(value, name)) is not None)


@cache
def _names_of_fields(kind: Hashable) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind)) if isinstance(kind, type) and is_dataclass(kind) else ()


MOST_BYTES = 256 << 20
"""How much memory problems may take by default."""


class InternedProblems:
    """Problems made of rows that are sent repeatedly: the same row is parsed once, and becomes one object.

    Rows are compared by their content, not by their names. So results that the judge has stored for a problem apply to
    every sender of the row, and two rows of one name never share a verdict. The problems that were used longest ago are
    removed first, but never the last one. Several threads may ask.
    """

    def __init__(self, *, max_bytes: int = MOST_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._known: OrderedDict[bytes, tuple[Problem, int]] = OrderedDict()
        self._lock = threading.Lock()
        forks.watch(self)

    def after_fork(self) -> None:
        """Keeps what is known; another thread may have held the lock at the moment of the fork."""
        self._lock = threading.Lock()

    def of(self, content: Any, make: Callable[[], Problem]) -> Problem:
        """The problem that was made of this content before, or one made now; what no JSON can hold is not kept."""
        try:
            key = digest_of([content])
        except (TypeError, ValueError):
            return make()
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
                return known[0]
        problem = make()
        size = memory_of(problem)
        with self._lock:
            # Another thread may have made it meanwhile: there is to be one object.
            if key in self._known:
                return self._known[key][0]
            self._known[key] = problem, size
            self._bytes += size
            while self._bytes > self._max_bytes and len(self._known) > 1:
                self._bytes -= self._known.popitem(last=False)[1][1]
        return problem
