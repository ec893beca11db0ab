"""Commands in a sandbox and their outcomes.

An outcome is a fact about a command: its exit status, its output, or that it exceeded its timeout. A failure of the
sandbox itself is not an outcome but an error, `InfrastructureError`, so the two cannot be confused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class WorkerProgram:
    """A program that runs many commands in one sandbox, each in a cell (see `judge/guest/worker.py`).

    Attributes:
        begin: Makes the first block of its standard input from the encoded limits of cells.
    """

    argv: tuple[str, ...]
    begin: Callable[[bytes], bytes] = field(repr=False)


@dataclass(frozen=True, slots=True)
class CellCommand:
    """A command as a worker runs it.

    Attributes:
        program: Names the program that the worker must have received.
        request: Standard input of the command.
        open_bytes: How much of the request a completion may hold.
        is_apart: Whether a judge outside of the cell may judge it, after others and before others.
    """

    worker: WorkerProgram
    program: str
    program_block: bytes = field(repr=False)
    request: bytes = field(repr=False)
    open_bytes: int
    is_apart: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """One command for a sandbox, which is a fresh one unless the arguments of `Job.launch` say otherwise.

    Attributes:
        argv: Program and arguments, without checks and secrets, because every process of the sandbox can read them.
        stdin: Its standard input, or what makes it: most commands run in cells, which take another form of it.
        timeout_seconds: After this the command is killed; the time that a sandbox takes to start does not count.
        cell: The same command for a worker; None for one that needs a sandbox of its own.
        most_output_bytes: How much it may write; a command that writes more is killed, and ends with 141, as one
            without a reader. None for no limit.
    """

    argv: tuple[str, ...]
    stdin: bytes | Callable[[], bytes] = field(default=b"", repr=False)
    timeout_seconds: float = 30.0
    cell: CellCommand | None = field(default=None, repr=False)
    most_output_bytes: int | None = None

    @property
    def input(self) -> bytes:
        return self.stdin if isinstance(self.stdin, bytes) else self.stdin()


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """How a command ended.

    Attributes:
        exit_code: Its exit status; None if it was killed because it exceeded its timeout.
        seconds: The time from handing it over to its end, including the start of the sandbox.
    """

    sandbox_id: str
    exit_code: int | None
    stdout: bytes = field(default=b"", repr=False)
    stderr: bytes = field(default=b"", repr=False)
    seconds: float = 0.0

    @property
    def timed_out(self) -> bool:
        return self.exit_code is None
