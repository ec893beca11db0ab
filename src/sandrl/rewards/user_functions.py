"""Loads a user's function by its name `package.module:function`.

The function is the user's own code, so it is imported into this process as `python -m` would import it: from the
current directory first, then from the installed packages. Errors in it are detected before a runtime is contacted, and
reported in one line.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import pickle
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sandrl.errors import UsageError

_LONGEST_REASON = 300


def load_function(field: str, name: str, arguments: tuple[str, ...]) -> Callable[..., Any]:
    """Imports a function by its name.

    Args:
        field: The option that names it, for messages.
        name: `package.module:function`; `module:object.method` names an attribute of an attribute.
        arguments: What it will be called with, for the check of its signature.

    Raises:
        UsageError: If there is none of that name, or it cannot be called so.
    """
    what = f"{field} is {name!r}"
    module_name, _, path = name.partition(":")
    if not all(part.isidentifier() for part in [*module_name.split("."), *path.split(".")]):
        raise UsageError(f"{what}, which is not of the form package.module:function")
    found = _import(what, module_name)
    place = f"module {module_name!r} ({getattr(found, '__file__', None) or 'built in'})"
    for part in path.split("."):
        if not hasattr(found, part):
            close = difflib.get_close_matches(part, dir(found), n=1)
            meant = f"; did you mean {close[0]!r}?" if close else ""
            raise UsageError(f"{what}, and {place} has no {part!r}{meant}")
        found = getattr(found, part)
    return check_function(what, found, arguments)


def check_function(what: str, function: object, arguments: tuple[str, ...]) -> Callable[..., Any]:
    """Refuses what cannot be called with these arguments.

    Args:
        what: How the message begins: which option names it.
        function: What was given.
        arguments: The names of what it will be called with, by position.

    Raises:
        UsageError: If it cannot be called so, or is a coroutine function.
    """
    hint = f"define it as: def reward({', '.join(arguments)}): return 1.0"
    if not callable(function):
        raise UsageError(f"{what}, which is of the type {type(function).__name__}, not a function", hint=hint)
    if inspect.iscoroutinefunction(function):
        raise UsageError(
            f"{what}, which is a coroutine function; it must be a plain function that returns a number", hint=hint
        )
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        # Functions written in C may have none that Python can read.
        return function
    try:
        signature.bind(*arguments)
    except TypeError:
        needed = f"with {len(arguments)} arguments ({', '.join(arguments)})"
        raise UsageError(f"{what}, which takes {signature} and cannot be called {needed}", hint=hint) from None
    return function


def check_picklable(what: str, function: Callable[..., Any]) -> None:
    """Refuses a function that cannot be handed to another process.

    Args:
        what: What it is, for the message.
        function: What was given.

    Raises:
        UsageError: If it cannot be pickled: it is a lambda, or was defined in a function.
    """
    try:
        pickle.dumps(function)
    except Exception as error:
        message = f"the reward function cannot be pickled, because {what} cannot: {name_of(function)}"
        hint = "define it at the top level of a module, and pass its name"
        raise UsageError(message, hint=hint) from error


def name_of(function: Callable[..., Any]) -> str:
    """The name of a function for messages, as `load_function` takes it where it has one."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', None) or '?'}:{name}"


def reason_of(error: BaseException) -> str:
    """What an exception of the user's code says, in one line, with the place that raised it."""
    words = " ".join(str(error).split())
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})" if frames else ""
    reason = f"{type(error).__name__}: {words}" if words else type(error).__name__
    return reason[:_LONGEST_REASON] + place


def _import(what: str, name: str) -> Any:
    try:
        with _current_directory_first():
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            hint = f"run sandrl in the directory that holds {name.partition('.')[0]!r}, or install the package"
            raise UsageError(f"{what}, and there is no module {error.name!r}", hint=hint) from error
        raise UsageError(f"{what}, and module {name!r} cannot be imported: {reason_of(error)}") from error
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise UsageError(f"{what}, and module {name!r} cannot be imported: {reason_of(error)}") from error


@contextmanager
def _current_directory_first() -> Iterator[None]:
    """Lets imports find what is in the current directory; later ones find it after all that is installed."""
    here = os.getcwd()
    sys.path.insert(0, here)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        if here in sys.path:
            sys.path.remove(here)
        if here not in sys.path:
            sys.path.append(here)
