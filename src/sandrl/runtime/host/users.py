"""Which users of the host sandboxes run as: a block of host user ids for each, where the daemon may have some.

The kernel counts many of its objects per user of the host (epoll watches, pipe pages, descriptors in flight, pending
signals), and user namespaces do not change that. Sandboxes with host user ids of their own have counts of their own,
and a process of another user cannot signal them.

A daemon takes one window of ids: block 0 is the fork server's, each other block belongs to one living sandbox at a
time. A program of the host's system has the first id of its block. A sandbox that starts from an image has all of its
block: user 0 and the next ones, and user `nobody`. Where the window belongs to an ordinary user, user 0 is that user,
who owns the files of images; the others come from the upper half of the window, which such sandboxes share.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import socket
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from sandrl.runtime.guest.rootfs import USER_ID

VARIABLE = "SANDRL_HOST_UIDS"
SHARED = "shared"
BLOCK = 16
"""The least ids that a sandbox has."""
_BLOCK_OF_IMAGE = 1 << 10
"""Enough for the users of a distribution's packages, and for its first own user."""
_MOST_BLOCKS = 1 << 12
NOBODY = 65534
UNPRIVILEGED_UID = 65534
"""Who a sandbox of a root daemon is without a window of ids: root itself is exempt from process limits."""

INNER_START = 1 << 16
"""The first id of the window inside the fork server's user namespace."""

_NO_BLOCK = 0
_LARGE_WINDOW = _MOST_BLOCKS * _BLOCK_OF_IMAGE
_WINDOW_SIZES = (1 << 16, 1 << 14, 1 << 12)
# systemd's list of ranges (UIDS-GIDS.md) has nothing from 1879048192 to 2147352575: its containers end before. The ids
# of directory services (SSSD, winbind, FreeIPA) end at 2000200000, those of Incus and LXD containers at 1001000000,
# and those that useradd writes to /etc/subuid at 600100000.
_FREE_FROM, _LARGE_TO, _FREE_TO = 0x7800_0000, 0x7F80_0000, 0x7FFE_0000
# In a container with few ids: above useradd's users, below systemd's dynamic ones (from 61184) and nobody.
_SMALL_FROM, _SMALL_TO = 1 << 14, 61_184


class HostUsersError(Exception):
    """What `SANDRL_HOST_UIDS` says cannot be used."""


@dataclass(frozen=True)
class Window:
    """Consecutive ids of the host, which count for users and groups alike."""

    start: int
    count: int

    def overlaps(self, other: Window) -> bool:
        return self.start < other.start + other.count and other.start < self.start + self.count

    def lies_in(self, ranges: Iterable[Window]) -> bool:
        end = self.start + self.count
        return any(each.start <= self.start and end <= each.start + each.count for each in ranges)


