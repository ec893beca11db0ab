"""An embedded Tinker service for one training: its model, its checkpoint directory and its address.

The rest of a training uses an embedded service like any other Tinker service: by an address and a key in the settings.
Only its start, its end and its checkpoint directory (inside the run directory) are handled here.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from sandrl.config.art import ArtTrainConfig
from sandrl.errors import InfrastructureError
from sandrl.events import Emit
from sandrl.models.places import find_model
from sandrl.sandboxes import Interrupt
from sandrl.settings import Settings
from sandrl.tiny import find_tiny_policy, tiny_policy
from sandrl.trainers.tinker.embedded import EmbeddedService
from sandrl.trainers.tinker.options import TINY_CONTEXT, ServiceOptions

STATE = "tinker"
"""The directory of the checkpoints, in the run directory."""

LOG = "tinker.log"
"""The file, in the run directory, with what the libraries of the service printed."""

# Enough to go on from, should the latest be unreadable.
_KEPT = 3
_LOOK_SECONDS = 0.5


def embedded_model(config: ArtTrainConfig, settings: Settings, *, makes: bool, emit: Emit) -> str:
    """Where the model of an embedded service is.

    Args:
        config: Names the model.
        settings: What the environment says.
        makes: Make the tiny policy, if it is not there.
        emit: Told what happens.

    Returns:
        A directory, or the name of a model on the hub; empty for a tiny policy that is yet to be made.

    Raises:
        InputError: If there is no such model.
    """
    if not config.is_tiny:
        return find_model(config.base_model).name
    if makes:
        return str(tiny_policy(settings.cache_dir, seed=config.seed, emit=emit))
    found = find_tiny_policy(settings.cache_dir, seed=config.seed)
    return "" if found is None else str(found)


def serve_embedded(
    service: EmbeddedService,
    config: ArtTrainConfig,
    settings: Settings,
    *,
    model: str,
    run: Path,
    interrupt: Interrupt,
) -> Settings:
    """Has a service load its model, and returns the settings with its address and its key.

    Args:
        service: The service, which has been started.
        config: How it trains.
        settings: What the environment says.
        model: Where its model is.
        run: The run directory.
        interrupt: The user's wish to stop.

    Raises:
        UsageError: If the model cannot be loaded, or does not fit.
        InfrastructureError: If the service does not start.
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
    try:
        address = service.serve(options, is_offline=is_offline, interrupt=interrupt)
    except InfrastructureError:
        keep_log(service, run)
        raise
    return replace(
        settings, tinker_api_key=service.key, tinker_api_key_source="the embedded service", tinker_base_url=address
    )


@contextmanager
def cancelled_at_its_end(service: EmbeddedService, interrupt: Interrupt) -> Iterator[None]:
    """Cancels the work of a `with` block if the process of the service ends: the SDK would wait for it for minutes."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_LOOK_SECONDS):
            if service.has_ended:
                while interrupt.request(0):
                    pass
                return

    threading.Thread(target=watch, name="sandrl-tinker-watch", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def check_running(service: EmbeddedService, run_id: str, cause: BaseException | None = None) -> None:
    """Makes sure that the process of a service is there.

    Args:
        service: The service.
        run_id: The run that it trains.
        cause: The error that may come of its end.

    Raises:
        InfrastructureError: If the process has ended.
    """
    if service.has_ended:
        raise InfrastructureError(
            f"the embedded Tinker service has ended: {service.last_line()}",
            hint=f"sandrl art train --resume {run_id}",
        ) from cause


def keep_log(service: EmbeddedService, run: Path) -> None:
    """Keeps what the libraries of a service printed, if anything, with the run."""
    printed = service.printed()
    if printed.strip():
        with (run / LOG).open("a", encoding="utf-8") as file:
            file.write(printed)
