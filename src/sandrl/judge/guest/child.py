"""The child process: how it is cut off from its supervisor, and what it reports when it ends."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import posix
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from sandrl.judge.guest.declarations import Libc, Request, Say
from sandrl.judge.guest.descriptors import close_others, write_all

DETAIL_LIMIT_CHARACTERS = 600
# Of what is said about single checks; a problem may have a thousand.
CHECK_DETAIL_CHARACTERS, ALL_CHECK_DETAILS_CHARACTERS = 200, 20_000
SPEECHLESS = 71  # exit status of a child that could not report, or have its files, because it filled the disk
EFBIG, ENOSPC, EAGAIN, ENOMEM = 27, 28, 11, 12
PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, RLIMIT_CORE, RLIMIT_FSIZE, RLIMIT_DATA = 4, 38, 4, 1, 2
RLIMIT_MSGQUEUE = 12
# Beside a limit of memory: stacks of threads count as data, and programs that recurse deeply touch little of theirs.
ROOM_FOR_STACKS_BYTES = 1 << 30
# Whose processes those of completions become, where they would be root's.
NOBODY = 65534
# The module of a completion that is no program; graders that import or execute a solution do not call it `__main__`.
MODULE_NAME = "solution"
FILE_NAME = "solution.py"
UNNAMED_FILE = "<string>"
# Names that code objects of a completion can have for their file.
completion_files = {UNNAMED_FILE}


def completion_lines(error: BaseException) -> list[int]:
    """Line numbers of the completion's frames that an exception passed through, outermost first."""
    lines = []
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename in completion_files:
            lines.append(traceback.tb_lineno)
        traceback = traceback.tb_next
    return lines


def describe(error: BaseException, line: int | None = None) -> str:
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
    def __init__(self) -> None:
        self.left = ALL_CHECK_DETAILS_CHARACTERS

    def take(self, detail: str) -> str:
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


def judge_top_level(error: BaseException) -> tuple[str, str]:
    lines = completion_lines(error)
    if lines:
        return blame(error), describe(error, lines[-1])
    # No frame of the completion: it never started, the compiler refused it.
    if isinstance(error, MemoryError):
        return "resource_limit", describe(error)
    return "syntax_error", describe(error, getattr(error, "lineno", None))


def leave(code: object = None) -> NoReturn:
    raise SystemExit(code)


def show_help(*topics: object) -> None:
    __import__("pydoc").help(*topics)


# `site`, which provides these, is not imported: it is a third of the interpreter's start.
OF_SITE = {"exit": leave, "quit": leave, "help": show_help}


def fresh_module(name: str = MODULE_NAME, file_name: str = FILE_NAME) -> dict[str, Any]:
    """Makes the module that the completion's code runs in, and returns its namespace.

    `sys.modules["__main__"]` is this module whatever its name: code that imports `__main__` finds its own names. It is
    `__main__` for a program. Otherwise the code under `if __name__ == "__main__":` must not run: graders that call
    functions import or execute a solution under another name.
    """
    import builtins

    for word, provided in OF_SITE.items():
        builtins.__dict__.setdefault(word, provided)
    module = type(sys)(name)
    try:
        folder = posix.getcwd()
    except OSError:
        folder = "/"  # it has been removed
    path = folder.rstrip("/") + "/" + file_name
    completion_files.add(path)
    module.__dict__.update({"__builtins__": builtins, "__file__": path})
    sys.modules[name] = sys.modules["__main__"] = module
    sys.argv = [file_name]
    sys.path.insert(0, folder)
    return module.__dict__


def run_code(code: str, namespace: dict[str, Any]) -> None:
    """Runs the completion's code, whose frames have the file `namespace["__file__"]`, which holds the code.

    `compile` would give the code this name, but its first call takes as long as a small completion (see
    `descriptors.py`). So a trace function gives the code its name when its first frame starts.
    """
    path = namespace["__file__"]
    write_file(path, code)

    def give_name(frame: Any, event: str, argument: object) -> None:
        if frame.f_globals is namespace and frame.f_code.co_filename == UNNAMED_FILE:
            sys.settrace(None)
            rename(frame.f_code, path)

    try:
        rename = __import__("_imp")._fix_co_filename
    except (ImportError, AttributeError):
        pass  # not CPython
    else:
        sys.settrace(give_name)
    try:
        # A byte order mark may begin a file, but no text.
        exec(code[1:] if code[:1] == "\ufeff" else code, namespace)
    finally:
        # Still set if the code is not valid; a trace function of the completion's own stays.
        if sys.gettrace() is give_name:
            sys.settrace(None)


