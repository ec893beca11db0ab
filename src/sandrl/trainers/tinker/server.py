"""The process of a service: its model, its socket, its end.

`sandrl tinker serve` runs `serve` for other programs. An embedded service is the process
`python -m sandrl.trainers.tinker.server` of a training (`embedded`): standard input contains one line, with the options
and the key as JSON, and standard output gets one line, an object with the address or with the error. The service ends
when standard input is closed, so it never outlives its training.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import torch
import uvicorn
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar, set_verbosity_error

from sandrl.config.tinker import Dtype, TinkerServeConfig
from sandrl.config.words import TINY
from sandrl.errors import InputError, SandrlError, ServiceError, UsageError
from sandrl.events import Emit, TinkerServed, ignore
from sandrl.files import kept_secret
from sandrl.models.description import describe
from sandrl.models.libraries import first_line
from sandrl.models.places import find_model
from sandrl.sandboxes import Interrupt
from sandrl.settings import Settings, private_directory
from sandrl.tiny import tiny_policy
from sandrl.trainers.tinker.app import make_app
from sandrl.trainers.tinker.checkpoints import Checkpoints
from sandrl.trainers.tinker.options import TINY_CONTEXT, ServiceOptions
from sandrl.trainers.tinker.service import Service
from sandrl.trainers.tinker.weights import Base, free_bytes

POLL_SECONDS = 20.0
"""How long a request for a future waits for the answer; the SDK then asks again."""

# Below this size a second thread costs more than it brings, and changes the last digits with the machine.
_SMALL = 10_000_000
_GRACE_SECONDS = 1
_LAST_SECONDS = 5.0
_LOOK_SECONDS = 0.5
# Activations, the libraries, and all that is small.
_ROOM_BYTES = 1 << 30
# What transformers raises for a model that it cannot load.
_UNLOADABLE = (OSError, ValueError, KeyError, ImportError, RuntimeError, AttributeError)


def make_service(options: ServiceOptions, *, is_offline: bool = False) -> Service:
    """Loads the model, and opens the directory of the checkpoints.

    Raises:
        InputError: If the model cannot be loaded, or the directory cannot be made.
        UsageError: If the model does not fit into memory.
    """
    disable_progress_bar()
    set_verbosity_error()
    _check_fits(options, is_offline=is_offline)
    try:
        base = Base(
            options.model,
            alias=options.alias,
            context=options.context,
            is_offline=is_offline,
            dtype=options.dtype,
        )
    except _UNLOADABLE as error:
        raise InputError(f"the model cannot be loaded: {first_line(error)}", path=options.model) from error
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
    return Service(base, checkpoints, options)


def _check_fits(options: ServiceOptions, *, is_offline: bool) -> None:
    try:
        config = AutoConfig.from_pretrained(options.model, local_files_only=is_offline)
        with torch.device("meta"):
            parameters = AutoModelForCausalLM.from_config(config).num_parameters()
    except _UNLOADABLE as error:
        message = f"does not contain a causal language model: {first_line(error)}"
        raise InputError(message, path=options.model) from error
    size = 4 if options.dtype == Dtype.FLOAT32 else 2
    # The base, a sampler's and what a step computes with; masters, gradients and Adam's two moments have 32 bits.
    per_parameter = 3 * size + 16 if options.trains_all else 4 * size
    needed = per_parameter * parameters + _ROOM_BYTES
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
    """A service that answers requests with the right key on a socket.

    `poll_seconds` is how long a request for a future waits for the answer.
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


def serve(
    config: TinkerServeConfig, settings: Settings, *, emit: Emit = ignore, interrupt: Interrupt | None = None
) -> None:
    """Serves other programs until the user wishes to stop.

    The Tinker key of the settings, if there is one, is that of the service.

    Raises:
        UsageError: If the model or the address cannot be used.
        ServiceError: If the server ends by itself.
    """
    interrupt = interrupt or Interrupt()
    is_tiny = config.model == TINY
    directory = private_directory(settings.state_dir) / "tinker" if config.state is None else config.state
    with listening(config.host, config.port) as listener:
        if is_tiny:
            place, is_offline = str(tiny_policy(settings.cache_dir, seed=config.seed or 0, emit=emit)), True
        else:
            found = describe(find_model(config.model)).place
            place, is_offline = found.name, found.is_offline
        options = ServiceOptions(
            place,
            directory,
            alias=TINY if is_tiny else "",
            trains_all=not config.lora,
            context=config.max_context or (TINY_CONTEXT if is_tiny else None),
            seed=config.seed,
            dtype=config.dtype,
            max_queue=config.max_queue,
        )
        service = make_service(options, is_offline=is_offline)
        port: int = listener.getsockname()[1]
        with _key_of(settings, port) as (key, key_place):
            server = Server(service, key)
            thread = threading.Thread(target=server.run, args=([listener],), name="sandrl-tinker-http", daemon=True)
            thread.start()
            try:
                with interrupt.heard():
                    host = f"[{config.host.strip('[]')}]" if ":" in config.host else config.host
                    emit(TinkerServed(f"http://{host}:{port}", place, key_place, settings.tinker_api_key is None))
                    while not interrupt.level:
                        with suppress(TimeoutError):
                            interrupt.waker().result(_LOOK_SECONDS)
                        if not (interrupt.level or thread.is_alive()):
                            raise ServiceError("the HTTP server ended")
            finally:
                server.end()
                thread.join(_LAST_SECONDS)


@contextmanager
def _key_of(settings: Settings, port: int) -> Iterator[tuple[str, str]]:
    # The key, and its place: a variable of the user's, or a file that only the user can read.
    if settings.tinker_api_key is not None:
        yield settings.tinker_api_key, str(settings.tinker_api_key_source)
        return
    folder = private_directory(private_directory(settings.state_dir) / "tinker-keys")
    key = f"tml-{secrets.token_hex(24)}"
    with kept_secret(folder / str(port), key) as path:
        yield key, str(path)


def main() -> None:
    """Serves one training until standard input ends."""
    # Ctrl-C is for the training; it decides when its service ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Libraries print; the answer is a line of its own.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    request = json.loads(sys.stdin.readline() or "null")
    if request is None:
        return
    options = ServiceOptions(**request["options"])
    options = replace(options, state=Path(options.state))
    try:
        service = make_service(options, is_offline=request["is_offline"])
        with listening("127.0.0.1", 0) as listener:
            server = Server(service, request["key"])
            server.end_after(sys.stdin.read)
            print(json.dumps({"address": f"http://127.0.0.1:{listener.getsockname()[1]}"}), file=answers)
            answers.close()
            server.run([listener])
    except SandrlError as error:
        about = {"error": error.message, "hint": error.hint, "fields": error.fields, "kind": type(error).__name__}
        print(json.dumps(about), file=answers, flush=True)


if __name__ == "__main__":
    main()
