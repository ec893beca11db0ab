"""Runs the cell maker in sandboxes that are workers and in some that are not; prints what it found in each.

Standard library and `sandrl.runtime` only, so that the system's own interpreter can run it as another user:
`python cells_driver.py LAUNCHER STATE_DIR`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from sandrl.runtime.host.choice import Choice, choose_launcher
from sandrl.runtime.host.control_groups import ControlGroups
from sandrl.runtime.host.images import find_images
from sandrl.runtime.host.launcher import BootRequest
from sandrl.runtime.host.sandbox import HostSandbox

MAKER = Path(__file__).with_name("cell_maker.py").read_text(encoding="utf-8")


async def found(choice: Choice, groups: ControlGroups | None, cells: int, *arguments: str) -> Any:
    """What the cell maker prints in one sandbox."""
    image = choice.images[0]
    sandbox = await HostSandbox.boot(choice.launcher, BootRequest(image.name, cells=cells), groups)
    output = await sandbox.run(["python", "-c", MAKER, *arguments], image)
    await sandbox.destroy()
    return json.loads(output)


async def main(launcher_name: str, state: Path) -> None:
    os.environ["SANDRL_RUNTIME_ISOLATION"] = launcher_name
    overlays = state / "overlays"
    overlays.mkdir(exist_ok=True)
    choice = await choose_launcher(find_images()[:1], state, overlays)
    facts: dict[str, Any] = {"plain": await found(choice, choice.groups, 0, "program")}
    facts["worker"] = await found(choice, None, 3)
    facts["worker in a group"] = await found(choice, choice.groups, 3) if choice.groups else None
    await choice.close()
    sys.stdout.write(json.dumps(facts))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
