"""The router of a worker: takes requests from the host, decides when each gets its cell, and passes on the results.

As many cells run as there are processors for. A cell whose processes all wait (for a clock, a lock, each other) leaves
its place to the next one. So programs that sleep delay no others, and programs that compute do not crowd one another.
The router passes on how a cell ended. The host interprets it, and runs a completion without a verdict once more, in a
sandbox of its own. So it does where a judge outside of the cells ends before its completion is judged.

This process holds what completions must not see. It forks nothing, and only what it forked before is an ancestor of a
completion.
"""

from __future__ import annotations

import binascii
import os
import select
import sys
import time
from typing import NoReturn

from sandrl.judge.guest.cell import SPOOL, CellLimits
from sandrl.judge.guest.descriptors import kill_quietly
from sandrl.runtime.guest.processes import ProcessLimits, read
from sandrl.runtime.guest.watchdog import Watchdog

HEADER_BYTES = 128
# A cell that has lived for so long is watched, and as often from then on.
WATCH_SECONDS = 0.05
ALIVE_SECONDS = 1.0
# For so many looks the forker may not answer. Looks are counted, not seconds: a machine that stands still has no looks.
LOOKS_WITHOUT_ANSWER = 200
# Results that come within this time are passed on together: a host pays for each message. While as many requests wait
# here, the host has no use for a result before there are as many.
GATHERED_SECONDS, LONGER_SECONDS = 0.02, 0.25
MANY = 8
READ_BYTES = 1 << 18
MOST_OUTPUT_BYTES = 64 << 20
# A place that a waiting cell has left is taken only where so much memory is left for the next one.
FREE_MEMORY_BYTES = 256 << 20
LATE, NOT_MADE, LOST = "late", "refused", "lost"
# The pipes and files of a completion with a judge outside of its cell (see `outside.py`).
PIPES_OF_RUN = "questions", "answers"
FILES_OF_RUN = "stdout", "stderr", "report"


class Cell:
    """A completion in a worker: it waits for its cell, or is in it.

    `pid` is the process that runs or judges it, and `first` process 1 of its cell; 0 until the forker has made them. It
    `is_waiting` if all processes of it have waited lately. `looks` counts how often it was looked for in vain.
    """

    def __init__(self, run: str, program: str, request_size: str, seconds: float, is_apart: bool) -> None:
        self.run = run
        self.program = program
        self.request_size = request_size
        self.seconds = seconds
        self.pid = self.first = 0
        self.began = 0.0
        self.ticks = -1
        self.looks = 0
        self.is_waiting = False
        self.is_late = False
        self.watchdog: Watchdog | None = None
        self.is_apart = is_apart
        self.judge: Judge | None = None
        self.pipes: list[int] = []
        self.has_opened = False
        # The exit status of its judgement, once the judge outside has said it, and that of the cell.
        self.judged = self.ended = ""
        self.why = b""

    def open_pipes(self) -> None:
        """Makes the pipes between completion and judge, of which neither waits for the other to open them."""
        for name in PIPES_OF_RUN:
            place = f"{SPOOL}/{self.run}.{name}"
            os.mkfifo(place, 0o600)
            self.pipes.append(os.open(place, os.O_RDWR | os.O_CLOEXEC))

    def close_pipes(self) -> None:
        """Has the judge find the end of the pipes, once it has opened them and the completion has ended."""
        while self.pipes and self.has_opened and self.ended:
            os.close(self.pipes.pop())

    def outcome(self) -> str:
        return LATE if self.is_late else LOST if self.why else self.judged or self.ended


class Judge:
    """A judge outside of cells; it judges one completion at a time."""

    def __init__(self, name: str, program: str) -> None:
        self.name = name
        self.program = program
        self.place = f"{SPOOL}/{name}"
        os.mkfifo(self.place, 0o600)
        # For both directions, so that opening it waits for nobody.
        self.orders = os.open(self.place, os.O_RDWR | os.O_CLOEXEC)

    def order(self, line: str) -> None:
        os.write(self.orders, line.encode() + b"\n")

    def close(self) -> None:
        os.close(self.orders)
        os.unlink(self.place)


class Process:
    def __init__(self, parent: int, runs: bool, ticks: int) -> None:
        self.parent = parent
        self.runs = runs
        self.ticks = ticks


def all_processes() -> dict[int, Process]:
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            words = read(f"/proc/{name}/stat").rpartition(b")")[2].split()
            if len(words) > 14:
                found[int(name)] = Process(int(words[1]), words[0] in b"RD", int(words[11]) + int(words[12]))
    return found


def families(processes: dict[int, Process], roots: list[int]) -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    found = {}
    for root in roots:
        family = [root] if root in processes else []
        for pid in family:
            family.extend(children.get(pid, ()))
        found[root] = family
    return found


def free_memory_bytes() -> int:
    for line in read("/proc/meminfo").splitlines():
        if line.startswith(b"MemAvailable:"):
            return int(line.split()[1]) * 1024
    return FREE_MEMORY_BYTES


