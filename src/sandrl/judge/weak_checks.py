"""Records which checks accepted a stub in a validation, for the commands that reward answers with these checks.

The record is a small file in the state directory, by a digest of a problem's checks. So a warning follows the problem
wherever its file is, and ends when its checks change.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from sandrl.errors import ServiceError
from sandrl.events import Emit, Warned
from sandrl.files import read_regular
from sandrl.jsonl import RowAppender
from sandrl.judge.stubs import NOTHING
from sandrl.problems import Problem
from sandrl.runs.resumption import content_digest

_FILE = "weak-checks.jsonl"
_MOST_BYTES = 16 << 20
_MOST_WARNINGS = 10


class WeakChecks:
    """The checks that are known to accept a stub, in the user's state directory."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / _FILE
        self._stubs: dict[str, tuple[str, ...]] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no validation has found any."""
        if self._stubs is None:
            self._stubs = self._read()
        return not self._stubs

    def stubs(self, problem: Problem) -> tuple[str, ...]:
        """The stubs that the checks of a problem accept, as far as a validation has found out."""
        if self.is_empty or self._stubs is None:
            return ()
        return self._stubs.get(content_digest(problem.check_content), ())

    def keep(self, accepted: Mapping[str, tuple[str, ...]], problems: Iterable[Problem]) -> None:
        """Keeps what a validation of problems has found out: the stubs that passed, by `task_id`.

        Raises:
            ServiceError: If the file cannot be written.
        """
        news = [(problem, accepted.get(problem.task_id, ())) for problem in problems]
        news = [(problem, stubs) for problem, stubs in news if self.stubs(problem) != stubs]
        if not news:
            return
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ServiceError(f"{self._path.parent} cannot be created: {error.strerror}") from error
        with RowAppender(self._path) as rows:
            for problem, stubs in news:
                row = {"checks": content_digest(problem.check_content), "task_id": problem.task_id, "stubs": stubs}
                rows.append(json.dumps(row, ensure_ascii=True).encode("ascii"))
        self._stubs = None

    def _read(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        try:
            lines = read_regular(self._path, _MOST_BYTES).splitlines()
        except OSError:
            return found
        for line in lines:
            try:
                row = json.loads(line)
                found[str(row["checks"])] = tuple(map(str, row["stubs"]))
            except (ValueError, TypeError, KeyError, RecursionError):
                continue  # a line that a killed process left unfinished
        return found


def warn_of_weak_checks(problems: Iterable[Problem], state_dir: Path, emit: Emit) -> None:
    """Warns of each problem whose checks are known to accept a stub, up to ten of them, and of the number of others."""
    known = WeakChecks(state_dir)
    if known.is_empty:
        return  # before the problems are read, which may be many
    weak = [(problem, stubs) for problem in problems if (stubs := known.stubs(problem))]
    for problem, stubs in weak[:_MOST_WARNINGS]:
        emit(Warned(f"the checks of {problem.task_id} accept an answer that does no work: {stub_words(stubs)}"))
    if len(weak) > _MOST_WARNINGS:
        message = f"the checks of {len(weak) - _MOST_WARNINGS} more problems also accept such an answer"
        emit(Warned(message, "list them: sandrl problems validate"))


def stub_words(stubs: Iterable[str]) -> str:
    return ", ".join(stub if stub == NOTHING else f"an answer that gives {stub}" for stub in stubs)
