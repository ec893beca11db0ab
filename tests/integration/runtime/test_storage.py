"""Files of sandboxes from images on the disk: their limit, and their end, with every kind of host user."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cwsandbox import SandboxError, SandboxValidationError, ScratchVolumeOptions, Session

from sandrl.errors import SandrlError
from sandrl.runtime import daemon
from sandrl.runtime.state import DaemonEndpoint
from tests.integration.runtime.conftest import defaults_for, wait_until
from tests.integration.runtime.test_image_sandboxes import shell
from tests.support.drivers import answer_of
from tests.support.image_trees import import_tree, make_busybox_tree

MODES = (
    "native from an image on disk",
    "native from an image on disk as another user",
    "native from an image on disk as another user with ids of /etc/subuid",
    "native from an image on disk copied as another user",
)
USER = 48_125
ON_DISK = {"sandrl.dev/storage": "400Mi"}


@pytest.fixture(scope="module", params=MODES)
def facts(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """What greedy programs came to, and the names that are left in the directory of all sandboxes."""
    mode: str = request.param
    place = Path("/var/tmp") / f"sandrl-storage-{os.getpid()}-{MODES.index(mode)}"
    place.mkdir(mode=0o755)
    try:
        yield answer_of(place, mode, "sandbox_driver.py", "storage", user=USER)
    finally:
        shutil.rmtree(place, ignore_errors=True)


@pytest.mark.parametrize("what", ["many files", "removed files", "many directories", "deep directories"])
def test_programs_that_write_more_are_killed_and_the_sandbox_goes_on(facts: dict[str, Any], what: str) -> None:
    found = facts[what]
    assert found["code"] == 128 + signal.SIGKILL
    assert set(found["limits"]) == {"storage"}
    assert found["then"] in (0, 128 + signal.SIGKILL)


def test_no_file_is_larger_than_the_limit(facts: dict[str, Any]) -> None:
    assert facts["a large file"]["code"] == 1
    assert "File too large" in facts["a large file"]["output"]


def test_what_fits_is_written(facts: dict[str, Any]) -> None:
    assert (facts["little"]["code"], facts["little"]["output"], facts["little"]["limits"]) == (0, "8\n", [])


def test_nothing_of_a_sandbox_is_left_whoever_owned_it_and_however_deep_it_was(facts: dict[str, Any]) -> None:
    assert facts["left"] == []
    assert facts["files of another user"]["code"] == 0


@pytest.fixture
def busybox() -> str:
    return import_tree("tests/busybox:1", make_busybox_tree)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DaemonEndpoint]:
    """A daemon with a store of its own."""
    monkeypatch.setenv("SANDRL_CACHE_DIR", str(tmp_path / "cache"))
    yield daemon.ensure_running(tmp_path / "state")
    daemon.stop(tmp_path / "state")


def spaces(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "cache/images/spaces").iterdir() if path.is_dir()]


def test_files_on_disk_are_as_in_memory_and_count_no_memory(session: Session, busybox: str) -> None:
    sandbox = session.sandbox(container_image=busybox, annotations=ON_DISK)
    shell(sandbox, "rm /bin/df; mkdir /new; echo x > /new/a; ln /new/a /new/b; head -c 300000000 /dev/zero > /zeros")
    assert shell(sandbox, "ls /new; test -e /bin/df || echo gone") == "a\nb\ngone\n"
    with pytest.raises(SandboxValidationError, match=r"sandrl\.dev/storage is a size"):
        session.sandbox(container_image="host", annotations=ON_DISK).start().result()


@pytest.mark.parametrize("medium", ["disk", "memory", None])
def test_a_volume_is_where_it_is_asked_for(session: Session, busybox: str, medium: str | None) -> None:
    volume = ScratchVolumeOptions(name="v", mount_path="/v", size="1Gi", medium=medium)
    sandbox = session.sandbox(container_image=busybox, volumes=[volume])
    # As in the overlay above it, of which the volume is no part.
    kinds = shell(sandbox, "grep -E ' /v ' /proc/self/mountinfo")
    assert ("tmpfs" in kinds) == (medium != "disk")
    assert shell(sandbox, "echo x > /v/a; cat /v/a") == "x\n"


def test_the_next_daemon_removes_what_a_killed_one_has_left(
    own: DaemonEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = import_tree("tests/busybox:1", make_busybox_tree)
    session = Session(defaults_for(own, container_image=image), report_to=[])
    sandboxes = [session.sandbox(annotations=ON_DISK) for _ in range(2)]
    for sandbox in sandboxes:
        shell(sandbox, "mkdir -m 0 /shut; echo x > /file")
    assert len(spaces(tmp_path)) == 2
    sandboxes[0].stop().result()
    wait_until(lambda: len(spaces(tmp_path)) == 1)
    os.kill(own.pid, signal.SIGKILL)
    with pytest.raises(SandboxError):
        session.close().result()
    wait_until(lambda: daemon.find(tmp_path / "state") is None)
    daemon.ensure_running(tmp_path / "state")
    wait_until(lambda: spaces(tmp_path) == [])


def test_a_setting_puts_the_files_of_all_sandboxes_from_images_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SANDRL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("SANDRL_SANDBOX_STORAGE", "much")
    with pytest.raises(SandrlError, match="SANDRL_SANDBOX_STORAGE: 'much' is not a size"):
        daemon.ensure_running(tmp_path / "state")
    monkeypatch.setenv("SANDRL_SANDBOX_STORAGE", "100MiB")
    try:
        defaults = defaults_for(daemon.ensure_running(tmp_path / "state"))
        image = import_tree("tests/busybox:1", make_busybox_tree)
        with Session(defaults, report_to=[]) as session:
            sandbox = session.sandbox(container_image=image)
            shell(sandbox, "echo x > /file")
            assert len(spaces(tmp_path)) == 1
    finally:
        daemon.stop(tmp_path / "state")


def test_without_overlays_a_sandbox_has_a_copy_of_its_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDRL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("SANDRL_IMAGE_ROOTS", "copy")
    try:
        defaults = defaults_for(daemon.ensure_running(tmp_path / "state"))
        image = import_tree("tests/busybox:1", make_busybox_tree)
        with Session(defaults, report_to=[]) as session:
            first, second = (session.sandbox(container_image=image) for _ in range(2))
            shell(first, "rm /bin/df; echo mine > /etc/os-release; rm -r /sub; mkdir /sub")
            assert shell(second, "test -e /bin/df && cat /etc/os-release") == "ID=busybox\n"
            assert " - overlay " not in shell(second, "cat /proc/self/mountinfo")
    finally:
        daemon.stop(tmp_path / "state")
