"""Attacks of images, and of user 0 in their sandboxes, on the runtime itself that once worked."""

from __future__ import annotations

import encodings
import textwrap
from contextlib import suppress
from pathlib import Path

import pytest
from cwsandbox import SandboxValidationError, Session

from sandrl.runtime import guest
from sandrl.runtime.host.choice import Choice
from sandrl.runtime.host.launcher import LaunchError, RefusedLaunchError, VolumeMount
from sandrl.runtime.host.process import Exit
from sandrl.runtime.host.sandbox import HostSandbox, StartError
from tests.integration.runtime.conftest import run
from tests.support.image_trees import import_tree, make_busybox_tree, make_python_tree
from tests.support.launchers import image_of, output_of, request_for, with_launcher

_TRAP = "import time\ntime.sleep(60)\n"
_FILL = """
import ctypes, os, signal, sys, time
libc = ctypes.CDLL(None)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN + 1])
count = 0
while libc.sigqueue(os.getpid(), signal.SIGRTMIN + 1, None) == 0:
    count += 1
"""

_FILL_AS_MANY = f"""
import os, sys, time
reading, writing = os.pipe()
users = range(1, 120)
for user in users:
    if os.fork() == 0:
        try:
            os.setresuid(user, user, user)
        except OSError:
            os.write(writing, b"%8d" % -1)
            os._exit(1)
{textwrap.indent(_FILL, " " * 8)}
        os.write(writing, b"%8d" % count)
        time.sleep(20)
        os._exit(0)
counts = [int(os.read(reading, 8)) for _ in users]
print("one user" if min(counts) < 0 else sum(counts), flush=True)
time.sleep(10)
"""

_LOCK = """
import fcntl, os, struct, time
print("began", flush=True)
# In many files, because the kernel looks through all locks of one.
for number in range(40):
    file = os.open(f"/tmp/{number}", os.O_RDWR | os.O_CREAT)
    for place in range(0, 2000, 2):
        fcntl.fcntl(file, {"F_SETLK": 6, "F_OFD_SETLK": 37}["COMMAND"], struct.pack("hhqqi4x", 1, 0, place, 1, 0))
time.sleep(20)
print("all of them")
"""


def test_no_file_of_an_image_is_executed_where_a_boot_fails_in_an_unforeseen_way(tmp_path: Path) -> None:
    # A traceback shows lines of the source, and reads them with the codec that their first line names.
    tree = tmp_path / "layers" / "trap"
    tree.mkdir(parents=True)
    make_busybox_tree(tree)
    for place, text in {
        Path(encodings.__file__).with_name("trap.py"): _TRAP,
        Path(encodings.__file__).parents[1] / "traceback.py": _TRAP,
        **dict.fromkeys(Path(guest.__file__).parent.glob("*.py"), "# coding: trap\n" + "x\n" * 500),
    }.items():
        inside = tree / str(place).lstrip("/")
        inside.parent.mkdir(parents=True, exist_ok=True)
        inside.write_text(text)

    async def boot(choice: Choice) -> None:
        with pytest.raises(LaunchError, match="ended while it booted"):  # and not: did not boot within 20 s
            await choice.boot(request_for(image_of(tree), directories=("/a\0b",)))

    with_launcher(tmp_path, boot, layers=tree.parent)


@pytest.mark.parametrize("user", ["0" * 5000, "\N{SNOWMAN}" * 5000])
def test_a_long_user_is_refused_with_the_reason(session: Session, user: str) -> None:
    name = import_tree(f"tests/busybox:user-{ord(user[0])}", make_busybox_tree, {"User": user})
    with pytest.raises(SandboxValidationError, match="no user"):
        session.sandbox(container_image=name).start().result()


