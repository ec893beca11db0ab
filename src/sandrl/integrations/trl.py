"""Environments for TRL's `environment_factory`: each episode acts on the machine of a task, and owns its reward.

The verifier of the task decides the reward, as in `sandrl eval`. An episode that cannot be scored, such as one whose
sandbox was lost, has the reward None, which TRL leaves out of its group.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from sandrl.errors import InputError
from sandrl.integrations.backend import Scoring, local_backend
from sandrl.integrations.problems import named_problem, problem_set
from sandrl.rollouts.driven import DrivenEpisode
from sandrl.rollouts.environments import Environment, with_tools
from sandrl.rollouts.task_tools import TASK_TOOLS
from sandrl.runs.statistics import training_reward

MOST_CALLS = 64
"""How many calls of tools an episode has, unless it is said otherwise."""


class TaskEnvironment(Environment):
    """One episode on a task after another, with the tools of tasks as methods: `bash`, `submit`, ….

    TRL describes these methods to the model, calls `reset` before each episode, and `get_reward` after it.
    """

    toolbox: DrivenEpisode

    def reset(self, **row: Any) -> str:
        """Begins an episode on the task `task_id` of a row of the dataset; returns the instruction of its first step.

        Raises:
            InputError: If the set has no such task.
            ServiceError: If there is no runtime, or no room for more.
        """
        super().reset(**row)
        return self.toolbox.instruction

    def get_reward(self) -> float | None:
        """Ends the episode, and returns its reward.

        An episode that cannot be scored, such as one whose sandbox was lost, has None.

        Raises:
            SandrlError: If its job has ended.
        """
        self.toolbox.close()
        result = self.toolbox.result.result()
        return training_reward(result.reward, result.components)


def environment_factory(
    problems: str | None = None,
    *,
    max_tool_calls: int = MOST_CALLS,
    sandboxes: Mapping[str, Any] | None = None,
    **options: Any,
) -> Callable[[], TaskEnvironment]:
    """Returns a function that makes the environments of a `GRPOTrainer`, whose episodes act on tasks.

    Args:
        problems: The set of tasks, as `--problems` takes it; that of SANDRL_PROBLEMS unless given.
        max_tool_calls: The number of calls after which an episode is over.
        sandboxes: Fields of a `SandboxRequest`: which sandboxes of this process.
        options: The options of scoring: `verifier`, `retries`, ….

    Raises:
        InputError: If the set cannot be used.
        UsageError: If an option is impossible.
    """
    problem_set(problems)
    backend, scoring, numbers = local_backend(sandboxes), Scoring.of(options), itertools.count()
    kind = with_tools(TaskEnvironment, TASK_TOOLS)

    def begin(task_id: str) -> DrivenEpisode:
        problem = named_problem(task_id, problems)
        if problem.task is None:
            raise InputError(
                f"the problem {task_id!r:.80} is not a task, and has no machine to act on",
                hint="use sandrl.reward_function for it",
            )
        episode = DrivenEpisode(problem.task, max_tool_calls, takes_turns=False)
        backend.begin(problem, episode, f"{task_id}#{next(numbers)}", scoring)
        return episode

    return lambda: kind(begin)
