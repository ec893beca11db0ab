"""tinker-cookbook's recipe `code_rl` trains at `sandrl tinker serve`, with rewards from `sandrl serve`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.service import TOKEN, running_service
from tests.support.tinker_serve import served
from tests.support.tinker_server.process import ROOT
from tests.support.wheels import Index

pytest.importorskip("tinker_cookbook.recipes.code_rl", reason="not installed: tinker-cookbook (make test-art)")

STEPS = 3
GROUPS, SAMPLES = 4, 8


@pytest.mark.timeout(600)
def test_its_own_training_code_learns_from_our_services(tmp_path: Path, index: Index) -> None:
    index.add_installed("numpy")
    log = tmp_path / "log"
    (tmp_path / "rewards").mkdir()
    # The recipe's test program imports NumPy.
    with (
        running_service(tmp_path / "rewards", "--packages", "numpy") as rewards,
        served(tmp_path / "state", "--no-lora", "--seed", "0") as service,
    ):
        environment = {
            **os.environ,
            "TINKER_BASE_URL": service.url,
            "TINKER_API_KEY": service.key,
            "SANDBOX_URL": f"{rewards.url}/t/{TOKEN}/run_code",
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
        }
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.cookbook_session", service.model, str(log), str(STEPS)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
            timeout=500,
        )
        assert done.returncode == 0, done.stderr[-4000:]
    rows = [json.loads(line) for line in (log / "metrics.jsonl").read_text().splitlines()]
    # Later versions of the recipe end with a row of totals.
    rows = [row for row in rows if "env/all/total_episodes" in row]
    assert [row["step"] for row in rows] == list(range(STEPS))
    for row in rows:
        assert row["env/all/total_episodes"] == GROUPS * SAMPLES
        assert row["unclipped_grad_l2:mean"] > 0
        # What was sampled is as likely where it is trained: one model, one arithmetic.
        assert abs(row["optim/kl_sample_train_v1"]) < 1e-4
    assert 0 < rows[0]["env/all/correct"] < 1
    assert rows[0]["env/all/format"] > rows[0]["env/all/correct"]
    saved = {path.parent.name: path for path in (tmp_path / "state" / "tinker").glob("*/weights/*/content.pt")}
    steps = ["warm", "000001", "000002", "000003"]
    assert len({saved[name].read_bytes() for name in steps}) == len(steps)
