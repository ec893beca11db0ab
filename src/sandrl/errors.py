"""The one exception tree of sandrl, and what each error makes of a run and of a command.

Everything a user can run into derives from `SandrlError`. `ending_of` maps any exception to the outcome that a run
keeps (`sandrl.runs.session`) and to the message and the exit code of the command (`sandrl.cli.app`), so they agree.

    SandrlError                        1
    ├── UsageError                     2   wrong option or combination of options
    │   ├── InputError                 2   bad file, line or field (names all it knows)
    │   ├── MissingExtraError          2   an optional dependency is not installed
    │   ├── HardwareError              2   what was asked for needs hardware that is not here
    │   ├── UnknownSandboxError        2   no sandbox has this id
    │   ├── NotRunningError            2   the sandbox has ended
    │   ├── ForkedProcessError         2   a forked child uses what only its parent can use
    │   └── RequestRefusedError        2   an endpoint of models refuses the request itself
    ├── TrainingError                  1   training failed: a loss that is no number, no gradient step
    ├── GateError                      1   a gate the user set failed (fail_under, validate, redteam)
    ├── BudgetError                    1   the budget of sandbox time or money is used up; what was done is kept
    ├── ServiceError                   3   something outside sandrl does not answer or refuses
    │   ├── RuntimeUnavailableError    3   the local runtime cannot start or isolate on this machine
    │   ├── AuthenticationError        3   credentials are missing, wrong or refused
    │   ├── InfrastructureError        3   sandboxes failed in a way that is not the code's fault
    │   │   ├── NoRoomError            3   a runtime has no room for another sandbox at the moment
    │   │   └── NodeLostError          3   a node of a cluster does not answer any more
    │   ├── EndpointError              3   an endpoint of models does not answer
    │   ├── QueueFullError             3   a scorer has no room for more completions at the moment
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
"""Of a command that ends with an error nobody has foreseen (`EX_SOFTWARE` in sysexits.h)."""

_USERS_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class SandrlError(Exception):
    """Base of every error sandrl raises on purpose.

    Args:
        message: What happened and to which input, in one line; it calls fields by the names they have in Python and in
            files.
        hint: The next thing to do about it, in one line.
        fields: The fields that message and hint name, which the command line replaces by its flags. One whose name is
            an ordinary word stands at the beginning or in backticks.
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
    """A file, line or field that cannot be used.

    Args:
        message: What is wrong, without the place.
        path: The file (`-` for standard input).
        line: Line number, from 1.
        field: Name of the field in that line.
        hint: The next thing to do about it.
        fields: Fields of a configuration that message and hint name.
    """

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


class HardwareError(UsageError):
    """The command needs hardware (a GPU) that this machine does not have."""


class UnknownSandboxError(UsageError):
    """No sandbox has this id.

    Args:
        sandbox_id: The id.
    """

    def __init__(self, sandbox_id: str) -> None:
        super().__init__(f"there is no sandbox {sandbox_id!r}", hint="sandrl sandboxes ls --all shows those there are")


class NotRunningError(UsageError):
    """The sandbox has ended, or is about to.

    Args:
        sandbox_id: Its id.
    """

    def __init__(self, sandbox_id: str) -> None:
        super().__init__(
            f"sandbox {sandbox_id!r} is not running", hint=f"sandrl sandboxes show {sandbox_id} tells more"
        )


class ForkedProcessError(UsageError):
    """A forked child process uses sandboxes, or a run, that only its parent can use.

    Args:
        message: What the child tried.
    """

    def __init__(self, message: str) -> None:
        super().__init__(
            message,
            hint="score in the parent, or start workers with the `spawn` method and make the reward function in each",
        )


class RequestRefusedError(UsageError):
    """An endpoint of models refuses the request itself; asked again, it would refuse again.

    Args:
        message: What it says.
        status: The HTTP status.
        parameter: The parameter it objects to, if it names one.
        is_of_api: Whether the API itself refuses, and not a server that has no such address.
    """

    def __init__(self, message: str, *, status: int, parameter: str = "", is_of_api: bool = True) -> None:
        super().__init__(message, hint="see `model` and base_url", fields=("model", "base_url"))
        self.status = status
        self.parameter = parameter
        self.is_of_api = is_of_api


