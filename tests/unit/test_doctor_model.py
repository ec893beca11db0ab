"""The section of `sandrl doctor` about a model, as far as it needs no library that loads one."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandrl.doctor.model import model_checks
from sandrl.doctor.report import State


@pytest.mark.parametrize("name", ["no model", "folder"])
def test_what_is_no_model_is_one_failed_check_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    [check] = model_checks(name)
    assert check.state is State.FAILED
    assert "there is no model 'no model'" in check.detail or "does not contain a model" in check.detail
