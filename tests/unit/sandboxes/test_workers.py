"""What becomes of commands whose worker says what none says, says nothing, or ends; with workers of the test's own."""

from __future__ import annotations

import base64
import itertools
import time
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from sandrl.errors import InfrastructureError, SandrlError
from sandrl.sandboxes import workers as module
from sandrl.sandboxes.commands import CellCommand, Command, WorkerProgram
from sandrl.sandboxes.footprint import WINDOW
from sandrl.sandboxes.providers.protocol import Result
from sandrl.sandboxes.session import Launch
from sandrl.sandboxes.shape import Shape
from sandrl.sandboxes.workers import CellLimits, Worker, Workers

PROGRAM = WorkerProgram(("python",), lambda limits: limits)
CELL = CellCommand(PROGRAM, "p0", b"the program", b"a request", 4)


class Starts:
    """Starts workers that run nothing: what they say is what a test says."""

    def __init__(self) -> None:
        self.started: list[Worker] = []
        self.ready: list[Launch] = []
        self.tags: list[tuple[str, ...]] = []

    def start_worker(self, worker: Worker, tags: tuple[str, ...], image: str) -> Launch:
        launch = Launch(f"worker-{len(self.started)}", Command(("python",)), tags, worker=worker, shape=Shape(image))
        launch.process = Future()
        self.started.append(worker)
        return launch

    def use_worker(self, launch: Launch, tags: tuple[str, ...]) -> None:
        self.tags.append(tags)

    def note_worker(self, launch: Launch) -> None:
        self.ready.append(launch)


class Bench:
    """Workers under test, and the commands that were handed over to them."""

    def __init__(self, **options: object) -> None:
        self.starts = Starts()
        self.refusals: list[str] = []
        self.keys = itertools.count()
        settings = {"max_lifetime_seconds": 3600.0, "max_sandboxes": 1, "cell_limits": CellLimits(), **options}
        self.workers = Workers(
            self.starts,  # type: ignore[arg-type]
            ring=lambda: None,
            on_refusal=self.refusals.append,
            **settings,  # type: ignore[arg-type]
        )

    def hand_over(self, count: int = 1) -> list[Launch]:
        launches = [Launch(f"k{next(self.keys)}", Command(("x",), cell=CELL), in_cell=True) for _ in range(count)]
        for launch in launches:
            self.workers.hand_over(launch)
        self.workers.send_more()
        return launches

    def say(self, *lines: bytes, worker: int = 0, cut: bool = False) -> list[Launch]:
        block = b"".join(line + b"\n" for line in lines)
        for piece in [block[at : at + 1] for at in range(len(block))] if cut else [block]:
            self.starts.started[worker]._receive(piece)
        return self.workers.receive(lambda since: False)


def result(launch: Launch, code: bytes = b"0", out: bytes = b"printed", err: bytes = b"-") -> bytes:
    return b" ".join([b"result", launch.key.encode(), code, b"0.1", base64.b64encode(out), err])


