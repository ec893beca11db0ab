"""The exceptions of sandrl, and the run outcome and exit code of each.

Every error that a user can cause or meet derives from `SandrlError`. `ending_of` maps any exception to the outcome that
a run records (`sandrl.runs.session`) and to the message and exit code of the command (`sandrl.cli.app`), so they agree.

    SandrlError                        1
    ├── UsageError                     2   wrong option or combination of options
    │   ├── InputError                 2   bad file, line or field, and where it is
    │   ├── MissingExtraError          2   an optional dependency is not installed
    │   │   └── BrokenLibraryError     2   a library is installed and cannot be imported
    │   ├── HardwareError              2   the command needs hardware that this machine does not have
    │   ├── UnknownSandboxError        2   no sandbox has this id
    │   ├── NotRunningError            2   the sandbox has ended
    │   ├── UnknownImageError          2   no stored image has this name or digest
    │   ├── ForkedProcessError         2   a forked child uses an object that only its parent can use
    │   └── RequestRefusedError        2   a model endpoint refuses the request itself
    ├── TrainingError                  1   training failed: the loss is not a number, or no gradient step was made
    ├── BuildError                     1   a program of a Dockerfile failed
    ├── GateError                      1   a gate that the user set failed (fail_under, validate, redteam)
    ├── UnmeasuredError                5   nothing that was measured is wrong, but something could not be measured
    ├── BudgetError                    1   the budget of sandbox time or money is used up; finished work is kept
    ├── ServiceError                   3   a service outside sandrl does not answer or refuses
    │   ├── RuntimeUnavailableError    3   the local runtime cannot start or isolate on this machine
    │   │   └── SilentDaemonError      3   the local runtime runs and does not answer
    │   ├── AuthenticationError        3   credentials are missing, wrong or refused
    │   ├── InfrastructureError        3   sandboxes failed, and the code is not the cause
    │   │   ├── JudgeNotStartedError   3   an image has no python3 that starts
    │   │   ├── NoUserError            3   a sandbox cannot run programs as the user that is asked for
    │   │   ├── NoImageError           3   the runtime cannot have an image
    │   │   ├── SandboxLostError       3   a machine of another framework was lost with its sandbox
    │   │   ├── NoRoomError            3   the runtime currently has no room for another sandbox
    │   │   └── NodeLostError          3   a node of a cluster no longer answers
    │   ├── EndpointError              3   a model endpoint does not answer
    │   ├── QueueFullError             3   the queue of a scorer is full
    │   └── ScorerClosedError          3   a scorer, or the service it belongs to, is being stopped
    ├── CleanupError                   4   some sandboxes could not be stopped
    └── InterruptedRunError          130   Ctrl-C (143 when it was SIGTERM, 129 when the terminal was closed)
"""

from __future__ import annotations

import errno
import signal
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

BUG_EXIT_CODE = 70
"""The exit code after an unexpected error, which is a bug of sandrl (`EX_SOFTWARE` in sysexits.h)."""

