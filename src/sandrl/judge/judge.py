"""The judge: turns a problem and a completion's code into a command, and the command's outcome into a verdict.

A judge never touches a sandbox: the owner of the sandboxes runs the command. So judges are tested without a runtime.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Self

from sandrl.errors import InfrastructureError, JudgeNotStartedError
from sandrl.events.results import CheckStatus, Status, Trust
from sandrl.judge.calibration import (
    LACKING,
    MOST_BYTES,
    PLAIN,
    Calibration,
    Calibrations,
    Trials,
    is_in_library,
)
from sandrl.judge.calibrator import DOUBTFUL, Calibrator, imports_packages
from sandrl.judge.facts import facts_of
from sandrl.judge.guest_command import GuestCommands, Preparation, longest_execution_seconds, longest_run_seconds
from sandrl.judge.guest_report import Execution, read_reference_values, read_verdict
from sandrl.judge.guest_request import ALL_MODES, mode_of
from sandrl.judge.headers import Headers, headers_of
from sandrl.judge.limits import Limits
from sandrl.judge.program import ISOLATED_TESTS, TESTS, digest
from sandrl.judge.verdict import Verdict
from sandrl.problems import Problem
from sandrl.sandboxes import CommandOutcome, Connection

__all__ = ["Execution", "Judge", "Limits", "judge_version", "longest_execution_seconds", "longest_run_seconds"]

# A known-good program, which tells a broken runtime from a completion that breaks its sandbox: a fault that makes it
# fail would have failed any completion.
_CANARY = Problem(
    "canary", "Return the sum of two numbers.", tests=("assert add(2, 3) == 5", "assert add(-1, 1) == 0"), setup=""
)
_CANARY_CODE = "def add(a, b):\n    return a + b\n"

_EXCERPT_BYTES = 300
_NOT_STARTED = (126, 127)  # exit statuses of `env` and of shells
# Of so many problems the common part of their commands is kept, unless it is larger.
_MOST_PREPARATIONS = 64
_MOST_PREPARED_BYTES = 256 << 10
_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
# The modules that decide, on this machine, what is judged and how.
_DECIDING = (
    *("syntax", "answers/builds", "answers/definitions", "answers/markup", "answers/reference", "answers/requirements"),
    *("answers/sources", "answers/syntaxes", "answers/text_sources", "judge/assertions", "judge/calibration"),
    *("judge/calibrator", "judge/facts", "judge/guest_command", "judge/guest_report", "judge/guest_request"),
    *("judge/judge", "judge/limits", "judge/patches", "judge/stubs", "judge/verdict"),
)


@cache
def judge_version() -> str:
    """Twelve hex digits that change with the source of the judge: what runs in sandboxes, and what decides here."""
    package = files("sandrl")
    texts = [package.joinpath(f"{name}.py").read_bytes() for name in _DECIDING]
    return hashlib.sha256(b"".join((digest(ALL_MODES).encode(), *texts))).hexdigest()[:12]


class Judge:
    """Runs checks in a process of their own, against proxies of the completion's functions and objects.

    If a problem's checks can only be judged in one process with the completion (`trials.py`), they are, and the trust
    of its verdicts is `in_process`. If a problem has no reference, the source of its checks decides: if they may need
    one process, a completion that fails apart from them is judged again in one.

    Args:
        with_site_packages: Whether completions can import what is installed in the image.
        require_isolated: Whether no completion is judged in one process with its checks.
        image: The image of sandboxes that have not this machine's system, for messages.
        headers: The precompiled headers that sandboxes see; without them, none are used.
        known_bytes: Maximum memory for calibrations.
    """

    def __init__(
        self,
        *,
        with_site_packages: bool = False,
        require_isolated: bool = False,
        image: str = "",
        headers: Headers | None = None,
        known_bytes: int = MOST_BYTES,
    ) -> None:
        self.calibrations = Calibrations(known_bytes)
        self.commands = GuestCommands(with_site_packages=with_site_packages, headers=headers)
        self.calibrator = Calibrator(self.commands, image=image, require_isolated=require_isolated)
        self.requires_isolated = require_isolated
        self._known_bytes = known_bytes
        self._with_images: dict[str, Judge] = {}
        self._preparations: dict[tuple[Problem, Limits, Calibration, bool], Preparation] = {}

    @classmethod
    def on(cls, connection: Connection, *, require_isolated: bool = False, known_bytes: int = MOST_BYTES) -> Self:
        of_host = connection.has_host_system
        return cls(
            with_site_packages=connection.has_site_packages,
            require_isolated=require_isolated,
            image="" if of_host else connection.image,
            headers=headers_of(connection.prebuilt) if of_host else None,
            known_bytes=known_bytes,
        )

    def with_image(self, connection: Connection) -> Judge:
        """The judge of an image, which is that of the connection; the same each time, with what it has learnt."""
        known = self._with_images.get(connection.image)
        if known is None:
            of, known_bytes = self.requires_isolated, self._known_bytes
            known = self._with_images[connection.image] = Judge.on(
                connection, require_isolated=of, known_bytes=known_bytes
            )
        return known

    @property
    def version(self) -> str:
        """Changes whenever the same completion might be judged differently."""
        name = "isolated-required-" if self.requires_isolated else "isolated-"
        return name + judge_version()

    def calibrate(self, problem: Problem, limits: Limits) -> Trials:
        """The trials that must be run before the first completion of a problem."""
        return self.calibrator.calibrate(problem, limits)

    def refusal(self, problem: Problem, known: Calibration) -> Verdict | None:
        """The verdict on every completion of a problem that cannot be judged, or not as is required; None if it can."""
        if known.invalid:
            return Verdict(Status.INVALID_PROBLEM, None, detail=known.invalid)
        if not self.requires_isolated or problem.kind != "tests" or (problem.is_python and known.splits):
            return None
        detail = "the problem's checks can only be judged in the completion's process"
        return Verdict(Status.NOT_ISOLATED, None, detail=f"{detail}: {known.reason}" if known.reason else detail)

    def prepare(
        self, problem: Problem, code: str, limits: Limits, known: Calibration = PLAIN, *, together: bool = False
    ) -> Execution:
        """The command that judges `code`; what it is held against never reaches the completion's process.

        Args:
            together: Whether `review` found that checks and completion must be in one process.
        """
        key = problem, limits, known, together
        prepared = self._preparations.get(key)
        if prepared is None:
            is_apart = problem.kind == "tests" and problem.is_python and known.splits and not together
            mode = ISOLATED_TESTS if is_apart else mode_of(problem)
            prepared = self.commands.prepare(problem, limits, mode, known.returned)
            if prepared.size <= _MOST_PREPARED_BYTES:
                if len(self._preparations) >= _MOST_PREPARATIONS:
                    self._preparations.clear()
                self._preparations[key] = prepared
        return self.commands.complete(prepared, code)

    def prepare_canary(self) -> Execution:
        """The command of a known-good program; with limits of its own, because the user's may be too tight for any."""
        return self.prepare(_CANARY, _CANARY_CODE, Limits())

    def prepare_opinion(self, problem: Problem, code: str, limits: Limits) -> Execution | None:
        """The command that runs `code` and its checks in one process; None if the problem has no such checks."""
        is_split = problem.kind == "tests" and problem.is_python
        return self.commands.execution(problem, code, limits, TESTS) if is_split else None

    def interpret(self, execution: Execution, outcome: CommandOutcome) -> Verdict:
        """Reads the judge's line; without one, the completion killed the judge, or the sandbox is of no use."""
        if outcome.timed_out:
            return Verdict(Status.TIMEOUT, execution.trust, 0, execution.checks, "it stopped the judge's clock")
        printed, _, last = outcome.stdout.removesuffix(b"\n").rpartition(b"\n")
        try:
            verdict = read_verdict(last, execution, printed, outcome.stderr)
            if verdict is not None and execution.keeps and verdict.is_pass:
                verdict = replace(verdict, returned=read_reference_values(printed, execution))
        except ValueError:
            verdict = None  # not our guest's words, whoever has its key
        if verdict is not None and verdict.is_pass == (outcome.exit_code == 0):
            return verdict
        if _is_killed(outcome.exit_code):
            detail = f"it killed its judge (exit status {outcome.exit_code})"
            return Verdict(Status.CRASHED, execution.trust, 0, execution.checks, detail)
        # The completion can kill the judge, but not make it end by itself and say nothing: this is the image's doing
        # (no `python` in it), or the runtime's.
        said = " ".join(outcome.stderr[-_EXCERPT_BYTES:].decode("utf-8", "replace").split())
        kind = JudgeNotStartedError if outcome.exit_code in _NOT_STARTED else InfrastructureError
        raise kind(f"the judge ended with exit status {outcome.exit_code} and no verdict: {said or '(silent)'}")

    def review(self, problem: Problem, verdict: Verdict) -> Verdict | None:
        """The verdict that counts; None if the completion must be judged once more, in one process with its checks."""
        if verdict.trust is Trust.OWN_OPERATOR and verdict.passed and self.requires_isolated:
            detail = "a check passed only by an operator of the completion's own class, which is not isolated"
            if not verdict.is_pass:
                return replace(verdict, passed=0, checks=())
            if problem.reference is None:
                return replace(verdict, status=Status.NOT_ISOLATED, detail=detail)
            # In the trial the reference has passed without that.
            return replace(verdict, status=Status.FAILED, passed=0, checks=(), detail=detail)
        if verdict.is_pass:
            return verdict
        if (
            verdict.is_apart
            and verdict.status in DOUBTFUL
            and problem.kind == "tests"
            and problem.reference is None
            and not self.requires_isolated
            and (facts_of(problem).needs_one_process or _hands_over(problem, verdict))
        ):
            return None
        if verdict.status is Status.NOT_ISOLATED:
            detail = f"the completion made a check need one process, known code does not: {verdict.detail}"
            return replace(verdict, status=Status.FAILED, passed=0, checks=(), detail=detail)
        if verdict.status is Status.INVALID_PROBLEM:
            return _blamed(problem, verdict)
        return _with_hint(verdict)


