"""The queue of requests, and the one thread that processes them.

One thread owns all weights and processes requests in the order in which they arrived. Only samples of the same weights
are batched, regardless of their distance in the queue: nothing changes the weights of a sampler, and a batch of a
hundred takes little longer than one request alone.

The number that its client assigned identifies a job: a request that is sent twice, because its answer was lost, is
processed once. The queue is bounded in requests and in tokens. Answers that are stored for repeated requests are
bounded as well; an answer that its client has not fetched yet is stored for ten minutes.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from sandrl.trainers.tinker.options import QueueFullError, RequestError
from sandrl.trainers.tinker.sampling import Sample

Answer = dict[str, Any]

ROWS_AT_ONCE = 256
ANSWERS_KEPT = 2_000
TOKENS_WAITING = 1 << 24
TOKENS_KEPT = 1 << 22
UNFETCHED_SECONDS = 600.0
GATHERING_SECONDS = 0.01
"""How long the first of many requests for samples waits for the others."""


@dataclass(eq=False)
class Job:
    """A request to do, and its answer, which is `run`'s or says why it failed.

    Attributes:
        tokens: About how many tokens the request, or its answer, has.
        sampler: Whose weights it samples from first; None for any other job.
        ended_at: When it had its answer; 0 before.
        is_fetched: Whether the client has it.
    """

    run: Callable[[], Answer]
    tokens: int = 0
    sampler: str | None = None
    samples: list[Sample] = field(default_factory=list)
    answer: Future[Answer] = field(default_factory=Future)
    ended_at: float = 0.0
    is_fetched: bool = False

    @property
    def may_go(self) -> bool:
        if not self.answer.done():
            return False
        return self.is_fetched or time.monotonic() - self.ended_at > UNFETCHED_SECONDS

    def end(self, answer: Answer) -> None:
        """Gives its answer; the data of the request, which `run` closes over, is not needed any more."""
        self.ended_at = time.monotonic()
        self.answer.set_result(answer)
        self.run, self.samples = dict, []


class Work:
    """Does jobs, of which `max_waiting` may wait; `draw` draws samples from the weights of a sampler."""

    def __init__(self, draw: Callable[[str, list[Sample]], None], max_waiting: int) -> None:
        self._draw = draw
        self._max_waiting = max_waiting
        self._waiting: deque[Job] = deque()
        self._tokens_waiting = 0
        self._is_waiting = threading.Condition()
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._tokens_kept = 0
        threading.Thread(target=self._work, name="sandrl-tinker-work", daemon=True).start()

    def submit(self, number: str, job: Job) -> None:
        """Puts a job into the queue, if none of the same number is or was there.

        Raises:
            QueueFullError: If the queue is full.
        """
        with self._is_waiting:
            if number in self._jobs:
                return
            is_full = self._waiting and self._tokens_waiting + job.tokens > TOKENS_WAITING
            if is_full or len(self._waiting) >= self._max_waiting:
                raise QueueFullError(f"{len(self._waiting)} requests are waiting; send this request again later")
            self._jobs[number] = job
            self._tokens_kept += job.tokens
            self._drop_answers()
            self._waiting.append(job)
            self._tokens_waiting += job.tokens
            self._is_waiting.notify()

    def _drop_answers(self) -> None:
        for number in list(self._jobs):
            if len(self._jobs) <= ANSWERS_KEPT and self._tokens_kept <= TOKENS_KEPT:
                return
            if self._jobs[number].may_go:
                self._tokens_kept -= self._jobs.pop(number).tokens

    def note_fetched(self, number: str) -> None:
        job = self._jobs.get(number)
        if job is not None:
            job.is_fetched = True

    def knows(self, number: str) -> bool:
        return number in self._jobs

    def answer(self, number: str) -> Future[Answer] | None:
        """The answer to a job; None if the job is not known, or no longer."""
        job = self._jobs.get(number)
        return None if job is None else job.answer

    def _work(self) -> None:
        while True:
            jobs = self._next()
            try:
                if jobs[0].sampler is not None:
                    self._draw(jobs[0].sampler, [sample for job in jobs for sample in job.samples])
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is the answer, and other clients are served
                for job in jobs:
                    job.end(_failure(error))
                continue
            for job in jobs:
                try:
                    answer = job.run()
                except BaseException as error:  # noqa: BLE001 - likewise
                    answer = _failure(error)
                job.end(answer)

    def _next(self) -> list[Job]:
        with self._is_waiting:
            while not self._waiting:
                self._is_waiting.wait()
            first = self._taken(self._waiting.popleft())
        if first.sampler is None:
            return [first]
        time.sleep(GATHERING_SECONDS)
        jobs, rows = [first], len(first.samples)
        with self._is_waiting:
            for job in list(self._waiting):
                if job.sampler == first.sampler and rows + len(job.samples) <= ROWS_AT_ONCE:
                    self._waiting.remove(job)
                    jobs.append(self._taken(job))
                    rows += len(job.samples)
        return jobs

    def _taken(self, job: Job) -> Job:
        self._tokens_waiting -= job.tokens
        return job


def _failure(error: BaseException) -> Answer:
    if isinstance(error, RequestError):
        return {"error": str(error), "category": "user"}
    traceback.print_exception(error)
    return {"error": f"{type(error).__name__}: {error}", "category": "server"}
