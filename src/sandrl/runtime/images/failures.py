"""Failures of requests to a registry: the message of each, and whether another try may help."""

from __future__ import annotations

import json
import random
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

import httpx

from sandrl.errors import AuthenticationError, SandrlError, ServiceError
from sandrl.runtime.images.credentials import Found

_MOST_MESSAGE_BYTES = 64 << 10
_MOST_DOCUMENT_SECONDS = 120.0
_LONGEST_DELAY_SECONDS = 30.0
# A registry that asks for more is not waited for: its limits are for hours.
_MOST_PATIENCE_SECONDS = 120.0
_TRIES = 6
# A transfer that breaks off after less is as one that never began: it would not end.
_LEAST_BYTES = 16 << 10
_TRIES_UNREACHED = 3
_RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})
_PROXY_HINT = "check the name, the network and the proxy (HTTPS_PROXY, NO_PROXY)"
_TRUST_HINT = "set SSL_CERT_FILE to a PEM file of certificates to trust"
_PLAIN_HINT = "for a registry without TLS, add it to SANDRL_INSECURE_REGISTRIES"


@dataclass(eq=False)
class Failure(Exception):
    """A request without the answer that was wanted.

    Attributes:
        error: What to raise if there is no further try.
        is_final: Whether another try would fail, too.
        is_reached: Whether the registry answered at all.
        delay_seconds: How long it asks to wait; None if it does not say.
        status: Of the answer; 0 if there was none.
    """

    error: SandrlError
    is_final: bool = False
    is_reached: bool = True
    delay_seconds: float | None = None
    status: int = 0


class Patience:
    """Decides how long to wait after a failure: longer with every one, until enough arrives again."""

    def __init__(self) -> None:
        self._failures = 0
        self._received = 0
        self._is_reached = False

    def progress(self, size: int) -> None:
        """So many bytes arrived."""
        self._received, self._is_reached = self._received + size, True
        if self._received >= _LEAST_BYTES:
            self._failures = 0

    def delay_after(self, failure: Failure) -> float:
        """The seconds until the next try.

        Raises:
            SandrlError: The failure's error, if no further try is worth it.
        """
        self._failures, self._received = self._failures + 1, 0
        self._is_reached |= failure.is_reached
        tries = _TRIES if self._is_reached else _TRIES_UNREACHED
        asked = failure.delay_seconds or 0.0
        if failure.is_final or self._failures >= tries or asked > _MOST_PATIENCE_SECONDS:
            raise failure.error from failure.__cause__
        return max(asked, min(0.5 * 2.0**self._failures, _LONGEST_DELAY_SECONDS) * random.uniform(0.75, 1.25))


@contextmanager
def translated(host: str) -> Iterator[None]:
    """Raises what a library raises about a connection to a host as a `Failure`."""
    try:
        yield
    except httpx.InvalidURL as error:
        message = f"{host} names an address that is none"
        raise Failure(ServiceError(message, hint="report it to who runs the registry"), is_final=True) from error
    except (httpx.HTTPError, OSError) as error:
        raise _failure_of(error, host) from error


def is_untrusted(failure: Failure) -> bool:
    """Whether a server has a certificate that is not trusted."""
    return any(isinstance(each, ssl.SSLCertVerificationError) for each in _causes(failure))


def content_of(response: httpx.Response, most_bytes: int) -> bytes:
    """The whole content of a small answer.

    Raises:
        Failure: If it is larger, breaks off, or takes minutes.
    """
    host = response.url.netloc.decode("ascii")
    ends_at = time.monotonic() + _MOST_DOCUMENT_SECONDS
    content = bytearray()
    with translated(host):
        for chunk in response.iter_raw():
            content += chunk
            if len(content) > most_bytes or time.monotonic() > ends_at:
                message = f"{host} sends an answer of more than {most_bytes} bytes, or more slowly than anything usable"
                raise Failure(ServiceError(message, hint="report it to who runs the registry"), is_final=True)
    return bytes(content)


def of_status(response: httpx.Response, what: str, found: Found) -> Failure:
    """The failure of an answer that is no success, from a server that was sent this credential, if any."""
    host, status, said, delay = found.registry, response.status_code, _said(response), _delay(response)
    if status in (401, 403):
        return Failure(_denied(what, found, said), is_final=True, status=status)
    if status == 429:
        when = "later" if delay is None else f"in {_duration(delay)}"
        login = "" if found.credential else f"; limits are often higher after a login: {found.login_command}"
        error = ServiceError(f"{host} limits requests (429){said}", hint=f"try again {when}{login}")
        return Failure(error, delay_seconds=delay, status=status)
    server = response.url.netloc.decode("ascii")
    error = ServiceError(f"{server} answers {status} for {what}{said}", hint="try again later")
    return Failure(error, is_final=status not in _RETRIED, delay_seconds=delay, status=status)


def _denied(what: str, found: Found, said: str) -> AuthenticationError:
    if found.credential is not None:
        message = f"{found.registry} denies access to {what} with the credentials of {found.credential.source}{said}"
        return AuthenticationError(message, hint=f"check the name, or log in again: {found.login_command}")
    message = f"{found.registry} denies access to {what}: it does not exist, or needs a login{said}"
    problem = f"{found.problem}; " if found.problem else ""
    return AuthenticationError(message, hint=f"{problem}check the name, or log in: {found.login_command}")


def _said(response: httpx.Response) -> str:
    try:
        first = json.loads(content_of(response, _MOST_MESSAGE_BYTES))["errors"][0]
        text = str(first.get("message") or first.get("code") or "")
    except (Failure, httpx.StreamError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ""
    return f" ({' '.join(text.split())[:200]})" if text else ""


def _delay(response: httpx.Response) -> float | None:
    text = response.headers.get("Retry-After", "").strip()
    if text.isdecimal():
        return float(text[:9])
    try:
        return max(parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _failure_of(error: Exception, host: str) -> Failure:
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            message = f"the certificate of {host} is not trusted: {cause.verify_message}"
            return Failure(ServiceError(message, hint=_TRUST_HINT), is_final=True, is_reached=False)
        if isinstance(cause, ssl.SSLError) and isinstance(error, httpx.ConnectError):
            message = f"{host} does not speak TLS: {cause.reason or cause}"
            return Failure(ServiceError(message, hint=_PLAIN_HINT), is_final=True, is_reached=False)
        if isinstance(cause, socket.gaierror):
            message = f"the name of {host} cannot be resolved: {cause.strerror}"
            return Failure(ServiceError(message, hint=_PROXY_HINT), is_reached=False)
    is_reached = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError | OSError)
    reason = _reason(error)
    message = f"{host} breaks the transfer off: {reason}" if is_reached else f"{host} cannot be reached: {reason}"
    return Failure(ServiceError(message, hint="try again" if is_reached else _PROXY_HINT), is_reached=is_reached)


def _reason(error: Exception) -> str:
    if isinstance(error, httpx.ConnectTimeout):
        return "it does not answer"
    if isinstance(error, httpx.TimeoutException):
        return "it sends nothing"
    system = next((each for each in _causes(error) if isinstance(each, OSError) and each.strerror), None)
    return str(error) or type(error).__name__ if system is None else str(system.strerror)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(10):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__
