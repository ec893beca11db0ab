"""The local runtime: a daemon of this user on this machine, which speaks the SDK's protocol.

A job uses the daemon of its own environment. Commands that list and stop sandboxes cover the daemons of all of them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from sandrl.errors import SandrlError, SilentDaemonError
from sandrl.events import Emit, RuntimeStarting, RuntimeWaitedFor, ignore
from sandrl.runtime import daemon
from sandrl.runtime.limits import MEMORY_BYTES, PREBUILT_PATH
from sandrl.runtime.state import DaemonEndpoint, RuntimeDirectory, find_all
from sandrl.sandboxes.daemons import refined
from sandrl.sandboxes.providers.cwsandbox.client import SdkConnection
from sandrl.sandboxes.providers.local_daemons import DaemonsConnection
from sandrl.sandboxes.providers.protocol import Need, Packages, SharedDirectory
from sandrl.settings import RuntimeKind, Settings

_WAY_OUT = "sandrl runtime status shows its state; sandrl runtime logs may show the reason"


class LocalProvider:
    summary: str = "a daemon of this user runs the sandboxes"
    needs: frozenset[Need] = frozenset({Need.ISOLATION, Need.FILES, Need.PORT})

    def connect(
        self,
        settings: Settings,
        *,
        reason: str,
        image: str | None,
        packages: Packages,
        private_hosts: tuple[str, ...] = (),
        emit: Emit,
    ) -> SdkConnection:
        def connect_again() -> SdkConnection:
            found = _connected(settings, reason, image, packages, private_hosts, emit)
            return replace(found, renew=connect_again)

        return connect_again()

    def find(self, settings: Settings, *, reason: str, emit: Emit = ignore) -> DaemonsConnection | None:
        found = find_all(settings.state_dir)
        daemons = tuple((endpoint, _connection(endpoint, settings, reason, image="")) for endpoint in found)
        if not daemons:
            return None
        return DaemonsConnection(
            kind=RuntimeKind.LOCAL,
            reason=reason,
            address=found[0].base_url,
            image="",
            is_local=True,
            state_dir=settings.state_dir,
            way_out=_WAY_OUT,
            daemons=daemons,
            emit=emit,
        )

    def find_own(self, settings: Settings, *, reason: str) -> SdkConnection | None:
        """The daemon of this environment alone, which can also create sandboxes; None if it does not run."""
        endpoint = daemon.find(settings.state_dir)
        return None if endpoint is None else _connection(endpoint, settings, reason, image="")

    def absence(self, settings: Settings) -> str:
        return "The local runtime is not running, so it has no sandboxes."


def _connected(
    settings: Settings,
    reason: str,
    image: str | None,
    packages: Packages,
    private_hosts: tuple[str, ...],
    emit: Emit,
) -> SdkConnection:
    while True:
        endpoint = daemon.ensure_running(settings.state_dir, on_start=lambda message: emit(RuntimeStarting(message)))
        try:
            status = daemon.status(settings.state_dir, on_wait=lambda message: emit(RuntimeWaitedFor(message)))
        except SilentDaemonError as error:
            raise refined(error, settings.state_dir) from error.__cause__
        if status.running and status.base_url == endpoint.base_url:
            break  # else it ended in between
    stored = _stored_image(image, settings, private_hosts, emit) if image else None
    image = stored or image or status.default_image
    overlay = overlay_of(packages, settings, image, emit)
    return replace(
        _connection(endpoint, settings, reason, image),
        find_image=lambda name, tell: _stored_image(name, settings, private_hosts, tell),
        user_of=lambda name: _user_of(name, settings),
        image_bytes=lambda name: _image_bytes(name, settings),
        add_layers=lambda name, layers: _with_layers(name, layers, settings),
        remove_images=lambda names: _remove_images(names, settings),
        packages=packages,
        overlay=overlay,
        suggested_concurrency=status.suggested_concurrency,
        isolation=status.isolation,
        # What is installed in an image is there to be imported.
        has_site_packages=bool(overlay or stored),
    )


def _stored_image(image: str, settings: Settings, private_hosts: tuple[str, ...], emit: Emit) -> str | None:
    # None for the host's system. The daemon has the user's store, so the image is there when it is needed, and its
    # progress was shown.
    from sandrl.runtime.host.images import find_images, host_alternative, names_host_system
    from sandrl.runtime.images.provision import provide
    from sandrl.runtime.images.store import open_store

    is_stored = open_store(settings).digest_of(image) is not None
    if names_host_system(image) and not is_stored:
        return None
    try:
        return provide(image, settings, environment=os.environ, private_hosts=private_hosts, emit=emit)
    except SandrlError as error:
        error.hint = "; ".join(filter(None, (host_alternative(image, find_images()), error.hint))) or None
        raise


def _user_of(image: str, settings: Settings) -> str | None:
    from sandrl.runtime.images.store import open_store

    found = open_store(settings).find(image)
    return None if found is None else found.config.user


def _image_bytes(image: str, settings: Settings) -> int | None:
    from sandrl.runtime.images.store import open_store

    store = open_store(settings)
    found = store.find(image)
    return None if found is None else sum(map(store.contents.layer_bytes, found.layers))


def _with_layers(image: str, layers: Sequence[tuple[str, Path]], settings: Settings) -> str:
    from sandrl.runtime.images.derived import add_layers
    from sandrl.runtime.images.store import open_store

    return add_layers(open_store(settings), image, layers)


def _remove_images(names: Sequence[str], settings: Settings) -> list[str]:
    from sandrl.runtime.images.removal import remove
    from sandrl.runtime.images.store import open_store

    store = open_store(settings)
    known = [name for name in names if store.digest_of(name) is not None]
    kept = remove(store, known).kept
    return [name for name in known if name.partition("@")[2] in kept]


def overlay_of(packages: Packages, settings: Settings, image: str, emit: Emit) -> str:
    """The name of the layer of packages, which are installed if necessary; empty without any."""
    if packages == Packages():
        return ""
    from sandrl.runtime.packages import build_overlay

    directories = settings.cache_dir, settings.state_dir
    return build_overlay(packages.asked, packages.needed, *directories, image=image, emit=emit)


def _connection(endpoint: DaemonEndpoint, settings: Settings, reason: str, image: str) -> SdkConnection:
    directory = RuntimeDirectory(settings.state_dir, endpoint.name)
    return SdkConnection(
        kind=RuntimeKind.LOCAL,
        reason=reason,
        address=endpoint.base_url,
        image=image,
        is_local=True,
        memory_bytes=MEMORY_BYTES,
        token=endpoint.token,
        state_dir=settings.state_dir,
        prebuilt=SharedDirectory(directory.prebuilt, PREBUILT_PATH),
        way_out=_WAY_OUT,
        connections=partial(daemon.connections_of, endpoint),
        reached=partial(daemon.reached_by, endpoint),
        write_changes=partial(daemon.write_changes, endpoint),
        has_ended=lambda: directory.has_ended(endpoint),
    )


PROVIDER = LocalProvider()
