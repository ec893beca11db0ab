"""The images that task directories name: of registries, or built of a Dockerfile of the task.

A task is written by strangers, so it names nothing of this machine: no file, and no directory but its own.
"""

from __future__ import annotations

import re
from pathlib import Path

from sandrl.compose import NAMES
from sandrl.errors import InputError

_NAME = re.compile(r"[A-Za-z0-9\[][A-Za-z0-9._:/@\[\]-]{0,500}")
_OF_THIS_MACHINE = re.compile(r"host(:|$)|(dockerfile|oci|docker-archive|rootfs):")


def named(image: str, path: Path | None, field: str) -> str:
    """The name of an image of a registry.

    Raises:
        InputError: If it names something on this machine, or is none.
    """
    image = image.strip()
    if _OF_THIS_MACHINE.match(image):
        message = f"names something of this machine ({image!r:.60}), and a task may name images of registries only"
        raise InputError(message, path=path, field=field, hint="store the image, and write its name there")
    if not _NAME.fullmatch(image):
        raise InputError(f"must be the name of an image, not {image!r:.60}", path=path, field=field)
    return image


def built(dockerfile: Path) -> str:
    """The image that a Dockerfile of the task describes, whose context is its directory.

    Raises:
        InputError: If there is no such file.
    """
    if not dockerfile.is_file():
        raise InputError("is missing", path=dockerfile, hint="a task needs the name of an image, or a Dockerfile")
    is_plain = dockerfile.name == "Dockerfile" and not any((dockerfile.parent / each).exists() for each in NAMES)
    return f"dockerfile:{dockerfile.parent if is_plain else dockerfile}"
