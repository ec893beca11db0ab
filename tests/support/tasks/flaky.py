"""Tasks whose verifier fails one time in ten, by the randomness of the kernel, whatever the agent has done."""

from __future__ import annotations

from pathlib import Path

from tests.support.tasks.shell import INSTRUCTION, judge, write_shell_task

RATE = 0.1
_WHAT = {"loses": "echo 0 > /logs/verifier/reward.txt", "breaks": "rm /logs/verifier/reward.txt; exit 1"}
NAMES = tuple(_WHAT)
"""`loses` gives a solution no reward; `breaks` ends without a reward, and a trial then runs it again."""


def write_flaky_tasks(place: Path) -> Path:
    """Writes the tasks into a folder; returns it."""
    for name, do in _WHAT.items():
        test = f"{judge()}[ $((SRANDOM % {round(1 / RATE)})) != 0 ] || {{ {do}; }}\n"
        write_shell_task(
            place / name,
            instruction=f"{name}: {INSTRUCTION}",
            test=test,
            files={"solution/solve.sh": "#!/bin/bash\necho done > answer\n"},
            cpus=0.5,
        )
    return place
