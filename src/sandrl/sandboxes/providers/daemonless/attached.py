"""A program in a sandbox of this process, with its input and output attached to those of the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import TYPE_CHECKING

from sandrl.errors import InfrastructureError, NotRunningError
from sandrl.runtime.host.process import GuestProcess, Stream
from sandrl.sandboxes.providers.protocol import Output

if TYPE_CHECKING:
    from sandrl.sandboxes.providers.daemonless.sandbox import DaemonlessSandbox


class AttachedProgram:
    def __init__(
        self,
        sandbox: DaemonlessSandbox,
        argv: tuple[str, ...],
        has_input: bool,
        outputs: Mapping[Stream, Output],
        timeout_seconds: float,
    ) -> None:
        self.ended: Future[None] = Future()
        self._sandbox = sandbox
        self._argv = argv
        self._has_input = has_input
        self._outputs = outputs
        self._timeout_seconds = timeout_seconds
        self._process: Future[GuestProcess] = Future()
        self._code = sandbox.runtime.submit(self._run())
        self._code.add_done_callback(lambda _: self.ended.set_result(None))

    async def _run(self) -> int | None:
        try:
            if self._sandbox.info.has_ended:
                raise NotRunningError(self._sandbox.info.id)
            return await self._sandbox.execute(self._argv, self._timeout_seconds, self._feed, self._take)
        finally:
            self._process.cancel()

    async def _feed(self, process: GuestProcess) -> None:
        if self._has_input:
            self._process.set_result(process)
        else:
            process.close_stdin()

    async def _take(self, stream: Stream, block: bytes) -> None:
        # Whoever reads it may be slow, and other sandboxes must not wait for that.
        await asyncio.to_thread(self._outputs[stream].write, block)

    def _running(self) -> GuestProcess | None:
        with suppress(CancelledError):
            process = self._process.result()
            if not self._code.done():
                return process
        return None

    def write(self, block: bytes) -> None:
        process = self._running()
        if process is None:
            raise InfrastructureError("the program takes no more input")
        self._sandbox.runtime.submit(process.write_stdin(block)).result()

    def close_input(self) -> None:
        if (process := self._running()) is None:
            return

        async def close() -> None:
            process.close_stdin()

        self._sandbox.runtime.submit(close()).result()

    def cancel(self) -> None:
        self._code.cancel()

    def finish(self) -> int | None:
        try:
            return self._code.result()
        except CancelledError as error:
            raise InfrastructureError("the execution was cancelled") from error
