"""The pages about formats say what happens."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandrl.jsonl import Row
from sandrl.problems.formats import FORMATS, parse_problem
from tests.cli.conftest import Run
from tests.support.math_rows import MATH_ROWS
from tests.support.repository_rows import REPOSITORY_ROWS

PAGES = Path(__file__).parents[2] / "docs" / "reference" / "formats"


@dataclass(frozen=True)
class Section:
    """A section of a page."""

    page: str
    title: str
    files: dict[str, str]
    command: tuple[str, ...]
    output: str


def sections() -> list[Section]:
    """The sections of all pages."""
    found = []
    for path in sorted(PAGES.glob("*.md")):
        for text in path.read_text(encoding="utf-8").split("\n## ")[1:]:
            files = dict(re.findall(r"^```json title=\"([\w.-]+)\"\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
            [(command, output)] = re.findall(
                r"^```console\n\$ sandrl ([^\n]+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE
            )
            found.append(Section(path.name, text.partition("\n")[0], files, tuple(command.split()), output))
    return found


SECTIONS = sections()
DOCS = PAGES.parent


def test_every_format_that_is_judged_has_a_section_with_a_row_of_it() -> None:
    found = set()
    for section in SECTIONS:
        if "--map" in section.command:
            continue
        name = section.command[section.command.index("--problems") + 1]
        for number, line in enumerate(section.files[name].splitlines(), 1):
            found.add(parse_problem(Row(number, json.loads(line)), name, name.partition(".")[0]).format.name)
    # Rows about repositories are tasks, with a guide of their own; mathematical ones need a package.
    assert found | MATH_ROWS.keys() | REPOSITORY_ROWS.keys() == {each.name for each in FORMATS}


@pytest.mark.parametrize("name", ["formats.md", "problems.md"])
def test_every_page_is_in_the_index_and_no_other(name: str) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    for path in PAGES.glob("*.md"):
        assert f"(formats/{path.name}" in text
    assert text.count("(formats/") >= len(list(PAGES.glob("*.md")))


@pytest.mark.slow
@pytest.mark.parametrize("section", SECTIONS, ids=[f"{each.page} {each.title}" for each in SECTIONS])
def test_the_command_of_a_section_prints_what_the_page_shows(sandrl: Run, tmp_path: Path, section: Section) -> None:
    for name, content in section.files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    done = sandrl(*section.command)
    assert done.returncode == 0, done.stderr
    # A program that is known to be right runs where a verdict on other code is to be trusted, not each time.
    printed = [line for line in done.stdout.splitlines() if not line.startswith("Canaries: ")]
    assert printed == section.output.splitlines()
