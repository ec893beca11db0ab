"""The command itself: version, help, unknown words."""

from __future__ import annotations

import platform
from importlib import metadata

import pytest

import sandrl as package
from tests.cli.conftest import Run


def test_the_version_is_the_first_line_and_those_of_dependencies_follow(sandrl: Run) -> None:
    first, *others = sandrl("--version").stdout.splitlines()
    assert first == f"sandrl {package.__version__}"
    versions = dict(line.rsplit(" ", 1) for line in others if not line.startswith(("platform ", "installed with ")))
    assert versions["Python"] == platform.python_version()
    for name in ("cwsandbox", "grpcio", "protobuf", "pydantic", "rich", "starlette", "typer", "uvicorn"):
        assert versions[name] == metadata.version(name)
    assert [line for line in others if line.startswith("installed with ")] in (
        ["installed with pip (editable)"],
        ["installed with pip"],
        ["installed with uv pip (editable)"],
    )


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["reward", "--help"], ["runtime", "--help"]])
def test_help_goes_to_standard_output(sandrl: Run, words: list[str]) -> None:
    done = sandrl(*words)
    assert done.returncode == 0
    assert "Usage: sandrl" in done.stdout


@pytest.mark.parametrize("words", [[], ["runtime"], ["runs"]])
def test_without_a_command_help_goes_to_standard_output_and_the_usage_is_wrong(sandrl: Run, words: list[str]) -> None:
    done = sandrl(*words)
    assert (done.returncode, done.stderr) == (2, "")
    assert "Usage: sandrl" in done.stdout
    assert "Commands:" in done.stdout


@pytest.mark.parametrize("words", [["nope"], ["reward", "--nope"], ["runtime", "nope"], ["reward", "a", "b"]])
def test_unknown_words_are_two_lines_with_the_way_to_help(sandrl: Run, words: list[str]) -> None:
    done = sandrl(*words)
    assert (done.returncode, done.stdout) == (2, "")
    error, hint = done.stderr.splitlines()
    assert error.startswith("sandrl: error: ")
    assert hint.endswith(("--help", "--help-all"))