def take_file(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    os.unlink(path)
    try:
        size = os.fstat(descriptor).st_size
        return b"".join(iter(lambda: os.read(descriptor, READ_BYTES), b"")) if size <= MOST_OUTPUT_BYTES else b""
    finally:
        os.close(descriptor)


class Incoming:
    """Parses the input from the host: headers, each with a payload that is written to a file as it arrives."""

    def __init__(self) -> None:
        self.header = b""
        self.words: list[str] = []
        self.file = -1
        self.left = 0

    def feed(self, block: bytes) -> list[list[str]]:
        """Takes what has come; returns the headers of what is whole now."""
        whole = []
        view = memoryview(block)
        while view:
            if not self.words:
                missing = HEADER_BYTES - len(self.header)
                self.header += view[:missing]
                view = view[missing:]
                if len(self.header) < HEADER_BYTES:
                    break
                self.words, self.header = self.header.decode().split(), b""
                name = self.words[1] + (".request" if self.words[0] == "run" else "")
                self.left = int(self.words[2])
                self.file = os.open(f"{SPOOL}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            written = os.write(self.file, view[: self.left]) if self.left else 0
            self.left -= written
            view = view[written:]
            if not self.left:
                os.close(self.file)
                whole.append(self.words)
                self.words = []
        return whole


class Router:
    """Serves the host.

    At most `most` cells run at once, and `places` of them may want a processor; 0 where none waits for another. With
    each request, the host says how many places there are from then on. The forker reads `orders`, and reports starts
    and ends of cells to `answers`.
    """

    def __init__(self, limits: CellLimits, most: int, places: int, orders: int, answers: int) -> None:
        self.limits = ProcessLimits(limits.memory_bytes, limits.processes, limits.sockets, limits.inodes)
        self.most = most
        self.places = places
        self.orders = orders
        self.answers = answers
        self.incoming = Incoming()
        self.queue: list[Cell] = []
        self.running: dict[str, Cell] = {}
        self.results: list[str] = []
        self.judges: dict[str, Judge] = {}
        self.idle: list[Judge] = []
        self.made = 0
        self.watched = self.sent_at = self.gathered = time.monotonic()

    def serve(self) -> None:
        poll = select.poll()
        poll.register(0, select.POLLIN)
        poll.register(self.answers, select.POLLIN)
        waiting = b""
        self.send(["ready"])
        while True:
            for descriptor, _ in poll.poll(self.patience()):
                block = os.read(descriptor, READ_BYTES)
                if not block:
                    return
                if descriptor == 0:
                    for words in self.incoming.feed(block):
                        self.handle(words)
                else:
                    *lines, waiting = (waiting + block).split(b"\n")
                    for line in lines:
                        self.note(line.decode().split(" "))
            self.start_more()
            now = time.monotonic()
            if self.running and now - self.watched >= WATCH_SECONDS:
                self.watch(now)
                self.start_more()
            if self.results and (now - self.gathered >= self.seconds_to_gather() or not self.running):
                self.send(self.results)
                self.results = []
            if now - self.sent_at >= ALIVE_SECONDS and (self.running or self.queue):
                self.send(["alive"])

    def patience(self) -> float | None:
        """Milliseconds to wait for something to happen at most."""
        if not self.running and not self.queue and not self.results:
            return None
        return (min(self.seconds_to_gather(), WATCH_SECONDS) if self.results else WATCH_SECONDS) * 1000

    def seconds_to_gather(self) -> float:
        is_soon = len(self.results) >= MANY or len(self.queue) < MANY
        return GATHERED_SECONDS if is_soon else LONGER_SECONDS

    def send(self, lines: list[str]) -> None:
        self.sent_at = time.monotonic()
        data = memoryview(("\n".join(lines) + "\n").encode())
        while data:
            data = data[os.write(1, data) :]

    def order(self, line: str) -> None:
        os.write(self.orders, line.encode() + b"\n")

    def handle(self, words: list[str]) -> None:
        if words[0] == "program":
            _, name, _, entry, *sizes = words
            self.order(" ".join(["program", name, entry, *sizes]))
        else:
            _, run, _, program, request_size, milliseconds, is_apart, places = words
            self.places = int(places)
            self.queue.append(Cell(run, program, request_size, int(milliseconds) / 1000, is_apart == "1"))

    def start_more(self) -> None:
        while self.queue and len(self.running) < self.most:
            busy = sum(not cell.is_waiting for cell in self.running.values())
            if self.places and busy >= self.places:
                return
            # More than there are places for: only where there is memory for them, too.
            is_extra = self.places and len(self.running) >= self.places
            if is_extra and free_memory_bytes() < max(self.limits.memory_bytes, FREE_MEMORY_BYTES):
                return
            cell = self.queue.pop(0)
            cell.began = time.monotonic()
            self.running[cell.run] = cell
            if cell.is_apart:
                cell.judge = self.free_judge(cell.program)
                cell.open_pipes()
            self.order(f"cell {cell.run} {cell.program} {cell.request_size} {cell.judge.name if cell.judge else '-'}")

    def free_judge(self, program: str) -> Judge:
        """A judge that waits, or a new one; so there are never more of a program than cells run at once."""
        for judge in self.idle:
            if judge.program == program:
                self.idle.remove(judge)
                return judge
        if len(self.idle) >= self.most:
            self.idle.pop(0).order("leave")
        self.made += 1
        judge = Judge(f"judge.{self.made}", program)
        self.judges[judge.name] = judge
        self.order(f"judge {judge.name} {program}")
        return judge

    def note(self, words: list[str]) -> None:
        kind, name, *rest = words
        if kind == "left":
            self.note_end_of_judge(name)
            return
        cell = self.running.get(name)
        if cell is None:
            return  # the last word of a judge that is being ended
        if kind == "started":
            cell.pid, cell.first = int(rest[0]), int(rest[1])
            if cell.judge is not None:
                cell.judge.order(f"run {cell.run} {cell.request_size} {cell.pid}")
            elif cell.is_apart:
                kill_quietly(cell.first)  # its judge has ended
        elif kind == "refused":
            self.finish(cell, NOT_MADE, bytes.fromhex(rest[0]))
        elif kind == "opened":
            cell.has_opened = True
            cell.close_pipes()
        elif kind == "broken":
            cell.why = b"its cell was ended from outside"
        elif kind == "judged":
            cell.judged, judge, cell.judge = rest[0], cell.judge, None
            if judge is not None and rest[1] == "0":
                self.idle.append(judge)
            if cell.ended:
                self.finish(cell, cell.outcome(), cell.why)
        elif kind == "ended":
            status = int(rest[0])  # `waitstatus_to_exitcode` is of Python 3.9
            cell.ended = str(-(status & 0x7F) or status >> 8)
            cell.close_pipes()
            # Its judge has the last word.
            if cell.judge is None:
                self.finish(cell, cell.outcome(), cell.why)

    def note_end_of_judge(self, name: str) -> None:
        judge = self.judges.pop(name)
        judge.close()
        if judge in self.idle:
            self.idle.remove(judge)
        for cell in [each for each in self.running.values() if each.judge is judge]:
            cell.judge, cell.why = None, b"its judge ended"
            if cell.ended:
                self.finish(cell, LOST, cell.why)
            elif cell.first:
                kill_quietly(cell.first)

    def finish(self, cell: Cell, exit_code: str, why: bytes = b"") -> None:
        del self.running[cell.run]
        if cell.judge is not None:
            # It waits for a cell that is not there.
            self.order(f"end {cell.judge.name}")
        place = f"{SPOOL}/{cell.run}"
        os.unlink(place + ".request")
        for descriptor in cell.pipes:
            os.close(descriptor)
        if cell.is_apart:
            for name in (*PIPES_OF_RUN, *FILES_OF_RUN):
                try:
                    os.unlink(f"{place}.{name}")
                except OSError:
                    pass  # the cell could not be made
        printed, errors = take_file(place + ".out"), take_file(place + ".err")
        if exit_code in (NOT_MADE, LOST):
            printed, errors = b"", why or errors
        words = [binascii.b2a_base64(each, newline=False).decode() or "-" for each in (printed, errors)]
        if not self.results:
            self.gathered = time.monotonic()
        seconds = time.monotonic() - cell.began
        self.results.append(f"result {cell.run} {exit_code} {seconds:.6f} {' '.join(words)}")

    def watch(self, now: float) -> None:
        """Looks after the cells that have lived for a while: their time, what they use, and whether they wait."""
        self.watched = now
        for cell in self.running.values():
            cell.looks += not cell.pid
            if cell.looks > LOOKS_WITHOUT_ANSWER:
                raise TimeoutError("the process that makes cells does not answer")
        old = [cell for cell in self.running.values() if cell.pid and now - cell.began >= WATCH_SECONDS]
        if not old:
            return
        processes = all_processes()
        of_processes = families(processes, [pid for cell in old for pid in {cell.first, cell.pid}])
        for cell in old:
            family = of_processes[cell.first] + (of_processes[cell.pid] if cell.pid != cell.first else [])
            ticks = sum(processes[pid].ticks for pid in family)
            cell.is_waiting = ticks == cell.ticks and not any(processes[pid].runs for pid in family)
            cell.ticks = ticks
            if now - cell.began > cell.seconds:
                cell.is_late = True
                kill_quietly(cell.first)
                continue
            if cell.watchdog is None:
                cell.watchdog = Watchdog(self.limits, -1, cell.first)
            # A cell's first process cannot be killed in it, and says what became of the others.
            breach = cell.watchdog.breach(family[:1], family)
            if breach == "memory":
                cell.watchdog.relieve_memory(family[1:] or family)
            elif breach is not None:
                for pid in family[1:]:
                    kill_quietly(pid)


def run_router(limits: CellLimits, most: int, places: int, orders: int, answers: int) -> NoReturn:
    try:
        Router(limits, most, places, orders, answers).serve()
    except BaseException as error:
        sys.stderr.write(f"the router of a worker failed: {type(error).__name__}: {error}\n")
        sys.stderr.flush()
    os._exit(1)
