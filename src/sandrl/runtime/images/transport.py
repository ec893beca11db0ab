"""Requests to a registry: its address and its mirrors, redirects, and what is sent to whom.

A credential is sent to the registry that it is for, and to the server of tokens that this registry names. It is never
sent to another host to which a request is redirected, and never over plain HTTP where the registry has TLS.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from sandrl import __version__
from sandrl.addresses import check_address, refuse_password
from sandrl.errors import ServiceError, UsageError
from sandrl.runtime.images.authorization import Authorization
from sandrl.runtime.images.credentials import Found, find_credential
from sandrl.runtime.images.failures import Failure, is_untrusted, of_status, translated
from sandrl.runtime.images.references import Reference

_CONNECT_SECONDS = 10.0
# A registry that sends nothing for as long is gone.
_SILENCE_SECONDS = 60.0
_MOST_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MIRRORS = "SANDRL_REGISTRY_MIRRORS"
_HUB, _HUB_ADDRESS = "docker.io", "registry-1.docker.io"
# What leads to this machine needs no proxy, and is the one kind of registry that usually has no TLS.
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


def http_client() -> httpx.Client:
    """A client with the proxies and certificates of the environment; several threads may use it.

    Raises:
        UsageError: If a proxy of the environment cannot be used.
    """
    try:
        return httpx.Client(
            verify=ssl.create_default_context(),
            timeout=httpx.Timeout(_SILENCE_SECONDS, connect=_CONNECT_SECONDS, pool=None),
            headers={"User-Agent": f"sandrl/{__version__}", "Accept-Encoding": "identity"},
            mounts={f"all://{host}": None for host in _LOOPBACK},
        )
    except (ValueError, ImportError, httpx.InvalidURL):
        # The text of the error may have the password of the proxy.
        message = "a proxy of the environment cannot be used: its address is not valid, or SOCKS needs `socksio`"
        hint = "check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY"
        raise UsageError(message, hint=hint) from None


@dataclass(slots=True, eq=False)
class Endpoint:
    """A repository on a server: the registry itself, or a mirror of it."""

    address: httpx.URL
    repository: str
    authorization: Authorization
    is_mirror: bool = False
    may_be_plain: bool = False

    @property
    def host(self) -> str:
        return self.address.netloc.decode("ascii")


def endpoints_of(
    client: httpx.Client,
    reference: Reference,
    *,
    mirrors: Iterable[str],
    insecure: Iterable[str],
    environment: Mapping[str, str],
) -> list[Endpoint]:
    """The servers to ask for an image, one after the other: mirrors of its registry (`HOST=ADDRESS`), and itself.

    Raises:
        UsageError: If the address of a mirror is none.
    """

    def endpoint(address: httpx.URL, host: str, prefix: str, *, is_mirror: bool) -> Endpoint:
        repository = f"{prefix}{reference.repository}"

        def find() -> Found:
            return find_credential(host, repository, environment)

        return Endpoint(address, repository, Authorization(client, host, repository, find), is_mirror)

    found = []
    for host, address in map(_mirror, mirrors):
        if host == reference.host:
            url = httpx.URL(address)
            prefix = url.path.strip("/")
            base = url.copy_with(path="/", query=None)
            name = base.netloc.decode("ascii")
            found.append(endpoint(base, name, f"{prefix}/" if prefix else "", is_mirror=True))
    name = _HUB_ADDRESS if reference.host == _HUB else reference.host
    own = endpoint(httpx.URL(f"https://{name}/"), reference.host, "", is_mirror=False)
    own.may_be_plain = own.address.host.strip("[]") in ("localhost", "::1") or (
        own.address.host.startswith("127.") or reference.host in insecure
    )
    return [*found, own]


def _mirror(text: str) -> tuple[str, str]:
    host, _, address = (part.strip() for part in text.partition("="))
    hint = f"set {_MIRRORS} to HOST=ADDRESS, for example docker.io=https://mirror.example.com"
    if not host or not address:
        raise UsageError(f"{_MIRRORS} has {text!r}, which is not HOST=ADDRESS", hint=hint)
    check_address(address, _MIRRORS, hint=hint)
    refuse_password(address, _MIRRORS, hint="log in to the mirror instead: docker login")
    return host, address


class Transport:
    """Asks the servers of one image."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    @contextmanager
    def opened(
        self, endpoint: Endpoint, path: str, headers: Mapping[str, str], *, what: str
    ) -> Iterator[httpx.Response]:
        """Opens the answer to a request for a path below the repository; only a success comes back.

        Raises:
            Failure: If it is none.
        """
        response = self._answer(endpoint, path, headers)
        try:
            if not response.is_success:
                raise _refusal(response, endpoint, what)
            yield response
        finally:
            response.close()

    def _answer(self, endpoint: Endpoint, path: str, headers: Mapping[str, str]) -> httpx.Response:
        try:
            response = self._authorized(endpoint, path, headers)
        except Failure as failure:
            if failure.is_reached or not endpoint.may_be_plain or is_untrusted(failure):
                raise
            endpoint.address = endpoint.address.copy_with(scheme="http")
            response = self._authorized(endpoint, path, headers)
        # What has answered once is not tried in another way later.
        endpoint.may_be_plain = False
        return response

    def _authorized(self, endpoint: Endpoint, path: str, headers: Mapping[str, str]) -> httpx.Response:
        authorization = endpoint.authorization
        url = endpoint.address.join(f"/v2/{endpoint.repository}/{path}")
        sent = authorization.header
        response = self._send(url, headers, sent)
        if response.status_code == 401:
            try:
                is_renewed = authorization.renew(sent, response)
            except BaseException:
                response.close()
                raise
            if is_renewed:
                response.close()
                sent = authorization.header
                response = self._send(url, headers, sent)
        return self._followed(response, headers, sent)

    def _followed(self, response: httpx.Response, headers: Mapping[str, str], authorization: str) -> httpx.Response:
        origin = _origin(response.url)
        for _ in range(_MOST_REDIRECTS):
            if response.status_code not in _REDIRECTS:
                return response
            response.close()
            host = response.url.netloc.decode("ascii")
            with translated(host):
                target = response.url.join(response.headers.get("Location", ""))
            if target.scheme not in ("http", "https") or (response.url.scheme, target.scheme) == ("https", "http"):
                raise _unusable(f"{host} redirects to {target.scheme or 'nothing'}://{target.host}, which is not safe")
            if _origin(target) != origin:
                # Also on the way back: the other host has chosen the address.
                authorization = ""
            response = self._send(target, headers, authorization)
        response.close()
        raise _unusable(f"{response.url.host} redirects without an end")

    def _send(self, url: httpx.URL, headers: Mapping[str, str], authorization: str) -> httpx.Response:
        sent = {**headers, "Authorization": authorization} if authorization else headers
        with translated(url.netloc.decode("ascii")):
            return self._client.send(self._client.build_request("GET", url, headers=sent), stream=True)


def _refusal(response: httpx.Response, endpoint: Endpoint, what: str) -> Failure:
    server = response.url.netloc.decode("ascii")
    if server == endpoint.host:
        return of_status(response, what, endpoint.authorization.found)
    # The address of a redirect is good for a while only: with another try, the registry gives a new one.
    message = f"{server}, to which {endpoint.host} redirects, answers {response.status_code} for {what}"
    return Failure(ServiceError(message, hint="try again later"), status=response.status_code)


def _unusable(message: str) -> Failure:
    return Failure(ServiceError(message, hint="report it to who runs the registry"), is_final=True)


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
