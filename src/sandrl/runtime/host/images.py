"""Which `python:3.X` images this machine can serve, from the interpreters installed on it.

A sandbox sees an interpreter's own prefix as `/usr/local` with an empty site-packages, which is what the official
image looks like. The interpreter that runs sandrl is the default, because it is the one version a user can count
on. Scripts, such as the shims of pyenv, are asked only for versions that no program provides: a shim starts several
shells, and a daemon that starts would wait for all of them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sandrl.runtime.guest import rootfs
from sandrl.runtime.libraries import PREFIX_LIBRARIES, VARIABLE, find_libraries, search_path, shows_prefix_libraries

_IMAGE_NAME = re.compile(r"(?:docker\.io/)?(?:library/)?python:(3\.\d+)(?:\.\d+)?(?:-[a-z0-9.-]+)?$")
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
# Numeric libraries start a thread per processor, each with memory of its own, whatever the sandbox's limit is.
_OVERLAY_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class UnknownImageError(Exception):
    """This machine cannot serve an image."""


@dataclass(frozen=True)
class Image:
    """One interpreter of the host, offered as an image.

    Attributes:
        name: `3.11`.
        prefix: Its base prefix on the host; `/usr` for the distribution's own.
        libraries: Names and paths of shared libraries that sandboxes are shown in addition to its prefix and `/usr`.
    """

    name: str
    prefix: str
    executable: str
    libraries: tuple[tuple[str, str], ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        """Variables its interpreter needs: a shared library built for another prefix is not found by itself."""
        searched = [rootfs.LIBRARIES] if self.libraries else []
        searched += [PREFIX_LIBRARIES] if shows_prefix_libraries(self.prefix) else []
        return {VARIABLE: ":".join(searched)} if searched else {}

    def environment_of_programs(self, *, has_overlay: bool) -> dict[str, str]:
        return _ENVIRONMENT | self.environment | (_OVERLAY_ENVIRONMENT if has_overlay else {})

    @property
    def reference(self) -> str:
        return f"python:{self.name}"


def parse_reference(reference: str) -> str | None:
    """The version (`3.11`) in an image reference such as `python:3.11-slim`, or None for any other image."""
    found = _IMAGE_NAME.match(reference.strip())
    return found.group(1) if found else None


def choose_image(reference: str, available: Sequence[Image]) -> Image:
    """The image that a reference names.

    Raises:
        UnknownImageError: If none of those there are does.
    """
    version = parse_reference(reference)
    for image in available:
        if image.name == version:
            return image
    offered = ", ".join(image.reference for image in available)
    raise UnknownImageError(
        f"image {reference!r} is not available on the local runtime, which serves the interpreters installed on "
        f"this machine: {offered}"
    )


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
