"""Groups of episodes with rewards, why a step on them would have no gradient, and their form for ART.

Whether a group has a gradient is decided here, before the backend is called. Backends skip such groups silently, and
some count a step that did nothing.

ART trains the last sampled message of a history and repeats earlier ones in the context of later ones. Each turn of an
episode therefore gets a history of its own, in which earlier turns are plain messages: every turn is trained exactly
once, in the context in which it was sampled.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Self

from sandrl.events.results import is_cut_off
from sandrl.models.endpoint import chat_message
from sandrl.models.messages import TOKEN_ID, Message
from sandrl.rollouts.episodes import Episode
from sandrl.rollouts.results import result_of
from sandrl.runs import TrajectoryRow
from sandrl.runs.statistics import training_reward
from sandrl.trainers.art.libraries import load

EQUAL_REWARDS = "equal rewards in every group"
"""How the usual reason for a step without a gradient begins."""

_FINISH_REASONS = frozenset({"stop", "length", "tool_calls", "content_filter"})


@dataclass(frozen=True, slots=True)
class Sample:
    """One scored episode: its conversation, and its reward with its components, on which it is trained.

    Attributes:
        tools: The tools that an agent offered, JSON schemas of functions; empty for those of the run.
        branches: The other conversations of an agent in the episode.
    """

    id: str
    messages: tuple[Message, ...]
    reward: float
    is_pass: bool = False
    tools: tuple[Mapping[str, Any], ...] = ()
    branches: tuple[Sample, ...] = ()

    @classmethod
    def of(
        cls,
        identifier: str,
        conversations: Iterable[tuple[Iterable[Message], tuple[Mapping[str, Any], ...]]],
        reward: float,
        *,
        is_pass: bool,
    ) -> Self:
        """The sample of an episode: of each of its conversations, the main one first, the messages and the tools."""
        main, *others = (cls(identifier, tuple(messages), reward, is_pass, tools) for messages, tools in conversations)
        return replace(main, branches=tuple(others))

    @property
    def conversations(self) -> tuple[Sample, ...]:
        """Each conversation of the episode, as a sample without branches."""
        return (self, *self.branches)

    @property
    def turns(self) -> tuple[int, ...]:
        """Where in the conversation the model speaks, without what it is given."""
        return tuple(
            place for place, message in enumerate(self.messages) if message.role == "assistant" and not message.is_given
        )

    @property
    def has_logprobs(self) -> bool:
        """Whether every turn of the model has its tokens as ids, and a logprob for each of them."""
        turns = [each.messages[place] for each in self.conversations for place in each.turns]
        return bool(turns) and all(
            message.tokens
            and len(message.tokens) == len(message.logprobs)
            and all(token.startswith(TOKEN_ID) for token in message.tokens)
            for message in turns
        )

    @property
    def is_truncated(self) -> bool:
        """Whether its last turn was cut off at the token limit."""
        turns = self.turns
        return bool(turns) and is_cut_off(self.messages[turns[-1]].finish_reason)


@dataclass(frozen=True, slots=True)
class Group:
    """The scored episodes of one problem in one step, without those that were dropped."""

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
            said = [(episode.messages, episode.tools), *((each.messages, each.tools) for each in episode.branches)]
            sample = Sample.of(episode.id, said, reward, is_pass=result.is_pass)
            found[episode.problem.task_id].append((episode.number, sample))
    ordered = {
        task: [sample for _, sample in sorted(samples, key=lambda entry: entry[0])] for task, samples in found.items()
    }
    return tuple(Group(task_id, tuple(samples)) for task_id, samples in ordered.items())


def groups_of_rows(rows: Iterable[TrajectoryRow]) -> dict[int, tuple[Group, ...]]:
    """The groups of episodes that a run has kept, by its steps in order."""
    found: defaultdict[int, defaultdict[str, list[Sample]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        reward = training_reward(row.reward, row.components)
        if reward is not None and row.messages and not row.held_out:
            kept = [(row.messages, row.tools), *((each.messages, each.tools) for each in row.branches)]
            said = [(map(Message.from_row, messages), tools) for messages, tools in kept]
            found[row.step or 0][row.task_id].append(Sample.of(row.id, said, reward, is_pass=row.is_pass))
    return {
        step: tuple(Group(task_id, tuple(samples)) for task_id, samples in found[step].items())
        for step in sorted(found)
    }


def without_truncated(groups: Sequence[Group]) -> tuple[Group, ...]:
    """The groups of a step without the episodes that were cut off at the token limit."""
    kept = (replace(group, samples=tuple(each for each in group.samples if not each.is_truncated)) for group in groups)
    return tuple(group for group in kept if group.samples)


def with_gradient(groups: Sequence[Group], *, needs_logprobs: bool) -> tuple[Group, ...]:
    """The groups of a step that have a gradient, with `needs_logprobs` without the episodes that have no logprobs."""
    usable = [
        replace(group, samples=tuple(each for each in group.samples if each.has_logprobs)) if needs_logprobs else group
        for group in groups
    ]
    return tuple(group for group in usable if group.has_gradient)


def why_no_gradient(groups: Sequence[Group], dropped: int, truncated: int = 0, *, needs_logprobs: bool) -> str:
    """Why none of a step's groups has a gradient, in a few words.

    `dropped` episodes were lost to infrastructure, and `truncated` ones were left out because they were cut off.
    """
    samples = [sample for group in groups for sample in group.samples]
    usable = [sample for sample in samples if sample.has_logprobs or not needs_logprobs]
    lost = f", {dropped} dropped" if dropped else ""
    if truncated:
        lost += f", {truncated} left out because they were cut off"
    if not samples and truncated:
        return f"no episode with a reward is left{lost}"
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


def left_out(groups: Sequence[Group]) -> int:
    """How many episodes of groups have no logprobs."""
    return sum(not sample.has_logprobs for group in groups for sample in group.samples)


def count_tokens(groups: Sequence[Group]) -> int:
    """How many sampled tokens of groups have an advantage that is not 0."""
    return sum(
        len(each.messages[turn].tokens)
        for group in groups
        for sample in group.samples
        if not math.isclose(sample.reward, group.mean_reward, abs_tol=1e-9)
        for each in sample.conversations
        for turn in each.turns
    )


def art_group(group: Group, tools: Sequence[Mapping[str, Any]], *, extra: str) -> Any:
    """ART's `TrajectoryGroup` of a group; the tools that were offered are JSON schemas of functions."""
    art = load("art", extra=extra)
    return art.TrajectoryGroup([_trajectory(art, sample, tools, extra) for sample in group.samples])


