"""Judges the output of programs with the problem's own checker, in a process that the completion cannot reach.

The checker is forked from the process that compares, which was forked before the completion ran and never ran a line of
it, and only when no process of the completion is left. So the completion cannot watch it, stop it, or write to its
files. The supervisor is the reaper of all processes below it, so it also finds a process that left its parent and its
session. Only the process that compares holds the checker and the expected outputs.

A checker runs in a directory of its own with a name that could not be predicted, which is also its home, its place for
temporary files and the first place where it finds modules. The interpreter is the supervisor's: it has read no
variables but its hash seed, no `.pth` files and no modules of a user. The limits that it inherits must be those that
its parent began with, or the completion is refused. So only the text of its output reaches the checker from the
completion, bounded and decoded.

A checker's result counts only if it ends without an error and gives a number from 0 to 1. Anything else is the
problem's fault. If a completion left no room to run the checker in, that is the completion's fault.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import posix
import sys
from typing import Any, NoReturn

from sandrl.judge.guest.baseline import end_descendants
from sandrl.judge.guest.cases import Comparison, judge_cases
from sandrl.judge.guest.child import completion_files, completion_lines, describe, finish, fresh_module, run_code
from sandrl.judge.guest.declarations import Libc, Outcome, Request, Say
from sandrl.judge.guest.descriptors import head, kill_quietly, write_all
from sandrl.judge.guest.places import remove_all
from sandrl.judge.guest.programs import judge_programs
from sandrl.judge.guest.script import judge_program, run_script
from sandrl.judge.guest.supervisor import (
    CHECKER_FAILED,
    ChildExit,
    Judgment,
    become_reaper,
    from_hex,
    judge_child,
    run_child,
)

# What an output may have beyond four times the expected one. A checker has limited time, and no completion may make its
# problem unscorable by printing more than any checker reads in that.
MOST_ANSWER_BYTES = 16 << 20
SCORE_BYTES = 4000
NO_ROOM = b"no_room"
INPUT, EXPECTED, ANSWER, CHECKER = "input.txt", "correct_output.txt", "solution_output.txt", "checker.py"


def limits_of_process() -> list[tuple[int, int]]:
    """All limits of this process; another process of its user may have changed them."""
    resource = __import__("resource")
    names = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    return [resource.getrlimit(getattr(resource, name)) for name in names]


class CheckedComparison(Comparison):
    """Has outputs judged by the problem's checker when nothing of the completion is left: the supervisor's side."""

    def __init__(self, request: Request, call: Libc | None) -> None:
        Comparison.__init__(self, request, Checking(request, call).compare)

    def outcome(self, position: int, ended: ChildExit) -> tuple[str, str]:
        if not end_descendants({self.pid}):
            return "crashed", "it left processes that do not end"
        kill_quietly(self.pid, _signal.SIGCONT)  # they may have stopped it
        return Comparison.outcome(self, position, ended)


class Checking:
    """Compares outputs by the problem's checker, in the process that compares."""

    def __init__(self, request: Request, call: Libc | None) -> None:
        self.request = request
        self.call = call
        self.limits = limits_of_process()
        self.used = 0.0

    def compare(self, printed: bytes, position: int, hidden: Request) -> Outcome:
        if limits_of_process() != self.limits:
            return "crashed", "it changed the limits of its judge", None
        expected = hidden["expected"][position]
        most = MOST_ANSWER_BYTES + 4 * len(expected)
        if len(printed) > most:
            return "failed", f"it printed more than {most} bytes, the limit for its checker", None
        given = self.request["inputs"][position].decode("utf-8", "surrogatepass")
        try:
            status, detail, score = self.run([given, expected, printed.decode("utf-8", "replace")], hidden)
        except OSError as error:
            return "resource_limit", f"it left no resources to run the checker ({error})", None
        if score is None:
            return status, detail, None
        if score == 1:
            return "passed", "", None
        return (
            "failed",
            f"the checker's score is {score:g} of 1" if score else "the checker rejects the output",
            score or None,
        )

    def run(self, texts: list[str], hidden: Request) -> Outcome:
        total = hidden["all_checkers_seconds"]
        seconds = min(hidden["checker_seconds"], total - self.used)
        if seconds <= 0:
            return CHECKER_FAILED, f"the problem's checker took more than {total:g} s for all cases together", None
        folder = "/tmp/.checker-" + posix.urandom(12).hex()
        request = {
            "hidden": hidden,
            "checker_folder": folder,
            "texts": texts,
            "max_file_bytes": self.request["max_file_bytes"],
        }
        stdin = posix.open("/dev/null", posix.O_RDONLY)
        ended = run_child(run_checker, request, stdin, seconds, self.call)
        self.used += ended.times.wall - ended.times.starved
        remove_all(folder)
        printed, size = head(ended.stdout, SCORE_BYTES)
        complained, _ = head(ended.stderr, SCORE_BYTES)
        posix.close(ended.stdout)
        posix.close(ended.stderr)
        said = ended.words[-2].split(b" ") if len(ended.words) > 1 else []
        if len(said) == 3 and said[1] == NO_ROOM:
            return "resource_limit", "it left no resources to run the checker", None
        if hidden["is_program"]:
            status, detail = judge_program(ended, seconds)
            text = printed.decode("utf-8", "replace") if size <= SCORE_BYTES else ""
            if status == "passed" and size > SCORE_BYTES:
                status, detail = "failed", f"it printed {size} bytes instead of a score"
        else:
            status, detail, text = said_by_function(ended, seconds)
        if status != "passed":
            last = complained.decode("utf-8", "replace").rstrip().rpartition("\n")[2]
            is_known = not last or last[:40] in detail or not hidden["is_program"]
            return CHECKER_FAILED, f"the problem's checker failed: {detail}" + ("" if is_known else f": {last}"), None
        score = score_in(text)
        if score is None:
            what = "printed" if hidden["is_program"] else "returned"
            return (
                CHECKER_FAILED,
                f"the problem's checker {what} {text.strip()[:100]!r}, which is not a score from 0 to 1",
                None,
            )
        return "", "", score


