"""The users of a machine: who they are by its files, and how one of its programs becomes one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sandrl.errors import NoUserError

_MOST_ID = 0xFFFFFFFE


@dataclass(frozen=True, slots=True)
class User:
    """A user of a machine; `home` is empty if it has none."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    name: str = ""
    home: str = ""
    shell: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a machine is like, as its own programs tell it.

    Attributes:
        uid: Whose its programs are, unless they become somebody else.
        uid_ranges: The first user ids of ranges that it has, and their numbers; empty if that is not known.
        passwd: The rows of its users.
        group: The rows of its groups.
        programs: Where the programs are that it has, of those that are used here.
        path: Where its own commands find programs; empty if that is not known.
    """

    uid: int = 0
    uid_ranges: tuple[tuple[int, int], ...] = ()
    gid_ranges: tuple[tuple[int, int], ...] = ()
    passwd: tuple[tuple[str, ...], ...] = field(default=(), repr=False)
    group: tuple[tuple[str, ...], ...] = field(default=(), repr=False)
    programs: Mapping[str, str] = field(default_factory=dict)
    path: str = ""

    @classmethod
    def read(cls, text: str, mark: str) -> Facts:
        """Reads what `guest.PROBE` has written; as much as there is."""
        parts = [*text.split(f"{mark}\n"), *[""] * 7]
        uid = _number(parts[0].strip())
        return cls(
            0 if uid is None else uid,
            _ranges(parts[1]),
            _ranges(parts[2]),
            _rows(parts[3], 7),
            _rows(parts[4], 4),
            dict(line.split("=", 1) for line in parts[5].splitlines() if "=" in line),
            parts[6].removesuffix("\n"),
        )

    @property
    def shell(self) -> str:
        """Where `sh` is."""
        return self.programs.get("sh", "/bin/sh")

    def find(self, text: str) -> User:
        """The user of `NAME`, `UID`, `NAME:GROUP` or `UID:GID`.

        Raises:
            NoUserError: If there is none, or the machine does not have its ids.
        """
        name, _, group = text.partition(":")
        row = next((row for row in self.passwd if name in (row[0], row[2])), None)
        uid = _number(name if row is None else row[2])
        if uid is None:
            raise NoUserError(f"the image has no user {name!r}")
        gid = 0 if row is None else _number(row[3])
        if group:
            gid = _number(next((each[2] for each in self.group if group == each[0]), group))
        if gid is None:
            raise NoUserError(f"the image has no group for the user {text!r}")
        others = (
            () if row is None or group else [_number(each[2]) for each in self.group if row[0] in each[3].split(",")]
        )
        self._check_ids(text, uid, gid)
        groups = {gid, *(each for each in others if each is not None and _is_in(each, self.gid_ranges))}
        if row is None:
            return User(uid, gid, tuple(sorted(groups)))
        return User(uid, gid, tuple(sorted(groups)), row[0], row[5], row[6])

    def _check_ids(self, text: str, uid: int, gid: int) -> None:
        if _is_in(uid, self.uid_ranges) and _is_in(gid, self.gid_ranges):
            return
        raise NoUserError(
            f"user {text} ({uid}:{gid}) is beyond the user ids that sandboxes have on this machine",
            hint="give the user of this command subordinate ids in /etc/subuid and /etc/subgid",
        )

    def becoming(self, user: User, text: str) -> list[str]:
        """The words before a command that make it one of a user.

        Raises:
            NoUserError: If the machine has no program for it, or its programs may not.
        """
        if user.uid == self.uid and (user.uid or not user.gid):
            return []
        if self.uid != 0:
            raise NoUserError(
                f"user {text}: programs of this sandbox run as user {self.uid}, who cannot become another"
            )
        groups, programs = ",".join(map(str, user.groups)), self.programs
        if "setpriv" in programs:
            return [programs["setpriv"], f"--reuid={user.uid}", f"--regid={user.gid}", f"--groups={groups}"]
        if "chroot" in programs:
            return [programs["chroot"], f"--userspec={user.uid}:{user.gid}", f"--groups={groups}", "/"]
        if user.name and (su := next((each for each in ("su", "busybox su") if each in programs), "")):
            return [programs[su], *su.split()[1:], "-m", "-s", self.shell, "-c", 'exec "$0" "$@"', "--", user.name]
        raise NoUserError(f"user {text}: the image has neither setpriv nor chroot nor su to become it with")

    def variables(self, user: User) -> dict[str, str]:
        """Variables that say who a user is."""
        named = {"HOME": user.home or "/", "USER": user.name, "LOGNAME": user.name, "SHELL": user.shell}
        return {name: value for name, value in named.items() if value}


def _rows(text: str, columns: int) -> tuple[tuple[str, ...], ...]:
    rows = (tuple(line.split(":")) for line in text.splitlines())
    return tuple(row for row in rows if len(row) >= columns)


def _ranges(text: str) -> tuple[tuple[int, int], ...]:
    rows = [[_number(word) for word in line.split()] for line in text.splitlines()]
    return tuple((row[0], row[2]) for row in rows if len(row) == 3 and row[0] is not None and row[2] is not None)


def _is_in(number: int, ranges: Sequence[tuple[int, int]]) -> bool:
    return not ranges or any(first <= number < first + count for first, count in ranges)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= _MOST_ID else None
