"""Chooses what of the state that a solution left is changed to make mutants: which files, and how.

A verifier can notice what its text, or the instruction, names. So such files come first, and what programs leave by the
way is left out: caches, logs, packages. Everything follows from the state and the task, and nothing from chance.
"""

from __future__ import annotations

import fnmatch
import hashlib
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sandrl.problems.tasks.task import Task, TaskStep, VerifierMode
from sandrl.redteam.edits import Edit, edits_of, shown
from sandrl.sandboxes import State
from sandrl.trials.artifacts import ARTIFACTS_DIRECTORY
from sandrl.trials.changes import Change, ChangeKind, changes_of, contents_of, state_with, state_without
from sandrl.trials.verifier_text import texts_of

_MOST_FILES = 2_000
_MOST_READ_FILES = 48
MOST_FILE_BYTES = 4 << 20
"""How large a file may be whose content is changed."""

_MOST_COPIED_BYTES = 32 << 20
_MOST_READ_BYTES = 64 << 20
_MOST_NAME = 160

# Of the machine itself, or made anew before each verifier.
_NEVER = re.compile(
    r"/(?:run/sandrl|proc|sys|dev|tests|solution|logs/(?:agent|verifier)|etc/(?:resolv\.conf|hosts|hostname|mtab))(?:/|$)"
)
# Nobody asked for these, unless a text names them.
_INCIDENTAL = re.compile(
    r"^/(?:tmp|run|boot|lib\w*|s?bin|usr/(?!local/)|usr/local/(?:lib|share|include|man)|var/(?!www|lib/\w+/?data|spool/cron))"
    r"|/(?:\.?venv|node_modules|site-packages|dist-packages|__pycache__|build|dist|[^/]+\.egg-info|CMakeFiles)/"
    r"|/target/(?:debug|release)/"
    r"|/(?:\.(?:cache|npm|cargo|rustup|local|config|gnupg|tox|pytest_cache|mypy_cache|ipython|ansible|m2|gradle))/"
    r"|/\.git/(?!refs/(?:heads|tags)/)|\.git/(?:objects|logs|hooks)/"
    r"|\.(?:pyc|pyo|log|pid|lock|swp|tmp|bak|cache|o|d)$|~$|-$"
    r"|/(?:\.\w*_history|\.wget-hsts|\.lesshst|\.viminfo|\.sudo_as_admin_successful|nohup\.out)$"
    r"|^/etc/(?:passwd|group|shadow|gshadow|sub[ug]id|ld\.so\.\w+|alternatives|apt|dpkg|ssl|ca-certificates|\.pwd\.lock)"
)
_LIBRARY = re.compile(r"\.(?:so|a|dylib)(?:\.|$)")
_GIT_REF = re.compile(r"(?P<repository>/.*?\.git|/.*)/(?P<ref>refs/(?:heads|tags)/.+)")
_WORD = re.compile(r"[\w.@+-]{1,200}")
_PATH = re.compile(r"/[\w.@+-]{1,100}(?:/[\w.@+-]{1,100}){0,20}")
_ROOTS = frozenset(
    ("/", "/tmp", "/usr", "/usr/bin", "/usr/local", "/etc", "/home", "/root", "/var", "/opt", "/bin", "/dev")
)
_OWNER = re.compile(r"\bchown\b|\bowner|\bowned\b|st_uid|stat -c ?[\"']?%[uUgG]")
_MODE = re.compile(r"\bst_mode\b|\bpermissions?\b|\bchmod [0-7]|\b0o[0-7]{3}|stat -c ?[\"']?%[aA]")
# Files that no text names come later: a named one has so many mutants before.
_LATER = (0, 0, 2, 4)


@dataclass(frozen=True, slots=True)
class Mutation:
    """A change to the state of a solution.

    Attributes:
        name: Says what is changed, in one line of printable characters.
        operation: The kind of change, in one word.
        change: What is at the path then; None for what the image has there.
        content: Of the file before.
        edit: What of the content is changed; None for nothing.
    """

    name: str
    operation: str
    path: str
    change: Change | None = None
    content: bytes = field(default=b"", repr=False)
    edit: Edit | None = None

    def without_content(self) -> Mutation:
        """Its names alone, which take little memory."""
        return replace(self, content=b"", edit=None)

    def keep(self, state: State) -> State:
        """Keeps the state that it makes of another one, beside it.

        Raises:
            InputError: If the state is damaged.
            InfrastructureError: If it cannot be written.
        """
        if self.change is None:
            return state_without(state, self.path)
        return state_with(state, self.change, self.edit.applied(self.content) if self.edit else self.content)


