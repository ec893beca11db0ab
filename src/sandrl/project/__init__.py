"""A folder for a user's own project, which `sandrl init` writes: problems, a reward function, configurations, a CI job.

The files are those of `template/`, which tests run as a user would. In their names, `dot_` stands for a dot at the
start, because tools that build and search packages skip such files.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

from sandrl.errors import InputError
from sandrl.installation import installation

_SOURCE = b"@SANDRL_SOURCE@"
_DOT = "dot_"


@dataclass(frozen=True, slots=True)
class Project:
    """A folder that was written.

    Attributes:
        kept: The files that existed and stay as they were.
        source: What the CI job installs sandrl from, as pip reads it.
    """

    directory: Path
    written: tuple[str, ...]
    kept: tuple[str, ...]
    source: str


def create_project(directory: Path, *, keep_existing: bool = False) -> Project:
    """Writes the files of a project; after an error, nothing of them is left.

    Raises:
        InputError: If a file exists, unless it may be kept, or if a file cannot be written.
    """
    if os.path.lexists(directory) and not directory.is_dir():
        raise InputError("is not a directory; nothing was written", path=directory, hint="choose another name")
    here = installation()
    # Where the source is gone, only an index could have it; a job says if it has not.
    source = here.named(is_here=here.lost_source)
    contents = {name: text.replace(_SOURCE, os.fsencode(shlex.quote(source))) for name, text in sorted(_template())}
    kept = tuple(name for name in contents if os.path.lexists(directory / name))
    if kept and not keep_existing:
        raise InputError(
            f"these files exist: {', '.join(kept)}; nothing was written",
            path=directory,
            hint="choose another directory, or write only the other files: sandrl init --keep-existing",
        )
    written = tuple(name for name in contents if name not in kept)
    try:
        with _undone_on_failure() as made:
            for name in written:
                _write(directory / name, contents[name], made)
    except OSError as error:
        place = os.fsdecode(error.filename) if error.filename is not None else directory
        raise InputError(f"cannot be written: {error.strerror}; nothing was written", path=place) from error
    return Project(directory, written, kept, source)


def _template() -> Iterator[tuple[str, bytes]]:
    def walk(folder: Traversable, above: PurePosixPath) -> Iterator[tuple[str, bytes]]:
        for entry in folder.iterdir():
            name = entry.name
            path = above / (f".{name.removeprefix(_DOT)}" if name.startswith(_DOT) else name)
            if entry.is_file():
                yield str(path), entry.read_bytes()
            # Where Python compiles whatever it installs.
            elif name != "__pycache__":
                yield from walk(entry, path)

    return walk(files(__name__) / "template", PurePosixPath())


@contextmanager
def _undone_on_failure() -> Iterator[list[Path]]:
    # Yields a list for files and directories that were made; removes them if the block fails, also by Ctrl-C.
    made: list[Path] = []
    try:
        yield made
    except BaseException:
        for path in reversed(made):
            with suppress(OSError):
                path.rmdir() if path.is_dir() else path.unlink()
        raise


def _write(path: Path, content: bytes, made: list[Path]) -> None:
    missing = []
    for directory in path.parents:
        if os.path.isdir(directory):
            break
        missing.append(directory)
    for directory in reversed(missing):
        directory.mkdir()
        made.append(directory)
    # Never through a link, and never over a file that came meanwhile.
    with path.open("xb") as file:
        made.append(path)
        file.write(content)
