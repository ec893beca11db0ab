"""A program of the SDK with its streams passed on.

Output is passed on as it comes, and byte for byte. The SDK streams text, in which bytes that are not UTF-8 are lost,
and provides the bytes at the end. So a stream is passed on as long as its text has exactly its bytes, and from the
first piece that does not, it is held until the bytes are there (a terminal gets the text).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sandrl.errors import InfrastructureError, SandrlError
from sandrl.sandboxes.providers.cwsandbox.sdk import is_command_timeout, load_sdk
from sandrl.sandboxes.providers.protocol import Output, Result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cwsandbox import Process, TerminalSession

_DRAIN_SECONDS = 2.0
_WRITE_SECONDS = 30.0
_REPLACEMENT = "\ufffd"
_NOT_READ = 128 + signal.SIGPIPE


class SdkProgram:
    def __init__(
        self,
        process: Process,
        stdout: Output,
        stderr: Output,
        translate: Callable[[BaseException], SandrlError],
    ) -> None:
        self._process = process
        self._translate = translate
        self._streams = (_Stream(process, process.stdout, stdout), _Stream(process, process.stderr, stderr))
        self.ended: Future[None] = Future()
        theirs: Future[Any] = process._future
        theirs.add_done_callback(lambda _: self.ended.set_result(None))

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (load_sdk().CWSandboxError, CancelledError, OSError) as error:
            raise InfrastructureError("the program takes no more input") from error

    def write(self, block: bytes) -> None:
        assert self._process.stdin is not None, "it was asked for"
        with self._translated():
            self._process.stdin.write(block).result()

    def close_input(self) -> None:
        assert self._process.stdin is not None, "it was asked for"
        with self._translated():
            self._process.stdin.close().result()

    def cancel(self) -> None:
        self._process.cancel()

    def finish(self) -> int | None:
        try:
            result = self._process.result()
        except (load_sdk().CWSandboxError, CancelledError) as error:
            for stream in self._streams:
                stream.finish(None)
            if is_command_timeout(error):
                return None
            raise self._translate(error) from error
        self._streams[0].finish(result.stdout_bytes)
        self._streams[1].finish(result.stderr_bytes)
        return result.returncode


class SdkTerminal:
    """A program at a terminal, whose output is passed on as it comes."""

    def __init__(
        self,
        session: TerminalSession,
        output: Callable[[bytes], None],
        translate: Callable[[BaseException], SandrlError],
    ) -> None:
        self._session = session
        self._output = output
        self._translate = translate
        self.ended: Future[None] = Future()
        self._thread = threading.Thread(target=self._pump, daemon=True)
        self._thread.start()

    def _pump(self) -> None:
        try:
            for block in self._session.output:
                self._output(block)
        except (load_sdk().CWSandboxError, CancelledError, OSError):
            pass  # the end of the session says why
        finally:
            self.ended.set_result(None)

    def write(self, block: bytes) -> None:
        try:
            self._session.stdin.write(block).result(_WRITE_SECONDS)
        except (load_sdk().CWSandboxError, CancelledError, OSError, TimeoutError) as error:
            raise InfrastructureError("the terminal takes no more input") from error

    def close_input(self) -> None:
        pass  # a terminal has an end of input only while its program asks for it

    def cancel(self) -> None:
        self._session._future.cancel()

    def finish(self) -> int | None:
        try:
            code: int = self._session.result().returncode
        except (load_sdk().CWSandboxError, CancelledError) as error:
            raise self._translate(error) from error
        return code


class Meter:
    """Kills a program that writes more than it may: the SDK keeps all of its output."""

    def __init__(self, process: Process, most_bytes: int) -> None:
        self._process = process
        self._left = most_bytes
        self._lock = threading.Lock()
        self._is_over = False
        for reader in (process.stdout, process.stderr):
            threading.Thread(target=self._count, args=(reader,), daemon=True).start()

    def _count(self, reader: Any) -> None:
        for text in reader:
            with self._lock:
                self._left -= len(text)  # characters, of which there are no more than bytes
                self._is_over = self._left < 0
            if self._is_over:
                self._process.cancel()
                return

    def watched(self, done: Future[Result]) -> Future[Result]:
        """The future of the program, which ends as one without a reader (141) if it wrote too much."""
        ours: Future[Result] = Future()

        def end(_: Future[Result]) -> None:
            if not ours.set_running_or_notify_cancel():
                return
            if self._is_over:
                ours.set_result(Result(_NOT_READ))
            elif (error := done.exception()) is not None:
                ours.set_exception(error)
            else:
                ours.set_result(done.result())

        done.add_done_callback(end)
        ours.add_done_callback(lambda ended: done.cancel() if ended.cancelled() else None)
        return ours


class _Stream:
    def __init__(self, process: Process, reader: Any, output: Output) -> None:
        self._process = process
        self._reader = reader
        self._output = output
        self._written = 0
        self._held: list[str] = []
        self._broken: BrokenPipeError | None = None
        self._thread = threading.Thread(target=self._pump, daemon=True)
        self._thread.start()

    def _pump(self) -> None:
        for text in self._reader:
            if self._output.is_exact and (self._held or _REPLACEMENT in text):
                self._held.append(text)
                continue
            block = text.encode()
            try:
                self._output.write(block)
            except BrokenPipeError as error:
                self._broken = error
                self._process.cancel()
                return
            self._written += len(block)

    def finish(self, complete: bytes | None) -> None:
        # A program that could not be started has streams that never end.
        self._thread.join(_DRAIN_SECONDS)
        self._reader.close()
        self._thread.join()
        if self._broken is not None:
            raise self._broken
        if self._held:
            held = "".join(self._held).encode() if complete is None else complete[self._written :]
            self._output.write(held)
