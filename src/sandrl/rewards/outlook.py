"""Estimates the sandboxes, time and cost of a command before it starts.

The estimate uses the command line, the problems and earlier runs. No runtime is contacted, so nothing is started for
it; a value that only a runtime has is shown as unknown. There are two numbers: the upper bound follows from the time
limits, and the typical value is the time of completions of earlier runs on this machine.
"""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue

from sandrl.config.budget import Money, cost_of, duration_text
from sandrl.config.parts import SandboxesPart
from sandrl.errors import InputError
from sandrl.problems import Problem
from sandrl.rewards.calibration import LACKING, is_in_library, modules_of, packages_of
from sandrl.rewards.judge import longest_execution_seconds
from sandrl.rewards.limits import Limits
from sandrl.runs import RunReader, list_runs, step_rows
from sandrl.runs.held import SECONDS_METRIC
from sandrl.sandboxes import SandboxRequest
from sandrl.sandboxes.footprint import cells_at_once, suited_concurrency, worker_count
from sandrl.sandboxes.spending import Allowance
from sandrl.settings import RuntimeKind, Settings

SCORING_COMMANDS = ("reward", "eval")
"""The commands whose runs say what completions take that are scored and nothing else."""

_RUNS = 10
_LOOKED_AT = 50


@dataclass(frozen=True, slots=True)
class Wanted:
    """Completions of one problem.

    Attributes:
        problem: The problem.
        count: How many completions.
    """

    problem: Problem
    count: int = 1


