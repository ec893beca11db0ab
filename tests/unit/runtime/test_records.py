"""What the daemon remembers of ended sandboxes is bounded, however many there were."""

from __future__ import annotations

import asyncio
import gc
import weakref
from pathlib import Path

import pytest
from cwsandbox._proto import sandbox_pb2 as pb

from sandrl.runtime import limits
from sandrl.runtime.guest.wire import FrameReader
from sandrl.runtime.host.choice import choose_launcher
from sandrl.runtime.host.images import Image, Images, find_images
from sandrl.runtime.host.sandbox import HostSandbox
from sandrl.runtime.server import sandboxes
from sandrl.runtime.server.logs import Log
from sandrl.runtime.server.plan import Plan, make_plan
from sandrl.runtime.server.records import Record, Registry
from sandrl.runtime.server.sandboxes import SandboxManager

KEPT = 8
IMAGES = [Image("3.11", "/usr", "/usr/bin/python3.11")]


@pytest.fixture(autouse=True)
def _few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TERMINATED_KEPT", KEPT)
    monkeypatch.setattr(limits, "ENDED_LOGS_MAX_BYTES", 1000)
    monkeypatch.setattr(sandboxes, "_REMEMBERED_REQUESTS", KEPT)


def spec(image: str = "python:3.11", command: str = "") -> pb.SandboxSpec:
    return pb.SandboxSpec(containers=[pb.Container(name="main", image=image, command=command)], tags=["a", "b"])


@pytest.mark.parametrize("output", [b"", b"a line\n", b"much" * 100])
def test_ended_sandboxes_are_forgotten_after_so_many_others(output: bytes) -> None:
    registry = Registry()
    records, logs = weakref.WeakSet[Record](), weakref.WeakSet[Log]()
    for number in range(10 * KEPT):
        record = Record(str(number), spec(), make_plan(spec(), IMAGES[0]))
        records.add(record)
        logs.add(record.log)
        registry.add(record)
        if output:
            record.log.append(output)
        record.finish(pb.STATE_TERMINATED)
        registry.retire(record)
    newest = [str(number) for number in range(9 * KEPT, 10 * KEPT)]
    assert [registry.get(name).sandbox_id for name in newest] == newest
    del record
    gc.collect()
    assert (len(records), len(logs)) == (KEPT, KEPT)
    assert sum(log.kept_bytes for log in logs) <= 1000


def test_a_manager_holds_as_much_after_many_sandboxes_as_after_some(tmp_path: Path) -> None:
    images = find_images()[:1]
    kinds = (Record, Plan, Log, HostSandbox, FrameReader, asyncio.Task, asyncio.TimerHandle, pb.SandboxSpec)

    def held() -> dict[str, int]:
        gc.collect()
        objects = gc.get_objects()
        return {kind.__name__: sum(isinstance(each, kind) for each in objects) for kind in kinds}

    async def run() -> tuple[dict[str, int], dict[str, int]]:
        choice = await choose_launcher(images, tmp_path, tmp_path / "overlays")
        manager = SandboxManager(choice, Images(images, None), "here", tmp_path / "overlays", tmp_path / "snapshots")

        async def use(count: int, name: str) -> None:
            for number in range(count):
                command = "true" if number % 2 else ""
                record = await manager.create(spec(images[0].reference, command), f"{name}-{number}")
                await manager.delete(record, 0.0)
                await record.terminal.wait()
            await asyncio.sleep(0.2)

        try:
            await use(2 * KEPT, "some")
            before = held()
            await use(2 * KEPT, "many")
            return before, held()
        finally:
            await manager.close()

    (tmp_path / "overlays").mkdir()
    before, after = asyncio.run(run())
    assert before["Record"] >= KEPT
    # A timer that was cancelled is forgotten a little later, and spare sandboxes come and go.
    assert {kind: after[kind] - count for kind, count in before.items() if after[kind] > count + KEPT} == {}
