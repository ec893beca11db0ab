"""The task: one shape for every format of a problem that is a machine.

Readers of formats (Harbor, Terminal-Bench, SWE rows) make tasks, and nothing after them depends on the format. A task
holds paths of directories on this machine, not their content; `digest` stands for the content.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sandrl.settings import NetworkMode

DEFAULT_SECONDS = 600.0
"""The time limit of an answer, or of a verifier, whose task has none."""


class VerifierMode(StrEnum):
    """Where a verifier runs.

    Attributes:
        SHARED: In the sandbox of the agent, after the agent has ended.
        SEPARATE: In a fresh sandbox, from what was collected of the agent's.
    """

    SHARED = "shared"
    SEPARATE = "separate"


class RewardStrategy(StrEnum):
    """How the rewards of several steps become one: per name their mean, or those of the last step."""

    MEAN = "mean"
    FINAL = "final"


@dataclass(frozen=True, slots=True)
class Reach:
    """What programs may reach in the network; `allowed_hosts` are names, `*.NAME`, addresses and ranges of them."""

    mode: NetworkMode = NetworkMode.PUBLIC
    allowed_hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Healthcheck:
    """A command that succeeds once the machine is ready; a failure within `start_period_seconds` does not count."""

    command: str
    interval_seconds: float = 5.0
    timeout_seconds: float = 30.0
    start_period_seconds: float = 0.0
    start_interval_seconds: float = 5.0
    retries: int = 3


@dataclass(frozen=True, slots=True)
class Environment:
    """The machine of a task.

    Attributes:
        image: Its image, as `Problem.image` names one: a reference, or `dockerfile:DIR`.
        memory_bytes: Memory of all its processes; None for the default of tasks.
        processors: How many it has; None for one.
        storage_bytes: How much it may write; None for the default of tasks.
        gpus: How many GPUs it needs.
        network: What its programs may reach, unless a phase says otherwise.
        variables: Variables of all its programs, with templates (`${NAME}`, `${NAME:-default}`) as they were written.
        directory: The working directory of its programs; None for that of the image.
        prepare: A script of bash that root runs once after the start, before the healthcheck, such as to remove what
            the agent may not see; empty for none.
        files: A directory on this machine whose content is copied to the working directory at the start, because the
            image was not built of it; empty for none.
        build_timeout_seconds: How long the build of its image and its start may take.
    """

    image: str
    memory_bytes: int | None = None
    processors: float | None = None
    storage_bytes: int | None = None
    gpus: int = 0
    network: Reach = field(default_factory=Reach)
    variables: tuple[tuple[str, str], ...] = ()
    directory: str | None = None
    prepare: str = field(default="", repr=False)
    files: str = ""
    healthcheck: Healthcheck | None = None
    build_timeout_seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class Phase:
    """How the programs of an agent, or of a verifier, run.

    Attributes:
        user: Its user, by name or number; None for that of the image.
        timeout_seconds: Wall time; None for no limit of the task's own.
        network: What it may reach; None for what the environment may.
        variables: Its variables, besides those of the environment, with templates as they were written.
    """

    user: str | None = None
    timeout_seconds: float | None = None
    network: Reach | None = None
    variables: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Collect:
    """A command that prepares what is collected, after the agent has ended."""

    command: str
    timeout_seconds: float = 60.0
    user: str | None = None


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file or directory of the machine that is collected.

    Attributes:
        source: Its absolute path in the machine, or relative to `/logs/artifacts`.
        destination: Where it is put, relative to the collected files; None for a place made of its source.
        exclude: Patterns of `tar --exclude` for what of a directory is left out.
    """

    source: str
    destination: str | None = None
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verifier:
    """The program that decides the reward after the agent has ended.

    Attributes:
        directories: Directories on this machine whose content is copied to `/tests`, one over the other.
        files: Further files of `/tests`: relative paths and contents.
        script: The program, relative to `/tests`; it is run by its own first line, or by bash without one.
        environment: The machine of a separate verifier, if it is not a fresh one of the task's.
        has_tests: Whether the image of that machine already has `/tests`, so that nothing is copied there.
        parser: The name of a parser of `sandrl.problems.tasks.log_parsers`: the reward is 1 if all `required` tests
            that it finds in the output have passed, else 0. Empty if the program writes reward files.
        required: The tests that must be found and pass; empty for all that are found, and at least one.
        may_skip: Those of them that may be skipped as well.
        ends_processes: Whether the processes of the agent may be ended before the program runs in its sandbox; some
            tasks ask for a server that runs.
    """

    phase: Phase = field(default_factory=Phase)
    mode: VerifierMode = VerifierMode.SHARED
    directories: tuple[str, ...] = ()
    files: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)
    script: str = "test.sh"
    environment: Environment | None = None
    has_tests: bool = False
    collect: tuple[Collect, ...] = ()
    ends_processes: bool = False
    parser: str = ""
    required: tuple[str, ...] = ()
    may_skip: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Solution:
    """A program that solves a task: the oracle.

    Attributes:
        directory: A directory on this machine whose content is copied to `/solution`; empty for none.
        files: Further files of `/solution`: relative paths and contents.
        script: The program, relative to it.
        patch: A diff that is applied instead, in the working directory; empty if there is a program.
        variables: Its variables, with templates as they were written.
    """

    directory: str = ""
    files: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)
    script: str = "solve.sh"
    patch: str = field(default="", repr=False)
    variables: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class TaskStep:
    """One instruction and its verifier; most tasks have one step, without a name.

    Attributes:
        workdir: A directory on this machine whose content is copied to the working directory before the step; its
            `setup.sh` is run. Empty for none.
        min_reward: The least rewards, by name, with which later steps are begun.
    """

    instruction: str
    name: str = ""
    agent: Phase = field(default_factory=Phase)
    verifier: Verifier = field(default_factory=Verifier)
    solution: Solution | None = None
    workdir: str = ""
    healthcheck: Healthcheck | None = None
    min_reward: tuple[tuple[str, float], ...] = ()
    artifacts: tuple[Artifact, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """A problem that is a machine.

    Attributes:
        name: Its name in its format; the problem's `task_id` may differ, because it must be unique in its set.
        format: The format and its version, such as `harbor 1.3`.
        directory: Where it was read from; empty for a row.
        digest: SHA-256 over all of its fields and files, in hexadecimal digits.
        environment: The machine of its agent.
        steps: One or more, in order.
        ignored: Fields of its directory that have no effect here, which a user may want to know.
        metadata: What its author says about it, as plain data.
    """

    name: str
    format: str
    digest: str
    environment: Environment
    steps: tuple[TaskStep, ...]
    directory: str = ""
    strategy: RewardStrategy = RewardStrategy.MEAN
    ignored: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict, hash=False)

    @property
    def longest_seconds(self) -> float:
        """How long its agent and its verifier may take, once each."""
        limits = (limit for step in self.steps for limit in (step.agent, step.verifier.phase))
        return sum(DEFAULT_SECONDS if each.timeout_seconds is None else each.timeout_seconds for each in limits)

    @property
    def has_solution(self) -> bool:
        """Whether every step has one."""
        return all(step.solution is not None for step in self.steps)

    @property
    def has_shared_verifier(self) -> bool:
        """Whether a verifier is to run in the sandbox of the agent, unless a run says otherwise."""
        return any(step.verifier.mode is VerifierMode.SHARED for step in self.steps)
