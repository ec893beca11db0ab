"""The install commands of the documentation are run as they stand there, in a clone, by a user with an empty home."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from sandrl.installation import PUBLISHED
from tests.package.conftest import Built
from tests.support.packages import PYTHONS, ROOT, User, ordinary_user, python
from tests.support.pages import Block, pages

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

# CONTRIBUTING names the commands that run these tests: CI runs them.
INSTALLING = [
    block
    for page in pages()
    for block in page.blocks
    if "installs" in block.classes and page.name != "CONTRIBUTING.md" and block.text != "make test\n"
]
# The first commands of a newcomer, with each Python that sandrl supports; all others with the oldest.
CASES = [
    pytest.param(block, version, id=f"{block.place}-{version}")
    for block in INSTALLING
    for version in (PYTHONS if block.page == "README.md" else PYTHONS[:1])
]


@pytest.fixture
def user(built: Built) -> Iterator[User]:
    with ordinary_user(built.wheel.parent) as user:
        user.clone(built.repository)
        yield user


@pytest.mark.parametrize(("block", "version"), CASES)
def test_the_commands_of_a_page_install_sandrl(block: Block, version: str, user: User) -> None:
    (user.shared / "bin" / "python3").symlink_to(python(version))
    # `pip` alone is that of a virtual environment, as the page about installation says.
    own = "python3 -m venv own && . own/bin/activate\n" if block.text.startswith("pip ") else ""
    at = re.search(r"^(\S+/)pip install", block.text, re.MULTILINE)
    sandrl = f"{at[1] if at else '.venv/bin/' if block.text.startswith('make demo') else ''}sandrl"
    script = f"set -eo pipefail\ncd sandrl\ntrap '{sandrl} runtime stop' EXIT\n{own}{block.text}"
    shown = user.run("bash", "-c", f"{script}\n{sandrl} --version")
    assert f"\nPython {version}." in shown
    assert not re.search("sandrl reward|make demo", block.text) or "Total reward: 3.0/5" in shown


def test_there_are_commands_of_each_kind() -> None:
    programs = {line.split()[0] for block in INSTALLING for line in block.text.splitlines()}
    assert {"pip", "uv", "pipx", "make"} <= programs


def test_no_page_installs_sandrl_from_an_index_that_does_not_have_it() -> None:
    texts = [path.read_text("utf-8") for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))]
    command = re.compile(r"(?:pip|pipx|uv tool) install (?:[^`\n]* )?'?sandrl(?:\[[\w,]+\])?(?=['\s`])")
    assert PUBLISHED or not [found for text in texts for found in command.findall(text)]
