"""Runs one completion with its checks inside a sandbox and reports a verdict no completion can write itself.

The design decision: two processes. The *supervisor* (this process) runs none of the completion's code; it holds the
clock, the output caps and the only descriptor that reaches the host. The *child* is forked from it, runs the code and
its checks, and can say one thing only: which checks passed. The key that marks the verdict line as genuine is read from
standard input after the fork, so the child's memory never held it.

Interpreter start dominates the cost of a judged completion, hence the unusual style: every module used here is built
into the interpreter (`posix` and `_signal` instead of `os` and `signal`), `_ctypes` alone is a tenth of `ctypes`, and
code runs through `exec(text)` because the first call of `compile` builds the types of `ast` (1 ms). The syntax is that
of Python 3.8, because the image decides which interpreter runs this.

Standard input: a `marshal`led request, what is hidden from the completion (`hidden_size` bytes of it), 32 bytes of key.
Standard output: what the completion printed (up to the cap), a line break, and the verdict line.
"""

# The style is explained above; `contextlib` is one of the imports that cost too much.
# ruff: noqa: B905, BLE001, SIM105, UP037

import _signal  # type: ignore[import-not-found]
import marshal
import posix
import sys

MYPY = False  # what type checkers take for true; `typing` itself would take 5 ms to import
if MYPY:
    from collections.abc import Callable
    from typing import Any, NoReturn

    Request = dict[str, Any]
    Libc = Callable[..., int]
    Say = Callable[[bytes], None]

REPORT_LIMIT_BYTES = 4 << 20
DETAIL_LIMIT_CHARACTERS = 600
KEY_BYTES = 32
SPEECHLESS = 71  # exit status of a child that could not report because it filled the disk
EFBIG, ENOSPC, EAGAIN, ENOMEM = 27, 28, 11, 12
PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, RLIMIT_CORE, RLIMIT_FSIZE = 4, 38, 4, 1
NOBODY = 65534


class DeadlineReached(BaseException):
    """The wall clock of the completion ran out."""


def read_exactly(size: int, descriptor: int = 0) -> bytes:
    """Reads `size` bytes from standard input or another pipe, leaving the rest in it."""
    blocks = []
    while size:
        block = posix.read(descriptor, min(size, 1 << 20))
        if not block:
            raise EOFError("the other side ended early")
        blocks.append(block)
        size -= len(block)
    return b"".join(blocks)


def load_libc() -> "Libc | None":
    """Returns a function that calls libc, or None where the interpreter has no `_ctypes`."""
    try:
        import _ctypes

        libc = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]
    except (ImportError, OSError):
        return None

    def call(name: str, *arguments: "int | bytes") -> int:
        return int(_ctypes.call_function(_ctypes.dlsym(libc, name), arguments))

    return call


def scratch_file() -> int:
    """Opens a nameless file; a file, not a pipe, so that a flood blocks nobody and needs no pump."""
    try:
        return posix.open("/tmp", posix.O_RDWR | posix.O_TMPFILE | posix.O_APPEND, 0o600)
    except OSError:
        path = f"/tmp/.sandrl-{posix.getpid()}-{posix.times()[4]}"
        descriptor = posix.open(path, posix.O_RDWR | posix.O_CREAT | posix.O_EXCL | posix.O_APPEND, 0o600)
        posix.unlink(path)
        return descriptor


def head(descriptor: int, limit: int) -> "tuple[bytes, int]":
    """Returns the first `limit` bytes of a scratch file and its whole size."""
    size = posix.fstat(descriptor).st_size
    blocks = []
    offset = 0
    while offset < min(size, limit):
        block = posix.pread(descriptor, min(limit - offset, 1 << 20), offset)
        if not block:
            break
        blocks.append(block)
        offset += len(block)
    return b"".join(blocks), size


def write_all(descriptor: int, data: bytes) -> None:
    """Writes everything, however small the pipe."""
    view = memoryview(data)
    while view:
        view = view[posix.write(descriptor, view) :]


def same_lines(actual: str, expected: str) -> bool:
    """Compares by lines; blanks at the end of a line and empty lines at the end of the text do not count."""
    return [line.rstrip() for line in actual.rstrip().split("\n")] == [
        line.rstrip() for line in expected.rstrip().split("\n")
    ]


# ---- in the child ----------------------------------------------------------------------------------------------------


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


