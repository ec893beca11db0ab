"""One job for many episodes at once: it runs their commands and judges their submissions.

A job belongs to one thread, the thread of the batch that is being scored; between completions it runs the commands of
episodes in their own sandboxes. So both share one limit of sandboxes and one cleanup, and submissions are judged
exactly as by `sandrl reward`: in fresh sandboxes, with retries of timeouts, canaries, and one verdict for identical
code. An episode is a thread that waits; it is notified at once if there is nothing to wait for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Self, TypeVar

from sandrl import forks
from sandrl.errors import ForkedProcessError, InfrastructureError, SandrlError
from sandrl.events import (
    CanaryFinished,
    CompletionFinished,
    CompletionStarted,
    Emit,
    Event,
    ExecutionFinished,
    OpinionFinished,
    OpinionsAwaited,
    RetryScheduled,
    StopRequested,
    ignore,
)
from sandrl.events.results import ScoredCompletion
from sandrl.judge.judge import Judge
from sandrl.models.client import Stopped
from sandrl.problems import Completion, Problem
from sandrl.rollouts.sandbox import failure_of, image_in
from sandrl.runs import ROLLOUT_TAG
from sandrl.sandboxes import Command, CommandOutcome, Interrupt, Job, Launch, Withdrawn, problem_tag
from sandrl.scoring.batch import Batch
from sandrl.scoring.cache import VerdictCache
from sandrl.scoring.context import ScoringContext
from sandrl.scoring.options import ScoreOptions

_Result = TypeVar("_Result")


class SharedJob:
    """Runs commands and judges solutions for many threads, between the two ends of a `with` block.

    `emit` receives no results: episodes report these. `opinions` has the second opinions, numbered by episodes, all of
    them at the end of the block.
    """

    def __init__(
        self,
        job: Job,
        judge: Judge,
        options: ScoreOptions,
        cache: VerdictCache,
        *,
        timeout_seconds: float = 10.0,
        emit: Emit = ignore,
    ) -> None:
        self._job = job
        self._tags = options.tags
        self.timeout_seconds = timeout_seconds
        self.emit = emit
        self._bell = Interrupt()
        context = ScoringContext.of(options, judge, job.connection)
        self._batch = Batch(job, context, cache, self._tell, self._bell, self._hear)
        self._requests: SimpleQueue[tuple[Callable[[], None], Future[Any] | None]] = SimpleQueue()
        self._running: dict[Launch, Future[tuple[Launch, CommandOutcome]]] = {}
        self._judging: dict[int, Future[ScoredCompletion]] = {}
        self._numbers: dict[int, int] = {}
        self.opinions: list[OpinionFinished] = []
        self._lock = threading.Lock()
        self._end: BaseException | None = None
        self.is_open = True
        self._thread = threading.Thread(target=self._work, name="sandrl-job", daemon=True)
        forks.watch(self)

    def after_fork(self) -> None:
        """Refuses what is asked for from here on: the thread that would do it is not in the child."""
        self._lock = threading.Lock()
        self._end = ForkedProcessError("the sandboxes belong to the process from which this one was forked")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.is_open = False
        self._bell.wake()
        self._thread.join()

    def cancel(self) -> None:
        """Ends all that is in hand, and refuses what comes after it; the sandboxes are the job's to clean up."""
        while self._bell.request(0):
            pass

    def run(
        self, task_id: str, command: Command, within: Launch | None, image: str | None
    ) -> tuple[Launch, CommandOutcome]:
        """Runs a command in a fresh sandbox, or in one that is kept; raises `Stopped` if nothing is run any more."""
        done: Future[tuple[Launch, CommandOutcome]] = Future()
        tags = (ROLLOUT_TAG, problem_tag(task_id), *self._tags)
        found = image_in(self._job, image)

        def begin() -> None:
            self._running[self._job.launch(command, tags=tags, within=within, image=found)] = done

        return self._wait_for(done, begin)

    def release(self, launch: Launch) -> None:
        self._ask(lambda: self._job.release(launch))

    def judge(self, completion: Completion, problem: Problem, number: int) -> ScoredCompletion:
        """Judges a completion in a fresh sandbox; raises `Stopped` if nothing is judged any more."""
        done: Future[ScoredCompletion] = Future()

        def begin() -> None:
            index = self._batch.add(completion, problem)
            self._numbers[index] = number
            self._judging[index] = done

        return self._wait_for(done, begin)

    @property
    def has_more(self) -> bool:
        return False

    def take_turn(self) -> None:
        """Does what was asked for; on the batch's thread."""
        for begin, done in self._asked():
            try:
                begin()
            except SandrlError as error:
                # The end of all; who asked for this is not yet among those who wait.
                if done is not None:
                    done.set_exception(error)
                raise

    def land(self, launch: Launch) -> bool:
        """Hands over the outcome of a command; on the batch's thread."""
        done = self._running.pop(launch, None)
        if done is None:
            return False
        try:
            done.set_result((launch, self._job.collect(launch, keep=True)))
        except Withdrawn:
            done.set_exception(Stopped())
        except InfrastructureError as error:
            done.set_exception(failure_of(self._job, launch, error))
        except SandrlError as error:
            done.set_exception(error)
            raise
        return True

    def _ask(self, begin: Callable[[], None], done: Future[Any] | None = None) -> None:
        with self._lock:
            if self._end is None:
                self._requests.put((begin, done))
            elif done is not None:
                done.set_exception(self._end)
        self._bell.wake()

    def _asked(self) -> Iterator[tuple[Callable[[], None], Future[Any] | None]]:
        with suppress(Empty):
            while True:
                yield self._requests.get_nowait()

    def _wait_for(self, done: Future[_Result], begin: Callable[[], None]) -> _Result:
        self._ask(begin, done)
        return done.result()

    def _work(self) -> None:
        end: BaseException = Stopped()
        try:
            self._batch.run(self)
        except Exception as error:  # noqa: BLE001 - whatever it is, those who wait must hear of it, each in its thread
            end = error
        with self._lock:
            self._end = end
        for begin, done in self._asked():
            if done is None:
                # A sandbox that is released, nothing else.
                begin()
            else:
                done.set_exception(end)
        waiting: list[Future[Any]] = [*self._running.values(), *self._judging.values()]
        for done in waiting:
            done.set_exception(end)

    def _hear(self, result: ScoredCompletion) -> None:
        self._judging.pop(result.index).set_result(result)

    # Passes on what befalls judging, numbered by episodes; results are the episodes' to tell.
    def _tell(self, event: Event) -> None:
        match event:
            case CompletionStarted() | CompletionFinished() | StopRequested() | OpinionsAwaited():
                return
            case OpinionFinished(result):
                self.opinions.append(replace(event, result=replace(result, index=self._numbers[result.index])))
                return
            case RetryScheduled(index=index) | CanaryFinished(index=index):
                event = replace(event, index=self._numbers[index])
            case ExecutionFinished(index=int() as index):
                event = replace(event, index=self._numbers[index])
        self.emit(event)
