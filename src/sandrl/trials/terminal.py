"""A shell at a terminal that keeps its state: directory, variables, functions and jobs.

Nothing is needed in the image but a shell. A command is a file that the shell reads, because a terminal takes short
lines only. Its end is the next prompt, which has a random mark and the exit code. So programs can use the terminal
while they run, and a command that has not ended in its time continues.
"""

from __future__ import annotations

import posixpath
import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandrl.errors import InfrastructureError, NoUserError
from sandrl.trials import guest

if TYPE_CHECKING:
    from sandrl.trials.machine import Machine

COLUMNS, ROWS = 120, 40
SCREEN_BYTES = 32 << 10
"""How much of what a terminal shows is kept between two looks at it."""

_LONGEST_MARK = 64

KEYS = {
    "enter": "\r",
    "tab": "\t",
    "escape": "\x1b",
    "backspace": "\x7f",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
}

_VARIABLES = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "HISTFILE": "/dev/null"}
_START_SECONDS, _FILE_SECONDS = 30.0, 60.0
_ANSWER_BYTES = 64 << 10
_SHARE_OF_HEAD = 4
_NO_SHELL = 126
_QUIET_SECONDS = 0.3
_MOST_MARKS = 200
_BYTES_PER_SECOND = 16 << 20
_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b\n]{0,2000}(?:\x07|\x1b\\)|[ -/]*[0-~])"
    r"|[\x00-\x07\x0b\x0c\x0e-\x1f]"
)


class StillRunningError(Exception):
    """A terminal still runs another command."""


@dataclass(frozen=True, slots=True)
class Screen:
    """What a terminal has shown since the last look at it.

    Attributes:
        output: As text, with its middle cut if it is long.
        exit_code: That of the command; None while it runs, or if none does.
        is_running: Whether a command still runs.
        has_ended: Whether the shell has ended, and the next command gets a new one.
        is_broken: Whether there was no shell to run the command, although the sandbox is well.
    """

    output: str
    exit_code: int | None
    is_running: bool
    has_ended: bool = False
    is_broken: bool = False


class Terminal:
    """A shell of one machine, used by the thread that uses the machine.

    Args:
        output_bytes: How much of what it shows is kept between two looks at it.
    """

    def __init__(
        self,
        machine: Machine,
        *,
        user: str | None,
        directory: str | None,
        variables: Mapping[str, str],
        output_bytes: int = SCREEN_BYTES,
    ) -> None:
        self._machine = machine
        self._user = user
        self._directory = directory
        self._variables = dict(variables)
        self._output_bytes = output_bytes
        self._shell: _Shell | None = None
        self._is_closed = False

    @property
    def is_running(self) -> bool:
        """Whether a command runs in its foreground."""
        return self._shell is not None and self._shell.is_running

    def run(self, command: str, timeout_seconds: float) -> Screen:
        """Runs a command of the shell; one that has not ended in this time continues.

        Raises:
            StillRunningError: If another command still runs.
            NoUserError, InfrastructureError, RuntimeLost: As `Machine.run`.
        """
        if self.is_running:
            raise StillRunningError
        if self._is_closed:
            raise InfrastructureError("the terminal was closed")

        def work() -> Screen:
            if self._shell is None or self._shell.has_ended:
                self._shell = self._started()
            self._shell.begin(self._machine, command)
            return self._shell.look(timeout_seconds)

        return self._done(work)

    def read(self, wait_seconds: float) -> Screen:
        """What it has shown since the last look, after the command has ended, or after this time.

        Raises:
            InfrastructureError, RuntimeLost: If the sandbox, or the runtime, failed.
        """
        shell = self._shell
        return Screen("", None, False) if shell is None else self._done(lambda: shell.look(wait_seconds))

    def send(self, text: str) -> None:
        """Types text as it is, where a newline is the enter key.

        Raises:
            InfrastructureError: If the sandbox failed, or no command was run before.
            RuntimeLost: If the runtime failed.
        """
        shell = self._shell
        if shell is None:
            raise InfrastructureError("no command was run at the terminal yet")
        block = text.replace("\n", "\r").encode("utf-8", "surrogateescape")
        self._done(lambda: shell.write(block))

    def press(self, *keys: str) -> None:
        """Presses keys: those of `KEYS`, `ctrl-` and a letter, or a single character.

        Raises:
            ValueError: If there is no such key.
            InfrastructureError: As `send`.
        """
        self.send("".join(map(_typed, keys)))

    def close(self) -> None:
        """Ends the command in the foreground; what the shell has left in the background continues.

        Raises:
            InfrastructureError, RuntimeLost: If the sandbox, or the runtime, failed.
        """
        self._is_closed = True
        shell = self._shell
        if shell is not None and shell.is_running:
            self._done(lambda: shell.interrupt(self._machine))

    def _done(self, work: Callable[[], Screen | None]) -> Screen:
        # What fails in a sandbox that is well is what its programs did to it: its disk is full, its shell was removed.
        try:
            with self._machine.telling_loss():
                return work() or Screen("", None, self.is_running)
        except NoUserError:
            raise
        except InfrastructureError as error:
            if self._machine.is_lost:
                raise
            return Screen(f"{error.message}\n", _NO_SHELL, is_running=False, has_ended=True, is_broken=True)

    def detach(self) -> None:
        """Lets go of the terminal, which ends the shell with all of its jobs."""
        self._is_closed = True
        if self._shell is not None:
            self._shell.cancel()

    def _started(self) -> _Shell:
        machine, mark = self._machine, secrets.token_hex(16)
        shell = machine.shell
        argv = [shell, "--noediting", "-i"] if posixpath.basename(shell) == "bash" else [shell, "-i"]
        given = _VARIABLES | self._variables
        becoming, its_own = machine.becoming(self._user)
        words = f"sandrl_mark={mark}; {guest.command(argv, its_own | given, self._directory)}"
        made = machine.ask(
            (*becoming, *machine.program(guest.TERMINAL)),
            words.encode("utf-8", "surrogateescape"),
            _FILE_SECONDS,
            _ANSWER_BYTES,
        )
        place = made.stdout.decode("utf-8", "replace")
        if made.exit_code != 0 or not place.startswith("/tmp/.terminal-"):
            reason = made.stderr.decode("utf-8", "replace").strip() or "its programs do not work"
            raise InfrastructureError(f"the sandbox has no room for a terminal: {reason[:200]}")
        started = _Shell(place, becoming, self._output_bytes)
        started.open(machine, (*becoming, *machine.program(guest.SHELL, place)), mark)
        return started


