"""Calibration: facts about a problem, determined once, before its first completion is judged.

Trials run the problem's own code, or known programs, and never a completion: so no completion, and no order of
completions, decides how a problem is judged. A problem whose checks are plain calls and comparisons needs no trial.
A calibration is kept on disk by a digest of the problem, the judge and the runtime.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TypeAlias

from pydantic import TypeAdapter, ValidationError

from sandrl.digests import digest_of
from sandrl.errors import SandrlError
from sandrl.files import read_entry, write_entry
from sandrl.judge.guest_report import Execution
from sandrl.judge.verdict import ReferenceValues, Verdict
from sandrl.problems import Problem
from sandrl.problems.imports import imported_modules
from sandrl.problems.store import memory_of
from sandrl.settings import private_directory
from sandrl.syntax import try_parse

LACKING = "which sandboxes do not have; add it with `--packages`, or use an image that has it"

MOST_BYTES = 256 << 20
"""How much memory the problems of one judge may take, with what their references returned."""

_SCHEMA = 1
# The modules that a completion's code is in.
_OF_COMPLETIONS = frozenset(("solution", "__main__", "__future__"))
_IMPORT_ERRORS = frozenset(("ImportError", "ModuleNotFoundError", "Exception", "BaseException"))


@dataclass(frozen=True, slots=True)
class Calibration:
    """What is known about a problem.

    Attributes:
        invalid: Why no completion of it can be judged; empty if they can.
        reason: Why its checks cannot be kept out of the completion's process; empty if they can.
        returned: What its reference returned, if calls are compared with that.
    """

    invalid: str = ""
    reason: str = ""
    returned: ReferenceValues | None = None

    @property
    def splits(self) -> bool:
        """Whether its checks are kept out of the completion's process."""
        return not self.reason


PLAIN = Calibration()
"""Nothing has to be known: the problem is judged as it is."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A program to run before the first completion.

    Attributes:
        prepare: Makes its command; a key is used once, so each sandbox gets a new one.
        key: What it determines, if that holds for other problems, too.
    """

    prepare: Callable[[], Execution]
    key: Hashable = None


Trials: TypeAlias = Generator[Trial, Verdict, Calibration]
"""The trials of a problem, one after another: each is sent the verdict on the one before."""


