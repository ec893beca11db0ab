"""`/v1/episodes`: episodes on tasks over HTTP. A client creates one, calls its tools, and gets the verdict at its end.

An episode belongs to the service, not to a connection: calls have numbers, and a call that is sent again is answered
without being made again. An episode without a call for a while ends, and is forgotten some time after its end.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeVar

from fastapi import Request

from sandrl.config.parts import TASK_TOOL_CALLS
from sandrl.errors import SandrlError
from sandrl.events.results import ScoredCompletion
from sandrl.problems import Completion, Problem
from sandrl.rollouts.calls import tool_schemas
from sandrl.rollouts.driven import DrivenEpisode
from sandrl.rollouts.task_tools import TASK_TOOLS
from sandrl.scoring.document import result_document
from sandrl.service.failures import Failure, failure_of
from sandrl.service.models import CallRequest, CallResponse, EpisodeRequest, EpisodeResponse, EpisodesResponse
from sandrl.service.state import Service, client_of, read_body

KEY_HEADER = "idempotency-key"
KEPT_SECONDS = 600.0
"""How long an episode is kept after its end."""

_LONGEST_KEY = 200
_RETRY_SECONDS = 5
_TOOLS = [*tool_schemas(TASK_TOOLS)]

_Value = TypeVar("_Value")


@dataclass(eq=False)
class Entry:
    """An episode of a client.

    Attributes:
        number: The number of the latest call, and `answer` what comes of it.
    """

    id: str
    client: str
    key: str
    problem: Problem
    most_calls: int
    played: DrivenEpisode
    number: int = 0
    answer: Future[str] = field(default_factory=Future)
    finishing: tuple[int, Future[str]] | None = None
    ended_at: float | None = None

    @property
    def is_over(self) -> bool:
        return self.played.result.done()

    def finish(self) -> Future[str]:
        """The end of the step at hand, which several requests may wait for."""
        step = self.played.number
        if self.finishing is None or self.finishing[0] != step:
            self.finishing = step, self.played.finish()
        return self.finishing[1]


class Episodes:
    """The episodes of a service; only the thread of its event loop uses it."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._entries: dict[str, Entry] = {}

    def of(self, client: str) -> list[Entry]:
        self._forget()
        return [entry for entry in self._entries.values() if entry.client == client]

    def find(self, identifier: str) -> Entry:
        """An episode by its id.

        Raises:
            Failure: If there is none.
        """
        self._forget()
        entry = self._entries.get(identifier)
        if entry is None:
            message = f"there is no episode {identifier[:40]!r}"
            hint = "it may have ended some time ago, or the service was started again"
            raise Failure(HTTPStatus.NOT_FOUND, message, hint)
        return entry

    def create(self, body: EpisodeRequest, client: str, key: str) -> Entry:
        """Begins an episode; the same one for the same key of a client.

        Raises:
            Failure: If the request, or a further episode of the client, cannot be had.
            QueueFullError: If it has no room in the queue.
            ScorerClosedError: If the service is being stopped.
        """
        service = self._service
        if len(key) > _LONGEST_KEY or not key.isprintable():
            message = f"Idempotency-Key must be at most {_LONGEST_KEY} printable characters"
            raise Failure(HTTPStatus.UNPROCESSABLE_ENTITY, message)
        own = self.of(client)
        known = next((entry for entry in own if key and entry.key == key), None)
        if known is not None:
            return known
        problem = service.find_problem(body.task_id, "task_id")
        if problem.task is None:
            message = f"the problem {body.task_id!r:.80} is not a task, so there is no machine to work in"
            raise Failure(
                HTTPStatus.UNPROCESSABLE_ENTITY, message, "score answers to it with /v1/score", place="task_id"
            )
        most = service.config.max_episodes
        if sum(not entry.is_over for entry in own) >= most:
            message = f"the client has {most} unfinished episodes, and may not have more"
            hint = "finish or delete one, or start the service with a larger max_episodes"
            raise Failure(HTTPStatus.TOO_MANY_REQUESTS, message, hint, {"Retry-After": str(_RETRY_SECONDS)})
        options, scoring = service.options(body.options)
        service.check_use(body.options, [problem])
        most_calls = body.max_tool_calls or TASK_TOOL_CALLS
        played = DrivenEpisode(problem.task, most_calls, idle_seconds=service.config.episode_idle_seconds)
        entry = Entry(f"ep-{secrets.token_hex(12)}", client, key, problem, most_calls, played)
        context = service.context(options, scoring)
        loop = asyncio.get_running_loop()

        def judge(agent: DrivenEpisode) -> Future[ScoredCompletion]:
            completion = Completion(entry.id, problem.task_id, code="")
            ticket = service.scorer.submit([(completion, problem)], context, client=client, agent=agent)
            return ticket.first(lambda result: result)

        def note(done: Future[ScoredCompletion]) -> None:
            entry.ended_at = time.monotonic()
            if not done.cancelled() and done.exception() is None:
                result = done.result()
                # The loop may have ended.
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(service.metrics.scored, result)

        played.begin(judge)
        played.result.add_done_callback(note)
        self._entries[entry.id] = entry
        return entry

    def delete(self, entry: Entry) -> None:
        """Forgets an episode, and ends it without a verdict if it is not over."""
        del self._entries[entry.id]
        entry.played.give_up("the client deleted the episode")
        entry.played.result.cancel()

    def close(self) -> None:
        """Ends all episodes that are not over."""
        for entry in list(self._entries.values()):
            entry.played.give_up("the service was stopped")

    def _forget(self) -> None:
        now = time.monotonic()
        for entry in list(self._entries.values()):
            if entry.ended_at is not None and now - entry.ended_at >= KEPT_SECONDS:
                del self._entries[entry.id]


