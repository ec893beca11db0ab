"""The state that the routes of a service share."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from sandrl.config.fields import key_meant, near_key
from sandrl.config.model import Config
from sandrl.config.serve import POLICIES, RequestOptions, ServeConfig
from sandrl.errors import UsageError
from sandrl.jsonl import parse_object
from sandrl.problems import Problem
from sandrl.scoring.context import ScoringContext
from sandrl.scoring.options import ScoreOptions, check_use
from sandrl.scoring.scorer import Scorer
from sandrl.service.failures import Failure
from sandrl.service.metrics import ServiceMetrics
from sandrl.service.problems import ProblemBook
from sandrl.service.replies import Replies
from sandrl.suggestions import VALUES, folded, meant, near

if TYPE_CHECKING:
    from sandrl.service.e2b.sandboxes import E2BSandboxes
    from sandrl.service.episodes import Episodes

CLIENT_HEADER = "x-sandrl-client"
"""The header that names a client, if several clients share an address and each needs its own share."""

_LONG_BODY_BYTES = 1 << 16
_LONGEST_OPTIONS = 4096
# What a program prints is in the memory of the service, and of its files in that of the machine.
_BOUNDED = ("max_output_bytes", "max_file_bytes")

_Body = TypeVar("_Body", bound=BaseModel)
_Value = TypeVar("_Value")


@dataclass(eq=False)
class Service:
    """A running service.

    Attributes:
        memory_bytes: How much memory a sandbox has; None where that is not known.
        warn: Told what the operator should know.
    """

    config: ServeConfig
    job_id: str
    scorer: Scorer
    book: ProblemBook
    metrics: ServiceMetrics
    memory_bytes: int | None
    warn: Callable[[str, str], None]
    replies: Replies = field(default_factory=Replies)

    @cached_property
    def e2b(self) -> E2BSandboxes:
        """The sandboxes of E2B's clients."""
        # It uses this module.
        from sandrl.service.e2b.sandboxes import E2BSandboxes

        return E2BSandboxes(self)

    @cached_property
    def episodes(self) -> Episodes:
        """The episodes on tasks."""
        # It uses this module.
        from sandrl.service.episodes import Episodes

        return Episodes(self)

    def options(self, given: dict[str, Any] | None) -> tuple[RequestOptions, ScoreOptions]:
        """How a request is scored: as the service is started to, where it says nothing else.

        Raises:
            Failure: If there is no such option, or a value is impossible.
        """
        text = json.dumps(given or {}, sort_keys=True)
        return self._known_options(text) if len(text) < _LONGEST_OPTIONS else self._resolved(text)

    @cached_property
    def _known_options(self) -> Callable[[str], tuple[RequestOptions, ScoreOptions]]:
        return lru_cache(maxsize=64)(self._resolved)

    def _resolved(self, text: str) -> tuple[RequestOptions, ScoreOptions]:
        given = json.loads(text)
        usual = {name: getattr(self.config, name) for name in RequestOptions.model_fields}
        reward = given.get("reward", self.config.reward)
        if reward != self.config.reward and reward not in POLICIES:
            known = ", ".join(POLICIES)
            message = (
                f"`reward` is {reward!r:.60}, which is not one of {known}{near(str(reward)[:60], POLICIES, VALUES)}"
            )
            raise Failure(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                message,
                "name your own function when you start the service",
                place="options.reward",
            )
        try:
            options = RequestOptions.model_validate({**usual, **given})
        except ValidationError as error:
            raise _invalid(error, RequestOptions, "options") from None
        for name in _BOUNDED:
            check_most(f"options.{name}", getattr(options, name), getattr(self.config, name))
        return options, ScoreOptions.of(options)

    def check_use(self, given: dict[str, Any] | None, problems: Iterable[Problem]) -> None:
        """Refuses options of a request that have no effect on tasks, if all of its problems are tasks.

        Raises:
            Failure: If there is one.
        """
        try:
            check_use(RequestOptions.model_construct(None, **(given or {})), problems)
        except UsageError as error:
            place = f"options.{error.fields[0]}"
            raise Failure(HTTPStatus.UNPROCESSABLE_ENTITY, error.message, error.hint, place=place) from error

    def context(self, options: RequestOptions, score: ScoreOptions) -> ScoringContext:
        return self.scorer.context(score, require_isolated=options.require_isolated)

    def find_problem(self, task_id: str, place: str) -> Problem:
        """A problem of the sets that the service was started with.

        Raises:
            Failure: If there is none of that name.
        """
        try:
            return self.book.loaded[task_id]
        except KeyError:
            why = self.book.why_left_out(task_id)
            message = f"there is no problem {task_id!r:.80}"
            if why is not None:
                message = f"the problem {task_id!r:.80} is left out by the service: {why}"
            raise Failure(HTTPStatus.UNPROCESSABLE_ENTITY, message, place=place) from None


