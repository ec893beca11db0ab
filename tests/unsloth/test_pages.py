"""The commands of the documentation that need the extra `unsloth` are run, in the order of their page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.page_runs import pages_needing, run_page
from tests.support.pages import Page


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("page", pages_needing("unsloth"), ids=lambda each: each.name)
def test_the_commands_of_a_page_do_what_it_says(page: Page, tmp_path: Path) -> None:
    run_page(page, tmp_path, extra="unsloth")
