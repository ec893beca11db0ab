"""The sandbox options of a piece of work, and the job that it gets.

Everything that runs code takes the same few options about sandboxes, so they are one record that every request holds:
it finds the runtime, makes the job and describes itself for a run. The number of completions or episodes at once is not
part of it, because each kind of work counts something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from pydantic import JsonValue

from sandrl.bounds import check_text
from sandrl.config.budget import Budget
from sandrl.config.parts import SandboxesPart
from sandrl.errors import BudgetError, UsageError
from sandrl.events import Emit, ignore
from sandrl.prices import price_of
from sandrl.quantities import size_text
from sandrl.runs import RunReader, RunWriter
from sandrl.runs.held import SandboxTime, held_by, price_in
from sandrl.runtime.network import DestinationError, Network
from sandrl.sandboxes.connection import connect
from sandrl.sandboxes.interrupt import Interrupt
from sandrl.sandboxes.job import Job
from sandrl.sandboxes.providers.protocol import Connection, Packages
from sandrl.sandboxes.spending import Allowance
from sandrl.sandboxes.tags import new_job_id
from sandrl.settings import NetworkMode, RuntimeKind, Settings, load_settings, split_runtime

LEAST_MEMORY_BYTES = 32 << 20
"""The least memory of a sandbox: less would stop the judge, and right completions with it."""


@dataclass(frozen=True, slots=True)
class SandboxRequest:
    """Which sandboxes a piece of work needs.

    Attributes:
        runtime: The name of a runtime, or `ray:ADDRESS`.
        packages: Python packages that the code may import, as pip writes requirements; they are installed once.
        max_sandboxes: How many to hold at once, including those that are being stopped; None for no limit.
        fresh: Judge each completion in a sandbox of its own, not in a cell of one that judges many.
        fresh_networks: Create a network namespace for each cell, also where the last one was not used.
        network: What the code may reach: `none`, `allowlist` or `public`; None for what the runtime decides, which is
            nothing on this machine, or for `allowlist` if hosts are named. With a network, `fresh` is implied.
        allow_hosts: Hosts of the Internet that it may reach: `NAME` (port 443), `NAME:PORT`, addresses.
        private_hosts: Hosts that it may reach though they belong to this machine or its networks, at any port or one.
        budget: How much sandbox time or money they may use; None for no limit.

    Raises:
        UsageError: If a number is below 1, a text is empty, the runtime does not exist, or a host is none.
    """

    runtime: str = RuntimeKind.AUTO
    image: str | None = None
    packages: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    max_sandboxes: int | None = None
    memory_bytes: int | None = None
    fresh: bool = False
    budget: str | None = None
    fresh_networks: bool = False
    network: str | None = None
    allow_hosts: tuple[str, ...] = ()
    private_hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.max_sandboxes is not None and self.max_sandboxes < 1:
            raise UsageError(f"max_sandboxes must be 1 or more, not {self.max_sandboxes}", fields=("max_sandboxes",))
        if self.memory_bytes is not None and self.memory_bytes < LEAST_MEMORY_BYTES:
            raise UsageError(
                f"sandbox_memory_bytes must be {size_text(LEAST_MEMORY_BYTES)} or more, not {self.memory_bytes} bytes:"
                " with less, the judge itself has no room",
                hint="a size may have a unit, such as 512MiB",
                fields=("sandbox_memory_bytes",),
            )
        split_runtime(self.runtime)
        check_text("image", self.image)
        check_text("packages", *self.packages)
        check_text("tags", *self.tags)
        _ = self.reach

    @classmethod
    def of(cls, config: SandboxesPart, *tags: str) -> Self:
        """The sandboxes that the configuration of a command requests.

        Args:
            tags: Tags of the workflow, which come before the user's.
        """
        return cls(
            config.runtime,
            config.image,
            config.packages,
            (*tags, *config.tags),
            config.max_sandboxes,
            config.sandbox_memory_bytes,
            config.fresh_sandboxes,
            config.budget,
            config.fresh_networks,
            config.network,
            config.allow_hosts,
            config.private_hosts,
        )

    @property
    def reach(self) -> Network | None:
        """What the code may reach; None for what the runtime decides."""
        try:
            mode = None if self.network is None else NetworkMode(self.network)
        except ValueError as error:
            known = ", ".join(NetworkMode)
            raise UsageError(f"there is no network {self.network!r}: it is {known}", fields=("network",)) from error
        try:
            return Network.of(mode, self.allow_hosts, self.private_hosts)
        except DestinationError as error:
            fields = ("network", "allow_hosts", "private_hosts")
            hint = "`network` allowlist takes `allow_hosts`; `private_hosts` goes with allowlist and public"
            raise UsageError(f"network: {error}", hint=hint, fields=fields) from error

    def tagged(self, *tags: str) -> SandboxRequest:
        """A copy with the tags of a workflow, which come before the user's."""
        return replace(self, tags=(*tags, *self.tags))

    def allowance(self, settings: Settings, *, run: Path | None = None) -> Allowance:
        """How much sandbox time the work may use, and what an hour of it costs; starts nothing.

        Args:
            run: The directory of the run that is resumed; its earlier jobs count as well.

        Raises:
            AuthenticationError: If the remote service was asked for without credentials.
            BudgetError: If earlier jobs of the run have used the budget up.
            InputError: If the user's prices cannot be read.
            UsageError: If the budget is money, and the runtime has no price.
        """
        kind = settings.choose_runtime(self.runtime).kind
        price = price_of(kind, settings)
        reader = None if run is None else RunReader(run)
        before = SandboxTime() if reader is None else held_by(reader)
        if price is None and reader is not None:
            price = price_in(reader.config.options)
        if self.budget is None:
            return Allowance(price=price, before_seconds=before.seconds)
        budget = Budget.parse(self.budget)
        try:
            seconds = budget.seconds_at(price)
        except ValueError as error:
            hint = f"set a price with sandrl prices set {kind} PRICE, or give a budget of time, such as 2h"
            message = f"budget {self.budget} cannot be used on runtime {kind}: {error}"
            raise UsageError(message, hint=hint, fields=("budget",)) from error
        if run is not None and before.seconds >= seconds:
            text = SandboxTime(before.seconds, price).text
            raise BudgetError(
                f"the budget of {self.budget} is used up: the run {run.name!r} has used {text} of sandbox time",
                hint="a larger `budget` resumes the run",
                fields=("budget",),
            )
        return Allowance(self.budget, seconds, price, before.seconds)

    def modules(self, settings: Settings, needed: Sequence[str] = ()) -> frozenset[str] | None:
        """The modules that sandboxes of this machine have besides the standard library; None if this is not known yet.

        Raises:
            UsageError: If a requirement is not valid.
        """
        if not self.packages and not needed:
            return frozenset()
        from sandrl.runtime.packages import modules_of_packages

        return modules_of_packages(self.packages, needed, settings.cache_dir)

    def connect(self, settings: Settings, *, needed: Sequence[str] = (), emit: Emit = ignore) -> Connection:
        """Chooses the runtime, and starts the local one if necessary.

        Args:
            needed: Packages that problems name, as requirements or modules; what cannot be installed is left out with a
                warning.

        Raises:
            AuthenticationError: If the remote service was asked for without credentials.
            RuntimeUnavailableError: If the local runtime cannot start or isolate on this machine.
            ServiceError: If packages must be installed, and the package index does not answer.
            UsageError: If requested packages cannot be installed, or the address of the remote service is invalid.
        """
        return connect(
            settings,
            runtime=self.runtime,
            image=self.image,
            packages=Packages(self.packages, tuple(needed)),
            memory_bytes=self.memory_bytes,
            network=self.reach,
            emit=emit,
        )

    def job(
        self,
        connection: Connection,
        *,
        command: str,
        max_lifetime_seconds: float,
        writer: RunWriter | None = None,
        allowance: Allowance | None = None,
        interrupt: Interrupt | None = None,
        emit: Emit = ignore,
    ) -> Job:
        """Creates the job that owns the sandboxes; leaving its `with` block ends it.

        Args:
            max_lifetime_seconds: After this the service ends a sandbox, whatever happened to the job.
            writer: The run that the job belongs to, with the job id and the ledger; None for a job without a run
                directory.
            allowance: How much sandbox time it may use; computed from the budget unless given.
        """
        if allowance is None and self.budget is not None:
            allowance = self.allowance(load_settings())
        return Job(
            connection,
            job_id=new_job_id() if writer is None else writer.job_id,
            command=command,
            tags=self.tags,
            max_sandboxes=self.max_sandboxes,
            max_lifetime_seconds=max_lifetime_seconds,
            run_dir=None if writer is None else writer.path,
            ledger=None if writer is None else writer.append_sandbox,
            record_connection=None if writer is None else writer.append,
            has_cells=not (self.fresh or connection.has_network),
            fresh_networks=self.fresh_networks,
            emit=emit,
            allowance=allowance,
            interrupt=interrupt,
        )

    def document(self, connection: Connection) -> dict[str, JsonValue]:
        """The request as plain JSON for a run, with the runtime and image that were chosen."""
        return {
            "max_sandboxes": self.max_sandboxes,
            "runtime": str(connection.kind),
            "runtime_reason": connection.reason,
            "image": connection.image,
            "packages": list(self.packages),
            "tags": list(self.tags),
            **({} if connection.network is None else {"network": {**connection.network.document()}}),
        }
