"""Stopping sandboxes whose owner has ended, or that the user names: first a plan, then its execution.

The plan is a value that can be shown before any sandbox is stopped, and nothing is added to it afterwards. A sandbox
whose owner is alive is in no plan unless that is forced. Stops are independent: a failed stop does not prevent the
others, and a stop that finds nothing to stop counts as done.
"""

from __future__ import annotations

import shlex
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from queue import SimpleQueue
from typing import Any, TypeVar

from sandrl.errors import CleanupError, InterruptedRunError, ServiceError, UnknownSandboxError, UsageError
from sandrl.events import Emit, StopFinished, StopRequested, ignore
from sandrl.sandboxes.interrupt import Interrupt, Level
from sandrl.sandboxes.inventory import Inventory
from sandrl.sandboxes.listing import OwnedSandbox, Owners, SandboxSelection, list_sandboxes
from sandrl.sandboxes.owner import Liveness
from sandrl.sandboxes.providers.protocol import UnreachableNode
from sandrl.sandboxes.registry import forget_jobs
from sandrl.sandboxes.tags import encode_tag

Item = TypeVar("Item")

MAX_IN_FLIGHT = 32
"""How many stops are under way at once: thousands would choke a runtime."""

_CONDITIONS = ("tags", "orphans", "older_than_seconds", "everything")


@dataclass(frozen=True, slots=True)
class CleanupRequest:
    """The sandboxes that the user selects to be stopped.

    Attributes:
        options: Further words of the command line, for the command that continues it.
    """

    ids: tuple[str, ...] = ()
    selection: SandboxSelection = field(default_factory=SandboxSelection)
    everything: bool = False
    force: bool = False
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        selects = self.selection != SandboxSelection()
        if not (self.ids or selects or self.everything):
            raise UsageError(
                "no sandboxes are selected, so nothing was stopped",
                hint="give `tags`, `orphans`, `older_than_seconds`, ids of sandboxes, or `everything`",
                fields=_CONDITIONS,
            )
        if self.ids and (selects or self.everything):
            raise UsageError(
                "ids cannot be used with `tags`, `orphans`, `older_than_seconds` or `everything`; nothing was stopped",
                hint="give either ids or conditions",
                fields=_CONDITIONS,
            )

    def command(self, ids: Sequence[str] = ()) -> str:
        """The command line that carries it out without confirmation; if it has ids, for these ids only."""
        words = ["sandrl", "sandboxes", "cleanup"]
        for tag in self.selection.tags:
            # Encoding twice is encoding once, and what is encoded needs no quotes.
            words += ["--tag", encode_tag(tag)]
        if self.selection.orphans:
            words.append("--orphans")
        if self.selection.older_than_seconds is not None:
            words += ["--older-than", f"{self.selection.older_than_seconds:g}s"]
        words += ["--all"] * self.everything + ["--force"] * self.force + [*self.options, "--yes"]
        if self.ids:
            words += ids or self.ids
        return shlex.join(words)


@dataclass(frozen=True, slots=True)
class CleanupPlan:
    """The sandboxes that a cleanup will stop.

    Attributes:
        spared: Selected sandboxes that are not stopped, because their owner is alive.
        gone: Selected ids of sandboxes that have ended or never existed.
        unreached: The machines of the runtime that could not be asked; their sandboxes are not in the plan.
    """

    request: CleanupRequest
    targets: tuple[OwnedSandbox, ...] = ()
    spared: tuple[OwnedSandbox, ...] = ()
    gone: tuple[str, ...] = ()
    unreached: tuple[UnreachableNode, ...] = ()

    @property
    def foreign(self) -> int:
        return sum(each.owner is None for each in self.targets)

    def raise_for_unreached(self) -> None:
        """Ends the command with an error if selected sandboxes may be missing in the plan.

        Raises:
            ServiceError: If a machine of the runtime could not be asked.
        """
        if self.unreached:
            names = ", ".join(each.node for each in self.unreached)
            raise ServiceError(
                f"could not be queried, so their sandboxes were not stopped: {names}",
                hint=f"{self.request.command()} tries again",
            )


class StopOutcome(StrEnum):
    STOPPED = "stopped"
    GONE = "already gone"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class CleanupReport:
    """The result of a cleanup.

    Attributes:
        failed: Reasons, by id, why sandboxes could not be stopped.
        left: Ids of sandboxes that were not handled, because the user asked to stop.
    """

    plan: CleanupPlan
    stopped: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    left: tuple[str, ...] = ()
    signal_number: int = 0

    def raise_for_outcome(self) -> None:
        """Ends the command with an error if not all targets were stopped.

        Raises:
            InterruptedRunError: If something is left because the user asked to stop.
            CleanupError: If a sandbox could not be stopped.
            ServiceError: If a machine of the runtime could not be asked for its sandboxes.
        """
        failed = [sandbox_id for sandbox_id, _ in self.failed]
        again = self.plan.request.command([*failed, *self.left])
        if self.left:
            raise InterruptedRunError(
                f"interrupted: {len(self.left)} of {len(self.plan.targets)} sandboxes are left",
                signal_number=self.signal_number,
                hint=f"{again} continues",
            )
        if self.failed:
            raise CleanupError(
                f"{len(failed)} of {len(self.plan.targets)} sandboxes could not be stopped: {self.failed[0][1]}",
                hint=f"{again} tries again",
            )
        self.plan.raise_for_unreached()


