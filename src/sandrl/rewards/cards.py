"""The card of a problem, as far as a validation measures it: solution, doing nothing, flakes, times and network.

It is a function of the results of a problem's runs by their labels, so a card that is made again from the rows of a run
is the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from sandrl.config.words import VerifierPlace
from sandrl.events.results import ScoredCompletion
from sandrl.problems import Problem
from sandrl.problems.quality import card_digest, setting_of
from sandrl.problems.tasks.task import Task
from sandrl.runs.cards import Card
from sandrl.runs.statistics import Estimate, estimate, mean

ORACLE, NOP, STUB = "oracle.", "nop.", "stub."
"""What the labels of runs begin with: a number follows, or the label of the stub."""


def card_of(
    problem: Problem,
    runs: Mapping[str, ScoredCompletion],
    image_bytes: Callable[[str], int | None] = lambda _: None,
    place: VerifierPlace = VerifierPlace.TASK,
) -> Card:
    """The card of what was measured on one problem.

    Args:
        runs: The results of its runs, by label; only those of solutions, of nothing and of stubs are counted.
        image_bytes: The size of an image, unpacked, by its name.
        place: Where shared verifiers ran.
    """
    oracle, idle, stubs = (_with_reward(runs, kind) for kind in (ORACLE, NOP, STUB))
    nulls = [
        result for label, result in runs.items() if result.reward is None and label.startswith((ORACLE, NOP, STUB))
    ]
    task = problem.task
    card = Card(
        task_id=problem.task_id,
        kind=problem.kind,
        digest=card_digest(problem),
        verifier=setting_of(problem, place).value,
        oracle=mean([result.reward or 0.0 for result in oracle]),
        oracle_runs=len(oracle),
        oracle_passes=sum(result.is_pass for result in oracle),
        null_runs=len(nulls),
        null_reason=nulls[0].detail if nulls else "",
        seconds=_median_seconds(oracle or idle),
        image_bytes=next((image_bytes(each.image) for each in (*oracle, *idle) if each.image), None),
        state_bytes=next((each.state_bytes for each in oracle), None),
        reached=_reached([*oracle, *idle]),
        network={} if task is None else _networks(task),
    )
    # Of two rates, the higher one is too high by luck. So that of doing nothing counts where the solution shows none.
    rates = [rate for rate in map(_flakes, (oracle, idle)) if rate is not None]
    flakes = next((rate for rate in rates if rate.value), next(iter(rates), None))
    if flakes is not None:
        found = {"flake_rate": flakes.value, "flake_low": flakes.low, "flake_high": flakes.high}
        card = card.model_copy(update={**found, "flake_runs": flakes.problems})
    if task is not None:
        nop = max((result.reward or 0.0 for result in idle), default=None)
        return card.model_copy(update={"nop": nop, "nop_runs": len(idle)})
    accepted = tuple(
        label.removeprefix(STUB) for label, result in runs.items() if label.startswith(STUB) and result.is_pass
    )
    tried = sum(label.startswith(STUB) for label in runs)
    # Without one that was run, the source of the checks has decided that none passes; of a program nothing is known.
    is_known = bool(accepted) or (len(stubs) == tried and problem.kind != "exit_status")
    return card.model_copy(
        update={
            "nop": float(bool(accepted)) if is_known else None,
            "nop_runs": len(stubs),
            "stubs": accepted if is_known else None,
        }
    )


def _with_reward(runs: Mapping[str, ScoredCompletion], kind: str) -> list[ScoredCompletion]:
    return [result for label, result in runs.items() if label.startswith(kind) and result.reward is not None]


def _flakes(results: Sequence[ScoredCompletion]) -> Estimate | None:
    # The share of an agent's runs that end otherwise than most do, or whose verifier failed first. One run alone says
    # nothing, unless its verifier failed.
    usual, _ = Counter(result.reward for result in results).most_common(1)[0] if results else (None, 0)
    flakes = [float(result.reward != usual or result.verifier_failures > 0) for result in results]
    return estimate(flakes) if len(flakes) > 1 or any(flakes) else None


def _median_seconds(results: Sequence[ScoredCompletion]) -> dict[str, float]:
    names = dict.fromkeys(name for result in results for name in result.phases)
    taken = {name: [result.phases[name] for result in results if name in result.phases] for name in names}
    return {name: round(median(seconds), 3) for name, seconds in taken.items()}


def _networks(task: Task) -> dict[str, str]:
    # Steps may differ: then each mode is named once.
    usual = task.environment.network
    phases = {"agent": [step.agent for step in task.steps], "verifier": [step.verifier.phase for step in task.steps]}
    return {
        name: ", ".join(dict.fromkeys((each.network or usual).mode.value for each in found))
        for name, found in phases.items()
    }


def _reached(results: Sequence[ScoredCompletion]) -> tuple[str, ...] | None:
    observed = [result.reached for result in results if result.reached is not None]
    return (
        tuple(sorted({host for phases in observed for hosts in phases.values() for host in hosts}))
        if observed
        else None
    )