class TrainingError(SandrlError):
    """Training failed: its loss is no number, or nothing was trained."""


class GateError(SandrlError):
    """A gate the user set was not reached."""


class BudgetError(SandrlError):
    """The budget of sandbox time or money is used up; what was done until then is kept."""


class ServiceError(SandrlError):
    """Something outside sandrl did not answer, or refused."""

    exit_code = 3


class RuntimeUnavailableError(ServiceError):
    """The embedded local runtime cannot start, or cannot isolate code, on this machine."""


class AuthenticationError(ServiceError):
    """Credentials are missing, wrong or refused."""


class InfrastructureError(ServiceError):
    """Sandboxes failed in a way that is not the fault of the code they ran.

    Attributes:
        lost_runtime: Whether the runtime itself failed, and took its sandboxes along, whatever ran in them.
        never_reached: Whether there was no connection at all, so that nothing that was asked for can exist.
    """

    lost_runtime: bool = False
    never_reached: bool = False


class NoRoomError(InfrastructureError):
    """A runtime has no room for a sandbox at the moment: a quota, a rate, or its capacity.

    Args:
        message: What it says.
        retry_seconds: How long it asks to wait; None if it does not say.
    """

    def __init__(self, message: str, *, retry_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_seconds = retry_seconds


class NodeLostError(InfrastructureError):
    """A node of a cluster does not answer any more, or the process of sandrl on it is gone."""


class EndpointError(ServiceError):
    """An endpoint of models does not answer, or only with what is no answer."""


class QueueFullError(ServiceError):
    """There is no room for completions in the queue of a scorer at the moment.

    Args:
        waiting: How many completions wait.
        retry_seconds: After how long there may be room.
    """

    def __init__(self, waiting: int, retry_seconds: float) -> None:
        super().__init__(
            f"the queue is full: {waiting} completions wait to be scored", hint=f"try again in {retry_seconds:.0f} s"
        )
        self.retry_seconds = retry_seconds


class ScorerClosedError(ServiceError):
    """A scorer, or the service it belongs to, is being stopped."""

    def __init__(self) -> None:
        super().__init__("the service is being stopped and accepts no further work", hint="try again in a moment")


class CleanupError(SandrlError):
    """Some sandboxes could not be stopped."""

    exit_code = 4


class InterruptedRunError(SandrlError):
    """The user asked the command to stop.

    Args:
        message: What was saved, and where.
        signal_number: 2 (SIGINT), 15 (SIGTERM) or 1 (SIGHUP); the exit code is 128 plus it.
        hint: The command that continues or cleans up.
    """

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
    """Raises what a piece of work ends with before its own outcome counts; nothing if it ended by itself and cleanly.

    Args:
        message: `interrupted`, then what was saved, and where.
        signal_number: The signal that asked to stop; 0 if none did.
        cleanup_error: Set if sandboxes were left behind.
        hint: What to do next after an interrupt, where there is nothing to clean up.
        exhausted: Says that a budget is used up; empty if it is not.
        budget_hint: What to do next then.

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
    """How a job ended; one that has none is running, or was killed."""

    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Ending:
    """What an exception makes of the work that it ends.

    Attributes:
        outcome: What a run keeps.
        exit_code: What the command exits with.
        message: What happened, in one line as a rule.
        hint: The next thing to do about it.
    """

    outcome: RunOutcome
    exit_code: int
    message: str
    hint: str | None = None


def ending_of(error: BaseException) -> Ending:
    """What an exception makes of the work that it ends."""
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
            return Ending(RunOutcome.FAILED, 128 + signal.SIGPIPE, "the reader of a pipe is gone")
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            message = f"{error.filename or 'the output'} could not be written: {error.strerror}"
            return Ending(RunOutcome.FAILED, ServiceError.exit_code, message, "make room, or write somewhere else")
    message = f"internal error: {type(error).__name__}: {error}"
    return Ending(RunOutcome.FAILED, BUG_EXIT_CODE, message, "sandrl --debug … shows where")
