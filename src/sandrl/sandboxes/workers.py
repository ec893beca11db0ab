"""The worker sandboxes of a job, and the commands that run in their cells.

A cell is a faster replacement of a fresh sandbox, and no result depends on cells alone. A command that brought no
result (its worker was lost, its cell could not be made or was ended) has failed like a command whose sandbox failed;
the caller runs it again in a sandbox of its own. So no completion is blamed for a fault of a worker.

A worker is a launch like any other: its sandbox is in the ledger before it exists, counts as held, and is stopped with
the rest. All state belongs to the thread that waits for the job. The threads of a provider put the messages of a worker
into a queue, and one thread for each worker writes to it, several commands at once.
"""

from __future__ import annotations

import binascii
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from sandrl.errors import InfrastructureError, SandrlError
from sandrl.runs import WORKER_TAG
from sandrl.runtime import limits
from sandrl.sandboxes.busy_processes import BusyProcesses
from sandrl.sandboxes.commands import CellCommand, WorkerProgram
from sandrl.sandboxes.dispatch import Dispatch
from sandrl.sandboxes.footprint import WINDOW, worker_count
from sandrl.sandboxes.providers.protocol import AttachedProgram, Output, Result, Sandbox
from sandrl.sandboxes.session import Launch

LONGEST_REQUEST_BYTES = 16 << 20
"""A longer request gets its own sandbox, so that no other request waits while it is sent."""

