"""Sandboxes start from the host's system, with one of its interpreters, or from an image of the user's store.

A sandbox of the host's system sees an interpreter's own prefix as `/usr/local` with an empty site-packages, as in the
official image of Python. The interpreter that runs sandrl is the default, because it is the one version a user can
count on. Scripts, such as the shims of pyenv, are asked only for versions that no program provides: a shim starts
several shells, and a daemon that starts would wait for all of them.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from sandrl.deadlines import in_background
from sandrl.errors import InputError, SandrlError, UnknownImageError
from sandrl.runtime.guest import rootfs
from sandrl.runtime.libraries import PREFIX_LIBRARIES, VARIABLE, find_libraries, search_path, shows_prefix_libraries
from sandrl.settings import load_settings

if TYPE_CHECKING:
    from sandrl.runtime.images.store import ImageStore, StoredImage

_HOST = re.compile(r"host(?:(?::| python)(\S+))?\Z")
_OFFICIAL = re.compile(r"(?:docker\.io/)?(?:library/)?python:(3\.\d+)")
DEFAULT_OF_SDK = "python:3.11"
"""What a client of the SDK sends that names no image."""
_OLDEST_MINOR = 8
_PROBE = "import sys; print(sys.version_info[0], sys.version_info[1], sys.base_prefix, sep='\\n')"
_PROBE_TIMEOUT_SECONDS = 10
_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": f"/home/{rootfs.USER_NAME}",
    "USER": rootfs.USER_NAME,
    "LANG": "C.UTF-8",
    "HOSTNAME": rootfs.HOSTNAME,
}
_ENVIRONMENT_OF_IMAGES = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
# Numeric libraries start a thread per processor, each with memory of its own, whatever the sandbox's limit is.
_OVERLAY_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Image:
    """The host's system with one of its interpreters.

    Attributes:
        name: `3.11`.
        prefix: Its base prefix on the host; `/usr` for the distribution's own.
        libraries: Names and paths of shared libraries that sandboxes are shown in addition to its prefix and `/usr`.
    """

    name: str
    prefix: str
    executable: str
    libraries: tuple[tuple[str, str], ...] = ()

    layers: ClassVar[None] = None
    user: ClassVar[str] = ""
    directory: ClassVar[str] = rootfs.WORKING_DIRECTORY

    @property
    def environment(self) -> dict[str, str]:
        """Variables its interpreter needs: a shared library built for another prefix is not found by itself."""
        searched = [rootfs.LIBRARIES] if self.libraries else []
        searched += [PREFIX_LIBRARIES] if shows_prefix_libraries(self.prefix) else []
        return {VARIABLE: ":".join(searched)} if searched else {}

    def environment_of_programs(self, *, has_overlay: bool) -> dict[str, str]:
        return _ENVIRONMENT | self.environment | (_OVERLAY_ENVIRONMENT if has_overlay else {})

    def command(self, arguments: Sequence[str]) -> tuple[str, ...]:
        """The main program of a sandbox whose request names none; empty for none."""
        return ()

    @property
    def reference(self) -> str:
        return f"host python{self.name}"


@dataclass(frozen=True)
class StoreImage:
    """An image of the store, whose layers are unpacked; see `Image` and `ImageConfig`."""

    reference: str
    digest: str
    layers: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = ()
    directory: str = "/"
    user: str = ""
    entrypoint: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()

    name: ClassVar[str] = ""

    @classmethod
    def of(cls, reference: str, image: StoredImage) -> StoreImage:
        said = image.config
        directory = said.directory or "/"
        return cls(
            *(reference, image.digest, image.layers, said.environment),
            *(directory, said.user, said.entrypoint, said.command),
        )

    @property
    def environment(self) -> dict[str, str]:
        return dict(self.variables)

    def environment_of_programs(self, *, has_overlay: bool) -> dict[str, str]:
        return _ENVIRONMENT_OF_IMAGES | {"HOSTNAME": rootfs.HOSTNAME} | self.environment

    def command(self, arguments: Sequence[str]) -> tuple[str, ...]:
        """What the image runs: its entrypoint, with the arguments of a request or else its own."""
        return (*self.entrypoint, *(arguments or self.arguments))


def host_image(reference: str, available: Sequence[Image]) -> Image | None:
    """The host's system that a reference names, the default one for none; None if it names another image.

    Raises:
        UnknownImageError: If the host has no such interpreter.
    """
    found = _HOST.match(_without_default(reference))
    if found is None:
        return None
    for image in available:
        if found[1] in (None, image.name):
            return image
    offered = ", ".join(f"host:{image.name}" for image in available)
    raise UnknownImageError(reference, f"this machine has no Python {found[1]} for sandboxes, only {offered}")


def names_host_system(reference: str) -> bool:
    """Whether a reference names the host's system, unless an image of the store has this name."""
    return _HOST.match(_without_default(reference)) is not None


