"""A trial: an agent acts on the machine of a task, and the verifier of the task decides the reward.

Every verdict on a task comes from here. A verifier that leaves no valid reward has failed, and the cause of its
failure decides the reward. A cause before the agent acted is infrastructure, and the reward is null. Otherwise the
verifier runs again, from the state that the agent left, in a fresh sandbox; then on the untouched image. If it fails
there as well, the reward is null. If it does not, it runs once more from the agent's state, because an outage may have
ended meanwhile; if it fails again, the agent's state makes it fail, and the reward is 0. So an agent cannot leave its
group by breaking a verifier, and loses nothing by a verifier that is broken.
"""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar

from sandrl.config.words import VerifierPlace
from sandrl.errors import InfrastructureError, InputError, NoUserError
from sandrl.events.results import Status, Trust
from sandrl.judge.verdict import Verdict
from sandrl.problems.tasks.log_parsers import check_parser
from sandrl.problems.tasks.task import (
    Environment,
    Phase,
    Reach,
    Task,
    TaskStep,
    VerifierMode,
)
from sandrl.problems.tasks.templates import resolved
from sandrl.runs import VERIFIER_TAG
from sandrl.sandboxes import OTHER_HOSTS, Shape, State, delay_seconds, network_of
from sandrl.trials.aggregation import StepEnd, verdict_of
from sandrl.trials.artifacts import WORKING_DIRECTORY, collected, files_of
from sandrl.trials.entries import Entry
from sandrl.trials.machine import ROOT, Machine
from sandrl.trials.place import RuntimeLost
from sandrl.trials.preparation import (
    SETUP_SECONDS,
    Unprepared,
    make_ready,
    run_to_end,
    wait_until_healthy,
    working_directory,
)
from sandrl.trials.state import LostStateError, drop_state, find_state
from sandrl.trials.verification import Failure, Reading, run_verifier
from sandrl.trials.verifier_text import with_artifacts

LIFETIME_MARGIN_SECONDS = 3600.0
"""How long a machine may live besides what its task allows: waiting for a model, set-up, and what is collected."""

MEMORY_BYTES, STORAGE_BYTES = 2 << 30, 10 << 30
"""What the machine of a task has that names no size of its own."""

_MOST_LOSSES = 4
_MOST_NAMES = 32
_FIRST_PAUSE_SECONDS = 0.5
_MOST_HOSTS = 100

_Found = TypeVar("_Found")


class AnswerError(Exception):
    """An answer cannot be applied, such as a patch that does not fit; the message says why, in one line."""


class _Undecided(Exception):
    # A verifier fails on the untouched image as well, or cannot have the agent's state; the message says why.
    pass


class Agent(Protocol):
    """Acts on the machine of a task.

    Attributes:
        is_repeatable: Whether it may act again, in a new sandbox, after an infrastructure failure.
        takes_turns: Whether its trial waits until there is room for its machine. The episodes of a trainer that calls
            all of them in turn must not wait: either all of them are there, or none goes on.
    """

    @property
    def is_repeatable(self) -> bool: ...

    @property
    def takes_turns(self) -> bool: ...

    def act(self, machine: Machine, step: TaskStep, number: int) -> str | None:
        """Acts until it has ended, or its time limit `step.agent.timeout_seconds` is over.

        Args:
            step: The step, with resolved variables of the agent.
            number: That of the step, from 0.

        Returns:
            A remark for the result, in one line, if there is one.

        Raises:
            AnswerError: If what it was given cannot be applied; nothing is verified then.
            InfrastructureError, RuntimeLost: If the sandbox was lost.
        """
        ...


