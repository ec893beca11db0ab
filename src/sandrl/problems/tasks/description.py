"""Describes a task for a reader: as lines of text, and as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sandrl.errors import InputError
from sandrl.problems.tasks.content import TaskContent
from sandrl.problems.tasks.task import Environment, Phase, Reach, Task, TaskStep, VerifierMode

_GIB, _MIB = 1 << 30, 1 << 20


def described(task: Task) -> Iterator[tuple[str, str]]:
    """Names and values of what a task needs and how it is judged."""
    if task.directory:
        yield "Directory", task.directory
    yield "Digest", task.digest
    yield "Machine", _machine(task.environment)
    yield "Network", _network(task.environment.network)
    if task.environment.variables:
        yield "Variables", ", ".join(f"{name}={value}" for name, value in task.environment.variables)
    if task.environment.healthcheck is not None:
        yield "Health check", task.environment.healthcheck.command
    for step in task.steps:
        of_step = f" of step {step.name}" if step.name else ""
        yield f"Agent{of_step}", _phase(step.agent)
        yield f"Verifier{of_step}", _verifier(step)
        yield f"Solution{of_step}", "none" if step.solution is None else step.solution.script
        if step.min_reward:
            yield f"Least reward{of_step}", ", ".join(f"{name} {least:g}" for name, least in step.min_reward)
        if step.artifacts:
            yield f"Artifacts{of_step}", ", ".join(each.source for each in step.artifacts)
    if len(task.steps) > 1:
        yield "Reward of the steps", task.strategy.value
    if task.ignored:
        yield "Without effect", ", ".join(task.ignored)


def task_document(task: Task) -> dict[str, Any]:
    """A task as plain data, without the contents of its files."""
    document: dict[str, Any] = asdict(task)
    for step in document["steps"]:
        step["verifier"]["files"] = [name for name, _ in step["verifier"]["files"]]
        if step["solution"] is not None:
            step["solution"]["files"] = [name for name, _ in step["solution"]["files"]]
    return document


def script_of(task: Task, step: TaskStep) -> str:
    """The text of the program that decides the reward, or where it is."""
    verifier = step.verifier
    if verifier.has_tests:
        return f"/tests/{verifier.script} of the verifier's own image"
    return _text(task, verifier.directories, dict(verifier.files), verifier.script)


def solution_of(task: Task, step: TaskStep) -> str:
    """The text of the program that solves a step, or the diff that does."""
    solution = step.solution
    if solution is None:
        return "The task has no solution."
    directories = (solution.directory,) if solution.directory else ()
    return solution.patch or _text(task, directories, dict(solution.files), solution.script)


def _text(task: Task, directories: tuple[str, ...], files: dict[str, bytes], script: str) -> str:
    if script in files:
        return files[script].decode("utf-8", "replace")
    for directory in reversed(directories):
        if (Path(directory) / script).is_file():
            try:
                return TaskContent(task.directory).read(directory, script).decode("utf-8", "replace")
            except InputError as error:
                return error.message
    return f"{script} is missing"


def _machine(environment: Environment) -> str:
    parts = [environment.image]
    if environment.memory_bytes is not None:
        parts.append(f"{environment.memory_bytes / _MIB:g} MiB of memory")
    if environment.processors is not None:
        parts.append(f"{environment.processors:g} processors")
    if environment.storage_bytes is not None:
        parts.append(f"{environment.storage_bytes / _GIB:g} GiB of storage")
    if environment.gpus:
        parts.append(f"{environment.gpus} GPUs")
    if environment.directory is not None:
        parts.append(f"in {environment.directory}")
    return ", ".join(parts)


def _network(reach: Reach) -> str:
    hosts = f" ({', '.join(reach.allowed_hosts)})" if reach.allowed_hosts else ""
    return f"{reach.mode.value}{hosts}"


def _phase(phase: Phase) -> str:
    limit = "no time limit" if phase.timeout_seconds is None else f"at most {phase.timeout_seconds:g} s"
    user = "user of the image" if phase.user is None else f"user {phase.user}"
    network = [] if phase.network is None else [f"network {_network(phase.network)}"]
    return ", ".join([limit, user, *network])


def _verifier(step: TaskStep) -> str:
    verifier = step.verifier
    parts = [verifier.script, verifier.mode.value, _phase(verifier.phase)]
    if verifier.parser:
        parts.append(f"parser {verifier.parser}")
    if verifier.mode is VerifierMode.SEPARATE and verifier.environment is not None:
        parts.append(f"in {_machine(verifier.environment)}")
    return ", ".join(parts)
