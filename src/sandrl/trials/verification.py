"""One run of a verifier in a machine, and what it means: a reading, or a failure of the verifier.

A reading is a valid reward. Everything else is a failure: no reward file, an invalid one, a time limit, a lost sandbox.
Whose failure it is, the agent's or the infrastructure's, is decided by the trial (`trial.py`), from several runs.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sandrl.errors import InputError
from sandrl.events.results import CheckStatus, CheckVerdict
from sandrl.problems.tasks.log_parsers import Outcome, read_tests
from sandrl.problems.tasks.task import DEFAULT_SECONDS, Verifier
from sandrl.trials.entries import Entry, of_archive
from sandrl.trials.machine import ROOT, Machine, TooLargeError
from sandrl.trials.reports import MOST_BYTES as MOST_REPORT_BYTES
from sandrl.trials.reports import check_of, read_checks
from sandrl.trials.reward_files import (
    DIRECTORY,
    JSON_NAME,
    MOST_BYTES,
    TEXT_NAME,
    InvalidRewardError,
    read_rewards,
    score_of,
)

TESTS_DIRECTORY = "/tests"
_MOST_LOG_BYTES = 64 << 20
_MOST_DIRECTORY_BYTES = 32 << 20
_MOVING_SECONDS = 60.0
_REASON_CHARACTERS = 300
_MOST_FIRST_LINE = 256

# Nothing of an agent stays in a directory of a verifier: a link in its place is removed, and not followed.
# The directories are made by a command that fails where one is still there; what is found there afterwards is stale.
_MADE_ANEW = """
for each in /logs "$@"; do if [ -L "$each" ]; then rm -f "$each" || exit; fi; done
mkdir -p /logs/agent /logs/artifacts || exit
for each in "$@"; do
    rm -rf "$each" && mkdir "$each" && chmod 755 "$each" || exit
    for file in "$each"/* "$each"/.[!.]*; do
        if [ -e "$file" ] || [ -L "$file" ]; then echo "$file cannot be removed" >&2; exit 1; fi
    done
done
chown "$owner" /logs/verifier && chmod 755 /logs/verifier
"""


@dataclass(frozen=True, slots=True)
class Reading:
    """A valid reward.

    Attributes:
        rewards: The numbers that the verifier wrote, by name.
        checks: What its report, or its log, says about single tests.
        output: What it printed, up to a bound.
        is_cut: Whether it printed more.
    """

    rewards: Mapping[str, float]
    checks: tuple[CheckVerdict, ...] = ()
    output: str = field(default="", repr=False)
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """A run of a verifier without a valid reward; `reason` says why, in one line."""

    reason: str
    checks: tuple[CheckVerdict, ...] = ()
    output: str = field(default="", repr=False)
    is_cut: bool = False


def run_verifier(
    machine: Machine,
    verifier: Verifier,
    *,
    tests: Sequence[Entry] | None,
    variables: Mapping[str, str],
    output_bytes: int,
) -> Reading | Failure:
    """Runs a verifier in a machine that is as the agent left it, or holds what was collected of it.

    Args:
        tests: The content of `/tests`; None if the machine has them already.
        variables: Variables of the verifier, resolved.
        output_bytes: How much of the output is kept.

    Raises:
        InfrastructureError: If the sandbox failed, not the verifier.
        RuntimeLost: If the runtime failed, and the sandbox with it.
    """
    if refused := _prepare(machine, verifier, tests):
        return Failure(refused)
    phase = verifier.phase
    seconds = DEFAULT_SECONDS if phase.timeout_seconds is None else phase.timeout_seconds
    # By the first line of the program, or by the shell without one.
    outcome = machine.run(
        f"exec 2>&1; {shlex.quote(posixpath.join(TESTS_DIRECTORY, verifier.script))}",
        user=phase.user,
        timeout_seconds=seconds,
        variables=variables,
        output_bytes=_MOST_LOG_BYTES if verifier.parser else output_bytes,
    )
    files, log = _collected(machine), outcome.stdout
    checks, output = read_checks(files), _kept(log, output_bytes)
    told = output.decode("utf-8", "replace"), len(output) < len(log)
    if outcome.timed_out:
        return Failure(f"the verifier reached its time limit of {seconds:g} s", checks, *told)
    try:
        if verifier.parser:
            checks, rewards = _parsed(verifier, log)
        else:
            rewards = read_rewards(files.get(JSON_NAME), files.get(TEXT_NAME))
    except InvalidRewardError as error:
        reason = _with_end(f"the verifier left no valid reward: {error}", outcome.exit_code, log)
        if outcome.exit_code and any(each.name == verifier.script and _has_dos_lines(each) for each in tests or ()):
            reason += f" (the lines of {verifier.script} end in CR LF, which shells do not read)"
        return Failure(reason, checks, *told)
    if not checks and score_of(rewards) <= 0 and (line := _tool_failure(log)):
        return Failure(f"the verifier ran no test, because it could not get its own programs: {line}", checks, *told)
    return Reading(rewards, checks, *told)


def _prepare(machine: Machine, verifier: Verifier, tests: Sequence[Entry] | None) -> str:
    # Why it is not possible; empty if it was.
    directories = (DIRECTORY,) if tests is None else (DIRECTORY, TESTS_DIRECTORY)
    outcome = machine.run(
        ("sh", "-c", _MADE_ANEW, "sh", *directories),
        user=ROOT,
        timeout_seconds=_MOVING_SECONDS,
        is_own=True,
        # Programs of other users, which an agent has left running, write no reward.
        variables={"owner": _owner(machine, verifier)},
    )
    if outcome.exit_code:
        reason = last_line(outcome.stderr) or f"exit status {outcome.exit_code}"
        return f"{' and '.join(directories)} cannot be made anew: {reason}"
    if outcome.timed_out:
        return f"{' and '.join(directories)} could not be made anew within {_MOVING_SECONDS:g} s"
    if tests is None:
        return ""
    machine.put(TESTS_DIRECTORY, tests, anew=True)
    script = shlex.quote(posixpath.join(TESTS_DIRECTORY, verifier.script))
    if refused := _done(machine, f"chmod +x {script}"):
        return f"the tests could not be put into the machine: {refused}"
    return ""


def _has_dos_lines(entry: Entry) -> bool:
    return b"\r\n" in (entry.content or b"")[:_MOST_FIRST_LINE]


def _owner(machine: Machine, verifier: Verifier) -> str:
    if verifier.phase.user is not None:
        return verifier.phase.user
    told = machine.run("id -u", timeout_seconds=_MOVING_SECONDS, is_own=True)
    number = told.stdout.decode("utf-8", "replace").strip()
    return number if number.isdecimal() and len(number) < 12 else ROOT


def _done(machine: Machine, command: str) -> str:
    outcome = machine.run(command, user=ROOT, timeout_seconds=_MOVING_SECONDS, is_own=True)
    return "" if outcome.exit_code == 0 else last_line(outcome.stderr) or f"exit status {outcome.exit_code}"


def _collected(machine: Machine) -> dict[str, bytes]:
    # The files of the directory, by their names; where it is too large, those that are needed.
    found: dict[str, bytes] = {}
    try:
        archive = machine.get(DIRECTORY, most_bytes=_MOST_DIRECTORY_BYTES)
        entries = [] if archive is None else of_archive(archive)
    except (InputError, TooLargeError):
        for name, most in ((JSON_NAME, MOST_BYTES), (TEXT_NAME, MOST_BYTES), ("ctrf.json", MOST_REPORT_BYTES)):
            try:
                content = machine.read(posixpath.join(DIRECTORY, name), most)
            except TooLargeError:
                content = b"0" * (most + 1)
            if content is not None:
                found[name] = content
        return found
    for entry in entries:
        directory, _, name = entry.name.partition("/")
        if entry.content is not None and directory == posixpath.basename(DIRECTORY):
            found[name] = entry.content
    return found


def _parsed(verifier: Verifier, log: bytes) -> tuple[tuple[CheckVerdict, ...], dict[str, float]]:
    found = read_tests(verifier.parser, log.decode("utf-8", "replace"), verifier.required, verifier.may_skip)
    if found.reward is None:
        raise InvalidRewardError(found.failure)
    checks = tuple(
        check_of(test.name, CheckStatus.PASSED)
        if test.passes
        else check_of(
            test.name,
            CheckStatus.NOT_REACHED if test.outcome is Outcome.MISSING else CheckStatus.FAILED,
            test.reason or _REASONS[test.outcome],
        )
        for test in found.tests
    )
    return checks, {"reward": found.reward}


# Most published verifiers write 0 where their last command failed, also if it is the download of what runs the tests.
_TOOL_FAILURE = re.compile(
    r"(?:^|[\s:/])(?:uvx?|pytest|py\.test)'?: (?:(?:command )?not found|No such file or directory)$"
    r"|No module named '?(?:pytest|_pytest|uv|pip)'?$"
    r"|^(?:error:|\s*[×╰├]\S*) (?:Failed to (?:fetch|download)\b|Request failed after|No interpreter found for|"
    r"No solution found when resolving tool dependencies)"
    r"|^ERROR: No matching distribution found for pytest",
    re.MULTILINE,
)
_TESTS_BEGAN = "test session starts"
_TOOL_BYTES = 8 << 10


def _tool_failure(log: bytes) -> str:
    # The line that says so; empty if there is none, or tests have begun.
    text = log.decode("utf-8", "replace")
    found = None if _TESTS_BEGAN in text else _TOOL_FAILURE.search(text[-_TOOL_BYTES:].replace("\r\n", "\n"))
    if found is None:
        return ""
    return last_line(found.string[: found.end()].encode() + found.string[found.end() :].partition("\n")[0].encode())


_REASONS = {
    Outcome.PASSED: "",
    Outcome.FAILED: "failed in the log of the tests",
    Outcome.SKIPPED: "was skipped, and must pass",
    Outcome.MISSING: "is not in the log of the tests",
}


def _kept(log: bytes, most: int) -> bytes:
    # The beginning and the end, as errors come last.
    if len(log) <= most:
        return log
    cut = b"\n... the middle of the output is left out ...\n"
    half = max((most - len(cut)) // 2, 0)
    return (log[:half] + cut + log[len(log) - half :])[:most]


def _with_end(reason: str, exit_code: int | None, log: bytes) -> str:
    if exit_code:
        reason = f"{reason}; it exited with {exit_code}"
        if said := last_line(log):
            reason = f"{reason}: {said}"
    return reason


def last_line(output: bytes) -> str:
    lines = output[-4096:].decode("utf-8", "replace").strip().splitlines()
    line = "".join(each if each.isprintable() else " " for each in lines[-1]) if lines else ""
    return line.strip()[:_REASON_CHARACTERS]
