"""A node holds an object, whose methods the driver calls by name.

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
    """An object of a node, which Ray runs in a process of its own.

    Args:
        name: A class, `package.module:name`, of which it is an instance; or a module, which it is itself.
    """

    def __init__(self, name: str, *arguments: object) -> None:
        module, _, kind = name.partition(":")
        self._value: Any = _answer_of(lambda: import_module(module))
        if kind:
            self._value = _answer_of(lambda: getattr(self._value, kind)(*arguments))

    def call(self, method: str, *arguments: object) -> object:
        if isinstance(self._value, Refusal):
            return self._value
        return _answer_of(lambda: getattr(self._value, method)(*arguments))


def _answer_of(call: Callable[[], object]) -> object:
    try:
        return call()
    except SandrlError as error:
        return Refusal(error.message, error.hint)
