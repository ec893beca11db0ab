"""The backend with which adapters score completions: sandboxes of this process, or a service.

A framework calls from many threads and tasks, once per completion. So there is one backend per process for each choice
of sandboxes or service, and all calls share it: a local backend has one job and one scorer, and a service backend
combines the calls of a few milliseconds into one request. A forked child gets its own backends.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import ValidationError

from sandrl import forks
from sandrl.closing import Closing
from sandrl.config.serve import RequestOptions
from sandrl.digests import digest_of
from sandrl.errors import UsageError
from sandrl.events.results import ScoredCompletion
from sandrl.problems import Completion, Problem, own_row
from sandrl.problems.loading import reading_of
from sandrl.remote.client import PATIENCE_SECONDS, ServiceClient
from sandrl.sandboxes import Job, SandboxRequest
from sandrl.scoring.options import ScoreOptions
from sandrl.scoring.scorer import Scorer
from sandrl.scoring.summary import ScoreReport
from sandrl.settings import load_settings
from sandrl.trials.place import Place

if TYPE_CHECKING:
    from sandrl.rollouts.driven import DrivenEpisode
    from sandrl.trials.trial import Agent

WINDOW_SECONDS = 0.005
"""How long a call of a service waits for others that can share its request."""

MOST_ROWS = 256
"""How many completions a request has at most."""

_LIFETIME_SECONDS = 3600.0
_LIFETIME_MARGIN_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Scoring:
    """How completions are scored.

    Attributes:
        given: The given options, by their names in a configuration file.
    """

    given: Mapping[str, Any]
    config: RequestOptions
    score: ScoreOptions

    @classmethod
    def of(cls, given: Mapping[str, Any] | None = None) -> Scoring:
        """The scoring that options ask for, named as in a request to a service: `reward`, `timeout_seconds`, ….

        Raises:
            UsageError: If there is no such option, or its value is impossible.
        """
        try:
            return _scoring(json.dumps(dict(given or {}), sort_keys=True))
        except (TypeError, ValueError) as error:
            raise UsageError(f"options for scoring must be plain values: {error}") from error

    @property
    def of_request(self) -> dict[str, Any]:
        """The options for a request to a service: all except those for reading rows, which have been read already."""
        return {name: value for name, value in self.given.items() if name not in reading_of(self.config)}


@lru_cache(maxsize=64)
def _scoring(text: str) -> Scoring:
    given = json.loads(text)
    try:
        config = RequestOptions.model_validate(given)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in problem["loc"])
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            message = "is not an option for scoring"
        raise UsageError(f"{place}: {message}" if place else message) from None
    return Scoring(given, config, ScoreOptions.of(config))


class Backend(Protocol):
    def submit(
        self, problem: Problem, text: str, scoring: Scoring | None = None, *, is_code: bool = False
    ) -> Future[ScoredCompletion]:
        """Hands a completion over; the call returns at once, but for the first one, which may start the runtime.

        Args:
            is_code: Whether the text is the code itself, in which none is looked for.

        Returns:
            The result to come; cancelling it gives up what has not begun.

        Raises:
            UsageError: If sandboxes cannot judge the problem.
            ServiceError: If there is no runtime, or no room for more.
            ForkedProcessError: If this process was forked from one that had used sandboxes.
        """
        ...

    def close(self) -> None: ...


class LocalBackend(Closing):
    """Scores with sandboxes of this process: makes one job with the first completion, and ends it with the process."""

    def __init__(self, sandboxes: SandboxRequest | None = None) -> None:
        self._sandboxes = sandboxes or SandboxRequest()
        self._lock = threading.Lock()
        self._job: Job | None = None
        self._scorer: Scorer | None = None
        self._episodes: set[DrivenEpisode] = set()
        forks.watch(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        self._job = self._scorer = None
        self._episodes = set()
        atexit.unregister(self.close)

    @property
    def job_id(self) -> str | None:
        return None if self._job is None else self._job.id

    @property
    def place(self) -> Place:
        """Where other work of this process gets sandboxes of the same job; the first use may start the runtime.

        Raises:
            ServiceError: If there is no runtime.
            ForkedProcessError: If this process was forked from one that had used sandboxes.
        """
        return (self._scorer or self._open()).place

    def submit(
        self, problem: Problem, text: str, scoring: Scoring | None = None, *, is_code: bool = False
    ) -> Future[ScoredCompletion]:
        scoring = scoring or Scoring.of()
        scorer = self._scorer or self._open()
        scorer.check(problem, scoring.score.limits)
        completion = Completion(
            problem.task_id, problem.task_id, None if is_code else text, code=text if is_code else None
        )
        return self._submit(scorer, completion, problem, scoring)

    def begin(self, problem: Problem, episode: DrivenEpisode, name: str, scoring: Scoring | None = None) -> None:
        """Begins an episode on a task, of which other threads make the calls; the first use may start the runtime.

        Args:
            name: That of the episode in results.

        Raises:
            ServiceError: If there is no runtime, or no room for more.
            ForkedProcessError: If this process was forked from one that had used sandboxes.
        """
        scoring, completion = scoring or Scoring.of(), Completion(name, problem.task_id, code="")
        scorer = self._scorer or self._open()
        episode.begin(lambda agent: self._submit(scorer, completion, problem, scoring, agent))
        self._episodes.add(episode)
        episode.result.add_done_callback(lambda _: self._episodes.discard(episode))

    @staticmethod
    def _submit(
        scorer: Scorer, completion: Completion, problem: Problem, scoring: Scoring, agent: Agent | None = None
    ) -> Future[ScoredCompletion]:
        context = scorer.context(scoring.score, require_isolated=scoring.config.require_isolated)
        return scorer.submit([(completion, problem)], context, agent=agent).first(lambda result: result)

    def close(self) -> None:
        with self._lock:
            atexit.unregister(self.close)
            scorer, job = self._scorer, self._job
            self._scorer = self._job = None
        for episode in tuple(self._episodes):
            episode.give_up("the job of its sandbox has ended")
        if scorer is not None:
            scorer.close()
        if job is not None:
            job.close()

    def _open(self) -> Scorer:
        with self._lock:
            if self._scorer is None:
                self._job = self._sandboxes.job(
                    self._sandboxes.connect(load_settings()),
                    command="integration",
                    max_lifetime_seconds=_LIFETIME_SECONDS,
                )
                self._scorer = Scorer(self._job, longest_seconds=_LIFETIME_SECONDS - _LIFETIME_MARGIN_SECONDS)
                atexit.register(self.close)
            return self._scorer


@dataclass(eq=False, slots=True)
class _Call:
    problem: Problem
    text: str
    is_code: bool
    scoring: Scoring
    done: Future[ScoredCompletion] = field(default_factory=Future)

    def row(self, name: str, position: int) -> dict[str, str]:
        return {"id": str(position), "task_id": name, "code" if self.is_code else "completion": self.text}


class ServiceBackend(Closing):
    """Scores with a running `sandrl serve`; calls that come together share a request.

    Args:
        token: Its token; that of SANDRL_SERVICE_TOKEN, or that of this user's service on this machine, unless given.
        window_seconds: How long a call waits for others.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        window_seconds: float = WINDOW_SECONDS,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self.url = url
        self._token = token
        self._window_seconds = window_seconds
        self._patience_seconds = patience_seconds
        self._changed = threading.Condition()
        self._waiting: list[_Call] = []
        self._client: ServiceClient | None = None
        forks.watch(self)

    def after_fork(self) -> None:
        atexit.unregister(self.close)
        self._changed = threading.Condition()
        self._waiting = []
        self._client = None

    def submit(
        self, problem: Problem, text: str, scoring: Scoring | None = None, *, is_code: bool = False
    ) -> Future[ScoredCompletion]:
        """Hands a completion over; see `Backend`.

        Raises:
            UsageError: If the address is none.
            AuthenticationError: If no token is known.
        """
        call = _Call(problem, text, is_code, scoring or Scoring.of())
        with self._changed:
            if self._client is None:
                self._client = ServiceClient(self.url, self._token, patience_seconds=self._patience_seconds)
                atexit.register(self.close)
                threading.Thread(target=self._work, args=(self._client,), name="sandrl-requests", daemon=True).start()
            self._waiting.append(call)
            self._changed.notify_all()
        return call.done

    def close(self) -> None:
        """Closes its connections, and gives up what is under way; the next completion opens others."""
        atexit.unregister(self.close)
        with self._changed:
            client, self._client = self._client, None
            left, self._waiting = self._waiting, []
            self._changed.notify_all()
        for call in left:
            call.done.cancel()
        if client is not None:
            client.close()

    # Makes requests of calls, until the client is another one.
    def _work(self, client: ServiceClient) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._client is not client)
                ends_at = time.monotonic() + self._window_seconds
                while self._client is client and len(self._waiting) < MOST_ROWS:
                    left = ends_at - time.monotonic()
                    if left <= 0:
                        break
                    self._changed.wait(left)
                if self._client is not client:
                    return
                calls = self._take()
            self._ask(client, calls)

    # Those with the same options as the first, up to the size of a request.
    def _take(self) -> list[_Call]:
        wanted = self._waiting[0].scoring
        alike = [call for call in self._waiting if call.scoring is wanted][:MOST_ROWS]
        taken = set(map(id, alike))
        self._waiting = [call for call in self._waiting if id(call) not in taken]
        return alike

    def _ask(self, client: ServiceClient, calls: Sequence[_Call]) -> None:
        try:
            names: dict[int, str] = {}
            rows: dict[str, dict[str, Any]] = {}
            for call in calls:
                if id(call.problem) not in names:
                    row = own_row(call.problem)
                    # Two problems of a request may have one name.
                    name = names[id(call.problem)] = f"{digest_of([row]).hex()[:16]}/{call.problem.task_id}"
                    rows[name] = {**row, "task_id": name}
            report = client.begin_scoring(
                [call.row(names[id(call.problem)], position) for position, call in enumerate(calls)],
                list(rows.values()),
                options=calls[0].scoring.of_request,
                on_result=lambda result: _tell(calls[result.index], result),
            )
        except Exception as error:  # noqa: BLE001 - those who wait are told, and the thread goes on
            for call in calls:
                _end(call.done, error)
            return
        report.add_done_callback(partial(self._finish, client, calls))

    def _finish(self, client: ServiceClient, calls: Sequence[_Call], report: Future[ScoreReport]) -> None:
        left = [call for call in calls if not call.done.done()]
        if report.cancelled():
            for call in left:
                call.done.cancel()
            return
        error = report.exception()
        if isinstance(error, UsageError) and len(left) > 1:
            # One of them is refused, and the others need not know it.
            middle = len(left) // 2
            self._ask(client, left[:middle])
            self._ask(client, left[middle:])
            return
        for call in left:
            _end(call.done, error or RuntimeError("the service returned no result for a completion"))


