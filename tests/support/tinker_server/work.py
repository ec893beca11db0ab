"""The queue of what clients want, and the one thread that does it.

The design decision: one thread owns all weights, and does what it is asked in the order it is asked. Only samples of
the same weights go together, however far behind one another they wait: nothing changes the weights of a sampler, and a
batch of a hundred takes little longer than one alone.

A job is known by the number its client gave it: a request sent twice, because its answer was lost, is done once.
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

from tests.support.tinker_server.refusals import Refused
from tests.support.tinker_server.sampling import Sample

Answer = dict[str, Any]

ROWS_AT_ONCE = 256
ANSWERS_KEPT = 2_000
GATHERING_SECONDS = 0.01
"""How long the first of many requests for samples waits for the others."""


@dataclass(eq=False)
class Job:
    """Something to do, and what is told to whoever waits for it.

    Attributes:
        run: Does it.
        sampler: Whose weights it samples from first; None for any other job.
        samples: What it samples.
        answer: What `run` said, or what went wrong.
    """

    run: Callable[[], Answer]
    sampler: str | None = None
    samples: list[Sample] = field(default_factory=list)
    answer: Future[Answer] = field(default_factory=Future)


class Work:
    """Does jobs.

    Args:
        draw: Draws samples from the weights of a sampler.
    """

    def __init__(self, draw: Callable[[str, list[Sample]], None]) -> None:
        self._draw = draw
        self._waiting: deque[Job] = deque()
        self._is_waiting = threading.Condition()
        self._answers: OrderedDict[str, Future[Answer]] = OrderedDict()
        threading.Thread(target=self._work, name="work", daemon=True).start()

    def submit(self, number: str, job: Job) -> None:
        """Puts a job into the queue, if none of the same number is or was there."""
        with self._is_waiting:
            if number in self._answers:
                return
            self._answers[number] = job.answer
            while len(self._answers) > ANSWERS_KEPT and next(iter(self._answers.values())).done():
                self._answers.popitem(last=False)
            self._waiting.append(job)
            self._is_waiting.notify()

    def knows(self, number: str) -> bool:
        """Whether a job of this number was submitted."""
        return number in self._answers

    def answer(self, number: str) -> Future[Answer] | None:
        """What became of a job; None if it is not known, or no longer."""
        return self._answers.get(number)

    def _work(self) -> None:
        while True:
            jobs = self._next()
            try:
                if jobs[0].sampler is not None:
                    self._draw(jobs[0].sampler, [sample for job in jobs for sample in job.samples])
            except BaseException as error:  # noqa: BLE001 - whatever it is, its clients are told and the others served
                for job in jobs:
                    job.answer.set_result(_failure(error))
                continue
            for job in jobs:
                try:
                    answer = job.run()
                except BaseException as error:  # noqa: BLE001 - likewise
                    answer = _failure(error)
                job.answer.set_result(answer)

    def _next(self) -> list[Job]:
        """The job that has waited longest, and those that go together with it."""
        with self._is_waiting:
            while not self._waiting:
                self._is_waiting.wait()
            first = self._waiting.popleft()
        if first.sampler is None:
            return [first]
        time.sleep(GATHERING_SECONDS)
        jobs, rows = [first], len(first.samples)
        with self._is_waiting:
            for job in list(self._waiting):
                if job.sampler == first.sampler and rows + len(job.samples) <= ROWS_AT_ONCE:
                    self._waiting.remove(job)
                    jobs.append(job)
                    rows += len(job.samples)
        return jobs


def _failure(error: BaseException) -> Answer:
    if isinstance(error, Refused):
        return {"error": str(error), "category": "user"}
    traceback.print_exception(error)
    return {"error": f"{type(error).__name__}: {error}", "category": "server"}