def error_of(launch: Launch) -> SandrlError:
    assert launch.process is not None
    error = launch.process.exception(0)
    assert isinstance(error, SandrlError)
    return error


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the clock of workers on by some seconds."""
    offset = [0.0]
    real = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: real() + offset[0])

    def move(seconds: float) -> None:
        offset[0] += seconds

    return move


@pytest.mark.parametrize("cut", [False, True])
def test_a_result_ends_its_command_and_no_other(cut: bool) -> None:
    bench = Bench()
    first, second = bench.hand_over(2)
    assert bench.say(b"ready", result(second), cut=cut) == [second]
    assert second.process is not None
    assert second.process.result(0) == Result(0, b"printed", b"")
    assert len(bench.workers) == 1
    assert first.process is not None
    assert not first.process.done()
    assert [launch.key for launch in bench.starts.ready] == ["worker-0"]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"result",
        b"result k0 0 0.1 -",
        b"result k9 0 0.1 - -",
        b"ready now",
        b"\xff\xfe\x00",
        b"RESULT k0 0 0.1 - -",
        b"x" * 100_000,
    ],
)
def test_a_worker_that_says_what_no_worker_says_is_given_up_and_its_commands_blame_nobody(line: bytes) -> None:
    bench = Bench()
    launches = bench.hand_over(3)
    assert bench.say(b"ready", line) == launches
    assert all(isinstance(error_of(launch), InfrastructureError) for launch in launches)
    assert bench.starts.started[0]._is_cancelled
    [again] = bench.hand_over()
    assert len(bench.starts.started) == 2
    assert bench.say(b"ready", result(again), worker=1) == [again]


@pytest.mark.parametrize("words", [b"zero 0.1 - -", b"0 0.1 no-base64! -", b"0 0.1 - A", b"late 0.1 - -"])
def test_a_result_that_cannot_be_read_fails_its_own_command_alone(words: bytes) -> None:
    bench = Bench()
    first, second = bench.hand_over(2)
    assert bench.say(b"ready", b"result " + first.key.encode() + b" " + words) == [first]
    assert isinstance(error_of(first), InfrastructureError)
    assert bench.say(result(second)) == [second]


def test_a_worker_that_says_nothing_is_given_up(quickly: Callable[[float], None]) -> None:
    bench = Bench()
    launches = bench.hand_over(2)
    bench.say(b"ready")
    quickly(module._SILENCE_SECONDS - 1)
    assert bench.workers.receive(lambda since: False) == []
    bench.say(b"alive")
    quickly(module._SILENCE_SECONDS - 1)
    assert bench.workers.receive(lambda since: False) == []
    quickly(2)
    assert bench.workers.receive(lambda since: False) == launches
    assert "sent nothing" in error_of(launches[0]).message


def test_silence_while_this_process_did_nothing_is_not_the_worker_s(quickly: Callable[[float], None]) -> None:
    bench = Bench()
    [launch] = bench.hand_over()
    bench.say(b"ready")
    quickly(module._SILENCE_SECONDS + 1)
    assert bench.workers.receive(lambda since: True) == []
    assert bench.say(result(launch)) == [launch]


def test_a_refusal_is_told_once_and_its_commands_fail() -> None:
    bench = Bench()
    launches = bench.hand_over(2)
    why = "a user namespace is refused"
    assert bench.say(b"refused " + why.encode().hex().encode()) == []
    worker = bench.starts.started[0].launch
    assert worker is not None
    assert worker.process is not None
    worker.process.set_result(Result(3))
    bench.workers.land(worker)
    assert bench.workers.receive(lambda since: False) == launches
    assert bench.refusals == [why]
    assert bench.workers.refusal == why
    assert not bench.workers.takes(CELL, 10.0)


def test_a_worker_that_ends_takes_its_commands_along_but_not_their_results() -> None:
    bench = Bench()
    first, second = bench.hand_over(2)
    bench.say(b"ready")
    worker = bench.starts.started[0]
    worker._receive(result(first) + b"\n")
    assert worker.launch is not None
    assert worker.launch.process is not None
    worker.launch.process.set_exception(InfrastructureError("the sandbox is gone"))
    bench.workers.land(worker.launch)
    assert bench.workers.receive(lambda since: False) == [first, second]
    assert first.process is not None
    assert first.process.result(0).exit_code == 0
    assert error_of(second).message == "the sandbox is gone"


def test_a_worker_has_so_many_commands_and_no_more() -> None:
    bench = Bench()
    launches = bench.hand_over(WINDOW + 5)
    assert len(bench.starts.started) == 1
    assert len(bench.starts.started[0].runs) == WINDOW
    bench.say(b"ready", *map(result, launches[:5]))
    bench.workers.send_more()
    assert len(bench.starts.started[0].runs) == WINDOW
    waiting = bench.workers.withdraw()
    assert waiting == [], "a worker that runs keeps what it has"


def test_a_worker_that_sent_much_is_replaced_once_it_has_nothing_to_do() -> None:
    bench = Bench()
    [first] = bench.hand_over()
    bench.say(b"ready", result(first, out=b"x" * (module._MOST_RECEIVED_BYTES + 1)))
    [second] = bench.hand_over()
    assert len(bench.starts.started) == 2, "an SDK may keep all that a program sends"
    bench.say()
    assert bench.starts.started[0]._is_cancelled
    assert bench.say(b"ready", result(second), worker=1) == [second]


def test_a_command_that_may_outlive_its_worker_goes_to_a_younger_one(quickly: Callable[[float], None]) -> None:
    bench = Bench(max_lifetime_seconds=200.0)
    bench.hand_over()
    bench.say(b"ready")
    quickly(140)
    bench.hand_over()
    assert len(bench.starts.started) == 1
    quickly(20)
    bench.hand_over()
    assert len(bench.starts.started) == 2
    assert not bench.workers.takes(CELL, 190.0), "no worker lives long enough"
