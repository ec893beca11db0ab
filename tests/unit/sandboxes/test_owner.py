"""An owner is one process, not a number that others reuse."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

from sandrl.sandboxes.owner import current_owner


def test_the_current_owner_is_this_process() -> None:
    owner = current_owner()
    assert owner.pid == os.getpid()
    assert owner == current_owner()
    assert owner.started_ticks > 0


def test_every_part_changes_the_hash() -> None:
    owner = current_owner()
    others = [
        replace(owner, host="elsewhere"),
        replace(owner, boot_id="other"),
        replace(owner, pid_namespace="pid:[1]"),
        replace(owner, pid=owner.pid + 1),
        replace(owner, started_ticks=owner.started_ticks + 1),
    ]
    assert len({owner.hash, *(other.hash for other in others)}) == len(others) + 1


def test_a_child_process_is_another_owner() -> None:
    program = "from sandrl.sandboxes.owner import current_owner; print(current_owner().hash)"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.strip() != current_owner().hash
