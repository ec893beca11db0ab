"""Booting sandboxes: a bounded number at once, and a few default ones ahead of demand.

A sandbox that was booted ahead is as fresh as one that is booted on request: no program has run in it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from sandrl.runtime.host.choice import Choice
from sandrl.runtime.host.launcher import BootRequest, LaunchError
from sandrl.runtime.host.sandbox import HostSandbox, SandboxGoneError

logger = logging.getLogger(__name__)

_SPARES = 2
_CONCURRENT_BOOTS = 16
_START_ATTEMPTS = 4


class Boots:
    """Boots the sandboxes of one launcher; of those with its default image and limits, a few stand ready."""

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self._default = BootRequest(choice.images[0].name)
        self._slots = asyncio.Semaphore(_CONCURRENT_BOOTS)
        self._spares: deque[HostSandbox] = deque()
        self._refill: asyncio.Task[None] | None = None
        self._watchers: set[asyncio.Task[None]] = set()
        self._closing = False

    async def boot(
        self, request: BootRequest, prepare: Callable[[HostSandbox], Awaitable[None]] | None = None
    ) -> HostSandbox:
        """A sandbox that nobody has used; another one if the launcher failed meanwhile: no client knows the first.

        Raises:
            LaunchError: If it cannot be started.
            SandboxGoneError: If it ended while `prepare` made it ready, which is part of what is tried again.
        """
        launcher, attempts_left = self._choice.launcher, _START_ATTEMPTS
        while True:
            generation, attempts_left = launcher.generation, attempts_left - 1
            try:
                host = await self._booted(request)
                try:
                    if prepare is not None:
                        await prepare(host)
                except BaseException:
                    await host.destroy()
                    raise
            except (LaunchError, SandboxGoneError):
                if not (attempts_left and await launcher.has_failed_since(generation)):
                    raise
            else:
                return host

    async def _booted(self, request: BootRequest) -> HostSandbox:
        if request == self._default:
            while self._spares:
                spare = self._spares.popleft()
                self._refill_spares()
                if spare.alive:
                    return spare
            self._refill_spares()
        async with self._slots:
            return await self._choice.boot(request)

    def _refill_spares(self) -> None:
        if not self._closing and (self._refill is None or self._refill.done()):
            self._refill = asyncio.ensure_future(self._fill())

    async def _fill(self) -> None:
        while len(self._spares) < _SPARES and not self._closing:
            try:
                async with self._slots:
                    spare = await self._choice.boot(self._default)
            except LaunchError as error:
                logger.warning("spare sandbox did not start: %s", error)
                return
            self._spares.append(spare)
            watcher = asyncio.ensure_future(self._replace(spare))
            self._watchers.add(watcher)
            watcher.add_done_callback(self._watchers.discard)

    async def _replace(self, spare: HostSandbox) -> None:
        await spare.ended.wait()
        if spare in self._spares:
            self._spares.remove(spare)
            self._refill_spares()

    async def close(self) -> None:
        self._closing = True
        if self._refill is not None:
            self._refill.cancel()
            await asyncio.wait([self._refill])
        await asyncio.gather(*(spare.destroy() for spare in self._spares))
        await self._choice.close()
