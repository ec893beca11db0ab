"""The problems of a framework's rows: found by name in a set, or made of the tests that a row brings.

The design decision: a framework hands the same tests over for every completion, in every step, so a row is parsed once
and stands for one object (`sandrl.problems.interning`). Tests alone become a row of verl, whose tests other frameworks
take over; anything else is a row in a format that files may have.
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
from sandrl.problems.interning import InternedProblems
from sandrl.problems.known_names import KnownNames
from sandrl.problems.loading import problem_of_row
from sandrl.problems.preludes import STANDARD_NAME
from sandrl.problems.reading import reading_of
from sandrl.settings import load_settings

_TESTS = frozenset({"inputs", "outputs", "fn_name", "functional", "pytest", "test_code", "assert_case"})
_ROW = frozenset({"task_id", "prompt", "question", "problem"})
_MOST_SETS = 8


class _Sets:
    """Sets of problems by where they are loaded from."""

    def __init__(self) -> None:
        self._loaded: OrderedDict[str, Mapping[str, Problem]] = OrderedDict()
        self.after_fork()
        forks.watch(self)

    def after_fork(self) -> None:
        """Keeps what is loaded; another thread may have held the lock at the moment of the fork."""
        self._lock = threading.Lock()

    def get(self, source: str) -> Mapping[str, Problem]:
        """The problems of a source, which is read once."""
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

    Args:
        source: As `--problems` takes it; that of SANDRL_PROBLEMS unless given. Without both there are none.

    Raises:
        InputError: If the set cannot be used.
    """
    source = source or load_settings().problems
    return _sets.get(source) if source else {}


def named_problem(task_id: str, source: str | None = None) -> Problem:
    """A problem of a set.

    Args:
        task_id: Its name.
        source: The set; see `problem_set`.

    Raises:
        InputError: If the set has none of that name, or cannot be used.
    """
    problems = problem_set(source)
    if task_id not in problems:
        if not problems:
            hint = "`problems`, or SANDRL_PROBLEMS, names the set that has it"
            raise InputError(f"{task_id[:80]!r} is neither tests nor the name of a problem of a set", hint=hint)
        raise InputError(f"there is no problem {task_id!r:.80}{KnownNames(problems).did_you_mean(task_id)}")
    return problems[task_id]


def problem_of(
    row: object, *, place: str = "problem", scoring: Scoring | None = None, prelude: str | None = None
) -> Problem:
    """The problem of a row; the same row is the same object.

    Args:
        row: In any format of a file; without a `task_id` it is called by its place.
        place: Where it was given, for messages.
        scoring: How its completions are scored, which says how rows are read, too.
        prelude: The prelude of a problem that has none of its own, where the scoring names none.

    Raises:
        InputError: If it is no problem; its field is named.
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
        problems: The set; see `problem_set`.
        prompt: What the model was asked, which shows whether answers may use names that nothing imports, as on
            LeetCode. Without it they may, as verl's own graders allow.
        scoring: How completions are scored.

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
                raise InputError(f"is no JSON text of tests: {error}", field="ground_truth") from error
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
