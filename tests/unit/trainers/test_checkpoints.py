"""Which checkpoints stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandrl.trainers.checkpoints import last_checkpoint, mark_whole, remove_old


@pytest.mark.parametrize(
    ("most", "besides", "stay"),
    [(1, None, {5}), (1, 2, {2, 5}), (2, 5, {4, 5}), (3, 1, {1, 3, 4, 5}), (9, None, {1, 2, 3, 4, 5})],
)
def test_the_last_ones_and_the_best_stay(tmp_path: Path, most: int, besides: int | None, stay: set[int]) -> None:
    assert last_checkpoint(tmp_path / "none") is None
    for step in range(1, 7):
        (tmp_path / f"checkpoint-{step}").mkdir()
        if step < 6:
            mark_whole(tmp_path, step, run=tmp_path)
    remove_old(tmp_path, most, besides=None if besides is None else tmp_path / f"checkpoint-{besides}")
    # The sixth is being written, or its writer was killed: it neither counts nor is it another's to remove.
    assert {path.name for path in tmp_path.iterdir()} == {f"checkpoint-{step}" for step in {*stay, 6}}
    last = last_checkpoint(tmp_path)
    assert last is not None
    assert last.step == 5
