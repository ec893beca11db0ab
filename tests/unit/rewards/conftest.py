"""Judges without a sandbox run trusted code: it gets a directory of its own, because its text is written there."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes an empty directory the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