class _Shared:
    def __init__(self) -> None:
        self.after_fork()
        forks.watch(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[object, ...], Backend] = {}

    def get(self, key: tuple[object, ...], make: Callable[[], Backend]) -> Backend:
        with self._lock:
            if key not in self._known:
                self._known[key] = make()
            return self._known[key]


_shared = _Shared()


def backend_for(
    service: str | None = None, token: str | None = None, *, sandboxes: SandboxRequest | Mapping[str, Any] | None = None
) -> Backend:
    """The backend that all of this process share who ask for the same.

    Args:
        service: Address of a `sandrl serve`; that of SANDRL_SERVICE_URL, else sandboxes of this process, unless given.
        token: Its token; that of SANDRL_SERVICE_TOKEN, or that of this user's service on this machine, unless given.
        sandboxes: Which sandboxes of this process, or the fields of such a request: `packages`, `memory_bytes`, ….

    Raises:
        UsageError: If there are no such sandboxes, or a service is given with sandboxes.
    """
    service = service or (load_settings().service_url if sandboxes is None else None)
    if service is None:
        wanted = sandboxes if isinstance(sandboxes, SandboxRequest) else _sandboxes(sandboxes or {})
        return _local(wanted)
    if sandboxes is not None:
        raise UsageError("sandboxes: has no effect with a service, which owns the sandboxes")
    return _shared.get(("service", service, token), lambda: ServiceBackend(service, token))


