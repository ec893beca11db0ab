"""The commands of the documentation that need the extra `grpo` are run, in the order of their page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.page_runs import pages_needing, run_page
from tests.support.pages import Page

# `test_guide.py` runs the guide, and looks at its results.
OTHERS = [page for page in pages_needing("grpo") if page.name != "docs/guides/rl-training.md"]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("page", OTHERS, ids=lambda each: each.name)
def test_the_commands_of_a_page_do_what_it_says(page: Page, tmp_path: Path) -> None:
    run_page(page, tmp_path, extra="grpo")
