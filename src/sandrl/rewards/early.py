"""Scores a batch of a trainer while its completions are still being generated.

The batch is opened when the generation begins, and each completion is judged as soon as it has ended. Results and
events that a step counts are held back until the trainer asks for the rewards: they belong to the step that uses the
completions, whenever they happened, and each completion has exactly one result.

A job belongs to one thread at a time, so a batch waits until the one before it is over.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import TypeAlias

from sandrl.closing import Closing
from sandrl.events import (
    CanaryFinished,
    CompletionFinished,
    CompletionStarted,
    Emit,
    Event,
    ExecutionFinished,
    OpinionFinished,
    RetryScheduled,
)
from sandrl.events.results import ScoredCompletion
from sandrl.problems import Completion, Problem
from sandrl.sandboxes import Interrupt, Launch
from sandrl.scoring.batch import Batch, OnResult
from sandrl.scoring.summary import ScoreReport

MakeBatch: TypeAlias = Callable[[Emit, Interrupt, OnResult], Batch]
"""Makes the batch, of who hears its events, its interrupt and who hears its results."""


class EarlyBatch(Closing):
    """A batch whose completions are handed over one by one, until all are known (`complete`) and asked for (`finish`).

    Args:
        interrupt: Its requests to stop reach the batch, too.
        emit: Receives what is not counted, such as warnings, at once, and the rest from `finish`.
        after: A batch of the same job that must be over first.
    """

    def __init__(
        self,
        make: MakeBatch,
        problems: Mapping[str, Problem],
        *,
        interrupt: Interrupt,
        emit: Emit,
        after: EarlyBatch | None = None,
    ) -> None:
        self._make = make
        self._problems = problems
        self._emit = emit
        self._after = after
        self._bell = interrupt.child()
        self._given: list[Completion] = []
        self._asked: SimpleQueue[Completion] = SimpleQueue()
        self._held: SimpleQueue[ScoredCompletion | Event | None] = SimpleQueue()
        self._done: Future[ScoreReport] = Future()
        # The positions of completions among those that the trainer asks for, by their numbers here.
        self._rows: dict[int, int] = {}
        self._batch: Batch | None = None
        self._is_complete = False
        self._thread = threading.Thread(target=self._work, name="sandrl-early", daemon=True)
        self._thread.start()

    def add(self, completion: Completion) -> int:
        """Hands over a completion, which is judged as soon as there is room; returns its number."""
        self._given.append(completion)
        self._asked.put(completion)
        self._bell.wake()
        return len(self._given) - 1

    def complete(self, rows: Sequence[Completion]) -> None:
        """Tells which completions the trainer has: those that were not handed over are, and no more follow."""
        known: defaultdict[tuple[str, str | None], deque[int]] = defaultdict(deque)
        for number, completion in enumerate(self._given):
            known[_content(completion)].append(number)
        for position, row in enumerate(rows):
            found = known[_content(row)]
            self._rows[found.popleft() if found else self.add(row)] = position
        self._is_complete = True
        self._bell.wake()

    def finish(self, rows: Sequence[Completion], on_result: OnResult | None = None) -> ScoreReport:
        """Waits for the results of these completions, and tells them with all that was held back, on this thread.

        Raises:
            SandrlError: What the batch ended with.
        """
        if not self._is_complete:
            self.complete(rows)
        results: dict[int, ScoredCompletion] = {}
        while (told := self._held.get()) is not None:
            if isinstance(told, Event):
                event = self._renumbered(told, rows)
                if event is not None:
                    self._emit(event)
            elif (position := self._rows.get(told.index)) is not None:
                results[position] = self._named(told, position, rows)
                if on_result is not None:
                    on_result(results[position])
                self._emit(CompletionFinished(results[position], finished=len(results), of=len(rows)))
        self._thread.join()
        report = self._done.result()
        for each in report.results:
            if (position := self._rows.get(each.index)) in results:
                # With its second opinion.
                results[position] = self._named(each, position, rows)
        return replace(
            report, results=tuple(results[each] for each in sorted(results)), unfinished=len(rows) - len(results)
        )

    def wait(self) -> None:
        """Waits until the job is free of this batch, of which all completions are known."""
        self._thread.join()

    def close(self) -> None:
        """Gives up what is not finished; the sandboxes are the job's to clean up."""
        self._is_complete = True
        while self._bell.request(0):
            pass
        self._bell.wake()
        self._thread.join()

    # The feed of the batch, on its thread.

    @property
    def is_open(self) -> bool:
        return not self._is_complete or not self._asked.empty()

    @property
    def has_more(self) -> bool:
        return False

    def take_turn(self) -> None:
        assert self._batch is not None, "its own batch asks"
        with suppress(Empty):
            while True:
                self._batch.add(self._asked.get_nowait(), self._problems)

    def land(self, launch: Launch) -> bool:
        return False

    def _work(self) -> None:
        try:
            if self._after is not None:
                self._after.wait()
                self._after = None
            self._batch = self._make(self._hear, self._bell, self._held.put)
            self._done.set_result(self._batch.run(self, is_limited=True))
        except Exception as error:  # noqa: BLE001 - whoever asks for the results hears of it
            self._done.set_exception(error)
        finally:
            self._held.put(None)

    def _hear(self, event: Event) -> None:
        match event:
            case CompletionFinished():
                return
            case CompletionStarted() | ExecutionFinished() | RetryScheduled() | CanaryFinished() | OpinionFinished():
                self._held.put(event)
            case _:
                self._emit(event)

    def _renumbered(self, event: Event, rows: Sequence[Completion]) -> Event | None:
        # An event of a completion with the number and the name that it has for the trainer; None if it has neither.
        match event:
            case OpinionFinished(result):
                position = self._rows.get(result.index)
                return None if position is None else replace(event, result=self._named(result, position, rows))
            case ExecutionFinished(index=int() as index):
                position = self._rows.get(index)
                return None if position is None else replace(event, index=position)
            case CompletionStarted(index=index) | RetryScheduled(index=index) | CanaryFinished(index=index):
                position = self._rows.get(index)
                return None if position is None else replace(event, index=position, id=rows[position].id)
        return event

    @staticmethod
    def _named(result: ScoredCompletion, position: int, rows: Sequence[Completion]) -> ScoredCompletion:
        return replace(result, index=position, id=rows[position].id)


def _content(completion: Completion) -> tuple[str, str | None]:
    return completion.task_id, completion.completion
