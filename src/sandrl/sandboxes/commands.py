"""What is run in a sandbox, and what came of it.

The design decision: an outcome is a fact about a command (its exit status, its output, or that it ran out of time).
That the sandbox itself failed is not an outcome but an error: `InfrastructureError`. Nothing can confuse the two.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Command:
    """One command for a sandbox, which is a fresh one unless `Job.launch` is told otherwise.

    Attributes:
        argv: Program and arguments. No checks, and nothing to hide: every process of the sandbox can read them.
        stdin: All of its standard input.
        timeout_seconds: After this the command is killed; the time that a sandbox takes to start does not count.
    """

    argv: tuple[str, ...]
    stdin: bytes = field(default=b"", repr=False)
    timeout_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """How a command ended.

    Attributes:
        sandbox_id: Where it ran.
        exit_code: Its exit status; None if it was killed for running out of time.
        stdout: What it printed.
        stderr: What it printed as errors.
        seconds: From handing it over to its end, the start of the sandbox included.
    """

    sandbox_id: str
    exit_code: int | None
    stdout: bytes = field(default=b"", repr=False)
    stderr: bytes = field(default=b"", repr=False)
    seconds: float = 0.0

    @property
    def timed_out(self) -> bool:
        """Whether it was killed for running out of time."""
        return self.exit_code is None
