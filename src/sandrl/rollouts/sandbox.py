"""The sandbox of an episode: created on first use, kept between uses, deleted with the episode.

Every effect of the policy's commands is an observation: output, a timeout, a missing file. Long output keeps its first
1,000 characters, which show what kind of output it is, and its last 3,000, because errors come last. Time and output of
a command are limited inside the sandbox, so output before a timeout is kept.

The loss of the sandbox is not caused by the policy, and is not an observation. If the runtime ended and its sandboxes
with it, the commands of the episode are repeated in a new one, because a trainer such as TRL cannot restart a
conversation. The new sandbox is used only if every command has the result that the policy has read. Otherwise, or if a
sandbox failed by itself, the episode is lost, and its caller ends it without a reward.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from sandrl.errors import InfrastructureError
from sandrl.events import Emit, ExecutionFinished, ignore
from sandrl.runs import ROLLOUT_TAG
from sandrl.sandboxes import (
    USUAL,
    Command,
    CommandOutcome,
    Job,
    Launch,
    Shape,
    delay_seconds,
    problem_tag,
)
from sandrl.scoring.attempts import MOST_MOVES
from sandrl.trials.place import OfJob, Place, RuntimeLost, collected, finished

HEAD_CHARACTERS, TAIL_CHARACTERS = 1000, 3000
"""How much of a long output is shown: of its beginning, and of its end."""

LOST = "error: the sandbox was lost, and the episode with it"
"""The observation of every later call, if the trainer continues with the episode."""

_CUT = "\n… the middle of the output is left out …\n"
_HALF_BYTES = 256 * 1024
# The exit status of what cannot be executed, or is not there.
_NOT_EXECUTED = (126, 127)
# The exit status of `timeout`, and how long a program may take to end, and its output to be read, after that.
_TIMED_OUT = 124
_GRACE_SECONDS = 5.0
# A runtime that failed and is still the same one is given time to recover, so often and longer each time.
_MOST_PAUSES = 2
_FIRST_PAUSE_SECONDS = 0.5
_OTHER_RESULT = "the runtime ended, and in a new sandbox a command of the episode had another result than before"
_LIMITED = f"""t=$1; shift; d=$(mktemp -d) || exit 126; timeout -k 1 "$t" "$@" >"$d/out" 2>"$d/err"; c=$?
show() {{
    [ "$(wc -c <"$1")" -gt {2 * _HALF_BYTES} ] || exec cat "$1"
    head -c {_HALF_BYTES} "$1"; tail -c {_HALF_BYTES} "$1"
}}
(show "$d/out"); (show "$d/err") >&2; rm -rf "$d"; exit $c"""


class JobSandboxes(OfJob):
    """Where episodes get their sandboxes (a `Place`): one job, which one thread at a time may use."""

    def __init__(self, job: Job, *, emit: Emit = ignore) -> None:
        super().__init__(job, emit)
        self._lock = threading.Lock()

    def launch(
        self, command: Command, *, within: Launch | None, tags: Sequence[str], shape: Shape | None = None
    ) -> tuple[Launch, CommandOutcome]:
        with self._lock:
            launch = self._job.launch(command, tags=tags, within=within, shape=shape or USUAL)
            self._wait_for(launch)
            return launch, collected(self._job, launch)

    def release(self, launch: Launch) -> None:
        with self._lock:
            self._job.release(launch)

    def _wait_for(self, launch: Launch) -> None:
        while True:
            for ended in self._job.wait_any():
                if ended is launch:
                    return
                # The job was used before, by work that an error or Ctrl-C tore open.
                with suppress(InfrastructureError):
                    self._job.collect(ended)


class EpisodeSandbox:
    """The sandbox of one episode; `loss` says why it was lost, empty if it was not.

    It `is_destroyed` once a program cannot be executed in it any more that could before: its policy has removed it, or
    what it needs.

    Args:
        image: The image that the problem names; None for that of the job.
        timeout_seconds: Wall time of one command.
        tags: Further tags of the sandbox.
    """

    def __init__(
        self,
        place: Place,
        task_id: str,
        image: str | None = None,
        *,
        timeout_seconds: float = 10.0,
        tags: Sequence[str] = (),
    ) -> None:
        self._place = place
        self._task_id = task_id
        self._image = image
        self._timeout_seconds = timeout_seconds
        self._tags = ROLLOUT_TAG, problem_tag(task_id), *tags
        self._launch: Launch | None = None
        # What ran in the sandbox so far, and what a policy has read about it.
        self._past: list[tuple[Command, str]] = []
        # The programs that have run in it.
        self._known: set[str] = set()
        self._moves = self._pauses = 0
        self.loss = ""
        self.is_destroyed = False

    def run(self, *argv: str, stdin: str = "") -> str:
        """Runs a command; returns what a policy is to read about it."""
        outcome = self.outcome(*argv, stdin=stdin)
        return LOST if outcome is None else observation(outcome)

    def outcome(self, *argv: str, stdin: str = "") -> CommandOutcome | None:
        """Runs a command; returns how it ended, or None if the sandbox was lost.

        Raises:
            Withdrawn: If the user asked to stop.
        """
        timeout_seconds = self._timeout_seconds
        limited = ("sh", "-c", _LIMITED, "sh", f"{timeout_seconds:g}", *argv)
        command = Command(limited, stdin.encode("utf-8", "backslashreplace"), timeout_seconds + _GRACE_SECONDS)
        while not self.loss:
            try:
                if self._launch is None:
                    self._restore()
                outcome = self._execute(command)
                self._look(argv[0], outcome)
            except RuntimeLost as lost:
                self._launch = None
                self._wait_or_lose(lost)
            except InfrastructureError as error:
                self._launch = None
                self.loss = error.message
            else:
                self._past.append((command, observation(outcome)))
                return outcome
        return None

    def _execute(self, command: Command) -> CommandOutcome:
        place = self._place
        began, is_first = time.monotonic(), self._launch is None
        try:
            shape = USUAL if self._image is None else Shape(place.find_image(self._image))
            self._launch, outcome = place.launch(command, within=self._launch, tags=self._tags, shape=shape)
        except (InfrastructureError, RuntimeLost) as error:
            place.emit(ExecutionFinished(self._task_id, None, "error", error=str(error)))
            raise
        if outcome.exit_code == _TIMED_OUT:
            outcome = replace(outcome, exit_code=None)
        seconds, startup = time.monotonic() - began, self._launch.startup_seconds if is_first else None
        place.emit(finished(self._task_id, outcome, max(seconds - (startup or 0.0), 0.0), startup_seconds=startup))
        return outcome

    def _look(self, program: str, outcome: CommandOutcome) -> None:
        # A shell reports a command that it does not find in the same way, so the program is tried by itself.
        if outcome.exit_code in _NOT_EXECUTED and program in self._known:
            nothing = ("sh", "-c", _LIMITED, "sh", f"{_GRACE_SECONDS:g}", program, "-c", "")
            tried = self._execute(Command(nothing, b"", 2 * _GRACE_SECONDS))
            self.is_destroyed = tried.exit_code in _NOT_EXECUTED
        elif outcome.exit_code not in _NOT_EXECUTED:
            self._known.add(program)

    def _restore(self) -> None:
        for command, told in self._past:
            if observation(self._execute(command)) != told:
                self.close()
                raise InfrastructureError(_OTHER_RESULT)

    def _wait_or_lose(self, lost: RuntimeLost) -> None:
        if lost.is_replaced and self._moves < MOST_MOVES:
            self._moves += 1
        elif self._pauses < _MOST_PAUSES:
            self._pauses += 1
            time.sleep(delay_seconds(self._pauses, _FIRST_PAUSE_SECONDS))
        else:
            self.loss = str(lost)

    def close(self) -> None:
        """Begins to stop the sandbox, if there is one; closing twice is fine."""
        if self._launch is not None:
            self._place.release(self._launch)
            self._launch = None


def observation(outcome: CommandOutcome) -> str:
    """What a policy is to read about how a command ended."""
    parts = [part.decode("utf-8", "replace").strip("\n") for part in (outcome.stdout, outcome.stderr)]
    text = "\n".join(part for part in parts if part)
    if len(text) > HEAD_CHARACTERS + TAIL_CHARACTERS:
        text = f"{text[:HEAD_CHARACTERS]}{_CUT}{text[-TAIL_CHARACTERS:]}"
    if outcome.timed_out:
        return f"{text}\nerror: timeout".lstrip("\n")
    if outcome.exit_code:
        return f"{text}\nerror: exit code {outcome.exit_code}".lstrip("\n")
    return text or "(no output)"
