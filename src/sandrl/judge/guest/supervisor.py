"""The supervisor: starts a child, waits for it up to the time limit, and reports how it ended."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import marshal
import posix
from collections.abc import Callable
from typing import Any

from sandrl.judge.guest.child import SPEECHLESS, become_child
from sandrl.judge.guest.clock import Clock, is_running, read_numbers, read_start, too_long
from sandrl.judge.guest.declarations import Checked, Excerpt, Libc, Request, Say
from sandrl.judge.guest.descriptors import DeadlineReached, head, kill_quietly, read_exactly, scratch_file

REPORT_LIMIT_BYTES = 4 << 20
PR_SET_CHILD_SUBREAPER = 36
# Signals that this process blocks where it is not process 1: those of faults, and the one that the clock asks for.
NEVER_HANDLED = "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS", "SIGCONT"


class Times:
    """Seconds of one or several children: by the clock, on a processor, and those by the clock that do not count."""

    def __init__(self, wall: float, cpu: float, starved: float) -> None:
        self.wall = wall
        self.cpu = cpu
        self.starved = starved

    def plus(self, other: Times) -> Times:
        return Times(self.wall + other.wall, self.cpu + other.cpu, self.starved + other.starved)


class ChildExit:
    """How one child ended: what it said, its exit status (None: killed by the clock), its times, what it printed.

    `excess` is what is said of it if it took more memory than it may.
    """

    excess = ""

    def __init__(self, words: list[bytes], wait_status: int | None, times: Times, stdout: int, stderr: int) -> None:
        self.words = words
        self.wait_status = wait_status
        self.times = times
        self.stdout = stdout
        self.stderr = stderr


class Judgment:
    """The verdict on a completion and on each of its checks, and the output that goes with it.

    Attributes:
        returned: What calls of the problem's reference returned, where that is what this was run for.
        scores: The scores of checks that did not pass and are worth something, by their numbers from 0.
        compile_seconds: How long its compilation took, which is not part of its times.
        rests: Whether a check that has passed rests on the word of an operator of the completion's alone.
        excerpts: What failed checks got and expected, by their numbers from 0, as far as that is known.
    """

    def __init__(
        self,
        status: str,
        detail: str,
        checks: list[Checked],
        times: Times,
        stdout: int,
        stderr: int,
        returned: str | None = None,
        scores: dict[int, float] | None = None,
    ) -> None:
        self.status = status
        self.detail = detail
        self.checks = checks
        self.times = times
        self.stdout = stdout
        self.stderr = stderr
        self.returned = returned
        self.scores = scores or {}
        self.compile_seconds = 0.0
        self.rests = False
        self.excerpts: dict[int, Excerpt] = {}


class Ends:
    """The ends of this process's children, and the signals that reach it.

    It has the duties of an init, be it process 1 of a cell or a subreaper: what a completion leaves behind becomes its
    child, and is waited for at once. It starts one child at a time, whose status is kept until it is asked for. So are
    those of children that a check starts, which are in the session of this process, as nothing of a completion is.

    Attributes:
        awaited: The child that was started; 0 for none, -1 while it is being forked.
        on_end: Called in the handler of the signal when that child has ended.
        before: The handlers of the other signals before this process began to judge.
        blocked: The signals that it blocks since.
    """

    awaited = 0
    on_end: Callable[[], None] | None = None
    before: tuple[tuple[int, Any], ...] = ()
    blocked: frozenset[Any] = frozenset()

    @staticmethod
    def listen() -> None:
        """From here on ends are noticed, and no other signal of a completion reaches this process.

        Where it is process 1, the kernel keeps from it what has no handler. Programs that it starts have the handlers
        of before, which they would not have if the signals were ignored or blocked.
        """
        _signal.signal(_signal.SIGCHLD, Ends.on_signal)
        others = {_signal.SIGINT}
        if posix.getpid() != 1:
            Ends.blocked = frozenset([getattr(_signal, name) for name in NEVER_HANDLED])
            others = _signal.valid_signals() - Ends.blocked
            others -= {_signal.SIGKILL, _signal.SIGSTOP, _signal.SIGALRM, _signal.SIGCHLD}
            _signal.pthread_sigmask(_signal.SIG_BLOCK, Ends.blocked)
        others -= {number for number, _ in Ends.before}
        # Something of the interpreter's that takes two arguments, has no frame, and does nothing.
        Ends.before += tuple([(number, _signal.signal(number, slice)) for number in others])

    @staticmethod
    def on_signal(number: int, frame: object) -> None:
        """Handles the signal, which says only that something may have ended: stops and other processes send it, too."""
        try:
            Ends.look()
        except (RecursionError, MemoryError):
            pass  # what the signal interrupted has left no room to look

    @staticmethod
    def look() -> None:
        """Waits for what a completion has left behind and has ended."""
        while Ends.awaited >= 0:
            try:
                ended = posix.waitid(posix.P_ALL, 0, posix.WEXITED | posix.WNOHANG | posix.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            if ended.si_pid == Ends.awaited or not Ends.wait_for_left(ended.si_pid):
                break
        else:
            return
        if Ends.on_end is not None and has_ended(Ends.awaited):
            Ends.on_end()
        if ended.si_pid != Ends.awaited:
            # The first one is somebody else's to wait for; there may be others behind it.
            for pid in children_by_parent().get(posix.getpid(), ()):
                Ends.wait_for_left(pid)

    @staticmethod
    def wait_for_left(pid: int) -> bool:
        """Waits for a child that has ended, if nobody else does; returns whether it is gone."""
        try:
            may = pid != Ends.awaited and posix.getsid(pid) != posix.getsid(0)
            return may and posix.waitpid(pid, posix.WNOHANG)[0] == pid
        except OSError:
            return True

    @staticmethod
    def fork() -> int:
        """Forks the child that is awaited; there, signals are as they were before this process began to judge."""
        Ends.awaited, Ends.on_end, pid = -1, None, 0
        try:
            pid = posix.fork()
        finally:
            Ends.awaited = pid
        if pid == 0:
            _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
            for number, handler in Ends.before:
                _signal.signal(number, handler)
            _signal.pthread_sigmask(_signal.SIG_UNBLOCK, Ends.blocked)
        else:
            Ends.look()
        return pid


def has_ended(pid: int) -> bool:
    return posix.waitid(posix.P_PID, pid, posix.WEXITED | posix.WNOHANG | posix.WNOWAIT) is not None


def become_reaper(call: Libc | None) -> bool:
    """Makes this process the parent of all processes below it whose own one ends; returns whether it is.

    So it finds what a run leaves behind.
    """
    return call is not None and call("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def children_by_parent() -> dict[int, list[int]]:
    """The processes that can be seen here, by the process that is their parent."""
    found: dict[int, list[int]] = {}
    for name in posix.listdir("/proc"):
        words = read_numbers(f"/proc/{name}/stat") if name.isdigit() else []
        if len(words) > 1:
            found.setdefault(int(words[1]), []).append(int(name))
    return found


class Child:
    """A running child; `memory` is how much it may take, if that is limited, and with what it had from its start."""

    memory: tuple[int, int] | None = None

    def __init__(self, pid: int, stdout: int, stderr: int, report: int) -> None:
        self.pid = pid
        self.stdout = stdout
        self.stderr = stderr
        self.report = report

    def signal(self, number: int) -> None:
        posix.kill(self.pid, number)

    def end(self, seconds: float, before: Clock | None = None) -> ChildExit:
        """Waits at most `seconds` for it, and kills its group; the time of the clock `before` is reported, too."""
        wait_status, cpu, peak = None, 0.0, 0
        clock = Clock(seconds, self.pid)
        try:
            clock.start()
            # Once it is waited for, the kernel's account of it is gone.
            posix.waitid(posix.P_PID, self.pid, posix.WEXITED | posix.WNOWAIT)
            clock.look_again()
            if not is_running():
                raise DeadlineReached
            clock.stop()
            _, wait_status, usage = posix.wait4(self.pid, 0)
            cpu, peak = usage[0] + usage[1], usage[2] * 1024
        except DeadlineReached:
            clock.stop()
        # Members of its group may outlive it; one that left the group dies with the sandbox.
        kill_quietly(-self.pid)
        if wait_status is None:
            kill_quietly(self.pid)
            try:
                _, _, usage = posix.wait4(self.pid, 0)
                cpu = usage[0] + usage[1]
            except ChildProcessError:
                pass  # the alarm fell between its end and our learning of it
        Ends.awaited = 0
        Ends.look()
        return self.exit_of(wait_status, cpu, peak, clock if before is None else before)

    def exit_of(self, wait_status: int | None, cpu: float, peak: int, clock: Clock) -> ChildExit:
        """How it ended, with what it reported; `cpu` in seconds, `peak` in bytes of memory."""
        words, _ = head(self.report, REPORT_LIMIT_BYTES)
        posix.close(self.report)
        times = Times(clock.wall, cpu, clock.excused)
        ended = ChildExit(words.split(b"\n"), wait_status, times, self.stdout, self.stderr)
        if self.memory is not None and peak > self.memory[1]:
            ended.excess = f"it used more than the {self.memory[0] / 2**20:g} MiB of memory that its problem allows"
        return ended


def start_child(
    body: Callable[[Request, Say], object],
    request: Request,
    stdin: int,
    call: Libc | None,
    channel: tuple[int, ...] = (),
    streams: tuple[int, ...] = (),
) -> Child:
    """Forks a child that runs `body`; it has three standard streams, its report, and `channel`.

    `streams` are files for what it prints and reports, where these are not to be scratch files.

    Raises:
        SystemExit: In the child, if `body` returns: its interpreter ends as any does.
    """
    stdout, stderr, report = streams or (scratch_file(), scratch_file(), scratch_file())
    pid = Ends.fork()
    if pid == 0:
        try:
            code = become_child(body, request, (stdin, stdout, stderr), (report, *channel), call)
        except BaseException:
            posix._exit(70)
        raise SystemExit(code)
    posix.close(stdin)
    child = Child(pid, stdout, stderr, report)
    memory = request.get("memory_bytes")
    if memory:
        child.memory = memory, memory + own_memory()
    return child


def own_memory() -> int:
    """Bytes of memory that this process has, and each child of it from its start."""
    words = read_start("/proc/self/statm").split()
    return int(words[1]) * posix.sysconf("SC_PAGE_SIZE") if len(words) > 1 else 0


def run_child(
    body: Callable[[Request, Say], object], request: Request, stdin: int, seconds: float, call: Libc | None
) -> ChildExit:
    return start_child(body, request, stdin, call).end(seconds)


# How a check went: the letters of a report.
PASSED, FAILED, TIMED_OUT, NOT_REACHED, UNCOUNTED, NOT_RUN, INVALID = "p", "f", "t", "n", "u", "s", "i"
# The status of a completion whose output the problem's own checker could not judge. No child can say it.
CHECKER_FAILED = "checker_failed"


_LETTERS = {
    "passed": PASSED,
    "timeout": TIMED_OUT,
    "invalid_problem": NOT_REACHED,
    "not_isolated": NOT_REACHED,
    CHECKER_FAILED: INVALID,
}


def letter_of(status: str) -> str:
    return _LETTERS.get(status, FAILED)


def filled(checks: list[Checked], total: int, rest: str = NOT_REACHED) -> list[Checked]:
    return checks + [(rest, "")] * (total - len(checks))


def uncounted(checks: list[Checked]) -> list[Checked]:
    """The checks of a completion of which nothing counts: none of them has passed."""
    return [(UNCOUNTED if letter == PASSED else letter, detail) for letter, detail in checks]


def from_hex(word: bytes) -> str:
    """A text that `to_hex` made a word of; ValueError if it is none."""
    return bytes.fromhex(word.decode("ascii")).decode("utf-8", "replace")


# What a child may say of itself; the rest is for its supervisor to find.
CHILD_STATUSES = frozenset(
    ("passed", "failed", "timeout", "syntax_error", "crashed", "resource_limit", "invalid_problem")
)

# No completion may excuse itself by blaming its problem.
UNTRUE = "crashed", "its report is false"
UNWRITTEN = "resource_limit", "its files or its report could not be written, probably because the disk is full"


def judge_child(ended: ChildExit, seconds: float) -> tuple[str, str]:
    if ended.wait_status is None:
        return "timeout", too_long(seconds)
    if ended.excess:
        return "resource_limit", ended.excess
    last = ended.words[-2].split(b" ") if len(ended.words) > 1 else []
    if len(last) == 3 and last[0] == b"end" and ended.wait_status == 0:
        try:
            status, detail = last[1].decode("ascii"), from_hex(last[2])
        except ValueError:
            return "crashed", "its report cannot be read"
        return (status, detail) if status in CHILD_STATUSES else UNTRUE
    if ended.wait_status >> 8 == SPEECHLESS:
        return UNWRITTEN
    if ended.wait_status & 0x7F:
        number = ended.wait_status & 0x7F
        if number == _signal.SIGKILL:
            return "resource_limit", "it was killed (signal 9), probably because it used too much memory"
        return "crashed", f"it was killed by signal {number}"
    return "crashed", f"it ended with exit status {ended.wait_status >> 8} before its checks were done"


def read_hidden(request: Request) -> Request:
    """Reads the part of the request that no completion may ever have in its memory: call it after the last fork."""
    hidden: Request = marshal.loads(read_exactly(request["hidden_size"]))
    return hidden
