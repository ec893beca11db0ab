"""Which node judges what: on nodes of which tests say how fast they are, and how they end."""

from __future__ import annotations

import platform
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.support.fake_cluster import FakeCluster

from sandrl.deadlines import in_background
from sandrl.errors import RuntimeUnavailableError
from sandrl.events import Event, Warned
from sandrl.events.results import Status, Trust
from sandrl.fleet.cluster import Node
from sandrl.judge.judge import Judge
from sandrl.judge.verdict import Verdict
from sandrl.problems import Completion, Problem
from sandrl.sandboxes import Level, SandboxRequest
from sandrl.sandboxes.providers.protocol import Packages
from sandrl.scoring import fleet as fleet_module
from sandrl.scoring import fleet_node
from sandrl.scoring.attempts import Attempt
from sandrl.scoring.context import ScoringContext
from sandrl.scoring.fleet import Fleet, FleetJudging
from sandrl.scoring.fleet_node import NodeScorer, Reply, Task, TaskResult
from sandrl.scoring.options import ScoreOptions

PASSED = Verdict(Status.PASSED, Trust.ISOLATED, 1, 1)
BROKEN = Verdict(Status.INFRASTRUCTURE, None, detail="its sandbox failed")
ONCE = {"executions": 1, "cells": 1, "retries": 0, "reruns": 0, "canaries": 0, "failures": []}


@dataclass
class FakeHost:
    """A node's process that judges one completion after another.

    Attributes:
        seconds: How long it takes for each.
        verdict: What it says of each.
        fails_after: After so many it is lost; None for never.
        refusal: Why it cannot begin; empty if it can.
    """

    seconds: float = 0.0
    verdict: Verdict = PASSED
    fails_after: int | None = None
    refusal: str = ""
    window: int = 2
    isolation: str = "native"
    tasks: list[Task] = field(default_factory=list)
    judged: list[str] = field(default_factory=list)
    is_silent: bool = False
    is_closed: bool = False
    sandboxes: SandboxRequest | None = None
    job: Mapping[str, Any] = field(default_factory=dict)
    _change: threading.Condition = field(default_factory=threading.Condition)
    _is_ended: bool = False
    _is_ready: bool = False

    def begin(self, _: Node, __: None, sandboxes: SandboxRequest, ___: object, job: Mapping[str, Any]) -> None:
        self.sandboxes, self.job = sandboxes, job
        self._is_ended = self._is_ready = self.is_closed = False
        self.tasks.clear()

    def ask(self, method: str, *arguments: Any) -> Future[Any]:
        refusal = (self.refusal, None) if self.refusal else None
        return in_background(lambda: (self._call(method, *arguments), refusal))

    def _call(self, method: str, *arguments: Any) -> Any:
        if method == "take":
            return self._take(*arguments)
        if method == "close":
            self.is_closed = True
            return self.kill()
        return self._collect()

    def _take(self, tasks: Sequence[Task], dropped: Sequence[int]) -> None:
        with self._change:
            self.tasks = [task for task in (*self.tasks, *tasks) if task.number not in dropped]
            self._change.notify_all()

    def _reply(self, *judged: TaskResult) -> Reply:
        return Reply(platform.python_version(), self.isolation, self.window, list(judged), is_last=self.is_closed)

    def _collect(self) -> Reply:
        if not self._is_ready:
            self._is_ready = True
            return self._reply()
        with self._change:
            while self.is_silent and not self._is_ended:
                self._change.wait(0.05)
            self._change.wait_for(lambda: self._is_ended or bool(self.tasks), 0.5)
            if self._is_ended or not self.tasks:
                return self._reply()
        time.sleep(self.seconds)
        if self.fails_after is not None and len(self.judged) >= self.fails_after:
            raise RuntimeError("it was killed")
        with self._change:
            if not self.tasks:
                return self._reply()
            task = self.tasks.pop(0)
            self.judged.append(task.completion.id)
        return self._reply(TaskResult(task.number, self.verdict, "s", ONCE, "", (), None))

    def kill(self) -> None:
        """See `Host.kill`."""
        with self._change:
            self._is_ended = True
            self._change.notify_all()


