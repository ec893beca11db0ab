"""A service of the Tinker API for other programs: its model, its key, and its process until a signal ends it."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sandrl.config.tinker import TinkerServeConfig
from sandrl.config.words import TINY
from sandrl.errors import ServiceError
from sandrl.events import Emit, TinkerServed, ignore
from sandrl.files import kept_secret
from sandrl.models.places import find_model
from sandrl.sandboxes import Interrupt
from sandrl.settings import Settings, private_directory
from sandrl.tiny import tiny_policy
from sandrl.trainers.tinker.options import TINY_CONTEXT, ServiceOptions
from sandrl.trainers.tinker.server import Server, listening, make_service

_LOOK_SECONDS = 0.5
_END_SECONDS = 5.0


def serve(
    config: TinkerServeConfig, settings: Settings, *, emit: Emit = ignore, interrupt: Interrupt | None = None
) -> None:
    """Serves until the user wishes to stop.

    Args:
        config: The model, and where to listen.
        settings: What the environment says; its Tinker key, if there is one, is that of the service.
        emit: Told what happens.
        interrupt: The user's wish to stop.

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
            found = find_model(config.model)
            place, is_offline = found.name, found.is_offline
        options = ServiceOptions(
            place,
            directory,
            alias=TINY if is_tiny else "",
            trains_all=not config.lora,
            context=config.max_context or (TINY_CONTEXT if is_tiny else None),
            seed=config.seed,
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
                    _wait(thread, interrupt)
            finally:
                server.end()
                thread.join(_END_SECONDS)


@contextmanager
def _key_of(settings: Settings, port: int) -> Iterator[tuple[str, str]]:
    """The key that requests must have, and its place: a variable of the user's, or a file that only the user can read.

    Args:
        settings: Has the user's key.
        port: Where the service listens.
    """
    if settings.tinker_api_key is not None:
        yield settings.tinker_api_key, str(settings.tinker_api_key_source)
        return
    folder = private_directory(private_directory(settings.state_dir) / "tinker-keys")
    key = f"tml-{secrets.token_hex(24)}"
    with kept_secret(folder / str(port), key) as path:
        yield key, str(path)


def _wait(server: threading.Thread, interrupt: Interrupt) -> None:
    """Waits for the user's wish to stop.

    Raises:
        ServiceError: If the server ends by itself.
    """
    while not interrupt.level:
        waker = interrupt.waker()
        if interrupt.level:
            return
        try:
            waker.result(_LOOK_SECONDS)
        except TimeoutError:
            if not server.is_alive():
                raise ServiceError("the HTTP server ended") from None
