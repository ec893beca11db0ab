"""The lock of a run's tasks: digests of each task and each image, and the origin of the tasks.

Every run with tasks has one, `tasks.lock.json`. A user may give it to other runs, which then refuse tasks and images
with another content.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sandrl.errors import InputError
from sandrl.files import read_regular, write_whole
from sandrl.problems.problem import Problem
from sandrl.problems.tasks.checkouts import origin_of

LOCK = "tasks.lock.json"
_MOST_BYTES = 256 << 20
_SHOWN = 3
_BUILT = "dockerfile:"


class LockedTask(BaseModel):
    """A task: the digest over all that it says, its format, its image, and where it was fetched from, if it was."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    digest: str
    format: str
    image: str
    origin: str = ""


class TaskLock(BaseModel):
    """Tasks by the names of their problems, and digests of images by their names; only of those that were used."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    tasks: Mapping[str, LockedTask]
    images: Mapping[str, str] = Field(default_factory=dict)

    @classmethod
    def of(cls, problems: Iterable[Problem]) -> TaskLock:
        """The lock of the problems that are tasks."""
        tasks = {problem.task_id: task for problem in problems if (task := problem.task) is not None}
        return cls(
            tasks={
                name: LockedTask(
                    digest=task.digest,
                    format=task.format,
                    # What is built is in the task; its place differs from machine to machine.
                    image=_BUILT if task.environment.image.startswith(_BUILT) else task.environment.image,
                    origin=origin_of(task.directory) if task.directory else "",
                )
                for name, task in tasks.items()
            }
        )

    @classmethod
    def read(cls, path: Path) -> TaskLock:
        """Reads a lock.

        Raises:
            InputError: If it is none.
        """
        try:
            return cls.model_validate_json(read_regular(path, _MOST_BYTES))
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", path=path) from error
        except ValidationError as error:
            hint = f"name the {LOCK} of a run"
            raise InputError("is not a lock of tasks", path=path, hint=hint) from error

    def write(self, directory: Path, images: Mapping[str, str]) -> None:
        """Writes the lock of a run, with the digests of its images."""
        lock = self.model_copy(update={"images": dict(sorted(images.items()))})
        write_whole(directory / LOCK, lock.model_dump_json(indent=2).encode() + b"\n")

    def differences(self, other: TaskLock) -> list[str]:
        """What differs in the tasks of another lock, each in a few words; it may lack some."""
        found = []
        for name, task in other.tasks.items():
            locked = self.tasks.get(name)
            if locked is None:
                found.append(f"{name!r:.80} is not in it")
            elif locked.digest != task.digest:
                origin = f" (from {task.origin})" if task.origin and task.origin != locked.origin else ""
                found.append(f"{name!r:.80} has another content{origin}")
        return found


@dataclass(frozen=True, slots=True)
class TaskHold:
    """What holds a run to its tasks: the lock of those that it has, and the images that it must have."""

    lock: TaskLock
    images: Mapping[str, str]

    @classmethod
    def of(cls, path: Path | None, problems: Mapping[str, Problem], *, resume: Path | None = None) -> TaskHold:
        """Makes sure that the tasks are those of a lock, and of the run that is resumed.

        Raises:
            InputError: If a lock is none, or a task differs.
        """
        own = TaskLock.of(problems.values())
        images: dict[str, str] = {}
        kept = None if resume is None else resume / LOCK
        for each in (kept if kept is not None and kept.is_file() else None, path):
            if each is None:
                continue
            lock = TaskLock.read(each)
            if found := lock.differences(own):
                more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
                hint = "start a new run" if each == kept else "use the tasks that it names, or leave out `lock`"
                message = f"names other tasks: {'; '.join(found[:_SHOWN])}{more}"
                raise InputError(message, path=each, hint=hint, fields=("lock",))
            # Those that are built have another digest after each build; what they are built of is in the tasks.
            images |= {name: digest for name, digest in lock.images.items() if not name.startswith(_BUILT)}
        return cls(own, images)

    @contextmanager
    def kept(self, directory: Path, images: Mapping[str, str]) -> Iterator[None]:
        """Writes the lock of a run with tasks, and once more at its end, with the `images` that it then has."""
        if not self.lock.tasks:
            yield
            return
        self.lock.write(directory, self.images)
        try:
            yield
        finally:
            self.lock.write(directory, {**self.images, **images})
