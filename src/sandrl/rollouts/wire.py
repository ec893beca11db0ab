"""An OpenAI-compatible endpoint over HTTP: one JSON document asked, one answered.

The design decision: the standard library's client, because an episode needs one request at a time and nothing of an
SDK, and because every version of every trainer's environment has it. An answer counts when all of it is there and it is
JSON; whatever else happens on the way (no connection, a cut or endless answer, 429, 5xx) is asked again with growing
pauses, and is the endpoint's fault in the end, never the model's. Redirections are not followed: the key would be, too.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPMessage
from typing import IO, Any, TypeVar

from sandrl import __version__
from sandrl.addresses import check_address, is_of_this_machine, refuse_password
from sandrl.errors import AuthenticationError, EndpointError, RequestRefusedError
from sandrl.sandboxes import delay_seconds

Answer = TypeVar("Answer")

OPENAI_BASE_URL = "https://api.openai.com/v1"
VLLM_BASE_URL = "http://localhost:8000/v1"

_KEY_HINT = "set OPENAI_API_KEY to a key of that endpoint"
_FIRST_PAUSE_SECONDS = 0.5
# An endpoint that asks for more than this has no room for us today.
_LONGEST_HINT_SECONDS = 60.0
_MOST_BYTES = 64 << 20
_PIECE_BYTES = 64 << 10
_AGAIN = frozenset({408, 409, 425, 429})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model is asked.

    Attributes:
        base_url: Its address, up to and with `/v1`.
        key: What authenticates; None sends nothing.
        timeout_seconds: How long one answer may take.
        retries: How often a question is asked again that got no answer.
    """

    base_url: str
    key: str | None = field(default=None, repr=False)
    timeout_seconds: float = 120.0
    retries: int = 4

    def __post_init__(self) -> None:
        check_address(self.base_url, "--base-url", hint=f"for example {VLLM_BASE_URL}")
        refuse_password(self.base_url, "--base-url", hint=_KEY_HINT)

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine, which no proxy leads to."""
        return is_of_this_machine(self.base_url)


class Stopped(Exception):
    """The answer is not wanted any more."""


class Wire:
    """Asks an endpoint; threads may share one.

    Args:
        endpoint: Whom to ask.
        stop: Once it is set, pauses end and nothing is asked any more.
    """

    def __init__(self, endpoint: Endpoint, stop: threading.Event | None = None) -> None:
        self.endpoint = endpoint
        self._stop = stop or threading.Event()
        proxies = urllib.request.ProxyHandler({} if endpoint.is_local else None)
        self._opener = urllib.request.build_opener(proxies, _NoRedirects)

    def ask(
        self, path: str, body: Mapping[str, Any], read: Callable[[Mapping[str, Any]], Answer]
    ) -> tuple[Answer, int]:
        """Posts a question, as often as it takes.

        Args:
            path: Below the base address.
            body: The question.
            read: Makes an answer of the document that comes back; raises `ValueError` if it is none.

        Returns:
            The answer, and how often the question had to be asked again.

        Raises:
            EndpointError: If there is no answer after all retries.
            RequestRefusedError: If the endpoint refuses the question itself.
            AuthenticationError: If it refuses the key, or the account has no quota.
            Stopped: If the answer is not wanted any more.
        """
        failures = 0
        while not self._stop.is_set():
            try:
                document = self._once(path, body, self.endpoint.timeout_seconds)
                try:
                    return read(document), failures
                except ValueError as error:
                    raise _TryAgain(str(error), is_answer=True) from error
            except _TryAgain as error:
                failures += 1
                if failures > self.endpoint.retries:
                    tries = f" after {failures} tries" if failures > 1 else ""
                    raise EndpointError(f"{self.endpoint.base_url} gives no answer{tries}: {error}") from error
                pause = max(delay_seconds(failures, _FIRST_PAUSE_SECONDS), error.hint_seconds)
                self._stop.wait(pause)
        raise Stopped

    def look(self, path: str, *, timeout_seconds: float = 5.0) -> dict[str, Any] | None:
        """Gets a document once, to see whether the endpoint is there; None if it has no such document.

        Raises:
            EndpointError: If it is not there.
            AuthenticationError: If it refuses the key.
        """
        try:
            return self._once(path, None, timeout_seconds)
        except RequestRefusedError:
            return None
        except _TryAgain as error:
            if error.is_answer:
                return None
            start = (
                "start the server, for example `vllm serve MODEL`" if self.endpoint.is_local else "check the network"
            )
            raise EndpointError(
                f"{self.endpoint.base_url} cannot be reached: {error}", hint=f"{start}, or name another with --base-url"
            ) from error

    def _once(self, path: str, body: Mapping[str, Any] | None, timeout_seconds: float) -> dict[str, Any]:
        data = None if body is None else json.dumps(body, allow_nan=False).encode("ascii")
        request = urllib.request.Request(f"{self.endpoint.base_url.rstrip('/')}/{path}", data)
        request.add_header("Content-Type", "application/json")
        request.add_header("User-Agent", f"sandrl/{__version__}")
        if self.endpoint.key:
            request.add_unredirected_header("Authorization", f"Bearer {self.endpoint.key}")
        ends_at = time.monotonic() + timeout_seconds
        try:
            with self._opener.open(request, timeout=timeout_seconds) as response:
                content = _read(response, ends_at)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error, ends_at) from error
        except urllib.error.URLError as error:
            raise _TryAgain(_reason(error.reason)) from error
        except (OSError, HTTPException) as error:
            raise _TryAgain(_reason(error)) from error
        document = _parsed(content)
        if document is None:
            raise _TryAgain("the answer is cut off, or no JSON", is_answer=True)
        return document

    def _refusal(self, error: urllib.error.HTTPError, ends_at: float) -> Exception:
        """What an HTTP status that is no success means."""
        try:
            text = _read(error, ends_at)
        except (OSError, HTTPException, _TryAgain):
            text = b""
        document = _parsed(text)
        said = (document or {}).get("error", document)
        said = said if isinstance(said, dict) else {"message": said}
        message = " ".join(str(said.get("message") or said.get("detail") or error.reason or "").split())[:500]
        what = f"HTTP {error.code}: {message}" if message else f"HTTP {error.code}"
        if error.code in (401, 403):
            return AuthenticationError(f"{self.endpoint.base_url} refuses access: {what}", hint=_KEY_HINT)
        if said.get("code") == "insufficient_quota":
            return AuthenticationError(f"{self.endpoint.base_url}: {what}", hint="use an account that has quota left")
        if error.code in _AGAIN or error.code >= 500:
            names = {name.lower(): value for name, value in error.headers.items()}
            return _TryAgain(what, hint_seconds=_hint_seconds(names), is_answer=True)
        names_api = isinstance(document, dict) and "error" in document
        return RequestRefusedError(
            f"{self.endpoint.base_url} refuses the request: {what}",
            status=error.code,
            parameter=str(said.get("param") or ""),
            is_of_api=names_api,
        )


class _TryAgain(Exception):
    """There was no answer this time."""

    def __init__(self, message: str, *, hint_seconds: float = 0.0, is_answer: bool = False) -> None:
        super().__init__(message)
        self.hint_seconds = hint_seconds
        self.is_answer = is_answer


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        """Follows none: it becomes the error that its status is."""


def _read(response: Any, ends_at: float) -> bytes:
    pieces: list[bytes] = []
    size = 0
    # Piece by piece: a socket's own time limit begins anew with every byte.
    while piece := response.read1(_PIECE_BYTES):
        pieces.append(piece)
        size += len(piece)
        if size > _MOST_BYTES:
            raise _TryAgain("the answer does not end")
        if time.monotonic() > ends_at:
            raise TimeoutError("timed out")
    return b"".join(pieces)


def _parsed(content: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _reason(error: object) -> str:
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split()) or type(error).__name__


def _hint_seconds(headers: Mapping[str, str]) -> float:
    """How long an endpoint asks to wait, by its headers, their names in lower case."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name, "").strip()
        try:
            seconds = float(text) * scale
        except ValueError:
            try:
                seconds = parsedate_to_datetime(text).timestamp() - time.time()
            except ValueError:
                continue
        if seconds > 0:
            return min(seconds, _LONGEST_HINT_SECONDS)
    return 0.0
