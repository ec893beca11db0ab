"""The host part of the daemon, without a daemon: in a thread of the process that needs sandboxes.

The thread must live as long as the sandboxes. The kernel treats it as the parent of the fork server, so the fork
server, and with it every sandbox, is killed when the thread ends, and thus when the process ends for any reason.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from sandrl import forks
from sandrl.errors import ForkedProcessError, InfrastructureError
from sandrl.files import check_descriptors
from sandrl.runtime import limits
from sandrl.runtime.host.boots import Boots
from sandrl.runtime.host.choice import Choice, choose_launcher
from sandrl.runtime.host.images import Image
from sandrl.runtime.state import RuntimeDirectory

if TYPE_CHECKING:
    from sandrl.sandboxes.providers.daemonless.sandbox import DaemonlessSandbox

Value = TypeVar("Value")

_REMEMBERED_ENDED = 1_000
_END_SECONDS = 20.0


class HostThread:
    """A launcher with its sandboxes, and the event loop and thread that they live on.

    There is one per image in a process, which the first client starts and the last one ends.

    Raises:
        RuntimeUnavailableError: If code cannot be isolated on this machine.
    """

    _running: ClassVar[dict[Image, HostThread]] = {}
    _lock = threading.Lock()

    def __init__(self, directory: RuntimeDirectory, image: Image) -> None:
        self.image = image
        self.sandboxes: dict[str, DaemonlessSandbox] = {}
        self.coming: set[DaemonlessSandbox] = set()
        self.ended: OrderedDict[str, DaemonlessSandbox] = OrderedDict()
        self._is_inherited = False
        self._users = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sandrl-host", daemon=True)
        self._thread.start()
        try:
            self.choice, self.boots = self.submit(self._start(directory)).result()
        except BaseException:
            self._end_thread()
            raise
        forks.watch(self)

    async def _start(self, directory: RuntimeDirectory) -> tuple[Choice, Boots]:
        choice = await choose_launcher([self.image], directory.path, directory.make_shown())
        return choice, Boots(choice)

    @classmethod
    def running(
        cls, state_dir: Path, image: Image, on_start: Callable[[], None] = lambda: None, *, is_user: bool = False
    ) -> HostThread:
        """The one of this process, started if there is none.

        Args:
            is_user: Whether whoever asks will `release` it; the last who does ends it.

        Raises:
            RuntimeUnavailableError: If code cannot be isolated on this machine.
        """
        with cls._lock:
            found = cls._running.get(image)
            if found is None:
                check_descriptors()
                limits.check_open_files()
                # Without a handler, Python would print what a daemon writes into its log.
                logging.getLogger("sandrl.runtime").addHandler(logging.NullHandler())
                on_start()
                found = cls._running[image] = cls(RuntimeDirectory(state_dir), image)
            found._users += is_user
            return found

    def after_fork(self) -> None:
        """Leaves it to the parent: the thread is not in this process, which starts one of its own when it needs one."""
        self._is_inherited = True
        HostThread._running.clear()
        HostThread._lock = threading.Lock()

    def submit(self, work: Coroutine[Any, Any, Value]) -> Future[Value]:
        """Runs a coroutine on the loop.

        Raises:
            ForkedProcessError: If this process was forked from the one that started it.
        """
        if self._is_inherited:
            work.close()
            raise ForkedProcessError("these sandboxes belong to the process from which this one was forked")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def release(self, timeout_seconds: float) -> None:
        """One user less; without any, it ends, and every sandbox with it.

        Raises:
            InfrastructureError: If that takes longer.
        """
        if self._is_inherited:
            return
        with HostThread._lock:
            self._users -= 1
            if self._users:
                return
            del HostThread._running[self.image]
        try:
            self.submit(self._close()).result(timeout_seconds)
        except TimeoutError as error:
            raise InfrastructureError("the sandboxes of this process did not end in time") from error
        finally:
            self._end_thread()

    async def _close(self) -> None:
        await asyncio.gather(*(sandbox.stop_here() for sandbox in [*self.sandboxes.values()]))
        await self.boots.close()

    def note_end(self, sandbox: DaemonlessSandbox) -> None:
        self.sandboxes.pop(sandbox.info.id, None)
        self.ended[sandbox.info.id] = sandbox
        while len(self.ended) > _REMEMBERED_ENDED:
            self.ended.popitem(last=False)

    def _end_thread(self) -> None:
        async def end() -> None:
            left = asyncio.all_tasks() - {asyncio.current_task()}
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
            await self._loop.shutdown_default_executor()

        with suppress(TimeoutError):
            self.submit(end()).result(_END_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_END_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()
