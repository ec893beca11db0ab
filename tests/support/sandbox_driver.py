"""Does one thing in sandboxes that a daemon of this user would have, and prints what came of it as JSON.

Standard library and `sandrl.runtime` only, so that the system's own interpreter can run it as another user:

    python sandbox_driver.py STATE_DIR reach PATHS PORTS    what the hostile probe can reach
    python sandbox_driver.py STATE_DIR root                 what user 0 of an image can do
    python sandbox_driver.py STATE_DIR cells                what the cell maker finds in workers and in a plain sandbox
    python sandbox_driver.py STATE_DIR storage              what becomes of greedy programs, and of their files on disk
    python sandbox_driver.py STATE_DIR uids                 who two sandboxes are on the host
    python sandbox_driver.py STATE_DIR owners               whether a file gets another owner, in a step and elsewhere
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from launchers import TREE_VARIABLE, chosen, request_for, with_launcher  # type: ignore[import-not-found]

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


async def storage(choice: Choice) -> Any:
    image, facts = chosen(choice), {}
    spaces = Path(os.environ[TREE_VARIABLE]).parent.parent / "spaces"
    for what, program in _GREEDY.items():
        hit: list[str] = []
        sandbox = await HostSandbox.boot(choice.launcher, request_for(image), None)
        sandbox.on_limit = hit.append
        end, output = await sandbox.run(["python", "-c", program], image)
        again, _ = await sandbox.run(["python", "-c", "open('/tmp/small', 'w').write('x')"], image)
        facts[what] = {"code": end.code, "output": output.decode(), "limits": hit, "then": again.code}
        await sandbox.destroy()
    await choice.close()
    return {**facts, "left": sorted(each.name for each in spaces.iterdir())}


_GREEDY = {
    "many files": "import time\nfor n in range(200):\n open(f'/srv/{n}', 'wb').write(bytes(8 << 20)); time.sleep(0.01)",
    "a large file": "open('/srv/large', 'wb').truncate(300 << 20)",
    "removed files": (
        "import os, time\n"
        "for n in range(200):\n f = os.open('/srv/x', 65); os.write(f, bytes(8 << 20)); os.unlink('/srv/x')\n"
        " time.sleep(0.01)"
    ),
    "many directories": "import os\nfor n in range(200_000):\n os.mkdir(f'/srv/{n}')",
    "deep directories": "import os\nfor n in range(20_000):\n os.mkdir('a'); os.chdir('a')",
    "blocks at once": (
        "import ctypes, errno, fcntl, struct\n"
        "file, libc = open('/srv/x', 'wb'), ctypes.CDLL(None, use_errno=True)\n"
        "print(libc.fallocate(file.fileno(), 1, ctypes.c_long(0), ctypes.c_long(1 << 35)), ctypes.get_errno())\n"
        "for number in (0x40305828, 0x4030582A, 0x40305839):\n"
        " try:\n  print(fcntl.ioctl(file, number, struct.pack('hhqqII4i', 0, 0, 0, 1 << 35, 0, 0, 0, 0, 0, 0)))\n"
        " except OSError as error:\n  print(error.errno)"
    ),
    "files of another user": (
        "import os\n"
        "with open('/proc/self/uid_map') as file:\n has_users = len(file.readlines()) > 1\n"
        "os.chmod('/srv', 0o777)\n"
        "if has_users:\n os.setgroups([]); os.setresgid(33, 33, 33); os.setresuid(33, 33, 33)\n"
        "os.makedirs('/srv/own/inner'); open('/srv/own/inner/file', 'w').close(); os.chmod('/srv/own/inner', 0)\n"
        "os.chmod('/srv/own', 0); print(os.getuid())"
    ),
    "little": "open('/srv/a', 'wb').write(bytes(8 << 20)); print(len(open('/srv/a', 'rb').read()) >> 20)",
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
    _works = {"reach": reach, "root": root, "cells": cells, "storage": storage, "uids": uids, "owners": owners}
    _work = _works[_what]
    sys.stdout.write(json.dumps(with_launcher(Path(_state), lambda choice: _work(choice, *_words))))
