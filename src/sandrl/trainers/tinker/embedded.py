"""An embedded Tinker service: a process that a training starts, that no other program can use, and that ends with it.

The process receives its options and its key through standard input, so neither is in a command line, in an environment
or in a file. It ends when that pipe is closed, which the kernel also does for a killed training. Its imports take as
long as those of ART, so it is started before ART is imported.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict

from sandrl import errors
from sandrl.errors import InfrastructureError, InterruptedRunError, SandrlError
from sandrl.sandboxes import Interrupt, Level
from sandrl.trainers.tinker.options import ServiceOptions

START_SECONDS = 600.0
"""How long the service may take to load its model."""

_LOOK_SECONDS = 0.1
_END_SECONDS = 15.0
_PROGRAM = "sandrl.trainers.tinker"
_MOST_PRINTED = 1 << 20

# Keys of other services, of which the process needs none.
_OTHER_KEYS = frozenset(
    {
        "ART_TINKER_API_KEY", "TINKER_API_KEY", "OPENAI_API_KEY", "WANDB_API_KEY", "CWSANDBOX_API_KEY",
        "AVIATO_API_KEY", "SANDRL_SERVICE_TOKEN",
    }
)  # fmt: skip


class EmbeddedService:
    """The process of an embedded service; it is started at once, and imports its libraries.

    Attributes:
        key: The API key of this service.
    """

    def __init__(self) -> None:
        self.key = f"tml-{secrets.token_hex(24)}"
        # A file without a name: the service is started before there is a run directory.
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the service
        environment = {name: value for name, value in os.environ.items() if name not in _OTHER_KEYS}
        self._process = subprocess.Popen(
            [sys.executable, "-m", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._printed,
            text=True,
            # Not of the group that a terminal's Ctrl-C reaches: the training decides when its service ends.
            start_new_session=True,
            env={**environment, "TOKENIZERS_PARALLELISM": "false"},
        )
        self._line = ""

    def serve(self, options: ServiceOptions, *, is_offline: bool, interrupt: Interrupt) -> str:
        """Has the process load its model and listen, and returns its address.

        Args:
            options: The options of the service.
            is_offline: Look for the model on this machine only.
            interrupt: The user's wish to stop; the second ends the waiting.

        Raises:
            InputError: If the model cannot be loaded.
            UsageError: If the model does not fit into memory.
            InfrastructureError: If the process ends, or is not ready in time.
            InterruptedRunError: If the user does not want to wait for it.
        """
        asked = {"options": {**asdict(options), "state": str(options.state)}, "is_offline": is_offline, "key": self.key}
        reading = threading.Thread(target=self._ask, args=(json.dumps(asked),), name="sandrl-tinker-start", daemon=True)
        reading.start()
        ends_at = time.monotonic() + START_SECONDS
        while reading.is_alive() and time.monotonic() < ends_at:
            if interrupt.level is Level.CANCEL:
                message = "interrupted while the embedded Tinker service started"
                raise InterruptedRunError(message, signal_number=interrupt.signal_number)
            reading.join(_LOOK_SECONDS)
        try:
            answer = json.loads(self._line)
        except ValueError:
            raise InfrastructureError(f"the embedded Tinker service is not ready: {self.last_line()}") from None
        if "address" in answer:
            return str(answer["address"])
        kind: type[SandrlError] = getattr(errors, answer["kind"])
        # The message is whole: an error that would add the path again is raised as what it is a kind of.
        kind = errors.UsageError if issubclass(kind, errors.UsageError) else kind
        raise kind(answer["error"], hint=answer["hint"], fields=tuple(answer["fields"]))

    @property
    def has_ended(self) -> bool:
        """Whether the process is over."""
        return self._process.poll() is not None

    def printed(self) -> str:
        """What the libraries of the service printed last."""
        size = os.fstat(self._printed.fileno()).st_size
        content = os.pread(self._printed.fileno(), _MOST_PRINTED, max(size - _MOST_PRINTED, 0))
        return content.decode("utf-8", "replace")

    def last_line(self) -> str:
        """The last line of that, or how the process ended."""
        lines = self.printed().strip().splitlines()
        code = self._process.poll()
        return lines[-1] if lines else "the process does not answer" if code is None else f"exit code {code}"

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None, "it is a pipe"
        assert self._process.stdout is not None, "it is a pipe"
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._printed.close()

    def _ask(self, line: str) -> None:
        assert self._process.stdin is not None, "it is a pipe"
        assert self._process.stdout is not None, "it is a pipe"
        with suppress(OSError, ValueError):
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
            self._line = self._process.stdout.readline()


@contextmanager
def embedded_service() -> Iterator[EmbeddedService]:
    """Starts the process of an embedded service, and ends it at the end of a `with` block."""
    service = EmbeddedService()
    try:
        yield service
    finally:
        service.close()
