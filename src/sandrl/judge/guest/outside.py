"""Judges outside of cells: each judges one completion after another, each of which is in a cell of its own.

Only checks that keep no state are judged so (`CheckFacts.is_pure`): the second completion finds the judge as the first
one did. The forker forks a judge before that has read anything, as it clones the cells, and no judge forks anything. So
no process of a completion has an ancestor that held what is hidden from it, and a judge is in no namespace of a cell.

The first process of a cell holds the completion: it starts it, carries out what the judge asks for, and says how it
ended. Between the two are pipes of each completion's own, and the files that the completion prints to.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import gc
import marshal
import posix
import sys
from typing import Any, NoReturn

from sandrl.judge.guest.cell import (
    NO_ROOT_LOCKED,
    PR_SET_PDEATHSIG,
    PR_SET_SECUREBITS,
    SPOOL,
    CellLimits,
    drop_capabilities,
)
from sandrl.judge.guest.channel import INTERRUPT, Channel
from sandrl.judge.guest.checks import Checks, judge_apart
from sandrl.judge.guest.child import PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, RLIMIT_DATA, ROOM_FOR_STACKS_BYTES
from sandrl.judge.guest.clock import Clock, is_running, listen, read_start
from sandrl.judge.guest.declarations import Libc, Request, Say
from sandrl.judge.guest.descriptors import DeadlineReached, load_libc, read_exactly, write_all
from sandrl.judge.guest.report import KEY_BYTES, report
from sandrl.judge.guest.server import run_completion
from sandrl.judge.guest.supervisor import (
    Child,
    ChildExit,
    Ends,
    has_ended,
    kill_quietly,
    start_child,
)

# The pipes of a completion: questions and answers, what the judge asks the first process for, and what that says.
QUESTIONS, ANSWERS, ORDERS, NEWS = "questions", "answers", "orders", "news"
PIPES = QUESTIONS, ANSWERS, ORDERS, NEWS
# The files of a completion: what it prints, and what its process reports.
STREAMS_OF_CELL = "stdout", "stderr", "report"
BEGUN, END, STOP_CHECK = b"b", b"e", b"i"
NEWS_BYTES = 256
# No process has this number.
NOBODYS_PID = -1
# So many completions a judge judges.
MOST_RUNS = 500


# In the first process of a cell


def places_of_cell(run: str) -> tuple[int, tuple[int, int, int]]:
    """Opens the files of a completion, and the directory of its pipes, before a cell sees neither."""
    flags = posix.O_RDWR | posix.O_CREAT | posix.O_EXCL | posix.O_APPEND
    stdout, stderr, words = [posix.open(f"{SPOOL}/{run}.{name}", flags, 0o600) for name in STREAMS_OF_CELL]
    return posix.open(SPOOL, posix.O_RDONLY), (stdout, stderr, words)


def hold_completion(run: str, request_size: int, spool: int, streams: tuple[int, int, int]) -> NoReturn:
    """Starts a completion, whose request is on standard input, and holds it until its end."""
    gc.freeze()
    gc.enable()
    request = marshal.loads(read_exactly(request_size))
    # The rest of the file is hidden.
    nothing = posix.open("/dev/null", posix.O_RDONLY)
    posix.dup2(nothing, 0)
    call = load_libc()
    if call is not None:
        call("prctl", PR_SET_DUMPABLE, 0, 0, 0, 0)

    def pipe(name: str, flags: int) -> int:
        return posix.open(f"{run}.{name}", flags, dir_fd=spool)

    # Each waits for the other side.
    their_read, their_write = pipe(QUESTIONS, posix.O_RDONLY), pipe(ANSWERS, posix.O_WRONLY)
    orders, news = pipe(ORDERS, posix.O_RDONLY), pipe(NEWS, posix.O_WRONLY)
    wakeup = pipe(ORDERS, posix.O_WRONLY | posix.O_NONBLOCK)
    posix.close(spool)
    Ends.listen()

    def body(request: Request, say: Say) -> None:
        run_completion(request, say, Channel(their_read, their_write))

    child = start_child(body, request, nothing, call, (their_read, their_write), streams)
    posix.close(their_read)
    posix.close(their_write)
    posix.write(news, BEGUN)
    # A signal that comes just before a wait does not end it, but what it writes does.
    _signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    while not has_ended(child.pid):
        for order in posix.read(orders, NEWS_BYTES):
            if order == STOP_CHECK[0]:
                kill_quietly(child.pid, INTERRUPT)
            elif order == END[0]:
                kill_quietly(-child.pid)
                kill_quietly(child.pid)
        Ends.look()
    _, wait_status, usage = posix.wait4(child.pid, 0)
    most, most_with_own = child.memory or (0, 0)
    words = wait_status, usage[0] + usage[1], usage[2] * 1024, most, most_with_own
    posix.write(news, b"%d %.6f %d %d %d\n" % words)
    # What is left of the completion ends with this process.
    posix._exit(0)


# In a judge


class ChildInCell(Child):
    """A completion that the first process of a cell holds, `holder` by its number here."""

    def __init__(self, run: str, holder: int) -> None:
        questions, answers, orders, news = [f"{SPOOL}/{run}.{name}" for name in PIPES]
        writing = posix.open(questions, posix.O_WRONLY)
        self.channel = Channel(posix.open(answers, posix.O_RDONLY), writing)
        self.orders = posix.open(orders, posix.O_WRONLY)
        self.news = posix.open(news, posix.O_RDONLY)
        if posix.read(self.news, len(BEGUN)) != BEGUN:
            raise EOFError("the cell ended early")
        children = read_start(f"/proc/{holder}/task/{holder}/children").split()
        streams = [posix.open(f"{SPOOL}/{run}.{name}", posix.O_RDONLY) for name in STREAMS_OF_CELL]
        Child.__init__(self, int(children[0]) if children else NOBODYS_PID, *streams)

    def signal(self, number: int) -> None:
        self.order(STOP_CHECK)

    def order(self, order: bytes) -> None:
        try:
            posix.write(self.orders, order)
        except OSError:
            pass  # its cell has ended

    def end(self, seconds: float, before: Clock | None = None) -> ChildExit:
        news, is_late = b"", False
        clock = Clock(seconds, self.pid)
        try:
            clock.start()
            news = posix.read(self.news, NEWS_BYTES)
            if not is_running():
                raise DeadlineReached
            clock.stop()
        except DeadlineReached:
            clock.stop()
            is_late = True
            self.order(END)
            news = news or posix.read(self.news, NEWS_BYTES)
        posix.close(self.orders)
        posix.close(self.news)
        # A cell that has ended without a word was ended from outside.
        wait_status, cpu, peak, most, most_with_own = news.split() or (b"9", b"0", b"0", b"0", b"0")
        self.memory = (int(most), int(most_with_own)) if int(most) else None
        status = None if is_late else int(wait_status)
        return self.exit_of(status, float(cpu), int(peak), clock if before is None else before)


def become_judge(call: Libc, limits: CellLimits) -> None:
    """Gives up what only the forker needs."""
    call("prctl", PR_SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0)
    call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    call("prctl", PR_SET_SECUREBITS, NO_ROOT_LOCKED, 0, 0, 0)
    drop_capabilities(call)
    call("prctl", PR_SET_DUMPABLE, 0, 0, 0, 0)
    # What a completion sends becomes values here.
    call("setrlimit", RLIMIT_DATA, (limits.memory_bytes + ROOM_FOR_STACKS_BYTES).to_bytes(8, "little") * 2)
    nothing = posix.open("/dev/null", posix.O_RDWR)
    for descriptor in range(3):
        posix.dup2(nothing, descriptor)
    posix.close(nothing)


def judge_in_turn(name: str, answers: int, call: Libc, limits: CellLimits) -> NoReturn:
    """Judges the completions that the router names, until one of them may have left something here."""
    become_judge(call, limits)
    gc.freeze()
    gc.enable()
    # No process of a completion can send this one anything.
    Clock.is_reachable = False
    Checks.kept = {}
    orders = posix.open(f"{SPOOL}/{name}", posix.O_RDONLY)
    known = len(sys.modules)
    for number in range(MOST_RUNS):
        run, open_size, holder = read_line(orders).split()
        Clock.saw_stop = Clock.stood_still = False
        listen()
        status, code = judge_in_cell(run.decode(), int(open_size), int(holder))
        is_last = status not in ("passed", "failed") or len(sys.modules) != known or number + 1 == MOST_RUNS
        write_all(answers, b"judged %s %d %d\n" % (run, code, is_last))
        if is_last:
            break
    posix._exit(0)


def read_line(descriptor: int) -> bytes:
    """One line; the other side sends no second one before it has an answer."""
    line = b""
    while line[-1:] != b"\n":
        block = posix.read(descriptor, 4096)
        if not block:
            posix._exit(0)
        line += block
    return line


def judge_in_cell(run: str, open_size: int, holder: int) -> tuple[str, int]:
    descriptor = posix.open(f"{SPOOL}/{run}.request", posix.O_RDONLY)
    request: Any = marshal.loads(read_exactly(open_size, descriptor))
    hidden = marshal.loads(read_exactly(request["hidden_size"], descriptor))
    key = read_exactly(KEY_BYTES, descriptor)
    posix.close(descriptor)
    child = ChildInCell(run, holder)
    judged = judge_apart(child, child.channel, request, hidden)
    flags = posix.O_WRONLY | posix.O_APPEND
    outputs = posix.open(f"{SPOOL}/{run}.out", flags), posix.open(f"{SPOOL}/{run}.err", flags)
    code = report(request, judged, key.decode(), outputs)
    for each in (*outputs, judged.stdout, judged.stderr):
        posix.close(each)
    return judged.status, code
