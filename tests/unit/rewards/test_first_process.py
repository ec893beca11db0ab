"""The program that is process 1 of a cell: it waits, reaps nothing itself, and can be ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sandrl.judge.guest.first_process import MACHINES, executable, write_executable

# Makes the program a parent of orphans, as process 1 is, and has it execute the file.
ADOPTER = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
child = os.fork()
if child == 0:
    if os.fork() == 0:
        os.read(0, 1)
    os._exit(0)
# What has ended before the program ignores the ends of its children is nobody's to reap.
os.waitpid(child, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_it_waits_and_the_kernel_reaps_what_is_left_to_it(tmp_path: Path) -> None:
    write_executable(str(tmp_path / "first"))
    process = subprocess.Popen([sys.executable, "-c", ADOPTER, str(tmp_path / "first")], stdin=subprocess.PIPE)
    assert process.stdin is not None
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while "python" in os.readlink(f"/proc/{process.pid}/exe") or not children.read_text():
            time.sleep(0.01)
        process.stdin.close()
        while children.read_text():
            time.sleep(0.01)
        assert process.poll() is None
    finally:
        process.kill()
    assert process.wait() == -signal.SIGKILL


def test_nobody_can_read_its_file(tmp_path: Path) -> None:
    write_executable(str(tmp_path / "first"))
    assert (tmp_path / "first").stat().st_mode & 0o777 == 0o111


@pytest.mark.parametrize("machine", MACHINES)
def test_its_file_is_an_executable_for_each_machine(machine: str) -> None:
    content = executable(machine)
    assert content[:5] == b"\x7fELF\x02"
    assert int.from_bytes(content[18:20], "little") == MACHINES[machine]
    # The part that is loaded is the whole file, and execution begins behind the headers.
    assert int.from_bytes(content[64 + 32 : 64 + 40], "little") == len(content)
    assert int.from_bytes(content[24:32], "little") - int.from_bytes(content[64 + 16 : 64 + 24], "little") == 64 + 56
