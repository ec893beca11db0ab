"""Runs `sandrl` as a user does, kills it as `kill -9` does, and looks for processes and sandboxes that remain."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_POLL_SECONDS = 0.01
# What vLLM calls its processes, and what ART calls the program in which vLLM runs.
_OF_VLLM = re.compile(r"vllm", re.IGNORECASE)
_SHOWN_LINES = 15
_STOP_SECONDS = 15.0


class Command:
    """A `sandrl` command in a process of its own.

    Args:
        words: What follows `sandrl`.
        output: The file for what it prints.
        environment: Variables it gets besides those of this process.
    """

    def __init__(self, words: Sequence[str], output: Path, environment: Mapping[str, str]) -> None:
        self.words = tuple(words)
        self.output = output
        with output.open("w", encoding="utf-8") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "sandrl", *words],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Ends it, if it has not ended: first as Ctrl-C does, so that it stops its sandboxes."""
        for number in (signal.SIGINT, signal.SIGINT):
            if self.process.poll() is not None:
                return
            self.process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_STOP_SECONDS)
        self.kill()

    @property
    def line(self) -> str:
        """The command line."""
        return shlex.join(["sandrl", *self.words])

    @property
    def text(self) -> str:
        """What it has printed."""
        return self.output.read_text(encoding="utf-8", errors="replace")

    @property
    def last_lines(self) -> str:
        """The end of what it has printed."""
        return "\n".join(self.text.splitlines()[-_SHOWN_LINES:])

    def wait_for(self, pattern: str, timeout_seconds: float) -> bool:
        """Waits for a line that begins with a pattern; False if the command ended, or took too long, before that."""
        begin = re.compile(pattern, re.MULTILINE)
        ends_at = time.monotonic() + timeout_seconds
        while time.monotonic() < ends_at:
            has_ended = self.process.poll() is not None
            if begin.search(self.text):
                return not has_ended
            if has_ended:
                return False
            time.sleep(_POLL_SECONDS)
        return False

    def end(self, timeout_seconds: float) -> int | None:
        """Waits for the end; the exit code, or None if it took too long and was killed."""
        try:
            return self.process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def kill(self) -> None:
        """Kills the command itself, as `kill -9` does: its children get no signal."""
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass(frozen=True, slots=True)
class Child:
    """A process below a command.

    Attributes:
        pid: Its number.
        started: When it was started, as the kernel counts: a number that is used again has another start.
        line: Its command line.
    """

    pid: int
    started: str
    line: str


def children_of(pid: int) -> tuple[Child, ...]:
    """All processes below another one, at any depth."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            fields = _stat(int(entry.name))
            if fields is not None:
                parents[int(entry.name)] = int(fields[1])
    found, wanted = set[int](), {pid}
    while wanted:
        wanted = {child for child, parent in parents.items() if parent in wanted} - found
        found |= wanted
    children = (_child(each) for each in sorted(found))
    return tuple(each for each in children if each is not None)


def end_survivors(children: Collection[Child], timeout_seconds: float = 30.0) -> tuple[str, ...]:
    """Waits until the processes of vLLM among some are gone, and kills those that are not.

    Args:
        children: What was below a command before it was killed. Others, such as the local runtime, are left alone.
        timeout_seconds: How long they may take to notice.

    Returns:
        The command lines of those that had to be killed.
    """
    wanted = {each for each in children if _OF_VLLM.search(each.line)}
    ends_at = time.monotonic() + timeout_seconds
    while (alive := {each for each in wanted if _is_alive(each)}) and time.monotonic() < ends_at:
        time.sleep(0.1)
    for each in alive:
        with suppress(ProcessLookupError):
            os.kill(each.pid, signal.SIGKILL)
    return tuple(sorted(each.line[:120] for each in alive))


def _stat(pid: int) -> list[str] | None:
    """The fields of `/proc/PID/stat` from the state on; None if the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None


def _child(pid: int) -> Child | None:
    fields = _stat(pid)
    if fields is None:
        return None
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return Child(pid, fields[19], " ".join(word.decode("utf-8", "replace") for word in words if word))
    return None


def _is_alive(child: Child) -> bool:
    fields = _stat(child.pid)
    return fields is not None and fields[0] != "Z" and fields[19] == child.started


def sandboxes_of(jobs: Collection[str], runtime: str) -> list[dict[str, Any]]:
    """The sandboxes of jobs that there are now, as `sandrl sandboxes ls --json` tells."""
    found = _document("sandboxes", "ls", "--json", "--runtime", runtime)
    return [each for each in found["sandboxes"] if each["job_id"] in jobs]


def stop_orphans(jobs: Collection[str], runtime: str) -> int:
    """Has `sandrl sandboxes cleanup` stop the orphans of jobs; how many these were."""
    documents = (
        _document("sandboxes", "cleanup", "--orphans", "--yes", "--json", "--tag", job, "--runtime", runtime)
        for job in jobs
    )
    return sum(len(each["stopped"]) for each in documents)


def _document(*words: str) -> dict[str, Any]:
    argv = [sys.executable, "-m", "sandrl", *words]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    document: dict[str, Any] = json.loads(done.stdout)
    return document
