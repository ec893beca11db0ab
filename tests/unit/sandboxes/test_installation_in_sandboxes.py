"""What is put before the first command of a sandbox of the service, run with a `python` that notes its words."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sandrl.errors import UsageError
from sandrl.sandboxes.commands import Command
from sandrl.sandboxes.providers.cwsandbox import packages as module
from sandrl.sandboxes.providers.cwsandbox.packages import SECONDS, Installation
from sandrl.sandboxes.providers.protocol import Packages, Result

PYTHON = '#!/bin/sh\nshift 8\necho "$@" >> {log}\ncase "$*" in *missing*) echo "ERROR: no missing" >&2; exit 1;; esac\n'


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "bin" / "python"
    program.parent.mkdir()
    program.write_text(PYTHON.format(log=tmp_path / "log"))
    program.chmod(0o755)
    monkeypatch.setattr(module, "_MARK", str(tmp_path / "mark"))
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return tmp_path / "log"


def run(installation: Installation, *argv: str, stdin: str = "") -> Result:
    words = installation.before(Command(argv)).argv
    done = subprocess.run(words, input=stdin.encode(), capture_output=True, check=False)
    return Result(done.returncode, done.stdout, done.stderr)


def test_the_first_command_runs_after_the_installation_with_its_own_input_and_exit_code(log: Path) -> None:
    installation = Installation(Packages(("numpy<3,>=2",), ("yaml", "missing")))
    result = installation.checked(run(installation, "sh", "-c", 'cat; echo "$1"; exit 7', "x", "a b", stdin="in "))
    assert result == Result(7, b"in a b\n", b"")
    lines = log.read_text().splitlines()
    assert lines == ["numpy<3,>=2", "yaml missing", "yaml", "missing"]
    assert installation.checked(run(installation, "true")).exit_code == 0
    assert len(log.read_text().splitlines()) == len(lines), "once"


def test_what_cannot_be_installed_is_an_error_of_the_request(log: Path) -> None:
    installation = Installation(Packages(("missing",)))
    with pytest.raises(UsageError, match="missing cannot be installed in a sandbox: no missing") as caught:
        installation.checked(run(installation, "true"))
    assert "`image`" in (caught.value.hint or "")
    assert log.exists()


def test_a_program_cannot_say_that_packages_cannot_be_installed(log: Path) -> None:
    installation = Installation(Packages(("numpy",)))
    program = 'tr "\\0" "\\n" < /proc/$$/cmdline >&2; cat /proc/$PPID/cmdline >&2; env >&2; exit 96'
    result = run(installation, "sh", "-c", program)
    assert installation.checked(result).exit_code == 96
    assert log.exists()


def test_without_packages_a_command_stays_as_it_is() -> None:
    command = Command(("true",), timeout_seconds=3)
    assert Installation(Packages()).before(command) is command
    assert Installation(Packages(("numpy",))).before(command).timeout_seconds == 3 + SECONDS
