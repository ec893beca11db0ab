"""The client of OpenAI-compatible endpoints: the only module that needs `openai`.

The SDK sends the requests asynchronously, so that one can be cancelled, and hundreds need no thread each. This module
decides what counts as an answer: it must be complete JSON that the caller can parse. After any other outcome (no
connection, a truncated or endless answer, HTML, 5xx) the request is retried; if it still fails, the failure is the
endpoint's and never the model's. After a refusal because of a limit (429, 529, 503 with a time to wait), all requests
wait (`pace.py`). Redirections are not followed, because they would also forward the key, and nothing that the SDK reads
from the environment (keys, headers) is sent.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import CancelledError, wait
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

from sandrl import __version__, forks
from sandrl.addresses import MODEL_KEY_HINT, check_model_address, is_of_this_machine
from sandrl.closing import Closing
from sandrl.config.parts import EndpointPart
from sandrl.errors import AuthenticationError, EndpointError, RequestRefusedError, UsageError
from sandrl.events import Emit, EndpointLimited, ignore
from sandrl.extras import require
from sandrl.models.loop import LOOP, cancel_once
from sandrl.models.pace import PACES, UnavailableError, wait_seconds
from sandrl.sandboxes import delay_seconds

Answer = TypeVar("Answer")

EXTRA = "endpoint"
"""The extra that brings `openai`."""
OPENAI_BASE_URL = "https://api.openai.com/v1"

_PROXY_HINT = "check HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY"
_FIRST_PAUSE_SECONDS = 0.5
# How often a connection that breaks while others are answered is taken for a sign of load, and not for a failure.
_MOST_EXCUSES = 8
# Between two looks at whether the answers are still wanted.
_LOOK_SECONDS = 0.1
_CLOSE_SECONDS = 1.0
_MOST_BYTES = 64 << 20
_AGAIN = frozenset({408, 409, 425})
_LIMITED = frozenset({429, 529})
# Of proxies before a server that has more to do than it can.
_LOADED = frozenset({502, 503, 504})
_NO_QUOTA = frozenset({"insufficient_quota", "billing_hard_limit_reached", "insufficient_balance"})
_BROKEN = frozenset({"RemoteProtocolError", "ReadError", "WriteError"})
# Asks the SDK for the answer before it is read, so that one without an end is noticed.
_UNREAD = {"x-stainless-raw-response": "stream"}
# What a request says besides its body. The SDK would add headers of its own, and those of its environment variables.
_SENT = frozenset({"host", "accept", "accept-encoding", "connection", "content-length", "content-type", *_UNREAD})
_SENT_TO_OPENAI = frozenset({"openai-organization", "openai-project"})


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """Where a model is asked: the address up to and with `/v1`, and the key, None for none."""

    base_url: str
    key: str | None = field(default=None, repr=False)
    timeout_seconds: float = 120.0
    retries: int = 4

    def __post_init__(self) -> None:
        check_model_address(self.base_url)

    @classmethod
    def of(cls, config: EndpointPart, address: str, key: str | None) -> Self:
        return cls(address, key, config.request_timeout_seconds, config.request_retries)

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine, which no proxy leads to."""
        return is_of_this_machine(self.base_url)


@dataclass(frozen=True, slots=True)
class Response(Generic[Answer]):
    """What came of asking.

    Attributes:
        retries: How often the question had to be asked again because of a failure.
    """

    answer: Answer
    retries: int = 0
    waited_seconds: float = 0.0


class Stopped(Exception):
    """The answer is not wanted any more."""


