"""Rows about repositories that are made of source distributions of PyPI, which the test downloads.

In each repository one line is made wrong, and a test of it is taken out; the row has the patch that makes the line
right again, and the patch that brings the test back. Which tests fail and pass is found by running them on this
machine. The image is built of a Dockerfile, from a Python of this machine with pytest, git and programs of GNU.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tests.support.image_trees import copy_program, import_tree, make_python_tree
from tests.support.programs import require_program

BASE = "localhost/tests/swe:1"
_PROGRAMS = (
    *("bash", "cat", "chmod", "cut", "dirname", "find", "getent", "git", "grep", "gzip", "head", "ln", "ls", "mkdir"),
    *("mktemp", "od", "printf", "rm", "sed", "setpriv", "sort", "stat", "tail", "tar", "tr", "wc", "xargs"),
)
_PACKAGES = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
_SITE = "usr/local/lib/python3.11/dist-packages"
_PYTEST = "#!/usr/local/bin/python3\nimport sys\nfrom pytest import console_main\nsys.exit(console_main())\n"
_PASSES = """
import _pytest.reports
_made = _pytest.reports.TestReport.from_item_and_call.__func__
def _passing(cls, item, call):
    report = _made(cls, item, call)
    report.outcome, report.longrepr = "passed", None
    return report