_HEADER_BYTES = 128
# An SDK may keep all output of a program until that ends.
_MOST_RECEIVED_BYTES = 4 << 20
# A worker whose cells are busy sends a line each second.
_SILENCE_SECONDS = 15.0
_MARGIN_SECONDS = 20.0
# So many more than for one image.
_OTHER_WORKERS = 8
_GATHERED_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class CellLimits:
    """The limits of each cell of a job.

    Attributes:
        memory_bytes: Memory of all its processes; None for the default of a local sandbox.
        at_once: How many cells a worker has at once; None lets the worker decide, by the processors that are free.
        fresh_network: Whether each has a network namespace of its own, also where the one before it was not used.
    """

    memory_bytes: int | None = None
    at_once: int | None = None
    fresh_network: bool = False

    @property
    def most(self) -> int:
        return min(self.at_once or WINDOW, limits.MAX_CELLS)

    def places(self, workers: int, processes: int = 1) -> int:
        """How many cells of a worker may want a processor; 0 if none waits for another.

        Args:
            workers: How many workers there are in this process.
            processes: How many such processes share the machine.
        """
        if self.at_once:
            return 0
        # One more than there are processors: a completion and its judge wait for each other.
        return max(round((-(-(os.cpu_count() or 1) // workers) + 1) / processes), 1)

    def words(self, workers: int) -> bytes:
        """The form in which a worker reads them (see `read_limits` in `judge/guest/worker.py`)."""
        numbers = (
            *(self.most, self.places(workers), self.memory_bytes or limits.MEMORY_BYTES),
            *(limits.DISK_BYTES, limits.INODES, limits.PROCESSES, limits.SOCKETS, int(self.fresh_network)),
        )
        return " ".join(map(str, numbers)).encode().ljust(_HEADER_BYTES)


class Worker:
    """One worker, which is started together with its sandbox; see `InteractiveProgram`.

    Args:
        notify: Called on another thread when its output has arrived.
    """

    def __init__(
        self,
        program: WorkerProgram,
        start: bytes,
        cells: int,
        seconds: float,
        notify: Callable[[], None],
        image: str = "",
    ) -> None:
        self.program = program
        self.image = image
        self.cells = cells
        self.launch: Launch | None = None
        self.runs: dict[str, Launch] = {}
        self.known: set[str] = set()
        self.tags: set[tuple[str, ...]] = {()}
        self.is_ready = self.is_retiring = False
        self.refusal: str | None = None
        self.expires_at = time.monotonic() + seconds
        self.received_at = time.monotonic()
        self.received_bytes = 0
        self._seconds = seconds
        self._notify = notify
        self._received: SimpleQueue[bytes] = SimpleQueue()
        self._rest = b""
        self._outbox: SimpleQueue[bytes | None] = SimpleQueue()
        self._outbox.put(start)
        self._attached: AttachedProgram | None = None
        self._is_cancelled = False

    def begin(self, sandbox: Sandbox) -> Future[Result]:
        ended: Future[Result] = Future()
        self.expires_at = time.monotonic() + self._seconds
        try:
            self._attached = sandbox.attach(
                self.program.argv,
                stdin=True,
                stdout=Output(self._receive, is_exact=False),
                stderr=Output(lambda _: None, is_exact=False),
                timeout_seconds=self._seconds,
            )
        except SandrlError as error:
            ended.set_exception(error)
            return ended
        attached = self._attached
        threading.Thread(target=self._send, args=(attached,), name="worker-input", daemon=True).start()
        attached.ended.add_done_callback(
            lambda _: threading.Thread(target=_finish, args=(attached, ended), name="worker-end", daemon=True).start()
        )
        return ended

    def _receive(self, block: bytes) -> None:
        self._received.put(block)
        self._notify()

    def _send(self, attached: AttachedProgram) -> None:
        while True:
            block = self._outbox.get()
            blocks = []
            size = 0
            while block is not None:
                blocks.append(block)
                size += len(block)
                if size >= _GATHERED_BYTES or self._outbox.empty():
                    break
                block = self._outbox.get()
            # Input that a worker does not take is lost with it.
            with suppress(SandrlError):
                if blocks:
                    attached.write(b"".join(blocks))
                if block is None:
                    attached.close_input()
            if block is None:
                return

    def write(self, block: bytes) -> None:
        self._outbox.put(block)

    def lines(self) -> list[list[str]]:
        """The words of each line that has arrived since the last call."""
        blocks = []
        while not self._received.empty():
            blocks.append(self._received.get())
        if not blocks:
            return []
        self.received_at = time.monotonic()
        text = self._rest + b"".join(blocks)
        self.received_bytes += len(text) - len(self._rest)
        *lines, self._rest = text.split(b"\n")
        return [line.decode("ascii", "replace").split(" ") for line in lines]

    def cancel(self) -> None:
        if not self._is_cancelled:
            self._is_cancelled = True
            self._outbox.put(None)
            if self._attached is not None:
                self._attached.cancel()


def _is_sent(worker: Worker) -> bool:
    return worker.launch is not None and worker.launch.process is not None


def _outcome(exit_code: str, stdout: str, stderr: str) -> Result | SandrlError:
    try:
        printed, errors = (
            b"" if word == "-" else binascii.a2b_base64(word, strict_mode=True) for word in (stdout, stderr)
        )
        if exit_code == "late":
            return InfrastructureError("its cell did not end in time")
        if exit_code == "lost":
            return InfrastructureError(errors.decode("utf-8", "replace"))
        if exit_code == "refused":
            return InfrastructureError(f"its cell could not be created: {errors.decode('utf-8', 'replace')}")
        return Result(int(exit_code), printed, errors)
    except ValueError:
        return InfrastructureError("its worker sandbox sent invalid data")


def _finish(attached: AttachedProgram, ended: Future[Result]) -> None:
    try:
        result = Result(attached.finish())
    except SandrlError as error:
        failure: Exception | None = error
    except OSError as error:
        failure = InfrastructureError(f"the output of the worker cannot be read: {error.strerror}")
    else:
        failure = None
    if ended.set_running_or_notify_cancel():
        if failure is None:
            ended.set_result(result)
        else:
            ended.set_exception(failure)


class Workers:
    """Runs commands in cells.

    Args:
        ring: Wakes the thread that waits for the job; called on any thread.
        directory: Where processes meet whose workers share this machine; None if these workers share it with no others.
    """

    def __init__(
        self,
        dispatch: Dispatch,
        *,
        ring: Callable[[], None],
        on_refusal: Callable[[str], None],
        max_lifetime_seconds: float,
        max_sandboxes: int | None,
        cell_limits: CellLimits,
        directory: Path | None = None,
    ) -> None:
        self._dispatch = dispatch
        self._ring = ring
        self._on_refusal = on_refusal
        self._max_lifetime_seconds = max_lifetime_seconds
        self._most = worker_count(cell_limits.at_once, max_sandboxes)
        self._most_of_all = min(self._most + _OTHER_WORKERS, max_sandboxes or math.inf)
        self._limits = cell_limits
        self._busy = BusyProcesses(directory)
        self._workers: list[Worker] = []
        self._waiting: deque[Launch] = deque()
        self._ended: list[Launch] = []
        # Why cells are not possible, by image.
        self._refusals: dict[str, str] = {}

    @property
    def refusal(self) -> str | None:
        """Why cells are not possible in the image of the job; None as long as they are."""
        return self._refusals.get("")

    def __len__(self) -> int:
        return len(self._waiting) + sum(len(worker.runs) for worker in self._workers) + len(self._ended)

    @property
    def window(self) -> int:
        if self._limits.at_once:
            return self._limits.at_once
        return WINDOW * self._most

    def takes(self, cell: CellCommand, timeout_seconds: float, image: str = "") -> bool:
        """Whether a command can run in a cell here, as far as that is known."""
        fits = timeout_seconds + 2 * _MARGIN_SECONDS < self._max_lifetime_seconds
        return image not in self._refusals and fits and len(cell.request) <= LONGEST_REQUEST_BYTES

    def hand_over(self, launch: Launch) -> None:
        launch.launched_at = time.monotonic()
        self._waiting.append(launch)
        # At once: while the caller prepares the next one, this one is judged.
        self.send_more()

    def send_more(self) -> None:
        while self._waiting:
            launch = self._waiting[0]
            assert launch.command.cell is not None, "others are not handed over here"
            worker = self._worker_for(launch.command.cell, launch.command.timeout_seconds, launch.shape.image)
            if worker is None:
                break
            self._waiting.popleft()
            self._send(worker, launch, launch.command.cell)
        self._give_way()

    def _worker_for(self, cell: CellCommand, timeout_seconds: float, image: str) -> Worker | None:
        now = time.monotonic()
        usable = []
        for worker in self._workers:
            if (
                now + timeout_seconds + _MARGIN_SECONDS > worker.expires_at
                or worker.received_bytes > _MOST_RECEIVED_BYTES
            ):
                worker.is_retiring = True
            if not worker.is_retiring and worker.program == cell.worker and worker.image == image:
                usable.append(worker)
        best = min(usable, key=lambda worker: len(worker.runs), default=None)
        is_wanted = best is None or (best.runs and len(usable) < self._most and len(best.runs) >= WINDOW // 2)
        staying = sum(not worker.is_retiring for worker in self._workers)
        if is_wanted and (staying < self._most_of_all or self._retire_other(cell.worker, image)):
            best = self._start(cell.worker, image)
        room = self.window if self._limits.at_once else WINDOW
        return best if best is not None and len(best.runs) < room else None

    def _retire_other(self, program: WorkerProgram, image: str) -> bool:
        # Whether the oldest idle worker of another program or image makes room for one of these.
        for worker in self._workers:
            is_other = worker.image != image or worker.program != program
            if is_other and not worker.runs and not worker.is_retiring:
                worker.is_retiring = True
                return True
        return False

    def _give_way(self) -> None:
        # The first worker of an image that waits for a sandbox gets that of an idle worker.
        for worker in self._workers:
            is_first = all(other.image != worker.image or not _is_sent(other) for other in self._workers)
            if is_first and not any(other.is_retiring for other in self._workers):
                self._retire_other(worker.program, worker.image)

    def _start(self, program: WorkerProgram, image: str) -> Worker:
        words = self._limits.words(self._most)
        seconds = self._max_lifetime_seconds
        worker = Worker(program, program.begin(words), self._limits.most, seconds, self._ring, image)
        self._workers.append(worker)
        worker.launch = self._dispatch.start_worker(worker, (WORKER_TAG,), image)
        return worker

    def _send(self, worker: Worker, launch: Launch, cell: CellCommand) -> None:
        assert worker.launch is not None, "it was started"
        if not worker.runs:
            worker.received_at = time.monotonic()
        worker.runs[launch.key] = launch
        launch.address = worker.launch.address
        launch.launched_at, launch.process = time.monotonic(), Future()
        if launch.tags not in worker.tags:
            worker.tags.add(launch.tags)
            self._dispatch.use_worker(worker.launch, launch.tags)
        if cell.program not in worker.known:
            worker.known.add(cell.program)
            worker.write(cell.program_block)
        self._busy.set_busy(True)
        milliseconds = int(launch.command.timeout_seconds * 1000)
        places = self._limits.places(self._most, self._busy.count())
        words = "run", launch.key, len(cell.request), cell.program, cell.open_bytes, milliseconds, int(cell.is_apart)
        header = " ".join(map(str, (*words, places)))
        worker.write(header.encode().ljust(_HEADER_BYTES) + cell.request)

    def receive(self, has_stalled: Callable[[float], bool]) -> list[Launch]:
        """Handles the output of workers that has arrived.

        Args:
            has_stalled: Whether this process did nothing for a while since a given moment.
        """
        for worker in [*self._workers]:
            for words in worker.lines():
                self._take(worker, words)
            if worker.runs and worker.is_ready and time.monotonic() - worker.received_at > _SILENCE_SECONDS:
                if has_stalled(worker.received_at):
                    worker.received_at = time.monotonic()
                else:
                    worker.cancel()
                    self._lose(worker, InfrastructureError(f"its worker sent nothing for {_SILENCE_SECONDS:g} s"))
            if worker.is_retiring and not worker.runs and _is_sent(worker):
                worker.cancel()
        ended, self._ended = self._ended, []
        self._busy.set_busy(any(worker.runs for worker in self._workers))
        return ended

    def _take(self, worker: Worker, words: list[str]) -> None:
        assert worker.launch is not None, "it was started"
        match words:
            case ["ready"]:
                worker.is_ready = True
                self._dispatch.note_worker(worker.launch)
            case ["refused", why]:
                worker.refusal = bytes.fromhex(why).decode("utf-8", "replace")
            case ["result", key, exit_code, _, stdout, stderr] if key in worker.runs:
                launch = worker.runs.pop(key)
                self._end(worker.launch, launch, _outcome(exit_code, stdout, stderr))
            case ["alive"]:
                pass
            case _:
                worker.cancel()
                self._lose(worker, InfrastructureError("its worker sandbox sent invalid data"))

    def _end(self, of_worker: Launch, launch: Launch, outcome: Result | SandrlError) -> None:
        assert launch.process is not None, "it was sent"
        launch.sandbox, launch.address = of_worker.sandbox, of_worker.address
        if not launch.process.cancelled():
            if isinstance(outcome, SandrlError):
                launch.process.set_exception(outcome)
            else:
                launch.process.set_result(outcome)
        self._ended.append(launch)

    def land(self, of_worker: Launch) -> None:
        """Handles the end of a worker; the commands in it have failed."""
        worker = next((each for each in self._workers if each.launch is of_worker), None)
        if worker is None:
            return
        for words in worker.lines():
            self._take(worker, words)
        error: SandrlError = InfrastructureError("its worker ended")
        if of_worker.process is not None and not of_worker.process.cancelled():
            failure = of_worker.process.exception()
            error = failure if isinstance(failure, SandrlError) else error
        if worker.refusal is not None and worker.image not in self._refusals:
            self._refusals[worker.image] = worker.refusal
            self._on_refusal(f"image {worker.image}: {worker.refusal}" if worker.image else worker.refusal)
        self._lose(worker, error)

    def _lose(self, worker: Worker, error: SandrlError) -> None:
        if worker in self._workers:
            self._workers.remove(worker)
        worker.is_retiring = True
        runs, worker.runs = worker.runs, {}
        assert worker.launch is not None, "it was started"
        for launch in runs.values():
            self._end(worker.launch, launch, error)

    def rest(self) -> None:
        """Leaves the processors to other processes, because nobody awaits what runs here."""
        self._busy.set_busy(False)

    def make_room(self) -> None:
        """Gives up a worker once it is idle, because another command waits for a sandbox of its own."""
        if not any(worker.is_retiring for worker in self._workers):
            for worker in self._workers[:1]:
                worker.is_retiring = True

    def withdraw(self) -> list[Launch]:
        withdrawn = list(self._waiting)
        self._waiting.clear()
        for worker in [*self._workers]:
            if worker.launch is not None and worker.launch.process is None:
                self._workers.remove(worker)
                withdrawn += worker.runs.values()
                worker.runs = {}
        for launch in withdrawn:
            launch.process = None
        return withdrawn