def finish(say: "Say", status: str, detail: str) -> "NoReturn":
    """Flushes what the completion printed, reports, and ends the child without running its exit hooks."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()  # type: ignore[union-attr]
        except BaseException as error:
            if status == "passed" and blame(error) == "resource_limit":
                status, detail = "resource_limit", describe(error)
    say(b"end %s %s\n" % (status.encode(), detail.encode("utf-8", "backslashreplace").hex().encode()))
    posix._exit(0)


def run_tests(request: "Request", say: "Say", execute: "Callable[..., None]" = exec) -> None:
    """Runs setup, code and each check in one namespace; says `p` or `f` for every check.

    Args:
        request: What to run.
        say: Tells the supervisor.
        execute: `exec`, as it was before any completion could put something else in its place.
    """
    namespace = fresh_main()
    try:
        exec(request["setup"], namespace)
    except BaseException as error:
        finish(say, "invalid_problem", "the problem's setup fails: " + describe(error))
    try:
        exec(request["code"], namespace)
    except SystemExit:
        finish(say, "failed", "it exited before its checks ran")
    except BaseException as error:
        finish(say, *judge_top_level(error))
    status, detail = "passed", ""
    checks = request["tests"]
    for number, check in enumerate(checks, 1):
        try:
            execute(check, namespace)
        except BaseException as error:
            say(b"f\n")
            if status == "passed":
                # The outermost frame is the check; what is left are the completion's own.
                inside = completion_lines(error)[1:]
                status = blame(error)
                where = inside[-1] if inside else None
                detail = f"check {number} of {len(checks)}: {describe(error, where)}"
        else:
            say(b"p\n")
    finish(say, status, detail)


def run_script(request: "Request", say: "Say") -> None:
    """Runs setup and code as a script, to the end that the interpreter would give it."""
    namespace = fresh_main()
    exit_code, status, detail = 0, "passed", ""
    try:
        exec(request["setup"], namespace)
        exec(request["code"], namespace)
    except SystemExit as error:
        if isinstance(error.code, int):
            exit_code = error.code
        elif error.code is not None:
            sys.stderr.write(f"{error.code}\n")
            exit_code = 1
    except BaseException as error:
        exit_code = 1
        status, detail = judge_top_level(error)
        sys.__excepthook__(type(error), error, error.__traceback__)
    try:
        if "threading" in sys.modules:
            sys.modules["threading"]._shutdown()
        if "atexit" in sys.modules:
            sys.modules["atexit"]._run_exitfuncs()
    except BaseException as error:
        exit_code, status, detail = 1, blame(error), describe(error)
    if exit_code & 0xFF and status == "passed":
        status, detail = "failed", f"it exited with status {exit_code & 0xFF}"
    finish(say, status, detail)


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


# ---- in the supervisor -----------------------------------------------------------------------------------------------


class Times:
    """Seconds of one or several children: by the clock, on a processor, and waiting for a processor."""

    def __init__(self, wall: float, cpu: float, starved: float) -> None:
        self.wall = wall
        self.cpu = cpu
        self.starved = starved

    def plus(self, other: "Times") -> "Times":
        """The sum of both."""
        return Times(self.wall + other.wall, self.cpu + other.cpu, self.starved + other.starved)


class Ended:
    """How one child ended: what it said, its exit status (None: killed by the clock), its times, what it printed."""

    def __init__(self, words: "list[bytes]", wait_status: "int | None", times: Times, stdout: int, stderr: int) -> None:
        self.words = words
        self.wait_status = wait_status
        self.times = times
        self.stdout = stdout
        self.stderr = stderr


class Judged:
    """The verdict on a completion, and the output that goes with it."""

    def __init__(
        self, status: str, detail: str, passed: int, total: int, times: Times, stdout: int, stderr: int
    ) -> None:
        self.status = status
        self.detail = detail
        self.passed = passed
        self.total = total
        self.times = times
        self.stdout = stdout
        self.stderr = stderr


def starvation(pid: int) -> float:
    """Seconds a process was ready to run but got no processor, or -1 where the kernel does not tell."""
    try:
        descriptor = posix.open(f"/proc/{pid}/schedstat", posix.O_RDONLY)
        try:
            return int(posix.read(descriptor, 200).split()[1]) / 1e9
        finally:
            posix.close(descriptor)
    except (OSError, IndexError, ValueError):
        return -1.0


def kill_quietly(target: int) -> None:
    """Kills a process or a group that may be gone already."""
    try:
        posix.kill(target, _signal.SIGKILL)
    except OSError:
        pass


class Child:
    """A running child: its process id, and the files it prints and reports to."""

    def __init__(self, pid: int, stdout: int, stderr: int, report: int) -> None:
        self.pid = pid
        self.stdout = stdout
        self.stderr = stderr
        self.report = report


def start_child(
    body: "Callable[[Request, Say], None]",
    request: "Request",
    stdin: int,
    call: "Libc | None",
    channel: "tuple[int, ...]" = (),
) -> Child:
    """Forks a child that runs `body`; it has three standard streams, its report, and `channel`."""
    stdout, stderr, report = scratch_file(), scratch_file(), scratch_file()
    pid = posix.fork()
    if pid == 0:
        try:
            become_child(body, request, (stdin, stdout, stderr), (report, *channel), call)
        finally:
            posix._exit(70)
    posix.close(stdin)
    return Child(pid, stdout, stderr, report)


def end_child(child: Child, seconds: float, wall: "float | None" = None) -> Ended:
    """Waits at most `seconds` for a child and kills its whole process group.

    Args:
        child: The child.
        seconds: How long it may still take.
        wall: The time to report, where waiting was not all the time it took.
    """
    wait_status, cpu, starved, left = None, 0.0, 0.0, 0.0
    try:
        _signal.setitimer(_signal.ITIMER_REAL, max(seconds, 0.001))
        _, wait_status, usage = posix.wait4(child.pid, 0)
        cpu = usage[0] + usage[1]
        left, _ = _signal.setitimer(_signal.ITIMER_REAL, 0)
    except DeadlineReached:
        starved = starvation(child.pid)
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
    times = Times(seconds - left if wall is None else wall, cpu, starved)
    return Ended(words.split(b"\n"), wait_status, times, child.stdout, child.stderr)


def run_child(
    body: "Callable[[Request, Say], None]", request: "Request", stdin: int, seconds: float, call: "Libc | None"
) -> Ended:
    """Forks a child that runs `body`, waits at most `seconds`, and kills its whole process group."""
    return end_child(start_child(body, request, stdin, call), seconds)


# What a child may say of itself; the rest is for its supervisor to find.
CHILD_STATUSES = frozenset(("passed", "failed", "syntax_error", "crashed", "resource_limit", "invalid_problem"))


def judge_child(ended: Ended, seconds: float) -> "tuple[str, str]":
    """Returns (status, detail) of one child from what it said and how it ended."""
    if ended.wait_status is None:
        return "timeout", f"it ran longer than {seconds:g} s"
    last = ended.words[-2].split(b" ") if len(ended.words) > 1 else []
    if len(last) == 3 and last[0] == b"end" and ended.wait_status == 0:
        try:
            status, detail = last[1].decode("ascii"), bytes.fromhex(last[2].decode("ascii")).decode("utf-8", "replace")
        except ValueError:
            return "crashed", "its report cannot be read"
        return (status, detail) if status in CHILD_STATUSES else ("crashed", "its report is not true")
    if ended.wait_status >> 8 == SPEECHLESS:
        return "resource_limit", "its report could not be written, most likely for a full disk"
    if ended.wait_status & 0x7F:
        number = ended.wait_status & 0x7F
        if number == _signal.SIGKILL:
            return "resource_limit", "it was killed (signal 9), most likely for using too much memory"
        return "crashed", f"it was killed by signal {number}"
    return "crashed", f"it ended with exit status {ended.wait_status >> 8} before its checks were done"


def setup_fails(request: "Request", call: "Libc | None") -> bool:
    """Whether the problem's own code fails where no completion is."""
    alone = dict(request, code="", tests=[])
    ended = run_child(run_tests, alone, posix.open("/dev/null", posix.O_RDONLY), request["timeout_seconds"], call)
    return judge_child(ended, request["timeout_seconds"])[0] == "invalid_problem"


