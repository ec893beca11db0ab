"""Requests to servers, over connections that the recorder is given, through the user's proxies."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlsplit

import httpcore

from sandrl.runtime.recording.channel import Channel
from sandrl.runtime.recording.request import Request

Connect = Callable[[str, int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Opens a connection to a name or an address, and a port; raises `OSError`."""

_CONNECT_SECONDS, _IDLE_SECONDS = 30.0, 15.0
_IDLE_CONNECTIONS = 32


class Servers:
    """Asks servers.

    Args:
        connect: Opens connections.
        trusted: The certificates that servers must have.
        unverified: Names of servers whose certificates are not checked.
        proxies: The addresses of proxies, by `http` and `https`; `no` has the names that need none, as in `no_proxy`.
        silence_seconds: How long a server may send nothing.
    """

    def __init__(
        self,
        connect: Connect,
        *,
        trusted: ssl.SSLContext,
        unverified: Iterable[str] = (),
        proxies: Mapping[str, str] | None = None,
        silence_seconds: float = 300.0,
    ) -> None:
        self._backend = _Backend(connect)
        self._trusted = trusted
        self._unverified = frozenset(unverified)
        self._proxies = dict(proxies or {})
        self._timeouts = {"connect": _CONNECT_SECONDS, "read": silence_seconds, "write": silence_seconds}
        self._pool = lru_cache(self._new_pool)
        self._pools: list[httpcore.AsyncConnectionPool] = []

    async def ask(self, request: Request, body: AsyncIterable[bytes] | None) -> httpcore.Response:
        """Sends a request; the caller closes the response.

        Raises:
            httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, httpcore.ProxyError: If there is
                no answer.
        """
        proxy = self._proxy(request)
        pool = self._pool(proxy, request.server in self._unverified)
        url = httpcore.URL(
            scheme=request.scheme.encode(),
            host=request.server.encode(),
            port=request.port,
            target=request.target.encode("latin-1"),
        )
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in request.sent_headers()]
        extensions: dict[str, Any] = {"timeout": self._timeouts}
        host = urlsplit(f"//{request.header('host')}").hostname
        if host:
            # A program that connected to an address may have named the server in its request only.
            extensions["sni_hostname"] = host
        return await pool.handle_async_request(
            httpcore.Request(request.method, url, headers=headers, content=body, extensions=extensions)
        )

    async def aclose(self) -> None:
        """Ends all connections."""
        for pool in self._pools:
            await pool.aclose()

    def _proxy(self, request: Request) -> str:
        direct = [each.strip().lstrip(".").lower() for each in self._proxies.get("no", "").split(",")]
        is_direct = any(each == "*" or f".{request.server}".endswith(f".{each}") for each in direct if each)
        return "" if is_direct else self._proxies.get(request.scheme, "")

    def _new_pool(self, proxy: str, is_unverified: bool) -> httpcore.AsyncConnectionPool:
        context = self._trusted
        if is_unverified:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        pool = httpcore.AsyncConnectionPool(
            ssl_context=context,
            proxy=_proxy_of(proxy, self._trusted) if proxy else None,
            # Those who use the recorder have their own limits.
            max_connections=None,
            max_keepalive_connections=_IDLE_CONNECTIONS,
            keepalive_expiry=_IDLE_SECONDS,
            network_backend=self._backend,
        )
        self._pools.append(pool)
        return pool


def _proxy_of(address: str, trusted: ssl.SSLContext) -> httpcore.Proxy:
    parts = urlsplit(address if "://" in address else f"http://{address}")
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    is_secure = parts.scheme == "https"
    port = parts.port or (443 if is_secure else 80)
    credential = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
    url = f"{parts.scheme}://{host}:{port}/"
    return httpcore.Proxy(url, auth=credential, ssl_context=trusted if is_secure else None)


class _Backend(httpcore.AsyncNetworkBackend):
    def __init__(self, connect: Connect) -> None:
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
