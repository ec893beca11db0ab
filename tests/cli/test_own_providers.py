"""Runtimes that an installed package adds by an entry point."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandrl.runtime import daemon
from tests.cli.conftest import PROBLEM, SANDRL, Run

DOCS = Path(__file__).parents[2] / "docs"

# The machines of a company, played by sandboxes of the local runtime.
_PACKAGE = re.findall(
    r'```python title="acme_sandboxes.py"\n(.*?)```', (DOCS / "guides" / "providers.md").read_text(), re.DOTALL
)[0]
_SLEEPER = '{"task_id": "inc", "code": "import time\\ntime.sleep(60)\\ndef f(x):\\n    return x + 1\\n"}\n'


def _install(folder: Path, entry_points: dict[str, str], name: str = "acme-sandboxes") -> None:
    (folder / "acme_sandboxes.py").write_text(_PACKAGE, encoding="utf-8")
    place = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    place.mkdir()
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    rows = "".join(f"{point} = {value}\n" for point, value in entry_points.items())
    (place / "entry_points.txt").write_text(f"[sandrl.providers]\n{rows}")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where packages are installed for one test, which has a state directory of its own."""
    folder = tmp_path / "site"
    folder.mkdir()
    there = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{there}" if there else str(folder))
    monkeypatch.setenv("SANDRL_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("SANDRL_CONFIG_DIR", str(tmp_path / "config"))
    yield folder
    daemon.stop(tmp_path / "state")


def test_it_scores_and_is_in_the_run_the_report_of_the_machine_and_the_prices(
    sandrl: Run, folder: Path, tmp_path: Path
) -> None:
    _install(folder, {"acme": "acme_sandboxes:PROVIDER"})
    (tmp_path / "p.jsonl").write_text(PROBLEM, encoding="utf-8")
    answers = [{"task_id": "inc", "code": f"def f(x):\n    return x + {step}\n"} for step in (1, 2)]
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in answers), encoding="utf-8")
    words = ("c.jsonl", "--problems", "p.jsonl", "--runtime", "acme", "--runs-dir", "runs", "--run-name", "run")
    scored = sandrl("reward", *words, "--json")
    assert scored.returncode == 0, scored.stderr
    assert [row["reward"] for row in json.loads(scored.stdout)["results"]] == [1.0, 0.0]
    assert json.loads((tmp_path / "runs" / "run" / "config.json").read_text())["options"]["runtime"] == "acme"

    examined = sandrl("doctor", "--runtime", "acme", "--json")
    assert "machines of Acme" in examined.stdout or "acme" in examined.stdout, examined.stderr
    assert sandrl("prices", "set", "acme", "$0.10").returncode == 0
    assert "acme" in sandrl("prices", "show").stdout
    without = sandrl("prices", "show", PYTHONPATH=os.environ["PYTHONPATH"].replace(str(folder), str(tmp_path)))
    assert without.returncode == 0, without.stderr


def test_what_a_killed_command_leaves_on_it_is_found_and_cleaned_up(sandrl: Run, folder: Path, tmp_path: Path) -> None:
    _install(folder, {"acme": "acme_sandboxes:PROVIDER"})
    (tmp_path / "p.jsonl").write_text(PROBLEM, encoding="utf-8")
    (tmp_path / "c.jsonl").write_text(_SLEEPER * 2, encoding="utf-8")
    words = ["c.jsonl", "--problems", "p.jsonl", "--runtime", "acme", "--timeout", "100", "--no-cache"]
    ledger = tmp_path / "runs" / "run" / "sandboxes.jsonl"
    command = [*SANDRL, "reward", *words, "--runs-dir", "runs", "--run-name", "run", "--tag", "mine"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    ends_at = time.monotonic() + 60
    while not ledger.exists() or '"created"' not in ledger.read_text():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < ends_at
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()

    listed = sandrl("sandboxes", "ls", "--runtime", "acme", "--tag", "mine", "--json")
    assert listed.returncode == 0, listed.stderr
    assert json.loads(listed.stdout)["sandboxes"]
    cleaned = sandrl("sandboxes", "cleanup", "--runtime", "acme", "--orphans", "--yes")
    assert cleaned.returncode == 0, cleaned.stderr
    assert json.loads(sandrl("sandboxes", "ls", "--runtime", "acme", "--json").stdout)["sandboxes"] == []


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("acme_missing:PROVIDER", "ModuleNotFoundError: No module named 'acme_missing'"),
        ("acme_sandboxes:OTHER", "AttributeError"),
        (
            "acme_sandboxes:replace",
            "acme_sandboxes:replace lacks summary, needs, connect, find, absence of a provider",
        ),
    ],
)
def test_a_package_that_cannot_be_loaded_is_named_with_the_reason(
    sandrl: Run, folder: Path, value: str, reason: str
) -> None:
    _install(folder, {"acme": value})
    listed = sandrl("sandboxes", "ls", "--runtime", "acme")
    assert listed.returncode == 2
    assert f"runtime acme cannot be loaded from the package acme-sandboxes 1.0: {reason}" in " ".join(
        listed.stderr.split()
    )
    # The other runtimes are examined all the same.
    examined = sandrl("doctor", "--json")
    assert reason.partition(":")[0] in examined.stdout
    assert examined.returncode == 0, examined.stderr
    assert sandrl("doctor", "--runtime", "acme").returncode == 1


def test_names_that_are_not_there_or_there_twice_are_refused(sandrl: Run, folder: Path) -> None:
    _install(folder, {"acme": "acme_sandboxes:PROVIDER", "local": "acme_missing:PROVIDER", "A b": "acme_missing:X"})
    unknown = sandrl("sandboxes", "ls", "--runtime", "acm")
    assert unknown.returncode == 2
    assert "podman, kubernetes, acme or ray:ADDRESS; did you mean 'acme'?" in " ".join(unknown.stderr.split())
    assert sandrl("sandboxes", "ls", "--runtime", "local").returncode == 0, "sandrl's own runtimes cannot be replaced"
    _install(folder, {"acme": "acme_sandboxes:PROVIDER"}, "other-sandboxes")
    twice = sandrl("sandboxes", "ls", "--runtime", "acme")
    assert twice.returncode == 2
    assert "acme-sandboxes 1.0, other-sandboxes 1.0" in " ".join(twice.stderr.split())
