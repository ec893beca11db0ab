"""Does one thing in sandboxes that a daemon of this user would have, and prints what came of it as JSON.

Standard library and `sandrl.runtime` only, so that the system's own interpreter can run it as another user:

    python sandbox_driver.py STATE_DIR reach PATHS PORTS    what the hostile probe can reach
    python sandbox_driver.py STATE_DIR root                 what user 0 of an image can do
    python sandbox_driver.py STATE_DIR cells                what the cell maker finds in workers and in a plain sandbox
    python sandbox_driver.py STATE_DIR uids                 who two sandboxes are on the host
    python sandbox_driver.py STATE_DIR owners               whether a file gets another owner, in a step and elsewhere
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from launchers import chosen, request_for, with_launcher  # type: ignore[import-not-found]

from sandrl.runtime.host.choice import Choice
from sandrl.runtime.host.control_groups import ControlGroups
from sandrl.runtime.host.launcher import BootRequest
from sandrl.runtime.host.sandbox import HostSandbox


async def _answer(choice: Choice, groups: ControlGroups | None, cells: int, text: str, *words: str) -> Any:
    image = chosen(choice)
    program = Path(__file__).with_name(text).read_text(encoding="utf-8")
    sandbox = await HostSandbox.boot(choice.launcher, request_for(image, cells=cells), groups)
    _, output = await sandbox.run(["python", "-c", program, *words], image)
    await sandbox.destroy()
    return json.loads(output)


async def reach(choice: Choice, *words: str) -> Any:
    return await _answer(choice, choice.groups, 0, "hostile_probe.py", *words)


async def root(choice: Choice) -> Any:
    return await _answer(choice, choice.groups, 0, "root_probe.py")


async def cells(choice: Choice) -> Any:
    maker = "cell_maker.py"
    return {
        "plain": await _answer(choice, choice.groups, 0, maker, "program"),
        "worker": await _answer(choice, None, 3, maker),
        "worker in a group": await _answer(choice, choice.groups, 3, maker) if choice.groups else None,
    }


async def owners(choice: Choice) -> Any:
    image, found = chosen(choice), []
    program = "import os; os.mkdir('/made'); os.chown('/made', 7, 7); print(os.stat('/made').st_uid)"
    for pretends in (True, False):
        sandbox = await HostSandbox.boot(choice.launcher, request_for(image, pretends_owners=pretends), choice.groups)
        _, output = await sandbox.run(["python", "-c", program], image)
        await sandbox.destroy()
        found.append(output.decode().splitlines()[-1])
    return found


async def uids(choice: Choice) -> Any:
    sandboxes = [await choice.boot(BootRequest(choice.images[0].name)) for _ in range(2)]
    statuses = [Path(f"/proc/{each.pid}/status").read_text(encoding="utf-8") for each in sandboxes]  # noqa: ASYNC240
    for sandbox in sandboxes:
        await sandbox.destroy()
    found = [int(text.partition("\nUid:")[2].split()[0]) for text in statuses]
    return {"detail": choice.launcher.users.detail, "uids": found}


if __name__ == "__main__":
    _state, _what, *_words = sys.argv[1:]
    _work = {"reach": reach, "root": root, "cells": cells, "uids": uids, "owners": owners}[_what]
    sys.stdout.write(json.dumps(with_launcher(Path(_state), lambda choice: _work(choice, *_words))))
