"""The client of `sandrl serve`, for programs and for commands that score with a service instead of sandboxes.

Each request has a key, and is sent again with the same key until its answer arrives. So a broken connection, a
restarted service or a full queue costs time but loses no result, and nothing is scored twice if that can be avoided.
The client is asynchronous; the synchronous client runs it in a thread.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, TypeAlias, TypeVar
from urllib.parse import urlsplit

from sandrl import forks
from sandrl.addresses import check_address, is_of_this_machine, refuse_password
from sandrl.closing import Closing
from sandrl.errors import AuthenticationError, ForkedProcessError, InputError, SandrlError, ServiceError, UsageError
from sandrl.events.results import ScoredCompletion
from sandrl.problems import Completion, Problem
from sandrl.remote.episodes import AsyncServiceEpisode, ServiceEpisode
from sandrl.remote.rows import completion_rows, problem_rows
from sandrl.scoring.batch import OnResult
from sandrl.scoring.document import result_of_document, to_line
from sandrl.scoring.summary import ScoreReport
from sandrl.settings import load_settings

ADDRESS_HINT = "use the address that `sandrl serve` prints, for example http://127.0.0.1:8642"
PATIENCE_SECONDS = 300.0
"""How long a request is repeated without any progress."""

_ROWS_OF_REQUEST = 256
_BYTES_OF_REQUEST = 4 << 20
_REQUESTS_AT_ONCE = 4
_CONNECT_SECONDS = 10.0
# The service sends an empty line now and then while it works; a silence as long as this is a connection that is gone.
_SILENCE_SECONDS = 60.0
_LONGEST_DELAY_SECONDS = 30.0
_TOO_MANY, _TOO_LARGE, _UNAUTHORIZED, _FORBIDDEN = 429, 413, 401, 403
_RETRIED = frozenset({_TOO_MANY, 408, 500, 502, 503, 504})
TCP_KEEP_ALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 6),
)
"""Options of both sides' sockets: a peer may disappear without closing, and routers may drop idle connections."""

_Value = TypeVar("_Value")
_Problems: TypeAlias = Mapping[str, Problem | Mapping[str, Any]] | Iterable[Problem | Mapping[str, Any]]


@dataclass(eq=False)
class _Refusal(Exception):
    status: int
    detail: str
    hint: str | None
    retry_seconds: float | None
    place: str = ""


