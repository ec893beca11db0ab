"""The names that programs of one sandbox have asked for, each with an address that means it in this sandbox alone."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from sandrl.runtime.guest.network import GATEWAY, GATEWAY6
from sandrl.runtime.network import Address

MOST_NAMES = 16_384
_FIRST = 256
_KNOWN_SECONDS = 30.0
_THREADS, _MOST_ADDRESSES = 8, 8
_TIMEOUT_SECONDS = 15.0
_BASE = ipaddress.IPv4Address(int(ipaddress.IPv4Address(GATEWAY)) & ~0xFFFF)
_BASE6 = ipaddress.IPv6Address(int(ipaddress.IPv6Address(GATEWAY6)) & ~0xFFFF)


class UnknownNameError(Exception):
    """A name has no address."""


class ResolutionError(Exception):
    """The machine's resolver gave no answer."""


@dataclass(slots=True)
class _Known:
    name: str
    addresses: Sequence[Address]
    since: float


class Names:
    """Names of one sandbox; what they lead to, the resolver of this machine says."""

    def __init__(self) -> None:
        self._known: list[_Known] = []
        self._numbers: dict[str, int] = {}
        # Its own: a resolver may keep one for as long as the servers of a name like.
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="resolver")
        self._lookups: dict[str, asyncio.Task[Sequence[Address]]] = {}

    def address_of(self, name: str, leads_to: Sequence[Address], *, is_ipv6: bool) -> Address | None:
        """The address that means a name from now on; None if there are too many names.

        Args:
            leads_to: What was found for it.
        """
        number = self._numbers.get(name)
        if number is None:
            number = len(self._known)
            if number >= MOST_NAMES:
                return None
            self._numbers[name] = number
            self._known.append(_Known(name, leads_to, time.monotonic()))
        return (_BASE6 if is_ipv6 else _BASE) + _FIRST + number

    def name_of(self, address: Address) -> str | None:
        """The name that an address means; None if it means itself."""
        base = _BASE if address.version == 4 else _BASE6
        number = int(address) - int(base) - _FIRST
        return self._known[number].name if 0 <= number < len(self._known) else None

    def knows(self, name: str) -> bool:
        return name in self._numbers

    async def resolve(self, name: str) -> Sequence[Address]:
        """The addresses of a name.

        Raises:
            UnknownNameError: If it has none.
            ResolutionError: If the resolver fails.
        """
        number = self._numbers.get(name)
        known = None if number is None else self._known[number]
        if known is not None and time.monotonic() - known.since < _KNOWN_SECONDS:
            return known.addresses
        lookup = self._lookups.get(name)
        if lookup is None:
            lookup = self._lookups[name] = asyncio.ensure_future(self._look_up(name))
            lookup.add_done_callback(lambda _: self._lookups.pop(name))
        # Whoever gives up waiting does not undo what others wait for.
        found = await asyncio.shield(lookup)
        if known is not None:
            known.addresses, known.since = found, time.monotonic()
        return found

    async def _look_up(self, name: str) -> Sequence[Address]:
        lookup = asyncio.get_running_loop().run_in_executor(self._threads, _look_up, name)
        try:
            return await asyncio.wait_for(lookup, _TIMEOUT_SECONDS)
        except TimeoutError:
            raise ResolutionError("the resolver of this machine does not answer") from None

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(name: str) -> list[Address]:
    try:
        # The last dot: no domain of this machine is searched.
        found = socket.getaddrinfo(name + ".", None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    except (OSError, UnicodeError) as error:
        missing = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}
        if isinstance(error, UnicodeError) or error.errno in missing:
            raise UnknownNameError(name) from error
        raise ResolutionError(f"the resolver of this machine: {error.strerror}") from error
    addresses = (ipaddress.ip_address(str(each[4][0]).partition("%")[0]) for each in found)
    return list(islice(dict.fromkeys(addresses), _MOST_ADDRESSES))
