"""Writes task directories of Harbor: those of other tasks, and what a problem was that had been written as one."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

from sandrl.errors import InputError
from sandrl.files import new_directory
from sandrl.jsonl import MAX_PROBLEM_BYTES
from sandrl.problems.tasks import harbor, terminal_bench
from sandrl.problems.tasks.content import TaskContent
from sandrl.problems.tasks.harbor_config import NETWORK_MODES
from sandrl.problems.tasks.task import Reach, Task

if TYPE_CHECKING:
    from sandrl.problems.problem import Problem

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 100
_PROGRAM, _FILE = 0o755, 0o644
# What of a task of Terminal-Bench is no part of its image, unless its Dockerfile copies it.
_APART = (terminal_bench.CONFIG, terminal_bench.RUN_TESTS, "solution.sh", "solution.yaml", "tests")
_PYTEST = """\
#!/bin/bash
# The reward is 1 if every test that the summary of pytest names has passed, was skipped, or failed as expected.
mkdir -p /logs/verifier
bash /tests/run-tests.sh 2>&1 | tee /logs/verifier/tests.txt
awk '
  { gsub(/\\033\\[[0-9;?]*[A-Za-z]/, ""); sub(/\\r$/, "") }
  !seen { if (tolower($0) ~ /^=+ *short test summary info *=+ *$/) seen = 1; next }
  NF > 1 && /^(PASSED|SKIPPED|XFAIL|FAILED|XPASS|ERROR):* / {
    found = 1
    if ($0 ~ /^(FAILED|XPASS|ERROR)/) failed = 1
  }
  END { exit (found ? failed + 0 : 2) }' /logs/verifier/tests.txt
case $? in
  0) echo 1 > /logs/verifier/reward.txt ;;
  1) echo 0 > /logs/verifier/reward.txt ;;
  *) echo "the output names no test" >&2; exit 1 ;;
esac
"""


class TaskWriter:
    """Writes tasks into a new directory, each with a name of its own.

    Raises:
        InputError: If the directory exists, or cannot be made.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._names: set[str] = set()
        try:
            directory.mkdir(parents=True)
        except OSError as error:
            reason = "already exists" if directory.exists() else f"cannot be created: {error.strerror}"
            raise InputError(reason, path=directory, hint="name a directory that does not exist") from error

    def write(self, task_id: str, files: Mapping[str, bytes], table: dict[str, Any]) -> Path:
        """Writes a task of files, with a `task.toml` of its own.

        Raises:
            InputError: If it cannot be written.
        """
        name = self._name(task_id)
        package = name.lstrip("._-") or "task"
        document = {
            "schema_version": table.pop("schema_version", "1.4"),
            "task": {"name": f"sandrl/{package}"},
            **table,
        }
        if ".." in package:
            document.pop("task")
        toml = tomli_w.dumps(document, multiline_strings=False).encode()
        with new_directory(self._directory / name) as place:
            for path, content in {harbor.CONFIG: toml, **files}.items():
                target = place / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
                target.chmod(_PROGRAM if content.startswith(b"#!") else _FILE)
        return self._directory / name

    def copy(self, task_id: str, task: Task) -> Path:
        """Writes a task of Harbor as it is.

        Raises:
            InputError: If it cannot be read or written.
        """
        name = self._name(task_id)
        with new_directory(self._directory / name) as place:
            copied(TaskContent(task.directory), "", place)
        return self._directory / name

    def _name(self, task_id: str) -> str:
        plain = _UNSAFE.sub("-", task_id)[:_LONGEST_NAME].strip("-. ") or "task"
        name, number = plain, 1
        while name.casefold() in self._names:
            number += 1
            name = f"{plain}-{number}"
        self._names.add(name.casefold())
        return name


def copied(content: TaskContent, directory: str, place: Path, leaving: frozenset[str] = frozenset()) -> None:
    """Copies what is below a directory of a task, but not what `leaving` names at its top.

    Raises:
        InputError: If it cannot be read.
        OSError: If it cannot be written.
    """
    for entry in content.entries(directory, is_copied=False):
        if entry.name.partition("/")[0] in leaving:
            continue
        target = place / entry.name
        if entry.is_directory:
            target.mkdir(exist_ok=True)
        elif entry.target:
            target.symlink_to(entry.target)
        else:
            shutil.copyfile(entry.path, target, follow_symlinks=False)
            target.chmod(entry.mode)


