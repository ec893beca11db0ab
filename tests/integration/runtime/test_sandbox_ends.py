"""How a sandbox is seen to end, step by step."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from sandrl.runtime.host.boots import Boots
from sandrl.runtime.host.choice import choose_launcher
from sandrl.runtime.host.images import own_image
from sandrl.runtime.host.launcher import BootRequest
from sandrl.runtime.host.sandbox import HostSandbox, SandboxGoneError
from sandrl.runtime.limits import START_TIMEOUT_SECONDS


def test_nothing_is_started_in_a_sandbox_whose_agent_is_gone_and_whose_processes_are_not(tmp_path: Path) -> None:
    async def use() -> None:
        image = own_image()
        (tmp_path / "overlays").mkdir()
        choice = await choose_launcher([image], tmp_path, tmp_path / "overlays")
        boots = Boots(choice.launcher, BootRequest(image.name), choice.groups)
        try:
            spare = await HostSandbox.boot(choice.launcher, BootRequest(image.name), choice.groups)
            boots._spares.append(spare)
            assert spare.alive
            assert spare._channel is not None
            spare._channel.close()
            begun = time.monotonic()
            with pytest.raises(SandboxGoneError):
                await spare.start(["true"], {})
            seconds = time.monotonic() - begun
            assert seconds < START_TIMEOUT_SECONDS / 3
            # The loop has not heard of the end of its processes yet.
            assert (spare.alive, spare.ended.is_set()) == (False, False)
            assert await boots.boot(BootRequest(image.name)) is not spare
        finally:
            await boots.close()

    asyncio.run(use())
