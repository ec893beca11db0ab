"""The settings that may stop a cheat: where the verifier of a task runs, and what it finds there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from sandrl.problems.tasks.task import Artifact, Task, TaskStep, VerifierMode
from sandrl.redteam.verifier_text import text_of
from sandrl.trials.artifacts import WORKING_DIRECTORY

SEPARATE = "separate"
_TOO_MUCH = frozenset({"/bin", "/etc", "/home", "/lib", "/opt", "/root", "/run", "/srv", "/tmp", "/usr", "/var"})


def settings_of(task: Task, mode: VerifierMode | None) -> dict[str, Task]:
    """The task under each setting that differs from what it has, by the name of the setting.

    Args:
        mode: Where verifiers run, if that is not where tasks say.
    """
    found = {}
    is_apart = mode is VerifierMode.SEPARATE
    for name, change in SETTINGS.items():
        changed = replace(task, steps=tuple(change(task, step) for step in task.steps))
        if changed == task and name != SEPARATE:
            continue
        has_shared = any(step.verifier.mode is not VerifierMode.SEPARATE for step in task.steps)
        if has_shared and not (is_apart and name != "artifacts"):
            found[name] = changed
    return found


def _without_processes(task: Task, step: TaskStep) -> TaskStep:
    return replace(step, verifier=replace(step.verifier, ends_processes=True))


def _as_it_is(task: Task, step: TaskStep) -> TaskStep:
    return step


def _with_artifacts(task: Task, step: TaskStep) -> TaskStep:
    if step.verifier.mode is VerifierMode.SEPARATE:
        return step
    mentioned = (path for path in text_of(task, step.verifier).paths if path.startswith("/") and path not in _TOO_MUCH)
    paths = [path for path in mentioned if not path.startswith("/usr/")]
    artifacts = (WORKING_DIRECTORY, *map(Artifact, paths), *step.artifacts)
    return replace(step, verifier=replace(step.verifier, mode=VerifierMode.SEPARATE), artifacts=artifacts)


SETTINGS: Mapping[str, Callable[[Task, TaskStep], TaskStep]] = MappingProxyType(
    {"end_processes": _without_processes, SEPARATE: _as_it_is, "artifacts": _with_artifacts}
)
"""What each changes in a step, the weakest first.

`end_processes` ends the processes of the agent before the verifier runs. `separate` runs it in a fresh sandbox with the
whole state of the agent, and `artifacts` in one with nothing but the working directory and the paths that it mentions.
"""
