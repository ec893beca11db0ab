"""A job that is killed: its sandboxes stay, and nobody will stop them.

`python -m tests.support.lost_job COUNT [TAG]...` prints the job's id and the ids of its sandboxes, and kills itself.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from sandrl.errors import InfrastructureError
from sandrl.sandboxes import Command, Job, connect, new_job_id
from sandrl.sandboxes.inventory import Inventory
from sandrl.settings import RuntimeKind, load_settings


@dataclass(frozen=True)
class Lost:
    """What a killed job left."""

    job_id: str
    ids: frozenset[str]


def lose_job(count: int, *tags: str) -> Lost:
    """Runs a job in a process of its own, and kills it once it has so many sandboxes."""
    argv = [sys.executable, "-m", "tests.support.lost_job", str(count), *tags]
    done = subprocess.run(
        argv, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2], timeout=240, check=False
    )
    assert done.returncode == -signal.SIGKILL
    job_id, *ids = done.stdout.split()
    assert len(ids) == count
    return Lost(job_id, frozenset(ids))


def sleeping_job(count: int, *tags: str) -> Job:
    """A job of this process with so many sleeping sandboxes."""
    connection = connect(load_settings(), runtime=RuntimeKind.LOCAL)
    job = Job(connection, job_id=new_job_id(), tags=tags, max_lifetime_seconds=600, command="test")
    inventory = Inventory(connection)
    started = 0
    while started < count:
        # In batches: more at once would only wait for one another.
        for _ in range(min(50, count - started)):
            job.launch(Command(("sleep", "600"), timeout_seconds=600))
            started += 1
        while not _are_there(inventory, job, started):
            time.sleep(0.1)
    return job


def _are_there(inventory: Inventory, job: Job, count: int) -> bool:
    try:
        return len(inventory.list(tags=[job.id])) >= count
    except InfrastructureError:
        return False  # a daemon that creates many sandboxes may answer too late


def main() -> None:
    job = sleeping_job(int(sys.argv[1]), *sys.argv[2:])
    ids = [each.id for each in Inventory(job.connection).list(tags=[job.id])]
    sys.stdout.write(" ".join([job.id, *ids]))
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
