"""Fields of requests in sandboxes that start from an image."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cwsandbox import Sandbox, SandboxError, SandboxFileError, SandboxValidationError, SecurityContext, Session

from tests.support.image_trees import copy_program, import_tree, make_busybox_tree
from tests.support.programs import require_program

NONE = "0" * 16


@pytest.fixture(scope="session")
def image() -> str:
    """An image with busybox, a program that becomes user 0, and a link where a volume is mounted."""
    return import_tree("fields:1", _make_tree)


def _make_tree(root: Path) -> None:
    make_busybox_tree(root)
    for name in ("id", "stat", "sort", "mkfifo", "truncate"):
        copy_program(Path(require_program(name)), root)
    shutil.move(root / "bin/id", root / "bin/as-root")
    (root / "bin/as-root").chmod(0o4755)
    (root / "bin/id").symlink_to("busybox")
    (root / "srv/real").mkdir(parents=True)
    (root / "linked").symlink_to("/srv/real")


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
    assert output(sandbox, "ls -n /tmp/file").split()[2:4] == ids.split()[:2]


def test_a_user_without_an_id_is_refused(session: Session, image: str) -> None:
    with pytest.raises(SandboxValidationError, match=r"run_as_user.*beyond the user ids"):
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
    wanted: Any = {"volumes": [volume]}
    assert output(started(session, image, **wanted), write).split() == ["/x", "/tmp/x", "/etc/passwd", "/data/x"]
    sandbox = started(session, image, SecurityContext(read_only_root_filesystem=True), **wanted)
    assert [line for line in output(sandbox, write).splitlines() if "Read-only" not in line] == ["/data/x"]
    with pytest.raises(SandboxFileError):
        sandbox.write_file("/file", b"").result()


def test_a_volume_in_an_image_is_shown_inside_of_it_and_written_by_any_user(session: Session, image: str) -> None:
    volumes = [{"name": "v", "mount_path": "/linked/inner"}]
    context = SecurityContext(run_as_user=1000)
    sandbox = started(session, image, context, volumes=volumes)
    assert output(sandbox, "echo x > /linked/inner/file; cat /srv/real/inner/file") == "x\n"
    name = sandbox.snapshot().result()
    try:
        again = [{"name": "v", "mount_path": "/data", "restore_from_snapshot_id": name}]
        restored = started(session, image, volumes=again)
        assert output(restored, "cat /data/file; ls -n /data/file").split()[0:4] == ["x", "-rw-r--r--", "1", "1000"]
    finally:
        Sandbox.delete_snapshot(name).result()


# Snapshots of sandboxes


CHANGE = """
rm /bin/cat; rm -r /home/app; mkdir /home/app; echo new > /home/app/file; echo more >> /etc/os-release
ln -s file /home/link; mkdir -m 700 /own; echo x > /own/script; chmod 4711 /own/script; mkfifo /pipe
ln /own/script /own/again; mv /sub /moved; truncate -s 3M /zeros; mkdir /etc/made
touch -d '2001-01-01 00:00:00' /etc/made
"""
SHOW = """
find / -xdev ! -path '/proc*' ! -path '/dev*' ! -path /etc/hostname | sort | while read -r path; do
[ -d "$path" ] && stat -c '%n %F %a %u %g' "$path" || stat -c '%n %F %a %u %g %s %h' "$path"; done
cat /home/app/file 2> /dev/null; stat -c %Y /etc/made
"""


def saved(sandbox: Sandbox, name: str, state: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sandrl", "sandboxes", "snapshot", str(sandbox.sandbox_id), name, "--json"]
    environment = {**os.environ, "SANDRL_STATE_DIR": str(state)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_a_sandbox_from_a_snapshot_has_all_that_was_changed(session: Session, image: str, runtime_state: Path) -> None:
    sandbox = started(session, image)
    assert output(sandbox, CHANGE) == ""
    before = output(sandbox, SHOW)
    done = saved(sandbox, "fields:changed", runtime_state)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["layers"] == 2
    output(sandbox, "echo later > /later; rm -r /own")
    again = started(session, "fields:changed")
    assert output(again, SHOW) == before
    assert "/own/again regular file 4711" in before
    assert "/bin/cat" not in before
    # And once more, on top of it.
    output(again, "echo third > /third; rm /moved -r; echo x > /bin/cat")
    third = output(again, SHOW)
    assert saved(again, "fields:third", runtime_state).returncode == 0
    assert output(started(session, "fields:third"), SHOW) == third


def test_a_snapshot_that_cannot_be_stored_says_why(session: Session, image: str, runtime_state: Path) -> None:
    host, sandbox = session.sandbox(), started(session, image)
    host.wait(), sandbox.wait()
    output(sandbox, "truncate -s 100G /sparse")
    for chosen, name, message in (
        (host, "x:1", "a sandbox from an image is needed"),
        (sandbox, "Not A Name", "Not A Name"),
        (sandbox, "oci:x", "which names a file"),
        (sandbox, "x:1", "remove sparse files"),
    ):
        done = saved(chosen, name, runtime_state)
        assert done.returncode == 2
        assert message in done.stderr
        assert "Traceback" not in done.stderr
