"""Reads a task directory of Harbor: its machines, users, limits and programs, as Harbor 0.25 finds them."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandrl.errors import InputError
from sandrl.problems.tasks.compose import NAMES, USER, ComposedMachine, read_compose
from sandrl.problems.tasks.content import IGNORE_FILE, TaskContent
from sandrl.problems.tasks.harbor_config import (
    MAIN_SERVICE,
    SCHEMA_VERSIONS,
    AgentTable,
    ArtifactTable,
    CollectTable,
    EnvironmentTable,
    HarborConfig,
    HealthcheckTable,
    StepTable,
    SystemName,
    read_harbor_config,
    unknown_fields,
)
from sandrl.problems.tasks.images import built, named
from sandrl.problems.tasks.task import (
    Artifact,
    Collect,
    Environment,
    Healthcheck,
    Phase,
    RewardStrategy,
    Solution,
    Task,
    TaskStep,
    Verifier,
    VerifierMode,
)

CONFIG = "task.toml"

_MOST_CONFIG_BYTES = 256 << 10
_CANARY = re.compile(r"<!--.*canary.*-->|#.*canary.*", re.IGNORECASE)
LEFT_OUT = "leave the task out (skip_bad_rows), or change the field"
LONGEST_SECONDS = 10 * 365 * 86_400.0


def read_harbor_task(directory: str | Path) -> Task:
    """Reads a task directory with a `task.toml`.

    Raises:
        InputError: If something is missing or wrong, leads out of the directory, or cannot be run here; the error names
            the file, and the field or line.
    """
    content = TaskContent(directory)
    text = content.text(CONFIG, most_bytes=_MOST_CONFIG_BYTES)
    return _Reader(content, read_harbor_config(text, content.root / CONFIG)).task()


def without_canary(text: str) -> str:
    """An instruction without the comments at its beginning that mark data of benchmarks, and blank lines after them."""
    lines = text.split("\n")
    while lines and _CANARY.fullmatch(lines[0].strip()):
        lines.pop(0)
    while lines and not lines[0].strip():
        lines.pop(0)
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Place:
    # Where the image of a machine is from: a table, its name in the file, and the directory beside it.
    table: EnvironmentTable
    field: str
    directory: str


class _Reader:
    def __init__(self, content: TaskContent, config: HarborConfig) -> None:
        self._content = content
        self._config = config
        self._path = content.root / CONFIG
        self._ignored: list[str] = []
        self._user: str | None = None

    def task(self) -> Task:
        config = self._config
        self._note_ignored()
        environment = self._environment(_Place(config.environment, "environment", "environment"))
        steps = tuple(map(self._step, config.steps)) if config.steps else (self._only_step(),)
        return Task(
            name=self._content.root.name if config.task is None else config.task.name,
            format=f"harbor {config.schema_version}",
            digest=self._content.digest(),
            environment=environment,
            steps=steps,
            directory=str(self._content.root),
            strategy=config.multi_step_reward_strategy or RewardStrategy.MEAN,
            ignored=tuple(self._ignored),
            metadata=_plain(config.metadata),
        )

    def _note_ignored(self) -> None:
        config = self._config
        self._ignored += unknown_fields(config)
        if config.schema_version not in SCHEMA_VERSIONS:
            self._ignored.append(f"schema_version ({config.schema_version:.20} is read as {SCHEMA_VERSIONS[-1]})")
        for name in ("mcp_servers", "skills_dir"):
            if getattr(config.environment, name):
                self._ignored.append(f"environment.{name}")
        if self._content.is_file("trajectory.json"):
            self._ignored.append("trajectory.json")

    def _refused(self, field: str, message: str) -> InputError:
        return InputError(message, path=self._path, field=field, hint=LEFT_OUT)

    # Machines

    def _environment(self, place: _Place, image: str | None = None) -> Environment:
        table, field = place.table, place.field
        if table.os is SystemName.WINDOWS:
            raise self._refused(f"{field}.os", "is windows, and sandboxes run Linux")
        if table.tpu is not None:
            raise self._refused(f"{field}.tpu", "sandboxes have no TPU")
        composed = ComposedMachine()
        if image is None:
            composed = self._composed(place)
            image = self._image(place, composed)
        variables = dict(composed.variables) | table.env
        is_shipped = not image.startswith("dockerfile:") and not any(
            self._content.is_file(place.directory, name) for name in ("Dockerfile", *NAMES)
        )
        files = self._directory(place.directory) if is_shipped and place.directory == "environment" else ""
        return Environment(
            image=image,
            memory_bytes=self._bytes(f"{field}.memory_mb", table.memory_mb) or composed.memory_bytes,
            processors=self._positive(f"{field}.cpus", table.cpus) or composed.processors,
            storage_bytes=self._bytes(f"{field}.storage_mb", table.storage_mb),
            gpus=self._count(f"{field}.gpus", table.gpus),
            network=table.network,
            variables=self._variables(f"{field}.env", variables),
            directory=self._workdir(field, table) or composed.directory,
            files=files if files and any(self._content.entries(files, is_copied=False)) else "",
            healthcheck=self._healthcheck(f"{field}.healthcheck", table.healthcheck),
            build_timeout_seconds=self._seconds(
                "environment.build_timeout_sec", self._config.environment.build_timeout_sec
            )
            or LONGEST_SECONDS,
        )

    def _composed(self, place: _Place) -> ComposedMachine:
        name = next((name for name in NAMES if self._content.is_file(place.directory, name)), None)
        if name is None:
            return ComposedMachine()
        path = self._content.path(place.directory, name)
        literal = {key: value for key, value in place.table.env.items() if "${" not in value}
        values = {"CONTEXT_DIR": ".", "TEST_DIR": "/tests", "MAIN_IMAGE_NAME": "", "CPUS": "", "MEMORY": ""}
        values |= {f"ENV_{each}_PATH": "/logs" for each in ("VERIFIER_LOGS", "AGENT_LOGS", "ARTIFACTS")}
        values |= {f"HOST_{each}_PATH": "/logs" for each in ("VERIFIER_LOGS", "AGENT_LOGS", "ARTIFACTS")}
        composed = read_compose(self._content, path, literal | values, service=MAIN_SERVICE)
        self._ignored += composed.ignored
        if place.field == "environment":
            self._user = composed.user
        return composed

    def _image(self, place: _Place, composed: ComposedMachine) -> str:
        if place.table.docker_image:
            return named(place.table.docker_image, self._path, f"{place.field}.docker_image")
        return composed.image or built(self._content.path(place.directory, "Dockerfile"))

    def _workdir(self, field: str, table: EnvironmentTable) -> str | None:
        if table.workdir and ("\0" in table.workdir or "\n" in table.workdir):
            raise self._refused(f"{field}.workdir", "is not a path")
        return table.workdir or None

    def _healthcheck(self, field: str, table: HealthcheckTable | None) -> Healthcheck | None:
        if table is None:
            return None
        return Healthcheck(
            table.command,
            interval_seconds=self._seconds(f"{field}.interval_sec", table.interval_sec, least=0.0) or 0.0,
            timeout_seconds=self._seconds(f"{field}.timeout_sec", table.timeout_sec) or LONGEST_SECONDS,
            start_period_seconds=self._seconds(f"{field}.start_period_sec", table.start_period_sec, least=0.0) or 0.0,
            start_interval_seconds=self._seconds(f"{field}.start_interval_sec", table.start_interval_sec, least=0.0)
            or 0.0,
            retries=max(table.retries, 1),
        )

    # Steps

    def _only_step(self) -> TaskStep:
        config = self._config
        return TaskStep(
            instruction=without_canary(self._content.text("instruction.md")),
            agent=self._agent("agent", config.agent, None),
            verifier=self._verifier(None, ""),
            solution=self._solution("solution"),
            artifacts=self._artifacts("artifacts", config.artifacts),
        )

    def _step(self, step: StepTable) -> TaskStep:
        number = (self._config.steps or []).index(step)
        place, field = f"steps/{step.name}", f"steps[{number}]"
        if not self._content.is_directory(place):
            raise InputError("is missing", path=self._content.root / place, field=None)
        least = step.min_reward if isinstance(step.min_reward, Mapping | None) else {"reward": step.min_reward}
        if any(math.isnan(each) for each in (least or {}).values()):
            raise self._refused(f"{field}.min_reward", "is NaN, which no reward reaches")
        artifacts = self._artifacts("artifacts", self._config.artifacts)
        workdir = self._directory(f"{place}/workdir")
        return TaskStep(
            instruction=without_canary(self._content.text(place, "instruction.md")),
            name=step.name,
            agent=self._agent(f"{field}.agent", step.agent, self._config.agent),
            verifier=self._verifier(step, f"{field}."),
            solution=self._solution(f"{place}/solution") or self._solution("solution"),
            workdir=workdir,
            healthcheck=self._healthcheck(f"{field}.healthcheck", step.healthcheck),
            min_reward=tuple((least or {}).items()),
            artifacts=artifacts + self._artifacts(f"{field}.artifacts", step.artifacts),
        )

    def _agent(self, field: str, own: AgentTable, task: AgentTable | None) -> Phase:
        seconds, user, network = own.timeout_sec, own.user, own.network
        if task is not None:
            seconds = task.timeout_sec if seconds is None else seconds
            user = task.user if user is None else user
            network = network or task.network
        return Phase(
            user=self._named_user(f"{field}.user", user),
            timeout_seconds=self._seconds(f"{field}.timeout_sec", seconds),
            network=network,
        )

    def _verifier(self, step: StepTable | None, field: str) -> Verifier:
        task = self._config.verifier
        own = task if step is None else step.verifier
        user = own.user if own.user is not None else task.user
        mode = own.mode or task.mode or VerifierMode.SHARED
        environment, has_tests = None, False
        if mode is VerifierMode.SEPARATE:
            environment, has_tests = self._verifier_environment(step, field)
        tests = ["tests"] if step is None else ["tests", f"steps/{step.name}/tests"]
        directories = tuple(found for each in tests if (found := self._directory(each)))
        if not has_tests:
            self._require_script(tests[::-1])
        collect = [("verifier.collect", task.collect)] + (
            [] if step is None else [(f"{field}verifier.collect", own.collect)]
        )
        return Verifier(
            phase=Phase(
                user=None if user is None and has_tests else self._named_user(f"{field}verifier.user", user),
                timeout_seconds=self._seconds(f"{field}verifier.timeout_sec", own.timeout_sec),
                network=own.network or task.network,
                variables=self._variables(f"{field}verifier.env", task.env | own.env),
            ),
            mode=mode,
            directories=() if has_tests else directories,
            environment=environment,
            has_tests=has_tests,
            collect=tuple(
                self._hook(f"{place}[{number}]", hook) for place, hooks in collect for number, hook in enumerate(hooks)
            ),
            ends_processes=self._ends_processes(),
        )

    # The machine of a separate verifier; None for a fresh one of the task's. The nearest definition of an image wins.
    def _verifier_environment(self, step: StepTable | None, field: str) -> tuple[Environment | None, bool]:
        task = self._config.verifier
        tables = [(task.environment, "verifier.environment", "tests")]
        if step is not None:
            tables.insert(0, (step.verifier.environment, f"{field}verifier.environment", f"steps/{step.name}/tests"))
        said = next(((table, place) for table, place, _ in tables if table is not None), None)
        table, place = said or (self._config.environment, "environment")
        for other, name, directory in tables:
            if other is not None and other.docker_image:
                image = named(other.docker_image, self._path, f"{name}.docker_image")
                return self._environment(_Place(table, place, directory), image), True
            if any(self._content.is_file(directory, each) for each in ("Dockerfile", NAMES[0])):
                bare = table.model_copy(update={"docker_image": None})
                return self._environment(_Place(bare, place, directory)), True
        if said is None:
            return None, False
        of_task = table.model_copy(update={"docker_image": self._config.environment.docker_image})
        return self._environment(_Place(of_task, place, "environment")), False

    def _require_script(self, directories: Iterable[str]) -> None:
        for directory in directories:
            path = self._content.path(directory, "test.sh")
            if path.is_file():
                if self._content.is_ignored(path):
                    message = f"is left out by {IGNORE_FILE}, and it is the program that decides the reward"
                    raise InputError(message, path=self._content.root / directory / "test.sh")
                return
        raise InputError(
            "is missing: a task needs a program that decides the reward", path=self._content.root / "tests/test.sh"
        )

    def _solution(self, directory: str) -> Solution | None:
        path = self._directory(directory)
        if not path or not self._content.is_file(path, "solve.sh"):
            return None
        return Solution(path, variables=self._variables("solution.env", self._config.solution.env))

    def _directory(self, name: str) -> str:
        path = self._content.path(name)
        return str(path) if path.is_dir() else ""

    def _hook(self, field: str, table: CollectTable) -> Collect:
        if table.service != MAIN_SERVICE:
            raise self._refused(f"{field}.service", f"is {table.service!r:.60}, and a task has one sandbox")
        seconds = self._seconds(f"{field}.timeout_sec", table.timeout_sec) or LONGEST_SECONDS
        return Collect(table.command, seconds, self._named_user(f"{field}.user", table.user))

    def _artifacts(self, field: str, tables: list[ArtifactTable]) -> tuple[Artifact, ...]:
        for number, each in enumerate(tables):
            if each.service not in (None, MAIN_SERVICE):
                raise self._refused(
                    f"{field}[{number}].service", f"is {each.service!r:.60}, and a task has one sandbox"
                )
        return tuple(Artifact(each.source, each.destination, tuple(each.exclude)) for each in tables)

    def _ends_processes(self) -> bool:
        own = self._config.metadata.get("sandrl", {})
        if not isinstance(own, Mapping) or not isinstance(own.get("end_processes", False), bool):
            raise self._refused("metadata.sandrl.end_processes", "must be true or false")
        return bool(own.get("end_processes", False))

    # Values

    def _named_user(self, field: str, user: str | int | None) -> str | None:
        if user is None:
            return self._user
        name = str(user)
        if not USER.fullmatch(name):
            raise self._refused(field, f"must be the name or number of a user, not {name!r:.40}")
        return name

    def _variables(self, field: str, variables: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        for name, value in variables.items():
            if not name or "=" in name or "\0" in name or "\0" in value:
                raise self._refused(f"{field}.{name!r:.40}", "cannot be a variable of a program")
        return tuple(variables.items())

    # None for what is unlimited.
    def _seconds(self, field: str, seconds: float | None, *, least: float = 1e-9) -> float | None:
        if seconds is None or seconds == math.inf:
            return None
        if not least <= seconds <= LONGEST_SECONDS:
            raise self._refused(field, f"must be a number of seconds above 0, not {seconds:g}")
        return seconds

    def _positive(self, field: str, number: float | None) -> float | None:
        if number is not None and not 0 < number < 1 << 20:
            raise self._refused(field, f"must be a number above 0, not {number:g}")
        return number

    def _bytes(self, field: str, megabytes: int | None) -> int | None:
        if megabytes is not None and not 0 < megabytes < 1 << 40:
            raise self._refused(field, f"must be a number of mebibytes above 0, not {megabytes}")
        return None if megabytes is None else megabytes << 20

    def _count(self, field: str, number: int | None) -> int:
        if number is not None and not 0 <= number < 1 << 16:
            raise self._refused(field, f"must be 0 or more, not {number}")
        return number or 0


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else value
