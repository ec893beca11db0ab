"""The supervisor: starts a child, waits for it up to the time limit, and reports how it ended."""

# The style is explained in `descriptors.py`.
# ruff: noqa: BLE001, SIM105, UP037

import _signal  # type: ignore[import-not-found]
import marshal
import posix

MYPY = False
if MYPY:
    from collections.abc import Callable

    from sandrl.rewards.guest.child import Request, Say
    from sandrl.rewards.guest.descriptors import Libc

    # How one check went, as a letter, and why.
    Checked = tuple[str, str]
    # What a failed check got and expected, None where that is not known, the line that failed (0: not known), and where
    # an excerpt of a case's output begins, as numbers of lines and characters.
    Excerpt = tuple["str | None", "str | None", int, tuple[int, int]]
if "request_size" not in globals():
    # Shipped, the files of this package are one and share a namespace; only their tests import them.
    from sandrl.rewards.guest.child import SPEECHLESS, become_child
    from sandrl.rewards.guest.clock import Clock, is_running, read_numbers, read_start, too_long
    from sandrl.rewards.guest.descriptors import DeadlineReached, head, read_exactly, scratch_file

REPORT_LIMIT_BYTES = 4 << 20
PR_SET_CHILD_SUBREAPER = 36


class Times:
    """Seconds of one or several children: by the clock, on a processor, and those by the clock that do not count."""

    def __init__(self, wall: float, cpu: float, starved: float) -> None:
        self.wall = wall
        self.cpu = cpu
        self.starved = starved

    def plus(self, other: "Times") -> "Times":
        """The sum of both."""
        return Times(self.wall + other.wall, self.cpu + other.cpu, self.starved + other.starved)


class Ended:
    """How one child ended: what it said, its exit status (None: killed by the clock), its times, what it printed.

    Attributes:
        excess: What is said of it if it took more memory than it may; else empty.
    """

    excess = ""

    def __init__(self, words: "list[bytes]", wait_status: "int | None", times: Times, stdout: int, stderr: int) -> None:
        self.words = words
        self.wait_status = wait_status
        self.times = times
        self.stdout = stdout
        self.stderr = stderr