def check_most(place: str, value: int, most: int) -> None:
    """Refuses more than the service was started with: it is the service's memory.

    Raises:
        Failure: If it is more.
    """
    if value > most:
        message = f"{place} is {value}, but this service allows at most {most}"
        raise Failure(HTTPStatus.UNPROCESSABLE_ENTITY, message, place=place)


async def read_body(request: Request, model: type[_Body]) -> _Body:
    """The body of a request.

    Raises:
        Failure: If it is no JSON, or not what the route takes.
    """
    content = await request.body()
    if len(content) < _LONG_BODY_BYTES:
        return _parsed(content, model)
    return await asyncio.to_thread(_parsed, content, model)


def _parsed(content: bytes, model: type[_Body]) -> _Body:
    try:
        value = parse_object(content)
    except ValueError as error:
        raise Failure(HTTPStatus.BAD_REQUEST, f"the body: {error}", place="body") from None
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise _invalid(error, model) from None


def _invalid(error: ValidationError, model: type[BaseModel], prefix: str = "") -> Failure:
    problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in (*([prefix] if prefix else []), *problem["loc"]))
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        message = f"there is no field with this name{_meant(str(problem['loc'][-1]), model)}"
    return Failure(HTTPStatus.UNPROCESSABLE_ENTITY, f"{place}: {message}" if place else message, place=place or None)


def _meant(name: str, model: type[BaseModel]) -> str:
    if issubclass(model, Config):
        return near_key(model, name)
    option = key_meant(RequestOptions, name) if "options" in model.model_fields else None
    found = meant(name, model.model_fields)
    if option is not None and (found is None or folded(name) == option):
        return f"; did you mean 'options.{option}'?"
    return "" if found is None else f"; did you mean {found.name!r}?"


def client_of(request: Request) -> str:
    """Who asks: the name that it gives itself, else its address."""
    named = request.headers.get(CLIENT_HEADER, "")[:100]
    return named or (request.client.host if request.client is not None else "")


async def unless_gone(request: Request, work: Awaitable[_Value], on_gone: Callable[[], object]) -> _Value:
    """Waits for work, and no longer than the client does: if it goes away, `on_gone` is called.

    Raises:
        Failure: If it goes away; nobody reads that.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            on_gone()
            task.cancel()
            raise Failure(HTTPStatus.SERVICE_UNAVAILABLE, "the client disconnected")
        return task.result()
    finally:
        gone.cancel()
        if not task.done():
            task.cancel()
            on_gone()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class Outbox:
    """Takes values on any thread, and hands them over on the loop's, as many at once as there are."""

    def __init__(self, take: Callable[[Any], None]) -> None:
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._values: deque[Any] = deque()
        self._is_called = False

    def put(self, value: Any) -> None:
        self._values.append(value)
        if not self._is_called:
            self._is_called = True
            # The loop may have ended.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        self._is_called = False
        while self._values:
            self._take(self._values.popleft())
