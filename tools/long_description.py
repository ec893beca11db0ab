"""Makes the long description of the package index from README.md, where relative links and pictures do not work.

A build uses it as a metadata hook of hatchling. If `[project.urls]` in pyproject.toml has a `Source`, relative links
and pictures lead to the files of the released version there. Without one there is no address for them: links become
plain text, and pictures are left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURES = re.compile(r"<picture>.*?</picture>\n*|!\[[^\]]*\]\((?!https?:)[^)\s]+\)\n*", re.DOTALL)
_IMAGE = re.compile(r"!\[([^\]]*)\]\((?!https?:)([^)\s]+)\)")
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:|#|mailto:)([^)\s]+)\)")
_ATTRIBUTE = re.compile(r'\b(src|srcset|href)="(?!https?:|#)([^"\s]+)"')


class LongDescription(MetadataHookInterface):
    """Sets the field `readme`, which is dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Adds the text to the project's metadata."""
        readme = Path(self.root, "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get("Source")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": long_description(readme, source=source, version=_version(Path(self.root))),
        }


def _version(root: Path) -> str:
    found = re.search(r'^__version__ = "([^"]+)"$', (root / "src/sandrl/__init__.py").read_text("utf-8"), re.MULTILINE)
    if found is None:
        raise ValueError("src/sandrl/__init__.py has no __version__")
    return found[1]


def long_description(readme: str, *, source: str | None, version: str) -> str:
    """Returns a README without relative addresses.

    Args:
        readme: The text of README.md.
        source: The repository's address, if it has one.
        version: The released version, whose tag is `v` and the version.
    """
    if source is None:
        text = _LINK.sub(r"\1", _PICTURES.sub("", readme))
        return re.sub(r"\n{3,}", "\n\n", text)
    pages, files = (f"{source.rstrip('/')}/{kind}/v{version}/" for kind in ("blob", "raw"))
    text = _IMAGE.sub(rf"![\1]({files}\2)", readme)
    text = _LINK.sub(rf"[\1]({pages}\2)", text)
    return _ATTRIBUTE.sub(rf'\1="{files}\2"', text)