class Judged:
    """The verdict on a completion and on each of its checks, and the output that goes with it.

    Args:
        status: The outcome.
        detail: Why.
        checks: How each check went.
        times: What it took.
        stdout: The file that was printed to.
        stderr: The file for errors.
        returned: What calls of the problem's reference returned, where that is what this was run for.
        scores: The scores of checks that did not pass and are worth something, by their numbers from 0.

    Attributes:
        compile_seconds: How long its compilation took, which is not part of its times.
        rests: Whether a check that has passed rests on the word of an operator of the completion's alone.
        excerpts: What failed checks got and expected, by their numbers from 0, as far as that is known.
    """

    def __init__(
        self,
        status: str,
        detail: str,
        checks: "list[Checked]",
        times: Times,
        stdout: int,
        stderr: int,
        returned: "str | None" = None,
        scores: "dict[int, float] | None" = None,
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
        self.excerpts: "dict[int, Excerpt]" = {}


def kill_quietly(target: int, number: int = _signal.SIGKILL) -> None:
    """Kills a process or a group that may be gone already, or sends it another signal."""
    try:
        posix.kill(target, number)
    except OSError:
        pass


def become_reaper(call: "Libc | None") -> bool:
    """Makes this process the parent of all processes below it whose own one ends; returns whether it is.

    So it finds what a run leaves behind.
    """
    return call is not None and call("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def children_by_parent() -> "dict[int, list[int]]":
    """The processes that can be seen here, by the process that is their parent."""
    found: "dict[int, list[int]]" = {}
    for name in posix.listdir("/proc"):
        words = read_numbers(f"/proc/{name}/stat") if name.isdigit() else []
        if len(words) > 1:
            found.setdefault(int(words[1]), []).append(int(name))
    return found


class Child:
    """A running child: its process id, and the files it prints and reports to.

    Attributes:
        memory: How much memory it may take, if that is limited; and with what it had from its start.
    """

    memory: "tuple[int, int] | None" = None

    def __init__(self, pid: int, stdout: int, stderr: int, report: int) -> None:
        self.pid = pid
        self.stdout = stdout
        self.stderr = stderr
        self.report = report


def start_child(
    body: "Callable[[Request, Say], object]",
    request: "Request",
    stdin: int,
    call: "Libc | None",
    channel: "tuple[int, ...]" = (),
) -> Child:
    """Forks a child that runs `body`; it has three standard streams, its report, and `channel`.

    Raises:
        SystemExit: In the child, if `body` returns: its interpreter ends as any does.
    """
    stdout, stderr, report = scratch_file(), scratch_file(), scratch_file()
    pid = posix.fork()
    if pid == 0:
        try:
            _signal.signal(_signal.SIGCONT, _signal.SIG_DFL)
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


def end_child(child: Child, seconds: float, before: "Clock | None" = None) -> Ended:
    """Waits at most `seconds` for a child and kills its whole process group.

    Args:
        child: The child.
        seconds: How long it may still take.
        before: The clock of the time that it took before this, to be reported, too.
    """
    wait_status, cpu, peak = None, 0.0, 0
    clock = Clock(seconds, child.pid)
    try:
        clock.start()
        # Once it is waited for, the kernel's account of it is gone.
        posix.waitid(posix.P_PID, child.pid, posix.WEXITED | posix.WNOWAIT)
        clock.look_again()
        if not is_running():
            raise DeadlineReached
        clock.stop()
        _, wait_status, usage = posix.wait4(child.pid, 0)
        cpu, peak = usage[0] + usage[1], usage[2] * 1024
    except DeadlineReached:
        clock.stop()
    # Members of its group may outlive it; one that left the group dies with the sandbox.
    kill_quietly(-child.pid)
    if wait_status is None:
        kill_quietly(child.pid)
        try:
            _, _, usage = posix.wait4(child.pid, 0)
            cpu = usage[0] + usage[1]
        except ChildProcessError:
            pass  # the alarm fell between its end and our learning of it
    words, _ = head(child.report, REPORT_LIMIT_BYTES)
    posix.close(child.report)
    clock = clock if before is None else before
    times = Times(clock.wall, cpu, clock.excused)
    ended = Ended(words.split(b"\n"), wait_status, times, child.stdout, child.stderr)
    if child.memory is not None and peak > child.memory[1]:
        ended.excess = f"it used more than the {child.memory[0] / 2**20:g} MiB of memory that its problem allows"
    return ended


def own_memory() -> int:
    """Bytes of memory that this process has, and each child of it from its start."""
    words = read_start("/proc/self/statm").split()
    return int(words[1]) * posix.sysconf("SC_PAGE_SIZE") if len(words) > 1 else 0


def run_child(
    body: "Callable[[Request, Say], object]", request: "Request", stdin: int, seconds: float, call: "Libc | None"
) -> Ended:
    """Forks a child that runs `body`, waits at most `seconds`, and kills its whole process group."""
    return end_child(start_child(body, request, stdin, call), seconds)


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
    """How a check went whose completion ended so in it."""
    return _LETTERS.get(status, FAILED)


def filled(checks: "list[Checked]", total: int, rest: str = NOT_REACHED) -> "list[Checked]":
    """The checks that were reached, and the others after them."""
    return checks + [(rest, "")] * (total - len(checks))


def uncounted(checks: "list[Checked]") -> "list[Checked]":
    """The checks of a completion of which nothing counts: none of them has passed."""
    return [(UNCOUNTED if letter == PASSED else letter, detail) for letter, detail in checks]


def from_hex(word: bytes) -> str:
    """A text that `to_hex` made a word of.

    Raises:
        ValueError: If it is none.
    """
    return bytes.fromhex(word.decode("ascii")).decode("utf-8", "replace")


# What a child may say of itself; the rest is for its supervisor to find.
CHILD_STATUSES = frozenset(
    ("passed", "failed", "timeout", "syntax_error", "crashed", "resource_limit", "invalid_problem")
)

# No completion may excuse itself by blaming its problem.
UNTRUE = "crashed", "its report is false"
UNWRITTEN = "resource_limit", "its files or its report could not be written, probably because the disk is full"


def judge_child(ended: Ended, seconds: float) -> "tuple[str, str]":
    """Returns (status, detail) of one child from what it said and how it ended."""
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


def read_hidden(request: "Request") -> "Request":
    """Reads the part of the request that no completion may ever have in its memory: call it after the last fork."""
    hidden: "Request" = marshal.loads(read_exactly(request["hidden_size"]))
    return hidden