class Client(Closing):
    """Asks an endpoint; threads may share one.

    Args:
        stop: Once it is set, requests in flight are cancelled and nothing is asked any more.
        is_stopping: Whether the user wishes to stop: then no long wait for a limit is waited for.

    Raises:
        MissingExtraError: If `openai` is not installed.
    """

    def __init__(
        self,
        endpoint: ModelEndpoint,
        stop: threading.Event | None = None,
        emit: Emit = ignore,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.endpoint = endpoint
        self._tell = emit
        self._is_stopping = is_stopping
        self._stop = stop or threading.Event()
        self._openai = require("openai", extra=EXTRA)
        # The SDK has changed its HTTP library; whichever it uses is loaded by now.
        libraries = [sys.modules[name] for name in ("httpx", "httpx2") if name in sys.modules]
        self._failures: tuple[type[Exception], ...] = (
            self._openai.APIConnectionError,
            OSError,
            *(library.HTTPError for library in libraries),
        )
        self._unusable = (ValueError, ImportError, *(library.InvalidURL for library in libraries))
        self._tasks: set[asyncio.Task[Any]] = set()
        self._watcher: asyncio.Task[None] | None = None
        self._sdk: Any = None
        self._closes: weakref.finalize[..., Any] | None = None
        forks.watch(self)

    def after_fork(self) -> None:
        """Gives up the connections, which are the parent's."""
        if self._closes is not None:
            self._closes.detach()
        self._sdk = self._closes = self._watcher = None
        self._tasks = set()

    def close(self) -> None:
        """Ends the connections; a client that is asked again makes new ones."""
        if self._closes is not None:
            self._closes()
        self._sdk = self._closes = None

    def run(self, coroutine: Coroutine[Any, Any, Answer], stop: threading.Event | None = None) -> Answer:
        """What a coroutine that asks this client returns, waited for in any thread but the loop's, or `Stopped`."""
        asking = LOOP.submit(coroutine)
        try:
            while stop is not None and not asking.done():
                if stop.is_set():
                    asking.cancel()
                    break
                wait((asking,), _LOOK_SECONDS)
            return asking.result()
        except CancelledError:
            raise Stopped from None

    def ask(self, path: str, body: Mapping[str, Any], read: Callable[[Mapping[str, Any]], Answer]) -> Response[Answer]:
        return self.run(self.request(path, body, read))

    async def request(
        self, path: str, body: Mapping[str, Any], read: Callable[[Mapping[str, Any]], Answer]
    ) -> Response[Answer]:
        """Posts a question, as often as it takes; on the loop of this process.

        Args:
            read: Makes an answer of the document that comes back; raises `ValueError` if it is none.

        Raises:
            EndpointError: If there is no answer after all retries, or the endpoint has limited all requests for long.
            RequestRefusedError: If the endpoint refuses the question itself.
            AuthenticationError: If it refuses the key, or the account has no quota.
            asyncio.CancelledError: If the answer is not wanted any more.
        """
        self._watch_this_task()
        pace = PACES.of(self.endpoint.base_url, self.endpoint.key)
        failures = excuses = 0
        waited = 0.0
        while not self._stop.is_set():
            asked_at = time.monotonic()
            try:
                sent_at = await pace.begin(self._is_stopping)
            except UnavailableError as error:
                raise EndpointError(f"{self.endpoint.base_url} takes no requests for now: {error}") from None
            waited += sent_at - asked_at
            try:
                try:
                    document = await self._once(path, body, self.endpoint.timeout_seconds)
                finally:
                    pace.end()
                pace.answered()
                try:
                    return Response(read(document), failures, waited)
                except ValueError as error:
                    raise _RetryError(str(error), is_answer=True) from error
            except _RateLimitError as error:
                if (slow := pace.refused(sent_at, error.wait_seconds, str(error))) is not None:
                    limited = EndpointLimited(self.endpoint.base_url, str(error), slow.seconds, slow.per_second)
                    self._tell(limited)
            except _RetryError as error:
                is_excused = error.is_load and pace.overloaded(sent_at) and error.is_broken and excuses < _MOST_EXCUSES
                excuses += is_excused
                failures += not is_excused
                if failures > self.endpoint.retries:
                    tries = f" after {failures} tries" if failures > 1 else ""
                    raise EndpointError(f"{self.endpoint.base_url} did not answer{tries}: {error}") from error
                await asyncio.sleep(delay_seconds(failures + excuses, _FIRST_PAUSE_SECONDS))
        raise asyncio.CancelledError

    def look(self, path: str, *, timeout_seconds: float = 5.0) -> dict[str, Any] | None:
        """Gets a document once, None if there is no such document; `EndpointError` if the endpoint is not there."""
        try:
            return self.run(self._once(path, None, timeout_seconds))
        except RequestRefusedError:
            return None
        except _RateLimitError:
            return None
        except _RetryError as error:
            if error.is_answer:
                return None
            start = (
                "start the server, for example `vllm serve MODEL`" if self.endpoint.is_local else "check the network"
            )
            raise EndpointError(
                f"{self.endpoint.base_url} cannot be reached: {error}",
                hint=f"{start}, or name another with base_url",
                fields=("base_url",),
            ) from error

    def _watch_this_task(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "requests are made by tasks of the loop"
        if task not in self._tasks:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if self._watcher is None or self._watcher.done():
            self._watcher = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        # One look for all requests, because a task for each that waits for an event of threads would be a thread each.
        while self._tasks:
            if self._stop.is_set():
                cancel_once(self._tasks)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _once(self, path: str, body: Mapping[str, Any] | None, timeout_seconds: float) -> dict[str, Any]:
        sdk = self._connected()
        options: Any = {"headers": _UNREAD}
        try:
            async with asyncio.timeout(timeout_seconds):
                if body is None:
                    response = await sdk.get(f"/{path}", cast_to=object, options=options)
                else:
                    response = await sdk.post(f"/{path}", cast_to=object, body=body, options=options)
                try:
                    content = await _read(response)
                finally:
                    await response.close()
        except self._openai.APIStatusError as error:
            raise self._refusal(error.status_code, error.response) from error
        except TimeoutError as error:
            raise _RetryError("it did not answer in time", is_load=True) from error
        except self._failures as error:
            is_broken = _is_broken(error)
            raise _RetryError(_reason(error), is_load=is_broken, is_broken=is_broken) from error
        document = _parsed(content)
        if document is None:
            raise _RetryError("the answer is incomplete or is not JSON", is_answer=True)
        return document

    def _connected(self) -> Any:
        if self._sdk is None:
            endpoint = self.endpoint
            try:
                http_client = self._openai.DefaultAsyncHttpxClient(
                    follow_redirects=False,
                    trust_env=not endpoint.is_local,
                    timeout=None,
                    event_hooks={"request": [_header_filter(endpoint)]},
                )
            except self._unusable:
                # Not with the reason, which may repeat the proxy's address, and a password in it.
                raise UsageError(
                    "the proxy that is set in environment variables cannot be used", hint=_PROXY_HINT
                ) from None
            # Without a key the SDK would look for one in the environment; the filter sends what the endpoint has.
            self._sdk = self._openai.AsyncOpenAI(
                base_url=endpoint.base_url, api_key=endpoint.key or "none", max_retries=0, http_client=http_client
            )
            self._closes = weakref.finalize(self, _close, self._sdk, os.getpid())
            self._closes.atexit = False
        return self._sdk

    def _refusal(self, status: int, response: Any) -> Exception:
        document = _parsed(response.content)
        said = (document or {}).get("error", document)
        said = said if isinstance(said, dict) else {"message": said}
        text = said.get("message") or said.get("detail") or response.reason_phrase or ""
        message = " ".join(str(text).split())[:500]
        what = f"HTTP {status}: {message}" if message else f"HTTP {status}"
        if status in (401, 403):
            return AuthenticationError(f"{self.endpoint.base_url} refuses access: {what}", hint=MODEL_KEY_HINT)
        if status == 402 or _NO_QUOTA & {str(said.get("code")).lower(), str(said.get("type")).lower()}:
            hint = "waiting does not help: use an account with remaining quota"
            return AuthenticationError(
                f"{self.endpoint.base_url} has no quota left for this account: {what}", hint=hint
            )
        asked_wait = wait_seconds({name.lower(): value for name, value in response.headers.items()})
        if status in _LIMITED or (status == 503 and asked_wait and response.headers.get("retry-after")):
            return _RateLimitError(what, asked_wait)
        if status in _AGAIN or status >= 500:
            return _RetryError(what, is_answer=True, is_load=status in _LOADED)
        return RequestRefusedError(
            f"{self.endpoint.base_url} refuses the request: {what}",
            status=status,
            parameter=str(said.get("param") or ""),
            is_of_api=isinstance(document, dict) and "error" in document,
        )


class _RetryError(Exception):
    def __init__(
        self, message: str, *, is_answer: bool = False, is_load: bool = False, is_broken: bool = False
    ) -> None:
        super().__init__(message)
        self.is_answer = is_answer
        self.is_load = is_load
        self.is_broken = is_broken


class _RateLimitError(Exception):
    def __init__(self, message: str, wait_seconds: float) -> None:
        super().__init__(message)
        self.wait_seconds = wait_seconds


def _header_filter(endpoint: ModelEndpoint) -> Callable[[Any], Coroutine[Any, Any, None]]:
    sent = _SENT | _SENT_TO_OPENAI if endpoint.base_url.rstrip("/") == OPENAI_BASE_URL else _SENT

    async def leave_out(request: Any) -> None:
        for name in list(request.headers):
            if name.lower() not in sent:
                del request.headers[name]
        if endpoint.key:
            request.headers["Authorization"] = f"Bearer {endpoint.key}"
        request.headers["User-Agent"] = f"sandrl/{__version__}"

    return leave_out


# Closes connections where they were made, if that is this process and its loop still runs.
def _close(sdk: Any, pid: int) -> None:
    if os.getpid() == pid and not sys.is_finalizing():
        LOOP.submit(_closed(sdk))


async def _closed(sdk: Any) -> None:
    async with asyncio.timeout(_CLOSE_SECONDS):
        await sdk.close()


async def _read(response: Any) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in response.iter_bytes():
        pieces.append(piece)
        size += len(piece)
        if size > _MOST_BYTES:
            raise _RetryError("the answer does not end")
    return b"".join(pieces)


def _parsed(content: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _chain(error: BaseException) -> list[BaseException]:
    chain = [error]
    while (inner := chain[-1].__cause__ or chain[-1].__context__) is not None and inner not in chain:
        chain.append(inner)
    return chain


# Whether a connection that was there has broken, as it does where a server has too much to do.
def _is_broken(error: BaseException) -> bool:
    return any(
        isinstance(each, ConnectionError) and not isinstance(each, ConnectionRefusedError) for each in _chain(error)
    ) or any(type(each).__name__ in _BROKEN for each in _chain(error))


# What kept an answer from coming: the innermost error knows best, as the libraries around it say less and less.
def _reason(error: BaseException) -> str:
    chain = _chain(error)
    for each in reversed(chain):
        if isinstance(each, TimeoutError):
            return "it did not answer in time"
        if isinstance(each, OSError) and each.errno:
            return os.strerror(each.errno) if each.errno > 0 else str(each.strerror)
    told = next((text for each in reversed(chain) if (text := " ".join(str(each).split()))), "")
    return told or type(error).__name__