class Calibrations:
    """Calibrations by problem, as many as fit, and the latest: a service gets an unlimited number of problems."""

    def __init__(self, max_bytes: int = MOST_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._found: OrderedDict[Problem, tuple[Calibration, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._found)

    def find(self, problem: Problem) -> Calibration | None:
        known = self._found.get(problem)
        if known is None:
            return None
        self._found.move_to_end(problem)
        return known[0]

    def keep(self, problem: Problem, calibration: Calibration) -> None:
        self._bytes -= self._found.pop(problem, (None, 0))[1]
        size = memory_of(problem) + (len(calibration.returned.packed) if calibration.returned is not None else 0)
        self._found[problem] = calibration, size
        self._bytes += size
        while self._bytes > self._max_bytes and len(self._found) > 1:
            self._bytes -= self._found.popitem(last=False)[1][1]


@cache
def _adapter() -> TypeAdapter[Calibration]:
    return TypeAdapter(Calibration)


class CalibrationStore:
    """Calibrations in a directory that other processes of this user share.

    What cannot be read is determined anew, and what cannot be written is determined again by the next process. Nothing
    is read from a directory that others can write to. That a problem is invalid is not kept: its cause may be gone.
    """

    def __init__(self, cache_dir: Path) -> None:
        self._cache_dir = cache_dir

    def find(self, key: str, problem: Problem) -> Calibration | None:
        """What is kept under a name for a problem; None if nothing is, or it is damaged."""
        try:
            content = read_entry(self._directory(), key, MOST_BYTES)
            if content["schema"] != _SCHEMA or content["digest"] != digest_of([content["found"]]).hex():
                return None
            found = _adapter().validate_python(content["found"])
        except (OSError, SandrlError, ValueError, KeyError, TypeError, RecursionError, ValidationError):
            return None
        calls = len(problem.calls) if problem.asks_reference else 0
        return found if calls == (len(found.returned.sizes) if found.returned is not None else 0) else None

    def keep(self, key: str, calibration: Calibration) -> None:
        """Keeps a calibration, unless the problem is invalid."""
        if calibration.invalid:
            return
        content = asdict(calibration)
        entry = {"schema": _SCHEMA, "digest": digest_of([content]).hex(), "found": content}
        with suppress(OSError, SandrlError):
            write_entry(self._directory(), key, entry)

    def _directory(self) -> Path:
        return private_directory(private_directory(self._cache_dir) / "calibrations")


# What the source of a problem says


def modules_of(problem: Problem) -> tuple[str, ...]:
    """The modules that a problem needs: its packages, and what its own code imports whenever it runs.

    Imports that may not run (within functions, conditions and contexts), and those whose failure is caught, are left
    out: a trial tells. So are the completion's own module, the problem's files, and modules that its code may make.
    """
    checker = "" if problem.checker is None else problem.checker.code
    own = (problem.prelude, problem.setup, *problem.tests) if problem.is_python else ()
    found = dict.fromkeys(problem.packages)
    given = modules_in_files(problem) | _OF_COMPLETIONS
    for text in (*own, checker):
        if "import" in text:
            imported, made = _imports_of(text)
            found.update(dict.fromkeys(imported))
            given |= made
    return tuple(name for name in found if name not in given)


def packages_of(problems: Iterable[Problem]) -> tuple[str, ...]:
    """The packages that problems name, each once.

    None that is a file of its problem or in the standard library, and none of a problem that names an image.
    """
    wanting = (problem for problem in problems if problem.packages and problem.image is None)
    named = {name for problem in wanting for name in set(problem.packages) - modules_in_files(problem)}
    return tuple(sorted(named - sys.stdlib_module_names))


@lru_cache(maxsize=4096)
def imported_by_checks(problem: Problem) -> frozenset[str]:
    return imported_modules(problem.setup, *problem.tests)


def modules_in_files(problem: Problem) -> frozenset[str]:
    return frozenset(path.partition("/")[0].removesuffix(".py") for path, _ in problem.files)


@lru_cache(maxsize=4096)
def _imports_of(text: str) -> tuple[tuple[str, ...], frozenset[str]]:
    # Those that it imports whenever it runs, and those that it may make itself, which it names: as keys of
    # `sys.modules`, or as files that it writes.
    tree = try_parse(text)
    if tree is None:
        return (), frozenset()
    made = set()
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(
                value=ast.Attribute(attr="modules"), slice=ast.Constant(value=str(name)), ctx=ast.Store()
            ):
                made.add(name.partition(".")[0])
            case ast.Constant(value=str(name)):
                made.add(name.rpartition("/")[2].removesuffix(".py"))
    return tuple(dict.fromkeys(_imported(tree.body))), frozenset(made)


def _imported(statements: Iterable[ast.AST]) -> Iterator[str]:
    for statement in statements:
        match statement:
            case ast.Import(names=names):
                yield from (alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.partition(".")[0]
            case ast.Try(handlers=handlers) if any(map(_catches_imports, handlers)):
                continue
            case ast.Try() | ast.ClassDef():
                for part in ("body", "orelse", "finalbody"):
                    yield from _imported(getattr(statement, part, ()))


def _catches_imports(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return any(isinstance(node, ast.Name) and node.id in _IMPORT_ERRORS for node in ast.walk(handler.type))


@lru_cache(maxsize=1024)
def is_in_library(module: str) -> bool:
    """Whether this interpreter has a module in its standard library."""
    return module in sys.stdlib_module_names and importlib.util.find_spec(module) is not None
