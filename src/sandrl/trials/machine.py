"""The machine of a task: a sandbox that is used for a whole trial.

Everything in it is hostile once an agent has acted: its files, its programs, its shell. So nothing that it says is
taken for more than what it says, and every answer has a bound in time and size.
"""

from __future__ import annotations

import posixpath
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from sandrl.errors import InfrastructureError, NoUserError, SandrlError
from sandrl.events import ExecutionFinished
from sandrl.sandboxes import Command, CommandOutcome, Launch, Sandbox, Shape, State
from sandrl.sandboxes.providers.protocol import Result
from sandrl.trials import guest
from sandrl.trials.entries import Entry, archived, of_archive, paths_of, without
from sandrl.trials.place import Place, RuntimeLost, finished
from sandrl.trials.state import give_back, image_of, keep_state, states_of
from sandrl.trials.terminal import SCREEN_BYTES, Terminal
from sandrl.trials.users import Facts, User

ROOT = "0"
OUTPUT_BYTES = 64 << 10
"""How much of each output of a command is kept by default."""

START_SECONDS = 120.0
FILE_SECONDS = 120.0
"""How long a machine may take to tell what it is like, and to write or read files."""

_SHARE_OF_HEAD = 4
_NOT_EXECUTABLE, _NOT_FOUND = 126, 127
_MARGIN_BYTES = 64 << 10
_FACTS_BYTES = 4 << 20
# Without those that have ended, and wait to be heard of.
_PROCESS = re.compile(r"(\d{1,10}) \((.{1,64})\) [^ZXx] ")
_CUT = b"\n[... %d bytes are left out ...]\n"


