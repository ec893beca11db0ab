"""Requests to servers, over connections that the recorder is given, through the user's proxies."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

import httpcore

from sandrl.runtime.recording.channel import Channel
from sandrl.runtime.recording.request import DEFAULT_PORTS, Request

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[], Awaitable[Streams]]
"""Opens the connection that a program has asked for; raises `OSError`, or errors that end the program's connection."""

_CONNECT_SECONDS, _IDLE_SECONDS = 30.0, 15.0


@dataclass(frozen=True)
class ServerOptions:
    """How servers are asked.

    Attributes:
        trusted: The certificates that servers must have.
        unverified: Names of servers whose certificates are not checked.
        proxies: The addresses of proxies, by `http` and `https`; `no` has the names that need none, as in `no_proxy`.
        silence_seconds: How long a server may send nothing.
    """

    trusted: ssl.SSLContext = field(default_factory=ssl.create_default_context)
    unverified: frozenset[str] = frozenset()
    proxies: Mapping[str, str] = field(default_factory=dict, repr=False)
    silence_seconds: float = 300.0


class Servers:
    """Asks the server that a program has connected to, over one connection after the other.

    Args:
        connect: Opens connections to it.
    """

    def __init__(self, connect: Connect, options: ServerOptions) -> None:
        self._connect = connect
        self._options = options
        seconds = options.silence_seconds
        self._timeouts = {"connect": _CONNECT_SECONDS, "read": seconds, "write": seconds}
        self._pool: httpcore.AsyncConnectionPool | None = None

    async def ask(self, request: Request, body: AsyncIterable[bytes] | None) -> httpcore.Response:
        """Sends a request; the caller closes the response.

        Raises:
            httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, httpcore.ProxyError: If there is
                no answer.
        """
        if self._pool is None:
            self._pool = self._new_pool(self._proxy(request), request.server in self._options.unverified)
        url = httpcore.URL(
            scheme=request.scheme.encode(),
            host=request.server.encode(),
            port=None if request.port == DEFAULT_PORTS[request.scheme] else request.port,
            target=request.target.encode("latin-1"),
        )
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in request.sent_headers()]
        extensions: dict[str, Any] = {"timeout": self._timeouts}
        host = urlsplit(f"//{request.header('host')}").hostname
        if host:
            # A program that connected to an address may have named the server in its request only.
            extensions["sni_hostname"] = host
        return await self._pool.handle_async_request(
            httpcore.Request(request.method, url, headers=headers, content=body, extensions=extensions)
        )

    async def aclose(self) -> None:
        """Ends all connections."""
        if self._pool is not None:
            await self._pool.aclose()

    def _proxy(self, request: Request) -> str:
        direct = [each.strip().lstrip(".").lower() for each in self._options.proxies.get("no", "").split(",")]
        is_direct = any(each == "*" or f".{request.server}".endswith(f".{each}") for each in direct if each)
        return "" if is_direct else self._options.proxies.get(request.scheme, "")

    def _new_pool(self, proxy: str, is_unverified: bool) -> httpcore.AsyncConnectionPool:
        context = self._options.trusted
        if is_unverified:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return httpcore.AsyncConnectionPool(
            ssl_context=context,
            proxy=_proxy_of(proxy, self._options.trusted) if proxy else None,
            keepalive_expiry=_IDLE_SECONDS,
            # The proxy is the user's, so it may be anywhere.
            network_backend=_Backend(asyncio.open_connection if proxy else lambda *_: self._connect()),
        )


def _proxy_of(address: str, trusted: ssl.SSLContext) -> httpcore.Proxy:
    try:
        parts = urlsplit(address if "://" in address else f"http://{address}")
        port = parts.port
    except ValueError:
        # The text of the error may have a part of a password.
        raise httpcore.ProxyError("the address of its proxy is not valid") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise httpcore.ProxyError("its proxy is not one of HTTP or HTTPS")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    is_secure = parts.scheme == "https"
    port = port or (443 if is_secure else 80)
    credential = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
    url = f"{parts.scheme}://{host}:{port}/"
    return httpcore.Proxy(url, auth=credential, ssl_context=trusted if is_secure else None)


class _Backend(httpcore.AsyncNetworkBackend):
    def __init__(self, connect: Callable[[str, int], Awaitable[Streams]]) -> None:
        self._connect = connect

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> Channel:
        try:
            async with asyncio.timeout(timeout):
                return Channel(*await self._connect(host, port))
        except TimeoutError as error:
            raise httpcore.ConnectTimeout("it did not answer in time") from error
        except socket.gaierror as error:
            raise httpcore.ConnectError("there is no server of this name") from error
        except OSError as error:
            raise httpcore.ConnectError(error.strerror or str(error)) from error

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