def score_in(text: str) -> float | None:
    try:
        score = float(text)
    except ValueError:
        return None
    return score if 0 <= score <= 1 else None


def said_by_function(ended: ChildExit, seconds: float) -> tuple[str, str, str]:
    """Status, detail and score of a checker that is a function, from what it said and how it ended."""
    last = ended.words[-2].split(b" ") if len(ended.words) > 1 else []
    if ended.wait_status == 0 and len(last) == 3 and last[1] in (b"score", b"failed", b"resource_limit"):
        try:
            word = from_hex(last[2])
        except ValueError:
            return "failed", "its report cannot be read", ""
        return ("passed", "", word) if last[1] == b"score" else ("failed", word, "")
    status, detail = judge_child(ended, seconds)
    return "failed" if status == "passed" else status, detail, ""


def run_checker(request: Request, say: Say) -> object:
    hidden, folder = request["hidden"], request["checker_folder"]
    try:
        posix.mkdir(folder, 0o700)
        posix.chdir(folder)
        paths = [
            write_text(f"{folder}/{name}", text) for name, text in zip((INPUT, EXPECTED, ANSWER), request["texts"])
        ]
    except OSError as error:
        finish(say, NO_ROOM.decode(), describe(error))
    environment: Any = __import__("os").environ
    environment.update(HOME=folder, TMPDIR=folder, PYTHONNOUSERSITE="1", PYTHONDONTWRITEBYTECODE="1")
    path = f"{folder}/{CHECKER}"
    completion_files.add(path)
    if hidden["is_program"]:
        # A name that is imported here would hide that the checker does not import it.
        begin = f"__import__('sys').argv[:] = {[path, *paths]!r}\n__file__ = {path!r}"
        return run_script({"setup": begin, "code": hidden["checker"]}, say)
    return call_checker(hidden["checker"], path, request["texts"], say)


def call_checker(code: str, path: str, texts: list[str], say: Say) -> NoReturn:
    namespace = fresh_module("checker")
    namespace["__file__"], sys.argv[:] = path, [path]
    try:
        run_code(code, namespace)
        returned = namespace["check"](*texts)
        if isinstance(returned, (str, bytes)) or not hasattr(type(returned), "__float__"):
            finish(say, "score", f"a value of the type {type(returned).__name__}")
        score = repr(float(returned))
    except SystemExit:
        finish(say, "failed", "it exited")
    except BaseException as error:
        lines = completion_lines(error)
        finish(say, "failed", describe(error, lines[-1] if lines else getattr(error, "lineno", None)))
    finish(say, "score", score)


def write_text(path: str, text: str) -> str:
    descriptor = posix.open(path, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL, 0o644)
    try:
        write_all(descriptor, text.encode("utf-8", "surrogatepass"))
    finally:
        posix.close(descriptor)
    return path


def find_all_processes(call: Libc | None) -> None:
    """Makes sure that this process finds all processes that a completion leaves; raises OSError if it cannot."""
    if not become_reaper(call):
        raise OSError("a checker needs an interpreter with ctypes, and a kernel with child subreapers")


def judge_checked(request: Request, call: Libc | None) -> Judgment:
    find_all_processes(call)
    return judge_cases(request, call, compared=lambda request: CheckedComparison(request, call))


def judge_checked_programs(request: Request, call: Libc | None) -> Judgment:
    find_all_processes(call)
    return judge_programs(request, call, lambda request: CheckedComparison(request, call))
