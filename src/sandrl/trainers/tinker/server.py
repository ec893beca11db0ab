"""The process of a service: its model, its socket, its end.

One process serves both uses. `sandrl tinker serve` runs it for other programs; an embedded service is the same process,
started by a training with its options and its key on standard input. It ends when standard input is closed, so it never
outlives its training.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import uvicorn
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar, set_verbosity_error

from sandrl.errors import InputError, UsageError
from sandrl.trainers.tinker.app import make_app
from sandrl.trainers.tinker.checkpoints import Checkpoints
from sandrl.trainers.tinker.memory import free_bytes
from sandrl.trainers.tinker.options import ServiceOptions
from sandrl.trainers.tinker.service import Observe, Service, unobserved
from sandrl.trainers.tinker.weights import Base

POLL_SECONDS = 20.0
"""How long a request for a future waits for the answer; the SDK then asks again."""

# Below this size a second thread costs more than it brings, and changes the last digits with the machine.
_SMALL = 10_000_000
_GRACE_SECONDS = 1
_LAST_SECONDS = 5.0
# Activations, the libraries, and all that is small.
_ROOM_BYTES = 1 << 30


def make_service(options: ServiceOptions, *, is_offline: bool = False, observe: Observe = unobserved) -> Service:
    """Loads the model, and opens the directory of the checkpoints.

    Args:
        options: The options of the service.
        is_offline: Look for the model on this machine only.
        observe: See `Service`.

    Raises:
        InputError: If the model cannot be loaded, or the directory cannot be made.
        UsageError: If the model does not fit into memory.
    """
    disable_progress_bar()
    set_verbosity_error()
    _check_fits(options, is_offline=is_offline)
    try:
        base = Base(options.model, alias=options.alias, context=options.context, is_offline=is_offline)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, AttributeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"the model cannot be loaded: {reason}", path=options.model) from error
    if sum(tensor.numel() for tensor in base.weights.values()) < _SMALL and base.device.type == "cpu":
        torch.set_num_threads(1)
    if options.seed is not None:
        torch.manual_seed(options.seed)
    try:
        checkpoints = Checkpoints(options.state, options.keep)
    except BlockingIOError as error:
        raise InputError(
            "is in use by another Tinker service", path=options.state, hint="stop that service first"
        ) from error
    except OSError as error:
        raise InputError(f"cannot be created: {error.strerror}", path=options.state) from error
    return Service(base, checkpoints, options, observe)


def _check_fits(options: ServiceOptions, *, is_offline: bool) -> None:
    """Makes sure that there is memory for the model, its copies and its optimizer.

    Raises:
        InputError: If there is no such model.
        UsageError: If there is too little.
    """
    try:
        config = AutoConfig.from_pretrained(options.model, local_files_only=is_offline)
        with torch.device("meta"):
            parameters = AutoModelForCausalLM.from_config(config).num_parameters()
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, AttributeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"does not contain a causal language model: {reason}", path=options.model) from error
    # The weights, a sampler's and those of a step in training; with all weights also gradients and Adam's two moments.
    copies = 7 if options.trains_all else 4
    needed = 4 * copies * parameters + _ROOM_BYTES
    free = free_bytes()
    if needed > free:
        where = "the GPU" if torch.cuda.is_available() else "this machine"
        raise UsageError(
            f"{options.model} has {parameters / 1e9:.1f} billion parameters: training it takes about"
            f" {needed / 2**30:.0f} GiB, and {where} has {free / 2**30:.0f} GiB free",
            hint="choose a smaller model, or a Tinker service (ART_TINKER_API_KEY, or TINKER_BASE_URL)",
            fields=("base_model", "model"),
        )


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that listens on an address of this machine.

    Raises:
        UsageError: If the address is in use, or not of this machine.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        found = socket.create_server((host.strip("[]"), port), family=family, backlog=1024)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        message = f"cannot listen on host {host} port {port}: {reason}"
        raise UsageError(message, hint="choose another `port`; 0 selects a free port", fields=("port",)) from error
    with found:
        yield found


class Server:
    """A service that answers on a socket.

    Args:
        service: The operations.
        key: The API key that requests must have.
        poll_seconds: How long a request for a future waits for the answer.
    """

    def __init__(self, service: Service, key: str, poll_seconds: float = POLL_SECONDS) -> None:
        app = make_app(service, key, poll_seconds=poll_seconds)
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            timeout_keep_alive=3600,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        self._uvicorn = uvicorn.Server(config)

    def run(self, sockets: list[socket.socket]) -> None:
        """Answers until `end`; then connections are closed, and requests in hand are given up.

        In the main thread SIGTERM and SIGINT end the service, too.
        """
        self._uvicorn.run(sockets)

    def end(self) -> None:
        """Ends the service; from any thread."""
        self._uvicorn.should_exit = True

    def end_after(self, wait: Callable[[], object]) -> None:
        """Ends the service once a function returns, and the process soon after that, whatever the service computes."""

        def watch() -> None:
            wait()
            self.end()
            time.sleep(_LAST_SECONDS)
            os._exit(0)

        threading.Thread(target=watch, name="sandrl-tinker-end", daemon=True).start()
