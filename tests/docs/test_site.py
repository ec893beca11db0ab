"""The documentation's site is built strictly, every link in it leads somewhere, and it is read without a network."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

from tests.support.audit import audit
from tests.support.browser import launched, opened
from tests.support.programs import require_program

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-docs" / "bin" / "python"
WALKED = ("index.html", "guides/view.html", "404.html")
STARTED = "label[for^=__palette]:not([hidden])"
"""What is there when the theme has started."""

PAGES = (
    "reference/cli.html",
    "reference/options.html",
    "reference/python-api.html",
    "concepts/trust.html",
)


@dataclass
class Document(HTMLParser):
    """A page of the site.

    Attributes:
        links: Where its links lead.
        loaded: What a browser loads with it.
        anchors: The ids and names of its elements.
        headings: Its headings of the first level.
    """

    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    headings: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        self.headings += tag == "h1"
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag == "link" and values.get("rel") in ("stylesheet", "icon", "preconnect"):
            self.loaded.append(values["href"])
        elif tag in ("img", "script", "iframe", "source") and "src" in values:
            self.loaded.append(values["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built in the environment that `make docs` uses, with no network to ask."""
    if not PYTHON.exists():
        require_program(str(PYTHON))
    folder = tmp_path_factory.mktemp("site")
    closed = {**os.environ, "https_proxy": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}
    done = subprocess.run(
        [PYTHON, "-m", "mkdocs", "build", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**closed, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def documents(site: Path) -> dict[Path, Document]:
    """Every page of the site."""
    found = {}
    for path in sorted(site.rglob("*.html")):
        found[path] = Document()
        found[path].feed(path.read_text(encoding="utf-8"))
    return found


def test_every_link_leads_to_a_page_and_a_heading(site: Path, documents: dict[Path, Document]) -> None:
    broken = []
    for path, document in documents.items():
        for link in document.links:
            if urlsplit(link).scheme or path.name == "404.html":
                continue
            target, anchor = urldefrag(link)
            file = (path.parent / unquote(target)).resolve() if target else path
            file = file / "index.html" if file.is_dir() else file
            is_there = file.exists() and (
                not anchor or file not in documents or unquote(anchor) in documents[file].anchors
            )
            if not is_there:
                broken.append(f"{path.relative_to(site)} -> {link}")
    assert len(documents) > 40
    assert not broken


def test_a_page_has_one_title_and_loads_nothing_from_other_servers(documents: dict[Path, Document]) -> None:
    assert {path.name for path, each in documents.items() if each.headings != 1} <= {"404.html"}
    assert not [url for each in documents.values() for url in each.loaded if urlsplit(url).scheme in ("http", "https")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as started:
        yield started


@pytest.mark.parametrize("name", PAGES)
def test_a_page_asks_no_other_server(browser: Any, site: Path, name: str) -> None:
    with opened(browser, site / name, ready="article h1") as seen:
        assert all(address.startswith(("file:", "data:", "blob:")) for address in seen.requests)
        assert not seen.complaints


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The site on a server, as its page of errors needs it."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@pytest.mark.parametrize(
    ("width", "dark", "has_all"),
    [
        (360, False, False),
        (1400, True, False),
        *(pytest.param(width, dark, True, marks=pytest.mark.slow) for width in (360, 1400) for dark in (False, True)),
    ],
)
def test_nothing_of_a_page_is_cut_off_or_unreachable_or_without_a_name(
    browser: Any, address: str, documents: dict[Path, Document], site: Path, width: int, dark: bool, has_all: bool
) -> None:
    faults = []
    for name in sorted(str(path.relative_to(site)) for path in documents) if has_all else WALKED:
        with opened(browser, address + name, width=width, dark=dark, is_still=True, ready=STARTED) as seen:
            faults += [f"{name}: {fault}" for fault in audit(seen.page, has_walk=not has_all)]
    assert faults == []


def test_the_navigation_of_a_narrow_page_is_opened_and_closed_by_keyboard(browser: Any, address: str) -> None:
    with opened(browser, address, width=360, is_still=True, ready=STARTED) as seen:
        button = seen.page.get_by_role("button", name="Navigation")
        button.focus()
        seen.page.keyboard.press("Enter")
        assert button.get_attribute("aria-expanded") == "true"
        section = seen.page.get_by_role("button", name="Guides")
        section.focus()
        seen.page.keyboard.press("Space")
        assert audit(seen.page, has_walk=False) == []
        seen.page.keyboard.press("Escape")
        assert button.get_attribute("aria-expanded") == "false"
        assert button.evaluate("each => each === document.activeElement")


def test_search_finds_a_command_from_a_disk(browser: Any, site: Path) -> None:
    with opened(browser, site / "index.html", ready="article h1") as seen:
        seen.page.click(".md-search__input")
        seen.page.keyboard.type("orphan")
        seen.page.wait_for_selector(".md-search-result__link")
        assert "rphan" in seen.page.inner_text(".md-search-result__list")


@pytest.mark.parametrize("dark", [False, True])
def test_the_theme_is_the_one_that_the_user_prefers(browser: Any, site: Path, dark: bool) -> None:
    with opened(browser, site / "index.html", dark=dark, ready="article h1") as seen:
        scheme = seen.page.get_attribute("body", "data-md-color-scheme")
        assert scheme == ("slate" if dark else "default")
