"""Finding a program the way a shell would."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandrl.runtime.guest.processes import find_program


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "tool").chmod(0o755)
    (tmp_path / "data").write_text("")
    (tmp_path / "data").chmod(0o644)
    return tmp_path


def test_a_name_is_looked_up_on_the_path_and_a_path_is_taken_as_it_is(directory: Path) -> None:
    tool = str(directory / "tool")
    assert find_program("tool", f"/nonexistent:{directory}") == tool
    assert find_program(tool, "") == tool


def test_a_missing_program_is_not_found_and_a_file_without_permission_is_refused(directory: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"not found in \$PATH"):
        find_program("missing", str(directory))
    with pytest.raises(FileNotFoundError):
        find_program("", str(directory))
    with pytest.raises(PermissionError):
        find_program(str(directory / "data"), "")
