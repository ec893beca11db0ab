"""Sandboxes that start from images of the store: what their programs find, and what becomes of what they do."""

from __future__ import annotations

import os
from pathlib import Path

import cwsandbox
import pytest
from cwsandbox import Sandbox, SandboxDefaults, SandboxError, SandboxFileError, SandboxValidationError, Session
from cwsandbox._proto import sandbox_pb2 as pb

from sandrl.runtime.images.removal import remove
from sandrl.runtime.images.source import MOST_LAYERS
from sandrl.runtime.images.store import ImageStore
from sandrl.settings import load_settings
from tests.integration.runtime.conftest import wait_until
from tests.integration.runtime.test_sdk_behaviour import calls
from tests.support.archives import Member, archive, file, folder, layout
from tests.support.image_trees import import_layout, import_tree, make_busybox_tree

CONFIGURATION = {
    "User": "app",
    "WorkingDir": "/home/app/new",
    "Env": ["GREETING=hello", "PATH=/bin", "HOME=/elsewhere"],
    "Entrypoint": ["/bin/sh", "-c", "echo $GREETING $0; pwd; id -u"],
    "Cmd": ["command"],
}


@pytest.fixture
def busybox() -> str:
    """An image without Python and without a C library, whose programs run as user 0."""
    return import_tree("tests/busybox:1", make_busybox_tree)


@pytest.fixture
def of_user() -> str:
    return import_tree("tests/busybox:app", make_busybox_tree, CONFIGURATION)


def shell(sandbox: Sandbox, command: str) -> str:
    result = sandbox.exec(["sh", "-c", command]).result()
    assert result.returncode == 0, result.stderr
    return str(result.stdout)


def import_layers(place: Path, name: str, *layers: tuple[Member, ...]) -> str:
    return import_layout(layout(place, *(archive(*layer) for layer in layers)), name)


def test_all_of_its_files_can_be_changed_and_the_next_sandbox_has_the_images(session: Session, busybox: str) -> None:
    first, second = (session.sandbox(container_image=busybox) for _ in range(2))
    shell(
        first, "rm /bin/df; echo mine > /etc/os-release; mv /sub /moved; mkdir /new; chown 0:0 /new; ln /bin/ls /new/ls"
    )
    assert shell(first, "ls /; cat /etc/os-release").split() == [
        *("bin", "dev", "etc", "home", "mnt", "moved", "new", "proc", "root", "run", "srv", "tmp", "var", "workspace"),
        "mine",
    ]
    assert shell(second, "test -e /bin/df && test -d /sub && cat /etc/os-release") == "ID=busybox\n"


def test_files_are_read_and_written_where_no_interpreter_is(session: Session, busybox: str) -> None:
    sandbox = session.sandbox(container_image=busybox)
    sandbox.write_file("/etc/written", b"\0\xff" * 100_000).result()
    assert sandbox.read_file("/etc/written").result() == b"\0\xff" * 100_000
    assert sandbox.read_file("/etc/os-release").result() == b"ID=busybox\n"
    with pytest.raises(SandboxFileError):
        sandbox.read_file("/etc/missing").result()


def test_a_program_that_is_not_there_is_refused_as_anywhere(session: Session, busybox: str) -> None:
    result = session.sandbox(container_image=busybox).exec(["python", "-c", "1"]).result()
    assert (result.returncode, result.stdout) == (127, "")
    assert 'exec: "python": executable file not found in $PATH' in result.stderr


def test_without_a_shell_the_agent_works_all_the_same(session: Session, tmp_path: Path) -> None:
    name = import_layers(tmp_path / "oci", "tests/nothing:1", (folder("data"), file("data/a", b"content")))
    sandbox = session.sandbox(container_image=name)
    assert sandbox.read_file("/data/a").result() == b"content"
    sandbox.write_file("/data/b", b"more").result()
    assert sandbox.read_file("/data/b").result() == b"more"
    assert sandbox.exec(["sh"]).result().returncode == 127


def test_user_directory_and_variables_are_those_of_the_image(session: Session, of_user: str) -> None:
    sandbox = session.sandbox(container_image=of_user, environment_variables={"GREETING": "hi"})
    found = shell(sandbox, "pwd; id -u; id -g; id -G; echo $GREETING $HOME $PATH; touch made && ls -ln made")
    if os.getuid() == 0:
        *lines, made = found.splitlines()
        assert lines == ["/home/app/new", "1000", "1000", "1000 50", "hi /elsewhere /bin"]
        assert made.split()[2:4] == ["1000", "1000"]
    sandbox.write_file("/home/app/new/file", b"x").result()
    assert shell(sandbox, "ls -n file | tr -s ' '").split()[2] == "1000"
    assert sandbox.exec(["touch", "/etc/mine"]).result().returncode == 1


@pytest.mark.parametrize(
    ("arguments", "first"), [([], "hello command"), (["other"], "hello other")], ids=["its command", "arguments"]
)
async def test_what_a_request_leaves_out_the_image_says(
    defaults: SandboxDefaults, session: Session, of_user: str, arguments: list[str], first: str
) -> None:
    container = pb.Container(name="main", image=of_user, args=arguments)
    request = pb.CreateSandboxRequest(sandbox=pb.Sandbox(spec=pb.SandboxSpec(containers=[container])))
    async with calls(defaults) as (stub, metadata):
        created = await stub.CreateSandbox(request, metadata=metadata)
        sandbox = await session.from_id(created.sandbox_id)
        await sandbox.wait_until_complete(timeout=30)
    printed = [line async for line in sandbox.stream_logs()]
    assert "".join(printed).split() == [*first.split(), "/home/app/new", "1000"]


