"""Machines from images that are made of this machine's own files, in one local runtime of the test session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandrl.events import Event
from sandrl.rollouts.sandbox import JobSandboxes
from sandrl.sandboxes import Job, Shape, connect, new_job_id
from sandrl.settings import RuntimeKind, load_settings
from sandrl.trials.machine import Machine
from tests.support.image_trees import copy_program, import_tree, make_busybox_tree
from tests.support.programs import require_program

BUSYBOX, DEBIAN, BARE = "trials-busybox:1", "trials-debian:1", "trials-bare:1"
ELSEWHERE, OPEN = "trials-elsewhere:1", "trials-open:1"
_PROGRAMS = ("bash", "setpriv", "chroot", "head", "tail", "tar", "mktemp", "wc", "sleep", "nohup", "setsid")


def _busybox(place: Path) -> None:
    make_busybox_tree(place)
    for name in ("tail", "tar", "mktemp", "wc"):
        (place / "bin" / name).symlink_to("busybox")


def _debian(place: Path) -> None:
    _busybox(place)
    for name in _PROGRAMS:
        copy_program(Path(require_program(name)), place)
    # That of busybox runs its own programs, whatever PATH says.
    copy_program(Path(require_program("dash")), place)
    (place / "bin/sh").unlink()
    (place / "bin/sh").symlink_to("dash")


def _bare(place: Path) -> None:
    make_busybox_tree(place)
    for path in (place / "bin").iterdir():
        if path.name not in ("busybox", "sh", "cat", "mkdir", "ln", "chmod", "ls"):
            path.unlink()
    (place / "bin/busybox").rename(place / "bin/.shell")
    for path in (place / "bin").iterdir():
        if path.is_symlink():
            path.unlink()
            path.symlink_to(".shell")


def _elsewhere(place: Path) -> None:
    _busybox(place)
    (place / "opt").mkdir()
    (place / "bin").rename(place / "opt/tools")


def _open(place: Path) -> None:
    _elsewhere(place)
    (place / "opt/tools").chmod(0o777)


@pytest.fixture(scope="session")
def images() -> dict[str, str]:
    """Names of images: one with programs of Debian, one with busybox alone, one with next to nothing.

    Two have busybox in a directory that `PATH` alone names; all users can write that of the second one.
    """
    made: dict[str, Callable[[Path], None]] = {BUSYBOX: _busybox, DEBIAN: _debian, BARE: _bare}
    found = {name: import_tree(name, make) for name, make in made.items()}
    for name, make in ((ELSEWHERE, _elsewhere), (OPEN, _open)):
        found[name] = import_tree(name, make, {"Env": ["PATH=/opt/tools"]})
    return {name.split("-")[1].split(":")[0]: image for name, image in found.items()}


@pytest.fixture(scope="session")
def job() -> Iterator[Job]:
    connection = connect(load_settings(), runtime=RuntimeKind.LOCAL)
    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=600) as job:
        yield job


@pytest.fixture
def told() -> list[Event]:
    return []


@pytest.fixture
def place(job: Job, told: list[Event]) -> JobSandboxes:
    return JobSandboxes(job, emit=told.append)


@pytest.fixture
def machines(place: JobSandboxes, images: dict[str, str]) -> Iterator[Callable[..., Machine]]:
    """Starts machines of an image, which are closed after the test."""
    made: list[Machine] = []

    def start(name: str, *, image: str = "", states: Path | None = None) -> Machine:
        found = place.find_image(image or images[name])
        shape = Shape(found, memory_bytes=1 << 30, storage_bytes=1 << 30, as_root=True)
        machine = Machine(place, shape, ("trial",), task_id="machine", states=states)
        made.append(machine)
        machine.start()
        return machine

    yield start
    for machine in made:
        machine.close()


@pytest.fixture(params=["debian", "busybox"])
def machine(request: pytest.FixtureRequest, machines: Callable[..., Machine]) -> Machine:
    return machines(request.param)