def judge_once(request: "Request", call: "Libc | None") -> Judged:
    """Judges a completion whose checks run in its own process, or that is a check itself (it exits with 0)."""
    script = request["mode"] == "exit_status"
    stdin = posix.open("/dev/null", posix.O_RDONLY)
    ended = run_child(run_script if script else run_tests, request, stdin, request["timeout_seconds"], call)
    status, detail = judge_child(ended, request["timeout_seconds"])
    total = 1 if script else len(request["tests"])
    passed = int(status == "passed") if script else ended.words.count(b"p")
    if status == "passed" and passed != total:
        status, detail = "crashed", "its report does not add up"
    if status == "invalid_problem" and not setup_fails(request, call):
        # No completion may excuse itself by blaming its problem.
        status, detail = "crashed", "its report is not true"
    return Judged(status, detail, passed, total, ended.times, ended.stdout, ended.stderr)


def read_hidden(request: "Request") -> "Request":
    """Reads the part of the request that no completion may ever have in its memory: call it after the last fork."""
    hidden: "Request" = marshal.loads(read_exactly(request["hidden_size"]))
    return hidden


def run_case(request: "Request", given: bytes, seconds: float, call: "Libc | None") -> Ended:
    """Runs the completion as a script with `given` on standard input."""
    stdin = scratch_file()
    write_all(stdin, given)
    posix.lseek(stdin, 0, 0)
    return run_child(run_script, request, stdin, seconds, call)


