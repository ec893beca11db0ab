"""What the text of a verifier mentions."""

from __future__ import annotations

import pytest

from sandrl.trials.verifier_text import mentioned

SCRIPT = """#!/bin/bash
# see https://example.org/usage/page
cd /app/src && python3 -m pytest /tests/test_outputs.py --ctrf /logs/verifier/ctrf.json
if [ -e letters ] && grep -q "all well" /app/out/log.txt; then reward=1; fi
diff ./expected "$HOME/result"
echo $reward > /logs/verifier/reward.txt
"""
PYTHON = """
import json, sys
from pathlib import Path
from numpy import array
def test_it():
    assert Path("data/report.json").exists() and Path('/srv/site').is_dir()
"""


def test_paths_are_those_that_an_agent_may_have_made() -> None:
    found = mentioned(SCRIPT + PYTHON).paths
    assert {"/app/src", "/app/out/log.txt", "letters", "expected", "data/report.json", "/srv/site"} <= {*found}
    assert not [path for path in found if path.startswith(("/tests", "/logs", "/bin", "//")) or "example.org" in path]


def test_programs_modules_and_words() -> None:
    found = mentioned(SCRIPT + PYTHON)
    assert {"pytest", "python3", "grep", "diff"} <= {*found.tools}
    assert found.modules == ("json", "pathlib", "numpy")
    assert "all well" in found.words


@pytest.mark.parametrize("text", ["", "\0" * 100, "/" * 10_000, "'" * 10_001, "../" * 1000, "/a" * 10_000])
def test_no_text_is_a_problem(text: str) -> None:
    assert all(path not in ("", "/", ".", "..") for path in mentioned(text).paths)


def test_only_so_much_is_told() -> None:
    found = mentioned("\n".join(f'cat /app/{number} "word {number}"' for number in range(5000)))
    assert (len(found.paths), len(found.words)) == (60, 300)
