"""A large set of tiny tasks, which ask for different amounts of memory."""

from __future__ import annotations

from pathlib import Path

from tests.support.tasks.shell import judge, write_shell_task

MEMORY_MB = (128, 256, 512, 1024)


def write_many_tasks(place: Path, count: int = 200, *, memory_mb: tuple[int, ...] = MEMORY_MB) -> Path:
    """Writes the tasks into a folder; returns it."""
    for number in range(count):
        write_shell_task(
            place / f"tiny-{number:03}",
            instruction=f"Write the number {number} into the file answer.",
            test=judge(str(number)),
            memory_mb=memory_mb[number % len(memory_mb)],
            cpus=0.5,
            files={"solution/solve.sh": f"#!/bin/bash\necho {number} > answer\n"},
        )
    return place
