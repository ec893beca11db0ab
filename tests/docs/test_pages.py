"""The commands of every page are run, in their order, and end as the page says.

`python -m tests.docs.exceptions` prints those that are parsed only.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.page_runs import run_page
from tests.support.pages import Page, pages

# Their commands run in a minute or more.
LONG = ("docs/reference/formats/", "docs/guides/redteam.md", "docs/guides/rl-training.md")
RUN = [page for page in pages() if any(block.is_run_here and block.extra is None for block in page.blocks)]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.name, marks=[pytest.mark.slow] if page.name.startswith(LONG) else []) for page in RUN],
)
def test_the_commands_of_a_page_do_what_it_says(page: Page, tmp_path: Path) -> None:
    run_page(page, tmp_path)
