"""Ten small tasks, and a scripted model that works on them in ten ways; what is right for each of them is known."""

from __future__ import annotations

import hashlib
import itertools
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.support.scripted_model import Answer, Fault, Question, Says
from tests.support.tasks.shell import judge, write_shell_task

_SUBMIT = Says("", [("submit", {})])


def _bash(command: str) -> Says:
    return Says("", [("bash", {"command": command, "timeout_seconds": 600})])


# What a model does in each way, and the reward of that.
_WAYS: Mapping[str, tuple[tuple[Says, ...], float]] = {
    "solves": ((_bash("pwd; ls -la"), _bash("echo done > answer"), _SUBMIT), 1.0),
    "solves by a file": ((Says("", [("write_file", {"path": "answer", "content": "done\n"})]), _SUBMIT), 1.0),
    "solves in a background job": (
        (_bash("(sleep 1; echo done > answer) & echo started"), _bash("sleep 2; cat answer"), _SUBMIT),
        1.0,
    ),
    "solves and leaves a program": ((_bash("echo done > answer; sleep 600 & echo started"), _SUBMIT), 1.0),
    "solves without a word": ((_bash("cd /tmp && echo done > ~/answer"), Says("Done.")), 1.0),
    "is wrong": ((_bash("echo half > answer"), _SUBMIT), 0.0),
    "does nothing": ((Says("I cannot do it."),), 0.0),
    "calls what there is not": ((Says("", [("python", {"code": "1"})]), Says("", [("bash", "{broken")]), _SUBMIT), 0.0),
    "fills the disk": ((_bash("cat /dev/zero > fill; echo done > answer; ls -s"), _SUBMIT), 0.0),
    "uses half of the disk and tidies": (
        (_bash("head -c 32000000 /dev/zero > fill; rm fill; echo done > answer"), _SUBMIT),
        1.0,
    ),
}
EXPECTED: Mapping[str, float] = {f"task-{number}": reward for number, (_, reward) in enumerate(_WAYS.values())}
"""The reward of every episode on each task."""


def write_tasks(place: Path) -> Path:
    """Writes the tasks into a folder; returns it."""
    for name in EXPECTED:
        write_shell_task(place / name, instruction=f"{name}: Write the word done into the file answer.", cpus=0.2)
    return place


def repair(place: Path) -> None:
    """Changes the verifier of the task that is done wrongly: it accepts what was done."""
    (place / "task-5" / "tests" / "test.sh").write_text(judge("half"), encoding="utf-8")


class FlakyModel:
    """Answers as the script says, and to every seventh request with a fault that a server has for a moment."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self.turns: Counter[int] = Counter()

    def __call__(self, question: Question) -> Answer:
        with self._lock:
            number = next(self._numbers)
            self.turns[question.turn] += 1
        if number % 7 == 0:
            faults = (Fault(500), Fault(cut=True), Fault(reset=True), Fault(429, {"Retry-After": "0.1"}), Fault(503))
            return faults[int(hashlib.sha256(str(number).encode()).hexdigest(), 16) % len(faults)]
        name = question.messages[1]["content"].split(":")[0]
        turns, _ = [*_WAYS.values()][int(name.removeprefix("task-"))]
        return turns[min(question.turn, len(turns) - 1)]
