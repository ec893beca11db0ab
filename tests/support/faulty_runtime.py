"""The real server of the local runtime, as a process of its own, with faults on request.

`python -m tests.support.faulty_runtime STATE_DIR [--records N] [--fail-every K] [--fail-once] [--hold-after N FILE]`
publishes itself in the state directory like any daemon, so commands find it there. Records are sandboxes without a
process behind them: the registry, its pages and every call on them are real, only there is nothing to kill. Every K-th
stop of a sandbox fails, always for the same sandboxes; with `--fail-once` the first stop of each. With `--hold-after`
all stops but the first N wait until FILE exists.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from cwsandbox._proto import sandbox_pb2 as pb

from sandrl.runtime.server import app, faults
from sandrl.runtime.server.plan import make_plan
from sandrl.runtime.server.records import Record
from sandrl.runtime.server.sandboxes import SandboxManager
from sandrl.runtime.state import DaemonEndpoint, RuntimeDirectory


class FaultyManager(SandboxManager):
    """A manager some of whose stops fail."""

    tags: Sequence[str] = ()
    records = 0
    fail_every = 0
    fail_once = False
    stops = 0
    hold_after: int | None = None
    released = Path()

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._failed: set[str] = set()
        for _ in range(self.records):
            self.registry.add(self._bare_record())

    def _bare_record(self) -> Record:
        container = pb.Container(name="main", image=self._images.host[0].reference, primary=True)
        spec = pb.SandboxSpec(containers=[container], tags=self.tags, max_lifetime_seconds=3600)
        record = Record(str(uuid.uuid4()), spec, make_plan(spec, self._images.host[0]), state=pb.STATE_RUNNING)
        record.started = time.time()
        return record

    async def delete(self, record: Record, grace_seconds: float, reason: str = "stopped") -> None:
        self.stops += 1
        if self.hold_after is not None and self.stops > self.hold_after:
            while not self.released.exists():  # noqa: ASYNC110 - another process makes it
                await asyncio.sleep(0.05)
        if self.fail_every and record.sequence % self.fail_every == 0:
            raise faults.Fault(grpc.StatusCode.INTERNAL, "the node does not answer")
        if self.fail_once and record.sandbox_id not in self._failed:
            self._failed.add(record.sandbox_id)
            raise faults.Fault(grpc.StatusCode.INTERNAL, "the node does not answer at once")
        if record.host is None:
            record.finish(pb.STATE_TERMINATED, reason)
        await super().delete(record, grace_seconds, reason=reason)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("state_dir", type=Path)
    parser.add_argument("--records", type=int, default=0)
    parser.add_argument("--fail-every", type=int, default=0)
    parser.add_argument("--fail-once", action="store_true")
    parser.add_argument("--hold-after", nargs=2)
    parser.add_argument("--tag", action="append", default=[])
    options = parser.parse_args()
    FaultyManager.records, FaultyManager.fail_every = options.records, options.fail_every
    FaultyManager.fail_once = options.fail_once
    FaultyManager.tags = options.tag
    if options.hold_after:
        FaultyManager.hold_after, FaultyManager.released = int(options.hold_after[0]), Path(options.hold_after[1])
    app.SandboxManager = FaultyManager  # type: ignore[attr-defined,assignment]

    def announce(endpoint: DaemonEndpoint) -> None:
        sys.stdout.write(f"{endpoint.base_url}\n")
        sys.stdout.flush()

    app.run(RuntimeDirectory(options.state_dir), idle_timeout_seconds=None, announce=announce)


@contextmanager
def faulty_runtime(state_dir: Path, *options: str) -> Iterator[str]:
    """Runs one for the length of a `with` block, and gives its address."""
    argv = [sys.executable, "-m", "tests.support.faulty_runtime", str(state_dir), *options]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        assert address, "it did not start"
        yield address
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


if __name__ == "__main__":
    main()
