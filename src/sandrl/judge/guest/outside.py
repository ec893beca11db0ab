"""Judges outside of cells: each judges one completion after another, each of which is in a cell of its own.

Only checks that keep no state are judged so (`pure_checks.py`): the second completion finds the judge as the first one
did. The forker forks a judge before that has read anything, as it forks the completions, and no judge forks anything.
So no process of a completion has an ancestor that held what is hidden from it, and a judge is in no namespace of a
cell. Between the two are two pipes of each completion's own, and the files that the completion prints to.

The completion is a child of the forker, which says how it ended, and sends it signals that the judge asks for.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import gc
import marshal
import posix
import sys
from typing import Any, NoReturn

from sandrl.judge.guest.cell import (
    CANNOT_BE_MADE,
    NO_ROOT_LOCKED,
    PR_SET_PDEATHSIG,
    PR_SET_SECUREBITS,
    SPOOL,
    CellLimits,
    streams_of,
    without_capabilities,
)
from sandrl.judge.guest.channel import DONE, QUESTION, Channel
from sandrl.judge.guest.checks import Checks, judge_apart
from sandrl.judge.guest.child import (
    FILE_NAME,
    PR_SET_DUMPABLE,
    PR_SET_NO_NEW_PRIVS,
    RLIMIT_DATA,
    ROOM_FOR_STACKS_BYTES,
    be_child,
    run_code,
    speaker,
)
from sandrl.judge.guest.clock import Clock, is_running, listen
from sandrl.judge.guest.declarations import Libc, Request, Say
from sandrl.judge.guest.descriptors import DeadlineReached, head, read_exactly, write_all
from sandrl.judge.guest.objects import Peer
from sandrl.judge.guest.report import KEY_BYTES, report
from sandrl.judge.guest.server import Objects, run_completion
from sandrl.judge.guest.steps import open_all, take
from sandrl.judge.guest.supervisor import Child, ChildExit, own_memory

# What a completion's process says before it runs any of its code.
BEGUN = b"b"
# What a completion prints, and what its process reports.
STREAMS_OF_CELL = "stdout", "stderr", "report"
LINE_OF_JUDGE_BYTES = 4096
# What the judge itself imports for calls whose results were kept.
MODULES_OF_JUDGE = "zlib", "binascii"
# How often a step is taken before the interpreter notes no more.
REHEARSALS = 16
# So many completions a judge judges.
MOST_RUNS = 500


# In a cell


# The numbers of the files of a completion's process, from 1 on.
REQUEST, WORDS, QUESTIONS, ANSWERS = 3, 4, 5, 6


def open_for_completion(run: str) -> tuple[int, ...]:
    """Opens the files that the completion's process begins with; the cell sees none of them."""
    place = f"{SPOOL}/{run}"
    request, output, errors = streams_of(place + ".request", place + ".stdout", place + ".stderr")
    words = place + ".report", posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_APPEND
    # The router has the pipes open.
    pipes = (place + ".questions", posix.O_RDONLY), (place + ".answers", posix.O_WRONLY)
    return open_all(output, errors, request, words, *pipes)


def rehearse() -> Objects:
    """Makes the completion's end of the channel before its process is forked, and answers some questions.

    The interpreter notes much when something is done for the first times: where functions and attributes are found. A
    forked process would copy each page that it notes this on.
    """
    # There is no such file, so none is written.
    namespace: dict[str, Any] = {"__file__": f"/dev/null/{FILE_NAME}"}
    encoder = Peer(Channel(-1, -1))
    questions = [encoder.encode(("global", None, ("f",), (), None))]
    questions.append(encoder.encode(("call", None, (1, "x", [2.5]), (), None)).replace(b"N", b"o0;", 1))
    for _ in range(REHEARSALS):
        reading, their_writing = posix.pipe()
        their_reading, writing = posix.pipe()
        objects, other = Objects(Channel(reading, writing)), Channel(their_reading, their_writing)
        run_code("def f(*values):\n    return values", namespace)
        objects.namespace = namespace
        for question in questions:
            other.send(QUESTION, question)
        other.send(DONE, b"")
        objects.answer_all()
        objects.channel.close()
        other.close()
        gc.enable()
        gc.disable()
    return Objects(Channel(QUESTIONS, ANSWERS))


def be_completion(request_size: int, call: Libc, objects: Objects) -> NoReturn:
    """Runs a completion in this process, which has begun with its files."""
    gc.freeze()
    gc.enable()
    request = marshal.loads(read_exactly(request_size, REQUEST))
    # The rest of the file is hidden.
    posix.close(REQUEST)
    posix.write(ANSWERS, BEGUN)

    def body(request: Request, say: Say) -> None:
        run_completion(request, say, objects)

    code = be_child(body, request, speaker(WORDS), call)
    raise SystemExit(code)


# In a judge


