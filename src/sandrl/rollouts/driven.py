"""An episode on a task whose calls come from elsewhere: from a client over HTTP, or from a trainer with its own loop.

The episode is the agent of a trial, on the trial's thread. Each call is handed over to this thread, in order, and
answered with a future. In a task of several steps the answer to a submission comes with the next instruction, after the
step was verified.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from sandrl.errors import InfrastructureError
from sandrl.events.results import ScoredCompletion, Status
from sandrl.problems.tasks.task import Task, TaskStep
from sandrl.rollouts.sandbox import LOST
from sandrl.rollouts.toolbox import EpisodeEnd, TaskToolbox
from sandrl.trials.machine import Machine

_SUBMITTED = "Submitted."
_NEXT = "Submitted. The next instruction:\n\n{}"
_FINISH = ""


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """A call in the step of a number, or without a name the end of this step."""

    name: str
    arguments: str | Mapping[str, object]
    number: int
    answer: Future[str] = field(default_factory=Future)


class DrivenEpisode:
    """An agent whose calls other threads make.

    Args:
        idle_seconds: After so long without a call the episode is lost.
        takes_turns: Whether it may wait for room; one of a trainer that calls all of its episodes in turn must not.

    Attributes:
        number: The number of the step that is, or was last, worked on, from 0.
        has_begun: Whether the machine of the task was there.
        is_over: Whether no call can have an effect any more.
        result: What becomes of the episode; set by `begin`.
    """

    def __init__(self, task: Task, max_calls: int, *, idle_seconds: float = math.inf, takes_turns: bool = True) -> None:
        self.takes_turns = takes_turns
        self._steps = len(task.steps)
        self._toolbox = TaskToolbox(max_calls)
        self._idle_seconds = idle_seconds
        self._asked: SimpleQueue[_Asked | None] = SimpleQueue()
        self._lock = threading.RLock()
        # The call that is being made, and the submission that is answered with the next step.
        self._current: _Asked | None = None
        self._submission: _Asked | None = None
        self._gone = ""
        self._is_closed = False
        self.is_over = False
        self._step: TaskStep = task.steps[0]
        self.number = 0
        self.has_begun = self.is_acting = False
        self.result: Future[ScoredCompletion] = Future()

    def begin(self, judge: Callable[[DrivenEpisode], Future[ScoredCompletion]]) -> None:
        """Has a trial judged whose agent this is.

        Raises:
            SandrlError: If `judge` does.
        """
        self.result = judge(self)
        self.result.add_done_callback(lambda _: self._end())

    @property
    def is_repeatable(self) -> bool:
        """Whether the work has not begun."""
        return not self.has_begun

    @property
    def instruction(self) -> str:
        """The instruction of the step that is, or was last, worked on."""
        return self._step.instruction

    @property
    def calls(self) -> int:
        return self._toolbox.calls

    @property
    def end(self) -> EpisodeEnd | None:
        """What has ended the work on the step; None while calls are answered."""
        return EpisodeEnd.LOST if self.loss else self._toolbox.end

    @property
    def loss(self) -> str:
        """Why the episode was lost; empty if it was not, or is not over."""
        if not self.result.done() or self.result.cancelled():
            return self._gone
        if (error := self.result.exception()) is not None:
            return str(error) or type(error).__name__
        found = self.result.result()
        return found.detail if found.status is Status.INFRASTRUCTURE else ""

    def ask(self, name: str, arguments: str | Mapping[str, object]) -> Future[str]:
        """Makes a call; the future has what a policy is to read about it."""
        return self._put(_Asked(name or " ", arguments, self.number))

    def call(self, name: str, arguments: str | Mapping[str, object]) -> str:
        """What a policy is to read about a call."""
        return self.ask(name, arguments).result()

    def finish(self) -> Future[str]:
        """Ends the work on the step, as its submission does."""
        return self._put(_Asked(_FINISH, "", self.number))

    def give_up(self, reason: str) -> None:
        """Ends the episode without a verdict, unless the work on it has ended."""
        with self._lock:
            self._gone = self._gone or reason
            current = self._current
        if current is not None:
            # Its command may take long to end.
            self._tell(current, LOST)
        self._asked.put(None)

    def close(self) -> None:
        """Ends the work on an episode that nobody goes on with: what there is, is judged."""
        self._is_closed = True
        self.finish()

    def _tell(self, asked: _Asked, told: str) -> None:
        with self._lock:
            if not asked.answer.done():
                asked.answer.set_result(told)

    def _put(self, asked: _Asked) -> Future[str]:
        with self._lock:
            if not self.is_over:
                self._asked.put(asked)
                return asked.answer
        self._answer_late(asked)
        return asked.answer

    def _answer_late(self, asked: _Asked) -> None:
        if self.loss:
            self._tell(asked, LOST)
        elif asked.name == _FINISH:
            self._tell(asked, _SUBMITTED)
        else:
            if self._toolbox.end is None:
                self._toolbox.finish()
            self._tell(asked, self._toolbox.call(asked.name, asked.arguments))

    def act(self, machine: Machine, step: TaskStep, number: int) -> str | None:
        toolbox = self._toolbox
        toolbox.begin(machine, step)
        self._step, self.number, self.has_begun, self.is_acting = step, number, True, True
        if self._submission is not None:
            self._tell(self._submission, _NEXT.format(step.instruction))
            self._submission = None
        is_last = number + 1 == self._steps
        if self._is_closed:
            toolbox.finish()
        try:
            while toolbox.end is None:
                if (asked := self._next()) is not None:
                    self._answer(asked, is_last=is_last)
        finally:
            self.is_acting = False
            with suppress(InfrastructureError):
                toolbox.close()
        if is_last:
            self._end()
        return None if toolbox.end is EpisodeEnd.SUBMITTED else f"the work ended: {toolbox.end}"

    # The next call; None if the time for the step is up.
    def _next(self) -> _Asked | None:
        self._check_wanted()
        wait = min(self._idle_seconds, self._toolbox.seconds_left)
        began = time.monotonic()
        try:
            asked = self._asked.get(timeout=None if wait == math.inf else min(wait, threading.TIMEOUT_MAX))
        except Empty:
            if time.monotonic() - began >= self._idle_seconds:
                self._gone = f"there was no call for {self._idle_seconds:g} s"
                raise InfrastructureError(self._gone) from None
            return None
        if self.loss and asked is not None:
            self._tell(asked, LOST)
        self._check_wanted()
        return asked

    def _check_wanted(self) -> None:
        if self._gone:
            raise InfrastructureError(self._gone)

    def _answer(self, asked: _Asked, *, is_last: bool) -> None:
        toolbox, self._current = self._toolbox, asked
        told = ""
        try:
            if asked.name == _FINISH and asked.number < self.number:
                # It came when that step was over, such as at its time limit.
                told = _NEXT.format(self._step.instruction)
            elif asked.name == _FINISH:
                toolbox.finish()
            else:
                told = toolbox.call(asked.name, asked.arguments)
        except BaseException as error:
            self._gone = str(error) or type(error).__name__
            self._tell(asked, LOST)
            raise
        finally:
            self._current = None
        if toolbox.end is not EpisodeEnd.SUBMITTED:
            self._tell(asked, told)
        elif is_last:
            with self._lock:
                # Who hears of the submission waits for the verdict, not for a next step.
                self.is_over = True
            self._tell(asked, _SUBMITTED)
        else:
            self._submission = asked

    # No call has an effect any more; those that wait are answered.
    def _end(self) -> None:
        with self._lock:
            self.is_over = True
        waiting = [] if self._submission is None else [self._submission]
        self._submission = None
        for asked in waiting:
            self._tell(asked, LOST if self.loss else _SUBMITTED)
        with suppress(Empty):
            while True:
                if (late := self._asked.get_nowait()) is not None:
                    self._answer_late(late)
        if self._gone:
            # For an agent that is about to wait.
            self._asked.put(None)
