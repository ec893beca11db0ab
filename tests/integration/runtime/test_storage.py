"""Files of sandboxes from images on the disk: their limit, and their end, with every kind of host user."""

from __future__ import annotations

import errno
import io
import os
import shutil
import signal
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cwsandbox import SandboxError, SandboxValidationError, ScratchVolumeOptions, Session

from sandrl.errors import SandrlError, UsageError
from sandrl.runtime import daemon
from sandrl.runtime.selfcheck import check_isolation
from sandrl.runtime.state import DaemonEndpoint
from tests.integration.runtime.conftest import defaults_for, wait_until
from tests.integration.runtime.test_image_sandboxes import shell
from tests.support.archives import archive, file, folder, hard_link, layout, symlink
from tests.support.drivers import answer_of
from tests.support.image_trees import import_layout, import_tree, make_busybox_tree

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


def test_no_call_takes_any_amount_of_disk_at_once(facts: dict[str, Any]) -> None:
    refused = errno.EOPNOTSUPP
    assert facts["blocks at once"]["output"].split() == ["-1", *[str(refused)] * 4]


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


@contextmanager
def served(state: Path) -> Iterator[Session]:
    """A session with a daemon that has the variables of the moment."""
    try:
        with Session(defaults_for(daemon.ensure_running(state)), report_to=[]) as session:
            yield session
    finally:
        daemon.stop(state)


def spaces(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "cache/images/spaces").iterdir() if path.is_dir()]


def test_files_on_disk_are_as_in_memory_and_count_no_memory(session: Session, busybox: str) -> None:
    sandbox = session.sandbox(container_image=busybox, annotations=ON_DISK)
    shell(sandbox, "rm /bin/df; mkdir /new; echo x > /new/a; ln /new/a /new/b; head -c 300000000 /dev/zero > /zeros")
    assert shell(sandbox, "ls /new; test -e /bin/df || echo gone") == "a\nb\ngone\n"
    with pytest.raises(SandboxValidationError, match=r"sandrl\.dev/storage is a size"):
        session.sandbox(container_image="host", annotations=ON_DISK).start().result()


def test_files_on_disk_are_in_a_snapshot(own: DaemonEndpoint) -> None:
    image = import_tree("tests/busybox:1", make_busybox_tree)
    with Session(defaults_for(own, container_image=image), report_to=[]) as session:
        sandbox = session.sandbox(annotations=ON_DISK)
        shell(sandbox, "rm /bin/df; rm -r /sub; mkdir /sub; echo x > /sub/new")
        assert sandbox.sandbox_id
        assert daemon.save_image(own, sandbox.sandbox_id, "tests/saved:1")
        saved = session.sandbox(container_image="tests/saved:1")
        assert shell(saved, "test -e /bin/df || cat /sub/new") == "x\n"


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
    with served(tmp_path / "state") as session:
        sandbox = session.sandbox(container_image=import_tree("tests/busybox:1", make_busybox_tree))
        shell(sandbox, "echo x > /file")
        assert len(spaces(tmp_path)) == 1


def test_the_self_check_says_whether_images_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [check_isolation()]
    monkeypatch.setenv("SANDRL_IMAGE_ROOTS", "copy")
    found.append(check_isolation())
    assert [(each.images_refusal, each.copies_images) for each in found] == [("", False), ("", True)]


LAYERS = (
    (
        *(
            folder("d"),
            file("d/removed", b"1"),
            file("d/replaced", b"old"),
            folder("opaque"),
            file("opaque/below", b"1"),
        ),
        *(symlink("out", "/etc"), folder("was"), file("was/file", b"1"), folder("becomes"), file("becomes/a", b"1")),
        *(file("set", b"1", mode=0o4755), file("one", b"x"), hard_link("two", "one"), file("zeros", bytes(1 << 20))),
    ),
    (
        *(file("d/.wh.removed"), file("d/replaced", b"new"), file("opaque/.wh..wh..opq"), file("opaque/above", b"2")),
        *(file(".wh.was"), file("becomes", b"2"), folder("out"), file("out/inner", b"3"), folder("shut", mode=0)),
        *(file("owned", b"1", user=5, group=6), file("unknown", b"1", user=70_000)),
    ),
)
SHOW = """
busybox find / -xdev -path /proc -prune -o -path /dev -prune -o -print | busybox sort | while read -r path; do
if test -h "$path"; then echo "$path" $(busybox readlink "$path")
elif test -f "$path"; then busybox stat -c '%n %a %u:%g %h %s' "$path"; busybox md5sum < "$path"
else busybox stat -c '%n %F %a %u:%g' "$path"; fi; done; busybox stat -c %Y /zeros /d /owned
"""


def listing(session: Session, place: Path) -> str:
    """What there is in a sandbox of an image with layers that hide and replace files of lower ones."""
    content = io.BytesIO()
    make_busybox_tree(place)
    with tarfile.open(fileobj=content, mode="w") as base:
        for path in sorted(place.iterdir()):
            base.add(path, path.name)
    image = layout(place / "oci", content.getvalue(), *(archive(*each) for each in LAYERS))
    return shell(session.sandbox(container_image=import_layout(image, "tests/layered:1")), SHOW)


def test_without_overlays_a_sandbox_has_a_copy_of_its_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDRL_CACHE_DIR", str(tmp_path / "cache"))
    with served(tmp_path / "state") as session:
        shown = listing(session, tmp_path / "layered")
    monkeypatch.setenv("SANDRL_IMAGE_ROOTS", "copy")
    with served(tmp_path / "other") as session:
        assert listing(session, tmp_path / "copied") == shown
        first, second = (session.sandbox(container_image="tests/layered:1") for _ in range(2))
        shell(first, "rm /bin/df; echo mine > /etc/os-release; rm -r /sub; mkdir /sub")
        assert shell(second, "test -e /bin/df && cat /etc/os-release") == "ID=busybox\n"
        assert " - overlay " not in shell(second, "cat /proc/self/mountinfo")
        endpoint = daemon.find(tmp_path / "other")
        assert endpoint is not None
        assert second.sandbox_id
        with pytest.raises(UsageError, match="a snapshot where the kernel has no overlays"):
            daemon.save_image(endpoint, second.sandbox_id, "tests/saved:1")