class _Shell:
    def __init__(self, place: str, becoming: list[str], output_bytes: int) -> None:
        self._place = place
        self._becoming = becoming
        self._first = output_bytes // _SHARE_OF_HEAD
        self._last = output_bytes - self._first
        self._changed = threading.Condition()
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0
        self._marks: list[str] = []
        self._code: int | None = None
        self._pid = 0
        self._seen_at = 0.0
        self._window = (time.monotonic(), 0)
        self.is_running = False
        self.has_ended = False

    def open(self, machine: Machine, argv: tuple[str, ...], mark: str) -> None:
        self._program = machine.sandbox.open_terminal(argv, columns=COLUMNS, rows=ROWS, output=self._take)
        self._program.ended.add_done_callback(lambda _: self._end())
        ready = re.compile(rb"%s (\d{1,9})\r?\n" % mark.encode())
        with self._changed:
            self._changed.wait_for(lambda: ready.search(self._said) or self.has_ended, _START_SECONDS)
            found, said = ready.search(self._said), self._said
        if found is None:
            self._raise_if_lost()
            self.cancel()
            raise InfrastructureError(f"the shell of a terminal did not start: {readable(said)[-200:].strip()}")
        self._pid = int(found[1])
        # What it shows before its first prompt is nobody's.
        self.begin(machine, ":")
        self.look(_START_SECONDS)

    def begin(self, machine: Machine, command: str) -> None:
        path = f"{self._place}/command"
        written = machine.ask(
            (*self._becoming, *machine.program('cat >"$0"', path)),
            f"{command}\n".encode("utf-8", "surrogateescape"),
            _FILE_SECONDS,
            _ANSWER_BYTES,
        )
        if written.exit_code != 0:
            reason = written.stderr.decode("utf-8", "replace").strip()
            raise InfrastructureError(f"a command cannot be handed to the terminal: {reason[:200]}")
        mark = secrets.token_hex(8)
        with self._changed:
            self._forget()
            self._marks = [*self._marks[-_MOST_MARKS:], mark]
            self._code, self.is_running = None, True
        self.write(f"PS1='{mark}$?;' PS2=; . {path}\n".encode())

    def write(self, block: bytes) -> None:
        if self.has_ended:
            self._raise_if_lost()
            return
        self._program.write(block)

    def look(self, wait_seconds: float) -> Screen:
        until = time.monotonic() + wait_seconds
        with self._changed:
            while self.is_running and not self.has_ended and (left := until - time.monotonic()) > 0:
                # An older prompt counts once nothing follows it.
                self._changed.wait(min(left, _QUIET_SECONDS))
                self._find_end(is_quiet=time.monotonic() - self._seen_at >= _QUIET_SECONDS)
            if self.has_ended:
                self.is_running = False
            shown = self._shown()
            code, self._code = (None, None) if self.is_running else (self._code, None)
            self._forget()
        if self.has_ended:
            self._raise_if_lost()
            code = self._program.finish()
        return Screen(shown, code, self.is_running, self.has_ended)

    def interrupt(self, machine: Machine) -> None:
        self.write(b"\x03")
        if self.look(1.0).is_running:
            given = guest.lines(guest.assigned(pid=self._pid))
            machine.ask(machine.program(guest.INTERRUPT), given, _FILE_SECONDS, _ANSWER_BYTES)
            self.look(1.0)

    def cancel(self) -> None:
        self._program.cancel()

    def _raise_if_lost(self) -> None:
        if self.has_ended:
            self._program.finish()

    def _end(self) -> None:
        with self._changed:
            self.has_ended = True
            self._changed.notify_all()

    @property
    def _said(self) -> bytes:
        return bytes(self._tail if len(self._tail) >= _LONGEST_MARK else self._head + self._tail)

    def _take(self, block: bytes) -> None:
        began, taken = self._window
        now = time.monotonic()
        if now - began >= 1.0:
            self._window = (now, len(block))
        else:
            self._window = (began, taken + len(block))
            if taken > _BYTES_PER_SECOND:
                time.sleep(began + 1.0 - now)  # the program waits, which nobody reads so fast
        with self._changed:
            self._total += len(block)
            room = self._first - len(self._head)
            self._head += block[: max(room, 0)]
            self._tail += block[max(room, 0) :]
            del self._tail[: -(self._last + _ANSWER_BYTES)]
            self._seen_at = now
            self._find_end(is_quiet=False)
            self._changed.notify_all()

    def _find_end(self, *, is_quiet: bool) -> None:
        if not self.is_running or not self._marks:
            return
        wanted = "|".join(self._marks) if is_quiet else self._marks[-1]
        found = re.search(rf"(?:{wanted})(\d{{1,3}});\s*\Z".encode(), self._said[-_LONGEST_MARK:])
        if found is None:
            return
        self._code, self.is_running = int(found[1]), False

    def _shown(self) -> str:
        any_mark = "|".join(self._marks) or "none"
        # Without stty in the image, the terminal shows what is typed.
        marks = re.compile(rf"PS1='(?:{any_mark})\$\?;' PS2=; \. \S+\r?\n|(?:{any_mark})(?:\d{{1,3}}|\$\?);".encode())
        tail = bytes(self._tail)
        left_out = self._total - len(self._head) - len(tail)
        if left_out or len(tail) > self._last:
            tail = tail[-self._last :]
            left_out = self._total - len(self._head) - len(tail)
            head = readable(bytes(self._head))
            return f"{head}\n[... {left_out} bytes are left out ...]\n{readable(marks.sub(b'', tail))}"
        return readable(marks.sub(b"", bytes(self._head) + tail))

    def _forget(self) -> None:
        self._head.clear()
        self._tail.clear()
        self._total = 0


def readable(output: bytes) -> str:
    """What a terminal shows, as plain text: without escape sequences, and with each line as it was written last."""
    text = _ESCAPE.sub("", output.decode("utf-8", "replace"))
    return "\n".join(map(_line, text.split("\n")))


def _line(text: str) -> str:
    shown: list[str] = []
    for part in text.split("\r"):
        if not part:
            continue
        written: list[str] = []
        for character in part:
            if character == "\b":
                del written[-1:]
            else:
                written.append(character)
        shown = [*written, *shown[len(written) :]]
    return "".join(shown)


def _typed(key: str) -> str:
    name = key.lower()
    if name in KEYS:
        return KEYS[name]
    letter = name.removeprefix("ctrl-")
    if letter != name and len(letter) == 1 and "@" <= letter.upper() <= "_":
        return chr(ord(letter.upper()) - ord("@"))
    if len(key) == 1:
        return key
    raise ValueError(f"{key!r} is not a key: write {', '.join(KEYS)}, ctrl-LETTER or one character")