@dataclass
class HostUsers:
    """The host user ids that one launcher has.

    Attributes:
        window: The ids; None if all sandboxes share one user.
        uses_newuidmap: Whether the setuid programs `newuidmap` and `newgidmap` map them.
        shared_uid: Who every sandbox is where they share one user.
    """

    detail: str
    shared_uid: int
    window: Window | None = None
    uses_newuidmap: bool = False
    _lock: socket.socket | None = field(default=None, repr=False)
    _free: deque[int] = field(default_factory=deque, repr=False)

    def __post_init__(self) -> None:
        if self.window is not None:
            self._free.extend(range(1, self._own_ids // self._block))

    @property
    def _own_ids(self) -> int:
        # How many ids of the window belong to one sandbox each.
        assert self.window is not None, "there is one"
        return self.window.count // 2 if self.uses_newuidmap else self.window.count

    @property
    def _block(self) -> int:
        assert self.window is not None, "there is one"
        return BLOCK if self.uses_newuidmap else _block_of(self.window)

    def take(self) -> int | None:
        """The block of a new sandbox: the one that has been free for longest; None if there is none."""
        if self.window is None:
            return _NO_BLOCK
        return self._free.popleft() if self._free else None

    def give_back(self, block: int) -> None:
        """The last process of the block's sandbox is gone."""
        if block != _NO_BLOCK:
            self._free.append(block)

    def host_uid(self, block: int) -> int:
        return self.shared_uid if self.window is None else self.window.start + block * self._block

    def inner_uid(self, block: int) -> int:
        """The same id inside the fork server's user namespace."""
        return USER_ID if self.window is None else INNER_START + block * self._block

    def ids(self, block: int, *, of_image: bool, for_cells: bool = False) -> list[list[int]]:
        """The users and groups of a sandbox: first id in it, first id in the fork server's namespace, count.

        Cells have no user 0. A worker has it where root shows the files of images, whose owner it is.
        """
        first = self.inner_uid(block)
        if not of_image:
            return [[USER_ID, first, 1]]
        if self.window is None:
            return [[USER_ID if for_cells and os.getuid() != 0 else 0, first, 1]]
        if self.uses_newuidmap:
            shared = self.window.count - self._own_ids
            others = INNER_START + self._own_ids
            return [[0, USER_ID, 1], [1, others, shared - 1], [NOBODY, others + shared - 1, 1]]
        return [[0, first, self._block - 1], [NOBODY, first + self._block - 1, 1]]

    def fork_server(self) -> dict[str, Any]:
        """The part of the fork server's configuration that says who it is and which ids its namespace has."""
        if self.window is None:
            own = self.shared_uid
            group = own if os.getuid() == 0 else os.getgid()
            return {"user": own, "user_map": [[USER_ID, own, 1]], "group_map": [[USER_ID, group, 1]]}
        sandboxes = [INNER_START, self.window.start, self.window.count]
        if self.uses_newuidmap:
            return {
                "user": os.getuid(),
                "user_map": [[USER_ID, os.getuid(), 1], sandboxes],
                "group_map": [[USER_ID, os.getgid(), 1], sandboxes],
                "map_programs": [shutil.which("newuidmap"), shutil.which("newgidmap")],
            }
        # Block 0 is not given to sandboxes. An id cannot be mapped twice, so the sandboxes' part begins after it.
        block = self._block
        blocks = [INNER_START + block, self.window.start + block, self.window.count - block]
        own_map = [USER_ID, self.window.start, 1]
        return {"user": self.window.start, "user_map": [own_map, blocks], "group_map": [own_map, blocks]}

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def shared_users() -> HostUsers:
    """One user of the host for all sandboxes: `nobody` for a root daemon, else the user of the daemon."""
    uid = UNPRIVILEGED_UID if os.getuid() == 0 else os.getuid()
    return HostUsers(f"all sandboxes share host uid {uid}", uid)


def find_users(state: Path) -> HostUsers:
    """The best that this user may have: own ids, own ids through `newuidmap`, or one shared user.

    Daemons of different directories begin to look for a window in different places.

    Raises:
        HostUsersError: If `SANDRL_HOST_UIDS` asks for what cannot be had.
    """
    wanted = os.environ.get(VARIABLE, "").strip()
    if wanted == SHARED:
        return shared_users()
    if os.getuid() == 0:
        return _own_range(_parse(wanted) if wanted else None, state)
    if wanted:
        raise HostUsersError(f"{VARIABLE}={wanted}: only a root daemon takes a range; others use /etc/subuid")
    return _subordinate_range() or shared_users()


def _parse(text: str) -> Window:
    start, _, count = text.partition(":")
    if not (start.isascii() and start.isdigit() and count.isascii() and count.isdigit()):
        raise HostUsersError(f"{VARIABLE}={text}: it is not START:COUNT, such as 2013265920:65536, or {SHARED!r}")
    window = Window(int(start), int(count))
    if window.start < 1000 or window.count < 2 * BLOCK or window.start + window.count >= 1 << 32:
        raise HostUsersError(f"{VARIABLE}={text}: the range must lie above 1000 and have {2 * BLOCK} ids or more")
    return window


def _own_range(wanted: Window | None, state: Path) -> HostUsers:
    mapped = [*_mapped("uid_map")], [*_mapped("gid_map")]
    taken = {*_assigned(), *_in_use()}
    for window in [wanted] if wanted else _candidates(mapped[0], state):
        is_free = not any(map(window.overlaps, taken)) and all(map(window.lies_in, mapped))
        if is_free and (lock := _lock(window)) is not None:
            return HostUsers(_described(window, _block_of(window)), window.start, window, _lock=lock)
    if wanted:
        raise HostUsersError(
            f"{VARIABLE}={wanted.start}:{wanted.count}: these ids are not mapped here, or are in use "
            "(/etc/passwd, /etc/group, /etc/subuid, /etc/subgid, running processes, another runtime)"
        )
    return shared_users()


def _block_of(window: Window) -> int:
    return max(BLOCK, min(window.count // _MOST_BLOCKS, _BLOCK_OF_IMAGE))


def _described(window: Window, block: int) -> str:
    return f"each sandbox has its own host uids, {block} of {window.start}-{window.start + window.count - 1}"


def _candidates(mapped: Sequence[Window], state: Path) -> Iterator[Window]:
    large = list(_windows(_FREE_FROM, _LARGE_TO, (_LARGE_WINDOW,)))
    small = list(_windows(_LARGE_TO, _FREE_TO, _WINDOW_SIZES[:1]))
    # Containers that share their host's ids cannot see each other's: each begins somewhere else.
    name = f"{os.uname().nodename} {state}".encode()
    number = int.from_bytes(hashlib.sha256(name).digest()[:4], "big")
    turned = chain.from_iterable((each[number % len(each) :] + each[: number % len(each)]) for each in (large, small))
    return chain((window for window in turned if window.lies_in(mapped)), _windows(_SMALL_FROM, _SMALL_TO))


def _windows(start: int, end: int, sizes: Sequence[int] = _WINDOW_SIZES) -> Iterator[Window]:
    for size in sizes:
        for first in range(start, end - size + 1, size):
            yield Window(first, size)


def _mapped(name: str) -> Iterator[Window]:
    for line in Path("/proc/self", name).read_text(encoding="ascii").splitlines():
        inside, _outside, count = map(int, line.split())
        yield Window(inside, count)


def _rows(name: str) -> Iterator[list[str]]:
    with suppress(OSError):
        for line in Path("/etc", name).read_text(encoding="utf-8", errors="replace").splitlines():
            yield line.split(":")


def _assigned() -> Iterator[Window]:
    for name in ("subuid", "subgid"):
        for row in _rows(name):
            if len(row) == 3 and row[1].isdigit() and row[2].isdigit():
                yield Window(int(row[1]), int(row[2]))
    for name in ("passwd", "group"):
        for row in _rows(name):
            if len(row) > 2 and row[2].isdigit():
                yield Window(int(row[2]), 1)


def _in_use() -> Iterator[Window]:
    for status in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError, IndexError, ValueError):
            text = status.read_text(encoding="utf-8", errors="replace")
            yield Window(int(text.partition("\nUid:")[2].split()[0]), 1)


def _lock(window: Window) -> socket.socket | None:
    # Holds a window against other daemons for as long as the socket is open; None if one of them has it. The kernel
    # frees an abstract address when its process ends, however it ends. Another user who takes the address first only
    # makes this daemon look further.
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        lock.bind(f"\0sandrl-host-uids-{window.start}")
    except OSError:
        lock.close()
        return None
    return lock


def _subordinate_range() -> HostUsers | None:
    if shutil.which("newuidmap") is None or shutil.which("newgidmap") is None:
        return None
    groups = [*_granted("subgid")]
    for granted in _granted("subuid"):
        for window in _windows(granted.start, granted.start + granted.count):
            if window.lies_in(groups) and (lock := _lock(window)) is not None:
                detail = f"{_described(window, BLOCK)} (newuidmap)"
                return HostUsers(detail, os.getuid(), window, uses_newuidmap=True, _lock=lock)
    return None


def _granted(name: str) -> Iterator[Window]:
    names = {str(os.getuid())}
    with suppress(KeyError):
        names.add(pwd.getpwuid(os.getuid()).pw_name)
    for row in _rows(name):
        if len(row) == 3 and row[0] in names and row[1].isdigit() and row[2].isdigit():
            yield Window(int(row[1]), int(row[2]))
