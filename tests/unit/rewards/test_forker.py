"""The process of a worker that forks, where the kernel refuses what it asks for."""

import os
import posix
from pathlib import Path
from typing import Any

import pytest

from sandrl.judge.guest import worker
from sandrl.judge.guest.worker import Forker


@pytest.mark.parametrize("has_pipe", [True, False])
def test_a_judge_that_cannot_be_forked_is_one_that_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_pipe: bool
) -> None:
    def refuse() -> int:
        raise BlockingIOError("no more processes")

    cells: Any = None
    monkeypatch.setattr(worker, "SPOOL", str(tmp_path))
    monkeypatch.setattr(posix, "fork", refuse)
    os.mkfifo(tmp_path / "judge.1")
    # The router opens it.
    pipe = os.open(tmp_path / "judge.1", os.O_RDWR) if has_pipe else -1
    reading, answers = os.pipe()
    before = os.listdir("/proc/self/fd")
    forker = Forker(cells, -1, -1, answers, 0)
    assert forker.handle(["judge", "judge.1", "program"]) is None
    assert os.read(reading, 100) == b"left judge.1\n"
    assert (forker.judges, os.listdir("/proc/self/fd")) == ({}, before)
    for descriptor in (reading, answers, *([pipe] if has_pipe else [])):
        os.close(descriptor)
