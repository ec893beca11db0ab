"""What hostile code can reach from inside a sandbox, tried for real, with every way of isolating this machine has."""

from __future__ import annotations

import json
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
    yield json.loads(answer_of(place, mode, "isolation_driver.py", paths, str(host_port), texts=texts))
    shutil.rmtree(place, ignore_errors=True)


@pytest.mark.parametrize("name", NAMESPACES)
def test_it_has_its_own_namespaces(facts: Facts, name: str) -> None:
    assert facts["namespaces"][name] != os.readlink(f"/proc/self/ns/{name}")


def test_host_files_are_invisible(facts: Facts) -> None:
    assert facts["visible"] == []
    assert facts["root_entries"] == []
    assert facts["home_entries"] == ["sandbox"]
    assert facts["shadow"] == "ENOENT"


def test_programs_and_libraries_are_read_only(facts: Facts) -> None:
    assert facts["writes"]
    assert all(error in ("EROFS", "EACCES", "EPERM") for error in facts["writes"].values()), facts["writes"]


def test_only_its_own_places_are_mounted_writable(facts: Facts) -> None:
    """What is shared with other sandboxes is read-only whoever owns it: a sandbox may have its owner's user id."""
    own = {"/tmp", "/var/tmp", "/workspace", "/home/sandbox", "/var/sandbox", "/dev/shm", "/dev/pts", "/proc"}
    devices = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty")}
    assert facts["writable_mounts"]
    assert set(facts["writable_mounts"]) <= own | devices


def test_the_places_for_files_are_writable(facts: Facts) -> None:
    assert set(facts["writable"].values()) == {None}, facts["writable"]


def test_host_processes_are_invisible(facts: Facts) -> None:
    assert facts["pids"][0] == 1
    assert len(facts["pids"]) <= 3


def test_process_1_cannot_be_looked_into(facts: Facts) -> None:
    assert set(facts["process_1"].values()) == {"EACCES"}
    assert facts["process_1_fds"] == "EACCES"
    assert facts["process_1_command"] == "sandrl-init"


def test_there_is_no_network_but_an_inner_loopback(facts: Facts, host_port: int) -> None:
    assert facts["interfaces"] == ["lo"]
    assert facts["outside"] == "ENETUNREACH"
    assert facts["udp"] == "ENETUNREACH"
    assert facts["loopback"] is None
    assert facts["host_ports"] == []


def test_sockets_that_bypass_the_network_namespace_are_refused(facts: Facts) -> None:
    assert facts["vsock"] == "EAFNOSUPPORT"
    assert facts["packet"] == "EAFNOSUPPORT"


def test_it_has_no_capabilities_and_cannot_gain_any(facts: Facts) -> None:
    assert set(facts["capabilities"].values()) == {"0000000000000000"}
    assert facts["no_new_privs"] == "1"
    assert facts["uid"] == 1000
    assert facts.get("setuid_flag_ignored", True)


def test_dangerous_system_calls_are_refused(facts: Facts) -> None:
    assert facts["seccomp"] == "2"
    allowed = {name for name, error in facts["calls"].items() if error is None}
    assert allowed == set()
    for name in ("unshare", "mount", "ptrace", "keyctl", "bpf", "clone_newuser", "shmget"):
        assert facts["calls"][name] == "EPERM", name
    for name in ("memfd_create", "io_uring_setup", "clone3"):
        assert facts["calls"][name] == "ENOSYS", name


def test_the_interpreter_looks_like_the_bare_image(facts: Facts) -> None:
    assert facts["packages"] == []
    assert facts["prefix"] in ("/usr/local", "/usr")


def test_the_environment_of_the_host_does_not_leak(facts: Facts) -> None:
    assert "A_SECRET" not in facts["environment"]
