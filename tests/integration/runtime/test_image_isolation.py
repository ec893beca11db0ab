"""What hostile code can reach as user 0 of a sandbox that starts from an image, with every kind of host user."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.runtime.test_isolation import NAMESPACES, ROOT
from tests.support.drivers import answer_of

Facts = dict[str, Any]

MODES = (
    "native from an image",
    "native from an image with shared ids",
    "native from an image as another user",
    "native from an image as another user with ids of /etc/subuid",
    "native from an image on disk as another user",
    "native from an image copied as another user",
)
OF_PROGRAMS = "00000000800405fb"
"""CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SETPCAP, NET_BIND_SERVICE, SYS_CHROOT, SETFCAP."""
NONE = "0" * 16
USER = 48_124
OTHER_REFUSALS = {
    "packet socket": "EAFNOSUPPORT",
    "audit socket": "EAFNOSUPPORT",
    "more processes": "ValueError",
    "more files": "ValueError",
    "more address space": "ValueError",
    "more priority": "EACCES",
    "locked memory": "ENOMEM",
    "remove a device": "EBUSY",
}


@pytest.fixture(scope="module", params=MODES)
def facts(request: pytest.FixtureRequest) -> Iterator[Facts]:
    """What both probes report from a sandbox of each mode."""
    mode: str = request.param
    place = Path("/tmp") / f"sandrl-image-isolation-{os.getpid()}-{MODES.index(mode)}"
    place.mkdir(mode=0o755)
    secret = place / "secret"
    secret.write_text("the host's")
    hidden = ":".join([str(secret), str(ROOT), str(next(Path.home().iterdir(), "")), "/var/lib/dpkg", "/newroot"])
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            words = hidden, str(server.getsockname()[1])
            reached = answer_of(
                place, mode, "sandbox_driver.py", "reach", *words, texts=("hostile_probe.py",), user=USER
            )
        done = answer_of(place, mode, "sandbox_driver.py", "root", texts=("root_probe.py",), user=USER)
        yield {"is copied": "copied" in mode, **reached, **done, "listed capabilities": done["capabilities"]}
    finally:
        shutil.rmtree(place, ignore_errors=True)


def test_it_has_its_own_namespaces_and_processes_and_is_user_0_of_them(facts: Facts) -> None:
    assert not [name for name in NAMESPACES if facts["namespaces"][name] == os.readlink(f"/proc/self/ns/{name}")]
    assert facts["pids"][0] == 1
    assert len(facts["pids"]) <= 3
    assert facts["uid"] == 0


def test_no_file_and_no_network_of_the_host_is_in_reach(facts: Facts) -> None:
    assert facts["visible"] == []
    assert facts["interfaces"] == ["lo"]
    assert (facts["outside"], facts["udp"], facts["loopback"]) == ("ENETUNREACH", "ENETUNREACH", None)
    assert facts["host_ports"] == []
    assert "A_SECRET" not in facts["environment"]
    assert facts["locks"] == ""
    assert facts["sys"] == []


def test_its_own_files_can_all_be_written_and_nothing_else_is_mounted_writable(facts: Facts) -> None:
    devices = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty")}
    assert set(facts["writable_mounts"]) == {"/", "/dev", "/dev/pts", "/proc"} | devices
    assert facts["writes"]["/usr/probe"] is facts["writes"]["/etc/probe"] is None
    assert facts["written"] == [True, False]
    assert facts["settings"] == []
    assert facts["proc files"] == []


def test_process_1_can_be_neither_looked_into_nor_changed_nor_ended(facts: Facts) -> None:
    assert facts["process 1"]
    assert set(facts["process 1"].values()) <= {"EACCES", "EPERM"}, facts["process 1"]


def test_user_0_may_do_in_its_own_files_what_it_may_in_a_container_and_nothing_to_the_machine(facts: Facts) -> None:
    expected = {name: OTHER_REFUSALS.get(name, "EPERM") for name in facts["calls"]}
    assert facts["calls"] == expected
    assert facts["listed capabilities"] == {
        "CapInh": NONE,
        "CapPrm": OF_PROGRAMS,
        "CapEff": OF_PROGRAMS,
        "CapBnd": OF_PROGRAMS,
        "CapAmb": NONE,
    }
    assert facts["gain capabilities"] == "EPERM"
    assert facts["seccomp"] == "2"


def test_a_setuid_program_gives_another_user_what_user_0_has_and_file_capabilities_give_nothing(facts: Facts) -> None:
    if facts["other user"] is None:
        pytest.skip("a sandbox has one user id here")
    assert facts["other user"] == {"before": NONE, "setuid": f"0 {OF_PROGRAMS}", "file capabilities": "EPERM"}


def test_another_root_directory_leads_no_further_than_the_sandboxs_own(facts: Facts) -> None:
    assert facts["a root above the root is the same"] is True


def test_attributes_and_devices_that_an_overlay_uses_itself_hide_nothing(facts: Facts) -> None:
    assert facts["overlay attributes"]
    assert facts["whiteout"] == (None if facts["is copied"] else "EPERM")
    assert facts["nothing is hidden"] is True
