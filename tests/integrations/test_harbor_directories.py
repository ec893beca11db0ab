"""Task directories are read as Harbor reads them: what runs where, as whom, for how long, and what it may reach."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from sandrl.errors import InputError
from sandrl.problems.tasks.harbor import read_harbor_task
from sandrl.problems.tasks.task import Reach, Task, TaskStep, VerifierMode
from sandrl.settings import NetworkMode

pytestmark = pytest.mark.slow

HARBOR = os.environ.get("SANDRL_TEST_HARBOR", "")
COUNT = 400
ORACLE = """
import json, sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
from harbor.environments.definition import require_agent_environment_definition, should_upload_environment_dir
from harbor.models.task.task import Task
from harbor.models.task.verifier_mode import resolve_step_verifier_mode, resolve_task_verifier_mode
from harbor.models.task.verifier_mode import resolve_verifier_environment_definition
from harbor.models.trial.config import AgentConfig, EnvironmentConfig, VerifierConfig
from harbor.trial.network_policy import resolve_trial_network_plan

def policy(found):
    return None if found is None else [found.network_mode.value, list(found.allowed_hosts)]

def first(*values):
    return next((each for each in values if each is not None), None)

def step_of(task, step):
    config, own = task.config, step or task.config
    mode = resolve_task_verifier_mode(config) if step is None else resolve_step_verifier_mode(config, step)
    definition = resolve_verifier_environment_definition(config, task.paths, step)
    bundled = definition is not None and definition.bundled_tests
    if definition is not None:
        require_agent_environment_definition(definition.directory, docker_image=definition.config.docker_image)
    plan = resolve_trial_network_plan(config, AgentConfig(name="nop"), EnvironmentConfig(), VerifierConfig(), step,
        verifier_mode=mode, env_config=None if definition is None else definition.config)
    return {
        "instruction": task.instruction if step is None else task.step_instruction(step.name),
        "mode": mode.value,
        "agent": [first(own.agent.timeout_sec, config.agent.timeout_sec), first(own.agent.user, config.agent.user)],
        "verifier": [own.verifier.timeout_sec, first(own.verifier.user, config.verifier.user)],
        "variables": {**config.verifier.env, **own.verifier.env},
        "bundled": bundled,
        "image": None if definition is None else definition.config.docker_image or str(definition.directory),
        "memory": None if definition is None else definition.config.memory_mb,
        "networks": [policy(plan.agent_env_baseline), policy(plan.agent_phase), policy(plan.verifier_phase)],
        "collect": [each.command for each in [*config.verifier.collect, *(own.verifier.collect if step else [])]],
    }

for place in json.load(sys.stdin):
    try:
        task = Task(place)
        image = task.config.environment.docker_image
        require_agent_environment_definition(task.paths.environment_dir, docker_image=image)
        found = {
            "name": task.name,
            "image": image or str(task.paths.environment_dir),
            "is_uploaded": should_upload_environment_dir(task.paths.environment_dir, docker_image=image),
            "steps": [step_of(task, step) for step in task.config.steps or [None]],
        }
    except Exception as error:
        found = None
    print(json.dumps(found))
