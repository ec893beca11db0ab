"""The pages about formats, with the files and the command of each section."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

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