_USERS_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class SandrlError(Exception):
    """Base of every error sandrl raises on purpose.

    Args:
        message: The problem and the affected input, in one line; fields have their names in Python and in files.
        hint: The next step for the user, in one line.
        fields: The fields that message and hint name, which the command line replaces by its flags. A field name that
            is an ordinary word must be the first word of the text or stand in backticks.
    """

    exit_code: int = 1

    def __init__(self, message: str, *, hint: str | None = None, fields: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.fields = fields


class UsageError(SandrlError):
    """A value, or a combination of values, that cannot work."""

    exit_code = 2


class InputError(UsageError):
    """A file (`-` for standard input), line (from 1) or field that cannot be used."""

    def __init__(
        self,
        message: str,
        *,
        path: str | Path | None = None,
        line: int | None = None,
        field: str | None = None,
        hint: str | None = None,
        fields: tuple[str, ...] = (),
    ) -> None:
        place = "" if path is None else str(path)
        if line is not None:
            place = f"{place}:{line}" if place else f"line {line}"
        parts = [part for part in (place, f"field {field!r}" if field else "", message) if part]
        super().__init__(": ".join(parts), hint=hint, fields=fields)
        self.reason = message
        self.path = None if path is None else str(path)
        self.line = line
        self.field = field

    def at(self, path: str | Path, line: int | None = None, *, field: str | None = None) -> InputError:
        """The same error with its place; the field stays unless another is given."""
        place = field or self.field
        return InputError(self.reason, path=path, line=line, field=place, hint=self.hint, fields=self.fields)


class MissingExtraError(UsageError):
    """An optional dependency that the command needs is not installed."""


class BrokenLibraryError(MissingExtraError):
    """A library is installed and cannot be imported: a file of it, or of what it needs, is missing or does not fit."""


class HardwareError(UsageError):
    """The command needs hardware (a GPU) that this machine does not have."""


class UnknownSandboxError(UsageError):
    """No sandbox has this id."""

    def __init__(self, sandbox_id: str) -> None:
        super().__init__(f"there is no sandbox {sandbox_id!r}", hint="list all sandboxes: sandrl sandboxes ls --all")


class NotRunningError(UsageError):
    """The sandbox has ended or is ending."""

    def __init__(self, sandbox_id: str) -> None:
        super().__init__(
            f"sandbox {sandbox_id!r} is not running", hint=f"show its status: sandrl sandboxes show {sandbox_id}"
        )


class UnknownImageError(UsageError):
    """No stored image, and no system of this machine, has this name or digest.

    `instead` says what there is.
    """

    def __init__(self, name: str, instead: str = "") -> None:
        message = f"there is no image {name!r}"
        super().__init__(f"{message}: {instead}" if instead else message, hint="list the images: sandrl images ls")


class BuildError(SandrlError):
    """A program of a Dockerfile failed; the message names its line, and events have shown its output."""


class ForkedProcessError(UsageError):
    """A forked child process uses sandboxes, or a run, that only its parent can use."""

    def __init__(self, message: str) -> None:
        super().__init__(
            message,
            hint="score in the parent, or start workers with the `spawn` method and make the reward function in each",
        )


class RequestRefusedError(UsageError):
    """A model endpoint refuses the request itself, so a retry would also fail.

    It may name the refused parameter. `is_of_api` is false if the server does not have this address.
    """

    def __init__(self, message: str, *, status: int, parameter: str = "", is_of_api: bool = True) -> None:
        super().__init__(message, hint="check `model` and base_url", fields=("model", "base_url"))
        self.status = status
        self.parameter = parameter
        self.is_of_api = is_of_api


class TrainingError(SandrlError):
    """Training failed: the loss is not a number, or nothing was trained."""


class GateError(SandrlError):
    """A gate that the user set failed, for example a minimum pass rate."""


class UnmeasuredError(SandrlError):
    """Nothing that was measured is wrong, but something could not be measured, such as a task without a solution."""

    exit_code = 5


class BudgetError(SandrlError):
    """The budget of sandbox time or money is used up; finished work is kept."""


class ServiceError(SandrlError):
    """A service outside sandrl did not answer, or refused."""

    exit_code = 3


class RuntimeUnavailableError(ServiceError):
    """The embedded local runtime cannot start, or cannot isolate code, on this machine."""


class SilentDaemonError(RuntimeUnavailableError):
    """The daemon of the local runtime lives and does not answer; if it is wedged, it never will."""

    def __init__(self, message: str, *, hint: str, pid: int, is_wedged: bool) -> None:
        super().__init__(message, hint=hint)
        self.pid = pid
        self.is_wedged = is_wedged


class AuthenticationError(ServiceError):
    """Credentials are missing, wrong or refused."""


class InfrastructureError(ServiceError):
    """Sandboxes failed, and the code in them is not the cause.

    Attributes:
        lost_runtime: Whether the runtime itself failed together with all of its sandboxes.
        never_reached: Whether there was no connection at all, so no requested sandbox can exist.
    """

    lost_runtime: bool = False
    never_reached: bool = False


class NoUserError(InfrastructureError):
    """A sandbox cannot run programs as the user that is asked for; it is there all the same."""


class NoImageError(InfrastructureError):
    """The runtime cannot have an image.

    Attributes:
        is_final: Whether asking again is in vain: the image, its name or its recipe is wrong, and no registry silent.
    """

    def __init__(self, message: str, *, is_final: bool = False, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.is_final = is_final


class SandboxLostError(InfrastructureError):
    """A sandbox, or its runtime, failed or was ended, and no program of it is the cause as far as is known."""


class NoRoomError(InfrastructureError):
    """The runtime currently has no room for a sandbox: a quota, a rate limit, or its capacity.

    It may ask for a waiting time, `retry_seconds`.
    """

    def __init__(self, message: str, *, retry_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_seconds = retry_seconds


class JudgeNotStartedError(InfrastructureError):
    """A sandbox did not start the judge: its image has no `python3`, or one that does not run."""


class NodeLostError(InfrastructureError):
    """A node of a cluster no longer answers, or the process of sandrl on it has ended."""


class EndpointError(ServiceError):
    """A model endpoint does not answer, or its answers are invalid."""


class QueueFullError(ServiceError):
    """The queue of a scorer is full; there may be room after `retry_seconds`."""

    def __init__(self, waiting: int, retry_seconds: float) -> None:
        super().__init__(
            f"the queue is full: {waiting} completions wait to be scored", hint=f"try again in {retry_seconds:.0f} s"
        )
        self.retry_seconds = retry_seconds


class ScorerClosedError(ServiceError):
    """A scorer, or the service it belongs to, is being stopped."""

    def __init__(self) -> None:
        super().__init__("the service is stopping and accepts no more work", hint="try again later")


class CleanupError(SandrlError):
    """Some sandboxes could not be stopped."""

    exit_code = 4


class InterruptedRunError(SandrlError):
    """The user asked the command to stop; the exit code is 128 plus the number of the signal."""

    exit_code = 130

    def __init__(self, message: str, *, signal_number: int = 2, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.signal_number = signal_number
        self.exit_code = 128 + signal_number


def raise_for_end(
    message: str,
    *,
    signal_number: int,
    cleanup_error: CleanupError | None,
    hint: str | None = None,
    exhausted: str = "",
    budget_hint: str = "a larger `budget`",
) -> None:
    """Raises the error of work that was stopped early or left sandboxes behind; returns if the work ended normally.

    The message is `interrupted`, then the saved results and their place. `signal_number` is 0 without a signal, and
    `exhausted` says that a budget is used up. The hints are the next steps if there is nothing to clean up.

    Raises:
        InterruptedRunError: If the user asked to stop; it also says how to clean up, if that is needed.
        BudgetError: If a budget is used up.
        CleanupError: If sandboxes were left behind.
    """
    if signal_number:
        next_step = hint if cleanup_error is None else cleanup_error.hint
        raise InterruptedRunError(message, signal_number=signal_number, hint=next_step)
    if exhausted:
        next_step = budget_hint if cleanup_error is None else cleanup_error.hint
        raise BudgetError(
            f"{exhausted}{message.removeprefix('interrupted')}", hint=next_step, fields=("budget", "cache")
        )
    if cleanup_error is not None:
        raise cleanup_error


class RunOutcome(StrEnum):
    """How a job ended. A job without an outcome is running or was killed."""

    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command and its run end because of an exception."""

    outcome: RunOutcome
    exit_code: int
    message: str
    hint: str | None = None


def ending_of(error: BaseException) -> Ending:
    """Determines how a command and its run end because of an exception."""
    match error:
        case SandrlError():
            is_stopped = isinstance(error, InterruptedRunError | BudgetError)
            outcome = RunOutcome.INTERRUPTED if is_stopped else RunOutcome.FAILED
            return Ending(outcome, error.exit_code, error.message, error.hint)
        case KeyboardInterrupt():
            return Ending(RunOutcome.INTERRUPTED, 128 + signal.SIGINT, "interrupted")
        case SystemExit(code=code):
            # As Python does: nothing is 0, and what is no number is a message.
            number = code if isinstance(code, int) else int(code is not None)
            is_users = number - 128 in _USERS_SIGNALS
            return Ending(
                RunOutcome.INTERRUPTED if is_users else RunOutcome.FAILED, number, f"the process was ended: {code}"
            )
        case BrokenPipeError():
            # The exit code is what a shell makes of the signal.
            return Ending(RunOutcome.FAILED, 128 + signal.SIGPIPE, "the reader of the output pipe has ended")
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            message = f"{error.filename or 'the output'} could not be written: {error.strerror}"
            hint = "free disk space, or write to another place"
            return Ending(RunOutcome.FAILED, ServiceError.exit_code, message, hint)
    message = f"internal error: {type(error).__name__}: {error}"
    return Ending(
        RunOutcome.FAILED,
        BUG_EXIT_CODE,
        message,
        "this is a bug in sandrl; sandrl --debug … shows the traceback",
    )
