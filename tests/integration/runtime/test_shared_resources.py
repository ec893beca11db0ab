"""What all sandboxes share: one sandbox that takes much of it disturbs neither its neighbours nor the host."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.greedy_programs import GREEDY

pytestmark = pytest.mark.alone

ROOT = Path(__file__).resolve().parents[3]
SUPPORT = ROOT / "tests" / "support"
SYSTEM_PYTHON = "/usr/bin/python3"
# A user of nobody else's: its quotas are nobody else's either.
OTHER_UID = 61_000 + os.getpid() % 1_000

Facts = dict[str, Any]


class Drivers:
    """Runs the driver as this user or as another one."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def run(self, what: str, *, as_another: bool) -> Facts:
        command, source = [sys.executable, str(SUPPORT / "greedy_driver.py")], ROOT / "src"
        state = self._place / f"state-{what}-{as_another}"
        state.mkdir(mode=0o755)
        drop: dict[str, Any] = {}
        if as_another:
            if os.getuid() != 0:
                pytest.skip("only root can run a program as another user")
            if not Path(SYSTEM_PYTHON).exists():
                pytest.skip("no system interpreter to run as another user")
            command, source = [SYSTEM_PYTHON, str(self._place / "greedy_driver.py")], self._place / "src"
            self._copy()
            os.chown(state, OTHER_UID, OTHER_UID)
            drop = {"user": OTHER_UID, "group": OTHER_UID, "extra_groups": []}
        result = subprocess.run(
            [*command, str(state), what],
            env={"PATH": os.defpath, "PYTHONPATH": f"{source}:{command[1].rpartition('/')[0]}"},
            capture_output=True,
            text=True,
            timeout=300,
            **drop,
        )
        assert result.returncode == 0, result.stderr
        answer: Facts = json.loads(result.stdout.splitlines()[-1])
        return answer

    def _copy(self) -> None:
        if (self._place / "src").exists():
            return
        shutil.copytree(ROOT / "src", self._place / "src", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("greedy_driver.py", "greedy_programs.py"):
            shutil.copy(SUPPORT / name, self._place)
        subprocess.run(["chmod", "-R", "a+rX", str(self._place)], check=True)


@pytest.fixture(scope="module")
def drivers() -> Iterator[Drivers]:
    place = Path("/tmp") / f"sandrl-shared-{os.getpid()}"
    place.mkdir(mode=0o755)
    yield Drivers(place)
    shutil.rmtree(place, ignore_errors=True)


# As root, `sandrl doctor` tries the same on a smaller scale (`limits of what is shared`).
@pytest.fixture(
    scope="module", params=[pytest.param(False, marks=pytest.mark.slow), True], ids=["this user", "another user"]
)
def outcome(request: pytest.FixtureRequest, drivers: Drivers) -> Facts:
    """How every greedy program ended, and those beside it."""
    return drivers.run("beside", as_another=request.param)


@pytest.mark.parametrize("name", sorted(GREEDY))
def test_one_greedy_sandbox_is_stopped_and_nobody_else_notices(outcome: Facts, name: str) -> None:
    facts = outcome["facts"][name]
    assert facts["code"] == 137, facts
    assert facts["honest_failures"] == []
    assert facts["host_troubles"] == []


def test_a_failure_while_a_shared_quota_is_used_up_counts_for_nothing(drivers: Drivers) -> None:
    facts = drivers.run("shortage", as_another=True)["facts"]
    assert facts["before"] == facts["after"] == "well\n"
    assert "pipes" in facts["refused"]
    assert facts["failed"][0] == 1
    assert "pipes" in facts["failed"][1]
    assert facts["passed"] == [0, ""]
