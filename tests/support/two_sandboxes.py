"""Boots two sandboxes as a daemon of this user would, and prints who they are on the host, as JSON.

Standard library and `sandrl.runtime` only, so that the system's own interpreter can run it as another user.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from sandrl.runtime.host.choice import choose_launcher
from sandrl.runtime.host.images import find_images
from sandrl.runtime.host.launcher import BootRequest


def _uid(pid: int) -> int:
    return int(Path(f"/proc/{pid}/status").read_text(encoding="utf-8").partition("\nUid:")[2].split()[0])


async def main(state: Path) -> None:
    choice = await choose_launcher(find_images()[:1], state, state / "overlays")
    sandboxes = [await choice.boot(BootRequest(choice.images[0].name)) for _ in range(2)]
    sys.stdout.write(
        json.dumps({"detail": choice.launcher.users.detail, "uids": [_uid(each.pid) for each in sandboxes]})
    )
    for sandbox in sandboxes:
        await sandbox.destroy()
    await choice.launcher.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
