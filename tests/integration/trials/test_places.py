"""Machines on threads, of a job that belongs to another thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from sandrl.errors import InfrastructureError
from sandrl.events import Event
from sandrl.runs.rows import SandboxEvent, SandboxRow
from sandrl.sandboxes import Interrupt, Job, Shape, connect, new_job_id
from sandrl.settings import RuntimeKind, load_settings
from sandrl.trials.machine import Machine
from sandrl.trials.place import JobPlace, RuntimeLost
from tests.support.dead_daemon import kill_daemon

PATIENCE_SECONDS = 60.0


class Working:
    """A job whose thread does nothing but work for others."""

    def __init__(self) -> None:
        self.ledger: list[SandboxRow] = []
        self.told: list[Event] = []
        self.interrupt = Interrupt()
        connection = connect(load_settings(), runtime=RuntimeKind.LOCAL)
        self.job = Job(
            connection,
            job_id=new_job_id(),
            max_lifetime_seconds=60,
            max_sandboxes=4,
            ledger=self.ledger.append,
            emit=self.told.append,
        )
        self.place = JobPlace(self.job, self.interrupt.wake)
        self._is_over = False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while not self._is_over:
            for launch in self.job.wait_any(self.interrupt, timeout_seconds=0.5):
                assert self.place.land(launch)
            self.place.take_turn()
        self.place.end(RuntimeError("it is over"))
        self.job.close()

    def end(self) -> None:
        self._is_over = True
        self.interrupt.wake()
        self._thread.join(PATIENCE_SECONDS)

    def machine(self, image: str, memory_bytes: int = 256 << 20, gpus: int = 0) -> Machine:
        shape = Shape(
            self.place.find_image(image),
            memory_bytes=memory_bytes,
            storage_bytes=256 << 20,
            gpus=gpus,
            as_root=True,
        )
        return Machine(self.place, shape, ("trial",))


@pytest.fixture
def working() -> Iterator[Working]:
    working = Working()
    yield working
    working.end()


def test_threads_share_a_job_within_its_limit_and_nothing_is_left(working: Working, images: dict[str, str]) -> None:
    def use(number: int) -> bytes:
        machine = working.machine(images["busybox"])
        machine.start()
        try:
            return machine.run(f"echo {number}; cat /srv/other 2>&1", timeout_seconds=30).stdout.splitlines()[0]
        finally:
            machine.close()

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(use, range(12))) == [str(number).encode() for number in range(12)]
    working.end()
    events = [row.event for row in working.ledger]
    assert events.count(SandboxEvent.CREATED) == events.count(SandboxEvent.STOPPED) == 12
    assert "trial" in working.ledger[0].tags
    assert working.job.connection.open().list([working.job.id]).result(PATIENCE_SECONDS) == []


def test_a_shape_that_cannot_be_had_costs_only_its_own_machine(working: Working, images: dict[str, str]) -> None:
    for memory_bytes in (1 << 39, 1 << 50):
        with pytest.raises(InfrastructureError, match="memory"):
            working.machine(images["busybox"], memory_bytes=memory_bytes).start()
    with pytest.raises(InfrastructureError, match=r"GPUs \(1\) are requested"):
        working.machine(images["busybox"], gpus=1).start()
    machine = working.machine(images["busybox"])
    machine.start()
    assert machine.run("echo well", timeout_seconds=30).stdout == b"well\n"
    machine.close()


def test_a_runtime_that_ends_takes_the_machine_along_and_the_next_one_starts(
    working: Working, images: dict[str, str]
) -> None:
    machine = working.machine(images["busybox"])
    machine.start()
    other, third = working.machine(images["busybox"]), working.machine(images["busybox"])
    for each in (other, third):
        each.start()
    terminal = other.terminal()
    assert terminal.run("sleep 1000", 0.1).is_running
    kill_daemon(load_settings().state_dir)
    with pytest.raises(RuntimeLost):
        machine.run("true", timeout_seconds=30)
    with pytest.raises(RuntimeLost):
        terminal.read(30)
    with pytest.raises(RuntimeLost):
        third.save()
    with pytest.raises(RuntimeLost):
        machine.read("/etc/passwd", 100)
    again = working.machine(images["busybox"])
    again.start()
    assert again.run("echo well", timeout_seconds=30).stdout == b"well\n"
    again.close()


def test_who_waits_at_the_end_gets_an_answer(working: Working, images: dict[str, str]) -> None:
    machine = working.machine(images["busybox"])
    machine.start()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(machine.run, "sleep 1000", timeout_seconds=500)
        working.end()
        with pytest.raises(RuntimeError, match="it is over"):
            waiting.result(PATIENCE_SECONDS)
    with pytest.raises(RuntimeError, match="it is over"):
        machine.run("true", timeout_seconds=10)
