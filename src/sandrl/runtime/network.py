"""The network of a sandbox: nothing, hosts that are named, or the public Internet.

A destination is the name that a program has asked for, if it has, and its port. Which address that is, the gate finds
out itself, and the address is checked as well: others decide where a name leads. No address of this machine or
of its networks is reached, unless the user has named it.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import struct
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TypeAlias

from sandrl.settings import NetworkMode

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

HTTPS_PORTS = (443, 443)
ALL_PORTS = (1, 65535)
MOST_DESTINATIONS = 256
_LABEL = r"(?!-)[a-z0-9-]{1,63}(?<!-)"
_NAME = re.compile(rf"(?:\*\.)?{_LABEL}(?:\.{_LABEL})*\Z")
_WITH_PORTS = re.compile(r"(?P<host>.*?)(?::(?P<first>[0-9]{1,5})(?:-(?P<last>[0-9]{1,5}))?)?\Z", re.DOTALL)
_MOST_NAME = 253
_GLOBAL6 = ipaddress.IPv6Network("2000::/3")
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
_SPECIAL = tuple(
    map(
        ipaddress.ip_network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
            *("192.0.0.0/24", "192.88.99.0/24", "192.168.0.0/16", "224.0.0.0/3", "2001::/23", "2002::/16"),
            # Looks public, and is the service about machines of a cloud.
            "168.63.129.16/32",
        ),
    )
)
"""IANA's networks for special purposes. Versions of Python know different ones.

Those for examples and for measurements are left out: mirrors and proxies of closed networks have such addresses, which
lead nowhere elsewhere.
"""
_ROUTES, _ROUTES6 = Path("/proc/net/route"), Path("/proc/net/ipv6_route")
_TO_GATEWAY = 0x2
_NEW_ROUTE, _GET_ROUTE, _REQUEST, _TO, _UNICAST, _TYPE_OF_ROUTE = 24, 26, 1, 1, 1, 23
_LOOPBACK_NAME = "localhost"
_LOOPBACK = tuple(map(ipaddress.ip_address, ("127.0.0.1", "::1")))


class DestinationError(ValueError):
    """A text does not name a destination; the message says why."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A host, or several, at some TCP ports.

    Attributes:
        host: A name in lower case (`*.example.org` means the names below it), or a network (`192.0.2.0/24`).
        network: That network, if it is one.

    Raises:
        DestinationError: If the host or the ports are none.
    """

    host: str
    first_port: int
    last_port: int
    network: ipaddress.IPv4Network | ipaddress.IPv6Network | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        network, host = _network_of(self.host), self.host
        if network is None and (not _NAME.match(host) or len(host) > _MOST_NAME or host.replace(".", "").isdigit()):
            raise DestinationError(f"{host!r} is not a host: write NAME, NAME:PORT, an address or a network")
        if not 0 < self.first_port <= self.last_port <= ALL_PORTS[1]:
            raise DestinationError(f"{host!r} has no port from 1 to {ALL_PORTS[1]}")
        object.__setattr__(self, "network", network)
        if network is not None:
            object.__setattr__(self, "host", str(network))

    @classmethod
    def parse(cls, text: str, ports: tuple[int, int] = HTTPS_PORTS) -> Self:
        """Reads `HOST`, `HOST:PORT` or `HOST:FIRST-LAST`; an IPv6 address with a port is in brackets.

        Args:
            ports: The ports of a text that names none, unless it is an address or a network: these have all.

        Raises:
            DestinationError: If it is neither.
        """
        given = text.strip().lower()
        host, first, last = given, None, None
        if _network_of(given) is None:
            found = _WITH_PORTS.match(given)
            assert found is not None, "every text matches"
            host, first, last = found["host"], found["first"], found["last"]
            if host.startswith("[") and host.endswith("]"):
                host = host[1:-1]
        host = host.removesuffix(".")
        if first is not None:
            ports = int(first), int(last or first)
        elif _network_of(host) is not None:
            ports = ALL_PORTS
        return cls(host, *ports)

    @property
    def ports(self) -> tuple[int, int]:
        return self.first_port, self.last_port

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        last = "" if self.first_port == self.last_port else f"-{self.last_port}"
        return f"{host}:{self.first_port}{last}"

    @property
    def is_loopback(self) -> bool:
        return self.host == _LOOPBACK_NAME if self.network is None else self.network.is_loopback

    def covers(self, host: str | Address) -> bool:
        """Whether it means a name or an address, at whichever port."""
        if not isinstance(host, str):
            return self.network is not None and host in self.network
        if self.host.startswith("*."):
            return host.endswith(self.host[1:])
        return host == self.host

    def matches(self, host: str | Address, port: int) -> bool:
        return self.first_port <= port <= self.last_port and self.covers(host)


@dataclass(frozen=True, slots=True)
class Network:
    """What a sandbox may reach.

    Attributes:
        allowed: Of the public Internet, with the mode `allowlist`.
        private: Besides, with every mode but `none`: also addresses of this machine and its networks.
        recording: The file of the recording that it is attached to (`runtime/recording/attachment.py`), if any.
    """

    mode: NetworkMode = NetworkMode.NONE
    allowed: tuple[Destination, ...] = ()
    private: tuple[Destination, ...] = ()
    recording: str = ""

    def __post_init__(self) -> None:
        if len(self.allowed) + len(self.private) > MOST_DESTINATIONS:
            raise DestinationError(f"more than {MOST_DESTINATIONS} hosts are named")
        for each in self.private:
            if not each.is_loopback:
                continue
            if each.first_port != each.last_port or (each.network is not None and each.network.num_addresses > 1):
                raise DestinationError(f"{each.host}: name one port of it: a sandbox has a loopback of its own")

    @classmethod
    def of(cls, mode: NetworkMode | None, allowed: Iterable[str] = (), private: Iterable[str] = ()) -> Self | None:
        """What texts ask for; hosts without a mode mean `allowlist`, and nothing at all means None.

        Raises:
            DestinationError: If a text is no destination, or the mode contradicts them.
        """
        named = tuple(map(Destination.parse, allowed))
        opened = tuple(Destination.parse(text, ALL_PORTS) for text in private)
        if mode is None and not (named or opened):
            return None
        mode = NetworkMode.ALLOWLIST if mode is None else mode
        if mode is NetworkMode.ALLOWLIST and not (named or opened):
            raise DestinationError("an allow-list without a host allows nothing")
        if (named and mode is not NetworkMode.ALLOWLIST) or (opened and mode is NetworkMode.NONE):
            raise DestinationError(f"hosts are named, and the network is {mode.value}")
        return cls(mode, named, opened)

    @property
    def is_reachable(self) -> bool:
        return self.mode is not NetworkMode.NONE

    @property
    def loopback_ports(self) -> tuple[int, ...]:
        """Ports of the sandbox's loopback that mean those of this machine."""
        return tuple(sorted({each.first_port for each in self.private if each.is_loopback}))

    def answers(self, name: str) -> bool:
        """Whether programs may know whether a name exists."""
        return self.mode is NetworkMode.PUBLIC or any(each.covers(name) for each in (*self.allowed, *self.private))

    def permits(self, host: str | Address, port: int) -> bool:
        """Whether programs may ask for a destination; what it leads to is for `reaches`.

        An address of the loopback is the sandbox's own, unless the user has named that of this machine.
        """
        if not isinstance(host, str) and host.is_loopback:
            return bool(self.loopback(port))
        if self.mode is NetworkMode.PUBLIC or self._opens(host, port):
            return True
        return any(each.matches(host, port) for each in self.allowed)

    def reaches(self, host: str | Address, address: Address, port: int) -> bool:
        """Whether the address may be connected to that a destination leads to."""
        return self._opens(host, port) or self._opens(address, port) or is_public(address)

    def _opens(self, host: str | Address, port: int) -> bool:
        return any(each.matches(host, port) for each in self.private)

    def loopback(self, port: int) -> list[Address]:
        """The addresses of this machine's loopback that a port of the sandbox's loopback means."""
        found = (each.network for each in self.private if each.is_loopback and each.first_port == port)
        return [address for network in found for address in (_LOOPBACK if network is None else (network[0],))]

    def document(self) -> dict[str, str]:
        """As text, which `Network.read` reads."""
        hosts = {"allowed": joined(self.allowed), "private": joined(self.private)}
        return {"mode": self.mode.value, **hosts, **({"recording": self.recording} if self.recording else {})}

    @classmethod
    def read(cls, document: dict[str, str]) -> Self:
        mode, allowed, private = NetworkMode(document["mode"]), parsed(document["allowed"]), parsed(document["private"])
        return cls(mode, allowed, private, document.get("recording", ""))


