"""One job for many episodes at once: it runs their commands and judges their submissions.

A job belongs to one thread, the thread of the batch that is being scored; between completions it runs the commands of
episodes in their own sandboxes. So both share one limit of sandboxes and one cleanup, and submissions are judged
exactly as by `sandrl reward`: in fresh sandboxes, with retries of timeouts, canaries, and one verdict for identical
code. An episode is a thread that waits; it is notified at once if there is nothing to wait for.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import replace
from types import TracebackType
from typing import Self

from sandrl import forks
from sandrl.errors import ForkedProcessError
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
from sandrl.rollouts.sandbox import EpisodeSandbox
from sandrl.sandboxes import Interrupt, Job, Launch
from sandrl.scoring.batch import Batch
from sandrl.scoring.cache import VerdictCache
from sandrl.scoring.context import ScoringContext
from sandrl.scoring.options import ScoreOptions
from sandrl.trials.place import JobPlace
from sandrl.trials.trial import Agent


class SharedJob:
    """Runs commands and judges solutions for many threads, between the two ends of a `with` block.

    `emit` receives no results: episodes report these. `opinions` has the second opinions, numbered by episodes, all of
    them at the end of the block. With `counts`, the budget of the job counts what is judged; otherwise its caller does.
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
        counts: bool = True,
    ) -> None:
        self._job = job
        self._tags = options.tags
        self._timeout_seconds = timeout_seconds
        self.emit = emit
        self._bell = Interrupt()
        context = ScoringContext.of(options, judge, job.connection)
        self.place = JobPlace(job, self._bell.wake, emit=emit)
        self._batch = Batch(
            job,
            context,
            cache,
            self._tell,
            self._bell,
            self._hear,
            place=self.place,
            counts=counts,
            on_withdrawn=self._withdraw,
        )
        self._judging: dict[int, Future[ScoredCompletion]] = {}
        self._numbers: dict[int, int] = {}
        self.opinions: list[OpinionFinished] = []
        self.is_open = True
        self._thread = threading.Thread(target=self._work, name="sandrl-job", daemon=True)
        forks.watch(self)

    def after_fork(self) -> None:
        """Refuses what is asked for from here on: the thread that would do it is not in the child."""
        self.place.after_fork(ForkedProcessError("the sandboxes belong to the process from which this one was forked"))

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

    def withdraw_trials(self) -> None:
        """Lets trials end that have a machine; those that wait for one, and those to come, end with `Stopped`."""
        self.place.ask(self._batch.withdraw_trials)

    def sandbox(self, problem: Problem) -> EpisodeSandbox:
        """A sandbox for an episode on a problem."""
        return EpisodeSandbox(
            self.place, problem.task_id, problem.image, timeout_seconds=self._timeout_seconds, tags=self._tags
        )

    def judge(
        self, completion: Completion, problem: Problem, number: int, *, agent: Agent | None = None
    ) -> ScoredCompletion:
        """Judges a completion in a fresh sandbox, or what an agent makes of its task.

        Raises:
            Stopped: If nothing is judged any more.
        """
        return self.begin_judging(completion, problem, number, agent=agent).result()

    def begin_judging(
        self, completion: Completion, problem: Problem, number: int, *, agent: Agent | None = None
    ) -> Future[ScoredCompletion]:
        """The same, without waiting."""
        done: Future[ScoredCompletion] = Future()

        def begin() -> None:
            index = self._batch.add(completion, problem, agent=agent)
            self._numbers[index] = number
            self._judging[index] = done

        self.place.ask(begin, done)
        return done

    @property
    def has_more(self) -> bool:
        return False

    def take_turn(self) -> None:
        """Does what was asked for; on the batch's thread."""
        self.place.take_turn()

    def land(self, launch: Launch) -> bool:
        """Hands over the outcome of a command; on the batch's thread."""
        return self.place.land(launch)

    def _work(self) -> None:
        end: BaseException = Stopped()
        try:
            self._batch.run(self)
        except Exception as error:  # noqa: BLE001 - whatever it is, those who wait must hear of it, each in its thread
            end = error
        self.place.end(end, *self._judging.values())

    def _hear(self, result: ScoredCompletion) -> None:
        self._judging.pop(result.index).set_result(result)

    def _withdraw(self, index: int) -> None:
        self._judging.pop(index).set_exception(Stopped())

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
