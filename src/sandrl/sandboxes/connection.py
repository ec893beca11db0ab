"""Which runtime sandboxes come from, and how it is reached.

The choice is made once, from settings, with a reason in words. The result is a record that every later step uses
unchanged.
"""

from __future__ import annotations

from dataclasses import replace

from sandrl.errors import UsageError
from sandrl.events import Emit, RuntimeChosen, ignore
from sandrl.runtime.network import HTTPS_PORTS, Network
from sandrl.sandboxes.providers import find_provider
from sandrl.sandboxes.providers.protocol import Connection, Packages, Provider
from sandrl.settings import RuntimeKind, Settings

_NO_PACKAGES = Packages()


def connect(
    settings: Settings,
    *,
    runtime: str = RuntimeKind.AUTO,
    image: str | None = None,
    packages: Packages = _NO_PACKAGES,
    memory_bytes: int | None = None,
    network: Network | None = None,
    emit: Emit = ignore,
) -> Connection:
    """Chooses the runtime and makes sure that it is available.

    Raises:
        AuthenticationError: If the remote service was asked for without credentials.
        RuntimeUnavailableError: If the runtime of this machine cannot start or isolate code.
        ServiceError: If packages must be installed, and the package index does not answer.
        UsageError: If requested packages cannot be installed, the address of the remote service is invalid, or the
            runtime cannot give the network.
    """
    provider, settings, reason = _chosen(settings, runtime)
    private = () if network is None else tuple(map(str, network.private))
    connection = provider.connect(
        settings, reason=reason, image=image, packages=packages, private_hosts=private, emit=emit
    )
    if memory_bytes is not None:
        connection = _with_memory(connection, memory_bytes)
    if network is not None:
        connection = _with_network(connection, network)
    emit(
        RuntimeChosen(
            kind=connection.kind,
            reason=connection.reason,
            address=connection.address,
            image=connection.image,
            isolation=connection.isolation,
            network=connection.network.mode.value if connection.network is not None else "",
        )
    )
    return connection


def _with_memory(connection: Connection, memory_bytes: int) -> Connection:
    renew = connection.renew
    again = None if renew is None else lambda: _with_memory(renew(), memory_bytes)
    return replace(connection, memory_bytes=memory_bytes, has_own_memory=True, renew=again)


def _with_network(connection: Connection, network: Network) -> Connection:
    if connection.kind == RuntimeKind.REMOTE:
        other = [each for each in network.allowed if each.network is None and each.ports != HTTPS_PORTS]
        if network.recording:
            raise UsageError("the remote runtime records nothing", hint="use `runtime` local", fields=("runtime",))
        if other or network.private:
            host = (*other, *network.private)[0]
            raise UsageError(
                f"host {host}: the remote runtime reaches names at port 443, and addresses of the Internet alone",
                hint="use `runtime` local, or leave the host out",
                fields=("allow_hosts",) if other else ("private_hosts",),
            )
    renew = connection.renew
    again = None if renew is None else lambda: _with_network(renew(), network)
    return replace(connection, network=network, renew=again)


def find_connection(settings: Settings, *, runtime: str = RuntimeKind.AUTO, emit: Emit = ignore) -> Connection | None:
    """The runtime in its current state, to list and stop existing sandboxes; never starts one.

    Returns:
        The runtime; None if no sandboxes can be listed, see `absence`.

    Raises:
        AuthenticationError: If the remote service was asked for without credentials.
        UsageError: If its address is invalid.
    """
    provider, settings, reason = _chosen(settings, runtime)
    return provider.find(settings, reason=reason, emit=emit)


def absence(settings: Settings, *, runtime: str = RuntimeKind.AUTO) -> str:
    """Why `find_connection` returned None, in a sentence for the user."""
    provider, settings, _ = _chosen(settings, runtime)
    return provider.absence(settings)


def _chosen(settings: Settings, runtime: str) -> tuple[Provider, Settings, str]:
    choice = settings.choose_runtime(runtime)
    if choice.address is not None:
        settings = replace(settings, ray_address=choice.address)
    return find_provider(choice.kind), settings, choice.reason
