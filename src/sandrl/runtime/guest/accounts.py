"""The user that the programs of a sandbox run as: the one of the host's system, or one that an image names.

The files of an image are read in its sandbox, by paths of the sandbox, and not with the C library's functions, which
would load libraries of the image.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from sandrl.runtime.guest import processes
from sandrl.runtime.guest import syscalls as sc

OF_PROGRAMS = (
    *("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP", "SETFCAP"),
    *("NET_BIND_SERVICE", "SYS_CHROOT"),
)
"""What user 0 of a sandbox may have: what container runtimes give, without raw sockets, device nodes and audit."""
OF_WATCHERS = ("SYS_PTRACE",)
"""The agent counts what programs have open and mapped, also those of other users, and those that forbid inspection."""
OF_AGENT = (*OF_PROGRAMS, *OF_WATCHERS)

_MOST_BYTES = 1 << 20
_MOST_ID = 0xFFFFFFFE
_MOST_DIGITS = 10


class AccountError(OSError):
    """A sandbox cannot have the user that is asked for."""


class Account:
    """Who programs run as.

    Args:
        groups: All groups that they are in.

    Attributes:
        capabilities: What they have as user 0, of `OF_PROGRAMS`.
        gains_privileges: Whether setuid programs give them what they have not.
    """

    __slots__ = ("_sets_groups", "capabilities", "gains_privileges", "gid", "groups", "home", "uid")

    def __init__(self, uid: int, gid: int, groups: list[int], home: str) -> None:
        self.uid = uid
        self.gid = gid
        self.groups = groups
        self.home = home
        self.capabilities = OF_PROGRAMS
        self.gains_privileges = True
        # A user namespace that was made without rights has no say in groups.
        self._sets_groups = processes.read("/proc/self/setgroups").startswith(b"allow")

    def become(self) -> None:
        """Be this user from now on, in a process that the agent has forked.

        Raises:
            OSError: If the sandbox has no ids for it.
        """
        if self._sets_groups:
            os.setgroups(self.groups)
        os.setresgid(self.gid, self.gid, self.gid)
        os.setresuid(self.uid, self.uid, self.uid)
        if self.uid == 0:
            sc.set_capabilities(self.capabilities)
        if not self.gains_privileges:
            sc.prctl(sc.PR_SET_NO_NEW_PRIVS, 1)


def find_account(text: str) -> Account:
    """The account of an image's `NAME`, `UID`, `NAME:GROUP` or `UID:GID`; user 0 if it is empty.

    Raises:
        AccountError: If a name is in none of the image's files, or this sandbox has no ids for it.
    """
    name, _, group = text.partition(":")
    name = name or "0"
    row = next((row for row in _rows("passwd", 4) if name in (row[0], row[2])), None)
    if row is None and _number(name) is None:
        raise AccountError(f"the image has no user {name!r}")
    uid = _number(row[2] if row else name)
    gid = _number(row[3]) if row else 0
    others: list[int | None] = []
    if group:
        gid = _number(next((each[2] for each in _rows("group", 3) if group == each[0]), group))
    elif row:
        others = [_number(each[2]) for each in _rows("group", 4) if row[0] in each[3].split(",")]
    if uid is None or gid is None:
        raise AccountError(f"the image has no user or group {text!r}")
    if not has_ids(uid, gid):
        raise AccountError(f"the image's user {text!r} ({uid}:{gid}) is beyond the user ids that a sandbox has here")
    groups = {gid, *(number for number in others if number is not None and _is_mapped("gid", number))}
    return Account(uid, gid, sorted(groups), row[5] if row and len(row) > 5 else "/")


def has_ids(uid: int, gid: int) -> bool:
    """Whether this sandbox has a user and a group."""
    return _is_mapped("uid", uid) and _is_mapped("gid", gid)


def _is_mapped(kind: str, number: int) -> bool:
    ranges = [list(map(int, line.split())) for line in processes.read(f"/proc/self/{kind}_map").splitlines()]
    return any(first <= number < first + count for first, _, count in ranges)


def _number(text: str) -> int | None:
    is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return int(text) if is_number and int(text) <= _MOST_ID else None


def _rows(name: str, columns: int) -> Iterator[list[str]]:
    try:
        descriptor = os.open(f"/etc/{name}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        # A pipe, or a device, is nobody's list of users.
        content = os.read(descriptor, _MOST_BYTES) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    finally:
        os.close(descriptor)
    for line in content.decode("utf-8", "replace").splitlines():
        row = line.split(":")
        if len(row) >= columns:
            yield row
