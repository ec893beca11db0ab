"""`sandrl runtime check`: whether a runtime keeps the protocol of providers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandrl.runtime import daemon
from sandrl.sandboxes import connect, find_connection, read_jobs
from sandrl.settings import load_settings
from tests.cli.conftest import SANDRL, Run

# Its listings ignore tags, so it also lists the sandboxes of others.
_FORGETFUL = """\
from dataclasses import dataclass

from sandrl.providers import Connection
from sandrl.sandboxes import connect


class Client:
    def __init__(self, client):
        self._client = client

    def __getattr__(self, name):
        return getattr(self._client, name)

    def list(self, tags, *, ended=False):
        return self._client.list((), ended=ended)


@dataclass(frozen=True, kw_only=True)
class Forgetful(Connection):
    inner: Connection

    def open(self, **words):
        return Client(self.inner.open(**words))


class Provider:
    summary = "it forgets"
    needs = frozenset()

    def connect(self, settings, *, reason, image, packages, private_hosts=(), emit):
        inner = connect(settings, runtime="local", image=image)
        found = dict(address=inner.address, image=inner.image, is_local=True, state_dir=inner.state_dir)
        return Forgetful(kind="forgetful", reason=reason, inner=inner, **found)

    def find(self, settings, *, reason, emit=lambda _: None):
        return None

    def absence(self, settings):
        return "It never finds anything. Ask again."


PROVIDER = Provider()
"""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state directory of one test, with a runtime that adds itself."""
    state = tmp_path / "state"
    (tmp_path / "forgetful.py").write_text(_FORGETFUL, encoding="utf-8")
    place = tmp_path / "forgetful-1.0.dist-info"
    place.mkdir()
    (place / "METADATA").write_text("Metadata-Version: 2.1\nName: forgetful\nVersion: 1.0\n")
    (place / "entry_points.txt").write_text("[sandrl.providers]\nforgetful = forgetful:PROVIDER\n")
    there = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{there}" if there else str(tmp_path))
    monkeypatch.setenv("SANDRL_STATE_DIR", str(state))
    yield state
    daemon.stop(state)


def words(*names: str) -> list[str]:
    return [word for name in names for word in ("--only", name)]


def test_it_says_of_each_check_whether_it_holds_or_why_it_does_not_apply(sandrl: Run) -> None:
    done = sandrl("runtime", "check", "daemonless", *words("terminal", "streams"))
    assert done.returncode == 0, done.stderr
    _, first, second, end = done.stdout.splitlines()
    assert first.split()[:2] == ["streams", "passed"]
    assert second.endswith("does not apply  the daemonless runtime has no terminals")
    assert end == "passed 1, failed 0, do not apply 1"


def test_a_failure_shows_what_was_expected_and_found_and_sandboxes_of_others_are_not_touched(
    sandrl: Run, state: Path
) -> None:
    other = connect(load_settings(), runtime="local").open(tags=["other"], max_lifetime_seconds=300)
    sandbox = other.create(())
    sandbox.start().result(60)
    # Without assertions, too.
    checks = words("ping", "stopping-unused", "stopping-early", "closing", "orphans")
    done = sandrl("runtime", "check", "forgetful", *checks, "--json", PYTHONOPTIMIZE="1")
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    rows = {row["name"]: row for row in document["checks"]}
    assert {name: row["state"] for name, row in rows.items()} == {
        "ping": "passed",
        "stopping-early": "passed",
        "stopping-unused": "failed",
        "closing": "failed",
        "orphans": "does not apply",
    }
    assert rows["stopping-unused"]["reason"] == f"what is listed: expected set(), found {{'{sandbox.id}'}}"
    assert rows["orphans"]["reason"] == "It never finds anything"
    assert "runtime forgetful fails 2 of 5 checks" in done.stderr
    assert "--only stopping-unused --only closing" in " ".join(done.stderr.split())
    left = [(each.id, each.info.status) for each in other.list(()).result(60)]
    assert left == [(sandbox.id, "running")]
    other.close(60)


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        (("forgetfull",), 2, "the runtime is 'forgetfull'; use one of"),
        (("local", "--only", "pings"), 2, "there is no check 'pings'; did you mean 'ping'?"),
        (("remote", "--only", "ping"), 3, "Connection refused"),
    ],
)
def test_what_cannot_be_checked_has_the_usual_exit_codes(
    sandrl: Run, given: tuple[str, ...], code: int, message: str
) -> None:
    nobody = {"CWSANDBOX_API_KEY": "key", "CWSANDBOX_BASE_URL": "http://127.0.0.1:9"}
    done = sandrl("runtime", "check", *given, **nobody)
    assert done.returncode == code
    assert message in " ".join(done.stderr.split())
    assert done.stdout == ""


@pytest.fixture
def checking(state: Path) -> Iterator[subprocess.Popen[str]]:
    """A command in the middle of a check."""
    command = [*SANDRL, "runtime", "check", "local", "--only", "ends-of-attached", "--only", "lease"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    ends_at = time.monotonic() + 60
    while not listed():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < ends_at
        time.sleep(0.05)
    yield process
    process.kill()
    process.communicate()


def listed() -> set[str | None]:
    """The sandboxes of checks."""
    connection = find_connection(load_settings(), runtime="local")
    if connection is None:
        return set()
    client = connection.open()
    found = client.list(["conformance"]).result(60)
    client.close(60)
    return {each.id for each in found}


def test_ctrl_c_ends_it_and_leaves_nothing(state: Path, checking: subprocess.Popen[str]) -> None:
    checking.send_signal(signal.SIGINT)
    output, errors = checking.communicate(timeout=60)
    assert checking.returncode == 130, errors
    assert "ends-of-attached" not in output
    assert listed() == set()
    assert read_jobs(state) == ()


def test_what_it_leaves_when_it_is_killed_are_orphans(sandrl: Run, checking: subprocess.Popen[str]) -> None:
    checking.kill()
    checking.communicate(timeout=60)
    cleaned = sandrl("sandboxes", "cleanup", "--runtime", "local", "--orphans", "--yes")
    assert cleaned.stdout.startswith("stopped 1,"), cleaned.stderr
    assert listed() == set()
