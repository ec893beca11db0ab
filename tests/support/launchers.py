"""Sandboxes of this process: the launcher that a daemon would have, without a daemon."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from sandrl.runtime.host.choice import Choice, choose_launcher
from sandrl.runtime.host.images import Image, StoreImage, own_image
from sandrl.runtime.host.launcher import BootRequest
from sandrl.runtime.host.sandbox import HostSandbox

Value = TypeVar("Value")

PATH = "/usr/local/bin:/usr/bin:/bin"
TREE_VARIABLE = "SANDRL_TEST_TREE"
"""The root file system of an image, whose parent directory is taken for that of all layers."""


STORAGE_VARIABLE = "SANDRL_TEST_STORAGE"
"""How many bytes sandboxes from the image may write to disk; they write to memory unless it is set."""


def with_launcher(
    state: Path, use: Callable[[Choice], Awaitable[Value]], images: Sequence[Image] = (), layers: Path | None = None
) -> Value:
    """Runs a coroutine with the launcher that a daemon in this directory would have."""
    overlays = state / "overlays"
    overlays.mkdir(mode=0o755, exist_ok=True)
    if TREE_VARIABLE in os.environ:
        layers = Path(os.environ[TREE_VARIABLE]).parent

    async def run() -> Value:
        choice = await choose_launcher(images or [own_image()], state, overlays, layers)
        try:
            return await use(choice)
        finally:
            await choice.close()

    return asyncio.run(run())


def image_of(tree: Path, user: str = "") -> StoreImage:
    """An image of one layer."""
    return StoreImage(tree.name, "", (tree.name,), (("PATH", PATH),), user=user)


def chosen(choice: Choice) -> Image | StoreImage:
    """What the sandboxes of a driver start from: the host's system, or the image of `TREE_VARIABLE`."""
    tree = os.environ.get(TREE_VARIABLE)
    return image_of(Path(tree)) if tree else choice.images[0]


def request_for(image: Image | StoreImage, **changes: Any) -> BootRequest:
    changes.setdefault("storage_bytes", int(os.environ.get(STORAGE_VARIABLE, 0)))
    return BootRequest(image.name, layers=image.layers, user=image.user, **changes)


async def output_of(sandbox: HostSandbox, program: str, image: Image | StoreImage) -> str:
    """What a Python program prints in a sandbox."""
    return (await sandbox.run(["python", "-c", program], image))[1].decode()