def is_host_system(reference: str, version: str) -> bool:
    """Whether a reference names the host's system with the interpreter of a version, which is the default one."""
    with suppress(UnknownImageError):
        return host_image(reference, [Image(version, "", "")]) is not None
    return False


def host_alternative(reference: str, available: Sequence[Image]) -> str:
    """Says which interpreter of the host has the version of an official image of Python; empty if none has."""
    found = _OFFICIAL.match(reference)
    if found is None or found[1] not in [image.name for image in available]:
        return ""
    return f"host:{found[1]} is the Python {found[1]} of this machine"


def _without_default(reference: str) -> str:
    return "host" if reference in ("", DEFAULT_OF_SDK) else reference.strip()


class _Lease:
    def __init__(self, store: ImageStore, digest: str) -> None:
        self._stack = ExitStack()
        self.image: StoredImage = self._stack.enter_context(store.lease(digest))

    def close(self) -> None:
        self._stack.close()


def _close(opening: asyncio.Future[_Lease]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


class Images:
    """What the sandboxes of one daemon can start from.

    Args:
        store: The user's store; None where sandboxes have the host's system alone.
    """

    def __init__(self, host: Sequence[Image], store: ImageStore | None) -> None:
        self.host = host
        self._store = store
        self._opened: dict[str, asyncio.Future[_Lease]] = {}
        self._uses: Counter[str] = Counter()
        self._pulls: dict[str, asyncio.Future[str]] = {}

    async def take(self, reference: str) -> Image | StoreImage:
        """What a reference means; nobody removes an image of the store before it is given back.

        An image that is not stored is pulled from its registry.

        Raises:
            SandrlError: If there is no such image, or it cannot be pulled or unpacked.
        """
        stored = await asyncio.to_thread(self._find, reference)
        if stored is not None:
            return await self._leased(reference, stored.digest)
        image = host_image(reference, self.host)
        if image is None:
            return await self._leased(reference, await self._pulled(reference))
        return image

    def stored(self) -> int:
        """How many images the store has."""
        return 0 if self._store is None else len(self._store.digests())

    def scratch(self) -> Path:
        """Where a layer that is to be added is written.

        Raises:
            SandrlError: If it cannot be made.
        """
        assert self._store is not None, "a sandbox has an image of it"
        return self._store.scratch()

    async def derive(self, image: StoreImage, layer: Path, name: str | None, described: str) -> StoredImage:
        """Store an image that is in use with one more layer, under a name if one is given; see `ImageStore.add`."""
        from sandrl.runtime.images.derived import DerivedImage

        store = self._store
        assert store is not None, "the image is of it"
        source = DerivedImage(store, image.digest, layer, described)
        # A thread of its own: unpacking takes long, and every create needs one of the few others.
        return await asyncio.shield(asyncio.wrap_future(in_background(lambda: store.add(source, name))))

    async def _pulled(self, reference: str) -> str:
        pulling = self._pulls.get(reference)
        if pulling is None:
            # A thread of its own: a pull may take minutes, and its end serves all who have asked.
            pulling = asyncio.wrap_future(in_background(lambda: self._pull(reference)))
            self._pulls[reference] = pulling
            pulling.add_done_callback(lambda done: (self._pulls.pop(reference), done.cancelled() or done.exception()))
        return await asyncio.shield(pulling)

    def _pull(self, reference: str) -> str:
        from sandrl.runtime.images.registry import pull

        without = f"sandboxes without an image have the host's system ({self.host[0].reference})"
        without = host_alternative(reference, self.host) or without
        if self._store is None:
            raise UnknownImageError(reference, without)
        try:
            return pull(self._store, reference, load_settings(), environment=os.environ).digest
        except SandrlError as error:
            hint = f" ({error.hint})" if error.hint else ""
            raise SandrlError(f"{error.message}{hint}; {without}") from error

    def _find(self, reference: str) -> StoredImage | None:
        if self._store is None or not reference:
            return None
        with suppress(InputError):  # `host`, or no name of an image at all
            return self._store.find(reference)
        return None

    async def _leased(self, reference: str, digest: str) -> StoreImage:
        assert self._store is not None, "it was found there"
        opening = self._opened.get(digest)
        if opening is None:
            # Not cancelled with who asks for it: others wait for it, too.
            opening = asyncio.ensure_future(asyncio.to_thread(_Lease, self._store, digest))
            self._opened[digest] = opening
        self._uses[digest] += 1
        try:
            stored = (await asyncio.shield(opening)).image
        except BaseException:
            self._let_go(digest)
            raise
        return StoreImage.of(reference, stored)

    def _let_go(self, digest: str) -> None:
        self._uses[digest] -= 1
        if not self._uses[digest]:
            self._opened.pop(digest).add_done_callback(_close)

    def give_back(self, image: Image | StoreImage) -> None:
        """The last process of a sandbox that started from it is gone."""
        if isinstance(image, StoreImage):
            self._let_go(image.digest)


def find_images() -> list[Image]:
    """Interpreters of this machine, the one running this first; one per minor version."""
    own = own_image()
    images = {own.name: own}
    for executable in _candidates():
        name = executable.name.removeprefix("python")
        if name not in images and int(name.partition(".")[2]) >= _OLDEST_MINOR:
            image = _probe(executable)
            if image is not None:
                images.setdefault(image.name, image)
    return list(images.values())


def own_image() -> Image:
    return _image(f"{sys.version_info[0]}.{sys.version_info[1]}", sys.base_prefix)


def _image(name: str, prefix: str) -> Image:
    prefix = os.path.realpath(prefix)
    executable = os.path.join(prefix, "bin", f"python{name}")
    return Image(name, prefix, executable, find_libraries(executable, prefix, search_path()).in_sandbox)


def _candidates() -> list[Path]:
    places = [Path(part) for part in os.environ.get("PATH", os.defpath).split(":") if part]
    places += [Path("/usr/bin"), Path("/usr/local/bin")]
    home = os.environ.get("HOME", "")
    if home:
        places += sorted(Path(home, ".pyenv/versions").glob("3.*/bin"))
        places += sorted(Path(home, ".local/share/uv/python").glob("cpython-3.*/bin"))
    pattern = re.compile(r"python3\.\d+$")
    found = []
    for place in dict.fromkeys(places):
        try:
            found += sorted(path for path in place.iterdir() if pattern.match(path.name))
        except OSError:
            continue  # a directory on PATH may be missing or unreadable
    return sorted(found, key=_is_script)


def _is_script(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False  # the probe finds out what it is


def _probe(executable: Path) -> Image | None:
    try:
        result = subprocess.run(
            [executable, "-I", "-S", "-c", _PROBE],
            capture_output=True,
            text=True,
            timeout=_PROBE_TIMEOUT_SECONDS,
            check=True,
        )
        major, minor, prefix = result.stdout.splitlines()
    except (OSError, ValueError, subprocess.SubprocessError):
        return None  # a shim or a broken interpreter is no image
    image = _image(f"{major}.{minor}", prefix)
    return image if os.path.exists(image.executable) else None
