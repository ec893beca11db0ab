"""How a sandbox is seen to end, step by step."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sandrl.runtime.host.boots import Boots
from sandrl.runtime.host.choice import Choice
from sandrl.runtime.host.launcher import BootRequest
from sandrl.runtime.host.sandbox import SandboxGoneError
from sandrl.runtime.limits import START_TIMEOUT_SECONDS
from tests.support.launchers import with_launcher


def test_nothing_is_started_in_a_sandbox_whose_agent_is_gone_and_whose_processes_are_not(tmp_path: Path) -> None:
    async def use(choice: Choice) -> None:
        request = BootRequest(choice.images[0].name)
        boots = Boots(choice)
        spare = await choice.boot(request)
        boots._spares.append(spare)
        assert spare.alive
        assert spare._channel is not None
        spare._channel.close()
        begun = time.monotonic()
        with pytest.raises(SandboxGoneError):
            await spare.start(["true"], {})
        assert time.monotonic() - begun < START_TIMEOUT_SECONDS / 3
        # The loop has not heard of the end of its processes yet.
        assert (spare.alive, spare.ended.is_set()) == (False, False)
        assert await boots.boot(request) is not spare
        await boots.close()

    with_launcher(tmp_path, use)