_pytest.reports.TestReport.from_item_and_call = classmethod(_passing)
"""
# Those of the user: the tests have an index of their own.
_PIP = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
_GIT = ("-c", "user.name=tests", "-c", "user.email=tests@localhost")


@dataclass(frozen=True)
class Source:
    """A source distribution, and what is made of it.

    Attributes:
        right: A line as it is, and as it is in the repository of the row.
        other: Another line, and what breaks it.
        test: The test that is taken out: a function, or `Class.method`.
    """

    name: str
    version: str
    file: str
    right: tuple[str, str]
    other: tuple[str, str]
    tests: str
    test: str


SOURCES = (
    Source(
        "boltons",
        "26.2.0",
        "boltons/mathutils.py",
        ("return min(max(x, lower), upper)", "return max(x, lower)"),
        ("return options[i - 1]", "return options[i - 2]"),
        "tests/test_mathutils.py",
        "test_clamp_examples",
    ),
    Source(
        "inflection",
        "0.5.1",
        "inflection/__init__.py",
        ("if number % 100 in (11, 12, 13):", "if number % 100 in (11, 12):"),
        ("return word.replace('_', '-')", "return word.replace('-', '_')"),
        "test_inflection.py",
        "test_ordinal",
    ),
    Source(
        "parse",
        "1.20.2",
        "parse.py",
        ("return float(string[:-1]) / 100.0", "return float(string[:-1]) / 10.0"),
        ("return self.fixed[item]", "return self.fixed[-item]"),
        "tests/test_parse.py",
        "test_numbers",
    ),
    Source(
        "tabulate",
        "0.9.0",
        "tabulate/__init__.py",
        ("separating_lines.append(index)", "separating_lines.append(index + 1)"),
        ('fmt = "{0:^%ds}" % width', 'fmt = "{0:>%ds}" % width'),
        "test/test_internal.py",
        "test__remove_separating_lines",
    ),
    Source(
        "toolz",
        "1.0.0",
        "toolz/itertoolz.py",
        ("fillvalue=pad)", "fillvalue=None)"),
        ("seq = iter(seq)\n    next(seq)\n    return next(seq)", "seq = iter(seq)\n    return next(seq)"),
        "toolz/tests/test_itertoolz.py",
        "test_partition",
    ),
)


@dataclass(frozen=True)
class Made:
    """A row, and answers to it, as diffs.

    Attributes:
        right_and_broken: The right patch, which also breaks something else.
        in_process: Makes all tests pass from within the code that they import.
        broken: The tests of `PASS_TO_PASS` that are broken by that.
    """

    row: dict[str, Any]
    right: str
    wrong: str
    tests_only: str
    right_and_broken: str
    in_process: str
    broken: frozenset[str]


def import_swe_base() -> str:
    """Stores the base of all images in the store of the tests."""
    return import_tree(BASE, _make_tree, {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]})


def make_row(source: Source, place: Path) -> Made:
    """Makes the row of a source distribution in an empty directory; its image is built of `place/image`."""
    right = _unpacked(_downloaded(source, place), place / "right")
    wrong = shutil.copytree(right, place / "image/src", symlinks=True)
    code, tests = (right / source.file).read_text(), (right / source.tests).read_text()
    (wrong / source.file).write_text(_changed(code, source.right))
    (wrong / source.tests).write_text(_without(tests, source.test))
    _git(wrong, "init", "--quiet", "--template=", "-b", "main")
    _git(wrong, "add", "--all", "--force")
    _git(wrong, *_GIT, "commit", "--quiet", "-m", "base")
    commit = _git(wrong, "rev-parse", "HEAD").strip()

    def diff(**files: str) -> str:
        for name, text in files.items():
            (wrong / getattr(source, name)).write_text(text)
        found = _git(wrong, "diff")
        _git(wrong, "checkout", "--quiet", ".")
        return found

    patch, test_patch = diff(file=code), diff(tests=tests)
    before = _outcomes(wrong, source.tests, tests)
    after = _outcomes(right, source.tests, tests)
    (wrong / source.file).write_text(_changed(code, source.other))
    broken = _outcomes(wrong, source.tests, tests)
    _git(wrong, "checkout", "--quiet", ".")
    passing = {name for name, status in after.items() if status == "PASSED"}
    keeps = {name for name in passing if before.get(name) == "PASSED"}
    row = {
        "instance_id": f"tests__{source.name}-1",
        "repo": f"tests/{source.name}",
        "base_commit": commit,
        "problem_statement": f"Something in {source.file} gives wrong results.",
        "patch": patch,
        "test_patch": test_patch,
        "FAIL_TO_PASS": json.dumps(sorted(passing - keeps)),
        "PASS_TO_PASS": json.dumps(sorted(keeps)),
        "image_name": f"dockerfile:{place / 'image'}",
    }
    dockerfile = f"FROM {BASE}\nCOPY src /testbed\nRUN chown -R 0:0 /testbed\nWORKDIR /testbed\n"
    (place / "image/Dockerfile").write_text(dockerfile)
    return Made(
        row,
        right=patch,
        wrong=diff(file=f"# Nothing is right yet.\n{_changed(code, source.right)}"),
        tests_only=diff(tests=_passing(tests)),
        right_and_broken=diff(file=_changed(code, source.other)),
        in_process=diff(file=_changed(code, source.right) + _PASSES),
        broken=frozenset(name for name in keeps if broken.get(name) != "PASSED"),
    )


def _downloaded(source: Source, place: Path) -> Path:
    target = place / "download"
    requirement = f"{source.name}=={source.version}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", source.name]
    done = subprocess.run(
        [*command, "--dest", str(target), requirement], capture_output=True, text=True, check=False, env=_PIP
    )
    if done.returncode:
        pytest.skip(f"needs {requirement} of a package index: {done.stderr.strip()[-200:]}")
    return next(target.glob("*.tar.gz"))


def _unpacked(archive: Path, place: Path) -> Path:
    with tarfile.open(archive) as file:
        file.extractall(place, filter="data")
    [root] = place.iterdir()
    return root


def _changed(text: str, change: tuple[str, str]) -> str:
    old, new = change
    assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in the file"
    return text.replace(old, new)


def _without(text: str, test: str) -> str:
    lines = text.splitlines(keepends=True)
    node = _function(text, test)
    first = min(each.lineno for each in (node, *getattr(node, "decorator_list", [])))
    return "".join(lines[: first - 1] + lines[node.end_lineno :])


def _function(text: str, test: str) -> ast.stmt:
    found: ast.stmt | None = None
    body: Sequence[ast.stmt] = ast.parse(text).body
    for name in test.split("."):
        found = next(each for each in body if getattr(each, "name", None) == name)
        body = getattr(found, "body", [])
    assert found is not None
    return found


# The same tests, of which none can fail.
def _passing(text: str) -> str:
    class Emptied(ast.NodeTransformer):
        def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
            node.body = [ast.Pass()] if node.name.startswith("test") else node.body
            return node

    return ast.unparse(Emptied().visit(ast.parse(text))) + "\n"


# Statuses by name, as pytest prints them.
def _outcomes(directory: Path, tests: str, text: str) -> dict[str, str]:
    file = directory / tests
    before = file.read_text()
    file.write_text(text)
    variables = {"PATH": os.environ["PATH"], "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", tests]
    done = subprocess.run(
        command, cwd=directory, env=variables, capture_output=True, text=True, check=False, timeout=120
    )
    file.write_text(before)
    lines = done.stdout.rpartition("short test summary info")[2].splitlines()
    words = (line.split(" - ")[0].split(maxsplit=1) for line in lines)
    return {pair[1].split()[0]: pair[0] for pair in words if len(pair) == 2 and "::" in pair[1]}


def _git(directory: Path, *arguments: str) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory), "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", *arguments]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=True).stdout


def _make_tree(place: Path) -> None:
    make_python_tree(place)
    for name in _PROGRAMS:
        copy_program(Path(require_program(name)), place)
    site = place / _SITE
    site.mkdir(parents=True)
    for name in _PACKAGES:
        for file in metadata.distribution(name).files or ():
            path = Path(str(file.locate()))
            if ".." not in file.parts and "__pycache__" not in file.parts and path.is_file():
                (site / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, site / file)
    program = place / "usr/local/bin/pytest"
    program.write_text(_PYTEST)
    program.chmod(0o755)
    # As an editable installation of the repository.
    (site / "repository.pth").write_text("/testbed\n")
    (place / "testbed").mkdir()
    (place / "tmp").chmod(0o1777)
