"""What sandboxes reach of an Internet that the tests make, by every way out that a program can try.

Each test runs commands on a machine of its own (`tests/support/internet.py`), as root and as an ordinary user.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.internet import OTHER, PRIVATE, PUBLIC, PUBLIC6
from tests.support.programs import require_program

ALLOWED = {"network": "allowlist", "allow_hosts": ["allowed.example", "*.wild.example"]}
MIRROR = {"private_hosts": ["mirror.example:8080"]}
KINDS = pytest.mark.parametrize(
    ("kind", "image"), [("root", None), ("user", "tree")], ids=["root in the host's system", "a user in an image"]
)

# What each way gives where a host may be reached, and nothing but failure elsewhere.
OF_ALLOWED = {
    "a name": [PUBLIC6, 443],
    "a name below a wildcard": [PUBLIC, 443],
    "CONNECT through a host": 501,
    "a large answer": 20 << 20,
    "a large request": 5 << 20,
    "a half-closed connection": " 443]",
    "slow readers": 443,
    "many connections": ["200"],
}
OF_PUBLIC = OF_ALLOWED | {
    "a name at another port": [PUBLIC6, 8080],
    "another name": [OTHER, 443],
    "an address": [OTHER, 443],
    "the address of an allowed name": [PUBLIC, 443],
    "an IPv6 address": [PUBLIC6, 443],
    "an IPv4-mapped address": "HTTP/1.1 200",
    "a redirect to another name": [OTHER, 443],
    "a name of two addresses": [OTHER, 443],
    "a rebound name": [PUBLIC],
}
NO_SUCH_NAME = 3
ASKED = dict.fromkeys(
    ("a question to another server", "a question by IPv6", "a question for a text", "a question over TCP"), NO_SUCH_NAME
)
"""All are answered by the gate."""


def on_a_machine(kind: str, *command: str) -> subprocess.CompletedProcess[str]:
    require_program("ip")
    words = [sys.executable, "-m", "tests.support.internet", kind, *command]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)


def reach(kind: str, *words: str, **options: Any) -> dict[str, Any]:
    request = json.dumps({"runtime": "local", **options})
    done = on_a_machine(kind, sys.executable, "-m", "tests.support.reach", request, *words)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def reached(ways: dict[str, Any]) -> dict[str, Any]:
    """The ways that did not end with an error, without the sandbox's own server, which always works."""
    own, user, questions = ways.pop("its own server"), ways.pop("user"), ways.pop("many questions")
    assert "own" in own
    assert user in (0, 1000)
    assert not isinstance(questions, list) or {*questions} <= {"2", "3", 443}
    return {name: found for name, found in ways.items() if not isinstance(found, str) or " " in found}


@KINDS
def test_with_an_allow_list_only_what_is_allowed_is_reached(kind: str, image: str | None) -> None:
    found = reach(kind, image=image, **ALLOWED, **MIRROR)
    assert reached(found["ways"]) == {**OF_ALLOWED, **ASKED, "a mirror": [PRIVATE, 8080]}
    # No other name was asked for, wherever the program has sent its questions.
    asked = {name for name in found["seen"]["questions"] if name.endswith(".example")}
    assert asked == {"allowed.example", "sub.wild.example", "mirror.example"}
    assert found["seen"]["datagrams"] == []


@KINDS
def test_with_the_public_internet_no_address_of_the_machine_is_reached(kind: str, image: str | None) -> None:
    found = reach(kind, image=image, network="public", **MIRROR)
    assert reached(found["ways"]) == {**OF_PUBLIC, **ASKED, "a mirror": [PRIVATE, 8080]}
    assert found["seen"]["datagrams"] == []


@KINDS
@pytest.mark.parametrize("network", ["none", None])
def test_without_a_network_nothing_is_reached(kind: str, image: str | None, network: str | None) -> None:
    found = reach(kind, image=image, network=network)
    assert reached(found["ways"]) == {}
    assert not any(name.endswith(".example") for name in found["seen"]["questions"])
    assert found["seen"]["datagrams"] == []
    assert found["connections"] == []


def test_the_daemonless_runtime_has_the_same_network() -> None:
    found = reach("user", runtime="daemonless", **ALLOWED)
    assert reached(found["ways"]) == {**OF_ALLOWED, **ASKED}


def test_an_allow_list_has_networks_and_other_ports() -> None:
    found = reach("user", allow_hosts=["151.101.1.0/24:443", "allowed.example:8080", "*.exfil.example"])
    reachable = reached(found["ways"])
    assert reachable == {
        **dict.fromkeys(ASKED, NO_SUCH_NAME),
        "a name at another port": [PUBLIC6, 8080],
        "an address": [OTHER, 443],
        "an IPv4-mapped address": "HTTP/1.1 200",
    }


