from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandrl.runtime import daemon
from sandrl.settings import load_settings
from sandrl.viewer.export import write_export
from sandrl.viewer.library import Library
from sandrl.viewer.server import serving
from tests.support.browser import launched


@pytest.fixture(scope="module", autouse=True)
def _runtime_has_the_cache_of_the_session() -> None:
    """A daemon keeps the environment in which it was started: here, before a test has a cache of its own."""
    daemon.ensure_running(load_settings().state_dir)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as browser:
        yield browser


@pytest.fixture
def own_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state directory and a cache of one test."""
    (tmp_path / "state").mkdir(mode=0o700)
    monkeypatch.setenv("SANDRL_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("SANDRL_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def library(runs_dir: Path, tmp_path: Path) -> Iterator[Library]:
    """The runs of a module's own `runs_dir`."""
    with Library(runs_dir, None, tmp_path / "cache") as library:
        yield library


@pytest.fixture
def live(library: Library) -> Iterator[str]:
    with serving(library, 0) as viewer:
        yield viewer.link


@pytest.fixture
def exported(library: Library, tmp_path: Path) -> Path:
    return write_export(library, tmp_path / "site").index
