"""Reads what the text of a verifier mentions: paths, programs, modules and words.

A verifier is data of strangers: it is only read, up to a bound, and nothing of it runs.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from sandrl.errors import InputError
from sandrl.problems.tasks.task import Artifact, Task, TaskStep, Verifier, VerifierMode
from sandrl.trials.artifacts import WORKING_DIRECTORY, files_of

_MOST_BYTES = 1 << 20
_MOST_PATHS, _MOST_WORDS = 60, 300

_ABSOLUTE = re.compile(r"(?<![\w$}.:/~-])(?:/[\w+@-][\w.+@-]*)+")
_QUOTED_FILE = re.compile(r"""["']((?:[\w+@-][\w.+@-]*/)*[\w+@-][\w.+@-]*\.\w{1,8})["']""")
_USED_FILE = re.compile(
    r"(?:\bcat|\bhead|\btail|\bsource|\bsh|\bbash|\bdiff|\bcmp|-[efsrxd]|<)\s+[\"']?((?:\./)?[\w+@-][\w./+@-]*)"
)
_IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]+([A-Za-z_]\w*)", re.MULTILINE)
_STRING = re.compile(r'"([^"\\\n]{1,120})"|' + r"'([^'\\\n]{1,120})'")
_WORD = re.compile(r"[A-Za-z][\w.+-]*")
_PRIVATE = ("/tests", "/logs", "/proc", "/sys", "/dev", "/solution", "/bin", "/usr/bin", "/sbin", "/usr/sbin", "/lib")
_TOO_MUCH = frozenset({"/bin", "/etc", "/home", "/lib", "/opt", "/root", "/run", "/srv", "/tmp", "/usr", "/var"})

TOOLS = (
    *("pytest", "py.test", "python", "python3", "uv", "uvx", "pip", "pip3", "tox", "nox", "poetry", "curl", "wget"),
    *("grep", "egrep", "fgrep", "diff", "cmp", "sha256sum", "md5sum", "awk", "sed", "jq", "cat", "test", "find", "wc"),
    *("node", "npm", "npx", "yarn", "pnpm", "go", "cargo", "make", "cmake", "ctest", "mvn", "gradle", "java", "ruby"),
    *("git", "gcc", "g++", "cc", "timeout", "tail", "head", "sort", "tr", "cut", "stat", "ls", "date", "seq", "ps"),
)
"""Programs that verifiers usually call."""


@dataclass(frozen=True, slots=True)
class VerifierText:
    """What it mentions, each in the order of its first mention.

    Attributes:
        paths: Files and directories, absolute or relative to the working directory, that an agent may have made.
        tools: Those of `TOOLS`.
        modules: Modules of Python that it imports.
        words: What stands in quotes.
    """

    paths: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


def text_of(task: Task, verifier: Verifier) -> VerifierText:
    """What the files of a verifier mention, as far as they are texts and can be read."""
    try:
        return _mentioned_by(task, verifier)
    except InputError:
        return VerifierText()


# Of the tasks that are under way: every trial asks, and every cheat.
@lru_cache(maxsize=64)
def _mentioned_by(task: Task, verifier: Verifier) -> VerifierText:
    return mentioned("\n".join(texts_of(task, verifier)))


def texts_of(task: Task, verifier: Verifier) -> Iterator[str]:
    """The files of a verifier that are texts, without those that are too large together.

    Raises:
        InputError: If the task cannot be read.
    """
    left = _MOST_BYTES
    for entry in files_of(task, verifier.directories, verifier.files):
        content = entry.content or b""
        if b"\0" not in content and len(content) <= left:
            left -= len(content)
            yield content.decode("utf-8", "replace")


def with_artifacts(task: Task) -> Task:
    """The task whose shared verifiers run apart, with the working directory and the paths that they mention."""
    return replace(task, steps=tuple(_apart(task, step) for step in task.steps))


def _apart(task: Task, step: TaskStep) -> TaskStep:
    if step.verifier.mode is VerifierMode.SEPARATE:
        return step
    mentioned = (path for path in text_of(task, step.verifier).paths if path.startswith("/") and path not in _TOO_MUCH)
    paths = [path for path in mentioned if not path.startswith("/usr/")]
    artifacts = (WORKING_DIRECTORY, *map(Artifact, paths), *step.artifacts)
    return replace(step, verifier=replace(step.verifier, mode=VerifierMode.SEPARATE), artifacts=artifacts)


def mentioned(text: str) -> VerifierText:
    """What a text mentions."""
    found = [match.group() for match in _ABSOLUTE.finditer(text)]
    found += [match.group(1) for pattern in (_QUOTED_FILE, _USED_FILE) for match in pattern.finditer(text)]
    paths = (posixpath.normpath(each) for each in found)
    words = (first or second for first, second in _STRING.findall(text))
    present = set(_WORD.findall(text))
    return VerifierText(
        _first((each for each in paths if not _is_private(each)), _MOST_PATHS),
        tuple(each for each in TOOLS if each in present),
        _first(_IMPORT.findall(text), _MOST_PATHS),
        _first((each for each in words if each.strip()), _MOST_WORDS),
    )


def _is_private(path: str) -> bool:
    # An agent cannot, or need not, make it.
    return (
        path in (".", "/", "..")
        or path.startswith("../")
        or any(path == each or path.startswith(f"{each}/") for each in _PRIVATE)
    )


def _first(values: Iterable[str], most: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))[:most]
