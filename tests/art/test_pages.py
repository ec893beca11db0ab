"""The commands of pages that need the extra `art-tinker` are run in the order of their page; so is the GPU script."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.gpu_scripts import tried_on_the_processor
from tests.support.page_runs import pages_needing, run_page
from tests.support.pages import Page


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("page", pages_needing("art-tinker"), ids=lambda each: each.name)
def test_the_commands_of_a_page_do_what_it_says(page: Page, tmp_path: Path) -> None:
    run_page(page, tmp_path, extra="art-tinker")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_checks_of_the_gpu_script_hold_of_a_run_and_of_one_that_was_killed(tmp_path: Path) -> None:
    states = tried_on_the_processor("art_local", tmp_path)
    assert states["[whole] the GPU's memory is free again after the run"] == "SKIP"
    assert states["[killed] no step is lost or done twice"] == "PASS"
    assert states["[whole] every completion has a reward"] == "PASS"
    assert set(states.values()) == {"PASS", "SKIP"}