def cluster_of(*hosts: FakeHost) -> FakeCluster:
    return FakeCluster({f"n{number}": host for number, host in enumerate(hosts)})


@dataclass
class FakeJob:
    told: list[Event] = field(default_factory=list)
    id: str = "job-1"
    command: str = "test"
    given_tags: tuple[str, ...] = ()
    max_lifetime_seconds: float = 60.0
    has_cells: bool = True
    fresh_networks: bool = False
    max_sandboxes: int | None = None

    def tell(self, event: Event) -> None:
        self.told.append(event)

    def ring(self) -> None: ...

    @property
    def journal(self) -> FakeJob:
        return self

    def lose_elsewhere(self, prefix: str) -> None: ...


@dataclass
class Trial:
    fleet: Fleet
    job: FakeJob
    judging: FleetJudging
    verdicts: list[tuple[str, Verdict]]
    attempts: dict[str, Attempt]

    def judge(self, count: int, seconds: float = 20.0, until: Callable[[], bool] | None = None) -> None:
        options = ScoreOptions()
        connection = cast(Any, _NAMED)
        context = ScoringContext.of(options, Judge(), connection)
        problem = Problem("p", "", tests=("assert f(1) == 2",))
        for number in range(count):
            attempt = Attempt(number, Completion(str(number), "p", code="x"), problem, context, code="x")
            self.attempts[str(number)] = attempt
            self.judging.begin(attempt)
        ends_at = time.monotonic() + seconds
        while self.judging.in_flight and not (until is not None and until()):
            assert time.monotonic() < ends_at, f"{self.judging.in_flight} are left"
            self.judging.look()
            time.sleep(0.005)


class _Named:
    network = None

    def __getattr__(self, name: str) -> Any:
        return {"is_local": False, "kind": Status.PASSED}.get(name, "")


_NAMED = _Named()


