from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sandrl.sandboxes.busy_processes import BusyProcesses
from sandrl.sandboxes.workers import CellLimits

_BUSY = """
import sys
from pathlib import Path
from sandrl.sandboxes.busy_processes import BusyProcesses
busy = BusyProcesses(Path(sys.argv[1]))
busy.set_busy(True)
print("busy", flush=True)
sys.stdin.readline()
"""


def _count(directory: Path) -> int:
    asked = BusyProcesses(directory)
    asked.set_busy(True)
    return asked.count()


def test_those_that_are_busy_are_counted_and_no_others(tmp_path: Path) -> None:
    first, second, idle = (BusyProcesses(tmp_path) for _ in range(3))
    first.set_busy(True)
    second.set_busy(True)
    idle.set_busy(False)
    assert _count(tmp_path) == 3
    second.set_busy(False)
    assert _count(tmp_path) == 2


def test_a_process_that_was_killed_is_no_longer_busy(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _BUSY, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "busy\n"
        assert _count(tmp_path) == 2
        process.kill()
    assert _count(tmp_path) == 1


def test_a_forked_child_does_not_keep_its_parent_busy(tmp_path: Path) -> None:
    parent = BusyProcesses(tmp_path)
    parent.set_busy(True)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, b".")
        signal.pause()
    os.read(reading, 1)
    parent.set_busy(False)
    counted = _count(tmp_path)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reading)
    os.close(writing)
    assert counted == 1


def test_a_directory_that_cannot_be_used_means_one_process(tmp_path: Path) -> None:
    assert _count(tmp_path / "missing") == 1
    assert BusyProcesses(None).count() == 1


def test_processes_share_the_places_of_the_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    assert [CellLimits().places(2, processes) for processes in (1, 2, 8, 64)] == [9, 4, 1, 1]
    assert CellLimits(at_once=4).places(2, 8) == 0
