"""Tries cheats on tasks: each once, and those that earn something again under the settings that may stop them.

Doing nothing and the solution run before. A cheat is one if it earns more than doing nothing, and a setting stops it if
it earns nothing more under it while the solution, if there is one, earns what it earned before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from sandrl.config.words import VerifierPlace
from sandrl.events.results import ScoredCompletion, Status
from sandrl.problems import Problem
from sandrl.problems.tasks.task import DEFAULT_SECONDS, Task
from sandrl.redteam.cheat import Cheat, Cheater
from sandrl.redteam.cheats import CHEATS
from sandrl.redteam.mutants import measure_mutants
from sandrl.redteam.settings import SETTINGS, place_under, settings_of
from sandrl.rewards.cards import NOP, ORACLE
from sandrl.rewards.measuring import Measuring, Run
from sandrl.runs.cards import Card, Mutant
from sandrl.runs.cards import Cheat as EarningCheat
from sandrl.trials.answers import Nothing, Oracle
from sandrl.trials.trial import Agent

CHEAT = "cheat."
_NOP, _ORACLE = f"{NOP}1", f"{ORACLE}1"
_AT_ONCE = 4
_LEAST_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class CheatAttempt:
    """What came of one cheat on one task.

    Attributes:
        earned: Whether it earned more than doing nothing.
        stopped_by: The settings under which it earned nothing more.
    """

    cheat: Cheat
    result: ScoredCompletion
    earned: bool = False
    stopped_by: tuple[str, ...] = ()

    @property
    def applies(self) -> bool:
        """Whether there was something to do in the machine."""
        return self.result.status is not Status.FAILED or self.result.trust is not None

    @property
    def is_scored(self) -> bool:
        return self.applies and self.result.reward is not None


@dataclass(frozen=True, slots=True)
class TaskAttack:
    """What came of all cheats on one task.

    Attributes:
        nop: The result of an agent that does nothing.
        oracle: The result of the solution; None without one.
        card: What is known of the task; None if the campaign was stopped before.
    """

    task_id: str
    nop: ScoredCompletion
    oracle: ScoredCompletion | None
    attempts: tuple[CheatAttempt, ...] = ()
    card: Card | None = None

    @property
    def earned(self) -> tuple[CheatAttempt, ...]:
        return tuple(attempt for attempt in self.attempts if attempt.earned)

    @property
    def fault(self) -> str:
        """What is wrong before any cheat is tried; empty if nothing is."""
        if self.nop.reward:
            return f"doing nothing earns {self.nop.reward:g}"
        if self.oracle is not None and self.oracle.reward is not None and not self.oracle.is_pass:
            return f"the solution earns {self.oracle.reward:g}"
        return ""


def attack_tasks(
    measuring: Measuring, tasks: Mapping[str, Problem], cheats: Sequence[Cheat], *, mutants: int
) -> tuple[TaskAttack, ...]:
    """Tries every cheat on every task, and keeps the card of each task as soon as it is complete.

    Args:
        mutants: How many mutants of the solution's state are judged at most.

    Raises:
        ServiceError: If a card cannot be written.
    """
    found: list[TaskAttack] = []
    names = iter(tasks)
    while chosen := list(islice(names, _AT_ONCE)):
        attacks = _Attack(measuring, {name: tasks[name] for name in chosen}, cheats, mutants).run()
        for attack in attacks:
            if attack.card is not None:
                measuring.keep(attack.card)
        found += attacks
        if measuring.interrupt.level:
            break
    return tuple(found)


def count_runs(task: Problem, cheats: Sequence[Cheat], mutants: int = 0) -> int:
    """How many trials a campaign makes on a task at least; with up to so many mutants, and the state they change."""
    has_solution = task.task is not None and task.task.has_solution
    return 1 + has_solution + len(cheats) + (mutants + 1 if has_solution and mutants else 0)


class _Attack:
    # On a few tasks at once, so that no processor waits for the end of one.

    def __init__(
        self, measuring: Measuring, problems: Mapping[str, Problem], cheats: Sequence[Cheat], mutants: int
    ) -> None:
        self._measuring = measuring
        self._problems = problems
        self._cheats = cheats
        self._mutants = mutants
        self._tasks = {name: each.task for name, each in problems.items() if each.task is not None}
        self._nops: dict[str, ScoredCompletion] = {}

    def run(self) -> list[TaskAttack]:
        controls: dict[str, dict[str, Agent]] = {}
        for name, task in self._tasks.items():
            controls[name] = {_NOP: Nothing(), **({_ORACLE: self._oracle(name)} if task.has_solution else {})}
        known = self._judged(controls, keeps_states=True)
        self._nops = {name: found[_NOP] for name, found in known.items() if _NOP in found}
        oracles = {name: found[_ORACLE] for name, found in known.items() if _ORACLE in found}
        attempts = {
            name: [self._attempt(cheat, found[label]) for label, cheat in self._labels.items() if label in found]
            for name, found in self._tried().items()
        }
        stopped, rewards = self._under_settings(attempts, oracles)
        mutants = measure_mutants(self._measuring, oracles, self._nops, self._mutants)
        return [
            self._attack(
                nop,
                oracles.get(name),
                [replace(each, stopped_by=stopped.get((name, each.cheat.name), ())) for each in attempts.get(name, ())],
                mutants.get(name),
                rewards.get(name, {}),
            )
            for name, nop in self._nops.items()
        ]

    @property
    def _labels(self) -> dict[str, Cheat]:
        return {f"{CHEAT}{cheat.name}": cheat for cheat in self._cheats}

    def _judged(
        self,
        agents: Mapping[str, Mapping[str, Agent]],
        *,
        tasks: Mapping[str, Task] | None = None,
        mode: VerifierPlace | None = None,
        keeps_states: bool = False,
    ) -> dict[str, dict[str, ScoredCompletion]]:
        """The results by task and label; `tasks` are those that are judged in their place."""
        runs = [Run(name, label, agent) for name, each in agents.items() for label, agent in each.items()]
        context = self._measuring.context
        if mode is not None:
            context = replace(
                context, options=replace(context.options, trial=replace(context.options.trial, mode=mode))
            )
        problems = {name: replace(self._problems[name], task=task) for name, task in (tasks or self._tasks).items()}
        results = self._measuring.judge(runs, context=context, problems=problems, keeps_states=keeps_states)
        found: dict[str, dict[str, ScoredCompletion]] = {}
        for run in runs:
            if run.id in results:
                found.setdefault(run.task_id, {})[run.label] = results[run.id]
        return found

    def _tried(self) -> dict[str, dict[str, ScoredCompletion]]:
        # Where no machine starts, nothing can be tried.
        usable = [name for name, nop in self._nops.items() if nop.reward is not None or "agent" in nop.phases]
        quick = {label: cheat for label, cheat in self._labels.items() if not cheat.stalls}
        slow = {label: cheat for label, cheat in self._labels.items() if cheat.stalls}
        found = self._judged({name: self._cheaters(name, quick) for name in usable})
        hurried = {name: self._hurried(name) for name in usable}
        for name, results in self._judged({name: self._cheaters(name, slow) for name in usable}, tasks=hurried).items():
            found.setdefault(name, {}).update(results)
        return found

    def _oracle(self, name: str) -> Oracle:
        return Oracle(self._tasks[name], self._measuring.context.options.trial.passed_variables)

    def _cheaters(self, name: str, cheats: Mapping[str, Cheat]) -> dict[str, Agent]:
        return {label: Cheater(cheat, self._tasks[name]) for label, cheat in cheats.items()}

    def _hurried(self, name: str) -> Task:
        # A verifier that is stopped costs its whole time limit, several times; one that is not needs much less.
        task, seconds = self._tasks[name], max(4 * self._nops[name].phases.get("verifier", 0.0), _LEAST_SECONDS)
        steps = []
        for step in task.steps:
            phase = step.verifier.phase
            limit = min(phase.timeout_seconds or DEFAULT_SECONDS, seconds)
            steps.append(replace(step, verifier=replace(step.verifier, phase=replace(phase, timeout_seconds=limit))))
        return replace(task, steps=tuple(steps))

    def _attempt(self, cheat: Cheat, result: ScoredCompletion) -> CheatAttempt:
        attempt = CheatAttempt(cheat, result)
        # Doing nothing may earn less than 0, which is what a cheat has that did nothing.
        return replace(attempt, earned=attempt.is_scored and self._earns(result))

    def _earns(self, result: ScoredCompletion) -> bool:
        return (result.reward or 0.0) > (self._nops[result.task_id].reward or 0.0)

    def _under_settings(
        self, attempts: Mapping[str, Sequence[CheatAttempt]], oracles: Mapping[str, ScoredCompletion]
    ) -> tuple[dict[tuple[str, str], tuple[str, ...]], dict[str, dict[str, float]]]:
        # Those that stop each cheat that earned something, by task and cheat; what solutions earn under each, by task.
        earned = {name: [each.cheat for each in found if each.earned] for name, found in attempts.items()}
        usual = self._measuring.place
        others = {name: settings_of(self._tasks[name], usual) for name, cheats in earned.items() if cheats}
        stopped: dict[tuple[str, str], tuple[str, ...]] = {}
        rewards: dict[str, dict[str, float]] = {}
        for setting in SETTINGS:
            tasks = {name: found[setting] for name, found in others.items() if setting in found}
            agents: dict[str, dict[str, Agent]] = {}
            for name in tasks:
                agents[name] = {
                    f"{CHEAT}{each.name}@{setting}": Cheater(each, self._tasks[name]) for each in earned[name]
                }
                if name in oracles:
                    agents[name][f"oracle@{setting}"] = self._oracle(name)
            results = self._judged(agents, tasks=tasks, mode=place_under(setting, usual))
            for name, found in results.items():
                oracle = found.get(f"oracle@{setting}")
                if oracle is not None and oracle.reward is not None:
                    rewards.setdefault(name, {})[setting] = oracle.reward
                if name in oracles and not _is_as_good(oracle, oracles[name]):
                    continue
                for cheat in earned[name]:
                    result = found.get(f"{CHEAT}{cheat.name}@{setting}")
                    if result is not None and result.reward is not None and not self._earns(result):
                        stopped[name, cheat.name] = (*stopped.get((name, cheat.name), ()), setting)
        return stopped, rewards

    def _attack(
        self,
        nop: ScoredCompletion,
        oracle: ScoredCompletion | None,
        attempts: Sequence[CheatAttempt],
        mutants: tuple[Mutant, ...] | None,
        rewards: Mapping[str, float],
    ) -> TaskAttack:
        runs = {_NOP: nop, **({} if oracle is None else {_ORACLE: oracle})}
        card = None
        if not self._measuring.interrupt.level:
            tried = [each for each in attempts if each.is_scored]
            earned = tuple(
                EarningCheat(
                    name=each.cheat.name,
                    group=each.cheat.group,
                    reward=each.result.reward or 0.0,
                    stopped_by=each.stopped_by,
                    advice="" if each.stopped_by else each.cheat.advice,
                )
                for each in attempts
                if each.earned
            )
            unscored = sum(each.applies and not each.is_scored for each in attempts)
            found: dict[str, object] = {"cheats_tried": len(tried) or None, "cheats_unscored": unscored}
            found |= {
                "cheats_left_out": len(CHEATS) - len(self._cheats),
                "cheats": earned,
                "mutants": mutants,
                "oracle_under": dict(rewards),
            }
            card = self._measuring.card_of(nop.task_id, runs).model_copy(update=found)
        return TaskAttack(nop.task_id, nop, oracle, tuple(attempts), card)


def _is_as_good(result: ScoredCompletion | None, before: ScoredCompletion) -> bool:
    return result is not None and result.reward is not None and result.reward >= (before.reward or 0.0)
