"""Scores completions that many callers submit at any time: one thread, one job, one batch without an end.

Waiting completions are kept here, and the batch holds only as many as it can launch at once. So a completion that its
caller gives up before its turn is never run, a caller with ten thousand completions delays another one's single
completion by no more than one place in a sandbox, and the limit of waiting completions bounds memory. The next place
goes to the client that has the fewest; the requests of one client take turns.
"""

from __future__ import annotations

import heapq
import itertools
import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar

from sandrl import forks
from sandrl.closing import Closing
from sandrl.errors import ForkedProcessError, InfrastructureError, QueueFullError, ScorerClosedError, UsageError
from sandrl.events import Emit, ignore
from sandrl.events.results import ScoredCompletion
from sandrl.judge.judge import Judge, longest_execution_seconds
from sandrl.judge.limits import Limits
from sandrl.judge.running import Program, ProgramJudge, ProgramResult
from sandrl.problems import Completion, Problem
from sandrl.sandboxes import Interrupt, Job, Launch, Withdrawn
from sandrl.scoring.batch import Batch, OnResult, check_memory
from sandrl.scoring.cache import VerdictCache
from sandrl.scoring.context import ScoringContext
from sandrl.scoring.grading import judge_of
from sandrl.scoring.judging import OnVerdict
from sandrl.scoring.options import ScoreOptions
from sandrl.trials.place import JobPlace
from sandrl.trials.trial import Agent

Answer: TypeAlias = tuple[Completion, Problem]
"""A completion, and the problem that it answers."""

_Value = TypeVar("_Value")

_MOST_CONTEXTS = 16
# What the judges of all contexts know is in memory besides the problems, most of which they share.
_KNOWLEDGE_BYTES = 64 << 20
_MOST_WAITING = 65_536
_LATEST = 256
_USUAL_RETRY_SECONDS = 2.0
_LONGEST_RETRY_SECONDS = 60.0
_ENDING_SECONDS = 30.0


@dataclass(slots=True, eq=False)
class _Client:
    # `version` changes with each change of its place in the order, which makes its old places void.

    name: str
    tickets: deque[Ticket] = field(default_factory=deque)
    in_flight: int = 0
    version: int = 0


class Ticket:
    """Completions that were handed over together.

    Attributes:
        future: Their results in the order in which they were handed over; without any where each was told by itself.
            An error where they cannot be scored at all.
    """

    def __init__(
        self,
        scorer: Scorer,
        client: _Client,
        answers: Sequence[Answer],
        context: ScoringContext,
        on_result: OnResult | None,
        agent: Agent | None,
    ) -> None:
        self.future: Future[tuple[ScoredCompletion, ...]] = Future()
        self.client = client
        self.context = context
        self.agent = agent
        self.waiting: deque[tuple[int, Answer]] = deque(enumerate(answers))
        self.in_flight = 0
        self._scorer = scorer
        self._on_result = on_result
        self._results: list[ScoredCompletion | None] = [None] * (0 if on_result else len(answers))
        self._left = len(answers)

    def cancel(self) -> None:
        """Gives up those that wait; of those in flight, nothing is told any more."""
        self._scorer._give_up(self)

    def first(self, convert: Callable[[ScoredCompletion], _Value]) -> Future[_Value]:
        """What is made of the result of the first; cancelling that gives up what has not begun."""
        done: Future[_Value] = Future()

        def finish(scored: Future[tuple[ScoredCompletion, ...]]) -> None:
            if scored.cancelled() or not done.set_running_or_notify_cancel():
                return
            error = scored.exception()
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(convert(scored.result()[0]))

        def give_up(_: Future[_Value]) -> None:
            if done.cancelled():
                self.cancel()

        self.future.add_done_callback(finish)
        done.add_done_callback(give_up)
        return done

    def tell(self, result: ScoredCompletion) -> None:
        self.in_flight -= 1
        self._left -= 1
        if self.future.cancelled():
            return
        if self._on_result is not None:
            self._on_result(result)
        else:
            self._results[result.index] = result
        if not self._left:
            self._end(lambda: self.future.set_result(tuple(each for each in self._results if each is not None)))

    def fail(self, error: BaseException) -> None:
        self.waiting.clear()
        self._end(lambda: self.future.set_exception(error))

    def _end(self, end: Callable[[], None]) -> None:
        with suppress(InvalidStateError):
            end()


