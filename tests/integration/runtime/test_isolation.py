"""What hostile code can reach from inside a sandbox, tried for real, with every way of isolating this machine has."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.drivers import answer_of
from tests.support.programs import require_program

ROOT = Path(__file__).resolve().parents[3]

MODES = ("native", "native as another user", "bubblewrap as another user")
NAMESPACES = ("user", "pid", "mnt", "net", "ipc", "uts")

Facts = dict[str, Any]


@pytest.fixture(scope="module")
def host_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture(scope="module", params=MODES)
def facts(request: pytest.FixtureRequest, host_port: int) -> Iterator[Facts]:
    """What the probe reports from a sandbox of each mode."""
    mode: str = request.param
    launcher = mode.split()[0]
    if launcher == "bubblewrap":
        require_program("bwrap")
    place = Path("/tmp") / f"sandrl-isolation-{os.getpid()}-{MODES.index(mode)}"
    place.mkdir(mode=0o755)
    secret = place / "secret"
    secret.write_text("the host's")
    paths = ":".join(
        [str(secret), str(ROOT), str(next(Path.home().iterdir(), "")), "/var/lib/dpkg", "/etc/hosts.allow"]
    )
    paths += ":/etc/R/Renviron.site:/etc/R/Rprofile.site"  # they may have tokens of package repositories
    texts = ("hostile_probe.py",)
    yield answer_of(place, mode, "sandbox_driver.py", "reach", paths, str(host_port), texts=texts)
    shutil.rmtree(place, ignore_errors=True)


def test_it_has_its_own_namespaces_processes_and_user(facts: Facts) -> None:
    assert set(facts["namespaces"]) == set(NAMESPACES)
    assert not [name for name in NAMESPACES if facts["namespaces"][name] == os.readlink(f"/proc/self/ns/{name}")]
    assert facts["pids"][0] == 1
    assert len(facts["pids"]) <= 3
    assert facts["uid"] == 1000


def test_only_its_own_places_are_mounted_writable(facts: Facts) -> None:
    """What is shared with other sandboxes is read-only whoever owns it: a sandbox may have its owner's user id."""
    own = {"/tmp", "/var/tmp", "/workspace", "/home/sandbox", "/var/sandbox", "/dev/shm", "/dev/pts", "/proc"}
    devices = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty")}
    assert facts["writable_mounts"]
    assert set(facts["writable_mounts"]) <= own | devices
    assert facts["writes"]
    assert all(error in ("EROFS", "EACCES", "EPERM") for error in facts["writes"].values()), facts["writes"]
    assert set(facts["writable"].values()) == {None}, facts["writable"]


def test_process_1_cannot_be_looked_into(facts: Facts) -> None:
    assert set(facts["process_1"].values()) == {"EACCES"}
    assert facts["process_1_fds"] == "EACCES"
    assert facts["process_1_command"] == "sandrl-init"


REACHED = {
    "visible": [],
    "root_entries": [],
    "home_entries": ["sandbox"],
    "shadow": "ENOENT",
    "interfaces": ["lo"],
    "outside": "ENETUNREACH",
    "udp": "ENETUNREACH",
    "loopback": None,
    "host_ports": [],
    # Sockets that bypass the network namespace.
    "vsock": "EAFNOSUPPORT",
    "packet": "EAFNOSUPPORT",
    # As in the bare image.
    "packages": [],
}


def test_no_file_and_no_network_of_the_host_is_in_reach(facts: Facts) -> None:
    assert {name: facts[name] for name in REACHED} == REACHED
    assert facts["prefix"] in ("/usr/local", "/usr")
    assert "A_SECRET" not in facts["environment"]


def test_it_has_no_capabilities_and_cannot_gain_any(facts: Facts) -> None:
    assert set(facts["capabilities"].values()) == {"0000000000000000"}
    assert facts["no_new_privs"] == "1"
    assert facts.get("setuid_flag_ignored", True)


def test_dangerous_system_calls_are_refused(facts: Facts) -> None:
    assert facts["seccomp"] == "2"
    expected = dict.fromkeys(("unshare", "mount", "ptrace", "keyctl", "bpf", "clone_newuser", "shmget"), "EPERM")
    expected |= dict.fromkeys(("memfd_create", "io_uring_setup", "clone3"), "ENOSYS")
    assert {name: facts["calls"][name] for name in expected} == expected
    assert None not in facts["calls"].values()
