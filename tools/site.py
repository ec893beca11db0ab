"""Hooks of the documentation's site: pages outside of docs/ are part of it, and hidden preparations are not.

The changelog and the pages for contributors are in the root of the repository, where GitHub and packages expect them.
The site also has them as pages, with their links changed to fit.
"""

import os
import re
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
# Commands for the test that runs a page (tests/docs).
_HIDDEN = re.compile(r"^<!-- sh\n.*?^-->\n?", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)]*)?\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages of the repository's root."""
    for name in PAGES:
        if (ROOT / name).exists():
            files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Removes hidden preparations, and makes links between docs/ and the repository's root those of the site."""
    source = page.file.src_uri
    folder = PurePosixPath("" if source in PAGES else "docs", source).parent

    def changed(found: re.Match[str]) -> str:
        target = os.path.normpath(folder / found[2])
        place = target.removeprefix("docs/") if target.startswith("docs/") or target in PAGES else None
        if place is None:
            return found[0]
        return found[1] + os.path.relpath(place, PurePosixPath(source).parent) + found[3]

    return _LINK.sub(changed, _HIDDEN.sub("", markdown))