class Scorer(Closing):
    """Scores completions that several threads hand over; the job is its own until it is closed.

    Attributes:
        place: Where other threads get sandboxes of the job for themselves.

    Args:
        concurrency: How many completions at once; what suits the runtime unless given.
        longest_seconds: How long a completion may take by the clock with its judging; no bound unless given.
        on_verdict: Receives the verdict on each completion before its result, on the same thread.
    """

    def __init__(
        self,
        job: Job,
        *,
        concurrency: int | None = None,
        cache: VerdictCache | None = None,
        max_waiting: int = _MOST_WAITING,
        longest_seconds: float = math.inf,
        emit: Emit = ignore,
        on_verdict: OnVerdict | None = None,
    ) -> None:
        self._job = job
        self._on_verdict = on_verdict
        self._cache = VerdictCache() if cache is None else cache
        self._emit = emit
        self.max_waiting = max_waiting
        self._longest_seconds = longest_seconds
        # Those of the batch, which each completion replaces with its own.
        options = ScoreOptions(concurrency=concurrency)
        self._own = ScoringContext.of(options, Judge.on(job.connection), job.connection)
        self._context: OrderedDict[tuple[ScoreOptions, bool], ScoringContext] = OrderedDict()
        self._lock = threading.Lock()
        self._bell = Interrupt()
        self.place = JobPlace(job, self._bell.wake, emit=emit)
        self._clients: dict[str, _Client] = {}
        # Places in the order of clients: how many completions of it are in flight, and since when it has that place.
        self._order: list[tuple[int, int, int, _Client]] = []
        self._places = itertools.count()
        self._flying: dict[int, tuple[Ticket, int]] = {}
        self._tickets: set[Ticket] = set()
        self.waiting = 0
        self._finished: deque[float] = deque(maxlen=_LATEST)
        self._batch: Batch | None = None
        self._is_accepting = True
        self._is_inherited = False
        self.is_open = True
        self._thread = threading.Thread(target=self._work, name="sandrl-scorer", daemon=True)
        forks.watch(self)
        self._thread.start()

    def after_fork(self) -> None:
        """Refuses everything in a forked child: the thread that scores is not in it."""
        self._lock = threading.Lock()
        self._is_inherited = True
        self.place.after_fork(ForkedProcessError("the sandboxes belong to the process from which this one was forked"))

    @property
    def is_accepting(self) -> bool:
        return self._is_accepting

    @property
    def in_flight(self) -> int:
        return len(self._flying)

    def context(self, options: ScoreOptions, *, require_isolated: bool = False) -> ScoringContext:
        """The context of completions that are scored with such options; what was learnt in it is kept."""
        key = options, require_isolated
        with self._lock:
            known = self._context.get(key)
            if known is None:
                if options.grading is not None:
                    judge_of(options.grading).check(self._emit)
                judge = Judge.on(self._job.connection, require_isolated=require_isolated, known_bytes=_KNOWLEDGE_BYTES)
                known = self._context[key] = ScoringContext.of(options, judge, self._job.connection)
            self._context.move_to_end(key)
            while len(self._context) > _MOST_CONTEXTS:
                self._context.popitem(last=False)
        return known

    def check(self, problem: Problem, limits: Limits) -> None:
        """Refuses a problem that sandboxes cannot judge: for its memory, or because they do not live long enough.

        Raises:
            UsageError: If it is one.
        """
        check_memory(problem, self._job.connection)
        seconds = longest_execution_seconds(problem, limits)
        if seconds > self._longest_seconds:
            raise UsageError(
                f"the time limits of the problem {problem.task_id!r} exceed the lifetime of a sandbox on this runtime",
                hint="lower timeout_seconds",
                fields=("timeout_seconds",),
            )

    def submit(
        self,
        answers: Sequence[Answer],
        context: ScoringContext,
        *,
        client: str = "",
        on_result: OnResult | None = None,
        is_bounded: bool = True,
        agent: Agent | None = None,
    ) -> Ticket:
        """Hands completions over; the call returns at once.

        Args:
            answers: The completions, N of them, each with its problem; `index` of a result counts them from 0.
            on_result: Called with each result on the scorer's thread, instead of collecting them.
            is_bounded: Whether they need room in the queue. What a caller holds in memory while it waits, anyway, is
                better off with a place in the queue.
            agent: Who works on the task of the only completion, which is none then.

        Raises:
            QueueFullError: If that many have no room in the queue.
            ScorerClosedError: If the scorer is closed.
            ForkedProcessError: In a process that was forked from the one that made the scorer.
        """
        if self._is_inherited:
            raise ForkedProcessError("this scorer belongs to the process from which this one was forked")
        with self._lock:
            if not self._is_accepting:
                raise ScorerClosedError
            # Identical completions wait in the batch for the verdict of the first.
            if is_bounded and self.waiting + len(self._flying) + len(answers) > self.max_waiting:
                raise QueueFullError(self.waiting + len(self._flying), self.retry_seconds)
            owner = self._clients.setdefault(client, _Client(client))
            ticket = Ticket(self, owner, answers, context, on_result, agent)
            if not answers:
                ticket.future.set_result(())
                return ticket
            self._tickets.add(ticket)
            self.waiting += len(answers)
            owner.tickets.append(ticket)
            self._place(owner)
        ticket.future.add_done_callback(lambda _: self._tickets.discard(ticket))
        self._bell.wake()
        return ticket

    def score(
        self, answers: Sequence[Answer], options: ScoreOptions, *, client: str = ""
    ) -> tuple[ScoredCompletion, ...]:
        """Scores completions, and waits for their results, in the order of the completions.

        Raises:
            QueueFullError: If they have no room in the queue.
            ScorerClosedError: If the scorer is closed.
        """
        return self.submit(answers, self.context(options), client=client).future.result()

    def run(
        self, program: Program, limits: Limits, *, retries: int = 2, client: str = "", is_bounded: bool = True
    ) -> Future[ProgramResult]:
        """Runs a program, and returns at once; cancelling the future gives the program up, if it has not begun.

        Raises:
            QueueFullError: If there is no room in the queue.
            ScorerClosedError: If the scorer is closed.
            UsageError: If it asks for more memory, or time, than sandboxes have.
        """
        problem = program.problem
        self.check(problem, limits)
        context = self.context_of_program(program, ScoreOptions(limits=limits, caching=False, retries=retries))
        ticket = self.submit([(program.completion(), problem)], context, client=client, is_bounded=is_bounded)
        assert isinstance(context.judge, ProgramJudge), "it was made for the program"
        return ticket.first(context.judge.result)

    def context_of_program(self, program: Program, options: ScoreOptions) -> ScoringContext:
        return ScoringContext.of(options, ProgramJudge(self._own.judge, program), self._job.connection)

    @property
    def retry_seconds(self) -> float:
        """After how long there may be room in a full queue, at the rate of the latest completions."""
        if len(self._finished) < _LATEST:
            return _USUAL_RETRY_SECONDS
        rate = _LATEST / max(time.monotonic() - self._finished[0], 0.1)
        return min(max(self.waiting / rate / 4, 1.0), _LONGEST_RETRY_SECONDS)

    @property
    def unfinished(self) -> int:
        return len(self._tickets)

    def refuse_more(self) -> None:
        with self._lock:
            self._is_accepting = False

    def close(self) -> None:
        """Ends the scorer; what is unfinished ends with `ScorerClosedError`. Closing twice is fine."""
        if self._is_inherited:
            return
        self.refuse_more()
        self.is_open = False
        while self._bell.request(0):
            pass
        self._thread.join(_ENDING_SECONDS)

    @property
    def has_more(self) -> bool:
        return self.waiting > 0

    def take_turn(self) -> None:
        assert self._batch is not None, "a batch calls"
        self._job.settle()
        self.place.take_turn()
        room = self._batch.room
        with self._lock:
            while room > 0 and (client := self._next()) is not None:
                ticket = client.tickets.popleft()
                position, (completion, problem) = ticket.waiting.popleft()
                if ticket.waiting:
                    client.tickets.append(ticket)
                self.waiting -= 1
                client.in_flight += 1
                ticket.in_flight += 1
                self._place(client)
                index = self._batch.add(completion, problem, ticket.context, agent=ticket.agent)
                self._flying[index] = ticket, position
                room -= 1

    def land(self, launch: Launch) -> bool:
        if not self.place.land(launch):
            with suppress(InfrastructureError, Withdrawn):
                self._job.collect(launch)
        return True

    def _place(self, client: _Client) -> None:
        client.version += 1
        if client.tickets:
            heapq.heappush(self._order, (client.in_flight, next(self._places), client.version, client))
        elif not client.in_flight:
            self._clients.pop(client.name, None)

    def _next(self) -> _Client | None:
        while self._order:
            _, _, version, client = self._order[0]
            heapq.heappop(self._order)
            if version == client.version and client.tickets:
                return client
        return None

    def _give_up(self, ticket: Ticket) -> None:
        with self._lock:
            self.waiting -= len(ticket.waiting)
            ticket.waiting.clear()
            if ticket in ticket.client.tickets:
                ticket.client.tickets.remove(ticket)
                self._place(ticket.client)
        ticket.future.cancel()

    def _hear(self, result: ScoredCompletion) -> None:
        with self._lock:
            ticket, position = self._flying.pop(result.index)
            client = ticket.client
            client.in_flight -= 1
            self._place(client)
            self._finished.append(time.monotonic())
            has_more = self.waiting > 0
        if has_more:
            # There is room for another one; where the result was in the cache, the batch has nothing to wait for.
            self._bell.wake()
        try:
            ticket.tell(replace(result, index=position))
        except Exception as error:  # noqa: BLE001 - what a listener does wrong is told to those who wait for it, and no other
            ticket.fail(error)

    def _work(self) -> None:
        while self.is_open:
            self._batch = Batch(
                self._job,
                self._own,
                self._cache,
                self._emit,
                self._bell,
                self._hear,
                keeps_output=False,
                keeps_results=False,
                on_verdict=self._on_verdict,
            )
            try:
                self._batch.run(self)
            except Exception as error:  # noqa: BLE001 - who waits hears of it, and the next request may fare better
                self._fail(error)
        self.place.end(ScorerClosedError())
        self._fail(ScorerClosedError(), everything=True)

    def _fail(self, error: Exception, *, everything: bool = False) -> None:
        with self._lock:
            failed = {ticket for ticket, _ in self._flying.values()}
            if everything or not failed:
                failed = set(self._tickets)
            self._flying.clear()
            for client in self._clients.values():
                client.in_flight = 0
                client.tickets = deque(each for each in client.tickets if each not in failed)
            for ticket in failed:
                self.waiting -= len(ticket.waiting)
                ticket.waiting.clear()
            for client in tuple(self._clients.values()):
                self._place(client)
        for ticket in failed:
            ticket.fail(error)
