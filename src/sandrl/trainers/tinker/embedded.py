"""An embedded Tinker service: a process that a training starts, that no other program can use, and that ends with it.

The process receives its options and its key through standard input, so neither is in a command line, in an environment
or in a file. It ends when that pipe is closed, which the kernel also does for a killed training. Its imports take as
long as those of ART, so it is started before ART is imported. The rest of a training uses it like any other Tinker
service: by an address and a key in the settings.
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
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO

from sandrl import errors
from sandrl.config.art import ArtTrainConfig
from sandrl.errors import InfrastructureError, InterruptedRunError, SandrlError
from sandrl.events import Emit
from sandrl.models.description import describe
from sandrl.models.places import find_model
from sandrl.sandboxes import Interrupt, Level
from sandrl.settings import Settings
from sandrl.tiny import find_tiny_policy, tiny_policy
from sandrl.trainers.tinker.options import TINY_CONTEXT, ServiceOptions

STATE = "tinker"
"""The directory of the checkpoints, in the run directory."""

LOG = "tinker.log"
"""The file, in the run directory, with what the libraries of the service printed."""

START_SECONDS = 600.0
"""How long the service may take to load its model."""

# Enough to go on from, should the latest be unreadable.
_KEPT = 3
_LOOK_SECONDS = 0.1
_WATCH_SECONDS = 0.5
_END_SECONDS = 15.0
_PROGRAM = "sandrl.trainers.tinker.server"
_MOST_PRINTED = 1 << 20

# Keys of other services, of which the process needs none.
_OTHER_KEYS = frozenset(
    {
        "ART_TINKER_API_KEY", "TINKER_API_KEY", "OPENAI_API_KEY", "WANDB_API_KEY", "CWSANDBOX_API_KEY",
        "AVIATO_API_KEY", "SANDRL_SERVICE_TOKEN",
    }
)  # fmt: skip


def embedded_model(config: ArtTrainConfig, settings: Settings, *, makes: bool, emit: Emit) -> str:
    """Where the model of an embedded service is: a directory, or the name of a model on the hub.

    Without `makes`, a tiny policy that is yet to be made has no place: the answer is empty.

    Raises:
        InputError: If there is no such model, or it cannot be loaded.
    """
    if not config.is_tiny:
        return describe(find_model(config.base_model)).place.name
    if makes:
        return str(tiny_policy(settings.cache_dir, seed=config.seed, emit=emit))
    found = find_tiny_policy(settings.cache_dir, seed=config.seed)
    return "" if found is None else str(found)


class EmbeddedService:
    """The process of an embedded service; it is started at once, and imports its libraries."""

    def __init__(self) -> None:
        self._key = f"tml-{secrets.token_hex(24)}"
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

    def serve(
        self, config: ArtTrainConfig, settings: Settings, *, model: str, run: Path, interrupt: Interrupt
    ) -> Settings:
        """Has the process load its model and listen, and returns the settings with its address and its key.

        The checkpoints are in the run directory. The second wish to stop ends the waiting.

        Raises:
            InputError: If the model cannot be loaded.
            UsageError: If the model does not fit into memory.
            InfrastructureError: If the process ends, or is not ready in time.
            InterruptedRunError: If the user does not want to wait for it.
        """
        options = ServiceOptions(
            model,
            run / STATE,
            trains_all=not config.lora,
            context=TINY_CONTEXT if config.is_tiny else None,
            seed=config.seed,
            keep=_KEPT,
        )
        is_offline = config.is_tiny or find_model(model).is_offline
        request = {
            "options": {**asdict(options), "state": str(options.state)},
            "is_offline": is_offline,
            "key": self._key,
        }
        answer = self._answer(json.dumps(request), interrupt)
        if "address" in answer:
            source = "the embedded service"
            address = str(answer["address"])
            return replace(settings, tinker_api_key=self._key, tinker_api_key_source=source, tinker_base_url=address)
        kind: type[SandrlError] = getattr(errors, answer["kind"])
        # The message is whole: an error that would add the path again is raised as what it is a kind of.
        kind = errors.UsageError if issubclass(kind, errors.UsageError) else kind
        raise kind(answer["error"], hint=answer["hint"], fields=tuple(answer["fields"]))

    def _answer(self, request: str, interrupt: Interrupt) -> dict[str, str]:
        reading = threading.Thread(target=self._ask, args=(request,), name="sandrl-tinker-start", daemon=True)
        reading.start()
        ends_at = time.monotonic() + START_SECONDS
        while reading.is_alive() and time.monotonic() < ends_at:
            if interrupt.level is Level.CANCEL:
                message = "interrupted while the embedded Tinker service started"
                raise InterruptedRunError(message, signal_number=interrupt.signal_number)
            reading.join(_LOOK_SECONDS)
        try:
            answer: dict[str, str] = json.loads(self._line)
        except ValueError:
            raise InfrastructureError(f"the embedded Tinker service is not ready: {self._last_line()}") from None
        return answer

    def _ask(self, request: str) -> None:
        requests, answers = self._pipes
        with suppress(OSError, ValueError):
            requests.write(f"{request}\n")
            requests.flush()
            self._line = answers.readline()

    def check_running(self, run_id: str, cause: BaseException | None = None) -> None:
        """Makes sure that the process that a run uses has not ended, which may be the cause of an error.

        Raises:
            InfrastructureError: If it has.
        """
        if self._process.poll() is not None:
            raise InfrastructureError(
                f"the embedded Tinker service has ended: {self._last_line()}",
                hint=f"sandrl art train --resume {run_id}",
            ) from cause

    @contextmanager
    def cancelling(self, interrupt: Interrupt) -> Iterator[None]:
        """Cancels the work of a `with` block if the process ends: the SDK would wait for it for minutes."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(_WATCH_SECONDS):
                if self._process.poll() is not None:
                    while interrupt.request(0):
                        pass
                    return

        threading.Thread(target=watch, name="sandrl-tinker-watch", daemon=True).start()
        try:
            yield
        finally:
            over.set()

    def keep_log(self, run: Path) -> None:
        """Keeps what the libraries of the service printed, if anything, with the run."""
        printed = self._output()
        if printed.strip():
            with (run / LOG).open("a", encoding="utf-8") as file:
                file.write(printed)

    def close(self) -> None:
        requests, answers = self._pipes
        with suppress(OSError):
            requests.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        answers.close()
        self._printed.close()

    @property
    def _pipes(self) -> tuple[IO[str], IO[str]]:
        assert self._process.stdin is not None, "it is a pipe"
        assert self._process.stdout is not None, "it is a pipe"
        return self._process.stdin, self._process.stdout

    def _output(self) -> str:
        # The last of what was printed.
        size = os.fstat(self._printed.fileno()).st_size
        content = os.pread(self._printed.fileno(), _MOST_PRINTED, max(size - _MOST_PRINTED, 0))
        return content.decode("utf-8", "replace")

    def _last_line(self) -> str:
        lines = self._output().strip().splitlines()
        code = self._process.poll()
        return lines[-1] if lines else "the process does not answer" if code is None else f"exit code {code}"
