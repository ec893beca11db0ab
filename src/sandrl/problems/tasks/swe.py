"""A task made of a row about a repository: an issue, and tests that must pass once it is solved.

An answer is a diff, or the final tree of an agent. The tests run in a fresh copy of the image, in which only the tree
of the repository is the agent's, so nothing that it did to the machine counts. In that copy are put back as they were:
all files that the patch of the tests touches, files of tests that are named, directories of tests, and files that say
how tests are run. The agent keeps its own version of files that the right patch changes. Then the patch of the tests is
applied.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any

from sandrl.errors import InputError
from sandrl.problems.tasks.log_parsers import END, EXIT, START
from sandrl.problems.tasks.task import (
    Artifact,
    Collect,
    Environment,
    Phase,
    Solution,
    Task,
    TaskStep,
    Verifier,
    VerifierMode,
)

_SCRIPTS = Path(__file__).with_name("scripts")
_TREE = "/logs/artifacts/tree.tar.gz"
_AGENT_SECONDS = 3600.0
_VERIFIER_SECONDS = 3600.0
_MEMORY_BYTES = 4 << 30

CONDA = "[ ! -e /opt/miniconda3/bin/activate ] || { . /opt/miniconda3/bin/activate && conda activate testbed; }"
"""Selects the environment of images of SWE-bench and of what was made after it; nothing in other images."""

# Names that are in no patch can still be found among the objects of git, until these are removed.
_FORGET_FUTURE = """
if cd "$directory" && git -c safe.directory='*' rev-parse -q --verify HEAD >/dev/null 2>&1; then
    later=$(git -c safe.directory='*' for-each-ref --format='%(refname)' --no-merged HEAD)
    if [ -n "$later" ]; then
        printf '%s\\n' "$later" | sed 's/^/delete /' | git -c safe.directory='*' update-ref --no-deref --stdin || true
        git -c safe.directory='*' reflog expire --expire=now --all || true
        git -c safe.directory='*' gc --quiet --prune=now || true
    fi
fi
true
"""
# The patch makes the bug: it is applied, and the history starts with it.
_MAKE_BUG = """
cd "$directory" && git config --global --add safe.directory '*' &&
    printf '%s' "$patch" | git apply --whitespace=nowarn - && git ls-files -z >/tmp/.tracked &&
    rm -rf .git && git init -q . &&
    xargs -0 -r sh -c 'for path; do [ ! -e "$path" ] || printf "%s\\0" "$path"; done' sh </tmp/.tracked |
        xargs -0 -r git add -f -- && git add -A && rm -f /tmp/.tracked &&
    git -c user.name=judge -c user.email=judge@localhost -c commit.gpgsign=false commit -q --no-verify -m base
