"""The files made from the code are those in the repository, and one that is not is noticed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "generate.py"


def test_they_are_up_to_date() -> None:
    done = subprocess.run([sys.executable, str(TOOL), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_stale_one_is_named_with_the_line_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = importlib.util.spec_from_file_location("generate", TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["generate.py"])
    assert tool.main() == 0
    (tmp_path / "completions" / "_sandrl").write_text("an older one")
    monkeypatch.setattr(sys, "argv", ["generate.py", "--check"])
    assert tool.main() == 1
    assert capsys.readouterr().err == "generated: not up to date: completions/_sandrl; run make generate\n"
