"""MBPP: its place on the hub, and the splits that its task ids define (arXiv:2108.07732, appendix A).

A split is a range of task ids, as the paper defines it. So a local copy of the whole set has the same splits as the one
on the hub, and the same split name selects the same problems in both.
"""

from __future__ import annotations

from pathlib import Path

from sandrl.errors import InputError
from sandrl.jsonl import Row
from sandrl.problems.formats.mbpp import MBPP
from sandrl.problems.hub import HubDataset

NAME = "mbpp"
HUB_DATASET = HubDataset(
    "google-research-datasets/mbpp", revision="4bb6404fdc6cacfda99d4ac4205087b89d32030c", configuration="full"
)
SPLITS = {"train": range(601, 975), "test": range(11, 511), "validation": range(511, 601), "prompt": range(1, 11)}
"""The task ids of each split."""


def is_in_split(row: Row, split: str, path: str | Path) -> bool:
    """Whether a row belongs to a split.

    Raises:
        InputError: If it is no row of MBPP, whose task ids alone stand for splits.
    """
    if not MBPP.recognises(row.value):
        message = f"is not a row of MBPP, so it cannot belong to the split {split!r}"
        raise InputError(message, path=path, line=row.line, hint=f"leave out :{split} to use the whole file")
    task_id = str(row.value.get("task_id"))
    return task_id.isdecimal() and int(task_id) in SPLITS[split]
