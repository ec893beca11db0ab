"""`sandrl sandboxes` on terminals: narrow ones, questions, watching, Ctrl-C; and text that means them harm."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import SANDRL, Run
from tests.support.faulty_runtime import faulty_runtime
from tests.support.terminal import CTRL_C, run_on_terminal

HOSTILE = "x\x1b[2J\x1b]0;owned\x07‮y"
LS, CLEANUP = [*SANDRL, "sandboxes", "ls"], [*SANDRL, "sandboxes", "cleanup"]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Where four sandboxes are, with a tag that means harm; the last test stops them."""
    path = tmp_path_factory.mktemp("state")
    with faulty_runtime(path, "--records", "4", "--tag", "job-abc", "--tag", HOSTILE):
        yield {"SANDRL_STATE_DIR": str(path)}


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """The file that lets held stops end."""
    return tmp_path / "released"


@pytest.fixture
def holding_state(tmp_path: Path, released: Path) -> Iterator[dict[str, str]]:
    """Where two hundred sandboxes are; after the first stops the others do not end before they are released."""
    hold = ("--hold-after", "8", str(released))
    with faulty_runtime(tmp_path / "state", "--records", "200", "--tag", "job-abc", *hold):
        yield {"SANDRL_STATE_DIR": str(tmp_path / "state")}
        released.touch()


def asks(text: str) -> bool:
    return "[y/N]" in text


def ids(sandrl: Run, state: dict[str, str]) -> list[str]:
    return [each["id"] for each in json.loads(sandrl("sandboxes", "ls", "--json", **state).stdout)["sandboxes"]]


# A narrow one, and one on each side of the width from which on tags are shown.
@pytest.mark.parametrize("columns", [30, 80, 100, *(pytest.param(n, marks=pytest.mark.slow) for n in (40, 64, 200))])
def test_lines_fit_the_terminal_and_ids_are_whole(sandrl: Run, state: dict[str, str], columns: int) -> None:
    known = ids(sandrl, state)
    shown = run_on_terminal(LS, columns=columns, environment=state)
    assert shown.exit_code == 0
    assert all(each in shown.plain for each in known)
    assert shown.plain.count("running") == 4
    rows = [line for line in shown.plain.splitlines() if not line.startswith("(no room")]
    assert max(map(len, rows)) <= max(columns, 36)
    assert ("TAGS" in rows[0]) == (columns >= 100)


def test_escape_sequences_in_tags_reach_no_terminal(sandrl: Run, state: dict[str, str]) -> None:
    for words in (
        [*LS],
        [*LS, "-o", "wide"],
        [*CLEANUP, "--all", "--dry-run"],
        [*SANDRL, "sandboxes", "count", "--by-tag"],
    ):
        shown = run_on_terminal(words, columns=250, environment=state)
        assert shown.exit_code == 0
        assert "x\\x1b[2J\\x1b]0;owned\\x07\\u202ey" in shown.text, words
        # The header is bold, and nothing else acts on the terminal.
        assert "\x1b" not in shown.text.replace("\x1b[1m", "").replace("\x1b[0m", "")
    for piped in (("ls",), ("ls", "--json"), ("show", ids(sandrl, state)[0])):
        done = sandrl("sandboxes", *piped, **state)
        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stdout
        assert "‮" not in done.stdout


def test_the_beginning_of_an_id_means_the_sandbox_or_the_job(sandrl: Run, state: dict[str, str]) -> None:
    whole = ids(sandrl, state)[0]
    shown = sandrl("sandboxes", "show", whole[:12], **state)
    assert (shown.returncode, whole in shown.stdout) == (0, True), shown.stderr
    of_the_job = sandrl("sandboxes", "ls", "--job", "ab", **state)
    assert (of_the_job.returncode, whole in of_the_job.stdout) == (0, True), of_the_job.stderr
    unknown = sandrl("sandboxes", "ls", "--job", "zzz", **state)
    assert (unknown.returncode, "hint: " in unknown.stderr) == (2, True)


def test_a_pipe_gets_every_column_whole_however_narrow(sandrl: Run, state: dict[str, str]) -> None:
    lines = sandrl("sandboxes", "ls", COLUMNS="40", **state).stdout.splitlines()
    assert len(lines) == 5
    assert lines[0].split() == ["ID", "STATUS", "AGE", "EXPIRES", "JOB", "OWNER", "TAGS"]
    assert all("job-abc" in line and "owned" in line for line in lines[1:])


