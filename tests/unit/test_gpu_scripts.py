"""The scripts of `tools/gpu` say what is missing before anything is downloaded, and report what they find."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tools.gpu.report import Check, Report, State, checked

ROOT = Path(__file__).parents[2]
SCRIPTS = ("all", "art_local", "grpo_vllm", "unsloth_4bit")


def run(script: str, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(ROOT / "tools" / "gpu" / f"{script}.py"), *words]
    return subprocess.run(argv, capture_output=True, text=True, cwd=cwd, env=os.environ, timeout=60)


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine may have a GPU")
@pytest.mark.parametrize("script", SCRIPTS)
def test_without_a_gpu_one_line_says_so(script: str, tmp_path: Path) -> None:
    done = run(script, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error: no GPU was found: `nvidia-smi` is not installed",
        "hint: use a machine with an NVIDIA GPU and its driver",
    ]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("script", SCRIPTS[1:])
def test_a_directory_that_is_in_use_and_too_few_steps_are_refused(script: str, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "file").write_text("")
    done = run(script, "--work", "work", cwd=tmp_path)
    assert done.returncode == 2
    assert "error: work is there already" in done.stderr
    done = run(script, "--steps", "2", cwd=tmp_path)
    assert done.returncode == 2
    assert "error: --steps 2: must be 4 or more" in done.stderr


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_help_says_what_it_needs(script: str, tmp_path: Path) -> None:
    done = run(script, "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "pip install" in done.stdout
    assert "GiB of" in done.stdout


def test_a_report_has_every_check_and_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-a-secret-of-the-tests")
    report = Report("title", commands=["sandrl grpo --x sk-a-secret-of-the-tests"], machine={"GPU": "one"})
    report.measured["whole"] = {"steps": "4"}
    report.checks += [checked("holds", True), Check("needs a GPU", State.SKIP)]
    assert report.exit_code == 0
    report.checks.append(checked("fails", False, "why"))
    assert report.exit_code == 1
    text = report.text()
    for shown in ("PASS holds", "SKIP needs a GPU", "FAIL fails: why", "| steps | 4 |", "1 PASS, 1 FAIL, 1 SKIP: FAIL"):
        assert shown in text
    report.write(tmp_path / "report.json")
    written = (tmp_path / "report.json").read_text()
    assert "sk-a-secret-of-the-tests" not in text + written
    assert {each["state"] for each in json.loads(written)["checks"]} == {"PASS", "FAIL", "SKIP"}


def test_a_report_without_a_check_has_not_passed() -> None:
    assert Report("title").exit_code == 1


# A Python that writes the report of a script, of which one check has failed, and knows nothing else.
STAND_IN = """#!/bin/sh
while [ "$1" != --json ]; do shift; done
printf '{"checks": [{"state": "PASS"}, {"state": "%s"}]}' "$STATE" > "$2"
echo "## report with $STATE"
[ "$STATE" = PASS ]
"""


@pytest.mark.parametrize(("state", "code", "row"), [("PASS", 0, "PASS | 2 | 0 | 0"), ("FAIL", 1, "FAIL | 1 | 1 | 0")])
def test_one_script_runs_the_others_and_writes_one_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, code: int, row: str
) -> None:
    python = tmp_path / "python"
    python.write_text(STAND_IN)
    python.chmod(0o755)
    monkeypatch.setenv("STATE", state)
    words = [word for name in SCRIPTS[1:] for word in ("--python", f"{name}={python}")]
    done = run("all", "--on-cpu", "--work", "work", *words, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    report = (tmp_path / "work" / "report.md").read_text()
    assert done.stdout == f"{report}\n"
    assert [line for line in report.splitlines() if line.startswith("| `")] == [
        f"| `{name}.py` | {row} |" for name in ("grpo_vllm", "unsloth_4bit", "art_local")
    ]
    assert report.count(f"## report with {state}") == 3
    again = run("all", "--on-cpu", "--work", "work", cwd=tmp_path)
    assert (again.returncode, again.stderr.splitlines()[0]) == (2, "error: work is there already")


def test_a_script_whose_packages_are_missing_does_not_stop_the_others(tmp_path: Path) -> None:
    words = [word for name in ("grpo_vllm", "unsloth_4bit") for word in ("--only", name)]
    # An interpreter that cannot import sandrl.
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'error: the package is not installed' >&2\nexit 2\n")
    python.chmod(0o755)
    given = [word for name in ("grpo_vllm", "unsloth_4bit") for word in ("--python", f"{name}={python}")]
    done = run("all", "--on-cpu", "--work", "work", *words, *given, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout.count("| MISSING | 0 | 0 | 0 |") == 2
    assert done.stdout.count("error: the package is not installed") == 2
    wrong = run("all", "--on-cpu", "--python", "grpo=python", cwd=tmp_path)
    assert (wrong.returncode, wrong.stderr[:14]) == (2, "error: --pytho")
