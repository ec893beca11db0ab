"""A real browser for tests: the system's Chromium, driven through its DevTools protocol by playwright.

Playwright's own browsers are not asked for: they are downloads, and the Debian package is what CI has.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.programs import require_program


@dataclass
class Page:
    """An open page, and what went wrong in it."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@contextmanager
def launched() -> Iterator[Any]:
    """Starts the browser; skips where there is none."""
    program = require_program("chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Chromium's own sandbox cannot start as root, as which CI runs; the pages are ours.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


def expect(locator: Any) -> Any:
    """Waits for what a page comes to show; imported on use, because the module skips where there is no browser."""
    from playwright.sync_api import expect

    return expect(locator)


@contextmanager
def opened(
    browser: Any,
    file: Path | str,
    *,
    at: str = "",
    width: int = 1280,
    height: int = 900,
    dark: bool = False,
    is_still: bool = False,
    ready: str = "html[data-ready]",
) -> Iterator[Page]:
    """Opens a page, and waits until it is drawn.

    `at` is the fragment to show; `ready` the element that is there when it is drawn, by default that of a page of runs.
    """
    scheme = "dark" if dark else "light"
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,
        reduced_motion="reduce" if is_still else "no-preference",
    )
    page = context.new_page()
    seen = Page(page)
    page.on("console", lambda message: seen.complaints.append(message.text))
    page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    page.on("request", lambda request: seen.requests.append(request.url))
    try:
        page.goto((file.as_uri() if isinstance(file, Path) else file) + at)
        page.wait_for_selector(ready, state="attached", timeout=60_000)
        yield seen
    finally:
        context.close()