def some_are_stopped(text: str) -> bool:
    return bool(re.search(r"\b[1-9]\d*/200", text))


def numbers(pattern: str, text: str) -> list[int]:
    found = re.search(pattern, text)
    assert found, text
    return [int(each) for each in found.groups()]


def test_ctrl_c_finishes_the_stops_under_way_and_says_how_to_go_on(
    sandrl: Run, holding_state: dict[str, str], released: Path
) -> None:
    def release(text: str) -> bool:
        if "starting no more" in text:
            released.touch()
        return released.exists()

    words = [*CLEANUP, "--tag", "job-abc", "-y"]
    typed = [(some_are_stopped, CTRL_C), (release, b"")]
    shown = run_on_terminal(words, environment=holding_state, columns=120, typed=typed)
    assert shown.exit_code == 130
    assert "stops in progress, starting no more" in shown.plain
    [stopped, gone, failed] = numbers(r"stopped (\d+), already ended (\d+), failed (\d+)", shown.plain)
    [left] = numbers(r"interrupted: (\d+) of 200 sandboxes are left", shown.plain)
    assert (stopped + left, gone, failed) == (200, 0, 0)
    assert 32 <= stopped < 200
    assert "hint: sandrl sandboxes cleanup --tag job-abc --yes continues" in shown.plain
    assert len(ids(sandrl, holding_state)) == left


def test_a_second_ctrl_c_waits_for_nothing_more(holding_state: dict[str, str]) -> None:
    words = [*CLEANUP, "--tag", "job-abc", "-y"]
    typed = [(some_are_stopped, CTRL_C), (lambda text: "starting no more" in text, CTRL_C)]
    shown = run_on_terminal(words, environment=holding_state, columns=120, typed=typed)
    assert shown.exit_code == 130
    [finishing] = numbers(r"finishing (\d+) stops", shown.plain)
    [leaving] = numbers(r"not waiting for (\d+) stops in progress", shown.plain)
    [left] = numbers(r"interrupted: (\d+) of 200 sandboxes are left", shown.plain)
    assert 0 < leaving <= finishing <= 32
    assert left > leaving


def test_watching_on_a_terminal_ends_well_with_ctrl_c(state: dict[str, str]) -> None:
    words = [*LS, "--watch", "--interval", "0.2"]
    shown = run_on_terminal(
        words, columns=120, environment=state, typed=[(lambda text: text.count("4 sandboxes, 0 orphans") > 2, CTRL_C)]
    )
    assert shown.exit_code == 0
    assert "\\x1b]0;owned" in shown.plain
    assert "\x1b[?25h" in shown.text, "the cursor is back"


def test_watching_through_a_pipe_repeats_the_list_also_when_the_runtime_has_gone(tmp_path: Path) -> None:
    here = {**os.environ, "SANDRL_STATE_DIR": str(tmp_path / "state")}
    words = [*LS, "--watch", "--interval", "0.1"]
    with faulty_runtime(tmp_path / "state", "--records", "1"):
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=here)
        assert process.stdout is not None
        for _ in range(3):
            assert process.stdout.readline().startswith("ID")
            assert "running" in process.stdout.readline()
            assert process.stdout.readline() == "\n"
    while not ((line := process.stdout.readline()).startswith("ID") and process.stdout.readline() == "\n"):
        assert line
    process.send_signal(signal.SIGINT)
    # Closed earlier, the pipe could break under a list that is being printed.
    process.stdout.read()
    process.stdout.close()
    assert process.wait(20) == 0


def test_cleanup_asks_and_no_is_the_default(sandrl: Run, state: dict[str, str]) -> None:
    refused = run_on_terminal([*CLEANUP, "--tag", "job-abc"], environment=state, typed=[(asks, b"\r")])
    assert refused.exit_code == 0
    assert "Nothing was stopped." in refused.plain
    left = run_on_terminal([*CLEANUP, "--tag", "job-abc"], environment=state, typed=[(asks, CTRL_C)])
    assert left.exit_code == 130
    assert len(ids(sandrl, state)) == 4
    agreed = run_on_terminal([*CLEANUP, "--tag", "job-abc"], environment=state, typed=[(asks, b"y\r")])
    assert agreed.exit_code == 0
    assert "Stop 4 sandboxes?" in agreed.plain
    assert "stopped 4, already ended 0, failed 0" in agreed.plain
    assert ids(sandrl, state) == []
