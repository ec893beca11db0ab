"""Mounts of a RUN step: directories, caches, secrets and scripts that are not part of the image."""

from __future__ import annotations

import hashlib
import os
import posixpath
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import IO

from sandrl.errors import InputError
from sandrl.runtime.images import locks
from sandrl.runtime.images.copying import MOST_ID, Item, Layer, write_layer
from sandrl.runtime.images.dockerfile.words import number_of
from sandrl.runtime.images.merged import MergedTree
from sandrl.runtime.images.origins import Origin
from sandrl.runtime.images.store import ImageStore
from sandrl.runtime.steps import StepVolume

_SECRET_MODE, _SCRIPT_MODE, _UNKEYED_MODE = 0o400, 0o755, 0o444
_MOST_MODE = 0o7777
_ID_DIGITS = 32
_APT, _AS_ROOT = ("etc", "apt", "apt.conf.d"), b'APT::Sandbox::User "root";\n'


class Mounts:
    """The mounts of a step, until the end of a `with` block.

    Args:
        image: The files of the image so far.
        directory: What relative targets are below.

    Attributes:
        described: What matters of them for the key of the step: not the contents of secrets and caches.
        environment: Secrets that are variables.
    """

    def __init__(self, store: ImageStore, image: MergedTree, directory: str) -> None:
        self._store = store
        self._directory = directory
        self._held = ExitStack()
        self._files = self._held.enter_context(Layer(image, directory, store.scratch()))
        self._volumes: list[tuple[str, Layer | None]] = []
        self._caches: dict[str, Path] = {}
        self._targets: set[str] = set()
        self.described: list[object] = []
        self.environment: dict[str, str] = {}

    def __enter__(self) -> Mounts:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def add(
        self, kind: str, options: Mapping[str, str], origin: Callable[[str], Origin], secrets: Mapping[str, bytes]
    ) -> None:
        """Adds what `--mount` of a `RUN` describes; `origin` has the files of a stage or an image, or of the context.

        Raises:
            InputError: If it is malformed, or a file or a secret is missing.
        """
        target = joined(self._directory, options.get("target", ""))
        if "target" in options:
            if target == "/" or target in self._targets:
                raise InputError(f"a mount cannot be at {target}" + (": another one is" if target != "/" else ""))
            self._targets.add(target)
        match kind:
            case "tmpfs":
                self._volumes.append((target, None))
                self.described.append([kind, target])
            case "cache":
                name = hashlib.sha256(options.get("id", target).encode()).hexdigest()[:_ID_DIGITS]
                self._volumes.append((target, None))
                self._caches[target] = self._store.caches / f"{name}.tar"
                self.described.append([kind, target, name])
            case "secret":
                self._add_secret(options, target, secrets)
            case _:
                self._add_files(origin(options.get("from", "")), options.get("source", "/"), target)

    def add_script(self, name: str, content: str) -> str:
        """Adds a program; returns its path."""
        digest = hashlib.sha256(content.encode()).hexdigest()
        path = f"/tmp/{name}-{digest[:12]}"
        self._write(path, content.encode(), _SCRIPT_MODE, (0, 0))
        self.described.append(["script", path, digest])
        return path

    def add_unkeyed(self, files: Mapping[str, bytes]) -> None:
        """Files by absolute path, readable for all users, that do not change the key of the step."""
        for path, content in files.items():
            self._write(path, content, _UNKEYED_MODE, (0, 0))

    def add_settings(self, image: MergedTree) -> None:
        """Adds what makes package managers work where a sandbox has one user alone: apt downloads as user 0."""
        if image.is_directory(image.resolve(_APT)):
            self._write(f"/{'/'.join(_APT)}/99-sandrl", _AS_ROOT, 0o644, (0, 0))

    def packed(self) -> str:
        """The path of an archive of the files; empty for none."""
        items = self._files.items
        # In memory, so that nothing of a secret is left, even if this process is killed.
        return self._archive(_in_memory(), items) if items else ""

    def volumes(self) -> tuple[StepVolume, ...]:
        """The directories; caches are locked, in the same order by all builds."""
        for cache in sorted(set(self._caches.values())):
            lock = self._store.contents.locks / f"caches-{cache.name}"
            self._held.callback(os.close, locks.take(lock, exclusive=True))
        return tuple(self._volume(target, layer) for target, layer in self._volumes)

    def left_out(self) -> tuple[str, ...]:
        """The files, and the directories that are made for mounts: they are not part of the layer."""
        for target, _ in self._volumes:
            self._files.make_directory(target)
        return tuple("/".join(each.path) for each in self._files.items)

    def _volume(self, target: str, layer: Layer | None) -> StepVolume:
        if layer is not None:
            return StepVolume(target, self._archive(tempfile.TemporaryFile(dir=self._store.scratch()), layer.items))
        cache = self._caches.get(target)
        if cache is None:
            return StepVolume(target)
        return StepVolume(target, str(cache) if cache.exists() else "", str(cache))

    def _add_secret(self, options: Mapping[str, str], target: str, secrets: Mapping[str, bytes]) -> None:
        name = options.get("id") or posixpath.basename(target)
        content = secrets.get(name)
        if content is None:
            if options.get("required", "false").lower() in ("true", "1"):
                raise InputError(f"the secret {name!r} is required and was not given", hint="give it to the build")
            return
        variable = options.get("env", "")
        self.described.append(["secret", name, variable])
        if variable:
            self.environment[variable] = content.decode("utf-8", "surrogateescape")
        if not variable or "target" in options:
            place = target if "target" in options else f"/run/secrets/{name}"
            mode = number_of(options["mode"], "mode", base=8) if "mode" in options else _SECRET_MODE
            owner = number_of(options.get("uid", "0"), "uid"), number_of(options.get("gid", "0"), "gid")
            if mode > _MOST_MODE or max(owner) > MOST_ID:
                raise InputError(f"the mode, the uid or the gid of the secret {name!r} is too large")
            self._write(place, content, mode, owner)
            self.described.append([place, mode, owner])

    def _add_files(self, origin: Origin, source: str, target: str) -> None:
        if origin.tree.is_directory(origin.tree.resolve(tuple(source.split("/")))):
            nothing = MergedTree([], "nothing", keeps_owners=False)
            layer = self._held.enter_context(Layer(nothing, "/", self._store.scratch()))
            layer.copy(origin, [source], "/")
            self._volumes.append((target, layer))
            items = layer.items
        else:
            before = len(self._files.items)
            self._files.copy(origin, [source], target)
            items = self._files.items[before:]
        self.described.append(["bind", target, [each.described() for each in items]])

    def _write(self, path: str, content: bytes, mode: int, owner: tuple[int, int]) -> None:
        digest = hashlib.sha256(content).hexdigest()
        self._files.write("", path, lambda: BytesIO(content), digest, mode=mode, owner=owner)

    def _archive(self, file: IO[bytes], items: list[Item]) -> str:
        self._held.enter_context(file)
        write_layer(items, file)
        file.flush()
        return f"/proc/{os.getpid()}/fd/{file.fileno()}"


def joined(directory: str, path: str) -> str:
    """A path below a directory of an image, unless it is absolute."""
    return "/" + posixpath.normpath(posixpath.join(directory, path)).lstrip("/")


def _in_memory() -> IO[bytes]:
    return os.fdopen(os.memfd_create("sandrl-files", os.MFD_CLOEXEC), "w+b")