def _is_killed(exit_code: int | None) -> bool:
    # By a signal, in a shell's words or in Python's.
    return exit_code is not None and not 0 <= exit_code <= 128


def _hands_over(problem: Problem, verdict: Verdict) -> bool:
    return verdict.status is Status.NOT_ISOLATED and imports_packages(problem)


def _blamed(problem: Problem, verdict: Verdict) -> Verdict:
    # The problem's own code failed for a completion, and works without it.
    invalid = [check for check in verdict.checks if check.status is CheckStatus.INVALID]
    if invalid:
        # The checker accepts right outputs, so this one is not right.
        checks = tuple(
            replace(check, status=CheckStatus.FAILED) if check in invalid else check for check in verdict.checks
        )
        detail = f"{verdict.detail}; the checker works on right outputs, so this output is wrong"
        return replace(verdict, status=Status.FAILED, checks=checks, detail=detail)
    broken = "the problem's setup, which works" if problem.is_python else "the tools of its language, which work"
    detail = f"the completion broke {broken} without it"
    return replace(verdict, status=Status.CRASHED, passed=0, checks=(), detail=detail)


def _with_hint(verdict: Verdict) -> Verdict:
    found = _MISSING_MODULE.search(verdict.detail)
    name = found.group(1).partition(".")[0] if found is not None else ""
    if not name or is_in_library(name):
        return verdict
    return replace(verdict, detail=f"{verdict.detail}; the completion imports {name!r}, {LACKING}")
