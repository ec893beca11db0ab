"""Every page of the viewer and of the report, on a telephone and on a desk, light and dark: nothing is cut off,
unreachable by keyboard, or without a name for a screen reader. The same of the site: tests/docs/test_site.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandrl.runs import RunReader
from sandrl.runs.report import write_report
from sandrl.viewer.library import Library
from sandrl.viewer.server import serving
from tests.support.audit import audit
from tests.support.browser import expect, opened
from tests.support.viewed_runs import PLACES, write_runs

every_window = pytest.mark.parametrize(
    ("width", "dark", "has_walk"),
    [
        pytest.param(360, False, True, id="360-light"),
        pytest.param(1400, True, True, id="1400-dark"),
        # The keyboard's way does not depend on the theme.
        pytest.param(360, True, False, id="360-dark", marks=pytest.mark.slow),
        pytest.param(1400, False, False, id="1400-light", marks=pytest.mark.slow),
    ],
)
PARTS = {
    "training": ("", "groups", "rows", "t/2.20", "t/nothing"),
    "cards": ("", "cards", f"cards/{'b' * 64}", f"cards/{'d' * 64}"),
}
"""Of the reports of runs."""


@pytest.fixture(scope="module")
def runs_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("viewed")
    (folder / "state").mkdir(mode=0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SANDRL_STATE_DIR", str(folder / "state"))
        write_runs(folder / "runs")
    return folder / "runs"


@pytest.fixture(scope="module")
def library(runs_dir: Path) -> Iterator[Library]:
    with Library(runs_dir, None, runs_dir.with_name("cache")) as library:
        yield library


@pytest.fixture(scope="module")
def live(library: Library) -> Iterator[str]:
    with serving(library, 0) as viewer:
        yield viewer.link


def show(page: Any, address: str, place: str) -> None:
    """Opens a place of a page anew, and waits until it is drawn."""
    page.goto("about:blank")
    page.goto(f"{address}#/{place}")
    page.wait_for_selector("html[data-ready] main h1", timeout=60_000)
    expect(page.locator("main")).not_to_contain_text("Loading")


def faults_of(page: Any, place: str, *, has_walk: bool) -> list[str]:
    """What the audit, and axe, say of a page."""
    from axe_playwright_python.sync_playwright import Axe

    broken = [
        f"axe: {fault['id']}: {[node['html'][:200] for node in fault['nodes'][:3]]}"
        for fault in Axe().run(page).response["violations"]
        if fault["impact"] in ("serious", "critical")
    ]
    return [f"{place}: {fault}" for fault in (*broken, *audit(page, has_walk=has_walk))]


@every_window
def test_nothing_of_the_viewer_is_cut_off_or_unreachable_or_without_a_name(
    browser: Any, live: str, library: Library, width: int, dark: bool, has_walk: bool
) -> None:
    keys = {run["run_id"]: run["key"] for run in library.documents()["runs"]}
    with opened(browser, live, width=width, height=740, dark=dark, is_still=True) as seen:
        faults = []
        for place in PLACES:
            show(seen.page, live.partition("?")[0], place.format(**keys))
            faults += faults_of(seen.page, place, has_walk=has_walk)
        assert faults == []


@every_window
def test_nothing_of_the_report_is_cut_off_or_unreachable_or_without_a_name(
    browser: Any, runs_dir: Path, tmp_path: Path, width: int, dark: bool, has_walk: bool
) -> None:
    faults = []
    for run, parts in PARTS.items():
        file = write_report(RunReader(runs_dir / run), tmp_path / f"{run}.html")
        with opened(browser, file, width=width, height=740, dark=dark, is_still=True) as seen:
            for part in parts:
                show(seen.page, file.as_uri(), f"run/{run}/{part}")
                faults += faults_of(seen.page, part, has_walk=has_walk)
    assert faults == []


BAD = """<!doctype html><html lang="en"><head><title>Bad</title><meta name="viewport" content="width=device-width">
<style>body {{ margin: 0; background: #fff; color: #111 }} :focus {{ outline: 2px solid #00c }} {style}</style></head>
<body><a href="#main">Skip</a><main id="main" tabindex="-1"><h1>Title</h1><p>Text</p>{body}</main></body></html>"""
STUCK = "<dialog id=d aria-label=Own onkeydown='event.preventDefault()'><button>In</button></dialog>"
FAULTS = {
    "cut off: <p.x>": ("<p class=x>too long for its box</p>", ".x { width: 60px; overflow: clip; white-space: pre }"),
    "cut off: <p.y>": ("<p class=y>one<br>two<br>three<br>four</p>", ".y { height: 30px; overflow: hidden }"),
    "cut off: <p.z>": ("<p class=z>half of it</p>", ".z { margin-left: -40px }"),
    "cut off: the page is": ("<div style='width: 3000px'>wide</div>", ""),
    "cut off: the placeholder": ("<input aria-label=Name placeholder='a placeholder that is far too long' size=4>", ""),
    "cut off: <p.f>": ("<p class=f>below</p>", ".f { position: fixed; top: 5000px }"),
    "unreachable: <div.s>": ("<div class=s><p style='width: 9em'>far</p></div>", ".s { width: 90px; overflow: auto }"),
    "unreachable: <b.m>": ("<b class=m>menu</b>", ".m { cursor: pointer }"),
    "unreachable: <i#l>": ("<i id=l>x</i><script>l.addEventListener('click', () => 0)</script>", ""),
    "unreachable: <button.n>": ("<button class=n tabindex=-1>never</button>", ""),
    "unreachable: <a.r>": ("<div role=list><a href='#a'>one</a><a class=r href='#b' tabindex=-1>two</a></div>", ""),
    "unreachable: Tab does not": ("<button id=t>x</button><script>t.onkeydown = e => e.preventDefault()</script>", ""),
    "unreachable: Escape": (f"<button aria-haspopup=dialog onclick='d.showModal()'>Open</button>{STUCK}", ""),
    "name: button": ("<button><svg width=9 height=9></svg></button>", ""),
    "name: link": ("<a href='#main'>→</a>", ""),
    "name: textbox": ("<input>", ""),
    "name: image": ("<img src='data:,' width=20 height=20>", ""),
    "name: what can have the focus has no role": ("<div tabindex=0>stop</div>", ""),
    "name: 2 navigation": ("<nav><a href='#a'>one</a></nav><nav><a href='#b'>two</a></nav>", ""),
    "name: <button> \"Send\" does not say": ("<button aria-label=Send>Delete</button>", ""),
    "name: the chart": ("<canvas width=300 height=200 role=img aria-label=Curve></canvas>", ""),
    "name: aria-labelledby": ("<p aria-labelledby=nowhere>x</p>", ""),
    "contrast: 2": ("<p style='color: #aaa'>pale</p>", ""),
    "contrast: 1": ("<p style='color: rgb(0 0 0 / 20%)'>faded</p>", ""),
    "focus: <button.o>": ("<button class=o>no outline</button>", ".o:focus { outline: none }"),
    "focus: <a.h> \"hid\"": ("<a class=h href='#a'>hid</a><div class=c></div>", ".c { position: fixed; inset: 0 }"),
    "order: <a.p>": ("<a class=p href='#a' tabindex=3>first</a>", ""),
    "order: <a.q>": ("<p style='display: flex'><a class=q href='#a'>a</a><a href='#b'>b</a></p>", ".q { order: 2 }"),
    "structure: a heading of level 4": ("<h4>Deep</h4>", ""),
    "structure: 2 headings": ("<h1>Second</h1>", ""),
    "structure: <table>": ("<table><tr><td>1</td></tr></table>", ""),
    "structure: <button> \"inner\" is inside": ("<a href='#a'><button>inner</button></a>", ""),
    "motion: <p.t>": ("<p class=t>moves</p>", ".t { transition: color 2s }"),
}  # fmt: skip


def test_the_audit_finds_each_kind_of_fault_and_nothing_in_a_page_without_one(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "bad.html"
    file.write_text(BAD.format(body="", style=""), encoding="utf-8")
    missed = {}
    with opened(browser, file, width=360, ready="h1", is_still=True) as seen:
        assert audit(seen.page) == []
        for fault, (body, style) in FAULTS.items():
            seen.page.set_content(BAD.format(body=body, style=style))
            found = audit(seen.page)
            if not any(each.startswith(fault) for each in found):
                missed[fault] = found
    assert missed == {}