def openai_tools(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]] | None:
    """Tools as a chat completion takes them; None if there are none."""
    return [{"type": "function", "function": tool} for tool in tools] or None


def context(sample: Sample, turn: int) -> list[dict[str, Any]]:
    """The messages before a turn, exactly as they were sent when it was sampled."""
    return [chat_message(message) for message in sample.messages[:turn]]


def _trajectory(art: Any, sample: Sample, tools: Sequence[Mapping[str, Any]], extra: str) -> Any:
    # The record of messages and choices, by its name in either release.
    record = getattr(art.trajectories, "LegacyHistory", art.trajectories.History)
    histories = [
        record(
            messages_and_choices=[*context(each, turn), _choice(each.messages[turn], extra)],
            tools=openai_tools(each.tools or tools),
        )
        for each in sample.conversations
        for turn in each.turns
    ]
    first, *others = histories
    return art.Trajectory(
        messages_and_choices=first.messages_and_choices,
        tools=first.tools,
        additional_histories=others,
        reward=sample.reward,
        metadata={"id": sample.id},
    )


def _choice(message: Message, extra: str) -> Any:
    # A sampled message as the OpenAI client would have given it.
    document: dict[str, Any] = {
        "index": 0,
        "finish_reason": message.finish_reason if message.finish_reason in _FINISH_REASONS else "stop",
        "message": {**chat_message(message), "role": "assistant"},
    }
    if message.logprobs:
        pairs = zip(message.tokens, message.logprobs, strict=True)
        document["logprobs"] = {
            "content": [{"token": token, "logprob": logprob, "top_logprobs": []} for token, logprob in pairs]
        }
    return load("openai.types.chat.chat_completion", extra=extra).Choice.model_validate(document)
