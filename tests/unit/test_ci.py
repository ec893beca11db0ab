"""`.ci/run`, with a Makefile that only pretends to test."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Two lines of a trainer's tests, with so much time between them that the others print theirs meanwhile.
TRAINER = """
test-{name}:
\t@echo begin {name}; sleep 0.3; echo end {name}; echo '{last_line}'; exit {code}
"""


def ci(folder: Path, *pythons: str, **outcomes: tuple[str, int]) -> subprocess.CompletedProcess[str]:
    """Runs it in a folder where the tests of each part print a last line and end with a code."""
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci")
    shutil.copy(ROOT / "README.md", folder)
    rules = "venv venv-grpo venv-unsloth venv-art venv-integrations venv-frameworks static docs-exceptions:\n\t@true\n"
    base, code = outcomes.pop("base")
    rules += f"test:\n\t@echo '{base}'; exit {code}\n"
    rules += "".join(
        TRAINER.format(name=name, last_line=last_line, code=code) for name, (last_line, code) in outcomes.items()
    )
    rules += "test-unit:\n\t@echo '==== 30000 passed in 2.00s ====' \n"
    (folder / "Makefile").write_text(rules, encoding="utf-8")
    # Nothing is to be installed, and of other Pythons there are those that a test names.
    programs = folder / "programs"
    programs.mkdir()
    for version in ("3.11", "3.12", "3.13"):
        program = programs / ("python3" if version == "3.11" else f"python{version}")
        program.write_text(f"#!/bin/sh\necho {version if version in ('3.11', *pythons) else 'none'}\n")
        program.chmod(0o755)
    for name in ("bwrap", "newuidmap", "tmux", "zsh", "fish", "chromium"):
        (programs / name).touch(mode=0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    environment |= {"PATH": f"{programs}:{environment['PATH']}", "PYENV_ROOT": str(folder / "none")}
    return subprocess.run(
        ["bash", ".ci/run"], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def passing(number: int) -> tuple[str, int]:
    return f"==== {number} passed, 3 skipped in 2.00s ====", 0


def test_the_last_line_counts_all_parts_and_the_output_of_each_is_in_one_piece(tmp_path: Path) -> None:
    done = ci(
        tmp_path, base=passing(1000), grpo=passing(100), unsloth=passing(10), art=passing(1), integrations=passing(2)
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "1113 passed, 0 failed"
    begins = {name: lines.index(f"begin {name}") for name in ("grpo", "unsloth", "art", "integrations")}
    for name, begin in begins.items():
        assert lines[begin - 1] == f"ci: {name}"
        assert lines[begin + 1] == f"end {name}"


def test_the_unit_tests_run_on_every_other_python_that_is_there(tmp_path: Path) -> None:
    outcomes = {name: passing(1) for name in ("base", "grpo", "unsloth", "art", "integrations", "frameworks")}
    done = ci(tmp_path, "3.12", "3.13", **outcomes)
    assert done.stdout.splitlines()[-1] == "60006 passed, 0 failed"
    assert {"ci: python-3.12", "ci: python-3.13", "ci: frameworks"} <= {*done.stdout.splitlines()}


@pytest.mark.parametrize("part", ["base", "grpo", "unsloth", "art", "integrations"])
def test_a_failure_in_any_part_is_counted_and_fails_the_whole(tmp_path: Path, part: str) -> None:
    outcomes = {name: passing(5) for name in ("base", "grpo", "unsloth", "art", "integrations")}
    outcomes[part] = ("==== 2 failed, 3 passed, 1 error in 2.00s ====", 1)
    done = ci(tmp_path, **outcomes)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "23 passed, 3 failed"


def test_a_part_that_dies_without_a_summary_is_a_failure_and_its_output_is_shown(tmp_path: Path) -> None:
    outcomes = {name: passing(5) for name in ("base", "grpo", "unsloth", "integrations")}
    done = ci(tmp_path, **outcomes, art=("Segmentation fault", 139))
    assert done.returncode == 1
    assert re.search(r"^begin art\nend art\nSegmentation fault\n", done.stdout, re.MULTILINE)
    assert done.stdout.splitlines()[-1] == "20 passed, 1 failed"
    assert "ci: art failed without saying which test" in done.stderr
