"""Verifiers that fail one time in ten: the flake rate is that of the runs, and near to what is true."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sandrl.runs import RunReader
from tests.support.tasks.base import import_task_base
from tests.support.tasks.flaky import NAMES, write_flaky_tasks

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
RUNS = 100
# Of a hundred runs that flake one time in ten, fewer or more do so once in ten thousand measurements.
LEAST, MOST = 1, 23


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    import_task_base(os.environ)
    place = write_flaky_tasks(tmp_path_factory.mktemp("flaky"))
    command = [sys.executable, "-m", "sandrl", "problems", "validate", "--problems", str(place)]
    done = subprocess.run([*command, "--repeats", str(RUNS), "--json"], capture_output=True, text=True, check=False)
    # A verifier that breaks three times in a row leaves no reward, once in a thousand runs.
    assert done.returncode in (1, 3), done.stderr[-2000:]
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.mark.parametrize("name", NAMES)
def test_the_flake_rate_is_the_share_of_the_runs_that_flaked(measured: dict[str, Any], name: str) -> None:
    (card,) = [each for each in measured["tasks"] if each["task_id"] == name]
    rows = [row for row in RunReader(Path(measured["run"])).each_trajectory() if row.task_id == name]
    shares = []
    for kind, right in (("oracle", 1.0), ("nop", 0.0)):
        its = [row for row in rows if row.id.startswith(f"{name}#{kind}.") and row.reward is not None]
        assert len(its) >= RUNS - 5
        flaked = sum(row.reward != right or row.verifier_failures > 0 for row in its)
        if kind == "oracle" or name == "breaks":
            assert LEAST <= flaked <= MOST
        shares.append(flaked / len(its))
    assert card["flake_rate"] == pytest.approx(max(shares))
    assert card["flake_low"] < card["flake_rate"] < card["flake_high"]
    # The interval of a share of 10 in 100 (Wilson 1927).
    assert card["flake_high"] - card["flake_low"] < 0.2


def test_a_solution_loses_its_reward_only_where_the_verifier_takes_it(measured: dict[str, Any]) -> None:
    rewards = {card["task_id"]: (card["oracle"], card["nop"]) for card in measured["tasks"]}
    assert rewards["breaks"][0] > 0.95
    assert rewards["breaks"][1] == 0.0
    assert 0.7 < rewards["loses"][0] < 1.0
    assert rewards["loses"][1] == 0.0