@pytest.mark.parametrize("size", [70_000, 400_000])
def test_an_image_with_a_long_working_directory_ends_no_other_sandbox(session: Session, size: int) -> None:
    neighbour = session.sandbox()
    neighbour.start().result()
    name = import_tree(f"tests/busybox:long-{size}", make_busybox_tree, {"WorkingDir": "/" + "x/" * (size // 2)})
    with pytest.raises(SandboxValidationError, match="64 KiB"):
        session.sandbox(container_image=name).start().result()
    assert neighbour.exec(["echo", "well"]).result().stdout == "well\n"


def test_many_users_of_a_sandbox_use_up_no_signals_of_its_neighbours(session: Session) -> None:
    image = import_tree("tests/python:3", make_python_tree)
    attacker, neighbour = (session.sandbox(container_image=image) for _ in range(2))
    attack = attacker.exec(["python", "-c", _FILL_AS_MANY])
    first = next(iter(attack.stdout)).strip()
    if first == "one user":
        pytest.skip("a sandbox has one user id here")
    assert first == "1024"
    assert run(neighbour, _FILL + "print(count)").stdout == "1024\n"


def test_no_link_leads_a_command_to_the_directories_that_the_agent_keeps(tmp_path: Path) -> None:
    tree = tmp_path / "layers" / "links"
    tree.mkdir(parents=True)
    make_busybox_tree(tree)
    numbers = range(3, 40)
    for number in numbers:
        (tree / "srv" / str(number)).symlink_to(f"/proc/self/fd/{number}")

    async def enter(choice: Choice) -> list[str]:
        sandbox = await choice.boot(request_for(image_of(tree)))
        entered = []
        for place in ("/srv", *(f"/srv/{number}" for number in numbers)):
            with suppress(StartError):
                await sandbox.start(["/bin/ls"], {}, directory=place)
                entered.append(place)
        await sandbox.destroy()
        return entered

    assert with_launcher(tmp_path, enter, layers=tree.parent) == ["/srv"]


def test_no_volume_hides_what_processes_have_and_others_are_shown_through_links(tmp_path: Path) -> None:
    # The agent counts sockets, processes and descriptors in /proc.
    tree = tmp_path / "layers" / "links"
    tree.mkdir(parents=True)
    make_busybox_tree(tree)
    for name, target in (("data", "/proc/1"), ("all", "proc"), ("link", "/mnt/real")):
        (tree / name).symlink_to(target)

    async def mount(choice: Choice) -> str:
        image = image_of(tree)
        for path in ("/data/net", "/all", "/all/self", "/proc", "/proc/1/net"):
            with pytest.raises(RefusedLaunchError, match="is in /proc"):
                await choice.boot(request_for(image, mounts=(VolumeMount("own", path),)))
        sandbox = await choice.boot(request_for(image, mounts=(VolumeMount("own", "/link"),)))
        _, printed = await sandbox.run(["/bin/sh", "-c", "echo > /link/new; /bin/ls /mnt/real"], image)
        await sandbox.destroy()
        return printed.decode()

    assert with_launcher(tmp_path, mount, layers=tree.parent) == "new\n"


def test_no_request_that_is_long_in_json_ends_its_sandbox(tmp_path: Path) -> None:
    variables = {f"V{number}": "\x01" * 120_000 for number in range(16)}

    async def start(choice: Choice) -> int:
        sandbox = await choice.boot(request_for(choice.images[0]))
        _, process = await sandbox.start(["/usr/bin/env"], variables)
        output = 0
        while not isinstance(piece := await process.next_output(), Exit):
            output += len(piece[1])
        with pytest.raises(StartError, match="too long"):
            await sandbox.open_file("read", "/" + "\x01" * (4 << 20))
        assert (await sandbox.run(["/bin/true"], choice.images[0]))[0].code == 0
        await sandbox.destroy()
        return output

    assert with_launcher(tmp_path, start) > 16 * 120_000


@pytest.mark.parametrize("command", ["F_SETLK", "F_OFD_SETLK"])
@pytest.mark.parametrize("system", ["host", "image"])
def test_locks_of_files_are_bounded_where_no_control_group_counts_them(
    tmp_path: Path, system: str, command: str
) -> None:
    tree = tmp_path / "layers" / "python"
    tree.mkdir(parents=True)
    make_python_tree(tree)
    told: list[str] = []

    async def lock(choice: Choice) -> str:
        image = choice.images[0] if system == "host" else image_of(tree)
        sandbox = await HostSandbox.boot(choice.launcher, request_for(image))
        sandbox.on_limit = told.append
        printed = await output_of(sandbox, _LOCK.replace("COMMAND", command), image)
        await sandbox.destroy()
        return printed

    assert with_launcher(tmp_path, lock, layers=tree.parent) == "began\n"
    assert told[:1] == ["file locks"]
