"""Loads a user's function by its name `package.module:function`, or by its file, `path/to/file.py:function`.

The function is the user's own code, so it is imported into this process. A module is imported as `python -m` would
import it: from the current directory first, then from the installed packages. A file is imported as `python FILE` would
find it, with the modules beside it; another process that receives the function loads it from the same file. Errors in
it are detected before a runtime is contacted, and reported in one line.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import os
import pickle
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sandrl.errors import UsageError
from sandrl.suggestions import near

_LONGEST_REASON = 300


def load_function(field: str, name: str, arguments: tuple[str, ...]) -> Callable[..., Any]:
    """Imports a function by its name.

    Args:
        name: `package.module:function`, or `path/to/file.py:function`; `module:object.method` names an attribute of an
            attribute.

    Raises:
        UsageError: If there is none of that name, or it cannot be called so.
    """
    what = f"{field} is {name!r}"
    module_name, _, path = name.rpartition(":")
    is_file = names_file(name)
    if is_file and not (module_name and path):
        hint = f"name a function of the file: {name.removesuffix(':')}:FUNCTION"
        raise UsageError(f"{what}, which is a file without a function", hint=hint)
    if not all(part.isidentifier() for part in [*([] if is_file else module_name.split(".")), *path.split(".")]):
        raise UsageError(f"{what}, which is not of the form package.module:function or path/to/file.py:function")
    found = _import_file(what, _path(module_name)) if is_file else _import(what, module_name)
    place = f"module {module_name!r} ({getattr(found, '__file__', None) or 'built in'})"
    if is_file:
        place = f"the file {_path(module_name)}"
    for part in path.split("."):
        if not hasattr(found, part):
            raise UsageError(f"{what}, and {place} has no {part!r}{near(part, _names(found), {})}")
        found = getattr(found, part)
    function = check_function(what, found, arguments)
    return FileFunction(f"{_path(module_name)}:{path}", function) if is_file else function


def names_file(name: str) -> bool:
    """Whether a name is that of a file, with or without a function, and not of a module or of something else."""
    return (name.rpartition(":")[0] or name).endswith(".py")


class FileFunction:
    """A function of a file, which another process loads from that file."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        file, _, self.__qualname__ = name.rpartition(":")
        # As messages name it.
        self.__module__ = os.path.basename(file)
        self.__wrapped__ = function
        self.name = name

    def __call__(self, *arguments: Any) -> Any:
        return self.__wrapped__(*arguments)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FileFunction) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple[Callable[[str], FileFunction], tuple[str]]:
        return _from_file, (self.name,)


def _from_file(name: str) -> FileFunction:
    found = load_function("reward", name, ("verdict", "completion"))
    assert isinstance(found, FileFunction), "the name is that of a file"
    return found


def check_function(what: str, function: object, arguments: tuple[str, ...]) -> Callable[..., Any]:
    """Refuses what cannot be called with so many arguments; the message begins with `what`.

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
        with _directory_first(os.getcwd()):
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            hint = f"run sandrl in the directory that holds {name.partition('.')[0]!r}, or install the package"
            raise UsageError(f"{what}, and there is no module {error.name!r}", hint=hint) from error
        raise UsageError(f"{what}, and module {name!r} cannot be imported: {reason_of(error)}") from error
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise UsageError(f"{what}, and module {name!r} cannot be imported: {reason_of(error)}") from error


def _import_file(what: str, path: Path) -> Any:
    # The stem of a file may be that of a module that is imported already, such as `test`.
    name = f"{path.stem}_{hashlib.sha256(os.fsencode(path)).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    if not path.is_file():
        others = sorted(each.name for each in path.parent.glob("*.py")) if path.parent.is_dir() else []
        raise UsageError(f"{what}, and there is no file {path}{near(path.name, others, {})}")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, "its name ends in .py"
    assert spec.loader is not None, "its name ends in .py"
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        with _directory_first(str(path.parent)):
            spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if not isinstance(error, Exception | SystemExit):
            raise
        raise UsageError(f"{what}, and the file {path} cannot be imported: {reason_of(error)}") from error
    return module


def _path(file: str) -> Path:
    return Path(os.path.abspath(Path(file).expanduser()))


def _names(found: object) -> list[str]:
    return [each for each in dir(found) if not each.startswith("_")]


@contextmanager
def _directory_first(here: str) -> Iterator[None]:
    # Imports inside the block find what is in the directory first; later ones find it after all that is installed.
    sys.path.insert(0, here)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        if here in sys.path:
            sys.path.remove(here)
        if here not in sys.path:
            sys.path.append(here)
