"""The state from which every run of a completion starts: that of the sandbox before its first run.

Before each later run, the processes of the earlier run are ended, the files that it created in writable places are
removed, and the files that were there before are restored. Most runs leave only the file of their code, so this module
compares first and changes only what differs. If the state cannot be restored, the completion is not judged further.

The kernel's counters (of process ids, inodes, packets) are not reset.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import posix
from collections.abc import Callable
from time import sleep

from sandrl.judge.guest.child import NOBODY
from sandrl.judge.guest.clock import read_start
from sandrl.judge.guest.declarations import Libc
from sandrl.judge.guest.descriptors import kill_quietly, read_exactly, write_all
from sandrl.judge.guest.places import (
    DIRECTORY,
    IPC_KINDS,
    KIND_OF_FILE,
    LINK,
    PLAIN_FILE,
    SHARED_PLACES,
    Removal,
    become,
    is_directory,
    names_in,
    objects_of,
    open_directory,
    own_places,
    read_lines,
)
from sandrl.judge.guest.supervisor import Ends, become_reaper, children_by_parent

# Set where this runs in a sandbox: elsewhere no file is removed.
SANDBOX_VARIABLE = "SANDRL_SANDBOX"
# How often, and with what pause, processes that were killed are looked for. A sandbox that stands still has no looks.
MOST_LOOKS, LOOK_SECONDS = 2500, 0.002
# Of what was there before the first run: a sandbox has none of it, but an image may.
MOST_KEPT_FILES, MOST_KEPT_BYTES = 2_000, 4 << 20


def descendants() -> set[int]:
    """The processes below this one that have not been waited for."""
    children = children_by_parent()
    found: set[int] = set()
    waiting = [posix.getpid()]
    while waiting:
        news = children.get(waiting.pop(), [])
        found.update(news)
        waiting += news
    return found


def has_children_but(spared: set[int]) -> bool:
    """Whether this process has other children than some, by the kernel's list; True where it keeps none.

    Whoever lives below this process has a forebear on this list, be it one that has ended: this process is the reaper.
    """
    pid = posix.getpid()
    listed = read_start(f"/proc/{pid}/task/{pid}/children")
    if not listed:
        # Without a child the list is empty, as one is that does not exist.
        try:
            posix.waitid(posix.P_ALL, 0, posix.WEXITED | posix.WNOHANG | posix.WNOWAIT)
        except ChildProcessError:
            return False
        return True
    return not spared.issuperset(map(int, listed.split()))


def end_descendants(spared: set[int]) -> bool:
    """Kills all processes below this one but some; returns whether none is left."""
    # The list may miss one while it changes: twice in a row it does not.
    if not (has_children_but(spared) or has_children_but(spared)):
        return True
    for _ in range(MOST_LOOKS):
        Ends.look()
        # A list of processes may miss one that forks and ends while it is read: twice in a row it does not.
        if not (descendants() | descendants()) - spared:
            return True
        # Stopped first: those that are stopped take up the room of those that would be forked meanwhile.
        stopped: set[int] = set()
        while True:
            news = descendants() - stopped - spared
            if not news:
                break
            for pid in news:
                kill_quietly(pid, _signal.SIGSTOP)
            stopped |= news
        for pid in stopped:
            kill_quietly(pid)
        sleep(LOOK_SECONDS)
    return False


class Unrestorable(OSError):
    """The state before the first run cannot be restored."""


class SavedPath:
    """A file or a directory as it was before the first run; `left` are the files and bytes that may still be kept."""

    def __init__(self, path: str, left: list[int]) -> None:
        self.path = path
        self.found = posix.lstat(path)
        self.kind = self.found.st_mode & KIND_OF_FILE
        self.content: bytes | str | None = None
        self.inside: dict[str, SavedPath | None] = {}
        self.attributes = attributes_of(path)
        if self.kind == DIRECTORY:
            for name in names_in(path):
                left[0] -= 1
                self.inside[name] = SavedPath(f"{path}/{name}", left) if left[0] >= 0 else None
        elif self.kind == LINK:
            self.content = posix.readlink(path)
        elif self.kind == PLAIN_FILE and self.found.st_size <= left[1]:
            left[1] -= self.found.st_size
            self.content = content_of(path, self.found.st_size)

    def restore(self, removal: Removal) -> None:
        """Makes it what it was; raises `Unrestorable` if that is not possible."""
        try:
            found = posix.lstat(self.path)
        except OSError:
            self.make_anew(removal)
        else:
            if found.st_mode & KIND_OF_FILE != self.kind:
                self.make_anew(removal)
            elif self.kind != DIRECTORY:
                if self.is_same(found):
                    return
                self.make_anew(removal)
            elif found.st_mode != self.found.st_mode:
                posix.close(open_directory(self.path))
        if self.kind == DIRECTORY:
            for name in names_in(self.path):
                if name not in self.inside and not removal.remove(f"{self.path}/{name}"):
                    raise Unrestorable(f"{self.path}/{name} cannot be removed")
            for kept in self.inside.values():
                if kept is not None:
                    kept.restore(removal)
        self.set_facts()

    def is_same(self, found: posix.stat_result) -> bool:
        """Whether a file is what it was; memory that is shared with a file changes it and not its times."""
        then = self.found
        if (found.st_ino, found.st_size, found.st_ctime_ns) != (then.st_ino, then.st_size, then.st_ctime_ns):
            return False
        return self.kind != PLAIN_FILE or content_of(self.path, found.st_size) == self.content

    def make_anew(self, removal: Removal) -> None:
        if self.kind != DIRECTORY and self.content is None:
            raise Unrestorable(f"{self.path} has changed")
        if not removal.remove(self.path):
            raise Unrestorable(f"{self.path} cannot be removed")
        try:
            if self.kind == DIRECTORY:
                posix.mkdir(self.path, 0o700)
            elif self.kind == LINK:
                posix.symlink(self.content, self.path)  # type: ignore[arg-type]
            else:
                descriptor = posix.open(self.path, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL, 0o600)
                write_all(descriptor, self.content)  # type: ignore[arg-type]
                posix.close(descriptor)
            if posix.getuid() == 0:
                posix.chown(self.path, self.found.st_uid, self.found.st_gid, follow_symlinks=False)
        except OSError as error:
            raise Unrestorable(f"{self.path} cannot be created again: {error}") from None

    def set_facts(self) -> None:
        """Restores what the kernel keeps of it beside its content: mode, times, attributes."""
        now, then = posix.lstat(self.path), self.found
        attributes = attributes_of(self.path)
        is_same = (now.st_mode, now.st_mtime_ns, attributes) == (then.st_mode, then.st_mtime_ns, self.attributes)
        # Another user's bears no marks of the completion's but that it was changed just now.
        if is_same or self.kind == LINK or posix.getuid() not in (0, now.st_uid):
            self.found = now
            return
        try:
            for name in {**attributes, **self.attributes}:
                if name in self.attributes:
                    posix.setxattr(self.path, name, self.attributes[name])
                else:
                    posix.removexattr(self.path, name)
            if now.st_mode != then.st_mode:
                posix.chmod(self.path, then.st_mode & 0o7777)
            posix.utime(self.path, ns=(then.st_atime_ns, then.st_mtime_ns))
        except OSError as error:
            raise Unrestorable(f"{self.path} has changed and cannot be restored: {error}") from None
        self.found = posix.lstat(self.path)


def attributes_of(path: str) -> dict[str, bytes]:
    """The extended attributes of a file that anyone may set."""
    try:
        names = [name for name in posix.listxattr(path, follow_symlinks=False) if not name.startswith("security.")]
        return {name: posix.getxattr(path, name, follow_symlinks=False) for name in names}
    except OSError:
        return {}


def content_of(path: str, size: int) -> bytes | None:
    try:
        descriptor = posix.open(path, posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_CLOEXEC)
    except OSError:
        return None
    try:
        return read_exactly(size, descriptor)
    except (OSError, EOFError):
        return None
    finally:
        posix.close(descriptor)


class Baseline:
    """The state before the first run, and the way back to it; `spared` processes below this one are no completion's."""

    def __init__(self, call: Libc | None, *, is_needed: bool = True) -> None:
        self.call = call
        self.is_needed = is_needed = is_needed and SANDBOX_VARIABLE.encode() in posix.environ
        self.spared: set[int] = set()
        self.has_run = False
        self.removal = Removal()
        if not is_needed:
            return
        become_reaper(call)
        self.folder = posix.getcwd()
        shared = [path for path in SHARED_PLACES if is_directory(path)]
        left = [MOST_KEPT_FILES, MOST_KEPT_BYTES]
        self.places = [SavedPath(path, left) for path in dict.fromkeys([*shared, *own_places()])]
        self.objects = self.objects_now()
        self.judge = judge_facts()

    def objects_now(self) -> list[list[int]]:
        # Where there are none, a file has a line of titles alone.
        return [
            objects_of(kind) if read_start(f"/proc/sysvipc/{kind}").count(b"\n") > 1 else [] for kind, _, _ in IPC_KINDS
        ]

    def prepare(self) -> None:
        """Restores the state, if there has been a run; call it before each. `Unrestorable` if it cannot."""
        if not self.has_run or not self.is_needed:
            self.has_run = True
            return
        if not end_descendants(self.spared):
            raise Unrestorable("processes of the earlier run do not end")
        if judge_facts() != self.judge:
            raise Unrestorable("the earlier run has changed the limits of the judge")
        objects = self.objects_now()
        if objects != self.objects:
            self.in_its_place(lambda: self.remove_objects(objects))
            if self.objects_now() != self.objects:
                raise Unrestorable("System V objects of the earlier run cannot be removed")
        for place in self.places:
            place.restore(self.removal)
        posix.chdir(self.folder)

    def remove_objects(self, objects: list[list[int]]) -> None:
        for (_, name, arguments), known, found in zip(IPC_KINDS, self.objects, objects):
            for number in found:
                if number not in known and self.call is not None:
                    self.call(name, number, *arguments)

    def in_its_place(self, work: Callable[[], None]) -> None:
        """Does something in a process of the completion's user, where root may not, in a container."""
        if posix.getuid() != 0:
            work()
            return
        pid = posix.fork()
        if pid == 0:
            try:
                become(NOBODY)
                work()
                posix._exit(0)
            finally:
                posix._exit(1)
        if posix.waitpid(pid, 0)[1] != 0:
            raise Unrestorable("files of the earlier run cannot be removed")


def judge_facts() -> tuple[object, ...]:
    """What another process of its user may change of this process, and those that it forks inherit."""
    affinity = posix.sched_getaffinity(0) if hasattr(posix, "sched_getaffinity") else None
    return read_lines("/proc/self/limits"), posix.getpriority(posix.PRIO_PROCESS, 0), affinity
