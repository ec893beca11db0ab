"""The tools of an agent on a task: a terminal that keeps its state, and files.

Everything runs in the task's machine as the agent's user. The terminal is one shell for all calls of a step: its
directory, variables and background jobs stay, and a command that outlasts its call continues. Long output is cut in the
middle, and the cut names its size. A failure in the machine is an observation; the loss of the machine is not, and ends
the episode without a reward.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from pydantic import Field

from sandrl.problems.tasks.task import TaskStep
from sandrl.rollouts.calls import Call, Number, Text
from sandrl.sandboxes import CommandOutcome
from sandrl.trials.machine import Machine
from sandrl.trials.terminal import KEYS, Screen, StillRunningError, Terminal

OUTPUT_BYTES = 12_000
"""How much of a long output is shown: a quarter of it from its beginning, the rest from its end."""

COMMAND_SECONDS = 60.0
"""How long a command is waited for, unless the call says otherwise."""

INPUT_SECONDS = 2.0
"""How long the output of an input is waited for, unless the call says otherwise."""

LEAST_SECONDS, MOST_SECONDS = 0.1, 3600.0
"""How long a call waits at least, and at most; an agent may have no time limit."""

_FILE_SECONDS = 30.0
_MOST_FILE_BYTES = 4 << 20
_MOST_COMPLAINT = 1000
_NO_OUTPUT = "(no output)"
_BUSY = (
    "error: the last command still runs; with `terminal`, see its output, give it input, or end it with the key ctrl-c"
)
_IDLE = "error: no program runs in the terminal; run one with `bash`"
_READ = 'exec cat -- "$1"'
# Into the file itself: its mode and its links stay.
_WRITE = 'case $1 in */*) mkdir -p -- "${1%/*}/" || exit;; esac; exec cat > "$1"'


class Desk:
    """Where an agent works on a step of a task; it ends with the step.

    Args:
        ends_at: When the agent's time is up, by the monotonic clock.

    Attributes:
        broken_calls: So often in a row no shell could be opened, or went on, in a machine that is there.
    """

    def __init__(self, machine: Machine, step: TaskStep, ends_at: float) -> None:
        self._machine = machine
        self._phase = step.agent
        self.ends_at = ends_at
        self._terminal: Terminal | None = None
        self.broken_calls = 0

    @property
    def seconds_left(self) -> float:
        return max(self.ends_at - time.monotonic(), 0.0)

    def seconds(self, asked: float) -> float:
        """How long a call waits that asks for so many seconds."""
        return min(max(asked, LEAST_SECONDS), MOST_SECONDS, self.seconds_left)

    @property
    def terminal(self) -> Terminal:
        """The terminal of the step, which is opened by the first command."""
        if self._terminal is None:
            variables = dict(self._phase.variables)
            self._terminal = self._machine.terminal(
                user=self._phase.user, variables=variables, output_bytes=OUTPUT_BYTES
            )
        return self._terminal

    def told(self, screen: Screen, seconds: float) -> str:
        """What an agent is to read about the terminal, after it has waited for so long."""
        self.broken_calls = self.broken_calls + 1 if screen.is_broken else 0
        return observation(screen, seconds)

    def read(self, path: str) -> bytes | str:
        """The content of a file, or what an agent is to read about one that cannot be read."""
        outcome = self._run(_READ, path, output_bytes=_MOST_FILE_BYTES + 1)
        if outcome.timed_out or outcome.exit_code:
            return _wrong(outcome.stderr, path)
        return outcome.stdout

    def write(self, path: str, content: bytes) -> str:
        """Writes a file with the directories that it needs; returns what is wrong, empty if nothing is."""
        outcome = self._run(_WRITE, path, stdin=content)
        return _wrong(outcome.stderr, path) if outcome.timed_out or outcome.exit_code else ""

    def close(self) -> None:
        """Ends the program that runs in the terminal, and the terminal."""
        if self._terminal is not None:
            self._terminal.close()
            self._terminal = None

    def _run(self, script: str, path: str, *, stdin: bytes = b"", output_bytes: int = 1 << 16) -> CommandOutcome:
        return self._machine.run(
            ("sh", "-c", script, "sh", path),
            user=self._phase.user,
            variables=dict(self._phase.variables),
            timeout_seconds=max(min(_FILE_SECONDS, self.seconds_left), 1.0),
            stdin=stdin,
            output_bytes=output_bytes,
        )


def _wrong(complaint: bytes, path: str) -> str:
    said = complaint.decode("utf-8", "replace").strip()[:_MOST_COMPLAINT]
    return f"error: {said or f'{path}: took too long'}"


class TaskTool(Call):
    """A call of a tool that works in the machine of a task."""

    def use(self, desk: Desk) -> str:
        raise NotImplementedError


class Bash(TaskTool):
    """Run a command in the terminal and return its output, and its exit code if that is not 0.

    The terminal is one shell: its directory, variables and background jobs stay from call to call. A command that takes
    longer than `timeout_seconds` continues; `terminal` shows its further output, or ends it.
    """

    command: Text = Field(description="The command.")
    timeout_seconds: Number = Field(
        default=COMMAND_SECONDS,
        description=f"How long to wait for the command, in seconds; {COMMAND_SECONDS:g} by default.",
    )

    def use(self, desk: Desk) -> str:
        seconds = desk.seconds(self.timeout_seconds)
        try:
            return desk.told(desk.terminal.run(self.command, seconds), seconds)
        except StillRunningError:
            return _BUSY


class UseTerminal(TaskTool):
    """Give input to the program that runs in the terminal, wait, and return its new output."""

    text: Text = Field(default="", description="Text to type; a line ends with a line break.")
    key: Text = Field(default="", description=f"A key to press after that: ctrl-LETTER, {', '.join(KEYS)}.")
    wait_seconds: Number = Field(
        default=INPUT_SECONDS, description=f"How long to wait for output, in seconds; {INPUT_SECONDS:g} by default."
    )

    def use(self, desk: Desk) -> str:
        terminal = desk.terminal
        if not terminal.is_running:
            return _IDLE
        seconds = desk.seconds(self.wait_seconds)
        if self.text:
            terminal.send(self.text)
        try:
            if self.key:
                terminal.press(self.key)
        except ValueError as error:
            return f"error: {str(error)[:200]}"
        return desk.told(terminal.read(seconds), seconds)


class WriteFile(TaskTool):
    """Write a text file, with the directories it needs."""

    path: Text = Field(description="Where; a relative path begins in the working directory of the task.")
    content: Text = Field(description="Its text.")

    def use(self, desk: Desk) -> str:
        return desk.write(self.path, self.content.encode()) or "Written."


class EditFile(TaskTool):
    """Replace a text in a file, which must be in it exactly once."""

    path: Text = Field(description="Where the file is; a relative path begins in the working directory of the task.")
    old: Text = Field(description="The text to replace, with its line breaks and spaces.")
    new: Text = Field(description="The text in its place.")

    def use(self, desk: Desk) -> str:
        content = desk.read(self.path)
        if isinstance(content, str):
            return content
        if len(content) > _MOST_FILE_BYTES:
            return f"error: {self.path}: is larger than {_MOST_FILE_BYTES:,} bytes"
        old = self.old.encode()
        if not old:
            return "error: not edited: `old` is empty"
        count = content.count(old)
        if count != 1:
            return f"error: not edited: `old` is in the file {count} times"
        return desk.write(self.path, content.replace(old, self.new.encode())) or "Edited."


class Submit(TaskTool):
    """Say that the task is solved, which ends the work on it: the machine is judged as it is then."""

    def use(self, desk: Desk) -> str:
        return "Submitted."


TASK_TOOLS: Mapping[str, type[TaskTool]] = {
    "bash": Bash,
    "terminal": UseTerminal,
    "write_file": WriteFile,
    "edit_file": EditFile,
    "submit": Submit,
}
"""The tools of a task, by name."""


def observation(screen: Screen, seconds: float) -> str:
    """What an agent is to read about its terminal, after it has waited for so long."""
    parts = [screen.output.strip("\n")]
    if screen.is_running:
        parts.append(f"The program still runs after {seconds:g} s.")
    if screen.exit_code:
        parts.append(f"error: exit code {screen.exit_code}")
    if screen.has_ended:
        parts.append("The shell has ended; the next command gets a new one.")
    return "\n".join(filter(None, parts)) or _NO_OUTPUT
