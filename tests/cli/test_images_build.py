"""`sandrl images build` shows its steps plainly and on a terminal, and what has failed."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.support.archives import archive, file
from tests.support.dockerfiles import BASE, Example
from tests.support.image_trees import import_tree, make_busybox_tree


@pytest.fixture
def base() -> None:
    import_tree(BASE, make_busybox_tree, {"Env": ["PATH=/bin"], "Cmd": ["/bin/sh"]})


def test_steps_are_printed_as_buildkit_prints_them(sandrl: Run, tmp_path: Path, base: None) -> None:
    mark = os.urandom(4).hex()
    Example("x", f"FROM BASE AS one\nRUN echo {mark}; printf '\\033[2Jend'\nCOPY f /\n", {"f": "x"}).write(
        tmp_path / "c"
    )
    done = sandrl("images", "build", "c", "--tag", f"tests/cli:{mark}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"Stored tests/cli:{mark}: sha256:")
    lines = [line for line in done.stderr.splitlines() if line and not line.startswith("starting")]
    assert lines[:2] == [f"#1 [one 1/3] FROM {BASE} AS one", "#1 CACHED"]
    output = [line.split(" ", 2)[2] for line in lines if line.startswith("#2 ") and "DONE" not in line]
    assert output[1:] == [mark, "\\x1b[2Jend"]
    assert lines[-1].startswith("#3 DONE ")
    document = json.loads(sandrl("images", "build", "c", "-t", f"tests/cli:{mark}", "--json").stdout)
    assert (document["name"], document["layers"]) == (f"tests/cli:{mark}", 3)
    listed = json.loads(sandrl("images", "ls", "--json").stdout)["images"]
    assert any(each["is_step"] and not each["names"] for each in listed)
    done = sandrl("images", "ls")
    assert " -  " not in done.stdout
    assert "of builds kept beside them" in done.stderr


def test_a_failure_shows_the_step_its_lines_and_its_place(sandrl: Run, tmp_path: Path, base: None) -> None:
    Example("x", "FROM BASE\n\nRUN echo lost; \\\n  exit 3\n").write(tmp_path / "c")
    done = sandrl("images", "build", "c", "--tag", "tests/cli:1")
    assert (done.returncode, done.stdout) == (1, "")
    shown = done.stderr[done.stderr.index("------") :].splitlines()
    assert shown == [
        "------",
        " > [2/2] RUN echo lost; exit 3:",
        "lost",
        "------",
        "c/Dockerfile:3",
        "sandrl: error: c/Dockerfile:3: RUN echo lost; exit 3 failed with exit code 3",
    ]


def test_a_terminal_shows_finished_steps_and_the_failure(sandrl: Run, tmp_path: Path, base: None) -> None:
    Example("x", "FROM BASE\nRUN echo working; sleep 0.5\nRUN echo lost; exit 3\n").write(tmp_path / "c")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "sandrl", "images", "build", "c", "--tag", "tests/cli:1"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(command, cwd=tmp_path, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 4096):
            shown += chunk
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert process.wait() == 1
    text = shown.decode()
    for part in ("=> [2/3] RUN echo working; sleep 0.5", "> [3/3] RUN echo lost; exit 3:", "lost", "c/Dockerfile:3"):
        assert part in text
    assert "#2" not in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none", "--tag", "a"], "none"),
        (["c"], "needs a name"),
        (["c", "--tag", "A B"], "'A B' is not the name of an image"),
        (["c", "--tag", "a", "--target", "x"], "has no stage 'x'"),
        (["c", "--tag", "a", "--platform", "linux/s390x"], "cannot be built here"),
        (["c", "--tag", "a", "--secret", "x"], "is not id=ID,src=FILE"),
        (["c", "--tag", "a", "--secret", "id=x,src=none"], "cannot be read"),
        (["c", "--tag", "a", "--build-arg", "=x"], "is not NAME=VALUE"),
        (["empty", "--tag", "a"], "has none of Dockerfile"),
    ],
)
def test_wrong_input_is_named(sandrl: Run, tmp_path: Path, arguments: list[str], words: str) -> None:
    Example("x", "FROM scratch\nCOPY f /\n", {"f": "x"}).write(tmp_path / "c")
    (tmp_path / "empty").mkdir()
    done = sandrl("images", "build", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_build_without_programs_needs_no_runtime(sandrl: Run, tmp_path: Path) -> None:
    (tmp_path / "root.tar").write_bytes(archive(file("f", b"x")))
    Example("x", "FROM tests/root\nCOPY f /g\nCMD /g\n", {"f": "x"}).write(tmp_path / "c")
    places = {"SANDRL_CACHE_DIR": str(tmp_path / "cache"), "SANDRL_STATE_DIR": str(tmp_path / "state")}
    assert sandrl("images", "import", "root.tar", "tests/root", **places).returncode == 0
    done = sandrl("images", "build", "c", "--tag", "a", **places)
    assert done.returncode == 0, done.stderr
    assert "starting the local runtime" not in done.stderr
