"""A cache of verdicts by content: the same code under the same conditions is judged once.

The name of a verdict is a digest of everything that could change it (code, checks, limits, image, packages, the judge
itself), so entries never have to be invalidated: other conditions give another name. Only verdicts that describe the
code are kept. A failed sandbox does not describe it, and a timeout depends on the machine as much as on the code.

The cache holds verdicts and not rewards, so the same verdicts serve every reward policy.
"""

from __future__ import annotations

import hashlib
import platform
from collections import OrderedDict
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sandrl import __version__
from sandrl.answers.builds import language_of, tools_of
from sandrl.digests import digest_of
from sandrl.errors import InputError
from sandrl.events.results import Status
from sandrl.files import read_entry, write_entry
from sandrl.judge.judge import Judge
from sandrl.judge.limits import Limits, check_time_limit, checker_time_limits, may_stop, time_limit
from sandrl.judge.verdict import Verdict
from sandrl.problems import Problem
from sandrl.sandboxes import Connection
from sandrl.trials.trial import TrialOptions

SCHEMA = 1
"""Rises when an entry changes its meaning."""

MAX_CHARACTERS = 64 << 20
"""How much verdicts may take in memory, what programs printed being most of it."""

# A verdict holds what a program printed, two streams of a megabyte, in which every character may be escaped.
_MOST_ENTRY_BYTES = 64 << 20

# Of so many problems the digest is kept, and the problem with it.
_MOST_PROBLEMS = 256

# What a machine that is slow or broken can bring about by itself.
_NEVER_KEPT = frozenset({Status.TIMEOUT, Status.INFRASTRUCTURE, Status.NO_CODE})


class VerdictCache:
    """Verdicts of this process, and of others through a directory they share; without one, in memory alone.

    Raises:
        InputError: If the directory cannot be made.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory
        self._verdicts: OrderedDict[str, Verdict] = OrderedDict()
        self._characters = 0
        if directory is not None:
            try:
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                message = f"cannot be created: {error.strerror}"
                hint = "choose another `cache`"
                raise InputError(message, path=directory, hint=hint, fields=("cache",)) from error

    def find(self, key: str) -> Verdict | None:
        """The verdict of that name; an entry that cannot be read counts as none."""
        verdict = self._verdicts.get(key)
        if verdict is not None:
            self._verdicts.move_to_end(key)
        elif self.directory is not None:
            verdict = self._read(key)
            if verdict is not None:
                self._remember(key, verdict)
        return verdict

    def keep(self, key: str, verdict: Verdict, *, for_others: bool = True) -> bool:
        """Keeps a verdict that may be kept, in the directory only if it is `for_others`; returns whether it is kept.

        Raises:
            OSError: If it is kept in memory, but could not be written to the directory.
        """
        if verdict.status in _NEVER_KEPT:
            return False
        self._remember(key, verdict)
        if self.directory is not None and for_others and verdict.status.scorable:
            write_entry(self.directory, key, {"schema": SCHEMA, "verdict": asdict(verdict)})
        return True

    def _remember(self, key: str, verdict: Verdict) -> None:
        before = self._verdicts.pop(key, None)
        self._characters += _size(verdict) - (_size(before) if before is not None else 0)
        self._verdicts[key] = verdict
        while self._characters > MAX_CHARACTERS and len(self._verdicts) > 1:
            self._characters -= _size(self._verdicts.popitem(last=False)[1])

    def _read(self, key: str) -> Verdict | None:
        assert self.directory is not None, "only called with one"
        try:
            content = read_entry(self.directory, key, _MOST_ENTRY_BYTES)
            if content["schema"] != SCHEMA:
                return None
            verdict = _adapter().validate_python(content["verdict"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError, ValidationError):
            return None
        return verdict if verdict.status.scorable and verdict.status not in _NEVER_KEPT else None


@cache
def _adapter() -> TypeAdapter[Verdict]:
    return TypeAdapter(Verdict)


def _size(verdict: Verdict) -> int:
    checks = sum(100 + len(check.detail) + len(check.got or "") + len(check.expected or "") for check in verdict.checks)
    return 500 + len(verdict.stdout) + len(verdict.stderr) + len(verdict.detail) + checks


class VerdictNames:
    def __init__(self, judge: Judge, connection: Connection, limits: Limits, trial: TrialOptions | None = None) -> None:
        self._limits = limits
        self._trial = trial or TrialOptions()
        self._is_local = connection.is_local
        self._conditions: dict[str, Any] = {
            "sandrl": __version__,
            "judge": judge.version,
            "limits": asdict(replace(limits, stops_at_failure=False)),
            "runtime": str(connection.kind),
            "image": connection.image,
            # The local image is an interpreter of this machine.
            "python": platform.python_version() if connection.is_local else None,
            "overlay": connection.overlay,
            "site_packages": connection.has_site_packages,
            "memory_bytes": connection.memory_bytes,
            **({} if connection.network is None else {"network": connection.network.document()}),
        }
        self._of_problems: dict[str, tuple[Problem, bytes, bool]] = {}

    def name(self, problem: Problem, code: str, *, stops_at_failure: bool = False) -> str:
        """The name of the verdict on `code` as an answer to `problem`: 64 hex digits.

        Args:
            stops_at_failure: Whether checks after the first that fails are left out of the verdict.
        """
        _, digest, _ = self._of_problem(problem)
        conditions = hashlib.sha256(digest).digest() if stops_at_failure else digest
        return hashlib.sha256(conditions + code.encode("utf-8", "surrogatepass")).hexdigest()

    def both(self, problem: Problem, code: str) -> tuple[str, str]:
        """The name of the verdict on all checks, and that of the verdict under these limits, which may be the same."""
        whole = self.name(problem, code)
        _, _, may_leave_out = self._of_problem(problem)
        return whole, self.name(problem, code, stops_at_failure=True) if may_leave_out else whole

    def name_calibration(self, problem: Problem) -> str:
        _, digest, _ = self._of_problem(problem)
        return hashlib.sha256(b"calibration" + digest).hexdigest()

    def _of_problem(self, problem: Problem) -> tuple[Problem, bytes, bool]:
        # Its digest, and whether its verdicts may leave out checks after one that fails.
        known = self._of_problems.get(problem.task_id)
        if known is None or known[0] is not problem:
            if len(self._of_problems) >= _MOST_PROBLEMS:
                self._of_problems.clear()
            digest = digest_of([self._conditions | self._checks(problem)])
            may_leave_out = self._limits.stops_at_failure and may_stop(problem)
            known = self._of_problems[problem.task_id] = (problem, digest, may_leave_out)
        return known

    def _checks(self, problem: Problem) -> dict[str, Any]:
        return {
            **problem.check_content,
            "prelude": problem.prelude,
            "tools": None if problem.is_python else self._tools(problem),
            "reference": problem.reference,
            "packages": problem.packages,
            "time_limit": asdict(time_limit(problem, self._limits)),
            "check_timeout_seconds": check_time_limit(problem, self._limits),
            "memory_bytes": problem.memory_bytes,
            "checker_timeout_seconds": checker_time_limits(problem),
            **({} if problem.task is None else {"trial": self._trial.document()}),
        }

    def _tools(self, problem: Problem) -> list[str]:
        language = language_of(problem)
        return [repr(language), *(tools_of(language) if self._is_local else ())]