"""


class Maker:
    """Writes task directories with some of the files and fields that decide what runs where."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def write(self, place: Path) -> Path:
        steps = [f"s{number}" for number in range(self._random.choice([0, 0, 1, 2, 3]))]
        table: dict[str, Any] = {
            "environment": self._environment(0.6),
            "agent": self._phase(),
            "verifier": self._verifier(),
            "steps": [{"name": name, "agent": self._phase(), "verifier": self._verifier()} for name in steps],
        }
        if self._is(0.3):
            table["task"] = {"name": "org/named"}
        self._files(place, table, steps)
        return place

    def _is(self, chance: float) -> bool:
        return self._random.random() < chance

    def _some(self, chance: float, **values: Any) -> dict[str, Any]:
        return {name: value for name, value in values.items() if self._is(chance)}

    def _environment(self, chance: float) -> dict[str, Any]:
        return self._some(chance, docker_image="debian:13") | self._some(0.3, memory_mb=512) | self._network()

    def _network(self) -> dict[str, Any]:
        choices: list[dict[str, Any]] = [{}, {}, {"network_mode": "public"}, {"network_mode": "no-network"}]
        choices.append({"network_mode": "allowlist", "allowed_hosts": ["A.example.", "10.0.0.0/8"]})
        return dict(self._random.choice(choices))

    def _phase(self) -> dict[str, Any]:
        return (
            self._some(0.4, timeout_sec=self._random.choice([5, 7.5]), user=self._random.choice(["me", 7]))
            | self._network()
        )

    def _verifier(self) -> dict[str, Any]:
        found = self._phase() | self._some(0.3, env={self._random.choice("AB"): self._random.choice("12")})
        found |= self._some(0.4, environment_mode=self._random.choice(["shared", "separate"]))
        found |= self._some(0.2, collect=[{"command": f"c{self._random.random()}"}])
        if found.get("environment_mode") != "shared" and self._is(0.3):
            found["environment"] = self._environment(0.4)
        return found

    def _files(self, place: Path, table: dict[str, Any], steps: list[str]) -> None:
        files = {"task.toml": tomli_w.dumps(table), "instruction.md": self._text()}
        files |= self._some(0.6, **{"environment/Dockerfile": "FROM debian:13\n"})
        files |= self._some(0.2, **{"environment/data": "1"})
        for base in ("", *(f"steps/{name}/" for name in steps)):
            files |= self._some(0.8 if not base else 0.4, **{f"{base}tests/test.sh": "#!/bin/sh\n"})
            files |= self._some(0.15, **{f"{base}tests/Dockerfile": "FROM debian:13\n"})
            files |= self._some(0.1, **{f"{base}tests/.harborignore": "*.sh\n"})
            files |= {f"{base}instruction.md": self._text()} if base and self._is(0.95) else {}
        for name, text in files.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(text.encode())
        (place / "environment").mkdir(exist_ok=True)

    def _text(self) -> str:
        return self._random.choice(
            ["Do it.\n", "<!-- canary -->\n\n# Canary\nDo.\n", "# x\r\n# canary\r\n", "\n \nDo."]
        )


_MODES = {NetworkMode.NONE: "no-network", NetworkMode.PUBLIC: "public", NetworkMode.ALLOWLIST: "allowlist"}


def network(reach: Reach) -> list[Any]:
    return [_MODES[reach.mode], list(reach.allowed_hosts)]


def step_of(task: Task, step: TaskStep) -> dict[str, Any]:
    """What is read of a step, in the words of the other program."""
    verifier, own = step.verifier, step.verifier.environment
    machine = (own or task.environment) if verifier.mode is VerifierMode.SEPARATE else None
    return {
        "instruction": step.instruction,
        "mode": verifier.mode.value,
        "agent": [step.agent.timeout_seconds, step.agent.user],
        "verifier": [verifier.phase.timeout_seconds, verifier.phase.user],
        "variables": dict(verifier.phase.variables),
        "bundled": verifier.has_tests,
        "image": None if machine is None else machine.image.removeprefix("dockerfile:"),
        "memory": None if machine is None or machine.memory_bytes is None else machine.memory_bytes >> 20,
        "networks": [
            network(task.environment.network),
            network(step.agent.network or task.environment.network),
            network(verifier.phase.network or (own or task.environment).network),
        ],
        "collect": [each.command for each in verifier.collect],
    }


def read(place: Path) -> dict[str, Any] | None:
    """What is read of a task; None if it is refused."""
    try:
        task = read_harbor_task(place)
    except InputError:
        return None
    return {
        "name": task.name,
        "image": task.environment.image.removeprefix("dockerfile:"),
        "is_uploaded": bool(task.environment.files),
        "steps": [step_of(task, step) for step in task.steps],
    }


def as_texts(found: Any) -> Any:
    """The same, with users as texts."""
    if found is not None:
        for step in found["steps"]:
            for name in ("agent", "verifier"):
                seconds, user = step[name]
                step[name] = [seconds, None if user is None else str(user)]
    return found


@pytest.mark.skipif(not HARBOR, reason="SANDRL_TEST_HARBOR names no harbor (0.25 with cwsandbox, on Python 3.12)")
def test_what_harbor_runs_is_what_a_task_says(tmp_path: Path) -> None:
    places = [Maker(seed).write(tmp_path / f"t{seed}") for seed in range(COUNT)]
    command = [str(Path(HARBOR).with_name("python")), "-c", ORACLE]
    asked = subprocess.run(
        command, input=json.dumps(list(map(str, places))), capture_output=True, text=True, check=True, timeout=300
    )
    answers = [as_texts(json.loads(line)) for line in asked.stdout.splitlines()]
    assert len(answers) == COUNT
    for place, answer in zip(places, answers, strict=True):
        assert read(place) == answer, (place / "task.toml").read_text()
    assert sum(answer is not None for answer in answers) > COUNT / 4
