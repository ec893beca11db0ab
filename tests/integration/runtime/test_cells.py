"""What a worker sandbox is allowed to make cells; neither other sandboxes nor programs in cells are allowed it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandrl.runtime.guest.watchdog import PIPES
from sandrl.runtime.host.choice import Choice
from sandrl.runtime.host.launcher import BootRequest
from tests.support.drivers import answer_of
from tests.support.launchers import with_launcher

MODES = (
    "native",
    "native as another user",
    "native from an image",
    "native as another user with ids of /etc/subuid from an image",
    "native as another user from an image",
    "native as another user from an image copied",
)
REFUSED = {
    "unshare user": "ENOSPC",
    "unshare mount": "EPERM",
    "unshare network": "EPERM",
    "unshare pid": "EPERM",
    "unshare files": "EPERM",
    "clone user": "ENOSPC",
    "clone mount": "EPERM",
    "clone user and mount": "ENOSPC",
    "clone cgroup": "EPERM",
    "mount": "EPERM",
    "remount": "EPERM",
    "umount": "EPERM",
    "pivot_root": "EPERM",
    "mount_setattr": "EPERM",
    "max_user_namespaces": "EACCES",
    "setns": "EPERM",
    "chroot": "EPERM",
    "sethostname": "EPERM",
    "clone3": "ENOSYS",
    "open_tree": "EPERM",
    "fsopen": "EPERM",
}
"""With what a program in a cell is refused; 0 namespaces are the limit that it meets where it could make one."""

Facts = dict[str, Any]


@pytest.fixture(scope="module", params=MODES)
def facts(request: pytest.FixtureRequest) -> Iterator[Facts]:
    """What the cell maker found in each sandbox."""
    place = Path("/tmp") / f"sandrl-cells-{os.getpid()}-{MODES.index(request.param)}"
    place.mkdir(mode=0o755)
    try:
        found = answer_of(place, request.param, "sandbox_driver.py", "cells", texts=("cell_maker.py",))
        yield {**found, "of image": "an image" in request.param}
    finally:
        shutil.rmtree(place, ignore_errors=True)


def test_a_root_daemon_that_has_one_host_uid_makes_no_cells_of_images() -> None:
    """Its worker would have to be user 0, whom the kernel gives no namespaces with user 0 without a capability."""
    place = Path("/tmp") / f"sandrl-cells-{os.getpid()}-shared"
    place.mkdir(mode=0o755)
    try:
        mode = "native from an image with shared ids"
        found = answer_of(place, mode, "sandbox_driver.py", "cells", texts=("cell_maker.py",))
    finally:
        shutil.rmtree(place, ignore_errors=True)
    assert found["worker"]["worker maps"] == ("EPERM" if os.getuid() == 0 else None)


@pytest.fixture(params=["worker", "worker in a group"])
def worker(facts: Facts, request: pytest.FixtureRequest) -> Facts:
    found: Facts | None = facts[request.param]
    if found is None:
        pytest.skip("this user can make no control groups")
    return found


def test_a_worker_can_make_everything_read_only_for_its_cells(worker: Facts) -> None:
    steps = {name: error for name, error in worker.items() if name != "cell"}
    assert steps.pop("a file in a worker") == "EROFS"
    assert set(steps.values()) == {None}, steps


def test_a_cell_gets_namespaces_files_processes_and_a_network_of_its_own(worker: Facts) -> None:
    cell = dict(worker["cell"])
    del cell["program"]
    assert cell.pop("pid") == 1
    assert cell.pop("processes") == ["1"]
    assert set(cell.values()) == {None}, cell


def test_a_program_in_a_cell_can_use_nothing_of_what_made_it(worker: Facts) -> None:
    assert worker["cell"]["program"] == REFUSED


def test_a_sandbox_that_is_no_worker_can_make_no_cell(facts: Facts) -> None:
    filtered = {name: "EPERM" for name, error in REFUSED.items() if error == "ENOSPC"}
    # User 0 of an image may have another root, in which it has no more than before.
    of_user_0 = {"chroot": None, "max_user_namespaces": "EROFS"} if facts["of image"] else {}
    assert facts["plain"] == REFUSED | filtered | of_user_0


async def exit_code_of(choice: Choice, cells: int, program: str) -> int:
    image = choice.images[0]
    sandbox = await choice.boot(BootRequest(image.name, cells=cells))
    end, _ = await sandbox.run(["python", "-c", program], image)
    await sandbox.destroy()
    return end.code


def test_a_worker_has_the_pipes_of_several_sandboxes_but_not_all_of_its_host_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SANDRL_RUNTIME_ISOLATION", "native")
    of_user = int(Path("/proc/sys/fs/pipe-user-pages-soft").read_text()) // 16
    if not 4 * PIPES < of_user <= 1024:
        pytest.skip("this kernel gives a user another number of pipes than most do")
    pipes = (
        "import os, time\n"
        "parent = os.getpid()\n"
        "for child in range({}):\n"
        "    if os.getpid() == parent: os.fork()\n"
        "held = [os.pipe() for _ in range(240)]\n"
        "time.sleep(2)\n"
    )

    async def compare(choice: Choice) -> list[int]:
        worker_children = [(0, 0), (8, 1), (8, 2)]
        return [await exit_code_of(choice, cells, pipes.format(count)) for cells, count in worker_children]

    assert with_launcher(tmp_path, compare) == [137, 0, 137]
