"""Keeps what agents have changed: the state of a machine is a file of its run, and a machine can begin with it.

A file has the name of its digest, so equal states are kept once. The name of a state over another one also has the
digest of that one.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import tempfile
import threading
import uuid
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from sandrl.errors import InfrastructureError, InputError, SandrlError, UnknownImageError
from sandrl.events import Emit, Warned
from sandrl.sandboxes import Connection, State

MOST_BYTES = 4 << 30
"""How much a state may have, plain; nothing is kept of a larger one."""

_CHUNK_BYTES = 1 << 20
_LEVEL = 1
_OVER = ".over-"
_DIGEST = re.compile(r"[0-9a-f]{64}")

_MOST_UNUSED = 8

_lock = threading.Lock()
_files: Counter[Path] = Counter()
_uses: Counter[str] = Counter()
_unused: set[str] = set()
_making: dict[str, threading.Lock] = {}
_temporary: list[tempfile.TemporaryDirectory[str]] = []


class LostStateError(Exception):
    """A state cannot be used, and what the agent has done is not the cause; the message says why, in one line."""


def states_of(run: Path | None) -> Path:
    """The directory of the states of a run; without a run, one that is removed at the end of the process."""
    if run is not None:
        return run / "states"
    with _lock:
        if not _temporary:
            _temporary.append(tempfile.TemporaryDirectory(prefix="sandrl-states-"))
        return Path(_temporary[0].name)


def find_state(directory: Path, digest: str, image: str, *, above: frozenset[str] = frozenset()) -> State | None:
    """A state that was kept, over the image that its machine was made of; None if it is not there.

    A directory of strangers may name states that are above themselves, and digests that lead elsewhere.
    """
    if not _DIGEST.fullmatch(digest) or digest in above:
        return None
    for path in (directory / f"{digest}.tar.gz", *directory.glob(f"{digest}{_OVER}*.tar.gz")):
        if path.is_file():
            _, _, below = path.name.removesuffix(".tar.gz").partition(_OVER)
            lower = find_state(directory, below, image, above=above | {digest}) if below else None
            return None if below and lower is None else State(digest, image, path, lower)
    return None


def keep_state(
    connection: Connection, sandbox_id: str, image: str, below: State | None, directory: Path, emit: Emit
) -> State | None:
    """Keeps what a sandbox has changed, while its programs run.

    Returns:
        The state; None where the runtime cannot tell, or nothing so large or damaged is kept.

    Raises:
        InfrastructureError: If it cannot be written, or the sandbox has ended.
    """
    if connection.write_changes is None:
        return None
    with _kept(directory) as (plain, packed):
        if reason := connection.write_changes(sandbox_id, plain, MOST_BYTES):
            emit(Warned(f"the state of sandbox {sandbox_id} is not kept: {reason}"))
            return None
        digest, path = _packed(plain, packed, below)
        return State(digest, image, path, below)


def add_state(directory: Path, image: str, below: State | None, fill: Callable[[IO[bytes]], None]) -> State:
    """Keeps a state that no sandbox has had.

    Args:
        fill: Writes a layer of an image, as a tar archive.

    Raises:
        InfrastructureError: If it cannot be written.
    """
    with _kept(directory) as (plain, packed):
        with plain.open("xb") as file:
            fill(file)
        digest, path = _packed(plain, packed, below)
        return State(digest, image, path, below)


@contextmanager
def _kept(directory: Path) -> Iterator[tuple[Path, Path]]:
    # Names of a plain archive and of a packed one, which are gone at the end.
    name = uuid.uuid4().hex
    plain, packed = directory / f".{name}.tar", directory / f".{name}.tar.gz"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield plain, packed
    except OSError as error:
        raise InfrastructureError(f"{directory}: a state cannot be kept: {error.strerror}") from error
    except SandrlError as error:
        raise InfrastructureError(f"a state cannot be kept: {error.message}", hint=error.hint) from error
    finally:
        for path in (plain, packed):
            with suppress(OSError):
                path.unlink()


def drop_state(state: State) -> None:
    """Removes a state that this process has kept, unless it was kept more than once."""
    with _lock:
        if not _files[state.path]:
            return
        _files[state.path] -= 1
        if not _files[state.path]:
            state.path.unlink(missing_ok=True)


def _packed(plain: Path, packed: Path, below: State | None) -> tuple[str, Path]:
    digest = hashlib.sha256()
    with plain.open("rb") as source, packed.open("xb") as target:
        os.fchmod(target.fileno(), 0o600)
        # The same bytes whenever the same content is packed.
        with gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=target, mtime=0) as file:
            while chunk := source.read(_CHUNK_BYTES):
                digest.update(chunk)
                file.write(chunk)
    path = packed.parent / f"{digest.hexdigest()}{f'{_OVER}{below.digest}' if below else ''}.tar.gz"
    with _lock:
        # What another process has kept is not removed here.
        _files[path] += 1 if _files[path] or not path.exists() else 2
        packed.replace(path)
    return digest.hexdigest(), path


def image_of(connection: Connection, state: State) -> str:
    """An image of a state, made unless it is there; give it back with `give_back`.

    Raises:
        InfrastructureError: If it cannot be made, because of what the agent has done, or the runtime has no states.
        LostStateError: If it cannot be made, such as when the image below is not stored any more.
    """
    if connection.add_layers is None:
        raise InfrastructureError("sandboxes of this runtime cannot begin with a state")
    layers: list[tuple[str, Path]] = []
    each: State | None = state
    while each is not None:
        layers.insert(0, (f"sha256:{each.digest}", each.path))
        each = each.below
    with _lock:
        making = _making.setdefault(state.digest, threading.Lock())
    with making:
        try:
            image = connection.add_layers(state.image, layers)
            with _lock:
                _uses[image] += 1
                _unused.discard(image)
            return image
        except UnknownImageError as error:
            message = f"state {state.digest[:12]}: its image {state.image} is not stored any more: pull or build it"
            raise LostStateError(message) from error
        except OSError as error:
            raise LostStateError(f"state {state.digest[:12]} cannot be read: {error.strerror}") from error
        except SandrlError as error:
            message = f"state {state.digest[:12]}: {error.message}"
            if isinstance(error, InputError) and all(_has_digest(path, digest) for digest, path in layers):
                raise InfrastructureError(message) from error
            raise LostStateError(message) from error


def _has_digest(path: Path, digest: str) -> bool:
    # Whether a state is as it was kept.
    found = hashlib.sha256()
    try:
        with gzip.open(path) as file:
            while chunk := file.read(_CHUNK_BYTES):
                found.update(chunk)
    except (OSError, EOFError, zlib.error):
        return False
    return digest == f"sha256:{found.hexdigest()}"


def give_back(connection: Connection, image: str) -> None:
    """Notes that a machine no longer needs the image of a state; a few are removed together."""
    with _lock:
        _uses[image] -= 1
        if not _uses[image]:
            del _uses[image]
            _unused.add(image)
        if len(_unused) < _MOST_UNUSED:
            return
        # The sandboxes of the last ones are being stopped.
        unused = sorted(_unused)
        _unused.clear()
        with suppress(SandrlError, OSError):
            _unused.update(connection.remove_images(unused))
