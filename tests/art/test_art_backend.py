"""ART's own backend trains against the Tinker server here, and goes on in another process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.tinker_server.process import ROOT, TinkerServer

# Each process begins with ten seconds of imports.
pytestmark = pytest.mark.timeout(300)

Session = Callable[[int], dict[str, Any]]


@pytest.fixture
def session(tinker_server: TinkerServer, tmp_path: Path) -> Session:
    """A process that trains for some steps; all of a test train the same model."""

    def run(steps: int) -> dict[str, Any]:
        # LiteLLM would ask the internet for prices.
        environment = {**os.environ, **tinker_server.environment, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        argv = [sys.executable, "-m", "tests.support.art_session", str(tinker_server.model), str(tmp_path), str(steps)]
        done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=120)
        assert done.returncode == 0, done.stderr
        seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return seen

    return run


def test_art_trains_and_goes_on_in_another_process(session: Session, tinker_server: TinkerServer) -> None:
    already = len(tinker_server.records())
    first = session(1)
    assert (first["before"], first["after"]) == (0, 1)
    (metrics,) = first["metrics"]
    assert metrics["data/step_num_datums"] == 2
    assert metrics["unclipped_grad_l2:mean"] > 0
    again = session(0)
    assert (again["before"], again["after"]) == (1, 1)
    # The weights it sampled from are those the first process had trained.
    assert again["tokens"] == first["tokens"]
    assert again["logprobs"] == pytest.approx(first["logprobs"], abs=1e-5)

    rows = tinker_server.records()[already:]
    created, *_ = rows
    (computed,) = (row for row in rows if row["op"] == "forward_backward")
    (stepped,) = (row for row in rows if row["op"] == "optim_step")
    (loaded,) = (row for row in rows if row["op"] == "load_weights")
    assert created["weights"] != stepped["weights"] == loaded["weights"]
    assert loaded["optimizer"]
    for datum, sign in zip(computed["data"], (1, -1), strict=True):
        trained = [place for place, advantage in enumerate(datum["advantages"]) if advantage]
        # What is trained is the answer, to its end; two rewards of a group are normalized to ±1/√2.
        assert trained == list(range(trained[0], len(datum["target_tokens"])))
        assert datum["advantages"][trained[0] :] == pytest.approx([sign * 0.5**0.5] * len(trained))
        assert all(datum["logprobs"][place] < 0 for place in trained)
    # Both continue the same prompt, which is not trained.
    prompts = [datum["input_tokens"][: datum["advantages"].count(0.0) + 1] for datum in computed["data"]]
    assert prompts[0] == prompts[1]
