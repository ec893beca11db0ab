"""Links between pages of the repository lead to a file and a heading, as GitHub shows them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.pages import ROOT

PATHS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / ".github").rglob("*.md"))]
_FENCE = re.compile(r"^( *)(```+).*?^\1\2 *$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)|<(?:img|source)[^>]*(?:src|srcset)=\"([^\"]+)\"")
_SPAN = re.compile(r"`[^`\n]*`")


def anchors_of(path: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page, and those that the page sets itself."""
    text = _FENCE.sub("", path.read_text(encoding="utf-8"))
    found: dict[str, int] = {}
    for heading in re.findall(r"^#+ +(.*?)(?: +\{[^}]*\})? *$", text, re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        found[slug] = found.get(slug, -1) + 1
    slugs = {f"{slug}-{number}" if number else slug for slug, last in found.items() for number in range(last + 1)}
    return slugs | set(re.findall(r"(?:id|name)=\"([^\"]+)\"", text))


def broken_links(path: Path) -> list[str]:
    """The links of a page that lead nowhere in the repository."""
    text = _SPAN.sub("", _FENCE.sub("", path.read_text(encoding="utf-8")))
    broken = []
    for groups in _LINK.findall(text):
        link = "".join(groups)
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        file = (path.parent / target).resolve() if target else path
        if not file.exists() or (anchor and anchor not in anchors_of(file)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("path", PATHS, ids=lambda each: each.relative_to(ROOT).as_posix())
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(path: Path) -> None:
    assert broken_links(path) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A title\n\n[a](#a-title) [b](#no-title) [c](page.md#a-title) [d](no.md)\n", encoding="utf-8")
    assert broken_links(page) == ["#no-title", "no.md"]


@pytest.mark.parametrize("path", PATHS, ids=lambda each: each.relative_to(ROOT).as_posix())
def test_no_page_is_a_list_of_bare_file_names(path: Path) -> None:
    text = _FENCE.sub("", path.read_text(encoding="utf-8"))
    assert re.findall(r"\[[\w./-]+\.md\]\([^)]*\)", text) == []
