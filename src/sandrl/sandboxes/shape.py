"""A shape says how a sandbox differs from the usual one of its job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from sandrl.errors import InputError
from sandrl.runtime.network import ALL_PORTS, Destination, DestinationError, Network
from sandrl.settings import NetworkMode


@dataclass(frozen=True, slots=True)
class State:
    """What programs of a sandbox have changed in its image.

    Attributes:
        digest: SHA-256 of the layer that has these changes, in hexadecimal digits.
        image: The image, as a `Shape` names one.
        path: The layer: a tar archive, compressed with gzip.
        below: The state that the sandbox began with; None for the image itself.
    """

    digest: str
    image: str
    path: Path
    below: State | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """What a sandbox is, where it is not the usual one of its job; None and empty values mean what that one has.

    Attributes:
        image: Its image, as a connection of `Job.with_image` names it.
        memory_bytes: Memory of all its processes.
        processors: How many it has, in parts of one.
        storage_bytes: How much it may write, which is then on disk, where the runtime knows the difference.
        network: What its programs may reach.
        variables: Variables of its programs, besides those of the image.
        directory: The working directory of its programs.
        gpus: How many GPUs it has.
        as_root: Whether its programs run as user 0, whatever the image says.
        state: What it begins with instead of the image alone; a machine makes an image of it first.
        lifetime_seconds: After this the service ends it.
        loopback_ports: Ports of its loopback that lead to the same ones of this machine, also without a network.
    """

    image: str = ""
    memory_bytes: int | None = None
    processors: float | None = None
    storage_bytes: int | None = None
    network: Network | None = None
    variables: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    directory: str | None = None
    gpus: int = 0
    as_root: bool = False
    state: State | None = None
    lifetime_seconds: float | None = None
    loopback_ports: tuple[int, ...] = ()

    @property
    def is_usual(self) -> bool:
        """Whether it differs in the image at most."""
        return all(getattr(self, each.name) == each.default for each in fields(self) if each.name != "image")


USUAL = Shape()
"""The usual sandbox of a job."""


def with_loopback(network: Network | None, ports: Iterable[int]) -> Network:
    """A network that also has ports of this machine's loopback."""
    network = network or Network()
    opened = (*network.private, *(Destination.parse(f"127.0.0.1:{port}", ALL_PORTS) for port in ports))
    mode = NetworkMode.ALLOWLIST if network.mode is NetworkMode.NONE else network.mode
    return replace(network, mode=mode, private=opened)


def network_of(mode: NetworkMode, hosts: Iterable[str], private: Iterable[str] = ()) -> Network:
    """What a sandbox may reach whose hosts are named without ports, so that every port is meant.

    Args:
        hosts: Those of an allow-list.
        private: Of this machine and its networks, with every mode but `none`.

    Raises:
        InputError: If a host is none.
    """
    try:
        allowed = tuple(Destination.parse(host, ALL_PORTS) for host in hosts)
        opened = tuple(Destination.parse(host, ALL_PORTS) for host in private)
        return Network(
            mode,
            allowed if mode is NetworkMode.ALLOWLIST else (),
            () if mode is NetworkMode.NONE else opened,
        )
    except DestinationError as error:
        raise InputError(f"the network: {error}") from error
