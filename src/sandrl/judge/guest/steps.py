"""Calls of libc that make a cell, alone and prepared as a row."""

from __future__ import annotations

import posix
from collections.abc import Callable, Iterable

from sandrl.judge.guest.declarations import Libc

MOST_READ_BYTES = 1 << 16
REMOUNT, DETACHED = 0x20, 2
READ_ONLY, NOSUID, NODEV, NOEXEC, BIND, RECURSIVE, PRIVATE = 0x1, 0x2, 0x4, 0x8, 0x1000, 0x4000, 0x40000
# A step that may be refused.
TRIED = "-"


class Step:
    """A call of libc, and what is said of it if it fails."""

    def __init__(self, name: str, *arguments: int | bytes, about: str = "") -> None:
        self.call = name, *arguments
        self.about = about or name


class Steps:
    """Steps that a forked process takes: all are prepared before, because it copies whatever it touches."""

    def __init__(self, steps: Iterable[Step]) -> None:
        import _ctypes

        libc = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]
        self.call: Callable[..., int] = _ctypes.call_function
        self.about = [step.about for step in steps]
        self.addresses = [_ctypes.dlsym(libc, str(step.call[0])) for step in steps]
        self.arguments = [step.call[1:] for step in steps]

    def take(self) -> None:
        """Takes them up to the first that fails and is not tried only; raises OSError then.

        Those of a cell would forbid user namespaces to the worker, where the cell could not have its own.
        """
        for place, result in enumerate(map(self.call, self.addresses, self.arguments)):
            if result < 0 and self.about[place] != TRIED:
                raise OSError(f"{self.about[place]} is refused")


def take(call: Libc, steps: Iterable[Step]) -> None:
    for step in steps:
        if call(*step.call) < 0:
            raise OSError(f"{step.about} is refused")


def must(call: Libc, name: str, *arguments: int | bytes, about: str = "") -> int:
    """Calls libc; raises an OSError that names the call, or what it is about, if it fails."""
    result = call(name, *arguments)
    if result < 0:
        raise OSError(f"{about or name} is refused")
    return result


def mounting(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> Step:
    words = source.encode(), target.encode(), kind.encode()
    return Step("mount", *words, flags, options.encode(), about=f"mount {kind or source} on {target}")


def mount(call: Libc, source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    take(call, [mounting(source, target, kind, flags, options)])


def making(path: str) -> Step:
    return Step("mkdir", path.encode(), 0o755, about=f"mkdir {path}")


def open_to_all(path: str) -> Step:
    return Step("chmod", path.encode(), 0o1777, about=f"chmod {path}")


def write_once(path: str, text: str) -> None:
    descriptor = posix.open(path, posix.O_WRONLY)
    try:
        posix.write(descriptor, text.encode())
    finally:
        posix.close(descriptor)


def open_all(*files: tuple[str, int]) -> tuple[int, ...]:
    """Opens files with their flags, all or none."""
    opened: list[int] = []
    try:
        for path, flags in files:
            opened.append(posix.open(path, flags, 0o600))
    except OSError:
        for descriptor in opened:
            posix.close(descriptor)
        raise
    return tuple(opened)


def read_whole(path: str) -> bytes:
    """A file of the kernel; none if it is not there, or longer than the kernel's counters are."""
    try:
        descriptor = posix.open(path, posix.O_RDONLY)
    except OSError:
        return b""
    try:
        return posix.read(descriptor, MOST_READ_BYTES)
    finally:
        posix.close(descriptor)
