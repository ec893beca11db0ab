"""The object that a node holds for a driver, which calls its methods by name.

This module is sent to the node as text, so it imports the standard library only, and sandrl where it must be looked
for. A node without sandrl, or with other code, gives an answer and not a traceback. Errors of sandrl are also answers:
the driver's machine could not unpickle an error class of a library that it does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Reply: TypeAlias = tuple[Any, tuple[str, str | None] | None]
"""The result of a call, or the message and the hint of an error."""

_HINT = "install the sandrl and the Python of this machine there"


class Actor:
    """An object that Ray runs in a process of its own on a node.

    Args:
        code: The version of sandrl on the driver's machine, and the digest of its code.
        python: The version of Python there.
        name: A class, `package.module:name`, of which it is an instance; or a module, which it is itself.
        arguments: Those of the class, pickled.
    """

    def __init__(self, code: tuple[str, str], python: str, name: str, arguments: bytes) -> None:
        problem = _problem(code, python)
        self._made: Reply = (None, (problem, _HINT)) if problem else _reply(lambda: _made(name, arguments))

    def call(self, method: str, *arguments: object) -> Reply:
        value, refusal = self._made
        return self._made if refusal is not None else _reply(lambda: getattr(value, method)(*arguments))


def code_here() -> tuple[str, str]:
    """The version of sandrl on this machine, and 16 hex digits that name its source files."""
    import hashlib
    from pathlib import Path

    import sandrl

    root = Path(sandrl.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root)} {len(content)}\n".encode())
        digest.update(content)
    return sandrl.__version__, digest.hexdigest()[:16]


def _problem(code: tuple[str, str], python: str) -> str:
    # Why this machine cannot score for the driver; empty if it can.
    import platform

    try:
        here = code_here()
    except Exception as error:  # noqa: BLE001 - whatever keeps it from being imported there is the answer
        return f"sandrl cannot be imported: {type(error).__name__}: {error}"
    if here != code:
        same = "other code of the same version" if here[0] == code[0] else f"sandrl {here[0]}"
        return f"it has {same}, and this machine has sandrl {code[0]}"
    if platform.python_version_tuple()[:2] != tuple(python.split(".")[:2]):
        return f"it has Python {platform.python_version()}, and this machine has {python}"
    return ""


def _made(name: str, arguments: bytes) -> Any:
    import pickle
    from importlib import import_module

    module, _, kind = name.partition(":")
    return getattr(import_module(module), kind)(*pickle.loads(arguments)) if kind else import_module(module)


def _reply(call: Callable[[], Any]) -> Reply:
    from sandrl.errors import SandrlError

    try:
        return call(), None
    except SandrlError as error:
        return None, (error.message, error.hint)