def test_bubblewrap_refuses_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    require_program("bwrap")
    monkeypatch.setenv("SANDRL_RUNTIME_ISOLATION", "bubblewrap")
    request = json.dumps({"runtime": "local", "network": "public"})
    done = on_a_machine("user", sys.executable, "-m", "tests.support.reach", request)
    assert "UsageError" in done.stderr
    assert "bubblewrap gives sandboxes no network" in done.stderr


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_port_of_the_machines_loopback_is_reached_where_it_is_named(host: str) -> None:
    found = reach("user", private_hosts=[f"{host}:8000"])
    assert reached(found["ways"]) == {**ASKED, "the machine's loopback": ["127.0.0.1", 8000]}


def test_every_connection_is_recorded_and_every_refusal_once() -> None:
    seen = reach("root", **ALLOWED)
    found = seen["connections"]
    assert len({each["sandbox_id"] for each in found}) == 1
    refused = [(each["host"], each["port"]) for each in found if each["refused"]]
    assert len(refused) == len(set(refused))
    assert {("other.example", 0), (OTHER, 443), ("allowed.example", 8080), ("169.254.169.254", 80)} <= {*refused}
    large = next(each for each in found if each["received_bytes"] > 20 << 20)
    assert (large["host"], large["port"], large["address"]) == ("allowed.example", 443, PUBLIC6)
    assert any(each["sent_bytes"] > 5 << 20 for each in found)
    names = [each["host"] for each in found if not each["port"]]
    assert len(names) == len(set(names))
    assert {"sub.wild.example", "own.example", "n899.exfil.example"} <= {*names}
    connected = {f"{each['host']}:{each['port']}" for each in found if each["received_bytes"]}
    assert {"allowed.example:443", "sub.wild.example:443"} <= {*seen["reached"]} == connected


@pytest.mark.parametrize("kind", ["root", "user"])
def test_a_gate_that_is_killed_ends_the_network_and_the_next_sandbox_has_another(kind: str) -> None:
    found = reach(kind, "kill", network="public")
    assert found["before"] == found["another"] == "200"
    assert found["waited"] == found["after"] == "URLError"
    # A connection that is open at that moment may have ended before.
    assert "the gate ended, and with it the network of this sandbox" in found["errors"]


FETCH = """\
def fetch(host):
    import urllib.request
    try:
        return urllib.request.urlopen(f"http://{host}:443/", timeout=20).status
    except OSError as error:
        return str(error)
"""


def test_a_run_records_connections_and_warns_of_each_refused_host_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tests = ["assert fetch('allowed.example') == 200", "assert 'known' in fetch('other.example')"]
    problem = {"task_id": "fetch", "prompt": "Write fetch(host).", "tests": tests}
    (tmp_path / "problems.jsonl").write_text(json.dumps(problem) + "\n")
    completion = {"task_id": "fetch", "completion": f"<answer>{FETCH}</answer>"}
    other = {"task_id": "fetch", "completion": f"<answer># the same\n{FETCH}</answer>"}
    (tmp_path / "completions.jsonl").write_text(json.dumps(completion) + "\n" + json.dumps(other) + "\n")
    monkeypatch.setenv("SANDRL_STATE_DIR", str(tmp_path / "state"))
    words = [sys.executable, "-m", "sandrl", "reward", str(tmp_path / "completions.jsonl"), "--runtime", "local"]
    words += ["--problems", str(tmp_path / "problems.jsonl"), "--allow-host", "allowed.example"]
    words += ["--runs-dir", str(tmp_path / "runs"), "--run-name", "first", "--fail-under", "1"]
    stop = shlex.join([sys.executable, "-m", "sandrl", "runtime", "stop"])
    done = on_a_machine("user", "sh", "-c", f"{shlex.join(words)}; code=$?; {stop}; exit $code")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.count("host other.example was refused to a sandbox") == 1
    rows = [json.loads(line) for line in (tmp_path / "runs/first/connections.jsonl").read_text().splitlines()]
    assert {row["host"] for row in rows if row["refused"]} == {"other.example"}
    reached = [row for row in rows if not row["refused"]]
    assert {(row["host"], row["port"]) for row in reached} == {("allowed.example", 0), ("allowed.example", 443)}
    assert len({row["sandbox_id"] for row in reached}) > 1
