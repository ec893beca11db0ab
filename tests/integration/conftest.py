from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import launched


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
