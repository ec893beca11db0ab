"""The commands of pages that need the extra `grpo` are run in the order of their page; so is the GPU script."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.gpu_scripts import tried_on_the_processor
from tests.support.page_runs import pages_needing, run_page
from tests.support.pages import Page

# `test_guide.py` runs the guide, and looks at its results.
OTHERS = [page for page in pages_needing("grpo") if page.name != "docs/guides/rl-training.md"]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("page", OTHERS, ids=lambda each: each.name)
def test_the_commands_of_a_page_do_what_it_says(page: Page, tmp_path: Path) -> None:
    run_page(page, tmp_path, extra="grpo")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_checks_of_the_gpu_script_hold_of_a_run_and_of_one_that_was_killed(tmp_path: Path) -> None:
    states = tried_on_the_processor("grpo_vllm", tmp_path)
    assert states["[whole] vLLM generated in every step"] == "SKIP"
    assert states["[killed] no step is lost or done twice"] == "PASS"
    assert states["[whole] every completion has a reward"] == "PASS"
    assert set(states.values()) == {"PASS", "SKIP"}
