"""Runs a program once and reports how it ended, what it printed, and the files that it left.

A program is run in the same way as one that is judged (`script.py`, `programs.py`), and nothing is compared. The report
is sent in the place of a reference's return values, in words that are text all through: nothing that a program made is
decoded by the process that requests its files.
"""

from __future__ import annotations

import posix

from sandrl.judge.guest.baseline import Baseline
from sandrl.judge.guest.cases import stdin_of_case
from sandrl.judge.guest.declarations import Libc, Plan, Request
from sandrl.judge.guest.descriptors import head
from sandrl.judge.guest.programs import Place, Program, judge_exit, nothing_ran
from sandrl.judge.guest.script import judge_program, run_script
from sandrl.judge.guest.supervisor import ChildExit, Judgment, become_reaper, letter_of, run_child

# How a command ended, where it was not by an exit status.
OUT_OF_TIME, OVER_MEMORY, SIGNALLED = "t", "m", "s"
ABSOLUTE_FOLDER = "/tmp/"


def open_beneath(folder: str, path: str) -> int | None:
    """Opens a plain file in a directory, or by a whole path one in `/tmp`, following no link; None if there is none."""
    if path.startswith(ABSOLUTE_FOLDER):
        folder, path = "/tmp", path[len(ABSOLUTE_FOLDER) :]
    *parents, name = [part for part in path.split("/") if part not in ("", ".")] or [""]
    if path.startswith("/") or ".." in parents or name in ("", ".."):
        return None
    descriptor = posix.open(folder, posix.O_RDONLY | posix.O_DIRECTORY)
    try:
        for part in parents:
            inner = posix.open(part, posix.O_RDONLY | posix.O_DIRECTORY | posix.O_NOFOLLOW, dir_fd=descriptor)
            posix.close(descriptor)
            descriptor = inner
        # Opening a pipe must not wait for its writer.
        file = posix.open(name, posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK, dir_fd=descriptor)
    except (OSError, ValueError):
        return None
    finally:
        posix.close(descriptor)
    if posix.fstat(file).st_mode & 0o170000 != 0o100000:
        posix.close(file)
        return None
    return file


def fetch(folder: str, request: Request) -> list[str]:
    """The files that were asked for, each as its number, its size and its content; those that are missing are left out.

    The content of a file for which there is no room any more is left out.
    """
    to_text, left, found = __import__("binascii").b2a_base64, request["max_fetched_bytes"], []
    for number, path in enumerate(request["fetch"]):
        file = open_beneath(folder, path)
        if file is None:
            continue
        content, size = head(file, left)
        posix.close(file)
        text = "!"
        if size <= left:
            left -= size
            text = to_text(content, newline=False).decode("ascii")
        found.append(f"{number}:{size}:{text}")
    return found


class FetchedProgram(Program):
    """A program of which files are fetched after its run."""

    def __init__(self, plan: Plan, request: Request, baseline: Baseline) -> None:
        super().__init__(plan, request, baseline)
        self.fetched: list[str] = []

    def look_around(self, place: Place, command: str, ended: ChildExit) -> None:
        if command == "run":
            self.fetched = fetch(place.work, self.request)


def execute(request: Request, call: Libc | None) -> Judgment:
    """Builds a program if that is needed, runs it once, and tells how it ended."""
    become_reaper(call)
    if "plans" in request:
        return execute_program(request, call)
    folder = "/tmp/run-" + posix.urandom(12).hex()
    seconds = request["timeout_seconds"]
    ended = run_child(run_script, {**request, "folder": folder}, stdin_of_case(request, 0), seconds, call)
    try:
        fetched = fetch(folder, request)
    except OSError:
        fetched = []  # it has removed its directory
    return told(ended, *judge_program(ended, seconds), "-", fetched)


def execute_program(request: Request, call: Libc | None) -> Judgment:
    """The same for a program in another language than Python, or with an interpreter of its own."""
    program = FetchedProgram(request["plans"][0], request, Baseline(call))
    status, detail = program.build()
    compiled = "-"
    if program.compiler is not None:
        size = request["max_output_bytes"]
        said = [head(descriptor, size)[0].hex() for descriptor in (program.compiler.stdout, program.compiler.stderr)]
        compiled = ":".join([end_of(program.compiler), f"{program.compile_seconds:.6f}", *said])
    if status != "passed":
        return told(None, status, detail, compiled, [])
    seconds = request["timeout_seconds"]
    ended = program.run(stdin_of_case(request, 0), seconds, list(request["files"]))
    return told(ended, *judge_program(ended, seconds, judge_exit), compiled, program.fetched)


def end_of(ended: ChildExit) -> str:
    if ended.wait_status is None:
        return OUT_OF_TIME
    if ended.excess:
        return OVER_MEMORY
    number = ended.wait_status & 0x7F
    return f"{SIGNALLED}{number}" if number else str(ended.wait_status >> 8)


def told(ended: ChildExit | None, status: str, detail: str, compiled: str, fetched: list[str]) -> Judgment:
    shown = nothing_ran() if ended is None else ended
    words = "-" if ended is None else end_of(ended)
    judged = Judgment(status, detail, [(letter_of(status), detail)], shown.times, shown.stdout, shown.stderr)
    judged.returned = " ".join([words, compiled, ",".join(fetched) or "-"])
    return judged