@dataclass(frozen=True, slots=True)
class FinalState:
    """An agent that has acted before: the files of the states that it left, one for each step that it began.

    Attributes:
        image: The image of the machine that it acted on; empty for that of the task as it is now.
    """

    files: tuple[str, ...]
    image: str = ""
    is_repeatable = True
    takes_turns = True

    def states(self, image: str) -> tuple[State, ...]:
        """Its states over an image, unless it has one of its own.

        Raises:
            InputError: If a file is not there.
        """
        found = [find_state(Path(file).parent, _digest_in(file), self.image or image) for file in self.files]
        for file, state in zip(self.files, found, strict=True):
            if state is None:
                raise InputError("the final state is not there", path=file)
        return tuple(state for state in found if state is not None)

    def act(self, machine: Machine, step: TaskStep, number: int) -> str | None:
        raise AssertionError("a state is verified, and no agent acts")


@dataclass(frozen=True, slots=True)
class TrialOptions:
    """How trials go.

    Attributes:
        mode: Where shared verifiers run.
        passed_variables: Values of the variables of this machine that templates of tasks may use, by name.
        has_own_network: Whether machines have the network that tasks ask for, and not that of the job.
        private_hosts: What machines with a network of their tasks reach besides, of this machine and its networks.
        output_bytes: How much of the output of a verifier is kept.
        retries: How often a machine is asked for again that did not start.
        at_once: How many trials at once at most; None for as many as there is room for.
        keeps_states: Whether the states that agents leave are there after the trial; else only their size is told.
        tells_processes: Whether the verdict names the programs that the agent left running, which takes a few commands.
        tags: Tags of the sandboxes.
        task_id: Names the task in events.
    """

    mode: VerifierPlace = VerifierPlace.TASK
    passed_variables: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    has_own_network: bool = True
    private_hosts: tuple[str, ...] = ()
    output_bytes: int = 1 << 20
    retries: int = 2
    at_once: int | None = field(default=None, compare=False)
    keeps_states: bool = field(default=True, compare=False)
    tells_processes: bool = field(default=False, compare=False)
    tags: tuple[str, ...] = field(default=(), compare=False)
    task_id: str = field(default="", compare=False)

    def document(self) -> dict[str, object]:
        """What of it may change a verdict, as plain data."""
        return {
            "mode": None if self.mode is VerifierPlace.TASK else self.mode.value,
            "variables": dict(self.passed_variables),
            "own_network": self.has_own_network,
            "private_hosts": list(self.private_hosts),
            "output_bytes": self.output_bytes,
        }


class Site:
    """What the trials of a job share: where machines come from, and what is known about untouched images.

    Args:
        make: Makes a machine of a shape, from a state or from its image alone, with tags and the `task_id` for events.
        find_image: The name of an image that a task names, once the runtime has it.
    """

    def __init__(
        self, make: Callable[[Shape, State | None, Sequence[str], str], Machine], find_image: Callable[[str], str]
    ) -> None:
        self.make = make
        self.find_image = find_image
        self._lock = threading.Lock()
        self._locks: dict[object, threading.Lock] = {}
        self._readings: dict[object, tuple[float, Reading | Failure]] = {}

    def untouched(self, key: object, since: float, run: Callable[[], Reading | Failure]) -> Reading | Failure:
        """What a verifier says about an untouched image; a run that began after `since` serves all who ask."""
        with self._lock_of(key):
            known = self._readings.get(key)
            if known is None or known[0] < since:
                known = self._readings[key] = time.monotonic(), run()
            return known[1]

    def _lock_of(self, key: object) -> threading.Lock:
        with self._lock:
            return self._locks.setdefault(key, threading.Lock())


def run_trial(task: Task, agent: Agent, site: Site, options: TrialOptions | None = None) -> Verdict:
    """Lets an agent act on the machine of a task, and returns the verdict of the task's verifier.

    Raises:
        InfrastructureError, RuntimeLost: If the sandbox was lost while the agent acted, or before it was verified.
        Withdrawn: If the user asked to stop.
    """
    return _Trial(task, agent, site, options or TrialOptions()).run()