@pytest.fixture
def trial_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Trial]]:
    monkeypatch.setattr(fleet_module, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(fleet_module, "_TURN_SECONDS", 0.02)
    trials: list[Trial] = []

    def make(cluster: FakeCluster, **options: Any) -> Trial:
        job = FakeJob(**options)
        connection = SimpleNamespace(
            cluster=cluster,
            asked_image=None,
            packages=Packages(),
            memory_bytes=None,
            has_own_memory=False,
            network=None,
        )
        fleet = Fleet(cast(Any, job), cast(Any, connection), None)
        verdicts: list[tuple[str, Verdict]] = []
        judging = FleetJudging.__new__(FleetJudging)
        judging._fleet, judging.emit = fleet, job.tell
        judging.on_verdict = lambda attempt, verdict: verdicts.append((attempt.completion.id, verdict))
        judging.count, judging._is_stopping = 0, False
        trials.append(Trial(fleet, job, judging, verdicts, {}))
        return trials[-1]

    yield make
    for trial in trials:
        trial.fleet.close(5.0)


def test_fast_and_slow_nodes_are_busy_to_the_end(trial_of: Callable[..., Trial]) -> None:
    fast, slow = FakeHost(0.005), FakeHost(0.1)
    trial = trial_of(cluster_of(fast, slow))
    trial.judge(120)
    assert sorted(int(name) for name, _ in trial.verdicts) == list(range(120))
    assert len(slow.judged) >= 2
    assert len(fast.judged) > len(slow.judged)


def test_what_a_silent_node_has_is_judged_elsewhere_and_counted_once(
    trial_of: Callable[..., Trial], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_module, "_SILENT_SECONDS", 0.3)
    good, stuck = FakeHost(0.002), FakeHost(0.002)
    trial = trial_of(cluster_of(good, stuck))
    trial.judge(10)
    assert len(stuck.judged) > 0
    stuck.is_silent = True
    trial.judge(30, seconds=5)
    assert Counter(name for name, _ in trial.verdicts[10:]) == Counter(str(number) for number in range(30))
    assert all(verdict == PASSED for _, verdict in trial.verdicts)


def test_a_lost_node_blames_nobody(trial_of: Callable[..., Trial]) -> None:
    trial = trial_of(cluster_of(FakeHost(0.002), FakeHost(0.002, fails_after=3)))
    trial.judge(40)
    assert Counter(verdict.status for _, verdict in trial.verdicts) == {Status.PASSED: 40}
    assert any(isinstance(event, Warned) and "is lost" in event.message for event in trial.job.told)


def test_a_completion_under_which_every_node_is_lost_has_no_reward_and_is_not_failed(
    trial_of: Callable[..., Trial], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_module, "_NO_NODE_SECONDS", 0.5)
    trial = trial_of(cluster_of(FakeHost(fails_after=0), FakeHost(fails_after=0)))
    trial.judge(3)
    assert [verdict.status for _, verdict in trial.verdicts] == [Status.INFRASTRUCTURE] * 3


def test_what_a_node_can_say_nothing_about_another_one_judges(trial_of: Callable[..., Trial]) -> None:
    sick, well = FakeHost(0.001, verdict=BROKEN), FakeHost(0.01)
    trial = trial_of(cluster_of(sick, well))
    trial.judge(60)
    assert Counter(verdict.status for _, verdict in trial.verdicts) == {Status.PASSED: 60}
    # It is not asked for ever.
    assert len(sick.judged) < 20
    assert any(isinstance(event, Warned) and "is no longer used" in event.message for event in trial.job.told)
    # A copy that came too late is in no count.
    assert sum(trial.attempts[name].executions >= 2 for name in sick.judged) >= fleet_module._MOST_FAILURES - 1


def test_what_no_node_can_say_anything_about_has_no_reward(trial_of: Callable[..., Trial]) -> None:
    trial = trial_of(cluster_of(FakeHost(verdict=BROKEN), FakeHost(verdict=BROKEN)))
    trial.judge(2)
    assert [verdict.status for _, verdict in trial.verdicts] == [Status.INFRASTRUCTURE] * 2
    assert all(attempt.executions == 2 for attempt in trial.attempts.values())


def test_a_stop_drops_what_no_node_has_and_waits_for_the_rest(trial_of: Callable[..., Trial]) -> None:
    trial = trial_of(cluster_of(FakeHost(0.05)))
    trial.judge(50, until=lambda: len(trial.verdicts) >= 3)
    trial.judging.stop(Level.FINISH)
    assert 0 < trial.judging.in_flight < 20
    trial.judge(0)
    assert 3 < len(trial.verdicts) < 30
    trial.judging.stop(Level.CANCEL)
    assert not trial.judging.in_flight


def test_no_node_that_can_score_is_an_error_with_the_reasons(trial_of: Callable[..., Trial]) -> None:
    cluster = cluster_of(FakeHost(refusal="it cannot isolate"), FakeHost(refusal="it has sandrl 0.0.1"))
    trial = trial_of(cluster)
    with pytest.raises(RuntimeUnavailableError, match=r"no node .* can score: .*") as error:
        trial.judge(1)
    assert "it cannot isolate" in error.value.message
    assert "it has sandrl 0.0.1" in error.value.message


def test_a_cluster_without_nodes_is_an_error(trial_of: Callable[..., Trial]) -> None:
    with pytest.raises(RuntimeUnavailableError, match="has no node that may score completions"):
        trial_of(cluster_of())


def test_a_node_that_cannot_be_used_is_named_and_gets_nothing(trial_of: Callable[..., Trial]) -> None:
    cluster = cluster_of(FakeHost(), FakeHost(refusal="it has sandrl 0.0.1"))
    trial = trial_of(cluster)
    trial.judge(10)
    assert len(trial.verdicts) == 10
    assert cluster.hosts["n1"].judged == []
    assert [event.message for event in trial.job.told if isinstance(event, Warned)] == [
        "node n1 is not used: it has sandrl 0.0.1"
    ]


def test_a_node_that_isolates_otherwise_is_named_before_it_gets_work(trial_of: Callable[..., Trial]) -> None:
    trial = trial_of(cluster_of(FakeHost(0.01), FakeHost(0.01, isolation="bubblewrap"), FakeHost(0.01)))
    trial.judge(20)
    told = [event.message for event in trial.job.told if isinstance(event, Warned)]
    assert len([message for message in told if "isolates completions by" in message]) in (1, 2)
    assert all("native" in message and "bubblewrap" in message for message in told)


def test_a_bound_is_shared_by_all_nodes(trial_of: Callable[..., Trial]) -> None:
    hosts = FakeHost(0.01), FakeHost(0.01), FakeHost(0.01)
    cluster = cluster_of(*hosts[:2])
    trial = trial_of(cluster, max_sandboxes=4)
    trial.judge(10)
    # One that comes later has a share as soon as another one has left.
    cluster.hosts["n2"] = hosts[2]
    time.sleep(0.3)
    trial.judge(10)
    shares = [host.sandboxes and host.sandboxes.max_sandboxes for host in hosts]
    assert shares == [2, 2, None]
    del cluster.hosts["n0"]
    time.sleep(0.3)
    trial.judge(10, until=lambda: hosts[2].sandboxes is not None)
    trial.judge(10)
    assert hosts[2].job["max_sandboxes"] == 2


def test_a_node_that_is_drained_finishes_what_it_has_and_ends(trial_of: Callable[..., Trial]) -> None:
    cluster = cluster_of(FakeHost(0.01), FakeHost(0.01))
    trial = trial_of(cluster)
    trial.judge(100, until=lambda: len(trial.verdicts) > 20)
    cluster.leaving.add("n0")
    trial.judge(0)
    assert Counter(verdict.status for _, verdict in trial.verdicts) == {Status.PASSED: 100}
    trial.judge(20)
    assert cluster.hosts["n0"]._is_ended
    told = [event.message for event in trial.job.told if isinstance(event, Warned)]
    assert told == ["node n0 is being drained: it gets no more completions"]


class FakePart:
    """What a node's scorer is made of: its job, which may fail to end, and its scorer, which fails what it has."""

    id = "job-1"
    owner = SimpleNamespace(hash="0123456789ab")
    unstopped: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.tickets: list[Future[Any]] = []
        self.end_error: Exception | None = None

    def window(self, _: int) -> int:
        return 2

    def context(self, _: ScoreOptions, *, require_isolated: bool) -> None: ...

    def submit(self, *_: object, **__: object) -> Any:
        self.tickets.append(Future())
        return SimpleNamespace(future=self.tickets[-1])

    def close(self, seconds: float | None = None) -> None:
        if seconds is not None and self.end_error is not None:
            raise self.end_error
        for ticket in self.tickets:
            if not ticket.done():
                ticket.set_exception(RuntimeError("the scorer is closed"))


@pytest.fixture
def node_scorer(monkeypatch: pytest.MonkeyPatch) -> tuple[NodeScorer, FakePart]:
    part = FakePart()
    for name in ("Job", "Scorer", "Keeper"):
        monkeypatch.setattr(fleet_node, name, lambda *_, **__: part)
    connection = SimpleNamespace(isolation="native", suggested_concurrency=2)
    sandboxes = SimpleNamespace(connect=lambda *_, **__: connection)
    scorer = NodeScorer(Node("id-of-n0", "n0", "127.0.0.2", 2.0), None, cast(Any, sandboxes), (), {})
    assert scorer.collect().window == 2
    problem = Problem("p", "", tests=("assert f(1) == 2",))
    scorer.take([Task(1, Completion("c", "p", code="x"), problem, ScoreOptions(), False, None)], [])
    return scorer, part


def test_a_failure_of_a_node_without_words_is_told(node_scorer: tuple[NodeScorer, FakePart]) -> None:
    scorer, part = node_scorer
    part.tickets[0].set_exception(AssertionError())
    assert scorer.collect().failure == "AssertionError"


def test_what_ends_with_a_node_is_no_failure_of_it(node_scorer: tuple[NodeScorer, FakePart]) -> None:
    scorer, _ = node_scorer
    scorer.close(1.0)
    reply = scorer.collect()
    assert (reply.is_last, reply.failure, reply.unstopped) == (True, "", ())


def test_a_node_that_fails_to_end_does_not_say_that_nothing_is_left(node_scorer: tuple[NodeScorer, FakePart]) -> None:
    scorer, part = node_scorer
    part.end_error = RuntimeError("the client of the runtime broke")
    with pytest.raises(RuntimeError):
        scorer.close(1.0)
    reply = scorer.collect()
    assert (reply.is_last, reply.unstopped) == (True, ("node n0",))