def mutations_of(
    task: Task,
    state: State,
    most: int,
    *,
    before: State | None = None,
    can_undo: bool = True,
) -> list[Mutation]:
    """Changes to the state that the solution of a task left, at most so many; the same whenever they are asked for.

    Args:
        before: The state that an agent left that does nothing: what it has as well is no work of the solution.
        can_undo: Whether a file may become what the image has.

    Raises:
        InputError: If the state, or the task, cannot be read.
    """
    step = task.steps[-1]
    texts = _Texts(task, step)
    ranked = _ranked(state.path, step, texts)
    if before is not None:
        ranked = _done(ranked, state.path, before.path)
    contents = contents_of(state.path, _readable(ranked[:_MOST_READ_FILES]), MOST_FILE_BYTES)
    can_undo = can_undo and state.path.stat().st_size <= _MOST_COPIED_BYTES
    options: list[tuple[int, int, Mutation]] = []
    for change in ranked[:_MOST_READ_FILES]:
        found = _mutations(change, contents.get(change.path), step, texts, task.digest)
        rank = texts.rank(change.path)
        options += [(rank, place, each) for place, each in enumerate(found) if can_undo or each.change is not None]
    return _spread(options, most, task.digest)


def words_of(text: str) -> frozenset[str]:
    """The words of a text, names of files among them, without a point at their end."""
    return frozenset(each.rstrip(".") for each in _WORD.findall(text))


class _Texts:
    # What the instruction and the verifier of a step say.

    def __init__(self, task: Task, step: TaskStep) -> None:
        self._directory = task.environment.directory or ""
        self.text = "\n".join((step.instruction, *texts_of(task, step.verifier)))
        self.words = words_of(self.text)
        self.paths = frozenset(each.rstrip(".") for each in _PATH.findall(self.text))
        self.has_owners = _OWNER.search(self.text) is not None
        self.has_modes = _MODE.search(self.text) is not None

    def rank(self, path: str) -> int:
        """0 for a path that a text has, 1 for a name, 2 for one below a directory that a text names, else 3."""
        if path in self.paths:
            return 0
        if posixpath.basename(path) in self.words:
            return 1
        above = path
        while (above := posixpath.dirname(above)) != "/":
            if (above in self.paths and above not in _ROOTS) or above == self._directory:
                return 2
        return 3


def _ranked(path: Path, step: TaskStep, texts: _Texts) -> list[Change]:
    # What a verifier may look at, the most likely first.
    is_seen = _seen_by(step) if step.verifier.mode is VerifierMode.SEPARATE else None
    found: list[tuple[int, str, Change]] = []
    for change in changes_of(path):
        name = change.path
        if _NEVER.match(name) or not _is_utf8(name) or not (is_seen is None or is_seen(name)):
            continue
        rank = min(texts.rank(name), 3 if is_seen is None else 2)
        # A program may make a path of a directory and a name.
        place = name.removeprefix("/tmp") if rank == 1 else name
        if rank and is_seen is None and _INCIDENTAL.search(place):
            continue
        found.append((rank, name, change))
        if len(found) > 2 * _MOST_FILES:
            found = sorted(found, key=lambda each: each[:2])[:_MOST_FILES]
    found.sort(key=lambda each: each[:2])
    # Nobody asked for the rest, if something that was asked for was changed.
    least = 3 if found and found[0][0] < 3 else 4
    return [change for rank, _, change in found if rank < least]


def _readable(changes: Iterable[Change]) -> set[str]:
    # Those that are kept in memory, together within a limit.
    found, left = set(), _MOST_READ_BYTES
    for each in changes:
        if each.kind is ChangeKind.FILE and each.size <= min(MOST_FILE_BYTES, left):
            found.add(each.path)
            left -= each.size
    return found