class News:
    """The lines that come to a judge: from the router, whom to judge, and from the forker, how that has ended.

    A deadline may interrupt any step of reading, and loses nothing of it.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.blocks: list[bytes] = []
        # How the completion that is judged, or will be, has ended.
        self.ended = b""

    def line(self) -> bytes:
        while True:
            line, end, rest = b"".join(self.blocks).partition(b"\n")
            if end:
                self.blocks[:] = [rest]
                return line
            # In one step of the interpreter: see `Channel.read_into`.
            self.blocks.extend(map(posix.read, (self.descriptor,), (LINE_OF_JUDGE_BYTES,)))
            if not self.blocks[-1]:
                posix._exit(0)

    def next_order(self) -> list[bytes]:
        """The words of the next line of the router; one that runs for no time may have ended before that."""
        self.ended = b""
        line = self.line()
        while line.startswith(b"ended "):
            self.ended = line
            line = self.line()
        return line.split()

    def wait_for_end(self) -> None:
        if not self.ended:
            self.ended = self.line()


class NoCell(Exception):
    """The cell could not be made."""


class ChildInCell(Child):
    """A completion in a cell; `forker` takes requests, and `news` says how it has ended."""

    def __init__(self, run: str, pid: int, forker: int, answers: int, news: News) -> None:
        self.run = run
        self.forker = forker
        self.news = news
        writing = posix.open(f"{SPOOL}/{run}.questions", posix.O_WRONLY)
        self.channel = Channel(posix.open(f"{SPOOL}/{run}.answers", posix.O_RDONLY), writing)
        write_all(answers, f"opened {run}\n".encode())
        if posix.read(self.channel.reading, len(BEGUN)) != BEGUN:
            raise NoCell
        Child.__init__(self, pid, *[posix.open(f"{SPOOL}/{run}.{name}", posix.O_RDONLY) for name in STREAMS_OF_CELL])

    def signal(self, number: int) -> None:
        self.ask_for("interrupt")

    def ask_for(self, what: str) -> None:
        write_all(self.forker, f"{what} {self.run}\n".encode())

    def end(self, seconds: float, before: Clock | None = None) -> ChildExit:
        is_late = False
        clock = Clock(seconds, self.pid)
        try:
            clock.start()
            self.news.wait_for_end()
            if not is_running():
                raise DeadlineReached
            clock.stop()
        except DeadlineReached:
            clock.stop()
            is_late = True
            self.ask_for("kill")
            self.news.wait_for_end()
        _, _, status, cpu, peak = self.news.ended.split()
        wait_status = None if is_late else int(status)
        return self.exit_of(wait_status, float(cpu), int(peak), clock if before is None else before)


def become_judge(call: Libc, limits: CellLimits) -> None:
    """Gives up what only the forker needs."""
    call("prctl", PR_SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0)
    call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    call("prctl", PR_SET_SECUREBITS, NO_ROOT_LOCKED, 0, 0, 0)
    take(call, [without_capabilities()])
    call("prctl", PR_SET_DUMPABLE, 0, 0, 0, 0)
    # What a completion sends becomes values here.
    call("setrlimit", RLIMIT_DATA, (limits.memory_bytes + ROOM_FOR_STACKS_BYTES).to_bytes(8, "little") * 2)
    nothing = posix.open("/dev/null", posix.O_RDWR)
    for descriptor in range(3):
        posix.dup2(nothing, descriptor)
    posix.close(nothing)


def judge_in_turn(name: str, forker: int, answers: int, call: Libc, limits: CellLimits) -> NoReturn:
    """Judges the completions that the router names, until one of them may have left something here."""
    become_judge(call, limits)
    gc.freeze()
    gc.enable()
    # No process of a completion can send this one anything.
    Clock.is_reachable = False
    Checks.compiled_texts = {}
    memory = own_memory()
    news = News(posix.open(f"{SPOOL}/{name}", posix.O_RDONLY))
    for name in MODULES_OF_JUDGE:
        __import__(name)
    known = set(sys.modules)
    at_once = getattr(sys.meta_path[0], "modules", {})
    for number in range(MOST_RUNS):
        words = news.next_order()
        if words[0] != b"run":
            break
        _, run, open_size, pid = words
        Clock.saw_stop = Clock.stood_still = False
        listen()
        status, code = judge_in_cell(run.decode(), int(open_size), int(pid), forker, answers, news, memory)
        added = set(sys.modules) - known
        for name in added:
            del sys.modules[name]
        # What the worker has loaded is imported again in no time; anything else may not bear that.
        is_last = status not in ("passed", "failed") or not added.issubset(at_once) or number + 1 == MOST_RUNS
        write_all(answers, b"judged %s %d %d\n" % (run, code, is_last))
        if is_last:
            break
    posix._exit(0)


def open_output(run: str, name: str) -> int:
    return posix.open(f"{SPOOL}/{run}.{name}", posix.O_WRONLY | posix.O_CREAT | posix.O_APPEND, 0o600)


def judge_in_cell(
    run: str, open_size: int, pid: int, forker: int, answers: int, news: News, memory: int
) -> tuple[str, int]:
    descriptor = posix.open(f"{SPOOL}/{run}.request", posix.O_RDONLY)
    request: Any = marshal.loads(read_exactly(open_size, descriptor))
    hidden = marshal.loads(read_exactly(request["hidden_size"], descriptor))
    key = read_exactly(KEY_BYTES, descriptor)
    posix.close(descriptor)
    try:
        child = ChildInCell(run, pid, forker, answers, news)
    except NoCell:
        errors = posix.open(f"{SPOOL}/{run}.stderr", posix.O_RDONLY)
        write_all(open_output(run, "err"), head(errors, LINE_OF_JUDGE_BYTES)[0])
        return "no cell", CANNOT_BE_MADE
    most = request.get("memory_bytes")
    child.memory = (most, most + memory) if most else None
    judged = judge_apart(child, child.channel, request, hidden)
    outputs = open_output(run, "out"), open_output(run, "err")
    code = report(request, judged, key.decode(), outputs)
    for each in (*outputs, judged.stdout, judged.stderr):
        posix.close(each)
    return judged.status, code
