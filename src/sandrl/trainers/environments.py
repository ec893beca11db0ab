"""Episodes with tools inside TRL's loop: the environment of each episode, and the trainer that runs it.

The toolbox answers every call, as in other episodes. TRL's loop would answer some calls with its own messages: calls of
unknown tools, and calls whose arguments are not an object. Its trainer looks tools up in a table by name and parses
sampled text with the tokenizer; with a table that contains every name, and arguments that are always an object, both
cases reach the toolbox. TRL continues to sample after a submission; later calls have no effect. A message whose calls
the template cannot parse has no calls, for TRL as for a server, and is the last one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from sandrl.config.words import ToolSet
from sandrl.rollouts.sandbox import SandboxSource
from sandrl.rollouts.toolbox import Toolbox
from sandrl.rollouts.tools import TOOLS, Tool
from sandrl.trainers.conversations import AS_WRITTEN, written

_SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)


class Environment:
    """Where one episode after another takes place; subclasses have the tools as methods, for TRL to describe them.

    Args:
        place: Where sandboxes come from.
        tool_set: The tools there are.
        max_calls: How many calls an episode may have.

    Attributes:
        toolbox: That of the episode.
    """

    def __init__(self, place: SandboxSource, tool_set: ToolSet, max_calls: int) -> None:
        self._begin = partial(Toolbox, place, tool_set=tool_set, max_calls=max_calls)
        self.toolbox = self._begin("")

    @property
    def submission(self) -> str:
        """The code that is to be judged; empty if none was submitted."""
        return self.toolbox.solution or ""

    @property
    def loss(self) -> str:
        """Why the episode was lost; empty if it was not."""
        return self.toolbox.loss

    def reset(self, **row: Any) -> None:
        """Begins another episode.

        Args:
            row: The row of the dataset it is about, of which `task_id` is used.
        """
        self.toolbox.close()
        self.toolbox = self._begin(str(row.get("task_id", "")))


def environment_factory(place: SandboxSource, tool_set: ToolSet, max_calls: int) -> Callable[[], Environment]:
    """What makes the environments of episodes; see `Environment` for the arguments."""
    methods = {name: _method(name, tool) for name, tool in TOOLS[tool_set].items()}
    kind: type[Environment] = type("Environment", (Environment,), methods)
    return lambda: kind(place, tool_set, max_calls)


def _method(name: str, tool: type[Tool]) -> Callable[..., str]:
    """A tool as TRL and transformers want it: described by its signature and its docstring."""

    def method(self: Environment, /, **arguments: Any) -> str:
        return _answer(self.toolbox, name, arguments)

    fields = tool.model_fields
    parameters = [
        inspect.Parameter(
            field,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=info.annotation,
            default=inspect.Parameter.empty if info.is_required() else info.get_default(call_default_factory=True),
        )
        for field, info in fields.items()
    ]
    told = "\n".join(f"    {field}: {info.description}" for field, info in fields.items())
    described: Any = method
    described.__name__ = described.__qualname__ = name
    described.__doc__ = f"{inspect.getdoc(tool)}\n\nArgs:\n{told}"
    described.__annotations__ = {field: info.annotation for field, info in fields.items()}
    described.__signature__ = inspect.Signature([_SELF, *parameters])
    return method


def episode_trainer(trainer: Any) -> Any:
    """The class of a trainer whose tool loop leaves every call to the environments.

    Args:
        trainer: TRL's `GRPOTrainer`, or what an engine has made of it.
    """

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
    """TRL's table of tools by name, in which there is every name."""

    def __init__(self, toolbox: Toolbox) -> None:
        super().__init__()
        self._toolbox = toolbox

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> Callable[..., str]:
        return lambda **arguments: _answer(self._toolbox, name, arguments)


def _answer(toolbox: Toolbox, name: str, arguments: dict[str, Any]) -> str:
    return toolbox.call(name, arguments.get(AS_WRITTEN, arguments))


def _with_objects(message: Any) -> Any:
    """A parsed message whose calls all have an object as arguments."""
    calls = message.get("tool_calls") if isinstance(message, Mapping) else None
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict) and not isinstance(arguments := function.get("arguments"), Mapping | None):
            function["arguments"] = {AS_WRITTEN: written(arguments)}
    return message
