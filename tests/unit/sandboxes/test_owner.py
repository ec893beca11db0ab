"""An owner is one process, not a number that others reuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from tests.support.programs import require_program

from sandrl.sandboxes.owner import Liveness, Owner, current_owner, liveness


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


def test_a_process_that_ended_is_gone_also_before_its_parent_has_noticed() -> None:
    program = (
        "import dataclasses, json, sys; from sandrl.sandboxes.owner import current_owner;"
        "print(json.dumps(dataclasses.asdict(current_owner())), flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        owner = Owner(**json.loads(child.stdout.readline()))
        assert owner.pid == child.pid
        assert liveness(owner) is Liveness.ALIVE
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert liveness(owner) is Liveness.GONE
    assert liveness(owner) is Liveness.GONE


def test_a_process_id_in_other_hands_is_no_sign_of_life() -> None:
    here = current_owner()
    assert liveness(replace(here, started_ticks=here.started_ticks - 1)) is Liveness.GONE


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 1, 2**70])
def test_numbers_that_no_process_has_are_gone(pid: int) -> None:
    assert liveness(replace(current_owner(), pid=pid)) is Liveness.GONE


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"host": "elsewhere"}, Liveness.OTHER_HOST),
        ({"boot_id": "another"}, Liveness.OTHER_HOST),
        ({"pid_namespace": "pid:[4026532999]"}, Liveness.OTHER_HOST),
        ({"boot_id": ""}, Liveness.UNKNOWN),
        ({"pid_namespace": ""}, Liveness.UNKNOWN),
        ({"started_ticks": 0}, Liveness.UNKNOWN),
    ],
)
def test_nobody_is_gone_where_this_process_cannot_look_or_too_little_is_known(
    changes: dict[str, Any], found: Liveness
) -> None:
    assert liveness(replace(current_owner(), pid=2**22 + 1, **changes)) is found
    assert liveness(None) is Liveness.UNKNOWN


def test_the_processes_of_another_namespace_prove_nothing() -> None:
    """In a pid namespace of its own, but with the `/proc` of the other one, every number is somebody else's."""
    program = (
        "import os, dataclasses; from sandrl.sandboxes.owner import current_owner, liveness;"
        "own = current_owner(); print(liveness(own), liveness(dataclasses.replace(own, pid=2**22 + 1)))"
    )
    unshared = [
        require_program("unshare"),
        "--user",
        "--map-root-user",
        "--pid",
        "--fork",
        sys.executable,
        "-c",
        program,
    ]
    ended = subprocess.run(unshared, capture_output=True, text=True, check=False)
    if ended.returncode:
        pytest.skip(f"this kernel gives no pid namespace: {ended.stderr.strip()}")
    assert ended.stdout.split() == ["unknown", "gone"]