def shape_of(
    environment: Environment,
    *,
    reach: Reach | None,
    lifetime_seconds: float,
    private_hosts: Sequence[str] = (),
    image: str = "",
    passed_variables: Mapping[str, str] | None = None,
) -> Shape:
    """What the machine of a task is.

    Args:
        reach: What its programs may reach; None for what those of the job's usual sandboxes may.
        private_hosts: Of this machine and its networks, which they may reach as well.
        image: As the connection of a job names it.
        passed_variables: Those of this machine that templates may name.

    Raises:
        InputError: If a template names a variable that is not permitted, or not set, or a host is none.
    """
    return Shape(
        image=image,
        memory_bytes=environment.memory_bytes or MEMORY_BYTES,
        processors=environment.processors or 1.0,
        storage_bytes=environment.storage_bytes or STORAGE_BYTES,
        network=None if reach is None else network_of(reach.mode, reach.allowed_hosts, private_hosts),
        variables=tuple(resolved(environment.variables, passed_variables or {}).items()),
        directory=environment.directory,
        gpus=environment.gpus,
        as_root=True,
        lifetime_seconds=lifetime_seconds,
    )


class _Trial:
    def __init__(self, task: Task, agent: Agent, site: Site, options: TrialOptions) -> None:
        if not task.steps:
            raise ValueError("a task has a step")
        self._task = with_artifacts(task) if options.mode is VerifierPlace.ARTIFACTS else task
        self._agent = agent
        self._site = site
        self._options = options
        self._phases: dict[str, float] = {}
        self._states: list[State] = []
        self._remarks: list[str] = []
        self._trusts: list[Trust] = []
        self._machine: Machine | None = None
        self._sandbox_id: str | None = None
        self._state_bytes: int | None = None
        self._failures = 0
        self._reached: dict[str, set[str]] = {}
        self._is_observed = True
        self._has_machine = False
        self._has_hidden = False
        self._processes: frozenset[int] = frozenset()
        self._left: tuple[str, ...] = ()
        self._directory = ""

    def run(self) -> Verdict:
        has_verdict = False
        try:
            verdict = self._verdict()
            has_verdict = True
        finally:
            self._leave()
            if not (has_verdict and self._options.keeps_states):
                self._drop_states()
        return replace(
            verdict,
            states=tuple(each.digest for each in self._states),
            state_bytes=self._state_bytes,
            phases=self._phases,
            reached=self._known_hosts(),
            sandbox_id=self._sandbox_id,
        )

    def _verdict(self) -> Verdict:
        try:
            ends = self._steps()
        except InputError as error:
            return Verdict(Status.INVALID_PROBLEM, None, 0, 1, error.message)
        except (Unprepared, _Undecided) as error:
            return Verdict(Status.INFRASTRUCTURE, None, 0, 1, str(error))
        except AnswerError as error:
            self._drop_states()
            return Verdict(Status.FAILED, None, 0, 1, str(error), score=0.0)
        trust = Trust.SHARED if Trust.SHARED in self._trusts else Trust.SEPARATE
        has_steps = len(self._task.steps) > 1
        return replace(
            verdict_of(ends, self._task.strategy, trust, self._remarks, has_steps=has_steps),
            wall_seconds=self._phases.get("verifier", 0.0),
            processes=self._left,
            verifier_failures=self._failures,
        )

    def _observe(self, phase: str, machine: Machine) -> None:
        found = machine.reached()
        self._is_observed = self._is_observed and found is not None
        self._reached.setdefault(phase, set()).update(found or ())

    def _known_hosts(self) -> dict[str, tuple[str, ...]] | None:
        if not self._is_observed or not self._reached:
            return None
        return {
            phase: (*sorted(hosts)[:_MOST_HOSTS], *[OTHER_HOSTS][: len(hosts) > _MOST_HOSTS])
            for phase, hosts in self._reached.items()
        }

    def _drop_states(self) -> None:
        if isinstance(self._agent, FinalState):
            return  # they are not of this trial
        for state in self._states:
            drop_state(state)
        self._states.clear()

    # Steps

    def _steps(self) -> list[StepEnd]:
        task, agent = self._task, self._agent
        for step in task.steps:
            self._variables(step.agent)
            self._variables(step.verifier.phase)
            if step.verifier.parser:
                check_parser(step.verifier.parser)
        given = None
        if isinstance(agent, FinalState):
            given = agent.states(self._site.find_image(task.environment.image))
        if given is None:
            self._machine = self._started(task.environment, task.steps[0].agent)
        ends: list[StepEnd] = []
        for number, step in enumerate(task.steps):
            state: State | None
            if given is not None:
                if number >= len(given):
                    break
                state = given[number]
                self._states.append(state)
            else:
                failed = self._set_up(number, step)
                if failed:
                    # What the agent did in earlier steps may be why; then this step, and those after it, count as 0.
                    ends += [StepEnd(each, Failure(failed)) for each in task.steps[number:]]
                    break
                state = self._acted(number, step)
            before = self._failures
            with self._timed("verifier"):
                ends.append(StepEnd(step, self._verified(number, step, state)))
            if isinstance(ends[-1].reading, Failure):
                self._failures = before
            if ends[-1].is_too_low:
                break
        return ends

    def _set_up(self, number: int, step: TaskStep) -> str:
        # Why the agent's state cannot be prepared for a step; empty if it is.
        assert self._machine is not None, "there is one while agents act"
        with self._timed("setup"):
            try:
                self._prepare(self._machine, number, step)
            except (Unprepared, InfrastructureError) as error:
                if not number or self._machine.is_lost:
                    raise
                blank = self._site.untouched(
                    (self._task.digest, number, "setup"), time.monotonic(), lambda: self._blank_setup(number)
                )
                if isinstance(blank, Failure):
                    raise Unprepared(f"{error}; on the untouched image as well: {blank.reason}") from error
                return f"{error}, which it does not on the untouched image"
        return ""

    def _prepare(self, machine: Machine, number: int, step: TaskStep) -> None:
        if number:
            run_to_end(
                machine, "rm -rf /tests /logs/verifier /solution", "what the last verifier left cannot be removed"
            )
        user = step.agent.user
        if user is not None:
            try:
                machine.run(":", user=user, timeout_seconds=SETUP_SECONDS)
            except NoUserError as error:
                raise Unprepared(error.message) from error
        if step.workdir:
            machine.put(working_directory(machine), files_of(self._task, [step.workdir]), owner=user)
            command = f"[ ! -f setup.sh ] || exec {shlex.quote(machine.shell)} setup.sh"
            run_to_end(machine, command, f"setup.sh of step {step.name!r} failed", user=user, is_own=False)
        if step.healthcheck is not None:
            wait_until_healthy(machine, step.healthcheck, user)

    def _acted(self, number: int, step: TaskStep) -> State | None:
        machine = self._machine
        assert machine is not None, "it is closed after the last step"
        variables = tuple(self._variables(step.agent).items())
        with self._timed("agent"):
            try:
                remark = self._agent.act(machine, replace(step, agent=replace(step.agent, variables=variables)), number)
            except NoUserError as error:
                raise Unprepared(error.message) from error
        if remark:
            self._remarks.append(remark)
        if self._options.tells_processes:
            self._left = tuple(sorted(self._left_running(machine))[:_MOST_NAMES])
        if step.verifier.ends_processes:
            machine.end_processes(step.agent.user)
        with self._timed("state"):
            self._collect(machine, step)
            try:
                state = machine.save()
                self._has_hidden = state is None and machine.keeps_states
            except InfrastructureError as error:
                if machine.is_lost or self._is_apart(step):
                    raise
                state = None
                self._remarks.append(f"its state is not kept: {error.message}")
        self._observe("agent", machine)
        if state is not None:
            self._states.append(state)
            self._state_bytes = state.path.stat().st_size
        return state

    def _left_running(self, machine: Machine) -> set[str]:
        def running() -> dict[int, str]:
            return {number: name for number, name in machine.processes().items() if number not in self._processes}

        # What was ended a moment ago is not there any more when it is looked for again.
        found = running()
        return set(running().values()) & set(found.values()) if found else set()

    def _collect(self, machine: Machine, step: TaskStep) -> None:
        # A command that fails costs the verifier what it would have prepared, and nothing else.
        for hook in step.verifier.collect:
            machine.run(hook.command, user=hook.user or ROOT, timeout_seconds=hook.timeout_seconds)

    # Verification

    def _verified(self, number: int, step: TaskStep, state: State | None) -> Reading | Failure:
        """A reading, or the failure that the agent's state is to blame for."""
        began = time.monotonic()
        run, trust = self._verification(number, step, state)
        self._trusts.append(trust)
        failures = []
        for _ in range(2):
            found = run()
            if isinstance(found, Reading):
                return found
            failures.append(found.reason)
        key = self._task.digest, number, trust, self._options.mode
        blank = self._site.untouched(key, began, lambda: self._patiently(lambda: self._blank(number, step, trust)))
        if isinstance(blank, Failure):
            other = "" if blank.reason == failures[-1] else f": {blank.reason}"
            raise _Undecided(f"{failures[-1]}; on the untouched image as well{other}")
        found = run()
        if isinstance(found, Reading):
            return found
        return replace(found, reason=f"{found.reason}, which does not happen on the untouched image")

    def _verification(
        self, number: int, step: TaskStep, state: State | None
    ) -> tuple[Callable[[], Reading | Failure], Trust]:
        """What runs the verifier on what the agent left, as often as it is called."""
        machine = self._machine
        if step.verifier.mode is VerifierMode.SEPARATE:
            if machine is not None:
                artifacts = collected(machine, step.artifacts, self._directory)
            else:
                artifacts = self._patiently(lambda: self._collected_of(step, state))
            self._leave_after_last(number)
            return lambda: self._patiently(lambda: self._in_own_machine(step, artifacts)), Trust.SEPARATE
        if machine is None or self._is_apart(step):
            if state is not None:
                self._leave_after_last(number)
                return lambda: self._patiently(lambda: self._from_state(step, state)), Trust.SEPARATE
            if self._has_hidden:
                failure = Failure("the state of the machine cannot be kept, so the verifier cannot run apart from it")
                return lambda: failure, Trust.SEPARATE
        assert machine is not None, "an agent that does not act has left a state"
        return self._in_place_first(machine, step, state), Trust.SHARED

    def _in_place_first(self, machine: Machine, step: TaskStep, state: State | None) -> Callable[[], Reading | Failure]:
        # Where no state is kept, every run is in place. Then the trial is lost with the sandbox, unless the agent has
        # made its state one that cannot be kept.
        has_run = False

        def run() -> Reading | Failure:
            nonlocal has_run
            if state is None:
                found = self._run_or_fail(lambda: self._run(machine, step))
                if isinstance(found, Failure) and machine.is_lost and not self._has_hidden:
                    raise InfrastructureError(found.reason)
                return found
            if not has_run:
                has_run = True
                with suppress(RuntimeLost):
                    found = self._run_or_fail(lambda: self._run(machine, step))
                    if isinstance(found, Reading) or machine.is_lost:
                        return found
                    # A server that the agent was to start is no part of a state, and an outage does not lose it.
                    return self._run_or_fail(lambda: self._run(machine, step))
            return self._patiently(lambda: self._from_state(step, state))

        return run

    def _from_state(self, step: TaskStep, state: State) -> Reading | Failure:
        def run() -> Reading | Failure:
            with self._machine_of(self._task.environment, step.verifier.phase, state) as machine:
                return self._run(machine, step)

        return self._run_or_fail(run)

    def _in_own_machine(self, step: TaskStep, artifacts: Sequence[tuple[str, list[Entry]]]) -> Reading | Failure:
        # The environment of the verifier, with nothing of the agent's but the artifacts.
        environment = step.verifier.environment or self._task.environment

        def run() -> Reading | Failure:
            with self._machine_of(environment, step.verifier.phase) as machine:
                make_ready(machine, environment, self._task)
                for directory, entries in artifacts:
                    machine.put(directory, entries)
                return self._run(machine, step, is_own=step.verifier.environment is not None)

        return self._run_or_fail(run)

    def _collected_of(self, step: TaskStep, state: State | None) -> list[tuple[str, list[Entry]]]:
        assert state is not None, "an agent that does not act has left one"
        if self._takes_directory and not self._directory:
            with self._machine_of(self._task.environment, step.agent) as machine:
                self._find_directory(machine)
        with self._machine_of(self._task.environment, step.agent, state) as machine:
            return collected(machine, step.artifacts, self._directory)

    @property
    def _takes_directory(self) -> bool:
        return any(WORKING_DIRECTORY in step.artifacts for step in self._task.steps)

    def _find_directory(self, machine: Machine) -> None:
        # Asked of a machine that no agent has seen.
        if self._takes_directory:
            self._directory = working_directory(machine)

    def _blank(self, number: int, step: TaskStep, trust: Trust) -> Reading | Failure:
        # The same on the image as it is, prepared as for an agent.
        phase = (
            step.agent if step.verifier.mode is VerifierMode.SEPARATE or trust is Trust.SHARED else step.verifier.phase
        )

        def run() -> Reading | Failure:
            with self._machine_of(self._task.environment, phase) as machine:
                make_ready(machine, self._task.environment, self._task)
                for place, each in enumerate(self._task.steps[: number + 1]):
                    # A later step may need what an agent did in an earlier one, and its verifier does not.
                    with suppress(Unprepared):
                        self._prepare(machine, place, each)
                self._collect(machine, step)
                if step.verifier.mode is not VerifierMode.SEPARATE:
                    return self._run(machine, step)
                artifacts = collected(machine, step.artifacts, self._directory)
            return self._in_own_machine(step, artifacts)

        return self._run_or_fail(run)

    def _blank_setup(self, number: int) -> Reading | Failure:
        def run() -> Reading | Failure:
            with self._machine_of(self._task.environment, self._task.steps[number].agent) as machine:
                make_ready(machine, self._task.environment, self._task)
                for place, each in enumerate(self._task.steps[: number + 1]):
                    self._prepare(machine, place, each)
            return Reading({})

        return self._run_or_fail(run)

    def _run(self, machine: Machine, step: TaskStep, *, is_own: bool = False) -> Reading | Failure:
        verifier = step.verifier
        found = run_verifier(
            machine,
            verifier,
            tests=None if is_own and verifier.has_tests else files_of(self._task, verifier.directories, verifier.files),
            variables=self._variables(verifier.phase),
            output_bytes=self._options.output_bytes,
        )
        self._failures += isinstance(found, Failure)
        self._observe("verifier", machine)
        return found

    @staticmethod
    def _run_or_fail(run: Callable[[], Reading | Failure]) -> Reading | Failure:
        try:
            return run()
        except (InfrastructureError, Unprepared) as error:
            return Failure(str(error))

    @staticmethod
    def _patiently(run: Callable[[], _Found]) -> _Found:
        # The loss of the runtime says nothing about a verifier, which then begins anew.
        for losses in range(1, _MOST_LOSSES):
            try:
                return run()
            except RuntimeLost as lost:
                if not lost.is_replaced:
                    time.sleep(delay_seconds(losses, _FIRST_PAUSE_SECONDS))
        return run()

    # Machines

    def _started(self, environment: Environment, phase: Phase) -> Machine:
        # Nobody has acted yet: a machine that does not start is asked for again.
        with self._timed("start"):
            for failures in range(1, self._options.retries + 2):
                machine = self._make(environment, phase)
                try:
                    machine.start()
                    self._sandbox_id = machine.sandbox_id
                    make_ready(machine, environment, self._task)
                    self._find_directory(machine)
                    if self._options.tells_processes:
                        self._processes = frozenset(machine.processes())
                except (InfrastructureError, RuntimeLost) as error:
                    machine.close()
                    if failures > self._options.retries:
                        raise Unprepared(f"the machine of the task does not start: {error}") from error
                    time.sleep(delay_seconds(failures, _FIRST_PAUSE_SECONDS))
                except BaseException:
                    machine.close()
                    raise
                else:
                    return machine
        raise AssertionError("it has started, or not")

    def _make(self, environment: Environment, phase: Phase, state: State | None = None) -> Machine:
        # Only the first of a trial counts as an execution.
        tags = (VERIFIER_TAG,) if self._has_machine else ()
        self._has_machine = True
        options = self._options
        return self._site.make(self._shape(environment, phase), state, (*tags, *options.tags), options.task_id)

    @contextmanager
    def _machine_of(self, environment: Environment, phase: Phase, state: State | None = None) -> Iterator[Machine]:
        machine = self._make(environment, phase, state)
        try:
            try:
                machine.start()
            except LostStateError as error:
                raise _Undecided(str(error)) from error
            self._sandbox_id = self._sandbox_id or machine.sandbox_id
            yield machine
        finally:
            machine.close()

    def _shape(self, environment: Environment, phase: Phase) -> Shape:
        return shape_of(
            environment,
            image=self._site.find_image(environment.image),
            reach=(phase.network or environment.network) if self._options.has_own_network else None,
            private_hosts=self._options.private_hosts,
            passed_variables=self._options.passed_variables,
            lifetime_seconds=self._task.longest_seconds + LIFETIME_MARGIN_SECONDS,
        )

    def _variables(self, phase: Phase) -> Mapping[str, str]:
        return resolved(phase.variables, self._options.passed_variables)

    def _is_apart(self, step: TaskStep) -> bool:
        # Whether a verifier that would share the agent's sandbox is to run in a fresh one.
        is_shared = step.verifier.mode is not VerifierMode.SEPARATE
        return is_shared and (self._options.mode is VerifierPlace.SEPARATE or self._has_other_network(step))

    def _has_other_network(self, step: TaskStep) -> bool:
        usual = self._task.environment.network
        used = self._task.steps[0].agent.network or usual
        return self._options.has_own_network and (step.verifier.phase.network or usual) != used

    def _leave_after_last(self, number: int) -> None:
        # What the agent's machine has been given is free for that of the verifier.
        if number == len(self._task.steps) - 1:
            self._leave()

    def _leave(self) -> None:
        if self._machine is not None:
            self._machine.close()
            self._machine = None

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self._phases[phase] = round(self._phases.get(phase, 0.0) + time.monotonic() - began, 3)


def _digest_in(file: str) -> str:
    # Of `DIGEST.tar.gz`, or `DIGEST.over-DIGEST.tar.gz`.
    return Path(file).name.partition(".")[0]


def needs_of(task: Task, mode: VerifierPlace) -> tuple[int, float]:
    """How much memory in bytes, and how many processors, a trial of a task needs at once."""
    own = task.environment
    own_memory, own_processors = own.memory_bytes or MEMORY_BYTES, own.processors or 1.0
    memory, processors = own_memory, own_processors
    for step in task.steps:
        other = step.verifier.environment or own
        its = other.memory_bytes or MEMORY_BYTES, other.processors or 1.0
        if len(task.steps) > 1 and (mode is not VerifierPlace.TASK or step.verifier.mode is VerifierMode.SEPARATE):
            # The machine of the agent is kept for the next step.
            its = own_memory + its[0], own_processors + its[1]
        memory, processors = max(memory, its[0]), max(processors, its[1])
    return memory, processors