def write_file(path: str, code: str) -> None:
    """Writes the completion's code where tracebacks, `inspect` and new interpreters look for it, if possible."""
    flags = posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_NOFOLLOW | posix.O_NONBLOCK
    try:
        descriptor = posix.open(path, flags, 0o644)
        try:
            posix.write(descriptor, code.encode("utf-8", "surrogatepass"))
        finally:
            posix.close(descriptor)
    except OSError:
        pass  # the disk is full, or the directory cannot be written to


def run_top_level(request: Request, say: Say, namespace: dict[str, Any]) -> None:
    """Runs the completion's code; one that does not get to its end has no checks to run."""
    try:
        run_code(request["code"], namespace)
    except SystemExit:
        finish(say, "failed", "it exited before its checks ran")
    except BaseException as error:
        finish(say, *judge_top_level(error))


def finish(say: Say, status: str, detail: str) -> NoReturn:
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
    try:
        for descriptor in range(3):
            # A program may open its standard streams by their names.
            if posix.fstat(descriptor).st_mode & 0o170000 == 0o100000:
                posix.fchmod(descriptor, 0o666)
    except OSError:
        pass  # on a file system without modes
    try:
        posix.setgroups([])
        posix.setresgid(NOBODY, NOBODY, NOBODY)
        posix.setresuid(NOBODY, NOBODY, 0)
        can_run = any(posix.access(path + "/os.py", posix.R_OK) for path in sys.path)
        posix.setresuid(*((NOBODY,) * 3 if can_run else (0,) * 3))
        if not posix.access(".", posix.W_OK):
            posix.chdir("/tmp")
    except OSError:
        pass  # a user namespace without nobody in it


def renew_stdin() -> None:
    """Opens standard input anew where it is a file: the interpreter's own was made of a pipe, and cannot seek."""
    known: Any = sys.stdin
    if posix.fstat(0).st_mode & 0o170000 != 0o100000 or known is None:
        return
    import _io

    buffer: Any = _io.open(0, "rb", closefd=False)
    buffer.raw.name = "<stdin>"
    renewed: Any = _io.TextIOWrapper(buffer, known.encoding, known.errors, "\n")
    renewed.mode = "r"
    sys.stdin = sys.__stdin__ = renewed  # type: ignore[misc]


def lay_out(request: Request) -> None:
    """Makes the directory that the child is to run in, if it is to have one of its own, and the problem's files."""
    folder = request.get("folder")
    if folder:
        posix.mkdir(folder, 0o755)
        posix.chdir(folder)
    for path, content in request.get("files", ()):
        parts = path.split("/")
        for position in range(1, len(parts)):
            try:
                posix.mkdir("/".join(parts[:position]), 0o755)
            except FileExistsError:
                pass
        flags = posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_NOFOLLOW
        descriptor = posix.open(path, flags, 0o644)
        write_all(descriptor, content)
        posix.close(descriptor)


def speaker(descriptor: int) -> Say:
    """What this process, and none that it forks, reports with to a file."""
    own_id = posix.getpid()

    def say(message: bytes, write: Any = posix.write, getpid: Any = posix.getpid) -> None:
        # A completion that forks returns here twice; only the process that was judged may speak.
        if getpid() != own_id:
            posix._exit(0)
        try:
            write(descriptor, message)
        except OSError:
            posix._exit(SPEECHLESS)

    return say


def become_child(
    body: Callable[[Request, Say], object],
    request: Request,
    descriptors: tuple[int, int, int],
    kept: tuple[int, ...],
    call: Libc | None,
) -> object:
    """Turns the forked process into one that can reach nothing of the supervisor; returns what `body` does."""
    say = speaker(kept[0])
    _signal.signal(_signal.SIGALRM, _signal.SIG_DFL)
    posix.setsid()
    for target, source in enumerate(descriptors):
        posix.dup2(source, target)
    close_others(kept)
    return be_child(body, request, say, call)


def be_child(body: Callable[[Request, Say], object], request: Request, say: Say, call: Libc | None) -> object:
    if posix.getuid() == 0:
        drop_privileges()
    renew_stdin()
    if request.get("folder") or request.get("files"):
        try:
            lay_out(request)
        except OSError:
            posix._exit(SPEECHLESS)
    if call is not None:
        call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        call("prctl", PR_SET_DUMPABLE, 1, 0, 0, 0)
        call("setrlimit", RLIMIT_CORE, bytes(16))
        # POSIX message queues outlive their processes, and cannot be listed.
        call("setrlimit", RLIMIT_MSGQUEUE, bytes(16))
        call("setrlimit", RLIMIT_FSIZE, request["max_file_bytes"].to_bytes(8, "little") * 2)
        if request.get("memory_bytes"):
            # What it really takes is known at its end; this stops one that asks for far more.
            most = request["memory_bytes"] + ROOM_FOR_STACKS_BYTES
            call("setrlimit", RLIMIT_DATA, most.to_bytes(8, "little") * 2)
    return body(request, say)
