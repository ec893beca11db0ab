"""Who sandboxes are on the host: with a root daemon, each has user ids that no other process has."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest

from sandrl.runtime import daemon
from sandrl.runtime.guest import agent
from sandrl.runtime.host.choice import Choice
from sandrl.runtime.host.images import Image, find_images
from sandrl.runtime.host.launcher import BootRequest
from sandrl.runtime.host.process import Exit
from sandrl.runtime.host.users import BLOCK
from tests.support.drivers import answer_of
from tests.support.fork_server import host_uids, inner_process, outer_process
from tests.support.launchers import PATH, output_of, with_launcher
from tests.support.programs import require_program

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only a root daemon takes a range of host uids")
NOBODY = 65534
GUEST = Path(agent.__file__)
SUBORDINATE = "native as another user with ids of /etc/subuid"


def of_process(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text()


@pytest.fixture(autouse=True)
def native(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test does not change."""
    monkeypatch.setenv("SANDRL_RUNTIME_ISOLATION", "native")


@needs_root
@pytest.mark.parametrize("launcher", ["native", "bubblewrap"])
def test_each_living_sandbox_has_host_uids_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launcher: str
) -> None:
    images = find_images()[:1]
    if launcher == "bubblewrap":
        require_program("bwrap")
        system = os.path.realpath("/usr/bin/python3")
        images = [Image(system.partition("python")[2], "/usr", system)]
        if not os.path.exists(system) or not all(parent.stat().st_mode & 1 for parent in GUEST.parents):
            pytest.skip("bwrap as another user needs an interpreter and sources that others can read")
    monkeypatch.setenv("SANDRL_RUNTIME_ISOLATION", launcher)

    async def look(choice: Choice) -> None:
        request = BootRequest(choice.images[0].name)
        sandboxes = [await choice.boot(request) for _ in range(5)]
        found = [host_uids(sandbox.pid) for sandbox in sandboxes]
        assert all(len(set(uids)) == 1 for uids in found)
        numbers = sorted({uids[0] for uids in found})
        assert len(numbers) == 5
        window = choice.launcher.users.window
        assert window is not None
        assert all(window.start + BLOCK <= number < window.start + window.count for number in numbers)
        assert all(later - earlier >= BLOCK for earlier, later in pairwise(numbers))
        program = "import os; print(os.getuid(), os.stat('/workspace').st_uid)"
        inside = await output_of(sandboxes[0], program, images[0])
        assert inside == "1000 1000\n"
        for sandbox in sandboxes:
            await sandbox.destroy()

    with_launcher(tmp_path, look, images)


@needs_root
def test_blocks_are_used_again_once_their_sandbox_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDRL_HOST_UIDS", f"2140000000:{4 * BLOCK}")

    async def use_up(choice: Choice) -> None:
        request = BootRequest(choice.images[0].name)
        for _ in range(10):
            first, second, third = [await choice.boot(request) for _ in range(3)]
            with pytest.raises(Exception, match="every host uid of the range is in use"):
                await choice.boot(request)
            for sandbox in (first, second, third):
                await sandbox.destroy()

    with_launcher(tmp_path, use_up)


@needs_root
def test_a_process_of_nobody_can_neither_signal_nor_trace_the_fork_server_or_a_sandbox(tmp_path: Path) -> None:
    program = (
        "import ctypes, os, sys\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "for pid in map(int, sys.argv[1:]):\n"
        "    try:\n        os.kill(pid, 9); print('killed')\n"
        "    except OSError as error:\n        print(error.errno)\n"
        "    print(libc.ptrace(16, pid, 0, 0), ctypes.get_errno())\n"
    )

    async def attack(choice: Choice) -> None:
        sandbox = await choice.boot(BootRequest(choice.images[0].name))
        pids = [outer_process(os.getpid()), inner_process(os.getpid()), sandbox.pid]
        assert all(pids)
        done = await asyncio.to_thread(
            subprocess.run,
            ["/usr/bin/python3", "-c", program, *map(str, pids)],
            capture_output=True,
            text=True,
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            check=True,
            cwd="/",
        )
        assert done.stdout.split() == ["1", "-1", "1"] * 3  # EPERM each time
        assert sandbox.alive
        await sandbox.destroy()

    with_launcher(tmp_path, attack)


@needs_root
def test_the_fork_server_has_no_right_over_the_host_and_an_id_that_no_sandbox_has(tmp_path: Path) -> None:

    async def look(choice: Choice) -> None:
        window = choice.launcher.users.window
        assert window is not None
        for pid in (outer_process(os.getpid()), inner_process(os.getpid())):
            assert set(host_uids(pid)) == {window.start}
        outside = of_process(outer_process(os.getpid()), "status")
        assert re.findall(r"^Cap(?:Prm|Eff):\s+(\w+)", outside, re.MULTILINE) == ["0" * 16] * 2
        inner = inner_process(os.getpid())
        assert os.readlink(f"/proc/{inner}/ns/user") != os.readlink("/proc/self/ns/user")
        mapped = [list(map(int, line.split())) for line in of_process(inner, "uid_map").splitlines()]
        assert all(window.start <= outside < window.start + window.count for _, outside, _ in mapped)

    with_launcher(tmp_path, look)


@needs_root
def test_a_sandbox_that_takes_pipes_without_end_leaves_another_one_its_own(tmp_path: Path) -> None:
    """A user over `fs.pipe-user-pages-soft` gets pipes of two pages instead of sixteen."""
    if not int(Path("/proc/sys/fs/pipe-user-pages-soft").read_text()):
        pytest.skip("this kernel bounds no pipes per user")
    greedy = (
        "import os, time\n"
        "for child in range(16):\n"
        "    if os.fork() == 0:\n"
        "        pipes = [os.pipe() for _ in range(200)]\n"
        "        time.sleep(60)\n"
        "print('taken', flush=True)\n"
        "time.sleep(60)\n"
    )
    measure = "import fcntl, os; print(fcntl.fcntl(os.pipe()[0], 1032))"

    async def share(choice: Choice) -> None:
        request = BootRequest(choice.images[0].name)
        hostile, honest = [await choice.boot(request) for _ in range(2)]
        environment = {"PATH": PATH, **choice.images[0].environment}
        _, process = await hostile.start(["python", "-c", greedy], environment, merge_output=True)
        for _ in range(3):
            assert await output_of(honest, measure, choice.images[0]) == "65536\n"
        while not isinstance(ended := await process.next_output(), Exit):
            assert ended[1] == b"taken\n"
        assert ended.code == 137, "the watchdog of its sandbox ends it"
        for sandbox in (hostile, honest):
            await sandbox.destroy()

    with_launcher(tmp_path, share)


def test_a_shared_uid_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDRL_HOST_UIDS", "shared")
    daemon.ensure_running(tmp_path)
    try:
        uid = NOBODY if os.getuid() == 0 else os.getuid()
        assert f"share host uid {uid}" in daemon.status(tmp_path).host_users
    finally:
        daemon.stop(tmp_path)


@needs_root
def test_an_ordinary_user_with_ids_in_subuid_gets_them_through_newuidmap() -> None:
    place = Path(tempfile.mkdtemp(prefix="sandrl-subuid-"))
    try:
        place.chmod(0o755)
        found = answer_of(place, SUBORDINATE, "sandbox_driver.py", "uids", user=48123)
    finally:
        shutil.rmtree(place)
    assert "newuidmap" in found["detail"]
    assert len(set(found["uids"])) == 2
    assert all(700000 <= uid < 765536 for uid in found["uids"])
