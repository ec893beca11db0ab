"""The tools of one episode in use: every call of a model gets an answer, until a call ends the episode.

All decisions about a call are made here, because trainers differ in when they stop asking a model: a call after the end
gets the same answer and changes nothing. A submission is only stored, and judged after the episode in a fresh sandbox,
because changes that the policy made to its own sandbox must not decide its reward.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from enum import StrEnum

from sandrl.config.words import ToolSet
from sandrl.problems.tasks.task import TaskStep
from sandrl.rollouts.calls import parse_call
from sandrl.rollouts.sandbox import LOST, EpisodeSandbox
from sandrl.rollouts.task_tools import TASK_TOOLS, Desk, Submit
from sandrl.rollouts.tools import TOOLS, NotCopiedError, SubmitSolution
from sandrl.trials.machine import Machine

_SUBMITTED_BEFORE = "error: a solution was submitted before"
_NO_CALLS_LEFT = "error: no tool calls are left"
_TIME_IS_UP = "error: the time for the task is up"
_DESTROYED = "error: no command can be executed any more, so the episode has ended"
# So often in a row a terminal that cannot be opened may be one that can be opened again.
_MOST_BROKEN = 3


class EpisodeEnd(StrEnum):
    """Why an episode ended, in the words of its row."""

    SUBMITTED = "submitted"
    NO_TOOL_CALLS = "no tool calls"
    NO_CALLS_LEFT = "no tool calls left"
    PASSED = "passed"
    NO_ATTEMPTS_LEFT = "no attempts left"
    CANNOT_BE_JUDGED = "cannot be judged"
    TOO_LONG = "the conversation became too long"
    TIME_IS_UP = "time is up"
    DESTROYED = "sandbox destroyed"
    AGENT_ENDED = "the agent ended"
    AGENT_FAILED = "the agent failed"
    REFUSED = "the proxy answered no more"
    LOST = "lost"


class Toolbox:
    """The tools of one episode.

    Args:
        max_calls: How many calls there may be, malformed ones included.

    Attributes:
        calls: How many there were; those after the end do not count.
        solution: The code that was submitted, the files it needs included; None before.
    """

    def __init__(self, sandbox: EpisodeSandbox, tool_set: ToolSet, max_calls: int) -> None:
        self._sandbox = sandbox
        self._tools = TOOLS[tool_set]
        self._max_calls = max_calls
        self.calls = 0
        self.solution: str | None = None

    @property
    def loss(self) -> str:
        """Why the sandbox was lost, and the episode with it; empty if it was not."""
        return self._sandbox.loss

    @property
    def end(self) -> EpisodeEnd | None:
        """What has ended the episode; None while calls are answered."""
        if self.loss:
            return EpisodeEnd.LOST
        if self.solution is not None:
            return EpisodeEnd.SUBMITTED
        if self._sandbox.is_destroyed:
            return EpisodeEnd.DESTROYED
        return EpisodeEnd.NO_CALLS_LEFT if self.calls == self._max_calls else None

    def call(self, name: str, arguments: str | Mapping[str, object]) -> str:
        """What a model is to read about a call it made."""
        match self.end:
            case EpisodeEnd.LOST:
                return LOST
            case EpisodeEnd.SUBMITTED:
                return _SUBMITTED_BEFORE
            case EpisodeEnd.DESTROYED:
                return _DESTROYED
            case EpisodeEnd.NO_CALLS_LEFT:
                return _NO_CALLS_LEFT
        self.calls += 1
        call = parse_call(self._tools, name, arguments)
        if isinstance(call, str):
            return call
        return self._submit(call) if isinstance(call, SubmitSolution) else call.use(self._sandbox)

    def close(self) -> None:
        self._sandbox.close()

    def _submit(self, call: SubmitSolution) -> str:
        try:
            self.solution = call.solution(self._sandbox)
        except NotCopiedError as error:
            return str(error)
        return "Submitted."


class TaskToolbox:
    """The tools of one episode on a task, from step to step.

    Args:
        max_calls: How many calls there may be in all steps, malformed ones included.

    Attributes:
        calls: How many there were; those after the end of a step do not count.
        loss: Empty: the loss of a machine is raised.
    """

    loss = ""

    def __init__(self, max_calls: int) -> None:
        self._max_calls = max_calls
        self._desk: Desk | None = None
        self._is_submitted = False
        self.calls = 0

    def begin(self, machine: Machine, step: TaskStep) -> None:
        """Begins the work on a step, whose time runs from now on."""
        self._is_submitted = False
        limit = step.agent.timeout_seconds
        self._desk = Desk(machine, step, math.inf if limit is None else time.monotonic() + limit)

    @property
    def seconds_left(self) -> float:
        """How much time is left for the step; infinite without a limit."""
        return math.inf if self._desk is None else self._desk.seconds_left

    @property
    def end(self) -> EpisodeEnd | None:
        """What has ended the work on the step; None while calls are answered."""
        if self._is_submitted:
            return EpisodeEnd.SUBMITTED
        if self.seconds_left <= 0:
            return EpisodeEnd.TIME_IS_UP
        if self._desk is not None and self._desk.broken_calls >= _MOST_BROKEN:
            return EpisodeEnd.DESTROYED
        return EpisodeEnd.NO_CALLS_LEFT if self.calls >= self._max_calls else None

    def call(self, name: str, arguments: str | Mapping[str, object]) -> str:
        """What a model is to read about a call it made.

        Raises:
            InfrastructureError: If the machine was lost, and the episode with it.
        """
        match self.end:
            case EpisodeEnd.SUBMITTED:
                return _SUBMITTED_BEFORE
            case EpisodeEnd.TIME_IS_UP:
                return _TIME_IS_UP
            case EpisodeEnd.DESTROYED:
                return _DESTROYED
            case EpisodeEnd.NO_CALLS_LEFT:
                return _NO_CALLS_LEFT
        assert self._desk is not None, "a step has begun"
        self.calls += 1
        call = parse_call(TASK_TOOLS, name, arguments)
        if isinstance(call, str):
            return call
        self._is_submitted = isinstance(call, Submit)
        return call.use(self._desk)

    def finish(self) -> None:
        """Ends the work on the step, as its submission does."""
        self._is_submitted = True

    def close(self) -> None:
        """Ends the terminal of the step."""
        if self._desk is not None:
            self._desk.close()
