"""The records that the driver of a job and its part on a node exchange.

They are plain records, sent in batches. A problem is sent to a node once, as bytes that were made once; a completion is
sent as the code that was extracted from it. The node returns a verdict and its costs: the driver keeps results,
policies and the cache, as if the completion had run on its own machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from sandrl.events import Event
from sandrl.rewards.limits import Limits
from sandrl.rewards.running import Program, ProgramResult
from sandrl.rewards.verdict import Verdict
from sandrl.sandboxes.owner import Owner
from sandrl.sandboxes.providers.protocol import Packages


@dataclass(frozen=True, slots=True)
class NodeSetup:
    """What the part of a job on a node begins with.

    Attributes:
        job_id: The job.
        node: The name of the node, which is a tag of its sandboxes.
        command: What the registry of jobs calls the work.
        tags: Tags of the job, as text.
        max_lifetime_seconds: After this a sandbox is ended, whatever happened to the job.
        image: The image of sandboxes; the node's own default unless given.
        packages: The packages that code may import.
        memory_bytes: Memory of each sandbox; the default unless given.
        has_cells: Whether completions run in cells, where those are possible.
        max_sandboxes: How many sandboxes to hold at once on this node; None for no bound.
        cpus: How many processors the node has for it.
        concurrency: How many completions at once on this node; what suits its processors unless given.
    """

    job_id: str
    node: str
    command: str
    tags: tuple[str, ...]
    max_lifetime_seconds: float
    cpus: float
    image: str | None = None
    packages: Packages = field(default_factory=Packages)
    memory_bytes: int | None = None
    has_cells: bool = True
    max_sandboxes: int | None = None
    concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What the part of a job on a node says of itself when it is ready.

    Attributes:
        isolation: How its local runtime isolates.
        window: How many completions it has under way at once.
        owner: The process that owns its sandboxes.
    """

    isolation: str
    window: int
    owner: Owner


@dataclass(frozen=True, slots=True)
class TaskTerms:
    """How tasks are judged.

    Attributes:
        limits: What a completion may use.
        retries: How often it is tried again on the same node when its sandbox failed.
        backoff_seconds: How long to wait before the first of these.
        tags: Tags of its sandboxes beyond the job's.
        require_isolated: Never judge in the completion's process.
    """

    limits: Limits
    retries: int
    backoff_seconds: float
    tags: tuple[str, ...]
    require_isolated: bool


@dataclass(frozen=True, slots=True)
class Task:
    """A completion to be judged.

    Attributes:
        number: Names it for as long as the job lives.
        problem: The number of its problem.
        terms: How it is judged.
        id: The completion's own id.
        code: What was found in it.
        program: The program that it is, where it is one that is only run.
    """

    number: int
    problem: int
    terms: TaskTerms
    id: str
    code: str
    program: Program | None = None


@dataclass(slots=True)
class Parcel:
    """What a driver sends.

    Attributes:
        problems: Problems by their numbers, as bytes.
        tasks: What to judge.
        dropped: Numbers of tasks whose verdict is of no use any more.
        forgotten: Numbers of problems that no further task has.
        max_sandboxes: How many sandboxes to hold from here on; None if that stays as it is.
    """

    problems: dict[int, bytes] = field(default_factory=dict)
    tasks: list[Task] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    forgotten: list[int] = field(default_factory=list)
    max_sandboxes: int | None = None

    @property
    def size(self) -> int:
        """About how many bytes it has."""
        return sum(map(len, self.problems.values())) + sum(len(task.code) for task in self.tasks)

    def __bool__(self) -> bool:
        """Whether there is anything to send."""
        return bool(self.tasks or self.dropped or self.forgotten or self.max_sandboxes)


@dataclass(frozen=True, slots=True)
class Judged:
    """A task that has its verdict.

    Attributes:
        number: Which.
        verdict: What happened to the completion.
        sandbox_id: Where it ran last.
        executions: How often it was run.
        cells: How many of these were in a cell.
        retries: How many executions followed a failure.
        reruns: How many were for another reason.
        canaries: How often a known-good program was run because of it.
        failures: What went wrong with sandboxes, oldest first.
        why_in_process: Why it could not be judged apart from its checks.
        events: What is counted of its executions.
        result: What a program did, where it is one.
    """

    number: int
    verdict: Verdict
    sandbox_id: str | None
    executions: int
    cells: int
    retries: int
    reruns: int
    canaries: int
    failures: tuple[str, ...]
    why_in_process: str
    events: tuple[Event, ...]
    result: ProgramResult | None = None


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """A line of the ledger of a job.

    Attributes:
        event: `intend`, `taken`, `created` or `stopped`, a method of `Ledger`.
        key: Names the launch among those of all nodes.
        about: The tags, or the id of the sandbox; None if it has none.
        at: When it happened, by the clock of the node.
        since: When the sandbox was asked for, if that was later than its `intend`.
    """

    event: str
    key: str
    about: tuple[str, ...] | str | None
    at: datetime
    since: datetime | None = None


@dataclass(slots=True)
class Bundle:
    """What a node answers.

    Attributes:
        judged: Tasks that have their verdicts.
        events: What happened besides.
        ledger: What became of sandboxes.
        given_up: Numbers of dropped tasks that had not begun.
        window: How many tasks the node has under way at once.
        held: How many sandboxes it holds.
        bound: How many it may hold at that time; None for no bound.
        unstopped: Ids of sandboxes that could not be stopped, once it has ended.
    """

    judged: list[Judged] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    ledger: list[LedgerLine] = field(default_factory=list)
    given_up: list[int] = field(default_factory=list)
    window: int = 1
    held: int = 0
    bound: int | None = None
    unstopped: tuple[str, ...] = ()
