"""Imports optional dependencies in one place, so that a missing one always causes the same one-line error.

An installed library can still be impossible to import, wherever a command uses it: a shared library, a file or another
package is missing, or has a version that does not fit. `broken_library` recognizes such an error, which is not a bug
of sandrl: an import raised it, and not code of sandrl.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from types import ModuleType, TracebackType

from sandrl.errors import BrokenLibraryError, MissingExtraError, SandrlError

_PACKAGE = Path(__file__).resolve().parent
_SITES = ("site-packages", "dist-packages")


def require(module: str, *, extra: str = "", package: str = "") -> ModuleType:
    """Imports an optional dependency: one that an extra of sandrl brings, or the user's own `package`, as pip names it.

    Raises:
        MissingExtraError: If it is not installed, or one of its own dependencies is missing.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        wanted = module.partition(".")[0]
        missing = error.name or wanted
        message = f"the package {wanted!r} is not installed"
        if wanted == "sandrl":
            message = f"the package {missing.partition('.')[0]!r} is not installed"
        elif missing.partition(".")[0] != wanted:
            message = f"the package {wanted!r} cannot be imported: {missing!r} is not installed"
        raise MissingExtraError(message, hint=_hint(extra, package)) from error


def check(modules: Iterable[str], *, extra: str) -> None:
    """Makes sure that optional dependencies are installed, without loading any of them.

    Raises:
        MissingExtraError: If one is not installed.
    """
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise MissingExtraError(f"the package {module!r} is not installed", hint=_hint(extra))


def broken_library(error: BaseException) -> BrokenLibraryError | None:
    """The same error as one of sandrl's, if a library that is not part of sandrl could not be imported; else None."""
    if isinstance(error, MissingExtraError | KeyboardInterrupt | SystemExit):
        return None
    for cause in reversed([*_causes(error)]):
        if isinstance(error, SandrlError) and not _is_of_loader(cause):
            # Its message says more; but what a loader of shared libraries raises can be taken for a problem of files.
            continue
        library = _library_of(cause)
        if library in sys.stdlib_module_names:
            message = f"{sys.executable} has no module {library!r} of Python's own library"
            return BrokenLibraryError(message, hint="use a Python that was built with it")
        if library:
            from sandrl.installation import again_command

            reason = last_line(cause)
            if isinstance(cause, ImportError) and not cause.name and not _is_importing(cause):
                # Raised by code of the library, whose text says what it needs.
                return BrokenLibraryError(f"the library {library!r} cannot be used: {reason}")
            message = f"the library {library!r} cannot be imported: {reason}"
            return BrokenLibraryError(
                message, hint=f"install it again: {again_command(distribution_of(library))}; sandrl doctor tests it"
            )
    return None


def last_line(error: BaseException) -> str:
    """The kind of an error and the last line of its message, of the error that caused it if there is one."""
    error = [*_causes(error)][-1]
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1]}" if lines else type(error).__name__


def distribution_of(module: str) -> str:
    """The package that brings a top-level module, as pip names it; the module's own name if none says so."""
    try:
        return metadata.distribution(module).name
    except (metadata.PackageNotFoundError, ValueError):
        return next(iter(metadata.packages_distributions().get(module, ())), module)


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        yield following
        implied = None if following.__suppress_context__ else following.__context__
        is_of_import = isinstance(following, RuntimeError | ImportError) and _is_of_import(implied)
        following = following.__cause__ or (implied if is_of_import else None)


def _is_of_import(error: BaseException | None) -> bool:
    return isinstance(error, ImportError) or _is_of_loader(error)


def _is_of_loader(error: BaseException | None) -> bool:
    # Whether the loader of shared libraries raised an error; it gives it no number.
    is_its_kind = isinstance(error, ImportError) or (isinstance(error, OSError) and error.errno is None)
    return is_its_kind and re.search(r"\.so(\.\d+)*: ", str(error)) is not None


def _is_importing(error: BaseException) -> bool:
    return any(function == "<module>" and _library_at(path) for path, function in _places(error.__traceback__))


def _library_of(error: BaseException) -> str:
    # The library whose import raised an error; empty if no import did, or if it is part of sandrl.
    library, is_importing = "", False
    for path, function in _places(error.__traceback__):
        if _PACKAGE in path.parents:
            library, is_importing = "", False
        elif named := _library_at(path):
            library = named
            is_importing |= function == "<module>"
    if isinstance(error, ModuleNotFoundError) and error.name:
        missing = error.name.partition(".")[0]
        if missing in sys.stdlib_module_names or not library:
            return "" if missing == _PACKAGE.name else missing
    if isinstance(error, ImportError) and not library:
        library = _library_at(Path(error.path)) if error.path else (error.name or "").partition(".")[0]
        return "" if library == _PACKAGE.name or library in sys.stdlib_module_names else library
    return library if is_importing or _is_of_import(error) else ""


def _places(traceback: TracebackType | None) -> Iterator[tuple[Path, str]]:
    while traceback is not None:
        code = traceback.tb_frame.f_code
        yield Path(code.co_filename), code.co_name
        traceback = traceback.tb_next


def _library_at(path: Path) -> str:
    # The top-level module of a file of an installed library; empty for other files.
    for index in range(len(path.parts) - 2, -1, -1):
        if path.parts[index] in _SITES:
            name = path.parts[index + 1].partition(".")[0]
            return "" if name == _PACKAGE.name else name
    return ""


def _hint(extra: str, package: str = "") -> str:
    from sandrl.installation import install_command, package_command

    return install_command(extra) if extra else package_command(package)
