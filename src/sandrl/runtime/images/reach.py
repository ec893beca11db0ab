"""Addresses that ADD may reach: those of the public Internet, and hosts that the user has named."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable

import httpx

from sandrl.errors import UsageError
from sandrl.runtime.network import Address, DestinationError, Network
from sandrl.settings import NetworkMode

_PORTS = {"http": 80, "https": 443}


def limited(client: httpx.Client, private_hosts: Iterable[str]) -> httpx.Client:
    """The client, which reaches no address of this machine or its networks but those of `private_hosts`.

    The proxies of the environment are the user's own, and may be anywhere.

    Raises:
        UsageError: If a text is no host.
    """
    try:
        network = Network.of(NetworkMode.PUBLIC, private=private_hosts)
    except DestinationError as error:
        raise UsageError(str(error)) from error
    assert network is not None, "it has a mode"
    # httpx takes the proxies of the environment only without a transport of the caller.
    client._transport = _Limited(client._transport, network)
    return client


class _Limited(httpx.BaseTransport):
    # It connects to the address that it has checked: the next answer about a name may be another.
    def __init__(self, transport: httpx.BaseTransport, network: Network) -> None:
        self._transport = transport
        self._network = network

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        host, port = request.url.host, request.url.port or _PORTS.get(request.url.scheme, 0)
        found = _addresses(host, port, request)
        reached = [each for each in found if self._network.reaches(_named(host), each, port)]
        if not reached:
            message = f"{host}:{port} is of this machine or its networks, and may not be reached"
            raise httpx.ConnectError(message, request=request)
        for address in reached[:-1]:
            try:
                return self._transport.handle_request(_at(address, request))
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
        return self._transport.handle_request(_at(reached[-1], request))

    def close(self) -> None:
        self._transport.close()


def _addresses(host: str, port: int, request: httpx.Request) -> list[Address]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpx.ConnectError(f"the name {host} is not known: {error}", request=request) from error
    return [ipaddress.ip_address(str(place[0]).partition("%")[0]) for *_, place in found]


def _named(host: str) -> str | Address:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return host.lower().removesuffix(".")


def _at(address: Address, request: httpx.Request) -> httpx.Request:
    return httpx.Request(
        request.method,
        request.url.copy_with(host=str(address)),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": request.url.host},
    )
