"""The settings that may stop a cheat: where the verifier of a task runs, and what it finds there."""

from __future__ import annotations

from dataclasses import replace

from sandrl.config.words import VerifierPlace
from sandrl.problems.tasks.task import Task

END_PROCESSES = "end_processes"
SETTINGS = (END_PROCESSES, VerifierPlace.SEPARATE.value, VerifierPlace.ARTIFACTS.value)
"""The weakest first: one that a task has itself, and those that a run chooses by `VerifierPlace`."""


def settings_of(task: Task, usual: VerifierPlace) -> dict[str, Task]:
    """The task under each setting that is stronger than what it has, by the name of the setting.

    Args:
        usual: Where verifiers run without the setting.
    """
    if not task.has_shared_verifier:
        return {}
    stronger = [*VerifierPlace][[*VerifierPlace].index(usual) + 1 :]
    found = {place.value: task for place in stronger}
    steps = tuple(replace(step, verifier=replace(step.verifier, ends_processes=True)) for step in task.steps)
    if usual is VerifierPlace.TASK and steps != task.steps:
        found[END_PROCESSES] = replace(task, steps=steps)
    return found


def place_under(setting: str, usual: VerifierPlace) -> VerifierPlace:
    """Where verifiers run under a setting."""
    return usual if setting == END_PROCESSES else VerifierPlace(setting)