class TooLargeError(Exception):
    """What is read from a machine is larger than is allowed."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    # A command of the machine's shell, and how its outcome is read.

    argv: tuple[str, ...]
    stdin: bytes
    seconds: float
    most_bytes: int
    read: Callable[[CommandOutcome], CommandOutcome]


class Machine:
    """A sandbox of a task, used by one thread at a time, but for commands that `begin` has begun.

    Args:
        shape: What it is; `as_root` for one whose commands have users.
        tags: Its tags.
        task_id: Names the task in events.
        states: The directory where its states are kept, see `states_of`.
        files: Contents by path, which all of its users may read; below `/run/sandrl`, no state has them.
    """

    def __init__(
        self,
        place: Place,
        shape: Shape,
        tags: Sequence[str],
        *,
        task_id: str = "",
        states: Path | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        self._place = place
        self.shape = shape
        self._tags = tuple(tags)
        self._task_id = task_id
        self._user: str | None = None
        self._states = states_of(None) if states is None else states
        self._files = files or {}
        self._image = shape.image if shape.state is None else shape.state.image
        self._launch: Launch | None = None
        # Until a command is told that has run in the sandbox.
        self._startup_seconds: float | None = None
        self._facts = Facts()
        self._has_state_image = False
        self._looked_until = 0
        self._terminals: list[Terminal] = []
        self._loss: InfrastructureError | RuntimeLost | None = None

    @property
    def sandbox_id(self) -> str | None:
        """The id of its sandbox; None before it was started, and after it was closed or lost."""
        return None if self._launch is None else self._launch.sandbox_id

    def start(self) -> None:
        """Creates the sandbox, and finds out what it is like.

        Raises:
            InfrastructureError: If there can be no such sandbox, or it failed.
            LostStateError: If its state cannot be used.
            RuntimeLost: If the runtime failed.
        """
        if self.shape.state is not None:
            self._image = image_of(self._place.connection, self.shape.state)
            self._has_state_image = True
        self._facts = self._probed()
        if self.shape.as_root:
            self._user = self._place.connection.user_of(self._image) or None
        for directory in dict.fromkeys(map(posixpath.dirname, self._files)):
            within = [path for path in self._files if posixpath.dirname(path) == directory]
            self.put(directory, [Entry(posixpath.basename(path), content=self._files[path]) for path in within])

    def run(
        self,
        command: str | Sequence[str],
        *,
        user: str | None = None,
        timeout_seconds: float,
        variables: Mapping[str, str] | None = None,
        directory: str | None = None,
        stdin: bytes = b"",
        output_bytes: int = OUTPUT_BYTES,
        is_own: bool = False,
    ) -> CommandOutcome:
        """Runs a command to its end.

        After its time limit, its session is ended: first SIGTERM, a second later SIGKILL. Programs in a session of
        their own continue, as do those that ignore SIGHUP (`nohup`), and all that a command leaves behind at its end.

        Args:
            command: Program and arguments, or text for the shell of the image: bash, else sh.
            user: Whose it is, as `NAME`, `UID`, `NAME:GROUP` or `UID:GID`; None for the user of the machine.
            timeout_seconds: Wall time; whole seconds, rounded up.
            variables: Besides those of the machine; they do not appear in arguments.
            directory: Its working directory; None for that of the machine.
            output_bytes: How much of each output is kept; a line with its size replaces the middle of a longer one.
            is_own: Whether it is the machine's own, and not the task's: text for sh, whose programs are found as those
                of `program` are.

        Returns:
            How it ended; the exit code is None if it exceeded its time limit.

        Raises:
            NoUserError: If it cannot be a command of this user; the machine continues.
            InfrastructureError: If the sandbox failed.
            RuntimeLost: If the runtime failed.
        """
        own = self._prepared(command, user, timeout_seconds, variables, directory, stdin, output_bytes, is_own=is_own)
        if isinstance(own, CommandOutcome):
            return own
        began = time.monotonic()
        try:
            outcome = self.ask(own.argv, own.stdin, own.seconds, own.most_bytes)
        except (InfrastructureError, RuntimeLost) as error:
            self._place.emit(ExecutionFinished(self._task_id, None, "error", error=str(error)))
            raise
        outcome = replace(own.read(outcome), seconds=time.monotonic() - began)
        startup, self._startup_seconds = self._startup_seconds, None
        self._place.emit(finished(self._task_id, outcome, outcome.seconds, startup_seconds=startup))
        return outcome

    def begin(
        self,
        command: str | Sequence[str],
        *,
        user: str | None = None,
        timeout_seconds: float,
        variables: Mapping[str, str] | None = None,
        directory: str | None = None,
        stdin: bytes = b"",
        output_bytes: int = OUTPUT_BYTES,
    ) -> Future[CommandOutcome]:
        """Begins a command beside others, on any thread, once the machine has started; for the arguments see `run`.

        Returns:
            How it ends; cancelling it kills the command.

        Raises:
            NoUserError: If it cannot be a command of this user.
            InfrastructureError, RuntimeLost: If the machine was lost.
        """
        own = self._prepared(command, user, timeout_seconds, variables, directory, stdin, output_bytes)
        done: Future[CommandOutcome] = Future()
        if isinstance(own, CommandOutcome):
            done.set_result(own)
            return done
        sandbox_id = self.sandbox_id or ""
        running = self.sandbox.run(Command(own.argv, own.stdin, own.seconds, most_output_bytes=own.most_bytes))

        def finish(ended: Future[Result]) -> None:
            if not done.set_running_or_notify_cancel():
                return
            try:
                result = ended.result()
            except CancelledError:
                done.set_exception(InfrastructureError("the command was cancelled"))
            except Exception as error:  # noqa: BLE001 - who waits raises it
                done.set_exception(error)
            else:
                done.set_result(own.read(CommandOutcome(sandbox_id, result.exit_code, result.stdout, result.stderr)))

        def give_up(_: Future[CommandOutcome]) -> None:
            if done.cancelled():
                running.cancel()

        running.add_done_callback(finish)
        done.add_done_callback(give_up)
        return done

    def _prepared(
        self,
        command: str | Sequence[str],
        user: str | None,
        timeout_seconds: float,
        variables: Mapping[str, str] | None,
        directory: str | None,
        stdin: bytes,
        output_bytes: int,
        *,
        is_own: bool = False,
    ) -> _Prepared | CommandOutcome:
        # The outcome, if it cannot be a command.
        if isinstance(command, str):
            shell = self._facts.shell if is_own else self.shell
            argv = [shell, "-c", command, posixpath.basename(shell)]
        else:
            argv = list(command)
        mark, seconds = secrets.token_hex(16), max(int(-(-timeout_seconds // 1)), 1)
        first = output_bytes // _SHARE_OF_HEAD
        becoming, its_own = self.becoming(user)
        its = guest.command([*becoming, *argv], its_own | dict(variables or {}), directory, is_own=is_own)
        if "\0" in its:
            return CommandOutcome(
                self.sandbox_id or "", _NOT_EXECUTABLE, stderr=b"a word of the command has a NUL byte\n"
            )
        own = guest.assigned(
            sandrl_mark=mark, sandrl_seconds=seconds, sandrl_first=first, sandrl_last=output_bytes - first
        )
        return _Prepared(
            self.program(guest.RUN),
            guest.lines(own, its) + stdin,
            seconds + guest.ENDING_SECONDS,
            2 * output_bytes + _MARGIN_BYTES,
            lambda outcome: _read(outcome, mark, first, output_bytes),
        )

    @property
    def shell(self) -> str:
        """The shell of its commands, by its path: bash, else sh."""
        return self._facts.programs.get("bash", self._facts.shell)

    def program(self, text: str, *arguments: str) -> tuple[str, ...]:
        """The words of a command of the machine's own, for `ask`: no user but root can replace its programs."""
        return self._facts.shell, "-c", guest.program(text, self._facts.path), *arguments

    def becoming(self, user: str | None) -> tuple[list[str], dict[str, str]]:
        """The words before a command that make it one of a user, None for that of the machine, and variables of it.

        Raises:
            NoUserError: If it cannot be a command of this user.
        """
        named = self._user if user is None else user
        if named is None:
            return [], {}
        found = self._find(named)
        words = self._facts.becoming(found, named)
        return words, self._facts.variables(found) if words or user is not None else {}

    def _find(self, user: str) -> User:
        try:
            return self._facts.find(user)
        except NoUserError:
            # A program of the machine may have made it.
            self._facts = self._probed()
            return self._facts.find(user)

    def _probed(self) -> Facts:
        # A shell that fails is the image's; commands show it.
        mark, words = secrets.token_hex(16), ("-c", guest.program(guest.PROBE))
        outcome = self.ask((self._facts.shell, *words), guest.lines(mark), START_SECONDS, _FACTS_BYTES)
        if outcome.exit_code in (_NOT_EXECUTABLE, _NOT_FOUND):
            # That of the image's PATH.
            outcome = self.ask(("sh", *words), guest.lines(mark), START_SECONDS, _FACTS_BYTES)
        if outcome.timed_out:
            raise InfrastructureError(f"the shell of the sandbox did not answer within {START_SECONDS:g} s")
        return Facts.read(outcome.stdout.decode("utf-8", "replace"), mark)

    def put(self, directory: str, entries: Iterable[Entry], *, owner: str | None = None, anew: bool = False) -> None:
        """Writes files into a directory, which is made if there is none, with their modes.

        A link in the place of a file or of its parents below the directory is replaced, and not followed.

        Args:
            owner: Whose they are; None for root.
            anew: Whether the directory, or what is in its place, is removed first.

        Raises:
            NoUserError: If the machine does not have this user.
            InfrastructureError: If they cannot be written, or the sandbox failed.
            RuntimeLost: If the runtime failed.
        """
        entries = list(entries)
        found = None if owner is None else self._find(owner)
        archive = archived(entries, (0, 0) if found is None else (found.uid, found.gid))
        tar = next((each for each in ("tar", "busybox tar") if each in self._facts.programs), "")
        given = guest.assigned(place=directory, anew="yes" if anew else "", tar=tar or "false")
        outcome = self.ask(
            self.program(guest.PUT),
            guest.lines(f"{given}; {guest.words(paths_of(entries))}") + archive,
            FILE_SECONDS,
            _MARGIN_BYTES,
        )
        if outcome.exit_code and not tar and self._launch is not None:
            self._put_each(directory, entries)
        elif outcome.exit_code != 0:
            ended = f"within {FILE_SECONDS:g} s" if outcome.timed_out else f"exit code {outcome.exit_code}"
            reason = outcome.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or [ended]
            raise InfrastructureError(f"files cannot be written to {directory} of the sandbox: {reason[0][:200]}")

    def _put_each(self, directory: str, entries: Sequence[Entry]) -> None:
        sandbox = self.sandbox
        commands = []
        for entry in entries:
            path = posixpath.join(directory, entry.name)
            if entry.content is not None:
                try:
                    sandbox.write_file(path, entry.content).result(FILE_SECONDS)
                except (OSError, TimeoutError) as error:
                    raise InfrastructureError(f"{path} of the sandbox cannot be written: {error}") from error
            elif entry.target is not None:
                commands.append(f"ln -s -- {guest.quoted(entry.target)} {guest.quoted(path)}")
            else:
                commands.append(f"mkdir -p -- {guest.quoted(path)}")
            if entry.target is None:
                commands.append(f"chmod {entry.mode:o} -- {guest.quoted(path)}")
        self.ask(self.program("\n".join(commands)), b"", FILE_SECONDS, _MARGIN_BYTES)

    def get(self, path: str, *, exclude: Sequence[str] = (), most_bytes: int) -> bytes | None:
        """A tar archive of a file or directory, whose names begin with its name; None if there is nothing.

        Args:
            exclude: Patterns of `tar --exclude`.

        Raises:
            TooLargeError: If the archive has more than `most_bytes`.
            InputError: If it is damaged.
            InfrastructureError: If it cannot be made, or the sandbox failed.
            RuntimeLost: If the runtime failed.
        """
        tar = next((each for each in ("tar", "busybox tar") if each in self._facts.programs), "false")
        patterns = [f"--exclude={each}" for each in exclude]
        given = guest.assigned(path=path.rstrip("/") or "/", most=most_bytes + 1, tar=tar)
        archive = self._file(guest.GET, f"{given}; {guest.words(patterns)}", most_bytes)
        if archive != b"":
            return archive
        if exclude:  # not every tar has a word for it
            whole = self.get(path, most_bytes=most_bytes)
            return None if whole is None else archived(without(of_archive(whole), exclude))
        if (content := self.read(path, most_bytes)) is not None:
            return archived([Entry(posixpath.basename(path), content=content)])
        raise InfrastructureError(f"{path} of the sandbox cannot be read: its image has no tar that works")

    def read(self, path: str, most_bytes: int) -> bytes | None:
        """The content of a file; None if there is no file of this name, links included.

        Raises:
            TooLargeError: If it has more than `most_bytes`.
            InfrastructureError: If the sandbox failed.
            RuntimeLost: If the runtime failed.
        """
        return self._file(guest.READ, guest.assigned(path=path, most=most_bytes + 1), most_bytes)

    def _file(self, program: str, given: str, most_bytes: int) -> bytes | None:
        outcome = self.ask(self.program(program), guest.lines(given), FILE_SECONDS, most_bytes + _MARGIN_BYTES)
        if len(outcome.stdout) > most_bytes or outcome.exit_code == guest.WROTE_TOO_MUCH:
            raise TooLargeError
        return outcome.stdout if outcome.exit_code == 0 else None

    def terminal(
        self,
        *,
        user: str | None = None,
        directory: str | None = None,
        variables: Mapping[str, str] | None = None,
        output_bytes: int = SCREEN_BYTES,
    ) -> Terminal:
        """Opens a shell that keeps its state; the arguments are as those of `run`.

        `output_bytes` is how much of what it shows is kept between two looks at it.

        Raises:
            NoUserError, InfrastructureError, RuntimeLost: As `run`.
        """
        # What it leaves behind keeps the terminal until the machine is closed.
        terminal = Terminal(self, user=user, directory=directory, variables=variables or {}, output_bytes=output_bytes)
        self._terminals.append(terminal)
        return terminal

    def end_processes(self, user: str | None = None) -> None:
        """Kills all processes of a user, or all of the machine.

        Raises:
            NoUserError: If the machine does not have this user.
            InfrastructureError: If the sandbox failed.
            RuntimeLost: If the runtime failed.
        """
        becoming = [] if user is None else self.becoming(user)[0]
        # The kernel spares the process that asks, so the second one of these ends the first.
        for _ in range(2):
            self.ask((*becoming, *self.program("kill -9 -1")), b"", START_SECONDS, _MARGIN_BYTES)

    def processes(self) -> dict[int, str]:
        """The names of the programs that run, by their process ids.

        Raises:
            InfrastructureError: If the sandbox failed.
            RuntimeLost: If the runtime failed.
        """
        outcome = self.ask(self.program(guest.PROCESSES), b"", START_SECONDS, _FACTS_BYTES)
        lines = map(_PROCESS.match, outcome.stdout.decode("utf-8", "replace").splitlines())
        return {int(found[1]): found[2] for found in lines if found}

    def save(self) -> State | None:
        """Keeps what programs have changed in the image, while they run.

        Returns:
            The state; None where the runtime cannot keep it, or the sandbox has made it too large to be kept.

        Raises:
            InfrastructureError: If the sandbox has ended, or this machine cannot keep it, such as on a full disk.
            RuntimeLost: If the runtime failed.
        """
        state = self.shape.state
        image = self.shape.image if state is None else state.image
        with self.telling_loss():
            sandbox_id = self.sandbox.id or ""
            return keep_state(self._place.connection, sandbox_id, image, state, self._states, self._place.emit)

    def reached(self) -> tuple[str, ...] | None:
        """Where its programs have been connected to since the last call, as `HOST:PORT`; None if that is not known."""
        connection = self._place.connection
        network = self.shape.network or connection.network
        if not network.is_reachable if network is not None else connection.is_local:
            return ()
        if connection.reached is None or self.sandbox_id is None:
            return None
        try:
            found = connection.reached(self.sandbox_id, self._looked_until)
        except SandrlError:
            return None
        if found is None:
            return None
        hosts, self._looked_until = found
        return tuple(hosts)

    def close(self) -> None:
        """Begins to stop the sandbox, if there is one; closing twice is fine."""
        for terminal in self._terminals:
            terminal.detach()
        if self._launch is not None:
            self._place.release(self._launch)
            self._launch = None
        if self._has_state_image:
            self._has_state_image = False
            give_back(self._place.connection, self._image)

    @property
    def sandbox(self) -> Sandbox:
        """Its sandbox as the provider has it.

        Raises:
            InfrastructureError, RuntimeLost: If it was lost.
        """
        if self._loss is not None:
            raise self._loss
        assert self._launch is not None, "it was started"
        assert self._launch.sandbox is not None, "what has ended was sent"
        return self._launch.sandbox

    @property
    def keeps_states(self) -> bool:
        """Whether its runtime can keep states."""
        return self._place.connection.write_changes is not None

    @property
    def is_lost(self) -> bool:
        """Whether its sandbox was lost."""
        return self._loss is not None

    @contextmanager
    def telling_loss(self) -> Iterator[None]:
        """Finds out after a failure whether the sandbox, or the runtime with it, was lost, and raises that instead."""
        try:
            yield
        except InfrastructureError:
            if self._loss is None:
                self.ask(self.program(":"), b"", START_SECONDS, _MARGIN_BYTES)
            raise

    def ask(self, argv: Sequence[str], stdin: bytes, timeout_seconds: float, most_bytes: int) -> CommandOutcome:
        """Runs a command of the machine's own, as it is: without a user, and killed if it writes too much.

        Raises:
            InfrastructureError, RuntimeLost: If the sandbox, or the runtime, failed.
        """
        if self._loss is not None:
            raise self._loss
        command = Command(tuple(argv), stdin, timeout_seconds, most_output_bytes=most_bytes)
        try:
            shape, is_first = replace(self.shape, image=self._image, state=None), self._launch is None
            self._launch, outcome = self._place.launch(command, within=self._launch, tags=self._tags, shape=shape)
            if is_first:
                self._startup_seconds = self._launch.startup_seconds
        except (InfrastructureError, RuntimeLost) as error:
            self._launch, self._loss = None, error
            raise
        return outcome


def _read(outcome: CommandOutcome, mark: str, first: int, most: int) -> CommandOutcome:
    before, found, after = outcome.stdout.rpartition(mark.encode())
    told = after.split()
    if not found or len(told) != 4 or not all(word.isdigit() and len(word) < 20 for word in told):
        # Its shell was ended, or is none.
        return replace(outcome, stdout=_cut(outcome.stdout, len(outcome.stdout), first, most))
    code, late, out, err = map(int, told)
    return replace(
        outcome,
        exit_code=None if late else code,
        stdout=_cut(before, out, first, most),
        stderr=_cut(outcome.stderr, err, first, most),
    )


def _cut(output: bytes, total: int, first: int, most: int) -> bytes:
    if len(output) <= most >= total:
        return output
    last = output[first:][-(most - first) :]
    return output[:first] + _CUT % max(total - first - len(last), 0) + last
