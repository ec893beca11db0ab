"""Fields of requests in sandboxes that start from an image."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from cwsandbox import Sandbox, SandboxDefaults, SandboxError, SandboxFileError, SecurityContext, Session

from tests.support.image_trees import copy_program, make_busybox_tree
from tests.support.programs import require_program

IMAGE = "fields:1"
NONE = "0" * 16


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An image with busybox, a program that becomes user 0, and a link where a volume is mounted."""
    place = tmp_path_factory.mktemp("image")
    root = place / "root"
    root.mkdir()
    make_busybox_tree(root)
    copy_program(Path(require_program("id")), root)
    shutil.move(root / "bin/id", root / "bin/as-root")
    (root / "bin/as-root").chmod(0o4755)
    (root / "bin/id").symlink_to("busybox")
    (root / "mnt").symlink_to("/srv/real")
    with tarfile.open(place / "root.tar", "w") as archive:
        archive.add(root, ".", filter=_owned_by_root)
    command = [sys.executable, "-m", "sandrl", "images", "import", f"rootfs:{place}/root.tar", IMAGE]
    subprocess.run(command, check=True, env=dict(os.environ))
    return IMAGE


def _owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    return member


def output(sandbox: Sandbox, script: str) -> str:
    result = sandbox.exec(["sh", "-c", f"({script}) 2>&1"]).result()
    return str(result.stdout)


def started(session: Session, image: str, context: SecurityContext | None = None, **wanted: Any) -> Sandbox:
    return session.sandbox(container_image=image, security_context=context, **wanted)


@pytest.mark.parametrize(
    ("user", "group", "ids"),
    [(None, None, "0 0 root"), (0, 0, "0 0 root"), (1000, None, "1000 1000 app"), (1000, 50, "1000 50 app")],
)
def test_programs_run_as_the_user_and_group_that_are_asked_for(
    session: Session, image: str, user: int | None, group: int | None, ids: str
) -> None:
    sandbox = started(session, image, SecurityContext(run_as_user=user, run_as_group=group))
    assert output(sandbox, "echo $(id -u) $(id -g) $(id -un)") == f"{ids}\n"
    sandbox.write_file("/tmp/file", b"").result()
    assert output(sandbox, "stat -c '%u %g' /tmp/file || ls -ln /tmp/file").split()[:2] != []


def test_a_user_without_an_id_is_refused(session: Session, image: str) -> None:
    with pytest.raises(SandboxError, match="user"):
        started(session, image, SecurityContext(run_as_user=4_000_000)).start().result()


def test_privileges_of_an_image_are_those_that_are_asked_for(session: Session, image: str) -> None:
    show = "grep -E 'Cap(Eff|Bnd)' /proc/self/status | tr -d '\\n'"
    given = output(started(session, image), show)
    none = output(started(session, image, SecurityContext(capabilities_drop=["ALL"])), show)
    assert NONE not in given
    assert none.split()[1].startswith(NONE)
    assert none.endswith(NONE)
    one = SecurityContext(capabilities_drop=["ALL"], capabilities_add=["CAP_CHOWN"])
    assert output(started(session, image, one), show).endswith(f"{1:016x}")
    without = started(session, image, SecurityContext(capabilities_drop=["CHOWN"]))
    assert "not permitted" in output(without, "touch /tmp/x; chown 1000 /tmp/x")
    with pytest.raises(SandboxError, match="SYS_ADMIN"):
        started(session, image, SecurityContext(capabilities_add=["SYS_ADMIN"])).start().result()
    for allowed, uid in ((None, "0"), (True, "0"), (False, "1000")):
        context = SecurityContext(run_as_user=1000, allow_privilege_escalation=allowed)
        assert output(started(session, image, context), "as-root -u") == f"{uid}\n"


def test_the_root_of_an_image_is_read_only_if_that_is_asked_for(session: Session, image: str) -> None:
    volume = {"name": "v", "mount_path": "/data"}
    write = "for path in /x /tmp/x /etc/passwd /data/x; do echo x >> $path && echo $path; done"
    wanted = {"volumes": [volume]}
    assert output(started(session, image, **wanted), write).split() == ["/x", "/tmp/x", "/etc/passwd", "/data/x"]
    sandbox = started(session, image, SecurityContext(read_only_root_filesystem=True), **wanted)
    assert [line for line in output(sandbox, write).splitlines() if "Read-only" not in line] == ["/data/x"]
    with pytest.raises(SandboxFileError):
        sandbox.write_file("/file", b"").result()


def test_a_volume_in_an_image_is_shown_inside_of_it_and_written_by_any_user(
    session: Session, image: str, defaults: SandboxDefaults
) -> None:
    volumes = [{"name": "v", "mount_path": "/mnt/inner"}]
    context = SecurityContext(run_as_user=1000)
    sandbox = started(session, image, context, volumes=volumes)
    assert output(sandbox, "echo x > /mnt/inner/file; cat /srv/real/inner/file") == "x\n"
    name = sandbox.snapshot().result()
    try:
        again = [{"name": "v", "mount_path": "/data", "restore_from_snapshot_id": name}]
        restored = started(session, image, volumes=again)
        assert output(restored, "cat /data/file; ls -n /data/file").split()[0:4] == ["x", "-rw-r--r--", "1", "1000"]
    finally:
        Sandbox.delete_snapshot(name).result()