def test_the_hosts_system_is_shown_as_what_it_is(session: Session) -> None:
    sandbox = session.sandbox(container_image="python:3.11")
    sandbox.start().result()
    shown = Sandbox.from_id(str(sandbox.sandbox_id)).result()
    assert shown.containers is not None
    assert str(shown.containers[0].image).startswith("host python3.")


def test_it_finds_what_a_container_has(session: Session, busybox: str) -> None:
    sandbox = session.sandbox(container_image=busybox)
    assert "127.0.0.1 localhost sandbox" in shell(sandbox, "cat /etc/hosts")
    assert shell(sandbox, "cat /etc/hostname /proc/sys/kernel/hostname") == "sandbox\nsandbox\n"
    assert shell(sandbox, "cat /etc/resolv.conf") == ""
    assert shell(sandbox, "echo x > /dev/shm/a; head -c 3 /dev/zero | tr '\\0' z; test -c /dev/null && echo $HOME") == (
        "zzz/root\n"
    )
    terminal = sandbox.shell(["sh", "-c", "test -t 0 && echo a terminal"])
    assert "a terminal" in b"".join(terminal.output).decode()


def test_layers_hide_and_replace_what_is_below_them(session: Session, tmp_path: Path, busybox: str) -> None:
    name = import_layers(
        tmp_path / "oci",
        "tests/layers:1",
        (folder("d"), file("d/hidden", b"1"), file("d/replaced", b"old"), folder("opaque"), file("opaque/below", b"1")),
        (file("d/.wh.hidden"), file("d/replaced", b"new"), file("opaque/.wh..wh..opq"), file("opaque/above", b"2")),
    )
    sandbox = session.sandbox(container_image=name)
    assert sandbox.read_file("/d/replaced").result() == b"new"
    assert sandbox.read_file("/opaque/above").result() == b"2"
    for path in ("/d/hidden", "/opaque/below"):
        with pytest.raises(SandboxFileError):
            sandbox.read_file(path).result()


def test_an_image_may_have_as_many_layers_as_any_has(session: Session, tmp_path: Path) -> None:
    layers = [(file(f"from-{number}", b"%d" % number), file("last", b"%d" % number)) for number in range(MOST_LAYERS)]
    sandbox = session.sandbox(container_image=import_layers(tmp_path / "oci", "tests/many:1", *layers))
    assert sandbox.read_file("/from-0").result() == b"0"
    assert sandbox.read_file("/last").result() == b"%d" % (MOST_LAYERS - 1)


def test_links_of_an_image_lead_into_the_image_alone(session: Session, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("the host's")
    name = import_layers(
        tmp_path / "oci",
        "tests/links:1",
        (
            Member("etc", kind=b"2", link="/proc/1/root/etc"),
            Member("dev", kind=b"2", link="/"),
            Member("proc", kind=b"2", link="/layers"),
            Member("tmp", kind=b"2", link=str(tmp_path)),
            Member("link", kind=b"2", link=str(outside)),
        ),
    )
    sandbox = session.sandbox(container_image=name)
    for path in ("/link", f"/tmp/{outside.name}"):
        with pytest.raises(SandboxFileError):
            sandbox.read_file(path).result()
    assert b"sandbox" in sandbox.read_file("/etc/hosts").result()
    assert b"sandrl-init" in sandbox.read_file("/proc/1/cmdline").result()
    assert outside.read_text() == "the host's"


def test_files_can_be_put_anywhere_before_its_programs_start(session: Session, busybox: str) -> None:
    files = [{"mount_path": "/usr/lib/app/conf", "file_content": b"set"}]
    sandbox = session.sandbox(container_image=busybox, mounted_files=files)
    assert shell(sandbox, "cat /usr/lib/app/conf") == "set"


@pytest.mark.parametrize(("user", "why"), [("nobody-knows", "has no user"), ("4000000", "beyond the user ids")])
def test_a_user_that_cannot_be_is_named(session: Session, user: str, why: str) -> None:
    name = import_tree(f"tests/busybox:{user}", make_busybox_tree, {"User": user})
    with pytest.raises(SandboxError, match=why):
        session.sandbox(container_image=name).start().result()


def test_an_image_that_is_in_use_is_not_removed_and_is_afterwards(session: Session) -> None:
    name = import_tree("tests/busybox:used", make_busybox_tree, {"Env": ["USED=1"]})
    store = ImageStore(load_settings().cache_dir / "images")
    sandbox = session.sandbox(container_image=name)
    shell(sandbox, "true")
    found = store.find(name)
    assert found is not None
    assert remove(store, [found.digest]).kept == [found.digest]
    assert shell(sandbox, "ls /bin/df") == "/bin/df\n"
    sandbox.stop().result()
    # The daemon lets go of it a moment after the sandbox has ended.
    wait_until(lambda: not remove(store, [found.digest]).kept)
    with pytest.raises(SandboxValidationError, match="no image"):
        session.sandbox(container_image=found.digest).start().result()


def test_fifty_sandboxes_of_one_image_at_once_each_have_their_own_files(session: Session, busybox: str) -> None:
    sandboxes = [session.sandbox(container_image=busybox) for _ in range(50)]
    cwsandbox.results([sandbox.start() for sandbox in sandboxes])
    writing = [sandbox.exec(["sh", "-c", f"echo {n} > /bin/own; rm /bin/df"]) for n, sandbox in enumerate(sandboxes)]
    cwsandbox.results(writing)
    reading = cwsandbox.results([sandbox.exec(["cat", "/bin/own"]) for sandbox in sandboxes])
    assert [result.stdout for result in reading] == [f"{number}\n" for number in range(50)]
