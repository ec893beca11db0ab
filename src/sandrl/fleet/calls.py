"""A node runs functions and objects, which the driver calls by name.

Errors of sandrl are returned as plain records, because the driver's machine could not unpickle an error class of a
library that it does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from sandrl.errors import InfrastructureError, SandrlError


@dataclass(frozen=True, slots=True)
class Refusal:
    message: str
    hint: str | None

    def error(self, node: str) -> InfrastructureError:
        return InfrastructureError(f"node {node}: {self.message}", hint=self.hint)


class Actor:
    """An object of a node, which Ray runs in a process of its own; a factory is named as `package.module:name`."""

    def __init__(self, factory: str, argument: object) -> None:
        self._value: Any = None
        self._made = answer_of(lambda: self._make(factory, argument))

    def _make(self, factory: str, argument: object) -> None:
        self._value = _named(factory)(argument)

    def call(self, method: str, *arguments: object) -> object:
        if isinstance(self._made, Refusal):
            return self._made
        return answer_of(lambda: getattr(self._value, method)(*arguments))


def run_named(path: str, *arguments: object) -> object:
    """Calls the function of a path like `package.module:function`; its error is a `Refusal`."""
    return answer_of(lambda: _named(path)(*arguments))


def answer_of(call: Callable[[], object]) -> object:
    """The result of a call, or a `Refusal` made of its error."""
    try:
        return call()
    except SandrlError as error:
        return Refusal(error.message, error.hint)


def _named(path: str) -> Callable[..., Any]:
    module, _, name = path.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found