def joined(destinations: Iterable[Destination]) -> str:
    return " ".join(map(str, destinations))


def parsed(text: str, ports: tuple[int, int] = HTTPS_PORTS) -> tuple[Destination, ...]:
    """Reads what `joined` wrote.

    Raises:
        DestinationError: If a word is not a destination.
    """
    return tuple(Destination.parse(word, ports) for word in text.split())


def is_public(address: Address) -> bool:
    """Whether an address is one of the public Internet, and not of this machine."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped
        if inner is None and address in _TRANSLATED:
            inner = ipaddress.IPv4Address(address.packed[-4:])
        if inner is not None:
            return is_public(inner)
        if address not in _GLOBAL6:
            return False
    return not any(address in each for each in _SPECIAL) and not _is_near(address) and not _is_own(address)


def _is_near(address: Address) -> bool:
    # Whether it belongs to a network of this machine, by the routes that need no gateway.
    routes = _near_networks() if address.version == 4 else _near_networks6()
    return any(each.prefixlen and address in each for each in routes)


def _near_networks() -> Iterator[ipaddress.IPv4Network]:
    with suppress(OSError):
        for line in _ROUTES.read_text(encoding="ascii").splitlines()[1:]:
            _, network, _, flags, _, _, _, mask, *_ = line.split()
            if not int(flags, 16) & _TO_GATEWAY:
                place, bits = (int(each, 16).to_bytes(4, sys.byteorder) for each in (network, mask))
                yield ipaddress.IPv4Network((place, int.from_bytes(bits).bit_count()))


def _near_networks6() -> Iterator[ipaddress.IPv6Network]:
    with suppress(OSError):
        for line in _ROUTES6.read_text(encoding="ascii").splitlines():
            network, length, _, _, _, _, _, _, flags, _ = line.split()
            if not int(flags, 16) & _TO_GATEWAY:
                yield ipaddress.IPv6Network((bytes.fromhex(network), int(length, 16)))


def _is_own(address: Address) -> bool:
    # Whether the kernel has a route to it that does not leave the machine; so as well if the kernel does not say.
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    body = struct.pack("=8BI", family, address.max_prefixlen, *bytes(6), 0)
    body += struct.pack("=HH", 4 + len(address.packed), _TO) + address.packed
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
            kernel.send(struct.pack("=IHHII", 16 + len(body), _GET_ROUTE, _REQUEST, 0, 0) + body)
            answer = kernel.recv(4096)
    except OSError:
        return True
    return int.from_bytes(answer[4:6], sys.byteorder) == _NEW_ROUTE and answer[_TYPE_OF_ROUTE] != _UNICAST


def _network_of(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return None if "%" in text else ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