def _done(ranked: Sequence[Change], path: Path, before: Path) -> list[Change]:
    # Without what is the same in the state before.
    paths = {each.path for each in ranked}
    known = {each.path: replace(each, modified=0) for each in changes_of(before) if each.path in paths}
    same = [each for each in ranked if known.get(each.path) == replace(each, modified=0)]
    read = _readable(same)
    contents, earlier = (contents_of(each, read, MOST_FILE_BYTES) for each in (path, before))
    left_out = {each.path for each in same if contents.get(each.path) == earlier.get(each.path)}
    return [each for each in ranked if each.path not in left_out]


def _seen_by(step: TaskStep) -> Callable[[str], bool]:
    artifacts = [
        (posixpath.normpath(posixpath.join(ARTIFACTS_DIRECTORY, each.source)), each.exclude) for each in step.artifacts
    ]
    artifacts.append((ARTIFACTS_DIRECTORY, ()))

    def is_seen(path: str) -> bool:
        for source, exclude in artifacts:
            if path == source or path.startswith(f"{source.rstrip('/')}/"):
                parts = path[len(source) :].strip("/").split("/")
                if not any(fnmatch.fnmatchcase(part, pattern) for pattern in exclude for part in parts):
                    return True
        return False

    return is_seen


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _mutations(change: Change, content: bytes | None, step: TaskStep, texts: _Texts, seed: str) -> list[Mutation]:
    path = change.path
    label = shown(path, _MOST_NAME)

    def of(operation: str, name: str, new: Change | None, edit: Edit | None = None) -> Mutation:
        return Mutation(name.replace("PATH", label, 1), operation, path, new, content or b"", edit)

    removed = of("removed", "PATH removed", Change(path, ChangeKind.REMOVED))
    if change.kind is ChangeKind.REMOVED:
        return [of("restored", "PATH, which the solution removed, put back", None)]
    if change.kind is ChangeKind.LINK:
        broken = replace(change, target=f"{change.target}.missing")
        return [of("link", f"the link PATH broken: {shown(change.target)}", broken), removed]
    if found := _GIT_REF.fullmatch(path):
        ref, repository = shown(found["ref"], _MOST_NAME), shown(found["repository"], _MOST_NAME)
        return [of("undone", f"the commits of {ref} in {repository} undone", None)]
    if content is None:
        found_edits = [of("emptied", "PATH emptied", replace(change, size=0))] if change.size else []
        return [*found_edits, removed]
    result = [of(each.operation, each.name, change, each) for each in edits_of(path, content, seed)]
    result.append(removed)
    if change.mode & 0o111 and not _LIBRARY.search(path):
        mode = change.mode & ~0o111
        result.insert(1, of("mode", f"PATH not executable: {change.mode:o} -> {mode:o}", replace(change, mode=mode)))
    elif texts.has_modes:
        mode = change.mode & 0o700 if change.mode & 0o077 else change.mode | 0o044
        result.append(of("mode", f"the mode of PATH: {change.mode:o} -> {mode:o}", replace(change, mode=mode)))
    if step.verifier.phase.user not in (None, "0", "root") and change.mode & 0o444:
        mode = change.mode & ~0o444
        result.append(of("mode", f"PATH not readable: {change.mode:o} -> {mode:o}", replace(change, mode=mode)))
    if texts.has_owners:
        uid = 0 if change.uid else 1
        result.append(of("owner", f"the owner of PATH: {change.uid} -> {uid}", replace(change, uid=uid)))
    return result


def _spread(options: Sequence[tuple[int, int, Mutation]], most: int, seed: str) -> list[Mutation]:
    # One after the other: of the file and of the operation that have the fewest so far.
    files: Counter[str] = Counter()
    operations: Counter[str] = Counter()
    left, chosen = list(options), list[Mutation]()

    def place(option: tuple[int, int, Mutation]) -> tuple[int, int, int, int, str]:
        rank, number, each = option
        order = hashlib.sha256(f"{seed} {each.path}".encode()).hexdigest()
        return files[each.path] + _LATER[rank], operations[each.operation], rank, number, order

    while left and len(chosen) < most:
        best = min(left, key=place)
        left.remove(best)
        files[best[2].path] += 1
        operations[best[2].operation] += 1
        chosen.append(best[2])
    return chosen
