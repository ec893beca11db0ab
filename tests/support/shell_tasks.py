"""Small tasks of a shell as Harbor task directories, and a policy that answers them with a line of shell.

A task is a combination of a kind with a file, a word and a new name. The held-out ones are combinations that training
never shows, made of parts that it does show. The verifier compares the whole of `/app` with what it should be, so an
answer that changes another file is wrong as well.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from sandrl.problems.problem import Problem
from sandrl.problems.tasks.task import Environment, Task, TaskStep
from sandrl.tiny.demonstrations import Course
from sandrl.tiny.policy import make_policy
from sandrl.tiny.recipe import Recipe
from tests.support.image_trees import import_tree, make_busybox_tree

IMAGE = "tests/shell-tasks:1"
SPLITS = ("train", "test")

_FILES = ("notes", "data", "list", "plan", "log", "items")
_WORDS = ("red", "blue", "green", "gold", "pink", "gray")
_NEW_NAMES = ("copy", "result", "out", "draft", "report", "total")
_APPLETS = ("[", "basename", "cmp", "cp", "mktemp", "readlink", "sed", "sort", "tail", "tar", "tee", "uniq", "wc")
_MOST_OF_A_KIND = 36
_HELD_OUT = 5


@dataclass(frozen=True, slots=True)
class Entry:
    """What is at a name in `/app`: a file of lines, a link, or a directory."""

    lines: tuple[str, ...] = ()
    is_executable: bool = False
    target: str = ""
    is_directory: bool = False

    def listed(self, name: str) -> str:
        """What the verifier writes about it."""
        if self.target:
            return f"link {name} {self.target}\n"
        kind = "directory" if self.is_directory else "program" if self.is_executable else "file"
        return f"{kind} {name}\n" + "".join(f" {line}\n" for line in self.lines)


State: TypeAlias = Mapping[str, Entry]

START: State = {
    name: Entry(tuple(f"{_WORDS[(place + each) % 6]} {name}" for each in (4, 1, 3, 0, 5)[: 3 + place % 3]))
    for place, name in enumerate(_FILES)
}
"""What is in `/app` at the beginning."""


@dataclass(frozen=True, slots=True)
class ShellKind:
    """A kind of task.

    Attributes:
        asked: What is asked for; `{f}` stands for a file, `{w}` for a word, `{n}` for a new name.
        answer: What is right.
        mistake: The one mistake that a policy may make.
        effect: What a right answer makes of some names, None of one that is gone; of file, word and new name.
    """

    name: str
    asked: str
    answer: str
    mistake: str
    effect: Callable[[str, str, str], Mapping[str, Entry | None]]


def _lines(name: str) -> tuple[str, ...]:
    return START[name].lines


KINDS = (
    ShellKind("write", "Write {w} to {n}.", "echo {w} > {n}", "echo {n} > {w}", lambda f, w, n: {n: Entry((w,))}),
    ShellKind(
        *("append", "Append {w} to {f}.", "echo {w} >> {f}", "echo {w} > {f}"),
        lambda f, w, n: {f: Entry((*_lines(f), w))},
    ),
    ShellKind(
        *("replace", "Replace {f} by {w}.", "echo {w} > {f}", "echo {w} >> {f}"), lambda f, w, n: {f: Entry((w,))}
    ),
    ShellKind("delete", "Delete {f}.", "rm {f}", "cat {f}", lambda f, w, n: {f: None}),
    ShellKind("empty", "Empty {f}.", "echo -n > {f}", "rm {f}", lambda f, w, n: {f: Entry()}),
    ShellKind("rename", "Rename {f} to {n}.", "mv {f} {n}", "cp {f} {n}", lambda f, w, n: {f: None, n: START[f]}),
    ShellKind("copy", "Copy {f} to {n}.", "cp {f} {n}", "mv {f} {n}", lambda f, w, n: {n: START[f]}),
    ShellKind(
        *("link", "Make {n} a link to {f}.", "ln -s {f} {n}", "ln -s {n} {f}"), lambda f, w, n: {n: Entry(target=f)}
    ),
    ShellKind(
        *("program", "Make {f} executable.", "chmod +x {f}", "chmod -x {f}"),
        lambda f, w, n: {f: replace(START[f], is_executable=True)},
    ),
    ShellKind(
        *("directory", "Make the directory {n}.", "mkdir {n}", "touch {n}"),
        lambda f, w, n: {n: Entry(is_directory=True)},
    ),
    ShellKind(
        *("count", "Count the lines of {f} into {n}.", "wc -l < {f} > {n}", "wc -c < {f} > {n}"),
        lambda f, w, n: {n: Entry((str(len(_lines(f))),))},
    ),
    ShellKind(
        *("first", "Put the first line of {f} into {n}.", "head -n 1 {f} > {n}", "tail -n 1 {f} > {n}"),
        lambda f, w, n: {n: Entry(_lines(f)[:1])},
    ),
    ShellKind(
        *("last", "Put the last line of {f} into {n}.", "tail -n 1 {f} > {n}", "head -n 1 {f} > {n}"),
        lambda f, w, n: {n: Entry(_lines(f)[-1:])},
    ),
    ShellKind(
        *("sort", "Sort {f} into {n}.", "sort {f} > {n}", "sort {f}"),
        lambda f, w, n: {n: Entry(tuple(sorted(_lines(f))))},
    ),
    ShellKind(
        *("with", "Put the lines of {f} with {w} into {n}.", "grep {w} {f} > {n}", "grep -v {w} {f} > {n}"),
        lambda f, w, n: {n: Entry(tuple(line for line in _lines(f) if w in line))},
    ),
    ShellKind(
        *("without", "Put the lines of {f} without {w} into {n}.", "grep -v {w} {f} > {n}", "grep {w} {f} > {n}"),
        lambda f, w, n: {n: Entry(tuple(line for line in _lines(f) if w not in line))},
    ),
)

_VERIFIER = """\
#!/bin/sh
cd /app || exit 1
for name in *; do
    if [ -L "$name" ]; then
        echo "link $name $(readlink "$name")"
    elif [ -d "$name" ]; then
        echo "directory $name"
    elif [ -x "$name" ]; then
        echo "program $name"
        sed 's/^/ /' "$name"
    else
        echo "file $name"
        sed 's/^/ /' "$name"
    fi
