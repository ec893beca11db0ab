"""Reads the guest's report on one completion.

The report is text from a sandbox in which hostile code ran. Only a line with the execution's key is read, with one
entry for each check, and only statuses that the guest may give; passed checks are counted here.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace

from sandrl.events.results import CheckStatus, CheckVerdict, Status, Trust
from sandrl.judge.guest.excerpts import LONGEST_EXCERPT_CHARACTERS, excerpt_at
from sandrl.judge.guest.supervisor import CHECKER_FAILED
from sandrl.judge.verdict import ReferenceValues, Verdict
from sandrl.problems import Case
from sandrl.sandboxes import Command

_CHECK_DETAIL_CHARACTERS = 200
# Of the line with the verdict.
_FIELDS = 13


@dataclass(frozen=True, slots=True)
class Execution:
    """One completion, ready to be run.

    Attributes:
        trust: The trust its verdict will have.
        checks: How many checks there are.
        key: The random word that marks the verdict's line as the judge's own.
        may_refuse: Whether the guest may find that the checks cannot be split from the completion.
        keeps: Whether it runs the problem's reference, to keep what that returns.
        has_checker: Whether the guest may find that the problem's checker fails.
        cases: The cases whose output is compared, in the order of the checks; empty for other checks.
    """

    command: Command
    trust: Trust
    checks: int
    key: str = field(repr=False)
    may_refuse: bool = False
    keeps: bool = False
    has_checker: bool = False
    cases: tuple[Case, ...] = field(default=(), repr=False)


def read_verdict(line: bytes, execution: Execution, stdout: bytes, stderr: bytes) -> Verdict | None:
    """The verdict in a judge's line; None if it is not one of this execution, with one entry for each of its checks."""
    fields = line.decode("ascii", "replace").split(" ")
    if len(fields) != _FIELDS or not secrets.compare_digest(fields[0].encode(), execution.key.encode()):
        return None
    _, status, letters, wall, cpu, starved, stdout_bytes, stderr_bytes, detail, details, compiled, excerpts, rests = (
        fields
    )
    checks = _read_checks(letters, details)
    if checks is None or len(checks) != execution.checks:
        return None
    checks = _with_excerpts(checks, excerpts, execution.cases)
    return Verdict(
        status=_guest_status(status, execution),
        trust=Trust.OWN_OPERATOR if rests == "1" and execution.may_refuse else execution.trust,
        # Counted here, so that what is said of single checks and what is rewarded cannot be two things.
        passed=sum(check.status is CheckStatus.PASSED for check in checks),
        total=len(checks),
        detail="" if detail == "-" else _from_hex(detail),
        wall_seconds=float(wall),
        cpu_seconds=float(cpu),
        starved_seconds=float(starved),
        compile_seconds=float(compiled),
        stdout=stdout.decode("utf-8", "replace"),
        stderr=stderr.decode("utf-8", "replace"),
        stdout_bytes=int(stdout_bytes),
        stderr_bytes=int(stderr_bytes),
        truncated=int(stdout_bytes) > len(stdout) or int(stderr_bytes) > len(stderr),
        checks=checks,
    )


def read_reference_values(printed: bytes, execution: Execution) -> ReferenceValues:
    """What a reference returned, from the line before that of the verdict.

    Raises:
        ValueError: If the line is not of this execution, with one value for each of its checks.
    """
    key, _, line = printed.rpartition(b"\n")[2].partition(b" returned ")
    if not secrets.compare_digest(key, execution.key.encode()):
        raise ValueError("the line is missing")
    sizes, seconds, floats, packed = line.decode("ascii").split(" ")
    returned = ReferenceValues(packed, tuple(map(int, sizes.split(","))), tuple(map(float, seconds.split(","))), floats)
    if len(returned.sizes) != execution.checks:
        raise ValueError("values of other calls")
    return returned


def _read_checks(letters: str, details: str) -> tuple[CheckVerdict, ...] | None:
    if not _CHECKS.keys() >= set(letters):
        return None
    checks = [_CHECKS[letter] for letter in letters]
    for entry in details.split(",") if details != "-" else ():
        number, _, text = entry.partition(":")
        if not number.isdecimal() or int(number) >= len(checks):
            return None
        text, _, score = text.partition(":")
        detail = _from_hex(text)[:_CHECK_DETAIL_CHARACTERS]
        checks[int(number)] = replace(checks[int(number)], detail=detail, score=float(score) if score else None)
    return tuple(checks)


def _with_excerpts(
    checks: tuple[CheckVerdict, ...], excerpts: str, cases: tuple[Case, ...]
) -> tuple[CheckVerdict, ...]:
    found = list(checks)
    for entry in excerpts.split(",") if excerpts != "-" else ():
        number, got, expected, line, *begin = entry.split(":")
        position, (lines, characters) = int(number), map(int, begin)
        if not 0 <= position < len(found) or found[position].status is CheckStatus.PASSED:
            raise ValueError("excerpts of a check that has none")
        wanted = _side(expected)
        if cases:
            # The guest's process that says this must not know what is expected.
            wanted = excerpt_at(cases[position].stdout, lines, characters)
        found[position] = replace(found[position], got=_side(got), expected=wanted, line=int(line) or None)
    return tuple(found)


def _side(word: str) -> str | None:
    return _from_hex(word[1:])[:LONGEST_EXCERPT_CHARACTERS] if word.startswith("=") else None


def _from_hex(text: str) -> str:
    return bytes.fromhex(text).decode("utf-8", "replace")


# How a check went, by the guest's letters for it.
_CHECKS = {
    "p": CheckVerdict(CheckStatus.PASSED),
    "f": CheckVerdict(CheckStatus.FAILED),
    "t": CheckVerdict(CheckStatus.TIMEOUT),
    "n": CheckVerdict(CheckStatus.NOT_REACHED),
    "u": CheckVerdict(CheckStatus.UNCOUNTED),
    "s": CheckVerdict(CheckStatus.NOT_RUN),
    "i": CheckVerdict(CheckStatus.INVALID),
}


def _guest_status(status: str, execution: Execution) -> Status:
    if status == Status.NOT_ISOLATED and execution.may_refuse:
        return Status.NOT_ISOLATED
    if status == CHECKER_FAILED and execution.has_checker:
        return Status.INVALID_PROBLEM
    return Status(status) if status in _GUEST_STATUSES else Status.CRASHED


# What the guest can say. The child speaks through it, so nothing here may excuse the code, except that a problem's own
# setup failed, which counts only where it fails without the code, too.
_GUEST_STATUSES = frozenset(
    {
        Status.PASSED,
        Status.FAILED,
        Status.TIMEOUT,
        Status.SYNTAX_ERROR,
        Status.COMPILE_ERROR,
        Status.CRASHED,
        Status.RESOURCE_LIMIT,
        Status.INVALID_PROBLEM,
    }
)