def local_backend(sandboxes: SandboxRequest | Mapping[str, Any] | None = None) -> LocalBackend:
    """The backend with sandboxes of this process that all of it share who ask for the same; see `backend_for`."""
    return _local(sandboxes if isinstance(sandboxes, SandboxRequest) else _sandboxes(sandboxes or {}))


def _local(wanted: SandboxRequest) -> LocalBackend:
    found = _shared.get(("sandboxes", wanted), lambda: LocalBackend(wanted))
    assert isinstance(found, LocalBackend), "it was made here"
    return found


async def scored(
    backend: Backend, problem: Problem, text: str, scoring: Scoring | None = None, *, is_code: bool = False
) -> ScoredCompletion:
    """Scores a completion without blocking the event loop; for arguments and errors see `Backend.submit`."""
    # The first completion may start a runtime.
    future = await asyncio.to_thread(partial(backend.submit, problem, text, scoring, is_code=is_code))
    return await asyncio.wrap_future(future)


def _sandboxes(given: Mapping[str, Any]) -> SandboxRequest:
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    try:
        return SandboxRequest(**fields)
    except TypeError as error:
        raise UsageError(f"sandboxes: {error}") from error


def _tell(call: _Call, result: ScoredCompletion) -> None:
    name = call.problem.task_id
    _end(call.done, replace(result, index=0, id=name, task_id=name))


def _end(done: Future[ScoredCompletion], outcome: ScoredCompletion | BaseException) -> None:
    # Its owner may have cancelled it.
    with suppress(InvalidStateError):
        if isinstance(outcome, BaseException):
            done.set_exception(outcome)
        else:
            done.set_result(outcome)
