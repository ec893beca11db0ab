"""Worker sandboxes that are lost, stopped or refused: every completion is judged, and none is blamed for its worker."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable

import pytest

from sandrl.events import CanaryFinished, Event, RetryScheduled, Warned
from sandrl.events.results import Isolation, ScoredCompletion
from sandrl.problems import Completion, Problem
from sandrl.rewards import Limits, ScoreOptions, score
from sandrl.runs import WORKER_TAG
from sandrl.runtime import daemon
from sandrl.sandboxes import Connection, Job, new_job_id, workers
from sandrl.sandboxes.providers.cwsandbox.client import SdkConnection
from sandrl.settings import load_settings
from tests.support.lines import Lines
from tests.support.worker_processes import WorkerProcesses, find_worker

INC = Problem("inc", "Add one.", tests=("assert f(1) == 2", "assert f(2) == 3"))
RIGHT, WRONG = "def f(x):\n    return x + 1\n", "def f(x):\n    return x\n"
SLOW = "import time\ntime.sleep(1.0)\n" + RIGHT


def a_job(connection: Connection, ledger: Lines | None = None, max_sandboxes: int | None = None) -> Job:
    return Job(
        connection,
        job_id=new_job_id(),
        max_lifetime_seconds=300,
        ledger=ledger,
        max_sandboxes=max_sandboxes,
        has_cells=True,
    )


def score_codes(job: Job, codes: list[str], told: list[Event] | None = None) -> list[ScoredCompletion]:
    completions = [Completion(f"c{number}", "inc", code=code) for number, code in enumerate(codes)]
    options = ScoreOptions(limits=Limits(timeout_seconds=5.0), caching=False, backoff_seconds=0.01)
    emit = (lambda _: None) if told is None else told.append
    return list(score(completions, {"inc": INC}, job=job, options=options, emit=emit).results)


def workers_of(ledger: Lines) -> int:
    return sum(WORKER_TAG in tags for [tags, *_] in ledger.tags.values())


class Blow:
    """Sends a signal to a process of the worker, once it runs and some time later."""

    def __init__(self, number: signal.Signals, choose: Callable[[WorkerProcesses], int], after: float) -> None:
        self._number, self._choose, self._after = number, choose, after
        runtime = daemon.find(load_settings().state_dir)
        assert runtime is not None
        self._daemon = runtime.pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._strike)
        self.struck = False

    def __enter__(self) -> Blow:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _strike(self) -> None:
        found = None
        while (found is None or not found.judges) and not self._over.wait(0.01):
            found = find_worker(self._daemon)
        if found is not None and not self._over.wait(self._after):
            try:
                os.kill(self._choose(found), self._number)
                self.struck = True
            except ProcessLookupError:
                pass


def forker(found: WorkerProcesses) -> int:
    return found.forker


def router(found: WorkerProcesses) -> int:
    return found.router


def a_judge(found: WorkerProcesses) -> int:
    return random.choice(found.judges)


def test_a_judge_that_is_lost_costs_its_completion_and_no_other_a_second_run(connection: Connection) -> None:
    with a_job(connection) as job:
        with Blow(signal.SIGKILL, a_judge, 0.4) as blow:
            results = score_codes(job, [SLOW if index % 4 else f"{SLOW}{WRONG}" for index in range(8)])
        assert blow.struck
    assert [result.reward for result in results] == [float(index % 4 > 0) for index in range(8)]
    [lost] = [result for result in results if result.retries]
    assert (lost.isolation, lost.retries, lost.cells) == (Isolation.SANDBOX, 1, 1)


@pytest.mark.parametrize(
    ("number", "choose"),
    [
        (signal.SIGKILL, forker),
        (signal.SIGKILL, router),
        pytest.param(signal.SIGSTOP, forker, marks=pytest.mark.slow),
        pytest.param(signal.SIGSTOP, router, marks=pytest.mark.slow),
    ],
    ids=["killed-forker", "killed-router", "stopped-forker", "stopped-router"],
)
def test_a_worker_that_is_lost_costs_no_completion_anything(
    connection: Connection, number: signal.Signals, choose: Callable[[WorkerProcesses], int]
) -> None:
    told: list[Event] = []
    ledger = Lines()
    with a_job(connection, ledger) as job:
        with Blow(number, choose, 0.4) as blow:
            # More than run at once: those that wait for a cell are lost, too.
            results = score_codes(job, [SLOW if index % 4 else f"{SLOW}{WRONG}" for index in range(24)], told)
        assert blow.struck
        assert [result.reward for result in results] == [float(index % 4 > 0) for index in range(24)]
        lost = [result for result in results if result.retries]
        assert len(lost) >= 8
        assert {(result.isolation, result.retries, result.cells, result.canaries) for result in lost} == {
            (Isolation.SANDBOX, 1, 1, 0)
        }
        assert len([event for event in told if isinstance(event, RetryScheduled)]) == len(lost)
        assert not [event for event in told if isinstance(event, CanaryFinished)]
        again = score_codes(job, [RIGHT, WRONG])
        assert [(result.reward, result.isolation) for result in again] == [(1.0, Isolation.CELL), (0.0, Isolation.CELL)]
    assert workers_of(ledger) == 2
    assert {events[-1] for events in ledger.events.values()} == {"stopped"}


@pytest.mark.slow
def test_fifty_workers_killed_at_random_moments_make_no_result_wrong(connection: Connection) -> None:
    chance = random.Random(50)
    codes = [
        f"import time\ntime.sleep({number % 5} / 20)\n{RIGHT if number % 3 else WRONG}# {number}"
        for number in range(32)
    ]
    expected = [float(number % 3 > 0) for number in range(32)]
    struck = retried = 0
    for _ in range(50):
        told: list[Event] = []
        choose = chance.choice((forker, router, a_judge))
        with a_job(connection) as job, Blow(signal.SIGKILL, choose, chance.uniform(0, 0.8)) as blow:
            results = score_codes(job, codes, told)
        assert [result.reward for result in results] == expected
        retries = sum(isinstance(event, RetryScheduled) for event in told)
        assert retries == sum(result.retries for result in results)
        struck += blow.struck
        retried += retries
    assert struck >= 40
    assert retried > 100


def test_with_room_for_one_sandbox_a_lost_worker_leaves_it_to_what_it_lost(connection: Connection) -> None:
    ledger = Lines()
    with a_job(connection, ledger, max_sandboxes=1) as job, Blow(signal.SIGKILL, forker, 0.4) as blow:
        results = score_codes(job, [f"{SLOW}# {number}" for number in range(3)] + [RIGHT] * 20)
        assert blow.struck
        assert [result.reward for result in results] == [1.0] * 23
    assert {events[-1] for events in ledger.events.values()} == {"stopped"}


def test_where_no_cell_can_be_made_each_completion_has_a_sandbox(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runtime that does not know worker sandboxes creates ordinary ones, in which a worker can make no cell."""
    assert isinstance(connection, SdkConnection)
    open_client = type(connection.open())
    create = open_client.create
    monkeypatch.setattr(open_client, "create", lambda client, tags, cells=0, shape=None: create(client, tags))
    told: list[Event] = []
    ledger = Lines()
    with Job(
        connection, job_id=new_job_id(), max_lifetime_seconds=300, ledger=ledger, has_cells=True, emit=told.append
    ) as job:
        results = score_codes(job, [RIGHT, WRONG, RIGHT, RIGHT])
        assert [result.reward for result in results] == [1.0, 0.0, 1.0, 1.0]
        assert {result.isolation for result in results} == {Isolation.SANDBOX}
        more = score_codes(job, [RIGHT, WRONG])
        assert [(result.reward, result.sandboxes, result.cells) for result in more] == [(1.0, 1, 0), (0.0, 1, 0)]
    [warning] = [event.message for event in told if isinstance(event, Warned)]
    assert warning.startswith("cells are not possible here (a user namespace is refused")
    assert workers_of(ledger) == 1, "tried once"


def test_a_long_request_has_a_sandbox_of_its_own(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "LONGEST_REQUEST_BYTES", 50_000)
    with a_job(connection) as job:
        long, short = score_codes(job, [f"x = '{'x' * 60_000}'\n{RIGHT}", RIGHT])
    assert (long.reward, long.isolation, long.retries) == (1.0, Isolation.SANDBOX, 0)
    assert (short.reward, short.isolation) == (1.0, Isolation.CELL)


def test_workers_stay_between_batches(connection: Connection) -> None:
    ledger = Lines()
    with a_job(connection, ledger) as job:
        found = {score_codes(job, [f"{RIGHT}# {number}"])[0].sandbox_id for number in range(5)}
        time.sleep(1.5)
        found |= {score_codes(job, [RIGHT])[0].sandbox_id}
    assert len(found) == 1
    assert list(ledger.events.values()) == [["intent", "created", "stopped"]]
