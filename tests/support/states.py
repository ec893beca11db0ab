"""States of machines that no machine has left: archives with the entries that a test wants."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from sandrl.sandboxes import State
from sandrl.trials.state import add_state

Member = tuple[tarfile.TarInfo, bytes]


def file(name: str, content: bytes = b"", *, mode: int = 0o644, uid: int = 0, gid: int = 0, mtime: int = 0) -> Member:
    member = tarfile.TarInfo(name)
    member.mode, member.uid, member.gid, member.mtime, member.size = mode, uid, gid, mtime, len(content)
    return member, content


def directory(name: str) -> Member:
    return _of_type(name, tarfile.DIRTYPE)


def link(name: str, target: str) -> Member:
    member = _of_type(name, tarfile.SYMTYPE, target)
    member[0].mode = 0o777
    return member


def hard_link(name: str, target: str) -> Member:
    return _of_type(name, tarfile.LNKTYPE, target)


def removed(name: str) -> Member:
    """What stands for a file that is not there, with its name after `.wh.`."""
    return tarfile.TarInfo(name), b""


def kept(place: Path, members: Iterable[Member], image: str = "image") -> State:
    """A state with these entries, in a directory."""

    def fill(target: IO[bytes]) -> None:
        with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for member, content in members:
                archive.addfile(member, io.BytesIO(content))

    return add_state(place, image, None, fill)


def _of_type(name: str, kind: bytes, target: str = "") -> Member:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member, b""