def judge_cases(request: "Request", call: "Libc | None") -> Judged:
    """Judges a completion that reads standard input and prints: a fresh process per case, one clock for all.

    What each case should print is read only when the last of them has run.
    """
    seconds = request["timeout_seconds"]
    total = len(request["inputs"])
    times = Times(0.0, 0.0, 0.0)
    ran: "list[tuple[Ended, str, str]]" = []
    for given in request["inputs"]:
        try:
            ended = run_case(request, given, seconds - times.wall, call)
        except OSError as error:
            if not ran:
                raise  # not the completion's doing: it has not run yet
            ran.append((ran[-1][0], "resource_limit", f"it left no room to run in ({error})"))
            break
        times = times.plus(ended.times)
        ran.append((ended, *judge_child(ended, seconds)))
        if ran[-1][1] in ("timeout", "syntax_error"):
            break
    passed, verdict, shown = 0, ("passed", ""), ran[-1][0]
    for number, ((ended, status, detail), expected) in enumerate(zip(ran, read_hidden(request)["expected"]), 1):
        if status == "passed":
            printed, _ = head(ended.stdout, request["max_file_bytes"])
            if same_lines(printed.decode("utf-8", "replace"), expected):
                passed += 1
                continue
            status, detail = "failed", "it printed something else than expected"
        if verdict[0] == "passed":
            # The output reported is that of the first case that fails.
            verdict, shown = (status, f"case {number} of {total}: {detail}"), ended
    return Judged(verdict[0], verdict[1], passed, total, times, shown.stdout, shown.stderr)


def report(request: "Request", judged: Judged) -> int:
    """Writes output and verdict to the host; returns the exit status: 0 on a pass, else 1."""
    _signal.signal(_signal.SIGALRM, _signal.SIG_IGN)  # what outlived its completion may still send it
    key = read_exactly(KEY_BYTES).decode()
    printed, stdout_size = head(judged.stdout, request["max_output_bytes"])
    complained, stderr_size = head(judged.stderr, request["max_output_bytes"])
    status, detail = judged.status, judged.detail
    if status != "passed" and max(stdout_size, stderr_size) >= request["max_file_bytes"]:
        status, detail = "resource_limit", f"it printed more than {request['max_file_bytes']} bytes"
    times = judged.times
    fields = [key, status, judged.passed, judged.total]
    fields += [f"{seconds:.6f}" for seconds in (times.wall, times.cpu, times.starved)]
    fields += [stdout_size, stderr_size, detail.encode("utf-8", "backslashreplace").hex() or "-"]
    verdict = " ".join(map(str, fields)) + "\n"
    write_all(2, complained)
    write_all(1, printed + b"\n" + verdict.encode())
    return 0 if status == "passed" and judged.passed == judged.total > 0 else 1


def main(request_size: int) -> "NoReturn":
    """Reads the request, judges, reports, and leaves without the interpreter's own (slow) shutdown."""

    def on_alarm(number: int, frame: object) -> "NoReturn":
        raise DeadlineReached

    request = marshal.loads(read_exactly(request_size))
    call = load_libc()
    if call is not None:
        # Same user, same sandbox: without this the child could open the supervisor's descriptors through /proc.
        call("prctl", PR_SET_DUMPABLE, 0, 0, 0, 0)
    _signal.signal(_signal.SIGALRM, on_alarm)
    posix._exit(report(request, JUDGES[request["mode"]](request, call)))


JUDGES = {"tests": judge_once, "exit_status": judge_once, "cases": judge_cases}
