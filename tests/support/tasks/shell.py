"""Small tasks for episodes: one image, an ordinary user with a shell, and a verifier that looks at a file."""

from __future__ import annotations

from pathlib import Path

from tests.support.task_directories import write_task
from tests.support.tasks.base import BASE

INSTRUCTION = "Write the word done into the file answer."
HOME = "/home/app"


def judge(content: str = "done", file: str = "answer") -> str:
    """A verifier that rewards a file with this content."""
    return (
        f'#!/bin/bash\nif [ "$(cat {HOME}/{file} 2>/dev/null)" = "{content}" ]; then n=1; else n=0; fi\n'
        "echo $n > /logs/verifier/reward.txt\n"
    )


def write_shell_task(
    place: Path,
    *,
    instruction: str = INSTRUCTION,
    test: str = "",
    agent: str = "",
    environment: str = "",
    cpus: float = 1,
    memory_mb: int = 128,
    files: dict[str, str | None] | None = None,
) -> Path:
    """Writes a task; `agent` and `environment` are further lines of their tables. Returns its directory."""
    config = (
        f'schema_version = "1.4"\n[agent]\nuser = "app"\n{agent}\n[environment]\ndocker_image = "{BASE}"\n'
        f'workdir = "{HOME}"\ncpus = {cpus:g}\nmemory_mb = {memory_mb}\nstorage_mb = 64\n{environment}\n'
    )
    files = {"instruction.md": instruction, "tests/test.sh": test or judge(), **(files or {})}
    return write_task(place, {"task.toml": config, "solution/solve.sh": None, **files})
