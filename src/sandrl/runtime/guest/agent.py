"""Process 1 of a sandbox: starts programs when the daemon asks, reports how they end, enforces shared limits.

It has already given up everything a sandboxed program must not have, and starts programs as its own children, so
that they inherit every restriction: nothing is ever brought into a sandbox from outside. It moves no data: the
daemon gets the far ends of each program's pipes and reads them itself, which is where backpressure comes from.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal
import socket
import stat
import struct
import termios
import time
from collections.abc import Sequence
from typing import NoReturn

from sandrl.runtime.guest import accounts, files, processes, storage, watchdog, wire
from sandrl.runtime.guest import syscalls as sc
from sandrl.runtime.guest.wire import Message

_WATCH_SECONDS = 0.05
_WATCH_CELLS_SECONDS = 0.5
"""Each cell is watched from within its worker, and what the agent's own watch costs must not grow with their number."""
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
_TIOCSPTLCK, _TIOCGPTN = 0x40045431, 0x80045430  # the module `termios` does not have them everywhere
_REAPED_AT_ONCE = 64
_MESSAGE_CHARACTERS = 1000


class Agent:
    """Serves one sandbox over one socket until that socket closes; `account` is None if programs run as the agent.

    `upper` is the directory with what is changed in its image; -1 if it has none. `stored` measures its files on disk.
    The daemon gets the `sockets`.
    """

    def __init__(
        self,
        control: socket.socket,
        limits: processes.ProcessLimits,
        account: accounts.Account | None,
        upper: int,
        sockets: list[int],
        stored: storage.Storage | None,
    ) -> None:
        self._control = control
        self._sockets = sockets
        self._stored = stored
        self._account = account
        self._upper = upper
        # It came over a socket or from the launcher, inheritable: a program that has it speaks for the agent.
        control.set_inheritable(False)
        disk = -1 if stored else os.open("/tmp", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._watchdog = watchdog.Watchdog(limits, disk)
        self._watch_seconds = _WATCH_CELLS_SECONDS if limits.cells else _WATCH_SECONDS
        self._cells, self._open_files = limits.cells, limits.open_files
        self._quotas = watchdog.Quotas()
        self._frames = wire.FrameReader(control)
        self._exec_of_pid: dict[int, int] = {}
        self._deprived: dict[int, str] = {}
        self._watching = False

    def serve(self) -> NoReturn:
        wakeup_read, wakeup_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        # The kernel keeps from process 1 what has no handler; an interpreter that was executed has one for this.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(wakeup_read, select.POLLIN)
        self._tell("ready", self._sockets)
        for descriptor in self._sockets:
            os.close(descriptor)
        next_watch = 0.0
        while True:
            # By the clock, not when nothing else happens: programs can make something happen all the time.
            wait = max(next_watch - time.monotonic(), 0.0) * 1000 if self._watching else None
            for descriptor, _ in poll.poll(wait):
                if descriptor == wakeup_read:
                    os.read(wakeup_read, 512)
                    self._reap()
                else:
                    self._serve_requests()
            if self._watching and time.monotonic() >= next_watch:
                self._watch()
                next_watch = time.monotonic() + self._watch_seconds

    def _tell(self, event: str, descriptors: Sequence[int] = (), **facts: object) -> None:
        wire.send(self._control, {"event": event, **facts}, descriptors)

    def _serve_requests(self) -> None:
        for message, descriptors in self._frames.receive():
            for descriptor in descriptors:
                os.close(descriptor)
            if message["op"] == "exec":
                self._start(message)
            elif message["op"] == "ping":
                self._tell("pong", id=int(message["id"]))
            elif message["op"] == "kill":
                self._kill(int(message["id"]), int(message.get("signal", signal.SIGKILL)), bool(message.get("tree")))
        if self._frames.closed:
            os._exit(0)  # the daemon is gone, and with process 1 goes the whole sandbox

    def _start(self, message: Message) -> None:
        exec_id = int(message["id"])
        exhausted = self._quotas.exhausted()
        if exhausted is not None:
            self._tell("deprived", id=exec_id, quota=exhausted)
            return
        opened: list[int] = []
        try:
            pid, handed_over = self._spawn(message, opened)
        except (OSError, ValueError) as error:  # ValueError: a NUL in an argument
            code = _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
            why = getattr(error, "strerror", None) or str(error)
            self._tell("failed", id=exec_id, code=code, message=why[:_MESSAGE_CHARACTERS])
        else:
            self._watching = True
            self._hand_over(exec_id, pid, handed_over)
        finally:
            for descriptor in opened:
                os.close(descriptor)

    def _hand_over(self, exec_id: int, pid: int, descriptors: list[int]) -> None:
        try:
            self._tell("started", descriptors, id=exec_id)
        except OSError as error:
            if isinstance(error, ConnectionError):
                raise
            # Too many descriptors are in flight on this machine: this program cannot be talked to.
            processes.send_signal(pid, signal.SIGKILL)
            why = f"its pipes cannot be handed over: {error.strerror}"
            self._tell("failed", id=exec_id, code=_NOT_EXECUTABLE, message=why)
        else:
            self._exec_of_pid[pid] = exec_id

    def _spawn(self, message: Message, opened: list[int]) -> tuple[int, list[int]]:
        if message.get("tty"):
            master, terminal = _open_terminal(message["tty"], opened)
            handed_over, streams = [master], (terminal, terminal, terminal)
        else:
            stdin_read, stdin_write = _pipe(opened)
            stdout_read, stdout_write = _pipe(opened)
            handed_over = [stdin_write, stdout_read]
            stderr_write = stdout_write
            if not message.get("merge"):
                stderr_read, stderr_write = _pipe(opened)
                handed_over.append(stderr_read)
            streams = stdin_read, stdout_write, stderr_write
        if "file" in message:
            streams = stdin_read, stdout_write, stderr_write
            kept = opened if self._stored is None else [*opened, self._stored.space]
            return files.start(message, streams, keep_open=kept, account=self._account, upper=self._upper), handed_over
        argv, environment = message["argv"], message["env"]
        if self._account is not None:
            environment.setdefault("HOME", self._account.home)
        if message.get("cwd"):
            # A link of an image must not lead to the directories that the agent keeps.
            (os.chdir if self._upper < 0 else sc.change_directory)(message["cwd"])
        program = processes.find_program(argv[0], environment.get("PATH", os.defpath))
        pid = start_program(program, argv, environment, streams, self._cells, self._account, self._open_files)
        return pid, handed_over

    def _reap(self) -> None:
        for _ in range(_REAPED_AT_ONCE):
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            exec_id = self._exec_of_pid.pop(pid, None)
            if exec_id is not None:
                code = os.waitstatus_to_exitcode(status)
                quota = self._deprived.pop(exec_id, None) or (self._quotas.exhausted() if code else None)
                cpu_seconds = usage.ru_utime + usage.ru_stime
                code = code if code >= 0 else 128 - code
                self._tell("exit", id=exec_id, code=code, cpu_seconds=cpu_seconds, quota=quota)
        os.kill(os.getpid(), signal.SIGCHLD)  # there may be more; other things have their turn first

    def _kill(self, exec_id: int, number: int, tree: bool) -> None:
        for pid, running in list(self._exec_of_pid.items()):
            if running == exec_id:
                if tree:
                    processes.kill_tree(pid)
                else:
                    processes.send_signal(pid, number)

    def _watch(self) -> None:
        exhausted = self._quotas.exhausted()
        if exhausted is not None:
            self._deprived |= dict.fromkeys(self._exec_of_pid.values(), exhausted)
        breach = self._watchdog.breach(self._exec_of_pid)
        if breach is None and self._stored is not None and self._stored.is_exceeded(processes.pids()):
            breach = "storage"
        if breach is not None:
            if breach == "memory":
                self._watchdog.relieve_memory()
            else:
                processes.send_signal(-1, signal.SIGKILL)  # spares process 1: the sandbox survives, not what ran in it
            self._tell("limit", limit=breach)
            if self._stored is not None and self._stored.is_lost:
                os._exit(1)  # the whole sandbox: its files go with it
        self._watching = bool(processes.pids())


def run(
    control: socket.socket,
    limits: processes.ProcessLimits,
    account: accounts.Account | None = None,
    upper: int = -1,
    sockets: Sequence[int] = (),
    stored: storage.Storage | None = None,
) -> NoReturn:
    """Serve until the daemon goes away; whatever goes wrong ends the sandbox, silently."""
    try:
        Agent(control, limits, account, upper, [*sockets], stored).serve()
    except BaseException:  # noqa: BLE001 - nothing may be printed here: it would read the sandbox's files
        os._exit(1)


def start_program(
    program: str,
    argv: list[str],
    environment: dict[str, str],
    streams: tuple[int, int, int],
    cells: int = 0,
    account: accounts.Account | None = None,
    open_files: int = processes.OPEN_FILES,
) -> int:
    """Fork and execute a program in a session of its own; returns its process id.

    Not `posix_spawn`: that suspends the caller until the child has executed, and a program of the sandbox can stop a
    child before it does. For the same reason nobody waits to hear whether executing worked: where it did not, the child
    says so on its standard error and exits as a shell would.

    A terminal among the streams becomes its controlling terminal.
    """
    name, arguments = os.fsencode(program), [os.fsencode(word) for word in argv]
    variables = {os.fsencode(key): os.fsencode(value) for key, value in environment.items()}
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        for target, source in enumerate(streams):
            os.dup2(source, target)
        if os.isatty(0):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        processes.limit_open_files(cells, open_files)
        processes.lower_priority()
        if account is not None:
            account.become()
        os.execve(name, arguments, variables)
    except OSError as error:
        os.write(2, f'exec: "{argv[0]}": {error.strerror}\n'.encode("utf-8", "replace"))
        os._exit(_NOT_FOUND if error.errno == errno.ENOENT else _NOT_EXECUTABLE)
    finally:
        os._exit(_NOT_EXECUTABLE)


def _pipe(opened: list[int]) -> tuple[int, int]:
    pair = os.pipe()
    opened.extend(pair)
    return pair


def _open_terminal(size: list[int], opened: list[int]) -> tuple[int, int]:
    master = os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    opened.append(master)
    fcntl.ioctl(master, _TIOCSPTLCK, struct.pack("i", 0))
    number = struct.unpack("i", fcntl.ioctl(master, _TIOCGPTN, bytes(4)))[0]
    columns, rows = size
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    terminal = os.open(f"/dev/pts/{number}", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    opened.append(terminal)
    return master, terminal


def close_inherited(keep: set[int]) -> None:
    """Close every descriptor except `keep`; what is left open is not a socket or a file of the host."""
    highest = max(keep)
    for descriptor in range(highest + 1):
        if descriptor not in keep:
            try:
                os.close(descriptor)
            except OSError:
                continue
    os.closerange(highest + 1, 1 << 16)
    for descriptor in range(3):
        if descriptor not in keep:
            opened = os.open("/dev/null", os.O_RDWR)
            if not stat.S_ISCHR(os.fstat(opened).st_mode):
                raise OSError("/dev/null is not a device")
