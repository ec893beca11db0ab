"""The script that verifies this on a GPU, tried without one: its checks are of real runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.gpu_scripts import tried_on_the_processor


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_its_checks_hold_of_a_run_and_of_one_that_was_killed(tmp_path: Path) -> None:
    states = tried_on_the_processor("unsloth_4bit", tmp_path)
    assert states["[whole] the trained model is in 4 bits"] == "SKIP"
    assert states["[killed] no step is lost or done twice"] == "PASS"
    assert states["[whole] every completion has a reward"] == "PASS"
    assert set(states.values()) == {"PASS", "SKIP"}