@dataclass(frozen=True, slots=True)
class Typical:
    """What completions of earlier runs have taken.

    Attributes:
        seconds: Sandbox time of one.
        runs: From how many runs that is known.
    """

    seconds: float
    runs: int


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a command would take.

    Attributes:
        command: The command.
        runtime: What would run the sandboxes.
        completions: How many completions would be executed, those of episodes included.
        has_cells: Whether many are judged in one worker sandbox, each in a cell, where the runtime has cells.
        at_once: How many sandboxes at once; None if only the runtime could tell.
        sandboxes: How many in all, if none fails; None if only the runtime could tell.
        own_sandboxes: How many there are besides, in which episodes work.
        lacking: The modules that problems need and sandboxes are known to lack, with the number of such problems.
        longest_seconds: The most sandbox time that the time limits allow, without executions that are repeated; None if
            nothing bounds it, because sandboxes are held while a model answers.
        typical: What completions of earlier runs have taken; None if there are none.
        allowance: The budget and the price.
        service: The address of the service that has the sandboxes; None if the command has them.
    """

    command: str
    runtime: str
    completions: int
    has_cells: bool
    at_once: int | None
    sandboxes: int | None
    longest_seconds: float | None
    typical: Typical | None
    allowance: Allowance
    service: str | None = None
    own_sandboxes: int = 0
    lacking: Mapping[str, int] = field(default_factory=dict)

    @property
    def typical_seconds(self) -> float | None:
        """The sandbox time that completions of earlier runs would take; never more than the limits allow."""
        if self.typical is None:
            return None
        return min(self.typical.seconds * self.completions, self.longest_seconds or math.inf)

    def cost(self, seconds: float | None) -> Money | None:
        """What some sandbox time costs; None if that is not known."""
        price = self.allowance.price
        return None if seconds is None or price is None else cost_of(seconds, price)

    @property
    def holds(self) -> bool | None:
        """Whether the budget would hold; None if that is not certain, or there is no budget."""
        if not self.allowance.budget:
            return None
        left = self.allowance.left_seconds
        if self.longest_seconds is not None and self.longest_seconds <= left:
            return True
        if self.typical_seconds is not None and self.typical_seconds > left:
            return False
        return None

    @property
    def lines(self) -> list[str]:
        """The outlook for people."""
        if self.service is not None:
            return [f"Completions: {self.completions}", f"Sandboxes: run by the service at {self.service}"]
        if not self.completions:
            return ["Sandboxes: 0, because there is nothing to execute"]
        return [
            f"Completions: {self.completions}",
            f"Sandboxes: {self._sandboxes_text} (runtime {self.runtime})",
            f"Sandbox time: {self._time_text}",
            f"Cost: {self._cost_text}",
            *([f"Modules: {self._lacking_text}"] if self.lacking else []),
            *([f"Budget: {self._budget_text}"] if self.allowance.budget else []),
        ]

    @property
    def _sandboxes_text(self) -> str:
        besides = f", and {self.own_sandboxes} for the episodes" if self.own_sandboxes else ""
        if not self.has_cells:
            at_once = "as many at once as the runtime allows" if self.at_once is None else f"{self.at_once} at once"
            return f"{self.sandboxes} fresh sandboxes, {at_once}{besides}"
        if self.sandboxes is None:
            return f"one worker for each machine, with each completion in a cell{besides}"
        workers = "1 worker" if self.sandboxes == 1 else f"{self.sandboxes} workers"
        return f"{workers}, with each completion in a cell{besides}"

    @property
    def _time_text(self) -> str:
        if self.typical is None or self.typical_seconds is None:
            typical = "typically unknown, because there are no earlier runs of this kind"
        else:
            runs = f"{self.typical.runs} earlier run{'s' * (self.typical.runs != 1)}"
            typical = f"typically {duration_text(self.typical_seconds)} (as in {runs})"
        if self.longest_seconds is None:
            return f"{typical}; no upper bound, because sandboxes are held while the model answers"
        return f"{typical}; at most {duration_text(self.longest_seconds)} by the time limits"

    @property
    def _cost_text(self) -> str:
        price = self.allowance.price
        if price is None:
            return f"no price set: sandrl prices set {self.runtime} PRICE"
        typical, longest = self.cost(self.typical_seconds), self.cost(self.longest_seconds)
        parts = [
            *([] if typical is None else [f"typically {typical.shown}"]),
            *([] if longest is None else [f"at most {longest.shown}"]),
        ]
        return f"{', '.join(parts) or 'unknown'} (a sandbox-hour costs {price})"

    @property
    def _lacking_text(self) -> str:
        names = ", ".join(f"{name} ({count} problem{'s' * (count != 1)})" for name, count in self.lacking.items())
        return f"problems need {names}, {LACKING}; otherwise their completions are invalid_problem"

    @property
    def _budget_text(self) -> str:
        allowance = self.allowance
        used = ""
        if allowance.before_seconds:
            used = f", of which the run has used {duration_text(allowance.before_seconds)}"
        verdict = {
            True: "sufficient by the time limits",
            False: "not sufficient: the command would stop before its end",
            None: "possibly not sufficient: the command stops before the budget is exceeded",
        }[self.holds]
        return f"{allowance.budget}{used}; {verdict}"

    def document(self) -> dict[str, JsonValue]:
        """The outlook as plain JSON."""
        allowance, price = self.allowance, self.allowance.price
        typical, longest = self.cost(self.typical_seconds), self.cost(self.longest_seconds)
        return {
            "command": self.command,
            "runtime": self.runtime,
            "service": self.service,
            "completions": self.completions,
            "lacking_modules": dict(self.lacking),
            "cells": self.has_cells,
            "sandboxes": {
                "at_once": self.at_once,
                "in_all": None if self.sandboxes is None else self.sandboxes + self.own_sandboxes,
                "of_episodes": self.own_sandboxes,
            },
            "sandbox_seconds": {
                "typical": _rounded(self.typical_seconds),
                "at_most": _rounded(self.longest_seconds),
                "earlier_runs": 0 if self.typical is None else self.typical.runs,
            },
            "sandbox_hour_price": None if price is None else str(price),
            "currency": None if price is None else price.currency,
            "cost": {
                "typical": None if typical is None else _rounded(typical.amount),
                "at_most": None if longest is None else _rounded(longest.amount),
            },
            "budget": {
                "budget": allowance.budget,
                "seconds": None if allowance.seconds == math.inf else _rounded(allowance.seconds),
                "used_seconds": _rounded(allowance.before_seconds),
                "holds": self.holds,
            }
            if allowance.budget
            else None,
        }


def outlook_of(
    config: SandboxesPart,
    limits: Limits,
    settings: Settings,
    *,
    command: str,
    wanted: Iterable[Wanted],
    own_sandboxes: int = 0,
    run: Path | None = None,
    is_open_ended: bool = False,
    service: str | None = None,
    counts: str = "executions",
) -> Outlook:
    """Makes the outlook of a command.

    Args:
        config: What was asked for.
        limits: What a completion may use.
        settings: What the environment says.
        command: The command.
        wanted: What would be executed.
        own_sandboxes: How many sandboxes there are besides, such as those in which a policy works.
        run: The run that goes on.
        is_open_ended: Whether sandboxes are held for longer than completions take.
        service: The address of the service that has the sandboxes.
        counts: The metric by which earlier runs say how many completions there were.

    Raises:
        BudgetError: If earlier jobs of the run have used the budget up.
        UsageError: If an option, or the budget, cannot be used.
    """
    allowance = Allowance() if service is not None else SandboxRequest.of(config).allowance(settings, run=run)
    # The service has the sandboxes, wherever they are.
    kind = None if service is not None else settings.choose_runtime(config.runtime).kind
    completions, seconds = 0, 0.0
    needing: defaultdict[str, set[str]] = defaultdict(set)
    needed: set[str] = set()
    for each in wanted:
        completions += each.count
        if kind is RuntimeKind.LOCAL:
            needed.update(packages_of([each.problem]))
            for name in modules_of(each.problem):
                if not is_in_library(name) and name not in each.problem.packages:
                    needing[name].add(each.problem.task_id)
        seconds += each.count * longest_execution_seconds(each.problem, limits)
    has_cells = not config.fresh_sandboxes
    at_once, sandboxes, longest = _shape(config, kind, completions, seconds)
    return Outlook(
        command,
        "" if kind is None else kind.value,
        completions,
        has_cells,
        at_once,
        sandboxes,
        None if is_open_ended else longest,
        None if kind is None else typical_of(settings, command, kind, has_cells=has_cells, counts=counts),
        allowance,
        service,
        own_sandboxes,
        _without_packages(needing, SandboxRequest.of(config).modules(settings, tuple(needed))) if needing else {},
    )


def _without_packages(needing: Mapping[str, set[str]], given: frozenset[str] | None) -> dict[str, int]:
    if given is None:
        return {}
    return {name: len(problems) for name, problems in sorted(needing.items()) if name not in given}


def _shape(
    config: SandboxesPart, kind: RuntimeKind | None, completions: int, seconds: float
) -> tuple[int | None, int | None, float]:
    if config.fresh_sandboxes:
        suited = config.concurrency or (None if kind is None else suited_concurrency(kind))
        bounds = [each for each in (suited, config.max_sandboxes, completions) if each is not None]
        return (None if suited is None else min(bounds)), completions, seconds
    if kind in (None, RuntimeKind.RAY):
        return None, None, seconds
    cores = os.cpu_count() or 1
    workers = min(worker_count(config.concurrency, config.max_sandboxes), max(completions, 1))
    cells = min(cells_at_once(config.concurrency, workers, cores), max(completions, 1))
    # Each worker exists until the last of its cells is done.
    return workers, workers, workers * seconds / cells


def typical_of(
    settings: Settings, command: str, kind: RuntimeKind, *, has_cells: bool, counts: str = "executions"
) -> Typical | None:
    """What a completion took in the latest runs of this kind on this machine; None if there are none.

    Args:
        settings: What the environment says.
        command: The command; those that only score count together.
        kind: The runtime.
        has_cells: Whether completions are judged in cells.
        counts: The metric that says how many completions there were.
    """
    commands = (
        (command,)
        if command not in (*SCORING_COMMANDS, "problems validate", "runs regrade", "redteam")
        else (SCORING_COMMANDS)
    )
    seconds = count = 0.0
    runs = 0
    for entry in list_runs(settings.state_dir, settings.runs_dir)[:_LOOKED_AT]:
        if runs == _RUNS:
            break
        try:
            reader = RunReader(entry.path)
            options = reader.config.options
            is_alike = (
                reader.config.command in commands
                and options.get("runtime_kind") == kind.value
                and bool(options.get("fresh_sandboxes")) is not has_cells
            )
            rows = step_rows(reader) if is_alike else ()
        except InputError:
            continue
        known = [row.metrics[SECONDS_METRIC] or 0.0 for row in rows if SECONDS_METRIC in row.metrics]
        done = sum(row.metrics.get(counts) or 0.0 for row in rows)
        if known and done:
            seconds, count, runs = seconds + max(known), count + done, runs + 1
    return Typical(seconds / count, runs) if runs else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
