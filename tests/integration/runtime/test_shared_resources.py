"""What all sandboxes share: one sandbox that takes much of it disturbs neither its neighbours nor the host."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.drivers import answer_of
from tests.support.greedy_programs import GREEDY

pytestmark = pytest.mark.alone

# A user of nobody else's: its quotas are nobody else's either.
OTHER_UID = 61_000 + os.getpid() % 1_000

Facts = dict[str, Any]


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    place = Path("/tmp") / f"sandrl-shared-{os.getpid()}"
    place.mkdir(mode=0o755)
    yield place
    shutil.rmtree(place, ignore_errors=True)


def found(place: Path, what: str, mode: str) -> Facts:
    if "another" in mode and os.getuid() != 0:
        pytest.skip("only root can run a program as another user")
    driver, texts = "greedy_driver.py", ("greedy_programs.py",)
    facts: Facts = answer_of(place, mode, driver, what, texts=texts, user=OTHER_UID, timeout_seconds=300)
    return facts


# As root, `sandrl doctor` tries the same on a smaller scale (`limits of what is shared`).
@pytest.fixture(
    scope="module",
    params=[
        pytest.param("native", marks=pytest.mark.slow),
        "native as another user",
        pytest.param("native from an image", marks=pytest.mark.slow),
        "native as another user from an image",
    ],
)
def outcome(request: pytest.FixtureRequest, place: Path) -> Facts:
    """How every greedy program ended, and those beside it."""
    return found(place, "beside", request.param)


@pytest.mark.parametrize("name", sorted(GREEDY))
def test_one_greedy_sandbox_is_stopped_and_nobody_else_notices(outcome: Facts, name: str) -> None:
    facts = outcome[name]
    assert facts["code"] == 137, facts
    assert facts["honest_failures"] == []
    assert facts["host_troubles"] == []


def test_a_failure_while_a_shared_quota_is_used_up_counts_for_nothing(place: Path) -> None:
    facts = found(place, "shortage", "native as another user")
    assert facts["before"] == facts["after"] == "well\n"
    assert "pipes" in facts["refused"]
    assert facts["failed"][0] == 1
    assert "pipes" in facts["failed"][1]
    assert facts["passed"] == [0, ""]
