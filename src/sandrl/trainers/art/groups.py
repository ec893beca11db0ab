"""Groups of episodes with rewards, and the reasons why a step on them would have no gradient.

Whether a group has a gradient is decided here, before the backend is called. Backends skip such groups silently, and
some count a step that did nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from sandrl.models.messages import TOKEN_ID, Message
from sandrl.rollouts.episodes import Episode
from sandrl.rollouts.records import result_of
from sandrl.runs import TrajectoryRow
from sandrl.runs.statistics import training_reward

EQUAL_REWARDS = "equal rewards in every group"
"""How the usual reason for a step without a gradient begins."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One scored episode.

    Attributes:
        id: Names it in its run.
        messages: The conversation, prompt and results of tools included.
        reward: The number it is trained on: its reward with its components.
    """

    id: str
    messages: tuple[Message, ...]
    reward: float

    @property
    def turns(self) -> tuple[int, ...]:
        """Where in the conversation the model speaks."""
        return tuple(place for place, message in enumerate(self.messages) if message.role == "assistant")

    @property
    def has_logprobs(self) -> bool:
        """Whether every turn of the model has its tokens as ids, and a logprob for each of them."""
        turns = [self.messages[place] for place in self.turns]
        return bool(turns) and all(
            message.tokens
            and len(message.tokens) == len(message.logprobs)
            and all(token.startswith(TOKEN_ID) for token in message.tokens)
            for message in turns
        )


@dataclass(frozen=True, slots=True)
class Group:
    """The scored episodes of one problem in one step.

    Attributes:
        task_id: The problem.
        samples: The episodes; those that were dropped are not among them.
    """

    task_id: str
    samples: tuple[Sample, ...]

    @property
    def mean_reward(self) -> float:
        """The mean of its rewards, to which its advantages are relative."""
        return math.fsum(sample.reward for sample in self.samples) / len(self.samples)

    @property
    def has_gradient(self) -> bool:
        """Whether its rewards differ: relative to their mean, all of equal ones are 0 (arXiv:2402.03300, 4.1.2)."""
        return any(one.reward != other.reward for one, other in pairwise(self.samples))


def groups_of(episodes: Iterable[Episode]) -> tuple[Group, ...]:
    """The groups of a step's episodes, without those that have no reward."""
    found: defaultdict[str, list[tuple[int, Sample]]] = defaultdict(list)
    for episode in episodes:
        result = result_of(episode)
        reward = training_reward(result.reward, result.components)
        if reward is not None:
            sample = Sample(episode.id, tuple(episode.messages), reward)
            found[episode.problem.task_id].append((episode.number, sample))
    ordered = {task: [sample for _, sample in sorted(samples, key=_number)] for task, samples in found.items()}
    return tuple(Group(task_id, tuple(samples)) for task_id, samples in ordered.items())


def groups_of_rows(rows: Iterable[TrajectoryRow]) -> dict[int, tuple[Group, ...]]:
    """The groups of episodes that a run has kept, by its steps in order."""
    found: defaultdict[int, defaultdict[str, list[Sample]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        reward = training_reward(row.reward, row.components)
        if reward is not None and row.messages and not row.held_out:
            sample = Sample(row.id, tuple(map(Message.from_row, row.messages)), reward)
            found[row.step or 0][row.task_id].append(sample)
    return {
        step: tuple(Group(task_id, tuple(samples)) for task_id, samples in found[step].items())
        for step in sorted(found)
    }


def with_gradient(groups: Sequence[Group], *, needs_logprobs: bool) -> tuple[Group, ...]:
    """The groups that teach something.

    Args:
        groups: All of a step.
        needs_logprobs: Whether episodes without logprobs cannot be trained on; their groups go without them.
    """
    usable = [
        replace(group, samples=tuple(each for each in group.samples if each.has_logprobs)) if needs_logprobs else group
        for group in groups
    ]
    return tuple(group for group in usable if group.has_gradient)


def why_no_gradient(groups: Sequence[Group], dropped: int, *, needs_logprobs: bool) -> str:
    """Why none of a step's groups teaches anything, in a few words.

    Args:
        groups: All of them.
        dropped: How many episodes were lost to infrastructure.
        needs_logprobs: As for `with_gradient`.
    """
    samples = [sample for group in groups for sample in group.samples]
    usable = [sample for sample in samples if sample.has_logprobs or not needs_logprobs]
    lost = f", {dropped} dropped" if dropped else ""
    if not samples:
        return f"no episode has a reward{lost}"
    if not usable:
        return "no logprobs: the endpoint returns no logprobs, and training needs those of every token"
    if len(usable) < len(samples):
        lost += f", {len(samples) - len(usable)} left out because they have no logprobs"
    if all(len(group.samples) < 2 for group in groups):
        return f"no problem has two scored episodes to compare{lost}"
    rewards = sorted({sample.reward for sample in usable})
    shown = f": {rewards[0]:g} in all" if len(rewards) == 1 else ""
    return f"{EQUAL_REWARDS}{shown}, {len(groups)} groups{lost}"


def _number(entry: tuple[int, Sample]) -> int:
    return entry[0]
