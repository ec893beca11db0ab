"""Bounds the sandboxes, time and cost of a command before it starts, for `--dry-run`.

The bounds follow from the command line, the problems and their time limits. No runtime is contacted, so nothing is
started for them; a value that only a runtime has is unknown. The typical time is not estimated, because the metric
`sandbox_seconds` of an earlier run shows it.
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
from sandrl.judge.calibration import LACKING, is_in_library, modules_of, packages_of
from sandrl.judge.judge import longest_execution_seconds
from sandrl.judge.limits import Limits
from sandrl.problems import Problem
from sandrl.problems.quality import QualityFilter
from sandrl.sandboxes import SandboxRequest
from sandrl.sandboxes.footprint import cells_at_once, suited_concurrency, worker_count
from sandrl.sandboxes.spending import Allowance
from sandrl.settings import RuntimeKind, Settings


@dataclass(frozen=True, slots=True)
class SandboxEstimate:
    """What a command would take.

    Attributes:
        completions: How many completions would be executed, those of episodes included.
        has_cells: Whether many are judged in one worker sandbox, each in a cell, where the runtime has cells.
        at_once: How many sandboxes at once; None if only the runtime could tell.
        sandboxes: How many in all, if none fails; None if only the runtime could tell.
        longest_seconds: The most sandbox time that the time limits allow, without executions that are repeated; None if
            nothing bounds it, because sandboxes are held while a model answers.
        service: The address of the service that has the sandboxes; None if the command has them.
        episode_sandboxes: How many there are besides, in which episodes work.
        lacking: The modules that problems need and sandboxes are known to lack, with the number of such problems.
        quality: What has left out problems; None if nothing has.
    """

    command: str
    runtime: str
    completions: int
    has_cells: bool
    at_once: int | None
    sandboxes: int | None
    longest_seconds: float | None
    allowance: Allowance
    service: str | None = None
    episode_sandboxes: int = 0
    lacking: Mapping[str, int] = field(default_factory=dict)
    quality: QualityFilter | None = None

    @property
    def highest_cost(self) -> Money | None:
        """The most that it may cost; None if that is not known."""
        price = self.allowance.price
        return None if self.longest_seconds is None or price is None else cost_of(self.longest_seconds, price)

    @property
    def is_affordable(self) -> bool | None:
        """True if the budget suffices by the time limits; None if that is not certain, or there is no budget."""
        if not self.allowance.budget or self.longest_seconds is None:
            return None
        return True if self.longest_seconds <= self.allowance.left_seconds else None

    @property
    def lines(self) -> list[str]:
        summary = "" if self.quality is None else self.quality.summary
        return [*([f"Quality: {summary}"] if summary else []), *self._sandbox_lines]

    @property
    def _sandbox_lines(self) -> list[str]:
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
        besides = f", and {self.episode_sandboxes} for the episodes" if self.episode_sandboxes else ""
        if not self.has_cells:
            at_once = "as many at once as the runtime allows" if self.at_once is None else f"{self.at_once} at once"
            return f"{self.sandboxes} fresh sandboxes, {at_once}{besides}"
        if self.sandboxes is None:
            return f"one worker for each machine, with each completion in a cell{besides}"
        workers = "1 worker" if self.sandboxes == 1 else f"{self.sandboxes} workers"
        return f"{workers}, with each completion in a cell{besides}"

    @property
    def _time_text(self) -> str:
        if self.longest_seconds is None:
            return "no upper bound, because sandboxes are held while the model answers"
        return f"at most {duration_text(self.longest_seconds)} by the time limits"

    @property
    def _cost_text(self) -> str:
        price, highest = self.allowance.price, self.highest_cost
        if price is None:
            return f"no price set: sandrl prices set {self.runtime} PRICE"
        return f"{'unknown' if highest is None else f'at most {highest.shown}'} (a sandbox-hour costs {price})"

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
        if self.is_affordable:
            return f"{allowance.budget}{used}; sufficient by the time limits"
        return f"{allowance.budget}{used}; possibly not sufficient: the command stops before the budget is exceeded"

    def document(self) -> dict[str, JsonValue]:
        allowance, price, highest = self.allowance, self.allowance.price, self.highest_cost
        return {
            "command": self.command,
            "runtime": self.runtime,
            "service": self.service,
            "completions": self.completions,
            "lacking_modules": dict(self.lacking),
            "left_out_problems": 0 if self.quality is None else self.quality.left_out,
            "cells": self.has_cells,
            "sandboxes": {
                "at_once": self.at_once,
                "in_all": None if self.sandboxes is None else self.sandboxes + self.episode_sandboxes,
                "of_episodes": self.episode_sandboxes,
            },
            "sandbox_seconds": {"at_most": _rounded(self.longest_seconds)},
            "sandbox_hour_price": None if price is None else str(price),
            "currency": None if price is None else price.currency,
            "cost": {"at_most": None if highest is None else _rounded(highest.amount)},
            "budget": {
                "budget": allowance.budget,
                "seconds": None if allowance.seconds == math.inf else _rounded(allowance.seconds),
                "used_seconds": _rounded(allowance.before_seconds),
                "holds": self.is_affordable,
            }
            if allowance.budget
            else None,
        }


def estimate_sandboxes(
    config: SandboxesPart,
    limits: Limits,
    settings: Settings,
    *,
    command: str,
    counts: Iterable[tuple[Problem, int]],
    episode_sandboxes: int = 0,
    run: Path | None = None,
    is_open_ended: bool = False,
    service: str | None = None,
    quality: QualityFilter | None = None,
) -> SandboxEstimate:
    """Estimates what a command would take in sandboxes.

    Args:
        counts: How many completions of each problem would be executed; a problem may occur more than once.
        run: The run that goes on.
        is_open_ended: Whether sandboxes are held for longer than completions take.
        service: The address of the service that has the sandboxes.
        quality: What has left out problems.

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
    has_cells = config.has_cells
    for problem, count in counts:
        completions += count
        has_cells = has_cells and problem.task is None
        seconds += count * longest_execution_seconds(problem, limits)
        if kind == RuntimeKind.LOCAL and problem.image is None and problem.task is None:
            needed.update(packages_of([problem]))
            for name in modules_of(problem):
                if not is_in_library(name) and name not in problem.packages:
                    needing[name].add(problem.task_id)
    at_once, sandboxes, longest = _shape(config, kind, completions, seconds, has_cells=has_cells)
    given = SandboxRequest.of(config).modules(settings, tuple(needed)) if needing else None
    return SandboxEstimate(
        command,
        kind or "",
        completions,
        has_cells,
        at_once,
        sandboxes,
        None if is_open_ended or longest == math.inf else longest,
        allowance,
        service,
        episode_sandboxes,
        {} if given is None else {name: len(needing[name]) for name in sorted(needing) if name not in given},
        quality,
    )


# How many sandboxes at once and in all, and for how long at most.
def _shape(
    config: SandboxesPart, kind: str | None, completions: int, seconds: float, *, has_cells: bool
) -> tuple[int | None, int | None, float]:
    if not has_cells:
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


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
