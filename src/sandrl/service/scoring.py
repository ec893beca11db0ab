"""`POST /v1/score`: scores completions, and returns rewards as a document or line by line as they become available."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any

from fastapi import Request, Response
from fastapi.responses import StreamingResponse

from sandrl.bounds import finite
from sandrl.events.results import ScoredCompletion
from sandrl.problems import Completion, Problem
from sandrl.runs.summary import summarise
from sandrl.scoring.context import ScoringContext
from sandrl.scoring.document import report_document, result_document, summary_document, to_line
from sandrl.scoring.scorer import Answer
from sandrl.scoring.summary import ScoreReport
from sandrl.service.failures import Failure, failure_of
from sandrl.service.models import ScoreRequest
from sandrl.service.replies import Reply
from sandrl.service.state import Outbox, Service, client_of, read_body, unless_gone

NDJSON = "application/x-ndjson"
KEY_HEADER = "idempotency-key"

_HEARTBEAT_SECONDS = 15.0
_MANY_RESULTS = 500


async def score(service: Service, request: Request) -> Response:
    key = request.headers.get(KEY_HEADER)
    reply = None
    digest = b""
    if key is not None:
        digest = hashlib.sha256(await request.body()).digest()
        reply = service.replies.find(key, digest)
    if reply is None:
        body = await read_body(request, ScoreRequest)
        answers, context = await _understood(service, body)
        # A request with the same key may have come meanwhile.
        reply = service.replies.find(key, digest) if key is not None else None
        if reply is None:
            reply = begin(service, answers, context, client_of(request))
            if key is not None:
                service.replies.keep(key, digest, reply)
    service.replies.join(reply)
    leave = partial(service.replies.leave, reply, has_key=key is not None)
    if NDJSON in request.headers.get("accept", ""):
        return StreamingResponse(_lines(service, reply, leave), media_type=NDJSON)
    try:
        results = await unless_gone(request, reply.wait(), lambda: None)
    finally:
        leave()
    if len(results) > _MANY_RESULTS:
        content = await asyncio.to_thread(_document, service.job_id, results)
    else:
        content = _document(service.job_id, results)
    return Response(content, media_type="application/json")


async def _understood(service: Service, body: ScoreRequest) -> tuple[list[Answer], ScoringContext]:
    options, scoring = service.options(body.options)

    def read() -> list[Answer]:
        problems = service.book.of_request(body.problems, options)
        completions = service.book.completions(body.completions, problems)
        found: dict[str, Problem] = {}
        for completion in completions:
            if completion.task_id not in found:
                problem = service.book.named(completion.task_id, problems, options)
                service.scorer.check(problem, scoring.limits)
                found[completion.task_id] = problem
        service.check_use(body.options, found.values())
        return [(completion, found[completion.task_id]) for completion in completions]

    is_long = len(body.completions) > _MANY_RESULTS or body.problems is not None
    answers = await asyncio.to_thread(read) if is_long else read()
    return answers, service.context(options, scoring)


def begin(service: Service, answers: Sequence[Answer], context: ScoringContext, client: str) -> Reply:
    """Hands completions over to be scored.

    Raises:
        QueueFullError: If they have no room in the queue.
        ScorerClosedError: If the service is being stopped.
    """
    most = service.scorer.max_waiting
    if len(answers) > most:
        message = f"the request has {len(answers)} completions, more than the {most} that may wait in this service"
        raise Failure(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message, "send fewer completions in a request")
    reply = Reply(len(answers))

    def take(told: ScoredCompletion | BaseException) -> None:
        if isinstance(told, BaseException):
            reply.fail(told)
        else:
            service.metrics.scored(told)
            # Nothing of it is answered, and a reply may be kept for a while.
            reply.add(replace(told, stdout="", stderr="", code=None))

    outbox = Outbox(take)
    ticket = service.scorer.submit(answers, context, client=client, on_result=outbox.put)
    reply.owns(ticket.cancel)

    def end(done: Future[Any]) -> None:
        if not done.cancelled() and (error := done.exception()) is not None:
            outbox.put(error)

    ticket.future.add_done_callback(end)
    return reply


async def _lines(service: Service, reply: Reply, leave: Callable[[], None]) -> AsyncIterator[bytes]:
    # An empty line now and then shows the client, and everything between, that the connection is in use.
    results: list[ScoredCompletion] = []
    reading = reply.read()
    upcoming: asyncio.Future[ScoredCompletion] | None = None
    try:
        while True:
            upcoming = asyncio.ensure_future(anext(reading))
            while not (await asyncio.wait({upcoming}, timeout=_HEARTBEAT_SECONDS))[0]:
                yield b"\n"
            try:
                result = upcoming.result()
            except StopAsyncIteration:
                break
            results.append(result)
            yield to_line(result_document(result)) + b"\n"
        results.sort(key=lambda result: result.index)
        yield to_line({"job_id": service.job_id, "summary": summary_document(summarise(results))}) + b"\n"
    except Exception as error:  # noqa: BLE001 - the status was sent: the last line says what happened
        yield to_line({"error": failure_of(error).document()}) + b"\n"
    finally:
        if upcoming is not None:
            upcoming.cancel()
        with suppress(RuntimeError):
            await reading.aclose()  # type: ignore[attr-defined]
        leave()


def _document(job_id: str, results: Sequence[ScoredCompletion]) -> bytes:
    report = ScoreReport(job_id, tuple(results))
    return json.dumps(finite(report_document(report)), ensure_ascii=True, allow_nan=False).encode("ascii")


async def score_all(service: Service, rows: Sequence[tuple[Completion, Problem]], client: str) -> Reply:
    options, scoring = service.options(None)
    for _, problem in rows:
        service.scorer.check(problem, scoring.limits)
    return begin(service, rows, service.context(options, scoring), client)
