"""Boots one sandbox with one launcher and runs the hostile probe in it; prints the probe's answer.

Standard library and `sandrl.runtime` only, so that the system's own interpreter can run it as another user:
`python isolation_driver.py LAUNCHER STATE_DIR PATHS PORTS`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from sandrl.runtime.host.choice import choose_launcher
from sandrl.runtime.host.images import find_images
from sandrl.runtime.host.launcher import BootRequest
from sandrl.runtime.host.process import Exit

PROBE = Path(__file__).with_name("hostile_probe.py").read_text(encoding="utf-8")
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/home/sandbox"}


async def main(launcher_name: str, state: Path, paths: str, ports: str) -> int:
    os.environ["SANDRL_RUNTIME_ISOLATION"] = launcher_name
    overlays = state / "overlays"
    overlays.mkdir(exist_ok=True)
    choice = await choose_launcher(find_images()[:1], state, overlays)
    sandbox = await choice.boot(BootRequest(choice.images[0].name))
    environment = ENVIRONMENT | choice.images[0].environment
    argv = ["python", "-c", PROBE, paths, ports]
    _, process = await sandbox.start(argv, environment, directory="/workspace")
    process.close_stdin()
    while not isinstance(output := await process.next_output(), Exit):
        sys.stdout.buffer.write(output[1])
    await sandbox.destroy()
    await choice.close()
    return output.code


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4])))
