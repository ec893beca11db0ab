"""Calibration: facts about a problem, determined once, before its first completion is judged.

Trials run the problem's own code, or known programs, and never a completion: so no completion, and no order of
completions, decides how a problem is judged. A problem whose checks are plain calls and comparisons needs no trial.
A calibration is kept on disk by a digest of the problem, the judge and the runtime.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from pydantic import TypeAdapter, ValidationError

from sandrl.digests import digest_of
from sandrl.errors import SandrlError
from sandrl.events.results import CheckStatus
from sandrl.files import read_entry, write_entry
from sandrl.problems import Problem
from sandrl.problems.imports import imported_modules
from sandrl.problems.store import memory_of
from sandrl.rewards.expected import Returned
from sandrl.rewards.guest_report import Execution
from sandrl.rewards.patches import nodes_of
from sandrl.rewards.reference import is_plain
from sandrl.rewards.sources import refusal
from sandrl.rewards.verdict import Verdict
from sandrl.settings import private_directory
from sandrl.syntax import parse

MOST_BYTES = 256 << 20
"""How much memory the problems of one judge may take, with what their references returned."""

_SCHEMA = 1
# How the detail of a check begins that the compiler refused.
_REFUSALS = ("SyntaxError", "IndentationError", "TabError", "ValueError")
# The modules that a completion's code is in.
_OF_COMPLETIONS = frozenset(("solution", "__main__", "__future__"))
_IMPORT_ERRORS = frozenset(("ImportError", "ModuleNotFoundError", "Exception", "BaseException"))


@dataclass(frozen=True, slots=True)
class Calibration:
    """What is known about a problem.

    Attributes:
        invalid: Why no completion of it can be judged; empty if they can.
        splits: Whether its checks are kept out of the completion's process.
        reason: Why they are not; empty if they are.
        returned: What its reference returned, if calls are compared with that.
    """

    invalid: str = ""
    splits: bool = True
    reason: str = ""
    returned: Returned | None = None


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
    """Calibrations by problem, as many as fit: the judge of a service gets an unlimited number of problems.

    Args:
        max_bytes: How much memory the problems may take; the latest is kept in any case.
    """

    def __init__(self, max_bytes: int = MOST_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._found: OrderedDict[Problem, tuple[Calibration, int]] = OrderedDict()

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._found)

    def find(self, problem: Problem) -> Calibration | None:
        """The calibration of a problem; None if it has none yet."""
        known = self._found.get(problem)
        if known is None:
            return None
        self._found.move_to_end(problem)
        return known[0]

    def keep(self, problem: Problem, calibration: Calibration) -> None:
        """Keeps the calibration of a problem."""
        self._bytes -= self._found.pop(problem, (None, 0))[1]
        size = memory_of(problem) + (len(calibration.returned.packed) if calibration.returned is not None else 0)
        self._found[problem] = calibration, size
        self._bytes += size
        while self._bytes > self._max_bytes and len(self._found) > 1:
            self._bytes -= self._found.popitem(last=False)[1][1]


_CALIBRATION = TypeAdapter(Calibration)


class CalibrationStore:
    """Calibrations in a directory that other processes of this user share.

    What cannot be read is determined anew, and what cannot be written is determined again by the next process. Nothing
    is read from a directory that others can write to. That a problem is invalid is not kept: its cause may be gone.

    Args:
        cache_dir: The user's cache directory; made if it is missing.
    """

    def __init__(self, cache_dir: Path) -> None:
        self._cache_dir = cache_dir

    def find(self, key: str, problem: Problem) -> Calibration | None:
        """What is kept under a name for a problem; None if nothing is, or it is damaged."""
        try:
            content = read_entry(self._directory(), key, MOST_BYTES)
            if content["schema"] != _SCHEMA or content["digest"] != digest_of([content["found"]]).hex():
                return None
            found = _CALIBRATION.validate_python(content["found"])
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
    given = _modules_in_files(problem) | _OF_COMPLETIONS
    for text in (*own, checker):
        if "import" in text:
            imported, made = _imports_of(text)
            found.update(dict.fromkeys(imported))
            given |= made
    return tuple(name for name in found if name not in given)


def packages_of(problems: Iterable[Problem]) -> tuple[str, ...]:
    """The packages that problems name, each once; none that is a file of its problem or in the standard library."""
    wanting = (problem for problem in problems if problem.packages)
    named = {name for problem in wanting for name in set(problem.packages) - _modules_in_files(problem)}
    return tuple(sorted(named - sys.stdlib_module_names))


def import_of(name: str) -> str:
    """Code that fails if there is neither a module nor a package of a name."""
    package = re.split(r"[^\w.-]", name)[0]
    attempt = f"import {name}" if name.isidentifier() else f"raise ModuleNotFoundError({f'No module named {name!r}'!r})"
    return (
        f"try:\n    {attempt}\nexcept ModuleNotFoundError as error:\n    from importlib.metadata import version\n"
        f"    try:\n        version({package!r})\n    except ModuleNotFoundError:\n        raise error from None\n"
    )


def imported_file(problem: Problem) -> str:
    """A file of the problem that its checks import as a module; empty if there is none.

    The completion can write to it, and the process of the checks does not have it.
    """
    given = _modules_in_files(problem)
    return min((name for name in imported_by_checks(problem) & given if not is_in_library(name)), default="")


@lru_cache(maxsize=4096)
def imported_by_checks(problem: Problem) -> frozenset[str]:
    """The modules that setup and tests import, always or not."""
    return imported_modules(problem.setup, *problem.tests)


def _modules_in_files(problem: Problem) -> frozenset[str]:
    return frozenset(path.partition("/")[0].removesuffix(".py") for path, _ in problem.files)


@lru_cache(maxsize=4096)
def _imports_of(text: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """The modules that a text imports whenever it runs, and those that it may make itself.

    It may make those that it names: as keys of `sys.modules`, or as files that it writes.
    """
    try:
        tree = parse(text)
    except SyntaxError:
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


@lru_cache(maxsize=4096)
def is_inert(text: str) -> bool:
    """Whether code does nothing when it runs but import from the standard library, and define functions and constants.

    Such code cannot fail.
    """
    try:
        return all(map(_is_inert, parse(text).body))
    except SyntaxError:
        return False


def _is_inert(statement: ast.stmt) -> bool:
    match statement:
        case ast.Import(names=names):
            return all(is_in_library(alias.name.partition(".")[0]) for alias in names)
        case ast.ImportFrom(module=str(module), level=0):
            return is_in_library(module.partition(".")[0])
        case ast.Expr(value=ast.Constant()) | ast.Assign(value=ast.Constant()) | ast.Pass():
            return True
        case ast.FunctionDef(args=arguments, decorator_list=[]):
            return all(isinstance(each, ast.Constant) for each in (*arguments.defaults, *arguments.kw_defaults) if each)
        case _:
            return False


def needs_no_trial(problem: Problem) -> bool:
    """Whether the tests of a problem mean the same wherever they run, and can fail for no reason of their own."""
    return not problem.setup and all(map(is_plain, problem.tests))


@lru_cache(maxsize=4096)
def compares_results(test: str) -> bool:
    """Whether a check compares what several calls return, which an operator of the completion's may decide."""
    comparisons = [(node.left, *node.comparators) for node in nodes_of(test) if isinstance(node, ast.Compare)]
    calls = [[any(isinstance(part, ast.Call) for part in ast.walk(side)) for side in sides] for sides in comparisons]
    return any(sum(each) > 1 for each in calls)


# What a verdict on known code says about a problem


def invalid_check(problem: Problem, verdict: Verdict) -> str:
    """Which check of a problem is not valid Python, in words; empty if the verdict does not come from such a check.

    The interpreter that judged refused the check, and this one does too.
    """
    for number, (check, test) in enumerate(zip(verdict.checks, problem.tests, strict=False), 1):
        if check.status is CheckStatus.FAILED and check.detail.startswith(_REFUSALS):
            reason = refusal(test)
            if reason is not None:
                return f"check {number} of {len(problem.tests)} of the problem is not valid Python: {reason}"
    return ""


def invalid_import(verdict: Verdict, code: str) -> str:
    """Which check imports a module that sandboxes lack and known code does not import; empty if none does."""
    for number, check in enumerate(verdict.checks, 1):
        if check.detail.startswith("ModuleNotFoundError: No module named "):
            module = check.detail.split("'")[1].partition(".")[0] if "'" in check.detail else ""
            if module and module not in code:
                return f"check {number} of {len(verdict.checks)} of the problem imports {module!r}, {LACKING}"
    return ""


LACKING = "which sandboxes do not have; add it with `--packages`, or use an image that has it"