"""

_TEST_DIRECTORIES = frozenset({"tests", "test", "__tests__"})
_NO_TESTS = (".json", ".png", ".csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml", ".toml")
_HEADER = re.compile(r'^(---|\+\+\+|rename from|rename to) ("(?:[^"\\]|\\.)*"|[^\t]+)')
_HUNK = re.compile(r"^@@ -(\d+(?:,\d+)?) \+(\d+(?:,\d+)?) @@(.*)$", re.DOTALL)
_INDEX = re.compile(r"^index ([0-9a-f]+)\.\.([0-9a-f]+)(.*)$", re.DOTALL)
_OPPOSITES = {
    "new file mode ": "deleted file mode ",
    "deleted file mode ": "new file mode ",
    "old mode ": "new mode ",
    "new mode ": "old mode ",
    "rename from ": "rename to ",
    "rename to ": "rename from ",
}
_PYTEST = re.compile(r"^(?:python3? -m )?pytest\b[^;&|]*$")


@dataclass(frozen=True, slots=True)
class Repository:
    """What a row says about a repository and its tests.

    Attributes:
        directory: Where it is in its image.
        parser: The name of a parser of `sandrl.problems.tasks.log_parsers`.
        command: Runs the tests; the files follow it.
        script: A script that applies the patch of the tests and runs them, in place of `command`.
        files: The test files, as the command takes them; None for those in the names of tests, if `names_files`, else
            those of the patch.
        install: Runs before the tests, after the agent's tree is in place; empty for none.
        kept: Paths in the directory that no agent changes, as they belong to the environment or to the tests.
        hidden: Paths in the image that an agent may not see.
        makes_bug: Whether `patch` makes what is to be solved, instead of solving it.
    """

    name: str
    format: str
    image: str
    instruction: str
    parser: str
    patch: str = field(default="", repr=False)
    test_patch: str = field(default="", repr=False)
    must_pass: tuple[str, ...] = ()
    must_keep: tuple[str, ...] = ()
    directory: str = "/testbed"
    command: str = ""
    script: str = field(default="", repr=False)
    files: tuple[str, ...] | None = None
    names_files: bool = False
    activate: str = CONDA
    install: str = ""
    kept: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    makes_bug: bool = False
    metadata: dict[str, Any] = field(default_factory=dict, hash=False)

    def to_task(self) -> Task:
        """Makes the task of the row.

        Raises:
            InputError: If a patch is none, or touches what is not in the repository.
        """
        environment = Environment(self.image, memory_bytes=_MEMORY_BYTES, directory=self.directory)
        step = TaskStep(
            self.instruction,
            agent=Phase(timeout_seconds=_AGENT_SECONDS),
            verifier=self._verifier(environment),
            solution=self._solution(),
            artifacts=(Artifact(_TREE),),
        )
        task = Task(
            self.name, self.format, "", replace(environment, prepare=self._prepare()), (step,), metadata=self.metadata
        )
        content = json.dumps(asdict(task), sort_keys=True, default=lambda value: value.hex())
        return replace(task, digest=sha256(content.encode()).hexdigest())

    def _verifier(self, environment: Environment) -> Verifier:
        names = (name.partition("::")[0] for name in self.must_pass + self.must_keep if "::" in name)
        named = dict.fromkeys(filter(_is_path, names))
        tests = {**dict.fromkeys(touched_files(self.test_patch, "test_patch")), **named}
        protected = dict.fromkeys([*tests, *map(_test_directory, tests)])
        owned = [path for path in touched_files(self.patch, "patch") if path not in tests]
        files = self.files or tuple(
            each for each in (named if self.names_files else tests) if not each.endswith(_NO_TESTS)
        )
        if not self.script and not files:
            raise InputError("names no file of tests, and no other field does", field="test_patch")
        script, is_pytest = _with_canary(self.script) if self.script else ("", _PYTEST.match(self.command) is not None)
        command = "pytest -rA" if script else self.command
        settings = {
            "directory": self.directory,
            "kept": "\n".join(self.kept),
            "activate": self.activate,
            "install": self.install,
            "command": f'{command} "${{files[@]}}"',
            "canary": str(PurePosixPath(files[0]).parent) if is_pytest and files else "",
        }
        listed = f"files=({'' if script else shlex.join(files)})\n"
        contents = {
            "test.sh": f"#!/bin/bash\n{_assigned(settings)}{listed}{_script('verify_tree')}",
            "test.patch": "" if self.script else self.test_patch,
            "protected": "".join(f"{path}\0" for path in protected if path),
            "owned": "".join(f"{path}\n" for path in owned),
            **({"eval.sh": _with_exit_status(script)} if script else {}),
        }
        collect = _assigned({name: settings[name] for name in ("directory", "kept")}) + _script("collect_tree")
        return Verifier(
            Phase(timeout_seconds=_VERIFIER_SECONDS),
            VerifierMode.SEPARATE,
            files=tuple((name, text.encode()) for name, text in contents.items()),
            environment=environment,
            collect=(Collect(f"bash -c {shlex.quote(collect)}", timeout_seconds=600.0, user="root"),),
            parser=self.parser,
            required=tuple(dict.fromkeys(self.must_pass + self.must_keep)),
            may_skip=tuple(name for name in dict.fromkeys(self.must_keep) if name not in set(self.must_pass)),
        )

    def _solution(self) -> Solution | None:
        if not self.patch:
            return None
        return Solution(patch=reversed_patch(self.patch) if self.makes_bug else self.patch)

    def _prepare(self) -> str:
        script = "set -e\n" + _assigned({"directory": self.directory, "patch": self.patch if self.makes_bug else ""})
        if self.hidden:
            script += f"rm -rf -- {shlex.join(self.hidden)}\n"
        return script + (_MAKE_BUG if self.makes_bug else _FORGET_FUTURE)


def touched_files(patch: str, name: str) -> tuple[str, ...]:
    """The files that a diff changes, adds, removes or renames, relative to the repository.

    Raises:
        InputError: If a path leads out of the repository; `field` is `name`.
    """
    found: dict[str, None] = {}
    for is_body, line in _lines_of(patch):
        header = None if is_body else _HEADER.match(line.rstrip("\r\n"))
        if header is None or header[2] == "/dev/null":
            continue
        path = _unquoted(header[2])
        if not header[1].startswith("rename"):
            path = re.sub("^[ab]/", "", path)
        if not _is_path(path):
            raise InputError(f"touches {path!r:.80}, which is not in the repository", field=name)
        found[path] = None
    return tuple(found)


def reversed_patch(patch: str) -> str:
    """The diff that undoes a diff."""
    lines: list[str] = []
    for is_body, line in _lines_of(patch):
        if is_body:
            lines.append({"+": "-", "-": "+"}.get(line[:1], line[:1]) + line[1:])
        elif line.startswith("+++ ") and lines and lines[-1].startswith("--- "):
            lines.insert(-1, "--- " + line[4:])
            lines[-1] = "+++ " + lines[-1][4:]
        elif hunk := _HUNK.match(line):
            lines.append(f"@@ -{hunk[2]} +{hunk[1]} @@{hunk[3]}")
        elif index := _INDEX.match(line):
            lines.append(f"index {index[2]}..{index[1]}{index[3]}")
        else:
            word = next((each for each in _OPPOSITES if line.startswith(each)), "")
            lines.append(_OPPOSITES.get(word, "") + line[len(word) :])
    return "".join(lines)


# The lines of a diff, and whether each is of the body of a hunk; in a body, a line may look like a header.
def _lines_of(patch: str) -> Iterator[tuple[bool, str]]:
    old = new = 0
    # Not at the other characters that Python takes for ends of lines.
    for line in re.findall(r"[^\n]*\n|[^\n]+$", patch):
        mark = line[:1]
        is_body = mark == "\\" or ((old > 0 or new > 0) and mark in (" ", "-", "+", "\n", "\r"))
        if is_body:
            old -= mark not in ("+", "\\")
            new -= mark not in ("-", "\\")
        elif hunk := _HUNK.match(line):
            old, new = (int(lines or 1) for lines in (hunk[1].partition(",")[2], hunk[2].partition(",")[2]))
        yield is_body, line


# Git writes a name with other characters than those of ASCII between quotes, its bytes as octal numbers.
def _unquoted(path: str) -> str:
    if not (path.startswith('"') and path.endswith('"') and len(path) > 1):
        return path
    known = {"t": 9, "n": 10, "r": 13, '"': 34, "\\": 92}
    parts = re.findall(r"\\([0-7]{3})|\\(.)|([^\\])", path[1:-1])
    data = b"".join(
        bytes([int(octal, 8) & 255])
        if octal
        else bytes([known.get(escaped, ord(escaped) & 127)])
        if escaped
        else plain.encode()
        for octal, escaped, plain in parts
    )
    return data.decode(errors="replace")


def _is_path(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and parts[0] != "/" and not {"..", ".git"} & {*parts} and not set("\0\n") & {*path}


# The directory of tests that a file is in: what else is there helps the tests.
def _test_directory(path: str) -> str:
    parts = PurePosixPath(path).parts[:-1]
    depth = next((number for number, part in enumerate(parts, 1) if part in _TEST_DIRECTORIES), 0)
    return "/".join(parts[:depth])


def _script(name: str) -> str:
    return (_SCRIPTS / f"{name}.sh").read_text()


def _assigned(variables: Mapping[str, str]) -> str:
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in variables.items())


# A script whose one program of tests is pytest also runs the test that must fail.
def _with_canary(script: str) -> tuple[str, bool]:
    before, start, rest = script.partition(START)
    inside, end, after = rest.partition(END)
    lines = inside.split("\n")
    runs = [number for number, line in enumerate(lines[1:-1], 1) if line.strip()]
    if not end or len(runs) != 1 or not _PYTEST.match(lines[runs[0]]):
        return script, False
    lines[runs[0]] += ' ${SANDRL_CANARY:+"$SANDRL_CANARY"}'
    return before + start + "\n".join(lines) + end + after, True


# As `swebench` has it: the tests are followed by commands that put files back, and the status is that of the tests.
def _with_exit_status(script: str) -> str:
    lines: list[str] = []
    for line in script.splitlines():
        lines += ["sandrl_code=$?", line, f'echo "{EXIT}: $sandrl_code"'] if END in line else [line]
    return "\n".join(lines) + "\n"