class AsyncServiceClient:
    """A client of a service, for one event loop; close it with `close`, or use it in an `async with` block.

    Args:
        url: The address of the service, as `sandrl serve` prints it.
        token: The token of the service. Default: `SANDRL_SERVICE_TOKEN`, or the token that this user's service on this
            machine has stored.
        patience_seconds: For how many seconds a request is repeated without any progress.
        ca_file: A PEM file with certificates to trust in addition to the system's, for a self-signed certificate.
        name: The name of this client; clients with different names share the service evenly. Default: the address of
            the client.

    Raises:
        UsageError: If the address is not valid, or `ca_file` cannot be used.
        AuthenticationError: If there is no token.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        ca_file: str | Path | None = None,
        name: str = "",
    ) -> None:
        import httpx

        self._httpx = httpx
        check_address(url, "service", hint=ADDRESS_HINT)
        refuse_password(url, "service", hint="set SANDRL_SERVICE_TOKEN to the token of the service")
        self.url = url.rstrip("/")
        is_local = is_of_this_machine(url)
        settings = load_settings()
        token = token or settings.service_token or (_token_of_user(settings.state_dir, url) if is_local else None)
        if token is None:
            message = f"there is no token for the service at {self.url}"
            hint = "set SANDRL_SERVICE_TOKEN to its token; `sandrl serve` prints the file of its token"
            raise AuthenticationError(message, hint=hint)
        headers = {"Authorization": f"Bearer {token}"}
        if name:
            headers["X-Sandrl-Client"] = name
        self._patience_seconds = patience_seconds
        trusted = _trusted(ca_file)
        client = httpx.AsyncClient(
            base_url=self.url,
            headers=headers,
            # What leads to this machine needs no proxy, whatever the environment says.
            trust_env=not is_local,
            transport=httpx.AsyncHTTPTransport(
                verify=trusted,
                socket_options=TCP_KEEP_ALIVE,
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
            )
            if is_local or not _has_proxy()
            else None,
            verify=trusted,
            timeout=httpx.Timeout(_SILENCE_SECONDS, connect=_CONNECT_SECONDS, pool=None),
        )
        self._client = client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections of the client."""
        await self._client.aclose()

    async def score(
        self,
        completions: Iterable[Completion | Mapping[str, Any]],
        problems: _Problems | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        on_result: OnResult | None = None,
        wants_more: Callable[[], bool] = lambda: True,
    ) -> ScoreReport:
        """Scores completions.

        Args:
            completions: N completions: `Completion`, or rows with `task_id`, and `completion` or `code`.
            problems: Their problems, `Problem` or rows in any format of a file, as a mapping by `task_id` or as a list.
                None: the problems that the service was started with.
            options: Scoring options, by their names in a configuration file: `timeout_seconds`, `reward`, …
            on_result: Called with each result as soon as it arrives; `index` is the position of its row, from 0.
            wants_more: Called before each request; if it returns False, the remaining rows are not sent.

        Returns:
            N results in the order of the rows, and their totals; fewer results if `wants_more` returned False.

        Raises:
            InputError: If a completion or a problem is neither an object of sandrl nor a row, or if the service refuses
                a row; the message names the row and its field.
            UsageError: If the completions or problems are not a list, or if the service refuses another part of the
                request.
            AuthenticationError: If the service refuses the token.
            ServiceError: If the service does not answer.
        """
        rows = completion_rows(completions)
        needed = [str(row.get("task_id")) for row in rows]
        rows_of_problems = None if problems is None else problem_rows(problems, needed)
        by_name = {str(row.get("task_id")): row for row in rows_of_problems or ()}
        given = dict(options or {})
        _check_options(given)
        numbered = _numbered(rows)
        results: dict[int, ScoredCompletion] = {}
        job_ids: list[str] = []

        def keep(result: ScoredCompletion) -> None:
            if result.index not in results:
                result = replace(result, id=_own_id(rows[result.index], result.index))
                results[result.index] = result
                if on_result is not None:
                    on_result(result)

        at_once = asyncio.Semaphore(_REQUESTS_AT_ONCE)

        async def score_part(part: list[dict[str, Any]]) -> None:
            async with at_once:
                if not wants_more():
                    return
                body: dict[str, Any] = {"completions": part, "options": given}
                if rows_of_problems is not None:
                    names = list(dict.fromkeys(str(row.get("task_id")) for row in part))
                    # Rows of some formats are named by the service.
                    is_known = all(name in by_name for name in names)
                    body["problems"] = [by_name[name] for name in names] if is_known else rows_of_problems
                job_ids.append(await self._score_part(body, keep))

        tasks = [asyncio.ensure_future(score_part(part)) for part in _parts(numbered)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        ordered = tuple(results[index] for index in sorted(results))
        return ScoreReport(job_ids[0] if job_ids else "", ordered)

    async def execute(self, code: str, **fields: Any) -> dict[str, Any]:
        """Runs a program in a sandbox of the service.

        Args:
            code: The source of the program.
            fields: The other fields of `POST /v1/execute`: `language`, `stdin`, `files`, `fetch`, `timeout_seconds`, …

        Returns:
            The answer of `POST /v1/execute`, as a dictionary.

        Raises:
            UsageError: If the service refuses the request.
            AuthenticationError: If the service refuses the token.
            ServiceError: If the service does not answer.
        """
        return await self._ask("POST", "/v1/execute", {"code": code, **fields})

    async def begin_episode(
        self, task_id: str, *, max_tool_calls: int | None = None, options: Mapping[str, Any] | None = None
    ) -> AsyncServiceEpisode:
        """Begins an episode on a task of the problems that the service was started with.

        Args:
            max_tool_calls: How many calls there may be; None for the default of the service.
            options: Scoring options of the verdict, by their names in a configuration file.

        Raises:
            UsageError: If the service refuses the request.
            AuthenticationError: If the service refuses the token.
            ServiceError: If the service does not answer.
        """
        given = dict(options or {})
        _check_options(given)
        body = {"task_id": task_id, "max_tool_calls": max_tool_calls, "options": given}
        key = {"Idempotency-Key": secrets.token_hex(16)}
        return AsyncServiceEpisode(self._ask, await self._ask("POST", "/v1/episodes", body, key))

    async def episodes(self) -> list[dict[str, Any]]:
        """The episodes of this client that the service knows, as `GET /v1/episodes` describes them.

        Raises:
            AuthenticationError: If the service refuses the token.
            ServiceError: If the service does not answer.
        """
        found: list[dict[str, Any]] = (await self._ask("GET", "/v1/episodes"))["episodes"]
        return found

    async def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        content = None if body is None else to_line(dict(body))

        async def ask(_: Callable[[], None]) -> dict[str, Any]:
            # A program may take longer than any silence.
            response = await self._client.request(
                method,
                path,
                content=content,
                headers={**_JSON, **(headers or {})},
                timeout=self._httpx.Timeout(None, connect=_CONNECT_SECONDS),
            )
            if not response.is_success:
                raise _refused(response.status_code, response.headers, response.content)
            answer: dict[str, Any] = response.json() if response.content else {}
            return answer

        return await self._until_answered(ask)

    async def is_ready(self) -> bool:
        """Whether the service runs and accepts work."""
        try:
            response = await self._client.get("/readyz")
        except (self._httpx.HTTPError, OSError):
            return False
        return bool(response.status_code == 200)

    async def _score_part(self, body: dict[str, Any], keep: OnResult) -> str:
        content = to_line(body)
        headers = {**_JSON, "Accept": "application/x-ndjson", "Idempotency-Key": secrets.token_hex(16)}

        async def ask(progress: Callable[[], None]) -> str:
            seen = 0
            async with self._client.stream("POST", "/v1/score", content=content, headers=headers) as response:
                if response.status_code != 200:
                    raise _refused(response.status_code, response.headers, await response.aread())
                async for line in response.aiter_lines():
                    if not line.strip():
                        continue
                    document = json.loads(line)
                    if "error" in document:
                        error = document["error"]
                        raise _Refusal(error["status"], error["detail"], error.get("hint"), None)
                    if "summary" in document:
                        return str(document["job_id"])
                    keep(result_of_document(document, int(document["id"])))
                    seen += 1
                    progress()
            raise ConnectionError(f"the answer broke off after {seen} results")

        try:
            return await self._until_answered(ask)
        except _Refusal as refusal:
            if refusal.status != _TOO_LARGE or len(body["completions"]) < 2:
                raise _error_of(refusal, self.url) from None
        # Half as much in each of two requests.
        middle = len(body["completions"]) // 2
        job_id = ""
        for part in (body["completions"][:middle], body["completions"][middle:]):
            names = {str(row.get("task_id")) for row in part}
            smaller = {**body, "completions": part}
            if "problems" in body:
                fewer = [row for row in body["problems"] if str(row.get("task_id")) in names]
                smaller["problems"] = fewer if len(fewer) == len(names) else body["problems"]
            job_id = await self._score_part(smaller, keep)
        return job_id

    async def _until_answered(self, ask: Callable[[Callable[[], None]], Coroutine[Any, Any, _Value]]) -> _Value:
        ends_at = time.monotonic() + self._patience_seconds
        tries = 0

        def progress() -> None:
            nonlocal ends_at, tries
            ends_at, tries = time.monotonic() + self._patience_seconds, 0

        while True:
            try:
                return await ask(progress)
            except _Refusal as refusal:
                if refusal.status == _TOO_LARGE:
                    raise
                if refusal.status not in _RETRIED or time.monotonic() >= ends_at:
                    raise _error_of(refusal, self.url) from None
                delay = refusal.retry_seconds
            except (self._httpx.HTTPError, OSError, ValueError) as error:
                certificate = _certificate_problem(error)
                if certificate or time.monotonic() >= ends_at:
                    raise _unreachable(self.url, error, certificate) from error
                delay = None
            tries += 1
            usual = min(0.25 * 2 ** min(tries, 10), _LONGEST_DELAY_SECONDS)
            # Clients that were refused together must not come back together.
            await asyncio.sleep((delay or usual) * random.uniform(0.75, 1.25))


class ServiceClient(Closing):
    """A client of a service, for any thread; close it with `close`, or use it in a `with` block.

    For its arguments see `AsyncServiceClient`.

    Raises:
        UsageError: If the address is not valid, or `ca_file` cannot be used.
        AuthenticationError: If there is no token.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        ca_file: str | Path | None = None,
        name: str = "",
    ) -> None:
        self._client = AsyncServiceClient(url, token, patience_seconds=patience_seconds, ca_file=ca_file, name=name)
        self.url = self._client.url
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sandrl-client", daemon=True)
        self._thread.start()
        self._is_inherited = False
        forks.watch(self)

    def after_fork(self) -> None:
        """Refuses to work in a forked child: the thread that asks is not in it."""
        self._is_inherited = True

    def begin_scoring(
        self,
        completions: Iterable[Completion | Mapping[str, Any]],
        problems: _Problems | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        on_result: OnResult | None = None,
        wants_more: Callable[[], bool] = lambda: True,
    ) -> Future[ScoreReport]:
        """Starts to score completions and returns at once; for arguments and errors see `AsyncServiceClient.score`.

        Returns:
            A future of the report. Cancelling it gives up the completions that the service has not begun.
        """
        return self._run(
            self._client.score(completions, problems, options=options, on_result=on_result, wants_more=wants_more)
        )

    def score(
        self,
        completions: Iterable[Completion | Mapping[str, Any]],
        problems: _Problems | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        on_result: OnResult | None = None,
        wants_more: Callable[[], bool] = lambda: True,
    ) -> ScoreReport:
        """Scores completions; for arguments, result and errors see `AsyncServiceClient.score`."""
        report = self.begin_scoring(completions, problems, options=options, on_result=on_result, wants_more=wants_more)
        return report.result()

    def execute(self, code: str, **fields: Any) -> dict[str, Any]:
        return self._run(self._client.execute(code, **fields)).result()

    def begin_episode(
        self, task_id: str, *, max_tool_calls: int | None = None, options: Mapping[str, Any] | None = None
    ) -> ServiceEpisode:
        """Begins an episode on a task; for arguments and errors see `AsyncServiceClient.begin_episode`."""
        begun = self._run(self._client.begin_episode(task_id, max_tool_calls=max_tool_calls, options=options))
        return ServiceEpisode(begun.result(), self._run)

    def episodes(self) -> list[dict[str, Any]]:
        """The episodes of this client that the service knows; see `AsyncServiceClient.episodes`."""
        return self._run(self._client.episodes()).result()

    def is_ready(self) -> bool:
        return self._run(self._client.is_ready()).result()

    def close(self) -> None:
        """Closes the connections, and gives up unfinished requests; a second call has no effect."""
        if self._is_inherited or self._loop.is_closed():
            return
        self._run(self._end()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        own = asyncio.current_task()
        others = [task for task in asyncio.all_tasks() if task is not own]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._client.close()

    def _run(self, work: Coroutine[Any, Any, _Value]) -> Future[_Value]:
        if self._is_inherited:
            work.close()
            raise ForkedProcessError("this client belongs to the process from which this one was forked")
        return asyncio.run_coroutine_threadsafe(work, self._loop)


_JSON = {"Content-Type": "application/json"}


def _numbered(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    # What a user calls rows may stand twice, or be no text.
    for position, row in enumerate(rows):
        if not isinstance(row.get("id"), str | int | None):
            raise InputError("must be a string or an integer", path=f"completions[{position}]", field="id")
    return [{**row, "id": str(position)} for position, row in enumerate(rows)]


def _own_id(row: Mapping[str, Any], position: int) -> str:
    given = row.get("id")
    return f"{row.get('task_id')}#{position}" if given is None else str(given)


def _check_options(options: Mapping[str, Any]) -> None:
    # JSON cannot carry these numbers.
    for name, value in options.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"`{name}` is {value}, which is not a finite number", fields=(name,))


def _parts(rows: Sequence[dict[str, Any]]) -> Iterable[list[dict[str, Any]]]:
    first, size = 0, 0
    for position, row in enumerate(rows):
        length = sum(len(value) for value in row.values() if isinstance(value, str))
        if position > first and (position - first == _ROWS_OF_REQUEST or size + length > _BYTES_OF_REQUEST):
            yield list(rows[first:position])
            first, size = position, 0
        size += length
    if rows:
        yield list(rows[first:])


def _token_of_user(state_dir: Path, url: str) -> str | None:
    port = urlsplit(url).port
    try:
        return token_path(state_dir, port or 80).read_text("ascii").strip() or None
    except (OSError, ValueError):
        return None


def token_path(state_dir: Path, port: int) -> Path:
    """The file with the token that was made for the service on a port of this machine."""
    return state_dir / "service" / f"{port}.token"


def _trusted(ca_file: str | Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(f"{ca_file}: is not a PEM file of certificates: {error}") from error
    return context


def _has_proxy() -> bool:
    import urllib.request

    return bool(urllib.request.getproxies())


def _refused(status: int, headers: Mapping[str, str], content: bytes) -> _Refusal:
    try:
        retry = float(headers["Retry-After"]) if "Retry-After" in headers else None
    except ValueError:
        retry = None
    try:
        document = json.loads(content)
        return _Refusal(status, str(document["detail"]), document.get("hint"), retry, str(document.get("place") or ""))
    except (ValueError, KeyError, TypeError):
        return _Refusal(status, f"it answers {status}", None, retry)


def _error_of(refusal: _Refusal, url: str) -> SandrlError:
    if refusal.status in (_UNAUTHORIZED, _FORBIDDEN):
        hint = "set SANDRL_SERVICE_TOKEN to the token of the service"
        return AuthenticationError(f"the service at {url} refuses the token: {refusal.detail}", hint=hint)
    if refusal.status in _RETRIED:
        return ServiceError(f"the service at {url} cannot score: {refusal.detail}", hint=refusal.hint)
    if refusal.place.startswith(("completions", "problems")):
        return InputError(f"the service refuses a row: {refusal.detail}", hint=refusal.hint)
    return UsageError(f"the service at {url} refuses the request: {refusal.detail}", hint=refusal.hint)


def _certificate_problem(error: BaseException | None) -> str:
    seen = 0
    while error is not None and seen < 10:
        if isinstance(error, ssl.SSLCertVerificationError):
            return error.verify_message or str(error)
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return str(error)
        error, seen = error.__cause__ or error.__context__, seen + 1
    return ""


def _unreachable(url: str, error: Exception, certificate: str) -> ServiceError:
    if certificate:
        message = f"the certificate of the service at {url} is not trusted: {certificate}"
        return ServiceError(message, hint="set SSL_CERT_FILE to a PEM file of certificates to trust")
    reason = str(error) or type(error).__name__
    return ServiceError(
        f"the service at {url} does not answer: {reason}", hint="check that `sandrl serve` is running there"
    )
