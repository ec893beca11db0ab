"""Episodes with tools inside TRL's loop: environments, the trainer that runs them, and the messages that a run stores.

The toolbox answers every call, as in other episodes. TRL's loop would answer some calls with its own messages: calls of
unknown tools, and calls whose arguments are not an object. Its trainer looks tools up in a table by name and parses
sampled text with the tokenizer; with a table that contains every name, and arguments that are always an object, both
cases reach the toolbox. TRL continues to sample after a submission; later calls have no effect. A message whose calls
the template cannot parse has no calls, for TRL as for a server, and is the last one. Content that cannot be parsed is
stored as text: a dropped message could be the one that explains the reward.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sandrl.config.words import ToolSet
from sandrl.problems import Completion, Problem
from sandrl.rollouts.driven import DrivenEpisode
from sandrl.rollouts.environments import AS_WRITTEN, Environment, EpisodeTools, answer, with_tools
from sandrl.rollouts.sandbox import EpisodeSandbox
from sandrl.rollouts.shared_job import SharedJob
from sandrl.rollouts.task_tools import TASK_TOOLS
from sandrl.rollouts.toolbox import EpisodeEnd, Toolbox
from sandrl.rollouts.tools import TOOLS
from sandrl.runs import MessageRow, ToolCallRow
from sandrl.scoring.trainer_batch import Message, Text, text_of

# Where templates put what a model thinks before it answers.
_THOUGHTS = ("reasoning_content", "thinking")


def environment_factory(
    sandbox: Callable[[str], EpisodeSandbox], tool_set: ToolSet, max_calls: int
) -> Callable[[], Environment]:
    """What makes the environments of episodes; `sandbox` makes one for an episode on the problem with a `task_id`."""
    return lambda: with_tools(Environment, TOOLS[tool_set])(
        lambda task_id: Toolbox(sandbox(task_id), tool_set, max_calls)
    )


class TaskEpisodes:
    """Begins episodes on tasks, each with a machine from its beginning on; `close` ends those that last."""

    def __init__(self, place: SharedJob, problems: Mapping[str, Problem], max_calls: int) -> None:
        self._place = place
        self._problems = problems
        self._max_calls = max_calls
        self._number = 0
        self._unfinished: set[DrivenEpisode] = set()

    def make_environment(self) -> Environment:
        return with_tools(Environment, TASK_TOOLS)(self._begin)

    def _begin(self, task_id: str) -> DrivenEpisode:
        problem, number = self._problems[task_id], self._number
        assert problem.task is not None, "other problems have other environments"
        self._number += 1
        episode = DrivenEpisode(problem.task, self._max_calls, takes_turns=False)
        self._unfinished.add(episode)
        completion = Completion(f"{task_id}#{number}", task_id, code="")
        episode.begin(lambda agent: self._place.begin_judging(completion, problem, number, agent=agent))
        episode.result.add_done_callback(lambda _: self._unfinished.discard(episode))
        return episode

    def close(self) -> None:
        for episode in tuple(self._unfinished):
            episode.give_up("the training has ended")
        self._place.cancel()


def episode_trainer(trainer: Any) -> Any:
    """The class of a trainer whose tool loop leaves every call to the environments, from TRL's `GRPOTrainer`."""

    class EpisodeTrainer(trainer):  # type: ignore[misc]
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            parse = self._tokenizer.parse_response
            self._tokenizer.parse_response = lambda *given, **how: _with_objects(parse(*given, **how))

        def _tool_call_loop(self, *arguments: Any, **named: Any) -> Any:
            self._sync_tool_dicts = [_EveryTool(environment.toolbox) for environment in self.environments]
            return super()._tool_call_loop(*arguments, **named)

    return EpisodeTrainer


class _EveryTool(dict[str, Callable[..., str]]):
    # TRL's table of tools by name, in which there is every name.
    def __init__(self, toolbox: EpisodeTools) -> None:
        super().__init__()
        self._toolbox = toolbox

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> Callable[..., str]:
        return lambda **arguments: answer(self._toolbox, name, arguments)


def _with_objects(message: Any) -> Any:
    # All calls of the message then have an object as arguments.
    calls = message.get("tool_calls") if isinstance(message, Mapping) else None
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict) and not isinstance(arguments := function.get("arguments"), Mapping | None):
            function["arguments"] = {AS_WRITTEN: _written(arguments)}
    return message


def message_rows(prompt: Text, completion: Text) -> tuple[MessageRow, ...]:
    """The messages of an episode: those of its prompt, those of the policy, and the results of its tools."""
    return (*_rows(prompt, role="user"), *_rows(completion, role="assistant"))


def episode_end(messages: Sequence[MessageRow]) -> EpisodeEnd:
    """Why an episode ended that its tools have not: TRL takes back what is too long, the answers to calls included."""
    last = messages[-1]
    is_last_word = last.role == "assistant" and not last.tool_calls
    return EpisodeEnd.NO_TOOL_CALLS if is_last_word else EpisodeEnd.TOO_LONG


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _rows(said: Text, *, role: str) -> list[MessageRow]:
    if isinstance(said, str):
        return [MessageRow(role=role, content=said)]
    return [_row(message, role) for message in said]


def _row(message: Message, role: str) -> MessageRow:
    thoughts = [f"<think>\n{message[name]}\n</think>\n" for name in _THOUGHTS if message.get(name)]
    calls = message.get("tool_calls")
    name = message.get("name")
    return MessageRow(
        role=str(message.get("role") or role),
        content="".join([*thoughts, text_of((message,))]),
        tool_calls=tuple(_call(call) for call in calls) if isinstance(calls, list | tuple) else (),
        name=None if name is None else str(name),
        tool_call_id=None if message.get("tool_call_id") is None else str(message["tool_call_id"]),
    )


def _call(call: Any) -> ToolCallRow:
    function = call.get("function", call) if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return ToolCallRow(name="", arguments=_written(call))
    arguments = function.get("arguments", "")
    return ToolCallRow(
        name=str(function.get("name") or ""),
        arguments=_written(arguments.get(AS_WRITTEN, arguments) if isinstance(arguments, Mapping) else arguments),
        id=str(call.get("id") or ""),
    )