done > /tmp/found
if cmp -s /tmp/found /tests/expected; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
"""
_SETTINGS = """\
schema_version = "1.3"

[task]
name = "shell/{name}"

[agent]
timeout_sec = 20

[verifier]
timeout_sec = 20

[environment]
docker_image = "{image}"
workdir = "/app"
cpus = 1
memory_mb = 256
network_mode = "no-network"
"""


@dataclass(frozen=True, slots=True)
class ShellTask:
    """A kind of task with a file, a word and a new name, each empty where the kind has none."""

    kind: ShellKind
    file: str = ""
    word: str = ""
    new_name: str = ""

    @property
    def name(self) -> str:
        """For example `append-notes-red`."""
        return "-".join(filter(None, (self.kind.name, self.file, self.word, self.new_name)))

    @property
    def instruction(self) -> str:
        return self._filled(self.kind.asked)

    @property
    def right(self) -> str:
        return self._filled(self.kind.answer) + "\n"

    @property
    def wrong(self) -> str:
        return self._filled(self.kind.mistake) + "\n"

    @property
    def expected(self) -> str:
        """What the verifier writes about `/app` after a right answer."""
        after = {**START, **self.kind.effect(self.file, self.word, self.new_name)}
        return "".join(entry.listed(name) for name, entry in sorted(after.items()) if entry is not None)

    def to_problem(self) -> Problem:
        """The problem as a model is asked it; without a verifier, so that it cannot be judged."""
        task = Task(self.name, "harbor 1.3", "", Environment(IMAGE), (TaskStep(self.instruction),))
        return Problem(self.name, self.instruction, task=task)

    def write(self, directory: Path) -> None:
        """Writes it as a Harbor task into a new directory."""
        for name, content in {
            "task.toml": _SETTINGS.format(name=self.name, image=IMAGE),
            "instruction.md": f"{self.instruction}\n",
            "solution/solve.sh": f"#!/bin/sh\n{self.right}",
            "tests/test.sh": _VERIFIER,
            "tests/expected": self.expected,
        }.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
            path.chmod(0o755 if path.suffix == ".sh" else 0o644)

    def _filled(self, text: str) -> str:
        return text.format(f=self.file, w=self.word, n=self.new_name)


@functools.cache
def shell_tasks(split: str) -> tuple[ShellTask, ...]:
    """The tasks of a split, mixed but always in the same order."""
    return tuple(sorted((task for kind in KINDS for task in _of_split(kind, split)), key=_position))


def _of_split(kind: ShellKind, split: str) -> list[ShellTask]:
    parts: list[Sequence[str]] = [
        values if sign in kind.asked else ("",)
        for sign, values in (("{f}", _FILES), ("{w}", _WORDS), ("{n}", _NEW_NAMES))
    ]
    all_of_it = sorted((ShellTask(kind, *each) for each in itertools.product(*parts)), key=_position)[:_MOST_OF_A_KIND]
    return [task for place, task in enumerate(all_of_it) if (place % _HELD_OUT == 0) == (split == "test")]


def _position(task: ShellTask) -> bytes:
    return hashlib.sha256(task.name.encode()).digest()


def write_shell_tasks(place: Path, tasks: Sequence[ShellTask]) -> Path:
    """Writes tasks into a new directory, a subdirectory each, in the order of their names; returns the directory."""
    for number, task in enumerate(tasks):
        task.write(place / f"{number:03}-{task.name}")
    return place


def import_shell_image() -> str:
    """Imports the image of the tasks into the store of the tests; returns its name."""
    return import_tree(IMAGE, _make_tree, {"Env": ["PATH=/bin"], "Cmd": ["/bin/sh"], "WorkingDir": "/app"})


def _make_tree(place: Path) -> None:
    make_busybox_tree(place)
    for name in _APPLETS:
        (place / "bin" / name).symlink_to("busybox")
    (place / "app").mkdir()
    for name, entry in START.items():
        (place / "app" / name).write_text("".join(f"{line}\n" for line in entry.lines))


def make_shell_policy(directory: Path, *, seed: int = 0) -> None:
    """Trains a policy that answers with a line of shell, right somewhat less than every second time on `train`."""
    recipe = Recipe(seed=seed, tool_share=0.0, clean_steps=500, teacher=(0.3, 0.5))
    make_policy(directory, recipe, Course(tuple(kind.name for kind in KINDS), shell_tasks("train")))
