"""Sandboxes of this process: the launcher that a daemon would have, without a daemon."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from sandrl.runtime.host.choice import Choice, choose_launcher
from sandrl.runtime.host.images import Image, own_image
from sandrl.runtime.host.sandbox import HostSandbox

Value = TypeVar("Value")

PATH = "/usr/local/bin:/usr/bin:/bin"


def with_launcher(state: Path, use: Callable[[Choice], Awaitable[Value]], images: Sequence[Image] = ()) -> Value:
    """Runs a coroutine with the launcher that a daemon in this directory would have."""
    overlays = state / "overlays"
    overlays.mkdir(mode=0o755, exist_ok=True)

    async def run() -> Value:
        choice = await choose_launcher(images or [own_image()], state, overlays)
        try:
            return await use(choice)
        finally:
            await choice.close()

    return asyncio.run(run())


async def output_of(sandbox: HostSandbox, program: str, image: Image) -> str:
    """What a Python program prints in a sandbox."""
    return (await sandbox.run(["python", "-c", program], image))[1].decode()
