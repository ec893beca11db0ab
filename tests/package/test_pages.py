"""The install commands of the documentation are run as they stand there, with the packages of this repository."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from tests.package.conftest import Built
from tests.support.packages import User, ordinary_user, python
from tests.support.pages import Block, pages

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

# CONTRIBUTING names the commands that run these tests: CI runs them.
INSTALLING = [
    block
    for page in pages()
    for block in page.blocks
    if "installs" in block.classes and page.name != "CONTRIBUTING.md" and block.text != "make test\n"
]
OF_A_CLONE = [block for block in INSTALLING if block.text.startswith("make ")]
OF_A_USER = [block for block in INSTALLING if not block.text.startswith("make ")]


@pytest.fixture
def user(built: Built) -> Iterator[User]:
    with ordinary_user(built.wheel.parent) as user:
        (user.shared / "bin" / "python3").symlink_to(python("3.11"))
        yield user


@pytest.mark.parametrize("block", OF_A_USER, ids=lambda each: each.place)
def test_the_commands_of_a_page_install_sandrl(block: Block, user: User) -> None:
    links = [f"PIP_FIND_LINKS={user.shared}", f"UV_FIND_LINKS={user.shared}"]
    # `pip` alone is that of a virtual environment, as the page about installation says.
    own = "python3 -m venv own && . own/bin/activate\n" if block.text.startswith("pip ") else ""
    script = f"set -euo pipefail\n{own}{block.text}"
    shown = user.run("env", *links, "bash", "-c", f"{script}\nsandrl --version\nsandrl runtime stop")
    assert "\nPython 3." in shown
    assert "sandrl reward" not in block.text or "Total reward: 3.0/5" in shown


@pytest.mark.parametrize("block", OF_A_CLONE, ids=lambda each: each.place)
def test_the_commands_of_a_page_run_in_a_clone(block: Block, built: Built) -> None:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.text],
        cwd=built.repository,
        env={**os.environ, "PYTHON": str(python("3.11"))},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Total reward: 3.0/5" in done.stdout


def test_there_are_commands_of_each_kind() -> None:
    programs = {line.split()[0] for block in OF_A_USER for line in block.text.splitlines()}
    assert {"pip", "uv", "pipx"} <= programs
    assert OF_A_CLONE
