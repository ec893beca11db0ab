"""The problems of a framework's rows: loaded by name from a set, or built from the tests in a row.

A framework passes the same tests for every completion, in every step, so a row is parsed once and then reused
(`sandrl.problems.store`). Tests without other fields become a row in verl's format, which other frameworks also
use; anything else is a row in a format of problem files.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from sandrl import forks
from sandrl.errors import InputError
from sandrl.integrations.backend import Scoring
from sandrl.problems import Problem, load_problems
from sandrl.problems.loading import problem_of_row, reading_of
from sandrl.problems.preludes import STANDARD_NAME
from sandrl.problems.recognition import KnownNames
from sandrl.problems.store import InternedProblems
from sandrl.settings import load_settings

_TESTS = frozenset({"inputs", "outputs", "fn_name", "functional", "pytest", "test_code", "assert_case"})
_ROW = frozenset({"task_id", "prompt", "question", "problem"})
_MOST_SETS = 8


class _Sets:
    def __init__(self) -> None:
        self._loaded: OrderedDict[str, Mapping[str, Problem]] = OrderedDict()
        self.after_fork()
        forks.watch(self)

    def after_fork(self) -> None:
        # What is loaded stays; another thread may have held the lock during the fork.
        self._lock = threading.Lock()

    def get(self, source: str) -> Mapping[str, Problem]:
        with self._lock:
            if source not in self._loaded:
                self._loaded[source] = load_problems(source).problems
            self._loaded.move_to_end(source)
            while len(self._loaded) > _MOST_SETS:
                self._loaded.popitem(last=False)
            return self._loaded[source]


_sets = _Sets()
_interned = InternedProblems()


def problem_set(source: str | None = None) -> Mapping[str, Problem]:
    """The problems of a set, by `task_id`; it is loaded once in a process.

    Without a source it is that of SANDRL_PROBLEMS, and without both it is empty.

    Raises:
        InputError: If the set cannot be loaded.
    """
    source = source or load_settings().problems
    return _sets.get(source) if source else {}


def named_problem(task_id: str, source: str | None = None) -> Problem:
    """A problem of a set.

    Raises:
        InputError: If the set has no such problem, or cannot be loaded.
    """
    problems = problem_set(source)
    if task_id not in problems:
        if not problems:
            hint = "set `problems` or SANDRL_PROBLEMS to the set that contains it"
            raise InputError(f"{task_id[:80]!r} is neither tests nor the name of a known problem", hint=hint)
        raise InputError(f"there is no problem {task_id!r:.80}{KnownNames(problems).did_you_mean(task_id)}")
    return problems[task_id]


def problem_of(
    row: object, *, place: str = "problem", scoring: Scoring | None = None, prelude: str | None = None
) -> Problem:
    """The problem of a row; the same row is the same object.

    Args:
        row: In any format of a file; without a `task_id` it is called by its place.
        prelude: The prelude of a problem that has none of its own, where the scoring names none.

    Raises:
        InputError: If the row is not a valid problem; the error names the field.
    """
    value = plain(row)
    if isinstance(value, dict):
        value = {"task_id": place, **value}
    reading = reading_of((scoring or Scoring.of()).config)
    reading["prelude"] = reading["prelude"] or prelude
    return _interned.of([value, *reading.values()], lambda: problem_of_row(value, place, **reading))


def problem_of_truth(
    truth: object, *, problems: str | None = None, prompt: str = "", scoring: Scoring | None = None
) -> Problem:
    """The problem that the `ground_truth` of a row stands for.

    Args:
        truth: The name of a problem in a set; tests as verl, Eurus and APPS have them, or a row in any format of a
            file, as a value or as JSON text.
        prompt: The prompt, which decides whether answers may use names without importing them, as on
            LeetCode. Without a prompt they may, as in verl's own graders.

    Raises:
        InputError: If it is none of these.
    """
    value = plain(truth)
    if isinstance(value, str):
        text = value.strip()
        if not text.startswith(("{", "[")) and "assert" not in text:
            return named_problem(value, problems)
        if value in problem_set(problems):
            return named_problem(value, problems)
        if text.startswith(("{", "[")):
            try:
                value = json.loads(text)
            except ValueError as error:
                raise InputError(f"is not valid JSON with tests: {error}", field="ground_truth") from error
    if isinstance(value, dict) and (_ROW & value.keys() or not _TESTS & value.keys()):
        return problem_of(value, place="ground_truth", scoring=scoring)
    row = {"prompt": prompt, "reward_model": {"ground_truth": value}}
    return problem_of(row, place="ground_truth", scoring=scoring, prelude=None if prompt else STANDARD_NAME)


def plain(value: Any) -> Any:
    """A value as JSON has it: rows of a framework hold arrays of numpy, tuples, and mappings of their own."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return value
    if isinstance(value, Sequence):
        return [plain(each) for each in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return value
