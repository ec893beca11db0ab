"""Records of the daemon's sandboxes: the living ones, and ended ones for a while."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import grpc
from cwsandbox._proto import sandbox_pb2 as pb

from sandrl.runtime import limits
from sandrl.runtime.host.images import Image, StoreImage
from sandrl.runtime.host.sandbox import HostSandbox
from sandrl.runtime.server import faults
from sandrl.runtime.server.fields import RUNTIME_CLASS
from sandrl.runtime.server.logs import Log
from sandrl.runtime.server.plan import Plan

logger = logging.getLogger(__name__)

TERMINAL_STATES = frozenset({pb.STATE_COMPLETED, pb.STATE_FAILED, pb.STATE_TERMINATED})
_DEFAULT_PAGE, _MAX_PAGE = 100, 1000


@dataclass(eq=False)
class Record:
    """One sandbox as the protocol sees it.

    Attributes:
        sequence: Counts creations, which orders and pages listings.
        host: The sandbox itself while it lives.
        main_exec: Number of its main program while that runs.
        terminal: Set once the state is final.
    """

    sandbox_id: str
    spec: pb.SandboxSpec
    plan: Plan
    state: pb.State = pb.STATE_CREATING
    reason: str = ""
    exit_code: int | None = None
    created: float = field(default_factory=time.time)
    started: float | None = None
    ended: float | None = None
    host: HostSandbox | None = None
    main_exec: int | None = None
    log: Log = field(default_factory=Log)
    terminal: asyncio.Event = field(default_factory=asyncio.Event)
    lifetime: asyncio.TimerHandle | None = None
    sequence: int = 0
    display_name: str = ""
    image: Image | StoreImage | None = None

    def finish(self, state: pb.State, reason: str = "", exit_code: int | None = None) -> None:
        """Enter a final state; the first one counts."""
        if self.state in TERMINAL_STATES:
            return
        self.state, self.reason, self.exit_code = state, reason, exit_code
        self.ended = time.time()
        self.host = None
        self.log.close()
        self.plan = dataclasses.replace(self.plan, files=())
        if self.lifetime is not None:
            self.lifetime.cancel()
            self.lifetime = None  # it would keep the call alive in which it was made
        self.terminal.set()

    def note_limit(self, limit: str) -> None:
        logger.info("sandbox %s went over its %s limit", self.sandbox_id, limit)
        self.reason = f"{limit} limit exceeded"

    def to_proto(self, runner_id: str) -> pb.Sandbox:
        status = pb.SandboxStatus(
            state=self.state,
            state_reason=self.reason,
            runner_id=runner_id,
            runner_group_id="local",
            effective_max_lifetime_seconds=self.plan.lifetime_seconds,
            effective_dns_egress=pb.DNS_EGRESS_MODE_DENY,
            effective_runtime_class=RUNTIME_CLASS,
        )
        for name, moment in (("create_time", self.created), ("start_time", self.started), ("end_time", self.ended)):
            if moment is not None:
                getattr(status, name).FromNanoseconds(int(moment * 1e9))
        if self.exit_code is not None:
            status.exit_code = self.exit_code
        container = self.spec.containers[0]
        status.effective_resources.CopyFrom(container.resources)
        status.effective_resource_requirements.CopyFrom(container.resource_requirements)
        for effective in (status.effective_resources, status.effective_resource_requirements.limits):
            effective.memory = str(self.plan.boot.memory_bytes)
            effective.cpu = "" if self.plan.boot.processors is None else f"{self.plan.boot.processors:g}"
        for service in self.spec.services:
            status.services.add(
                port=service.port, name=service.name, protocol=service.protocol, visibility=service.visibility
            )
        status.container_statuses.add(name=self.plan.container, state=self.state)
        return pb.Sandbox(sandbox_id=self.sandbox_id, spec=self.spec, status=status, display_name=self.display_name)


class Registry:
    """Finds sandboxes by id, by tags and by the request that created them.

    Attributes:
        on_change: Called when a sandbox came to be known, and when one ended.
    """

    def __init__(self) -> None:
        self.on_change: Callable[[], None] = lambda: None
        # In the order of `sequence`, which is what makes pages neither overlap nor leave any out.
        self._records: OrderedDict[str, Record] = OrderedDict()
        self._sequence = itertools.count(1)
        self._terminated: OrderedDict[str, None] = OrderedDict()
        self._logs_of_ended: OrderedDict[str, Log] = OrderedDict()
        self._logged_bytes = 0

    def add(self, record: Record) -> None:
        """Know a sandbox, as the newest."""
        record.sequence = next(self._sequence)
        self._records[record.sandbox_id] = record
        self.on_change()

    def retire(self, record: Record) -> None:
        """A sandbox ended: keep it among the last few thousand ended ones."""
        self._terminated[record.sandbox_id] = None
        if record.log.kept_bytes:
            self._logs_of_ended[record.sandbox_id] = record.log
            self._logged_bytes += record.log.kept_bytes
        while self._logged_bytes > limits.ENDED_LOGS_MAX_BYTES:
            self._forget_log(next(iter(self._logs_of_ended)))
        while len(self._terminated) > limits.TERMINATED_KEPT:
            oldest, _ = self._terminated.popitem(last=False)
            self._records.pop(oldest, None)
            self._forget_log(oldest)
        self.on_change()

    def _forget_log(self, sandbox_id: str) -> None:
        log = self._logs_of_ended.pop(sandbox_id, None)
        if log is not None:
            self._logged_bytes -= log.kept_bytes
            log.forget()

    def knows(self, sandbox_id: str) -> bool:
        return sandbox_id in self._records

    def get(self, sandbox_id: str) -> Record:
        """The sandbox of that id.

        Raises:
            faults.Fault: If there is none.
        """
        if sandbox_id not in self._records:
            message = f"sandbox {sandbox_id!r} not found"
            raise faults.Fault(grpc.StatusCode.NOT_FOUND, message, reason="CWSANDBOX_SANDBOX_NOT_FOUND")
        return self._records[sandbox_id]

    def living(self) -> list[Record]:
        return [record for record in self._records.values() if record.state not in TERMINAL_STATES]

    def list(self, request: pb.ListSandboxesRequest, runner_id: str) -> tuple[list[Record], str]:
        """One page of the sandboxes a request selects, and the token of the next page (empty at the end)."""
        newest_first = request.sort_direction == pb.SORT_DIRECTION_DESCENDING
        after = _parse_token(request.page_token)
        size = min(request.page_size or _DEFAULT_PAGE, _MAX_PAGE)
        page: list[Record] = []
        records = self._records.values()
        for record in reversed(records) if newest_first else records:
            if after is not None and (record.sequence >= after if newest_first else record.sequence <= after):
                continue
            if _selected(record, request, runner_id):
                if len(page) == size:
                    return page, str(page[-1].sequence)
                page.append(record)
        return page, ""


def _parse_token(token: str) -> int | None:
    if not token:
        return None
    if not (token.isascii() and token.isdigit() and len(token) < 20):
        raise faults.invalid(f"{token!r} is not a page token", "page_token")
    return int(token)


def _selected(record: Record, request: pb.ListSandboxesRequest, runner_id: str) -> bool:
    ended = record.state in TERMINAL_STATES
    if request.state != pb.STATE_UNSPECIFIED:
        if record.state != request.state:
            return False
    elif ended and not request.show_terminated:
        return False
    wanted: Sequence[str] = request.tags
    if wanted and not set(wanted) <= set(record.spec.tags):
        return False
    return not request.volume_ids and (not request.runner_ids or runner_id in request.runner_ids)
