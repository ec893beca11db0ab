"""The proxy's HTTP server: the connections of one conversation, its token, and its limits.

A connection is one end of a pair of sockets, so the proxy listens nowhere by itself: who forwards bytes out of a
sandbox takes the other end. Bodies are read and answered in threads, and the loop of the server is not that of the
models: an agent that keeps its own server busy slows no model.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import socket
import threading
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from typing import Any, TypeAlias, TypeVar

from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from sandrl.closing import Closing
from sandrl.errors import EndpointError, RequestRefusedError
from sandrl.models.client import Stopped
from sandrl.models.loop import LoopThread
from sandrl.models.messages import Reply
from sandrl.models.protocol import Player
from sandrl.rollouts.proxy.protocols import ROUTES, Failure, Protocol, read_json
from sandrl.rollouts.proxy.recording import Prompt, ProxyLimits, Recording, Refused

Scope: TypeAlias = MutableMapping[str, Any]
Event: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Event]]
Send: TypeAlias = Callable[[Event], Awaitable[None]]
Result = TypeVar("Result")

BODY_SECONDS = 60.0
"""How long an agent may take to send the body of a request."""

ALIVE_SECONDS = 15.0
"""How long a stream is quiet at most while the model thinks, so that no client gives it up."""

_LOOP = LoopThread()
_TOKEN_BYTES = 24
_JSON, _STREAM = b"application/json", b"text/event-stream"
# How a model refuses what it is asked, and not who asks.
_OF_QUESTIONS = frozenset({400, 413, 422})
_KEEP_ALIVE_SECONDS = 3600
_MOST_HEADER_BYTES = 64 << 10


class ModelProxy:
    """Has a model answer agents; its conversations may be open at once.

    Args:
        model: Answers with its own sampling settings, whatever an agent asks for. It is not closed by the proxy.
    """

    def __init__(
        self, model: Player, *, body_seconds: float = BODY_SECONDS, alive_seconds: float = ALIVE_SECONDS
    ) -> None:
        self.model = model
        self.body_seconds = body_seconds
        self.alive_seconds = alive_seconds

    def open(self, limits: ProxyLimits | None = None) -> Conversation:
        """A conversation for one episode, which is to be closed."""
        return Conversation(self, limits or ProxyLimits())


class Conversation(Closing):
    """The requests of one episode.

    Attributes:
        token: What the agent gives as its key; it opens this conversation only.
        recording: What was asked and answered so far.
    """

    def __init__(self, proxy: ModelProxy, limits: ProxyLimits) -> None:
        self.token = secrets.token_urlsafe(_TOKEN_BYTES)
        self.recording = Recording(limits)
        self._model = proxy.model
        self._body_seconds = proxy.body_seconds
        self._alive_seconds = proxy.alive_seconds
        self._stop = threading.Event()
        # One body at a time is parsed: as objects it may take twenty times its size.
        self._parsing = threading.Lock()
        self._state = ServerState()
        self._servers: list[asyncio.Server] = []
        self._config = Config(
            self._app,
            http="h11",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            h11_max_incomplete_event_size=_MOST_HEADER_BYTES,
        )
        self._config.load()

    def connect(self) -> socket.socket:
        """A new connection to the proxy, as the client's end of it; beyond the limit it is closed already.

        Raises:
            OSError: If there are no file descriptors left.
        """
        near, far = socket.socketpair()
        try:
            _LOOP.submit(self._accept(far)).result()
        except BaseException:
            near.close()
            far.close()
            raise
        return near

    def listen(self, listener: socket.socket) -> None:
        """Takes connections of a socket that listens, until the conversation is closed, which closes the socket."""
        _LOOP.submit(self._listen(listener)).result()

    def end(self, reason: str) -> None:
        """Has no further request answered; those that wait for an answer get none."""
        self.recording.finish(reason)
        self._stop.set()

    def close(self) -> None:
        self.end("the episode is over")
        _LOOP.submit(self._close()).result()

    async def _accept(self, connection: socket.socket) -> None:
        await asyncio.get_running_loop().connect_accepted_socket(self._connection, connection)

    async def _listen(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        make = loop.create_unix_server if listener.family == socket.AF_UNIX else loop.create_server
        self._servers.append(await make(self._connection, sock=listener))

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for connection in tuple(self._state.connections):
            # A response that is being written is not wanted any more.
            connection.transport.abort()

    def _connection(self) -> H11Protocol:
        return _Connection(self._config, self._state, self.recording)

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path = scope["path"].removeprefix("/v1")
        protocol, action = ROUTES.get(path, (ROUTES["/chat/completions"][0], None))
        response = _Response(send, protocol)
        try:
            self._check_token(scope)
            with self.recording.admitting():
                content, kind = await self._result(response, action, scope, receive)
        except _Gone:
            return
        except Exception as error:  # noqa: BLE001 - every error is answered in the form of the protocol
            await response.fail(self._failure(error))
        else:
            await response.end(HTTPStatus.OK, content, kind)

    async def _result(
        self, response: _Response, action: str | None, scope: Scope, receive: Receive
    ) -> tuple[bytes, bytes]:
        if action is None:
            raise Failure(HTTPStatus.NOT_FOUND, f"there is no {scope['path'][:100]!r} here", kind="not_found_error")
        wanted = "GET" if action == "models" else "POST"
        if scope["method"] != wanted:
            raise Failure(HTTPStatus.METHOD_NOT_ALLOWED, f"the method is {wanted}")
        if action == "models":
            return response.protocol.models([self._model.name]), _JSON
        body = await self._body(scope, receive)
        return await self._answered(response, action, body, receive)

    def _failure(self, error: Exception) -> Failure:
        if isinstance(error, Failure):
            if not self.recording.end and error.__cause__ is None:
                self.recording.refusal = error.message
            return error
        if isinstance(error, Refused) and not error.is_over:
            return Failure(HTTPStatus.TOO_MANY_REQUESTS, str(error), kind="rate_limit_error", waits=True)
        if not isinstance(error, Refused):
            # The agent has found a mistake of the proxy. It does not save the episode from its verdict.
            self.recording.finish(f"the proxy failed: {type(error).__name__}")
        message = f"the episode is over: {self.recording.end}"
        # Agents give up at this status; LiteLLM's, such as mini-swe-agent, repeat others for minutes.
        return Failure(HTTPStatus.UNAUTHORIZED, message, kind="authentication_error", is_final=True)

    def _check_token(self, scope: Scope) -> None:
        given = [
            value.removeprefix(b"Bearer ").strip()
            for name, value in scope["headers"]
            if name in (b"authorization", b"x-api-key")
        ]
        expected = self.token.encode()
        if not any(hmac.compare_digest(each, expected) for each in given):
            message = "the key is not the one of this episode: it is in OPENAI_API_KEY and ANTHROPIC_API_KEY"
            raise Failure(HTTPStatus.UNAUTHORIZED, message, kind="authentication_error", closes=True)

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        most = self.recording.limits.body_bytes
        headers = dict(scope["headers"])
        size = headers.get(b"content-length", b"")
        if headers.get(b"content-encoding", b"identity") != b"identity":
            raise Failure(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send the body without a Content-Encoding", closes=True)
        pieces, taken, has_more = [], int(size) if size.isdigit() else 0, True
        if taken > most:
            raise self._too_large()
        taken = 0
        try:
            async with asyncio.timeout(self._body_seconds):
                while has_more:
                    event = await receive()
                    if event["type"] == "http.disconnect":
                        raise _Gone
                    pieces.append(event.get("body", b""))
                    taken += len(pieces[-1])
                    has_more = event.get("more_body", False)
                    if taken > most:
                        raise self._too_large()
        except TimeoutError:
            message = f"the body did not arrive within {self._body_seconds:g} s"
            raise Failure(HTTPStatus.REQUEST_TIMEOUT, message, closes=True) from None
        return b"".join(pieces)

    def _too_large(self) -> Failure:
        most = self.recording.limits.body_bytes
        self.recording.finish(f"the agent sent a request of more than {most} bytes")
        message = f"the body is larger than {most} bytes"
        return Failure(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message, kind="request_too_large", closes=True)

    # The answer to a body, made in a thread; whoever asks it may go away meanwhile.
    async def _answered(self, response: _Response, action: str, body: bytes, receive: Receive) -> tuple[bytes, bytes]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[tuple[bytes, bytes]] = loop.create_future()
        stop = threading.Event()

        def tell(found: tuple[bytes, bytes] | None, error: BaseException | None) -> None:
            if answer.done():
                return
            if found is not None:
                answer.set_result(found)
            else:
                answer.set_exception(error or _Gone())

        def work() -> None:
            found, failure = None, None
            try:
                found = self._answer(response, action, body, stop)
            except BaseException as error:  # noqa: BLE001 - it is raised again, where the answer is awaited
                failure = error
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(tell, found, failure)

        threading.Thread(target=work, name="sandrl-proxy", daemon=True).start()
        leaving = asyncio.ensure_future(_left(receive))
        try:
            both, first = (answer, leaving), asyncio.FIRST_COMPLETED
            while not (await asyncio.wait(both, timeout=self._alive_seconds, return_when=first))[0]:
                await response.stay_alive()
            if not answer.done():
                raise _Gone
            return answer.result()
        finally:
            stop.set()
            leaving.cancel()
            answer.cancel()

    def _answer(self, response: _Response, action: str, body: bytes, stop: threading.Event) -> tuple[bytes, bytes]:
        protocol = response.protocol
        with self._parsing:
            request = protocol.read(read_json(body))
        response.is_stream = request.is_stream
        if not request.messages:
            raise Failure(HTTPStatus.BAD_REQUEST, "there is no message to answer")
        if action == "count_tokens":
            return _written({"input_tokens": len(body) // 4 + 1}), _JSON
        recording = self.recording
        if request.tools and not self._model.has_tools:
            message = f"tools: {self._model.name} cannot use tools; use a text mode of the agent, or a model with tools"
            raise Failure(HTTPStatus.BAD_REQUEST, message, field="tools")
        with recording.asking():
            prompt = recording.prompt(request.messages, request.tools)
            try:
                reply = self._reply(prompt, _Either(stop, self._stop))
            except Failure:
                raise
            except Stopped:
                raise (Refused(recording.end) if recording.end else _Gone()) from None
            except Exception as error:
                if isinstance(error, RequestRefusedError) and error.status in _OF_QUESTIONS:
                    recording.refusal = error.message
                    raise _refusal(error) from error
                loses = isinstance(error, EndpointError | RequestRefusedError)
                recording.finish("the model failed", loss=str(error) or repr(error), error=None if loses else error)
                message = "the model failed; the episode is over"
                raise Failure(HTTPStatus.BAD_GATEWAY, message, kind="api_error", is_final=True) from error
            recording.record(prompt, reply)
        document = protocol.answer(request, replace(reply.message, seconds=None), reply)
        if request.is_stream:
            return b"".join(protocol.events(request, document)), _STREAM
        return _written(document), _JSON

    # An agent must not be able to lose its episode with a conversation that a model fails at. So the one that was
    # answered first is asked again: if that is answered, and this one fails once more, only this one is refused.
    def _reply(self, prompt: Prompt, stop: threading.Event) -> Reply:
        def ask(asked: Prompt) -> Reply:
            return self._model.reply(asked.messages, asked.tools, stop=stop)

        try:
            return ask(prompt)
        except EndpointError:
            if self.recording.first is None:
                raise
        ask(self.recording.first)
        try:
            return ask(prompt)
        except EndpointError as error:
            message = "the model fails at this conversation, and at no other"
            raise Failure(HTTPStatus.BAD_REQUEST, message, is_final=True) from error


class _Connection(H11Protocol):
    def __init__(self, config: Config, state: ServerState, recording: Recording) -> None:
        super().__init__(config, state, {})
        self._recording = recording

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._recording.limits.connections:
            transport.abort()


class _Response:
    """What is sent for a request; a stream may begin before its answer is there.

    Attributes:
        is_stream: Whether the agent has asked for a stream.
    """

    def __init__(self, send: Send, protocol: Protocol) -> None:
        self.protocol = protocol
        self.is_stream = False
        self._send = send
        self._has_begun = False

    async def stay_alive(self) -> None:
        """Sends what a client reads over, if it waits for a stream."""
        if not self.is_stream:
            return
        if not self._has_begun:
            self._has_begun = True
            await self._begin(HTTPStatus.OK, _STREAM)
        await self._send({"type": "http.response.body", "body": self.protocol.alive, "more_body": True})

    async def end(self, status: int, content: bytes, kind: bytes, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        if not self._has_begun:
            await self._begin(status, kind, [(b"content-length", str(len(content)).encode()), *headers])
        await self._send({"type": "http.response.body", "body": content})

    async def fail(self, failure: Failure) -> None:
        content = self.protocol.broken(failure) if self._has_begun else self.protocol.failure(failure)
        await self.end(failure.status, content, _JSON, failure.headers)

    async def _begin(self, status: int, kind: bytes, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        own = [(b"content-type", kind), (b"cache-control", b"no-store")]
        await self._send({"type": "http.response.start", "status": int(status), "headers": [*own, *headers]})


class _Gone(Exception):
    """Nobody waits for the answer any more."""


class _Either(threading.Event):
    """An event that is set if one of two is."""

    def __init__(self, *events: threading.Event) -> None:
        super().__init__()
        self._events = events

    def is_set(self) -> bool:
        return any(event.is_set() for event in self._events)


# Not in the endpoint's words, which may repeat its address and what it was sent.
def _refusal(error: RequestRefusedError) -> Failure:
    message = error.message.lower()
    if any(word in message for word in ("context", "too long", "max_model", "maximum")):
        message = "prompt is too long: the conversation exceeds the context length of the model"
        return Failure(HTTPStatus.BAD_REQUEST, message, code="context_length_exceeded")
    return Failure(HTTPStatus.BAD_REQUEST, "the model refuses this conversation")


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _written(document: object) -> bytes:
    return json.dumps(document).encode()
