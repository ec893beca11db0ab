"""Machines that are used from an event loop: what is left of calls that were cancelled."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest

from sandrl.integrations.machines import AsyncMachine
from sandrl.trials.entries import Entry


def living(tag: str) -> int:
    ls = [sys.executable, "-m", "sandrl", "sandboxes", "ls", "--json"]
    listed = subprocess.run(ls, check=True, capture_output=True, text=True)
    return sum(tag in each["tags"] for each in json.loads(listed.stdout)["sandboxes"])


async def test_a_start_that_is_cancelled_leaves_no_sandbox() -> None:
    # The runtime and the job are there, so that the next one starts at once.
    (await AsyncMachine.start()).close()
    starting = asyncio.create_task(AsyncMachine.start(tags=("cancelled-start",)))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    # It comes after this one has been made, or before.
    (await AsyncMachine.start()).close()
    while await asyncio.to_thread(living, "cancelled-start"):
        pass


async def test_files_are_written_in_turn_also_if_one_write_is_cancelled() -> None:
    machine = await AsyncMachine.start()
    try:
        first = asyncio.create_task(machine.put("/tmp/a", [Entry("file", content=b"x" * 10_000_000)]))
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await machine.put("/tmp/b", [Entry("file", content=b"second")])
        assert await machine.read("/tmp/b/file") == b"second"
    finally:
        machine.close()
