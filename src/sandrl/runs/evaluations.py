"""The evaluations of a policy during its training, and the choice of its best checkpoint.

No file names the best checkpoint. It is derived from the stored evaluations and the existing checkpoints, so a job that
is killed between two writes leaves no contradiction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sandrl.runs.rows import EvaluationRow

HELD_OUT = "held_out/pass@1"
"""The metric by which checkpoints are compared."""


@dataclass(frozen=True, slots=True)
class BestCheckpoint:
    """The checkpoint whose policy has the highest sampled pass@1 on held-out problems; of equal ones the earliest.

    Attributes:
        step: How many steps the policy in it has had.
        path: A directory that transformers loads as a model.
        of: How many checkpoints that are still there were evaluated.
    """

    step: int
    path: Path
    metrics: Mapping[str, float | None]
    is_held_out: bool
    of: int


def best_checkpoint(run: Path, rows: Iterable[EvaluationRow]) -> BestCheckpoint | None:
    """The best checkpoint of a run; None if no checkpoint that is there was evaluated."""
    saved = [(row, run / row.checkpoint) for row in rows if row.checkpoint is not None]
    there = [(row, path) for row, path in saved if path.is_dir()]
    rated = [(rate, -row.step, row, path) for row, path in there if (rate := row.metrics.get(HELD_OUT)) is not None]
    if not rated:
        return None
    *_, row, path = max(rated, key=lambda each: each[:2])
    return BestCheckpoint(row.step, path, row.metrics, row.is_held_out, of=len(rated))
