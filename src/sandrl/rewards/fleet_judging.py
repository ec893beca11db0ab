"""The fleet of a job: the nodes of a Ray cluster judge completions, each in its own sandboxes.

The driver decides which node gets which completion, by the speed that each node has shown. A node holds the completions
that it works on and a few more; the next one goes to the node that will finish it first. When no completion is left to
hand out, an idle node also judges what a slow node, or a node that does not answer, has not finished: the first verdict
counts, and the other one is dropped. The loss of a node is never counted against a completion: its completions are
judged elsewhere, and only a completion that no node could judge has no reward.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from queue import Empty, SimpleQueue

from sandrl.errors import InfrastructureError, NodeLostError, RuntimeUnavailableError, SandrlError, ServiceError
from sandrl.events import CompletionStarted, Emit, Event, ExecutionFinished, Warned
from sandrl.events.results import Status
from sandrl.fleet.cluster import Cluster, Node, NodeFacts
from sandrl.rewards.attempts import MOST_MOVES, Attempt
from sandrl.rewards.fleet_link import Link, ProblemBook, Said, Sent
from sandrl.rewards.fleet_watch import Living, News, Retired, Watch
from sandrl.rewards.judge import Judge, longest_execution_seconds
from sandrl.rewards.judging import OnVerdict
from sandrl.rewards.parcels import Bundle, Judged, NodeReport, NodeSetup, TaskTerms
from sandrl.rewards.running import ProgramJudge
from sandrl.rewards.terms import Terms
from sandrl.rewards.verdict import Verdict
from sandrl.sandboxes import Job, Launch, Level
from sandrl.sandboxes.job import CLEANUP_TIMEOUT_SECONDS
from sandrl.sandboxes.providers.ray import RayConnection

# So long without any node that judges, or is about to, until what waits is given up.
_NO_NODE_SECONDS = 60.0
# A node that can say nothing about so many completions in a row is not asked for more.
_MOST_FAILURES = 8
# What another node would have done by now is judged there, too, if that saves so much.
_SAVED_SECONDS = 0.5
_OVERDUE_SECONDS = 5.0
# A node that judges answers every two seconds.
_SILENT_SECONDS = 5.0
_MOST_HOLDERS = 2
_DOUBLE_SECONDS = 0.25
_WINDOW_BEFORE = 64


class Fleet:
    """The nodes that judge for a job, from its first completion to its end.

    Args:
        job: The job, on a connection to a cluster.
        concurrency: How many completions at once on each node; what suits it unless given.

    Raises:
        ServiceError: If no node of the cluster can judge.
    """

    def __init__(self, job: Job, connection: RayConnection, concurrency: int | None) -> None:
        self._job = job
        self._connection = connection
        self._cluster: Cluster = connection.cluster
        self._concurrency = concurrency
        self._news: SimpleQueue[News] = SimpleQueue()
        self._numbers = itertools.count(1)
        self._book = ProblemBook()
        self._links: dict[str, Link] = {}
        self._lost: set[str] = set()
        self._retirements: list[threading.Thread] = []
        self._unstopped: tuple[str, ...] = ()
        # Why nodes are not used, by their ids.
        self._unfit: dict[str, str] = {}
        self._sent: dict[int, Sent] = {}
        self._waiting: deque[Sent] = deque()
        self._owners: dict[int, FleetJudging] = {}
        self._had_node_at = time.monotonic()
        self._doubled_at = 0.0
        # Nodes that can score as soon as others hold fewer sandboxes.
        self._pending: dict[str, Node] = {}
        self._has_begun = False
        self._isolation = ""
        nodes = self._cluster.nodes()
        if not nodes:
            raise RuntimeUnavailableError(
                f"runtime ray: the cluster at {self._cluster.address} has no node that may score completions",
                hint="give a node processors (--num-cpus of `ray start`) or the resource `sandrl`",
                fields=("runtime",),
            )
        self._watch = Watch(self._cluster, nodes, self._news, job.ring)

    def _refuse_if_hopeless(self) -> None:
        """Ends the work where no node has ever been able to score.

        Raises:
            RuntimeUnavailableError: If there is none.
        """
        if self._links or self._has_begun or len(self._unfit) < self._watch.count:
            return
        some = "; ".join(list(self._unfit.values())[:3]) or "all nodes have left"
        raise RuntimeUnavailableError(
            f"runtime ray: no node of the cluster at {self._cluster.address} can score: {some}",
            hint="check each node of the cluster: sandrl doctor --runtime ray",
            fields=("runtime",),
        )

    def _admit(self, found: NodeFacts) -> None:
        """Begins the part of the job on a node that can score."""
        node = found.node
        if found.problem:
            self._unfit[node.id] = f"{node.name}: {found.problem}"
            if found.has_answered or node.id not in self._lost:
                self._job.tell(Warned(f"node {node.name} is not used: {found.problem}"))
            return
        if found.remark and node.id not in self._lost:
            self._job.tell(Warned(f"node {node.name} differs: {found.remark}"))
        self._unfit.pop(node.id, None)
        self._open(node)

    def _open(self, node: Node) -> None:
        share = self._share()
        if share == 0:
            self._pending[node.id] = node
            self._make_room()
            return
        job, connection = self._job, self._connection
        setup = NodeSetup(
            job_id=job.id,
            node=node.name,
            command=job.command,
            tags=job.given_tags,
            max_lifetime_seconds=job.max_lifetime_seconds,
            cpus=node.cpus,
            image=connection.asked_image,
            packages=connection.packages,
            memory_bytes=connection.memory_bytes if connection.has_own_memory else None,
            has_cells=job.has_cells,
            max_sandboxes=share,
            concurrency=self._concurrency,
        )
        self._links[node.id] = Link(self._cluster, node, setup, self._news, job.ring)

    def _share(self) -> int | None:
        """How many sandboxes another node may hold: its share, of which what others may hold is no part."""
        most = self._job.max_sandboxes
        if most is None:
            return None
        left = most - sum(link.may_hold or 0 for link in self._links.values())
        return min(-(-most // max(self._watch.count, 1)), max(left, 0))

    def _make_room(self) -> None:
        """Has nodes that may hold more sandboxes than their share hold fewer, for those that have come since."""
        most = self._job.max_sandboxes
        if most is not None and self._pending:
            share = max(most // (len(self._links) + len(self._pending)), 1)
            for link in self._links.values():
                if (link.bound or 0) > share:
                    link.bind(share)

    def _open_pending(self) -> None:
        """Begins with nodes that waited until others hold fewer sandboxes."""
        for identity, node in list(self._pending.items()):
            if not self._share():
                return
            del self._pending[identity]
            self._open(node)

    @property
    def window(self) -> int:
        """How many completions there should be under way."""
        return sum(link.target for link in self._usable) or _WINDOW_BEFORE

    @property
    def _usable(self) -> list[Link]:
        """The nodes that completions may be given to."""
        return [link for link in self._links.values() if link.is_ready and not link.is_leaving]

    def add(self, attempt: Attempt, owner: FleetJudging) -> None:
        """Takes a completion that wants a verdict."""
        sent = Sent(next(self._numbers), attempt)
        self._sent[sent.number] = sent
        self._owners[sent.number] = owner
        self._waiting.append(sent)

    def look(self) -> None:
        """Takes what nodes say, and gives up what no node is left for.

        Raises:
            RuntimeUnavailableError: If no node of the cluster can score.
        """
        with suppress(Empty):
            while True:
                self._hear(self._news.get_nowait())
        self._refuse_if_hopeless()
        self._open_pending()
        for link in list(self._links.values()):
            if link.is_leaving and not link.held:
                self._retire(link)
        now = time.monotonic()
        if self._links or not self._sent:
            self._had_node_at = now
        elif now - self._had_node_at > _NO_NODE_SECONDS:
            self._give_up_all(f"no node of the Ray cluster at {self._cluster.address} can judge completions any longer")

    def send(self) -> None:
        """Hands out what waits; with nothing left, to nodes that have nothing to do what others have not done."""
        now = time.monotonic()
        self._hand_out(now)
        if not self._waiting and now - self._doubled_at >= _DOUBLE_SECONDS:
            self._doubled_at = now
            self._run_twice(now)

    def give_up(self, owner: FleetJudging, *, everything: bool) -> None:
        """Drops what a batch has: all of it, or what no node has begun as far as is known here."""
        for number in [number for number, each in self._owners.items() if each is owner]:
            sent = self._sent[number]
            if everything or not sent.holders:
                self._forget(sent)
        self._waiting = deque(sent for sent in self._waiting if sent.number in self._sent)

    def _forget(self, sent: Sent) -> None:
        for link in list(sent.holders):
            link.drop(sent.number)
        self._sent.pop(sent.number, None)
        self._owners.pop(sent.number).forget(sent.number)

    def close(self, timeout_seconds: float) -> tuple[str, ...]:
        """See `Elsewhere`."""
        ends_at = time.monotonic() + timeout_seconds
        self._watch.end()
        links = list(self._links.values())
        self._links.clear()
        with ThreadPoolExecutor(max_workers=max(len(links), 1)) as threads:
            ended = threads.map(lambda link: link.end_part(timeout_seconds), links)
            for link, bundle in zip(links, ended, strict=True):
                self._news.put(Retired(link, bundle))
        for thread in (*self._retirements, *(link.receiving for link in links)):
            thread.join(max(ends_at - time.monotonic(), 0.1))
        with suppress(Empty):
            while True:
                news = self._news.get_nowait()
                # A disk that is full keeps no sandbox from being stopped, and none from being told of.
                with suppress(ServiceError, OSError):
                    if isinstance(news, Retired | Said):
                        self._hear(news)
        return self._unstopped

    def _retire(self, link: Link) -> None:
        """Ends the part of the job on a node that is being drained, once it has nothing left to judge."""
        del self._links[link.node.id]
        self._watch.refuse(link.node)

        def end() -> None:
            self._news.put(Retired(link, link.end_part(CLEANUP_TIMEOUT_SECONDS)))
            self._job.ring()

        retirement = threading.Thread(target=end, name=f"sandrl-retire-{link.node.name}", daemon=True)
        self._retirements.append(retirement)
        retirement.start()

    def _hear(self, news: News) -> None:
        if isinstance(news, NodeFacts):
            self._admit(news)
        elif isinstance(news, Living):
            for identity, link in list(self._links.items()):
                if identity not in news.ids:
                    self._lose(link, NodeLostError(f"node {link.node.name} is lost: it has left the cluster"))
                elif identity in news.leaving and not link.is_leaving:
                    link.is_leaving = True
                    self._job.tell(Warned(f"node {link.node.name} is being drained: it gets no more completions"))
            for identity in self._pending.keys() - news.ids:
                del self._pending[identity]
        elif isinstance(news, Retired):
            self._unstopped += news.bundle.unstopped
            self._take_over(news.link, news.bundle)
        elif isinstance(news, Warned):
            self._job.tell(news)
        elif self._links.get(news.link.node.id) is news.link:
            self._hear_link(news.link, news.said)
        elif isinstance(news.said, Bundle):
            # Of a node that was given up, verdicts come too late; what became of sandboxes does not.
            self._take_over(news.link, news.said)

    def _hear_link(self, link: Link, said: NodeReport | Bundle | SandrlError) -> None:
        link.answered_at = time.monotonic()
        if isinstance(said, NodeReport):
            if not link.is_ready:
                self._compare_isolation(link, said)
            link.is_ready, link.window, link.owner = True, said.window, said.owner
            self._has_begun = True
        elif isinstance(said, Bundle):
            link.window = said.window
            link.note_held(said.held, said.bound)
            self._take_over(link, said)
            for number in said.given_up:
                link.held.pop(number, None)
            for judged in said.judged:
                self._land(link, judged)
            if link.failed_in_a_row >= _MOST_FAILURES:
                self._watch.refuse(link.node)
                reason = f"node {link.node.name} is no longer used: it failed to judge its last completions"
                self._lose(link, InfrastructureError(reason))
        else:
            self._lose(link, said)

    def _compare_isolation(self, link: Link, said: NodeReport) -> None:
        """Tells of a node that isolates otherwise than the first one."""
        self._isolation = self._isolation or said.isolation
        if said.isolation != self._isolation:
            detail = f"it isolates completions by {said.isolation}, the other nodes by {self._isolation}"
            self._job.tell(Warned(f"node {link.node.name} differs: {detail}"))

    def _take_over(self, link: Link, bundle: Bundle) -> None:
        """Writes down and tells what happened on a node besides verdicts."""
        for line in bundle.ledger:
            self._job.note_elsewhere(line.event, line.key, line.about, link.owner, line.at, line.since)
        for event in bundle.events:
            index = getattr(event, "index", None)
            if isinstance(event, Warned):
                self._job.tell(replace(event, message=f"node {link.node.name}: {event.message}"))
            elif index is None:
                self._job.tell(event)
            elif index not in self._sent:
                continue
            elif isinstance(event, CompletionStarted):
                self._sent[index].begun.append(link)  # it was told when it was handed out
            else:
                self._owners[index].tell(replace(event, index=self._sent[index].attempt.index))  # type: ignore[call-arg]

    def _land(self, link: Link, judged: Judged) -> None:
        link.held.pop(judged.number, None)
        link.show(time.monotonic())
        sent = self._sent.get(judged.number)
        if sent is None:
            return  # another node was first, or nobody wants it any more
        if judged.verdict.status is Status.INFRASTRUCTURE:
            link.failed_in_a_row += 1
            sent.avoided.add(link.node.name)
            sent.verdict = judged.verdict
            sent.holders = [holder for holder in sent.holders if holder is not link]
            if sent.holders or self._may_try_elsewhere(sent):
                self._count(sent, judged)
                if not sent.holders:
                    self._waiting.appendleft(sent)
                return
        else:
            link.failed_in_a_row = 0
        owner = self._owners[judged.number]
        self._count(sent, judged)
        judge = sent.attempt.terms.judge
        if isinstance(judge, ProgramJudge):
            judge.take(judged.result)
        self._forget_but(sent, link)
        owner.finish(sent, judged.verdict)

    def _forget_but(self, sent: Sent, winner: Link) -> None:
        sent.holders = [link for link in sent.holders if link is not winner]
        self._forget(sent)

    def _may_try_elsewhere(self, sent: Sent) -> bool:
        others = {link.node.name for link in self._links.values() if not link.is_leaving} - sent.avoided
        return bool(others) and len(sent.avoided) <= sent.attempt.terms.options.retries

    def _count(self, sent: Sent, judged: Judged) -> None:
        """Adds what a node did to what is known of a completion."""
        attempt = sent.attempt
        attempt.sandbox_id = judged.sandbox_id or attempt.sandbox_id
        again = bool(attempt.executions) and bool(judged.executions)
        attempt.executions += judged.executions
        attempt.cells += judged.cells
        attempt.retries += judged.retries + again
        attempt.reruns += judged.reruns
        attempt.canaries += judged.canaries
        attempt.failures += judged.failures
        attempt.why_in_process = judged.why_in_process
        waited = sent.sent_at - attempt.queued_at
        for event in judged.events:
            if isinstance(event, ExecutionFinished):
                queued = None if event.queue_seconds is None else event.queue_seconds + waited
                self._owners[sent.number].tell(replace(event, index=attempt.index, queue_seconds=queued))

    def _lose(self, link: Link, error: SandrlError) -> None:
        """Gives what a node had to others."""
        del self._links[link.node.id]
        link.kill()
        self._job.lose_elsewhere(f"{link.node.name}-")
        if not link.is_ready and not isinstance(error, NodeLostError):
            # It said why it cannot begin, and would say it again.
            self._unfit[link.node.id] = error.message.removeprefix("node ")
            self._watch.refuse(link.node)
            self._job.tell(Warned(error.message.replace(":", " is not used:", 1), error.hint))
            return
        lost = [sent for sent in link.held.values() if sent.number in self._sent]
        what = f": {len(lost)} completions are sent to other nodes" if lost else ""
        reason = error.message if error.message.startswith("node ") else f"node {link.node.name}: {error.message}"
        self._job.tell(Warned(f"{reason}{what}", error.hint))
        self._lost.add(link.node.id)
        self._watch.look_again(link.node)
        for sent in lost:
            sent.holders = [holder for holder in sent.holders if holder is not link]
            if not sent.holders:
                self._lose_one(sent, link, reason)

    def _lose_one(self, sent: Sent, link: Link, reason: str) -> None:
        attempt, owner = sent.attempt, self._owners[sent.number]
        sent.losses += 1
        attempt.failures.append(reason)
        if link in sent.begun:
            in_cell = self._job.has_cells
            attempt.retries += bool(attempt.executions)
            attempt.executions += 1
            attempt.cells += in_cell
            task_id, index = attempt.completion.task_id, attempt.index
            owner.tell(ExecutionFinished(task_id, None, "error", index, error=reason, in_cell=in_cell))
        if sent.losses > MOST_MOVES:
            self._forget(sent)
            owner.finish(sent, Verdict(Status.INFRASTRUCTURE, None, detail=reason))
        else:
            self._waiting.appendleft(sent)

    def _give_up_all(self, detail: str) -> None:
        for sent in list(self._sent.values()):
            owner = self._owners[sent.number]
            self._forget(sent)
            owner.finish(sent, Verdict(Status.INFRASTRUCTURE, None, detail=detail))
        self._waiting.clear()

    def _hand_out(self, now: float) -> None:
        ready = self._usable
        held_back: list[Sent] = []
        while self._waiting and ready:
            sent = self._waiting.popleft()
            open_to = [
                link for link in ready if link.node.name not in sent.avoided and len(link.held) < link.target
            ]  # fmt: skip
            if not open_to and sent.verdict is not None and not self._may_try_elsewhere(sent):
                # The nodes that might have judged it have left meanwhile.
                owner = self._owners[sent.number]
                self._forget(sent)
                owner.finish(sent, sent.verdict)
                continue
            if not open_to:
                held_back.append(sent)
                if not sent.avoided:
                    break
                continue
            self._give(min(open_to, key=lambda link: link.seconds_left), sent, now)
        self._waiting.extendleft(reversed(held_back))

    def _give(self, link: Link, sent: Sent, now: float) -> None:
        attempt = sent.attempt
        sent.problem, content = self._book.find(attempt.problem)
        if not sent.sent_at:
            sent.sent_at = now
        if not sent.holders:
            self._owners[sent.number].tell(
                CompletionStarted(
                    attempt.index, attempt.completion.id, attempt.completion.task_id, attempt.executions + 1
                )
            )
        link.give(sent, content, _terms_of(attempt.terms))

    def _run_twice(self, now: float) -> None:
        """Has nodes with nothing to do judge what others will not have done for a while."""
        idle = [link for link in self._usable if not link.held]
        if not idle or len(self._links) < 2:
            return
        slowest = sorted((link for link in self._links.values() if link.held), key=lambda link: -link.seconds_left)
        for link in slowest:
            late = [sent for sent in reversed(link.held.values()) if self._may_be_doubled(sent)]
            overdue = [sent for sent in late if now - sent.sent_at > self._longest(sent)]
            if now - link.answered_at > _SILENT_SECONDS:
                overdue = late
            for taker in idle:
                rate = taker.rate or max(taker.node.cpus, 1.0)
                count = 0
                own = link.rate or max(link.node.cpus, 1.0)
                if len(link.held) / own - 1 / rate > _SAVED_SECONDS:
                    # As many as are done there by the time when the other one has done the rest.
                    count = round(len(link.held) * rate / (rate + own))
                taken = late[:count] or overdue[: taker.window]
                for sent in taken:
                    if taker.node.name not in sent.avoided:
                        self._give(taker, sent, now)
                late = [sent for sent in late if sent not in taken]
                overdue = [sent for sent in overdue if sent not in taken]
            idle = [each for each in idle if not each.held]
            if not idle:
                return

    def _may_be_doubled(self, sent: Sent) -> bool:
        return sent.number in self._sent and len(sent.holders) < _MOST_HOLDERS

    def _longest(self, sent: Sent) -> float:
        return longest_execution_seconds(sent.attempt.problem, sent.attempt.terms.limits) + _OVERDUE_SECONDS


def _terms_of(terms: Terms) -> TaskTerms:
    options = terms.options
    # That of a program has none of its own.
    required = terms.judge.requires_isolated
    return TaskTerms(terms.limits, options.retries, options.backoff_seconds, options.tags, required)


class FleetJudging:
    """The part of one batch in the fleet of its job; see `Judging`, and `SandboxJudging` for the arguments."""

    def __init__(
        self,
        job: Job,
        judge: Judge,
        concurrency: int | None,
        emit: Emit,
        on_verdict: OnVerdict,
    ) -> None:
        assert isinstance(job.connection, RayConnection), "there is no other with a fleet"
        if job.elsewhere is None:
            job.extend(Fleet(job, job.connection, concurrency))
        assert isinstance(job.elsewhere, Fleet), "nothing else is elsewhere"
        self._fleet = job.elsewhere
        self._job = job
        self._emit = emit
        self._on_verdict = on_verdict
        self._count = 0
        self._is_stopping = False

    @property
    def in_flight(self) -> int:
        """See `Judging`."""
        return self._count

    @property
    def waiting(self) -> int:
        """See `Judging`; what waits for a node counts as under way."""
        return 0

    @property
    def window(self) -> int:
        """See `Judging`."""
        return self._fleet.window

    @property
    def fresh_window(self) -> int:
        """See `Judging`."""
        return self._fleet.window

    def begin(self, attempt: Attempt) -> None:
        """See `Judging`."""
        self._count += 1
        self._fleet.add(attempt, self)

    def look(self) -> None:
        """See `Judging`."""
        self._fleet.look()
        if self._is_stopping:
            # What a node was lost with is not begun again.
            self._fleet.give_up(self, everything=False)

    def go_on(self) -> None:
        """See `Judging`: what waits is handed out with what is new."""

    def send(self) -> None:
        """See `Judging`."""
        self._fleet.send()

    def seconds_to_next(self, level: Level) -> float | None:
        """See `Judging`."""
        return _DOUBLE_SECONDS if self._count else None

    def land(self, launch: Launch) -> bool:
        """See `Judging`: nothing of these is a launch here."""
        return False

    def stop(self, level: Level) -> None:
        """See `Judging`."""
        self._is_stopping = True
        self._fleet.give_up(self, everything=level is Level.CANCEL)

    def end(self) -> None:
        """See `Judging`."""
        self._fleet.give_up(self, everything=True)

    def tell(self, event: Event) -> None:
        """Tells what happens to one of these completions."""
        self._emit(event)

    def forget(self, number: int) -> None:
        """One of these is not under way any more."""
        self._count -= 1

    def finish(self, sent: Sent, verdict: Verdict) -> None:
        """One of these has its verdict."""
        self._on_verdict(sent.attempt, verdict)
