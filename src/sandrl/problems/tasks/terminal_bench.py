"""Reads a task directory of Terminal-Bench's first format: `task.yaml`, `run-tests.sh` and a Compose file.

As in its harness, `run-tests.sh` and the content of `tests` are put beside each other in `/tests`, a shell of root runs
the program, and a parser of test results reads its output.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from sandrl.compose import read_yaml
from sandrl.errors import InputError
from sandrl.problems.fields import reason_of
from sandrl.problems.tasks.compose import NAMES, ComposedMachine, read_compose
from sandrl.problems.tasks.content import TaskContent
from sandrl.problems.tasks.harbor import LEFT_OUT, LONGEST_SECONDS, without_canary
from sandrl.problems.tasks.images import built
from sandrl.problems.tasks.log_parsers import TERMINAL_BENCH_PARSERS
from sandrl.problems.tasks.task import Environment, Phase, Solution, Task, TaskStep, Verifier

CONFIG = "task.yaml"
RUN_TESTS = "run-tests.sh"

# The names that Terminal-Bench gives to what it mounts and makes.
_VARIABLES = {
    "T_BENCH_TEST_DIR": "/tests",
    "T_BENCH_CONTAINER_LOGS_PATH": "/logs",
    "T_BENCH_CONTAINER_AGENT_LOGS_PATH": "/agent-logs",
    "T_BENCH_TASK_LOGS_PATH": "/logs",
    "T_BENCH_TASK_AGENT_LOGS_PATH": "/agent-logs",
    "T_BENCH_TASK_DOCKER_NAME_PREFIX": "task",
    "T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME": "task",
    "T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME": "",
}


class Description(BaseModel):
    """One of several instructions of a task, as older files have them."""

    key: str = "base"
    description: str


class TerminalBenchConfig(BaseModel):
    """The whole of a `task.yaml`."""

    model_config = ConfigDict(extra="allow")

    instruction: str | None = None
    descriptions: list[Description] = []
    author_name: str = "unknown"
    author_email: str = "unknown"
    difficulty: Literal["easy", "medium", "hard", "unknown"] = "unknown"
    category: str = "software_engineering"
    tags: list[str] = []
    parser_name: str = "pytest"
    max_agent_timeout_sec: float = 360.0
    max_test_timeout_sec: float = 60.0
    run_tests_in_same_shell: bool = False
    disable_asciinema: bool = False
    estimated_duration_sec: float | None = None
    expert_time_estimate_min: float | None = None
    junior_time_estimate_min: float | None = None


class SolutionCommand(BaseModel):
    """One entry of a `solution.yaml`: what is typed into a terminal."""

    command: str
    append_enter: bool = True


_METADATA = (
    *("author_name", "author_email", "difficulty", "category", "tags"),
    *("estimated_duration_sec", "expert_time_estimate_min", "junior_time_estimate_min"),
)


def read_terminal_bench_task(directory: str | Path) -> Task:
    """Reads a task directory with a `task.yaml`.

    Raises:
        InputError: If something is missing or wrong, leads out of the directory, or cannot be run here; the error names
            the file, and the field or line.
    """
    content = TaskContent(directory)
    path = content.path(CONFIG)
    config = _validated(
        TerminalBenchConfig, read_yaml(path, "a task of Terminal-Bench: a mapping with `instruction`"), path
    )
    instruction = _instruction(config, path)
    if config.parser_name not in TERMINAL_BENCH_PARSERS:
        message = f"there is no parser {config.parser_name!r:.60} of test results"
        hint = f"use one of {', '.join(TERMINAL_BENCH_PARSERS)}"
        raise InputError(message, path=path, field="parser_name", hint=hint)
    composed = _composed(content)
    image = composed.image or built(content.path("Dockerfile"))
    ignored = [*(config.model_extra or ()), *composed.ignored]
    if config.run_tests_in_same_shell:
        ignored.append("run_tests_in_same_shell (its tests run in a shell of their own, as the agent's user)")
    if not content.is_file(RUN_TESTS):
        raise InputError("is missing: a task needs a program that decides the reward", path=content.root / RUN_TESTS)
    script = content.read(RUN_TESTS)
    return Task(
        name=content.root.name,
        format="terminal-bench 1",
        digest=content.digest(),
        environment=Environment(
            image=image,
            memory_bytes=composed.memory_bytes,
            processors=composed.processors,
            variables=composed.variables,
            directory=composed.directory,
        ),
        steps=(
            TaskStep(
                instruction=instruction,
                agent=Phase(composed.user, _seconds(config.max_agent_timeout_sec, "max_agent_timeout_sec", path)),
                verifier=Verifier(
                    phase=Phase(
                        composed.user if config.run_tests_in_same_shell else "root",
                        _seconds(config.max_test_timeout_sec, "max_test_timeout_sec", path),
                        variables=(("TEST_DIR", "/tests"),),
                    ),
                    directories=(str(content.path("tests")),) if content.is_directory("tests") else (),
                    files=((RUN_TESTS, script),),
                    script=RUN_TESTS,
                    parser=config.parser_name,
                ),
                solution=_solution(content),
            ),
        ),
        directory=str(content.root),
        ignored=tuple(ignored),
        metadata=config.model_dump(mode="json", include=set(_METADATA), exclude_none=True),
    )


def _validated(model: type[Any], value: object, path: Path) -> Any:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first: dict[str, Any] = dict(error.errors(include_url=False)[0])
        field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
        raise InputError(reason_of(first), path=path, field=field or None) from None


def _instruction(config: TerminalBenchConfig, path: Path) -> str:
    if config.instruction is not None:
        return without_canary(config.instruction)
    texts = {each.key: each.description for each in reversed(config.descriptions)}
    if not texts:
        raise InputError("is missing", path=path, field="instruction")
    return without_canary(texts.get("base", config.descriptions[0].description))


def _composed(content: TaskContent) -> ComposedMachine:
    name = next((name for name in NAMES if content.is_file(name)), None)
    return ComposedMachine() if name is None else read_compose(content, content.path(name), _VARIABLES)


def _seconds(seconds: float, field: str, path: Path) -> float | None:
    if seconds == math.inf:
        return None
    if not 0 < seconds <= LONGEST_SECONDS:
        raise InputError(f"must be a number of seconds above 0, not {seconds:g}", path=path, field=field, hint=LEFT_OUT)
    return seconds


def _solution(content: TaskContent) -> Solution | None:
    if content.is_file("solution.sh"):
        return Solution(files=(("solve.sh", content.read("solution.sh")),))
    if not content.is_file("solution.yaml"):
        return None
    path = content.path("solution.yaml")
    entries = read_yaml(path, "a list of commands", list)
    commands = [_validated(SolutionCommand, each, path) for each in entries]
    return Solution(files=(("solve.sh", "".join(_typed(commands, path)).encode()),))


# Commands that are typed into a shell one after the other are a script of it, as long as none is a key or an answer to
# a program that asks.
def _typed(commands: list[SolutionCommand], path: Path) -> Iterator[str]:
    yield "#!/bin/bash\n"
    for number, each in enumerate(commands):
        if not each.append_enter:
            message = "types keys into a program, which a script cannot do"
            raise InputError(message, path=path, field=f"[{number}].append_enter", hint=LEFT_OUT)
        yield f"{each.command}\n"