def write_terminal_bench(writer: TaskWriter, task_id: str, task: Task) -> Path:
    """Writes a task of Terminal-Bench's first format as one of Harbor.

    Raises:
        InputError: If it cannot be read or written, or if a task of Harbor could not give its verdicts.
    """
    (step,) = task.steps
    if step.verifier.parser != "pytest":
        message = f"is judged by the parser {step.verifier.parser!r:.40}, which only pytest's can be written for"
        raise InputError(message, path=task.directory, field="parser_name")
    content = TaskContent(task.directory)
    written = writer.write(task_id, dict(_files_of(task)), _table_of(task))
    try:
        image = task.environment.image
        if image.startswith("dockerfile:"):
            dockerfile = Path(image.removeprefix("dockerfile:"))
            dockerfile = dockerfile if dockerfile.is_file() else dockerfile / "Dockerfile"
            context = dockerfile.parent
            leaving = _left_out(content.read(str(dockerfile)).decode("utf-8", "replace"))
            copied(content, str(context), written / "environment", leaving)
            if dockerfile.name != "Dockerfile":
                (written / "environment" / dockerfile.name).rename(written / "environment/Dockerfile")
        if content.is_directory("tests"):
            copied(content, "tests", written / "tests")
    except (OSError, InputError) as error:
        shutil.rmtree(written, ignore_errors=True)
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot be written: {error.strerror}", path=written) from error
    return written


def _left_out(dockerfile: str) -> frozenset[str]:
    def is_copied(name: str) -> bool:
        return re.search(rf"^\s*(COPY|ADD)\s.*(^|[\s/\"]){re.escape(name)}\b", dockerfile, re.MULTILINE) is not None

    return frozenset({name for name in _APART if not is_copied(name)} | {"docker-compose.yaml", "docker-compose.yml"})


def _files_of(task: Task) -> Iterator[tuple[str, bytes]]:
    (step,) = task.steps
    yield "instruction.md", step.instruction.encode()
    yield "tests/test.sh", _PYTEST.encode()
    yield from ((f"tests/{name}", content) for name, content in step.verifier.files)
    if step.solution is not None:
        yield from ((f"solution/{name}", content) for name, content in step.solution.files)
    yield "environment/.gitkeep", b""


def _table_of(task: Task) -> dict[str, Any]:
    (step,) = task.steps
    environment = task.environment
    image = {} if environment.image.startswith("dockerfile:") else {"docker_image": environment.image}
    memory = environment.memory_bytes
    table = {
        "metadata": task.metadata,
        "agent": {"timeout_sec": step.agent.timeout_seconds, "user": step.agent.user},
        "verifier": {
            "timeout_sec": step.verifier.phase.timeout_seconds or float("inf"),
            "user": step.verifier.phase.user,
            "env": dict(step.verifier.phase.variables),
        },
        "environment": {
            **image,
            "memory_mb": None if memory is None else max(memory >> 20, 1),
            "cpus": environment.processors,
            "workdir": environment.directory,
            "env": dict(environment.variables),
            **_network(environment.network),
        },
    }
    return {name: {key: value for key, value in part.items() if value is not None} for name, part in table.items()}


def _network(reach: Reach) -> dict[str, Any]:
    hosts = {"allowed_hosts": list(reach.allowed_hosts)} if reach.allowed_hosts else {}
    name = next(each.value for each, mode in NETWORK_MODES.items() if mode is reach.mode)
    return {"network_mode": name, **hosts}


def original_problem(task: Task) -> Problem | None:
    """The problem that a task was written for; None if it was made by others.

    Raises:
        InputError: If its file is no problem any more.
    """
    from sandrl.jsonl import Row
    from sandrl.problems.formats import parse_problem

    own = task.metadata.get("sandrl")
    place = own.get("problem") if isinstance(own, Mapping) else None
    if not isinstance(place, str) or not task.directory:
        return None
    content = TaskContent(task.directory)
    try:
        row = json.loads(content.text(place, most_bytes=MAX_PROBLEM_BYTES))["row"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError("is not what a problem was written as", path=content.root / place) from error
    if not isinstance(row, dict):
        raise InputError("is not what a problem was written as", path=content.root / place)
    return parse_problem(Row(1, row), content.root / place, has_tasks=False).problem
