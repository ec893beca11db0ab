"""Judges a completion that is a program: it runs to its end, and its exit status decides.

Only the exit status of the process counts. The expected output is not in the process, so a program gains nothing by
ending early, and its report only explains an exit status other than 0. So a program may replace its process
(`os.execv`), end it at once (`os._exit(0)`), or fork. Its interpreter ends as any Python interpreter does: threads are
joined, exit hooks and finalizers run, buffers are written. If nothing of that kind is left, the process ends at once,
which takes a quarter of a millisecond instead of three.
"""

from __future__ import annotations

import posix
import sys
from typing import Any

from sandrl.judge.guest.child import FILE_NAME, SPEECHLESS, describe, fresh_module, judge_top_level, run_code, to_hex
from sandrl.judge.guest.declarations import JudgeExit, Libc, Request, Say
from sandrl.judge.guest.supervisor import UNWRITTEN, ChildExit, Judgment, from_hex, judge_child, letter_of, run_child

# What a program may say of itself, none of which is worth more than another.
EXPLANATIONS = frozenset(("failed", "syntax_error", "resource_limit", "invalid_problem"))
FLUSH_FAILED = 120  # exit status of an interpreter that could not write its buffered output


def run_script(request: Request, say: Say) -> object:
    """Runs setup and code as a script, and ends the process if nothing is left for the interpreter to do.

    Returns the argument of the `SystemExit` that ends the interpreter.
    """
    gc = __import__("gc")
    own_id, streams = posix.getpid(), (sys.stdout, sys.stderr)
    # What is frozen is not the program's. Its module must not be: the interpreter would not run its finalizers.
    gc.freeze()
    namespace = fresh_module("__main__", request.get("file_name", FILE_NAME))
    # Counted after what the new module replaced. The count tells whether the program calls these functions, too.
    frozen = gc.get_freeze_count()
    code = run_to_end(request, say, namespace, own_id)
    try:
        is_known = gc.get_freeze_count() == frozen and streams == (sys.stdout, sys.stderr)
        if is_known and not is_anything_left(gc.get_objects(), namespace):
            leave_at_once(code)
    except BaseException:
        pass  # the interpreter meets it again
    return code


def run_to_end(request: Request, say: Say, namespace: dict[str, Any], own_id: int) -> object:
    def explain(status: str, detail: str) -> None:
        if posix.getpid() == own_id:
            say(b"end %s %s\n" % (status.encode(), to_hex(detail).encode()))

    try:
        exec(request["setup"], namespace)
    except BaseException as error:
        explain("invalid_problem", "the problem's setup fails: " + describe(error))
        return 1
    try:
        run_code(request["code"], namespace)
    except SystemExit as error:
        return error.code
    except BaseException as error:
        explain(*judge_top_level(error))
        return show(error)
    return None


def show(error: BaseException) -> object:
    """Prints an exception that ends a program, as the interpreter does; returns the argument of its `SystemExit`."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code.co_filename == "<judge>":
        traceback = traceback.tb_next
    try:
        sys.excepthook(type(error), error.with_traceback(traceback), traceback)
    except SystemExit as leaving:
        return leaving.code
    except BaseException:
        sys.__excepthook__(type(error), error, traceback)
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def is_anything_left(objects: list[Any], namespace: dict[str, Any]) -> bool:
    """Whether the end of the interpreter would run code or write output: exit hooks, threads, finalizers, buffers."""
    # `ctypes` may have printed into a buffer of the C library.
    if "threading" in sys.modules or "ctypes" in sys.modules or __import__("atexit")._ncallbacks():
        return True
    kinds = set(map(type, objects))
    # Instances without a `__dict__` may be unknown to the garbage collector, but not their classes.
    kinds.update([each for each in objects if issubclass(type(each), type)])
    if any(hasattr(kind, "__del__") for kind in kinds):
        return True
    # Suspended ones run their `finally` clauses.
    if any(kind.__name__ in ("generator", "coroutine", "async_generator") for kind in kinds):
        return True
    reference = type(__import__("_weakref").ref(set))
    return any(type(each) is reference and is_own(each.__callback__, namespace) for each in objects)


def is_own(callback: object, namespace: dict[str, Any]) -> bool:
    """Whether a weak reference's callback is not a function of the standard library."""
    if callback is None or type(callback).__name__ == "builtin_function_or_method":
        return False
    return getattr(callback, "__globals__", namespace) is namespace


def leave_at_once(code: object) -> None:
    """Ends the process if its output can be written and its exit status needs no explanation."""
    # Beyond these numbers the interpreter exits with 255.
    if code is None or (isinstance(code, int) and -(1 << 63) <= code < 1 << 63):
        for stream in (sys.stdout, sys.stderr):
            if not stream.closed:
                stream.flush()
        posix._exit((code or 0) & 0xFF)


def judge_script_exit(ended: ChildExit, exit_status: int, last: list[bytes]) -> tuple[str, str]:
    """Returns (status, detail) of a script that exited with another status than 0, from the words that it said last."""
    try:
        if len(last) == 3 and last[0] == b"end" and last[1].decode("ascii") in EXPLANATIONS:
            return last[1].decode("ascii"), from_hex(last[2])
    except ValueError:
        pass  # not said by us, so it explains nothing
    if exit_status == SPEECHLESS:
        return UNWRITTEN
    why = ": its output could not be written" if exit_status == FLUSH_FAILED else ""
    return "failed", f"it exited with status {exit_status}{why}"


def judge_program(ended: ChildExit, seconds: float, judge_exit: JudgeExit = judge_script_exit) -> tuple[str, str]:
    """Returns (status, detail) of one program from how it ended; `judge_exit` judges another exit status than 0."""
    if ended.wait_status == 0 and not ended.excess:
        return "passed", ""
    if ended.excess or ended.wait_status is None or ended.wait_status & 0x7F:
        return judge_child(ended, seconds)
    last = ended.words[-2].split(b" ") if len(ended.words) > 1 else []
    return judge_exit(ended, ended.wait_status >> 8, last)


def judge_script(request: Request, call: Libc | None) -> Judgment:
    stdin = posix.open("/dev/null", posix.O_RDONLY)
    ended = run_child(run_script, request, stdin, request["timeout_seconds"], call)
    status, detail = judge_program(ended, request["timeout_seconds"])
    return Judgment(status, detail, [(letter_of(status), detail)], ended.times, ended.stdout, ended.stderr)
