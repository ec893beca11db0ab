"""Mutants: small changes to the state that a solution left, after each of which the reward must be lower.

A mutant is a state of its own, over that of the solution, so the verifier judges it as it judges any final state. A
state has no processes. Where the solution's own state earns less than the solution did, the solution acts again, and
the change follows in its machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sandrl.errors import InputError, SandrlError
from sandrl.events import Warned
from sandrl.events.results import ScoredCompletion
from sandrl.problems.tasks.task import TaskStep
from sandrl.redteam.edits import shown
from sandrl.redteam.mutations import MOST_FILE_BYTES, Mutation, mutations_of, words_of
from sandrl.rewards.measuring import Measuring, Run
from sandrl.runs.cards import Mutant
from sandrl.sandboxes import State
from sandrl.trials.answers import Oracle
from sandrl.trials.changes import changes_of, contents_of
from sandrl.trials.machine import ROOT, Machine
from sandrl.trials.state import drop_state, find_state, states_of
from sandrl.trials.trial import Agent, FinalState

CONTROL = "oracle@state"
"""The label of the run that judges the state of the solution as it is."""

MUTANT = "mutant."
"""What the labels of mutants begin with; their number follows."""

_LEAST_SECRET = 6
_MOST_STATE_BYTES = 512 << 20
_MOST_SERVICES = 3
_SECONDS = 60.0

_APPLY = r"""
case $1 in
removed) rm -rf -- "$2";;
link) ln -sfn -- "$3" "$2";;
*) cat >"$2" && chmod "$4" "$2" && chown "$5" "$2";;
esac"""
_END = 'kill -9 "$@"'


@dataclass(frozen=True, slots=True)
class Altered:
    """Acts as the solution, and changes something after its last step.

    Attributes:
        file: The state that has the change; empty for none.
        program: The name of the program whose processes are ended; empty for none.
    """

    oracle: Oracle
    file: str = ""
    program: str = ""
    is_repeatable = True
    takes_turns = True

    def act(self, machine: Machine, step: TaskStep, number: int) -> str | None:
        before = machine.processes()
        remark = self.oracle.act(machine, step, number)
        if number < len(self.oracle.task.steps) - 1:
            return remark
        if self.program:
            found = [each for each, name in machine.processes().items() if each not in before and name == self.program]
            if not found:
                raise InputError(f"the solution left no process of {shown(self.program)} this time")
            machine.run(("sh", "-c", _END, "sh", *map(str, found)), user=ROOT, timeout_seconds=_SECONDS)
        if self.file:
            self._change(machine)
        return remark

    def _change(self, machine: Machine) -> None:
        path = Path(self.file)
        for change in changes_of(path):
            words = (change.kind, change.path, change.target, f"{change.mode:o}", f"{change.uid}:{change.gid}")
            content = contents_of(path, {change.path}, MOST_FILE_BYTES).get(change.path, b"")
            command = ("sh", "-c", _APPLY, "sh", *words)
            outcome = machine.run(command, user=ROOT, timeout_seconds=_SECONDS, stdin=content)
            if outcome.exit_code:
                raise InputError("a mutant cannot be made: a file cannot be changed", path=change.path)


@dataclass(slots=True)
class _Plan:
    # The mutants of one task.
    oracle: ScoredCompletion
    mutations: list[Mutation]
    runs: list[Run] = field(default_factory=list)
    unseen: tuple[str, ...] = ()


def measure_mutants(
    measuring: Measuring,
    oracles: Mapping[str, ScoredCompletion],
    nothing: Mapping[str, ScoredCompletion],
    most: int,
) -> dict[str, tuple[Mutant, ...]]:
    """Judges mutants of the states that solutions left.

    Args:
        oracles: The results of solutions, by `task_id`; `nothing` those of agents that do nothing. The states of both
            are still kept.
        most: How many files of one task are changed at most, besides the services that are stopped.

    Returns:
        The mutants of each task, by `task_id`; without tasks of which they are not known: those whose solution earned
        nothing or left no state, and those that are not judged because the user asked to stop.
    """
    if not most:
        return {}
    states = states_of(measuring.run.job.run_dir if measuring.run.job else None)
    begun = {name: each for name, each in oracles.items() if (each.reward or 0.0) > 0 and each.states}
    # Mutants are numbered, so what they follow from must be there now: it is not made up for when the run is resumed.
    begun = {name: each for name, each in begun.items() if name not in nothing or nothing[name].states}
    finals = {name: found for name, each in begun.items() if (found := _final(each, states))}
    runs = {name: Run(name, CONTROL, each) for name, each in finals.items()}
    for name, run in runs.items():
        if run.id not in measuring.results:
            measuring.forget(f"{name}#{MUTANT}")
    controls = measuring.judge([*runs.values()])
    plans: dict[str, _Plan] = {}
    kept: list[State] = []
    try:
        for name, final in finals.items():
            if (control := controls.get(f"{name}#{CONTROL}")) is None:
                continue
            try:
                before = _last_state(nothing[name], states) if name in nothing else None
                plans[name] = _planned(measuring, begun[name], control, final, before, most, kept)
            except SandrlError as error:
                measuring.run.tell(Warned(f"{name}: there are no mutants: {error.message}", error.hint))
        results = measuring.judge([run for plan in plans.values() for run in plan.runs])
    finally:
        for state in kept:
            drop_state(state)
    return {
        name: _mutants(plan, [results[run.id] for run in plan.runs], controls[f"{name}#{CONTROL}"])
        for name, plan in plans.items()
        if all(run.id in results for run in plan.runs)
    }


def _final(oracle: ScoredCompletion, states: Path) -> FinalState | None:
    found = [find_state(states, digest, oracle.image) for digest in oracle.states]
    files = tuple(str(state.path) for state in found if state is not None)
    return FinalState(files, oracle.image) if len(files) == len(found) else None


def _last_state(result: ScoredCompletion, states: Path) -> State | None:
    return find_state(states, result.states[-1], result.image) if result.states else None


def _planned(
    measuring: Measuring,
    oracle: ScoredCompletion,
    control: ScoredCompletion,
    final: FinalState,
    before: State | None,
    most: int,
    kept: list[State],
) -> _Plan:
    # The states of mutants are added to those that are kept.
    task = measuring.problems[oracle.task_id].task
    state = _last_state(oracle, Path(final.files[-1]).parent)
    assert task is not None, "it has left a state"
    if state is None or state.path.stat().st_size > _MOST_STATE_BYTES:
        raise InputError("the state that its solution left is too large to be changed")
    options = measuring.context.options.trial
    is_enough = control.reward is not None and not _is_less(control, oracle)
    again = Altered(Oracle(task, options.passed_variables))
    mutations = mutations_of(task, state, most, before=before, can_undo=is_enough)
    plan = _Plan(oracle, [_told(each, options.passed_variables.values()) for each in mutations])

    def add(agent: Agent) -> None:
        plan.runs.append(Run(oracle.task_id, _label(plan), agent))

    for each in mutations:
        file = ""
        if f"{oracle.task_id}#{_label(plan)}" not in measuring.results:
            kept.append(each.keep(state))
            file = str(kept[-1].path)
        add(replace(final, files=(*final.files[:-1], file)) if is_enough else replace(again, file=file))
    if is_enough:
        # Those that the instruction names have been ended in the control, and the verifier has not missed them.
        words = words_of(task.steps[-1].instruction)
        plan.unseen = tuple(each for each in oracle.processes if each in words)[:_MOST_SERVICES]
        return plan
    for program in oracle.processes[:_MOST_SERVICES]:
        plan.mutations.append(Mutation(_stopped(program), "stopped", ""))
        add(replace(again, program=program))
    return plan


def _told(mutation: Mutation, passed: Iterable[str]) -> Mutation:
    # Without the content, and nothing of it in the name where it has the value of a variable of this machine.
    if any(len(value) >= _LEAST_SECRET and value.encode() in mutation.content for value in passed):
        mutation = replace(mutation, name=f"{mutation.operation}: {shown(mutation.path)}")
    return mutation.without_content()


def _label(plan: _Plan) -> str:
    return f"{MUTANT}{len(plan.runs) + 1}"


def _mutants(plan: _Plan, results: Sequence[ScoredCompletion], control: ScoredCompletion) -> tuple[Mutant, ...]:
    changed = [
        Mutant(name=each.name, path=each.path, reward=result.reward, is_killed=_is_less(result, plan.oracle))
        for each, result in zip(plan.mutations, results, strict=True)
    ]
    return *changed, *(Mutant(name=_stopped(each), reward=control.reward) for each in plan.unseen)


def _is_less(result: ScoredCompletion, oracle: ScoredCompletion) -> bool:
    return result.reward is not None and result.reward < (oracle.reward or 0.0)


def _stopped(program: str) -> str:
    return f"{shown(program)} stopped"
