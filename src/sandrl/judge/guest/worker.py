"""A worker: judges many completions in one sandbox, each in a cell.

The *forker* has the programs of the judges loaded and clones the first process of each cell. No ancestor of a
completion's process may ever have held a byte that is hidden from a completion, because a child would find it in freed
memory. So the forker never reads a request: the *router* (`router.py`), which it forks before the first one comes,
takes them from the host and puts each in a file. The first process of the cell opens it, and judges, or, where checks
keep no state, a judge that the forker forks outside of all cells (`outside.py`).

The forker stays as small as a judge, because every process of every cell has everything that it loads.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import gc
import marshal
import posix
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from sandrl.judge.guest.cell import (
    END_OF_CHILD,
    FILES_OF_COMPLETION,
    SPOOL,
    CellLimits,
    Cells,
    say_why_not,
    streams_of,
    write_from,
)
from sandrl.judge.guest.declarations import load_rest, request_size
from sandrl.judge.guest.descriptors import close_others, kill_quietly, load_libc, read_exactly, write_all
from sandrl.judge.guest.preloads import Preloads
from sandrl.judge.guest.router import run_router
from sandrl.judge.guest.steps import must, open_all, read_whole

LINE_BYTES = 512
# Of one `struct signalfd_siginfo`.
SIGNAL_BYTES = 128
# In `/proc/PID/stat` behind the name, and there of a process that is ending.
PLACE_OF_FLAGS, EXITING = 6, 0x4


def read_limits() -> tuple[CellLimits, int, int]:
    """Reads the first line of the host: what each cell may use, and how many cells run (see `Router`)."""
    most, places, *numbers = [int(word) for word in read_exactly(request_size).split()]
    return CellLimits(*numbers), most, places


def reason_of(error: BaseException) -> str:
    return str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"


def try_cell(cells: Cells) -> str:
    """Makes a cell in which nothing runs; returns why that cannot be done, empty if it can."""
    reading, writing = posix.pipe()
    try:
        pid, first = cells.fork(False, (writing,) * 3)
    except OSError as error:
        return str(error)
    if pid == 0:
        try:
            cells.enter()
        except BaseException as error:
            write_from(writing, 1, reason_of(error))
        posix._exit(0)
    posix.close(writing)
    why = posix.read(reading, LINE_BYTES).decode("utf-8", "replace")
    posix.close(reading)
    posix.waitpid(pid, 0)
    cells.forget(first)
    return why


def settle(cells: Cells) -> str:
    try:
        cells.settle()
        return try_cell(cells)
    except BaseException as error:
        return reason_of(error)


def load_program(name: str, sizes: list[int]) -> dict[str, Any]:
    """Loads a judge's program from a file that the router has written; returns its names.

    `sizes` are the bytes of the compiled form and of the packed text of each of its parts.
    """
    descriptor = posix.open(f"{SPOOL}/{name}", posix.O_RDONLY)
    magic = read_exactly(64, descriptor).strip().decode()
    space: dict[str, Any] = {"__name__": "judge", "request_size": 0}
    same = magic == __import__("_frozen_importlib_external").MAGIC_NUMBER.hex()
    while sizes:
        compiled, packed = read_exactly(sizes.pop(0), descriptor), read_exactly(sizes.pop(0), descriptor)
        if same:
            exec(marshal.loads(compiled), space)
        else:
            exec(compile(__import__("zlib").decompress(packed), "<judge>", "exec"), space)
    posix.close(descriptor)
    space["load_rest"] = int  # its parts are loaded
    return space


class Running:
    """A cell in which a completion runs: the number of its process, that of process 1, and its judge, `-` for none."""

    def __init__(self, run: str, pid: int, first: int, judge: str) -> None:
        self.run = run
        self.pid = pid
        self.first = first
        self.judge = judge
        self.status = 0


class JudgeProcess:
    """A judge outside of cells."""

    def __init__(self, name: str) -> None:
        self.name = name
        # The router has it open, too: nobody waits.
        self.writing = posix.open(f"{SPOOL}/{name}", posix.O_WRONLY | posix.O_NONBLOCK | posix.O_CLOEXEC)

    def tell(self, line: str) -> None:
        posix.write(self.writing, line.encode() + b"\n")

    def close(self) -> None:
        posix.close(self.writing)


def is_ending(pid: int) -> bool:
    """Whether a process is on its way to its end: what it was before it was killed, if it is gone."""
    words = read_whole(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return len(words) > PLACE_OF_FLAGS and bool(int(words[PLACE_OF_FLAGS]) & EXITING)


class Forker:
    def __init__(self, cells: Cells, orders: int, requests: int, answers: int, router: int) -> None:
        self.cells = cells
        self.orders = orders
        # The other end of the orders, for judges.
        self.requests = requests
        self.answers = answers
        self.router = router
        # The names of each, that of its judge, and what is ready for completions whose judge is outside.
        self.programs: dict[str, tuple[dict[str, Any], str, Any]] = {}
        # By the numbers of their processes, each twice if process 1 is not that of the completion.
        self.running: dict[int, Running] = {}
        self.judges: dict[int, JudgeProcess] = {}
        self.poll: Any = None

    def serve(self) -> Callable[[], Any]:
        """Serves the router; the call returns in cells alone: the work of a cell's first process."""
        select = __import__("select")
        # Nothing of this shows in the interpreters of completions.
        sys.modules.pop("select")
        _signal.pthread_sigmask(_signal.SIG_BLOCK, [_signal.SIGCHLD])
        ends = must(self.cells.call, "signalfd", -1, END_OF_CHILD, posix.O_NONBLOCK | posix.O_CLOEXEC)
        # It stays with this object: a cell's process would touch more to end it.
        poll = self.poll = select.poll()
        poll.register(self.orders, select.POLLIN)
        poll.register(ends, select.POLLIN)
        del select
        waiting = b""
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == ends:
                    posix.read(ends, SIGNAL_BYTES)
                    self.reap()
                    continue
                block = posix.read(self.orders, 1 << 16)
                if not block:
                    self.leave()
                *lines, waiting = (waiting + block).split(b"\n")
                for line in lines:
                    work = self.handle(line.decode().split(" "))
                    if work is not None:
                        return work

    def handle(self, words: list[str]) -> Callable[[], Any] | None:
        if words[0] == "program":
            _, name, entry, *sizes = words
            names = load_program(name, [int(size) for size in sizes])
            self.programs[name] = names, entry, names["rehearse"]() if "rehearse" in names else None
            gc.collect()
            gc.freeze()
            return None
        if words[0] == "judge":
            return self.fork_judge(*words[1:])
        if words[0] == "end":
            for pid in [each for each, judge in self.judges.items() if judge.name == words[1]]:
                posix.kill(pid, _signal.SIGKILL)
            return None
        if words[0] in ("kill", "interrupt"):
            number = _signal.SIGKILL if words[0] == "kill" else _signal.SIGVTALRM
            for pid in [each for each, cell in self.running.items() if cell.run == words[1] and each == cell.pid]:
                posix.kill(pid, number)
            return None
        _, run, program, request_size, judge = words
        names, entry, ready = self.programs[program]
        opened: tuple[int, ...] = ()
        try:
            if judge != "-":
                opened = names["open_for_completion"](run)
            else:
                opened = open_all(*streams_of(f"{SPOOL}/{run}.request", f"{SPOOL}/{run}.out", f"{SPOOL}/{run}.err"))
            pid, first = self.cells.fork(judge != "-", opened)
        except OSError as error:
            self.answer(f"refused {run} {str(error).encode().hex()}")
            pid = first = -1
        if pid:
            for descriptor in opened:
                posix.close(descriptor)
            if pid < 0:
                return None
            self.running[pid] = self.running[first] = Running(run, pid, first, judge)
            self.answer(f"started {run} {pid} {first}")
            return None
        try:
            self.cells.enter()
        except BaseException as error:
            say_why_not(error, opened[1 if judge != "-" else 2])
        if judge != "-":
            return lambda: names["be_completion"](int(request_size), self.cells.call, ready)
        return lambda: names["main"](int(request_size), names[entry])

    def fork_judge(self, name: str, program: str) -> Callable[[], Any] | None:
        judge = None
        try:
            judge = JudgeProcess(name)
            pid = posix.fork()
        except OSError:
            if judge is not None:
                judge.close()
            # As if it had ended at once: only its completion has to be judged again.
            self.answer(f"left {name}")
            return None
        if pid:
            self.judges[pid] = judge
            return None
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [_signal.SIGCHLD])
        close_others((self.requests, self.answers))
        names = self.programs[program][0]
        return lambda: names["judge_in_turn"](name, self.requests, self.answers, self.cells.call, self.cells.limits)

    def reap(self) -> None:
        while True:
            try:
                pid, status, usage = posix.wait4(-1, posix.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            cell, judge = self.running.pop(pid, None), self.judges.pop(pid, None)
            if cell is not None:
                self.note_end(cell, pid, status, usage)
            elif judge is not None:
                judge.close()
                self.answer(f"left {judge.name}")
            elif pid == self.router:
                self.leave()

    def note_end(self, cell: Running, pid: int, status: int, usage: Any) -> None:
        if pid == cell.pid:
            cell.status = status
            if pid != cell.first:
                # Who ends process 1 ends all of the cell, which is no deed of the completion.
                if status & 0x7F == _signal.SIGKILL and is_ending(cell.first):
                    self.answer(f"broken {cell.run}")
                # Its judge may have been lost.
                for judge in [each for each in self.judges.values() if each.name == cell.judge]:
                    seconds = usage[0] + usage[1]
                    judge.tell(f"ended {cell.run} {status} {seconds:.6f} {usage[2] * 1024}")
                kill_quietly(cell.first)
        if pid == cell.first:
            self.cells.forget(pid)
            self.answer(f"ended {cell.run} {cell.status}")

    def answer(self, line: str) -> None:
        # The kernel takes a line as a whole.
        posix.write(self.answers, line.encode() + b"\n")

    def leave(self) -> NoReturn:
        """Ends the worker with all its cells, because the router has ended."""
        # All other processes of its process namespace end with it.
        posix._exit(0)


def work() -> Callable[[], Any]:
    """Starts the worker; the call returns in cells alone: the work of a cell's first process."""
    call = load_libc()
    if call is None:
        refuse("the interpreter has no _ctypes")
    limits, most, places = read_limits()
    cells = Cells(call, limits)
    why_not = settle(cells)
    if why_not:
        refuse(why_not)
    Preloads().load()
    gc.collect()
    gc.freeze()
    their_orders, orders = posix.pipe()
    answers, their_answers = posix.pipe()
    router = posix.fork()
    if router == 0:
        posix.close(their_orders)
        posix.close(their_answers)
        load_rest()
        try:
            run_router(limits, most, places, orders, answers)
        finally:
            posix._exit(1)
    posix.close(answers)
    # The router reads the rest of the input.
    nothing = posix.open("/dev/null", posix.O_RDWR)
    posix.dup2(nothing, 0)
    # What is opened for cells has other numbers than they give it.
    while nothing <= FILES_OF_COMPLETION:
        nothing = posix.dup(0)
    return Forker(cells, their_orders, orders, their_answers, router).serve()


def refuse(why: str) -> NoReturn:
    write_all(1, b"refused " + why.encode("utf-8", "replace").hex().encode() + b"\n")
    posix._exit(3)
