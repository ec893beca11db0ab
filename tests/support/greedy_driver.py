"""Runs greedy and honest programs beside each other in sandboxes of one daemon's launcher, and reports as JSON.

Standard library and `sandrl.runtime` only, so that the system's own interpreter can run it as another user:

    python greedy_driver.py STATE_DIR beside       each greedy program beside 10 honest ones and a host program
    python greedy_driver.py STATE_DIR shortage     programs while the host user's quota of pipes is used up
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from greedy_programs import GREEDY, HONEST, TAKES_MEMORY  # type: ignore[import-not-found]
from launchers import chosen, request_for, with_launcher  # type: ignore[import-not-found]

from sandrl.runtime.guest.watchdog import Quotas
from sandrl.runtime.host.choice import Choice
from sandrl.runtime.host.process import Exit
from sandrl.runtime.host.sandbox import DeprivedError

_HONEST_RUNS = 10
_AT_ONCE = 4
_MORE_PIPES_THAN_THE_QUOTA = 1_100


class Run:
    """One program in a sandbox of its own."""

    def __init__(self, choice: Choice, program: str) -> None:
        self._choice = choice
        self._program = program
        self.limits: list[str] = []

    async def end(self) -> tuple[Exit, str]:
        """How the program ends, and what it printed."""
        image = chosen(self._choice)
        sandbox = await self._choice.boot(request_for(image))
        sandbox.on_limit = self.limits.append
        try:
            end, output = await sandbox.run(["python", "-c", self._program], image)
            return end, output.decode(errors="replace")
        finally:
            await sandbox.destroy()


async def beside(choice: Choice) -> dict[str, Any]:
    """Each greedy program beside honest ones; those that take much memory one after another, the others at once."""
    rounds = [[name] for name in TAKES_MEMORY] + [[name for name in GREEDY if name not in TAKES_MEMORY]]
    facts: dict[str, Any] = {}
    for names in rounds:
        facts |= await _round(choice, names)
    return facts


async def _round(choice: Choice, names: Sequence[str]) -> dict[str, Any]:
    greedy = {name: Run(choice, GREEDY[name]) for name in names}
    attacks = asyncio.gather(*(run.end() for run in greedy.values()))
    places = asyncio.Semaphore(_AT_ONCE)
    host_troubles: list[str] = []

    async def honest(name: str) -> str | None:
        async with places:
            host_troubles.extend(filter(None, [Quotas().exhausted()]))
            end, output = await Run(choice, HONEST[name]).end()
        return None if end.code == 0 else f"{name}: {end} {output[-300:]}"

    honest_ends = await asyncio.gather(*map(honest, islice(cycle(HONEST), _HONEST_RUNS)))
    shared = {"honest_failures": [failure for failure in honest_ends if failure], "host_troubles": host_troubles}
    return {
        name: {"code": end.code, "output": output[-300:], "limits": greedy[name].limits, **shared}
        for name, (end, output) in zip(names, await attacks, strict=True)
    }


async def shortage(choice: Choice) -> dict[str, Any]:
    """What becomes of programs before, while and after this user has more pipes than its quota."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    before = await Run(choice, "print('well')").end()
    failing = asyncio.ensure_future(Run(choice, "import time; time.sleep(2); raise SystemExit(1)").end())
    passing = asyncio.ensure_future(Run(choice, "import time; time.sleep(2)").end())
    await asyncio.sleep(1)
    kept = [os.pipe() for _ in range(_MORE_PIPES_THAN_THE_QUOTA)]
    try:
        await Run(choice, "print('well')").end()
    except DeprivedError as error:
        refused = str(error)
    else:
        refused = ""
    failed, passed = await failing, await passing
    for descriptor in (end for pair in kept for end in pair):
        os.close(descriptor)
    after = await Run(choice, "print('well')").end()
    return {
        "before": before[1],
        "refused": refused,
        "failed": [failed[0].code, failed[0].message],
        "passed": [passed[0].code, passed[0].message],
        "after": after[1],
    }


if __name__ == "__main__":
    _work = {"beside": beside, "shortage": shortage}[sys.argv[2]]
    sys.stdout.write(json.dumps(with_launcher(Path(sys.argv[1]), _work)))
