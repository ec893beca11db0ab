"""Environments of trainers with a loop of their own: classes whose methods are the tools of an episode.

TRL describes the tools to a model by the signatures and docstrings of these methods, so both are made from the same
models of calls as the schemas for endpoints.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from sandrl.rollouts.calls import Call
from sandrl.rollouts.toolbox import EpisodeEnd

AS_WRITTEN = ""
"""The argument of a call that stands for all of them, where they are no object: so TRL can pass them on."""

_SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)


class EpisodeTools(Protocol):
    """The tools of one episode in use, as an environment has them.

    Attributes:
        calls: How many calls there were.
        loss: Why the episode was lost; empty if it was not.
        end: What has ended the episode; None while calls are answered.
    """

    @property
    def calls(self) -> int: ...

    @property
    def loss(self) -> str: ...

    @property
    def end(self) -> EpisodeEnd | None: ...

    def call(self, name: str, arguments: str | Mapping[str, object]) -> str: ...

    def close(self) -> None: ...


class Environment:
    """Where one episode after another takes place; subclasses have the tools as methods, for TRL to describe them.

    Args:
        begin: Begins an episode on the problem with a `task_id`.

    Attributes:
        toolbox: The tools of the episode at hand; there are none before the first one.
    """

    toolbox: EpisodeTools

    def __init__(self, begin: Callable[[str], EpisodeTools]) -> None:
        self._begin = begin
        self._is_new = True

    @property
    def submission(self) -> str:
        """The code that is to be judged; empty if none was submitted."""
        return getattr(self.toolbox, "solution", None) or ""

    @property
    def loss(self) -> str:
        """Why the episode was lost; empty if it was not."""
        return self.toolbox.loss

    def reset(self, **row: Any) -> str | None:
        """Begins another episode, on the problem `task_id` of a row of the dataset."""
        if not self._is_new:
            self.toolbox.close()
        self._is_new = False
        self.toolbox = self._begin(str(row.get("task_id", "")))
        return None


_Environment = TypeVar("_Environment", bound=Environment)


def with_tools(base: type[_Environment], tools: Mapping[str, type[Call]]) -> type[_Environment]:
    """A class of environments that has these tools, with the name of another one."""
    return type(base.__name__, (base,), {name: _method(name, tool) for name, tool in tools.items()})


def _method(name: str, tool: type[Call]) -> Callable[..., str]:
    # A tool as TRL and transformers want it: described by its signature and its docstring.
    def method(self: Environment, /, **arguments: Any) -> str:
        return answer(self.toolbox, name, arguments)

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


def answer(toolbox: EpisodeTools, name: str, arguments: dict[str, Any]) -> str:
    """What a policy is to read about a call."""
    return toolbox.call(name, arguments.get(AS_WRITTEN, arguments))