async def create(service: Service, request: Request) -> EpisodeResponse:
    body = await read_body(request, EpisodeRequest)
    return response_of(service.episodes.create(body, client_of(request), request.headers.get(KEY_HEADER, "")))


async def list_(service: Service, request: Request) -> EpisodesResponse:
    return EpisodesResponse(episodes=[response_of(entry) for entry in service.episodes.of(client_of(request))])


async def show(service: Service, identifier: str) -> EpisodeResponse:
    return response_of(service.episodes.find(identifier))


async def act(service: Service, request: Request, identifier: str) -> CallResponse:
    body = await read_body(request, CallRequest)
    entry = service.episodes.find(identifier)
    number = entry.number + 1 if body.number is None else body.number
    if number == entry.number + 1:
        entry.number, entry.answer = number, entry.played.ask(body.name, body.arguments)
    elif number != entry.number or not number:
        message = f"number is {number}, and the next call of the episode is {entry.number + 1}"
        raise Failure(HTTPStatus.CONFLICT, message, "number the calls from 1; only the latest can be repeated")
    observation = await _waited(entry.answer)
    played = entry.played
    return CallResponse(number=number, observation=observation, tool_calls=played.calls, end=played.end)


async def finish(service: Service, identifier: str) -> EpisodeResponse:
    entry = service.episodes.find(identifier)
    await _waited(entry.finish())
    if entry.played.is_over:
        with suppress(SandrlError, asyncio.CancelledError):
            await _waited(entry.played.result)
    return response_of(entry)


async def delete(service: Service, identifier: str) -> None:
    service.episodes.delete(service.episodes.find(identifier))


# A request that is given up leaves what it waits for alone.
async def _waited(future: Future[_Value]) -> _Value:
    return await asyncio.shield(asyncio.wrap_future(future))


def response_of(entry: Entry) -> EpisodeResponse:
    """An episode as clients see it.

    Raises:
        Failure: If it could not be played at all.
    """
    played, task = entry.played, entry.problem.task
    assert task is not None, "its problem is a task"
    result: dict[str, Any] | None = None
    status = "acting" if played.is_acting else "judging" if played.has_begun else "starting"
    if entry.is_over:
        status = "finished"
        if played.result.cancelled():
            raise Failure(HTTPStatus.NOT_FOUND, "the episode was given up")
        if (error := played.result.exception()) is not None:
            raise failure_of(error)
        result = result_document(played.result.result())
    return EpisodeResponse(
        id=entry.id,
        task_id=entry.problem.task_id,
        status=status,
        instruction=played.instruction,
        step=played.number + 1,
        steps=len(task.steps),
        tools=_TOOLS,
        max_tool_calls=entry.most_calls,
        tool_calls=played.calls,
        end=played.end,
        result=result,
    )
