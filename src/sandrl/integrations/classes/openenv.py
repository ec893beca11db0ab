"""The environment for OpenEnv, with the types of its messages and the factory of its server."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping
from typing import Any

from openenv.core.env_server import Action, Environment, Observation, State, create_app
from pydantic import Field

from sandrl.errors import InputError
from sandrl.events.results import ScoredCompletion
from sandrl.integrations.backend import Scoring, backend_for, scored
from sandrl.integrations.problems import named_problem, problem_set
from sandrl.problems import Problem, chat_prompt
from sandrl.runs.statistics import training_reward

__all__ = ["CodeAction", "CodeEnvironment", "CodeObservation", "CodeState", "create_app"]


class CodeAction(Action):  # type: ignore[misc] # the framework is not there for the type checker
    """The model's answer: text that contains its code."""

    completion: str


class CodeObservation(Observation):  # type: ignore[misc]
    """The problem at first, and then what became of the answer.

    `reward` is None until there is an answer, and where nothing can be said about it: its `status` says why.
    """

    task_id: str
    messages: list[dict[str, str]] = Field(default_factory=list)
    status: str = ""
    detail: str = ""
    checks_passed: int = 0
    checks_total: int = 0


class CodeState(State):  # type: ignore[misc]
    """The episode, and its problem."""

    task_id: str = ""


class CodeEnvironment(Environment):  # type: ignore[misc]
    """Shows a problem, and scores the answer to it; for its arguments see `sandrl.integrations.openenv.create_app`.

    Raises:
        InputError: If the set cannot be used.
        UsageError: If an option is impossible.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(
        self,
        problems: str = "bundled",
        *,
        service: str | None = None,
        token: str | None = None,
        sandboxes: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self._source = problems
        self._names = list(problem_set(problems))
        self._backend = backend_for(service, token, sandboxes=sandboxes)
        self._scoring = Scoring.of(options)
        self._random = random.Random()
        self._problem: Problem | None = None
        self._state = CodeState()

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, task_id: str | None = None, **_: Any
    ) -> CodeObservation:
        """Begins an episode.

        Args:
            seed: Decides which problem, where none is named.
            task_id: The name of its problem; one by chance unless given.

        Raises:
            InputError: If the set has no problem of that name.
        """
        if seed is not None:
            self._random.seed(seed)
        name = task_id if task_id is not None else self._random.choice(self._names)
        self._problem = named_problem(name, self._source)
        self._state = CodeState(episode_id=episode_id or str(uuid.uuid4()), step_count=0, task_id=name)
        return CodeObservation(task_id=name, messages=chat_prompt(self._problem))

    def step(
        self, action: CodeAction, timeout_s: float | None = None, task_id: str | None = None, **_: Any
    ) -> CodeObservation:
        """Scores an answer; see `step_async`."""
        problem = self._begin_step(task_id)
        return _observation(problem, self._backend.submit(problem, action.completion, self._scoring).result())

    async def step_async(
        self, action: CodeAction, timeout_s: float | None = None, task_id: str | None = None, **_: Any
    ) -> CodeObservation:
        """Scores an answer, which ends the episode.

        Args:
            action: The model's answer.
            timeout_s: Not used; the options for scoring set the limits.
            task_id: The problem, where there is no episode: each `POST /step` has an environment of its own.

        Raises:
            InputError: If there is no episode, or it has ended, and no problem is named.
            ServiceError: If there is no runtime, or the service does not answer.
        """
        problem = self._begin_step(task_id)
        return _observation(problem, await scored(self._backend, problem, action.completion, self._scoring))

    @property
    def state(self) -> CodeState:
        """The episode."""
        return self._state

    def _begin_step(self, task_id: str | None) -> Problem:
        problem, self._problem = self._problem, None
        if problem is None and task_id is not None:
            problem = named_problem(task_id, self._source)
            self._state.task_id = task_id
        if problem is None:
            raise InputError("no episode is running: call reset first, or give a task_id")
        self._state.step_count += 1
        return problem


def _observation(problem: Problem, result: ScoredCompletion) -> CodeObservation:
    return CodeObservation(
        task_id=problem.task_id,
        done=True,
        reward=training_reward(result.reward, result.components),
        status=result.status.value,
        detail=result.detail,
        checks_passed=result.passed,
        checks_total=result.total,
    )
