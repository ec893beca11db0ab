"""Prepares the machine of a task before an agent acts on it, or a verifier runs on an image as it is."""

from __future__ import annotations

import time

from sandrl.problems.tasks.task import Environment, Healthcheck, Task
from sandrl.trials.artifacts import files_of
from sandrl.trials.machine import ROOT, Machine
from sandrl.trials.verification import last_line

SETUP_SECONDS = 600.0
"""The time limit of what prepares a machine before an agent acts."""

_DIRECTORIES = (
    "mkdir -p /logs/agent /logs/artifacts /logs/verifier && chmod 777 /logs/agent /logs/artifacts /logs/verifier"
)


class Unprepared(Exception):
    """A machine could not be prepared; the message says why."""


def make_ready(machine: Machine, environment: Environment, task: Task) -> None:
    """Makes the directories of logs, adds the files of an environment, and waits until it is healthy.

    Raises:
        Unprepared: If that cannot be done.
    """
    run_to_end(machine, _DIRECTORIES, "the directories of logs cannot be made")
    if environment.files:
        machine.put(working_directory(machine), files_of(task, [environment.files]))
    if environment.prepare:
        run_to_end(machine, environment.prepare, "the script that prepares the machine failed", is_own=False)
    if environment.healthcheck is not None:
        wait_until_healthy(machine, environment.healthcheck, None)


def working_directory(machine: Machine) -> str:
    """Where commands of a machine begin, as it says."""
    return machine.run("pwd", timeout_seconds=SETUP_SECONDS).stdout.decode("utf-8", "surrogateescape").strip() or "/"


def run_to_end(machine: Machine, command: str, what: str, *, user: str | None = ROOT, is_own: bool = True) -> None:
    """Runs a command that must succeed.

    Args:
        what: What it means if it does not.
        is_own: As in `Machine.run`.

    Raises:
        Unprepared: If it does not.
    """
    outcome = machine.run(command, user=user, timeout_seconds=SETUP_SECONDS, is_own=is_own)
    if outcome.timed_out:
        raise Unprepared(f"{what}: it took more than {SETUP_SECONDS:g} s")
    if outcome.exit_code:
        said = last_line(outcome.stderr) or last_line(outcome.stdout)
        raise Unprepared(f"{what}: exit status {outcome.exit_code}{f': {said}' if said else ''}")


def wait_until_healthy(machine: Machine, check: Healthcheck, user: str | None) -> None:
    """Waits for a health check as Docker does: failures within the start period do not count.

    Raises:
        Unprepared: If it fails too often.
    """
    began, failures = time.monotonic(), 0
    while True:
        is_start = time.monotonic() - began < check.start_period_seconds
        outcome = machine.run(check.command, user=user, timeout_seconds=check.timeout_seconds)
        if outcome.exit_code == 0:
            return
        failures += not is_start
        if failures >= check.retries and not is_start:
            said = last_line(outcome.stderr) or last_line(outcome.stdout)
            how = "it reached its time limit" if outcome.timed_out else f"exit status {outcome.exit_code}"
            raise Unprepared(f"the health check failed {failures} times: {how}{f': {said}' if said else ''}")
        time.sleep(check.start_interval_seconds if is_start else check.interval_seconds)
