"""The command itself: version, help, unknown words."""

from __future__ import annotations

import pytest

import sandrl as package
from tests.cli.conftest import Run


def test_the_version(sandrl: Run) -> None:
    assert sandrl("--version").stdout == f"sandrl {package.__version__}\n"


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["reward", "--help"], ["runtime", "--help"]])
def test_help_goes_to_standard_output(sandrl: Run, words: list[str]) -> None:
    done = sandrl(*words)
    assert done.returncode == 0
    assert "Usage: sandrl" in done.stdout


@pytest.mark.parametrize("words", [["nope"], ["reward", "--nope"], ["runtime", "nope"], ["reward", "a", "b"]])
def test_unknown_words_are_two_lines_with_the_way_to_help(sandrl: Run, words: list[str]) -> None:
    done = sandrl(*words)
    assert (done.returncode, done.stdout) == (2, "")
    error, hint = done.stderr.splitlines()
    assert error.startswith("sandrl: error: ")
    assert hint.endswith("--help")
