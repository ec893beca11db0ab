"""The child: how it becomes one that can reach nothing of its supervisor, and what it says when it ends."""

# The style is explained in `descriptors.py`.
# ruff: noqa: BLE001

import _signal  # type: ignore[import-not-found]
import posix
import sys

MYPY = False
if MYPY:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from sandrl.rewards.guest.descriptors import Libc

    Request = dict[str, Any]
    Say = Callable[[bytes], None]

DETAIL_LIMIT_CHARACTERS = 600
# Of what is said about single checks; a problem may have a thousand.
CHECK_DETAIL_CHARACTERS, ALL_CHECK_DETAILS_CHARACTERS = 200, 20_000
SPEECHLESS = 71  # exit status of a child that could not report because it filled the disk
EFBIG, ENOSPC, EAGAIN, ENOMEM = 27, 28, 11, 12
PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, RLIMIT_CORE, RLIMIT_FSIZE = 4, 38, 4, 1
NOBODY = 65534


def completion_lines(error: BaseException) -> "list[int]":
    """Line numbers of the frames an exception passed through that were compiled from text, outermost first."""
    lines = []
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == "<string>":
            lines.append(traceback.tb_lineno)
        traceback = traceback.tb_next
    return lines


def describe(error: BaseException, line: "int | None" = None) -> str:
    """One line about an exception: its type, message and the completion's line; never fails, never long."""
    try:
        message = error.msg if isinstance(error, SyntaxError) else str(error)
    except BaseException:
        message = "<unprintable>"
    name = type(error).__name__
    text = f"{name}: {message}" if message else name
    text = text[:DETAIL_LIMIT_CHARACTERS]
    return f"{text} (line {line})" if line else text


class Room:
    """What may still be said about single checks."""

    def __init__(self) -> None:
        self.left = ALL_CHECK_DETAILS_CHARACTERS

    def take(self, detail: str) -> str:
        """As much of a check's detail as there is room for."""
        detail = detail[: min(CHECK_DETAIL_CHARACTERS, self.left)]
        self.left -= len(detail)
        return detail


def to_hex(text: str) -> str:
    """A text as a word without blanks; empty for an empty one."""
    return text.encode("utf-8", "backslashreplace").hex()


def blame(error: BaseException) -> str:
    """The status that an exception of the completion's code stands for."""
    if isinstance(error, MemoryError):
        return "resource_limit"
    if isinstance(error, OSError) and error.errno in (EFBIG, ENOSPC, EAGAIN, ENOMEM):
        return "resource_limit"
    return "failed"


def judge_top_level(error: BaseException) -> "tuple[str, str]":
    """Returns (status, detail) for what ended the completion's own top-level code."""
    lines = completion_lines(error)
    if lines:
        return blame(error), describe(error, lines[-1])
    # No frame of the completion: it never started, the compiler refused it.
    if isinstance(error, MemoryError):
        return "resource_limit", describe(error)
    return "syntax_error", describe(error, getattr(error, "lineno", None))


def fresh_main() -> "dict[str, Any]":
    """Gives the completion a `__main__` of its own, as if the interpreter had started with it."""
    import builtins

    def leave(code: object = None) -> "NoReturn":
        raise SystemExit(code)

    # `site`, which provides these two, is not imported: it is a third of the interpreter's start.
    for name in ("exit", "quit"):
        if not hasattr(builtins, name):
            setattr(builtins, name, leave)
    module = type(sys)("__main__")
    module.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = module
    sys.argv = ["solution.py"]
    return module.__dict__


def run_top_level(request: "Request", say: "Say", namespace: "dict[str, Any]") -> None:
    """Runs the completion's code; one that does not get to its end has no checks to run."""
    try:
        exec(request["code"], namespace)
    except SystemExit:
        finish(say, "failed", "it exited before its checks ran")
    except BaseException as error:
        finish(say, *judge_top_level(error))


def blame_setup(say: "Say", error: BaseException) -> "NoReturn":
    """Ends a child whose problem is broken."""
    finish(say, "invalid_problem", "the problem's setup fails: " + describe(error))


def set_up(request: "Request", say: "Say") -> "dict[str, Any]":
    """Runs the problem's setup where no code of a completion has run yet; returns the namespace it left."""
    namespace = fresh_main()
    try:
        exec(request["setup"], namespace)
    except BaseException as error:
        blame_setup(say, error)
    return namespace


def finish(say: "Say", status: str, detail: str) -> "NoReturn":
    """Flushes what the completion printed, reports, and ends the child without running its exit hooks."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()  # type: ignore[union-attr]
        except BaseException as error:
            if status == "passed" and blame(error) == "resource_limit":
                status, detail = "resource_limit", describe(error)
    say(b"end %s %s\n" % (status.encode(), to_hex(detail).encode()))
    posix._exit(0)


def drop_privileges() -> None:
    """Makes a root of a sandbox nobody, where nobody can run Python.

    Root could write to the modules that its supervisor has yet to import, and to its memory.
    """
    if posix.getuid() != 0:
        return
    try:
        posix.setgroups([])
        posix.setresgid(NOBODY, NOBODY, NOBODY)
        posix.setresuid(NOBODY, NOBODY, 0)
        can_run = [path for path in sys.path if posix.access(path + "/os.py", posix.R_OK)]
        posix.setresuid(*((NOBODY,) * 3 if can_run else (0,) * 3))
        if not posix.access(".", posix.W_OK):
            posix.chdir("/tmp")
    except OSError:
        pass  # a user namespace without nobody in it


def become_child(
    body: "Callable[[Request, Say], None]",
    request: "Request",
    descriptors: "tuple[int, int, int]",
    kept: "tuple[int, ...]",
    call: "Libc | None",
) -> None:
    """Turns the forked process into one that can reach nothing of the supervisor, then runs `body`."""
    own_id = posix.getpid()

    def say(message: bytes, write: "Any" = posix.write, getpid: "Any" = posix.getpid) -> None:
        # A completion that forks returns here twice; only the process that was judged may speak.
        if getpid() != own_id:
            posix._exit(0)
        try:
            write(kept[0], message)
        except OSError:
            posix._exit(SPEECHLESS)

    _signal.signal(_signal.SIGALRM, _signal.SIG_DFL)
    posix.setsid()
    for target, source in enumerate(descriptors):
        posix.dup2(source, target)
    lowest = 3
    for descriptor in (*sorted(kept), 1 << 16):
        posix.closerange(lowest, descriptor)
        lowest = descriptor + 1
    drop_privileges()
    if call is not None:
        call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        call("prctl", PR_SET_DUMPABLE, 1, 0, 0, 0)
        call("setrlimit", RLIMIT_CORE, bytes(16))
        call("setrlimit", RLIMIT_FSIZE, request["max_file_bytes"].to_bytes(8, "little") * 2)
    body(request, say)