def plan_cleanup(inventory: Inventory | None, request: CleanupRequest, owners: Owners) -> CleanupPlan:
    """Determines the sandboxes that a request selects; stops nothing.

    Args:
        inventory: The runtime; None if it does not run and so has no sandbox.

    Raises:
        ServiceError: If the service does not answer or refuses.
    """
    if inventory is None:
        return CleanupPlan(request, gone=request.ids)
    meant = [each for each in list_sandboxes(inventory, request.selection, owners) if not each.sandbox.has_ended]
    gone: tuple[str, ...] = ()
    if request.ids:
        living = {each.sandbox.id: each for each in meant}
        wanted = tuple(dict.fromkeys(request.ids))
        meant = [living[sandbox_id] for sandbox_id in wanted if sandbox_id in living]
        if not inventory.unreached:  # else it may be there
            gone = tuple(sandbox_id for sandbox_id in wanted if sandbox_id not in living)
    spared = [] if request.force else [each for each in meant if each.owner is Liveness.ALIVE]
    targets = meant if request.force else [each for each in meant if each.owner is not Liveness.ALIVE]
    return CleanupPlan(request, tuple(targets), tuple(spared), gone, inventory.unreached)


def clean_up(
    inventory: Inventory | None,
    plan: CleanupPlan,
    owners: Owners,
    *,
    emit: Emit = ignore,
    interrupt: Interrupt | None = None,
    max_in_flight: int = MAX_IN_FLIGHT,
) -> CleanupReport:
    """Carries a plan out, and forgets jobs of which nothing is left.

    Args:
        interrupt: The user's request to stop: the first lets stops under way finish, the second waits for nothing more.
    """
    interrupt = interrupt or Interrupt()
    results: dict[str, tuple[StopOutcome, str]] = {}
    targets = [each.sandbox.id for each in plan.targets]
    if inventory is not None:
        with interrupt.heard():
            ends = in_parallel(
                targets,
                inventory.stop,
                limit=max_in_flight,
                interrupt=interrupt,
                on_request=lambda count: emit(StopRequested(interrupt.level is Level.CANCEL, count)),
            )
            for sandbox_id, ended in ends:
                error = inventory.stop_error(ended)
                if error is None:
                    results[sandbox_id] = StopOutcome.STOPPED, ""
                elif isinstance(error, UnknownSandboxError):
                    results[sandbox_id] = StopOutcome.GONE, ""
                else:
                    results[sandbox_id] = StopOutcome.FAILED, error.message
                outcome, detail = results[sandbox_id]
                emit(StopFinished(sandbox_id, outcome, detail, finished=len(results), of=len(targets)))
        if interrupt.level is Level.NONE:
            _forget_finished_jobs(inventory, owners)
    return CleanupReport(
        plan,
        stopped=_with(StopOutcome.STOPPED, results),
        gone=(*plan.gone, *_with(StopOutcome.GONE, results)),
        failed=tuple((each, results[each][1]) for each in _with(StopOutcome.FAILED, results)),
        left=tuple(sandbox_id for sandbox_id in targets if sandbox_id not in results),
        signal_number=interrupt.signal_number,
    )


def in_parallel(
    items: Iterable[Item],
    start: Callable[[Item], Future[Any]],
    *,
    limit: int,
    interrupt: Interrupt,
    on_request: Callable[[int], None],
) -> Iterator[tuple[Item, Future[Any]]]:
    """Starts a call for every item and yields those that have ended, in the order of their ends.

    Args:
        interrupt: After a request to finish, no further call is started; after one to cancel, no end is awaited.
        on_request: Called each time the user asks to stop, with the number of calls in flight.

    Yields:
        An item and its ended call. Items that are never yielded were not started, or not awaited.
    """
    waiting = deque(items)
    ended: SimpleQueue[tuple[Item, Future[Any]] | None] = SimpleQueue()
    in_flight = 0
    announced = Level.NONE
    _ring(interrupt, ended)
    while True:
        while interrupt.level is not announced:  # the user may ask again while the first request is announced
            announced = interrupt.level
            on_request(in_flight)
        while waiting and in_flight < limit and interrupt.level is Level.NONE:
            item = waiting.popleft()
            start(item).add_done_callback(lambda future, item=item: ended.put((item, future)))  # type: ignore[misc]
            in_flight += 1
        if not in_flight or announced is Level.CANCEL:
            return
        end = ended.get()
        if end is None:
            _ring(interrupt, ended)
        else:
            in_flight -= 1
            yield end


def _ring(interrupt: Interrupt, ended: SimpleQueue[Any]) -> None:
    # Made before the level is looked at: a request in between rings the new one.
    interrupt.waker().add_done_callback(lambda _: ended.put(None))


def _with(outcome: StopOutcome, results: dict[str, tuple[StopOutcome, str]]) -> tuple[str, ...]:
    return tuple(sandbox_id for sandbox_id, (found, _) in results.items() if found is outcome)


def _forget_finished_jobs(inventory: Inventory, owners: Owners) -> None:
    # Entries that stay for want of an answer lead to nothing, and are pruned in time.
    with suppress(ServiceError):
        left = {tag for sandbox in inventory.list() for tag in sandbox.tags}
        if not inventory.unreached:
            forget_jobs(owners.state_dir, inventory.connection.addresses(), left)
