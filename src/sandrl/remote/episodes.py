"""Episodes on tasks of a service: `AsyncServiceEpisode` for an event loop, `ServiceEpisode` for any thread.

A call whose answer did not arrive is sent again with its number, and is made once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Protocol, Self

from sandrl.closing import Closing
from sandrl.errors import UsageError
from sandrl.events.results import ScoredCompletion
from sandrl.scoring.document import result_of_document


class Ask(Protocol):
    def __call__(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Awaitable[dict[str, Any]]: ...


class AsyncServiceEpisode:
    """An episode on a task of a service; close it with `close`, or use it in an `async with` block.

    Attributes:
        instruction: The instruction of the step at hand; a task of several steps has the next one after `finish`.
        tools: The tools as JSON schemas of functions, `{"name", "description", "parameters"}`.
        end: What ended the work on the step, in a few words; None while calls are answered.
        result: The verdict; None before `finish` has returned it.
    """

    def __init__(self, ask: Ask, document: Mapping[str, Any]) -> None:
        self._ask = ask
        self._number = 0
        self.id = str(document["id"])
        self.task_id = str(document["task_id"])
        self.tools: list[dict[str, Any]] = list(document["tools"])
        self.result: ScoredCompletion | None = None
        self._read(document)

    def _read(self, document: Mapping[str, Any]) -> None:
        self.instruction = str(document["instruction"])
        self.end: str | None = document["end"]
        if document["result"] is not None:
            self.result = result_of_document(document["result"], 0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def call(self, name: str, arguments: Mapping[str, Any] | str = "") -> str:
        """Calls a tool.

        Returns:
            What a model is to read about the call; a malformed call or a call after the end also has an observation.

        Raises:
            UsageError: If there is no such episode any more.
            AuthenticationError: If the service refuses the token.
            ServiceError: If the service does not answer.
        """
        self._number += 1
        body = {"name": name, "arguments": arguments or {}, "number": self._number}
        answer = await self._ask("POST", f"{self._path}/act", body)
        self.end = answer["end"]
        return str(answer["observation"])

    async def finish(self) -> ScoredCompletion | None:
        """Ends the work on the step, and waits until it is verified.

        Returns:
            The result of the episode; None if the next step has begun, with its own `instruction`.

        Raises:
            UsageError: If there is no such episode any more.
            AuthenticationError: If the service refuses the token.
            ServiceError: If the service does not answer.
        """
        self._read(await self._ask("POST", f"{self._path}/finish"))
        return self.result

    async def close(self) -> None:
        """Gives the episode up unless it is finished; a second call has no effect."""
        if self.id:
            path, self.id = self._path, ""
            # One that is sent again may find nothing.
            with suppress(UsageError):
                await self._ask("DELETE", path)

    @property
    def _path(self) -> str:
        return f"/v1/episodes/{self.id}"


class ServiceEpisode(Closing):
    """An episode on a task of a service; close it with `close`, or use it in a `with` block.

    Its attributes and errors are those of `AsyncServiceEpisode`.
    """

    def __init__(self, episode: AsyncServiceEpisode, run: Callable[[Any], Future[Any]]) -> None:
        self._episode = episode
        self._run = run

    @property
    def id(self) -> str:
        return self._episode.id

    @property
    def task_id(self) -> str:
        return self._episode.task_id

    @property
    def instruction(self) -> str:
        return self._episode.instruction

    @property
    def tools(self) -> list[dict[str, Any]]:
        return self._episode.tools

    @property
    def end(self) -> str | None:
        return self._episode.end

    @property
    def result(self) -> ScoredCompletion | None:
        return self._episode.result

    def call(self, name: str, arguments: Mapping[str, Any] | str = "") -> str:
        """Calls a tool; for arguments, result and errors see `AsyncServiceEpisode.call`."""
        told: str = self._run(self._episode.call(name, arguments)).result()
        return told

    def finish(self) -> ScoredCompletion | None:
        """Ends the work on the step; for result and errors see `AsyncServiceEpisode.finish`."""
        result: ScoredCompletion | None = self._run(self._episode.finish()).result()
        return result

    def close(self) -> None:
        """Gives the episode up unless it is finished; a second call has no effect."""
        self._run(self._episode.close()).result()
