"""`sandrl reward` on a terminal: a live table, and Ctrl-C."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from sandrl.problems.sources import DATA, DEMO_PROBLEMS
from sandrl.runtime import daemon
from sandrl.settings import load_settings
from tests.cli.conftest import PROBLEM
from tests.support.terminal import CTRL_C, run_on_terminal

SANDRL = [sys.executable, "-m", "sandrl"]


def test_the_table_fills_as_results_arrive() -> None:
    shown = run_on_terminal([*SANDRL, "reward"])
    assert shown.exit_code == 0
    frames = shown.plain.split("row  id")
    assert len(frames) > 5, "the table was drawn again and again"
    assert any("running" in frame and "passed" in frame for frame in frames[1:-1])
    assert re.search(r"[1-4]/5 done, pass rate \d+%", shown.plain)
    last = frames[-1]
    for word in ("slow-sum", "string-ops", "delayed-error", "syntax-error", "slow-list"):
        assert word in last
    assert "Pass rate: 3/5 (60%)" in last
    assert "running" not in last
    assert "\x1b[?25h" in shown.text, "the cursor is back"


@pytest.fixture
def demo_without_waiting(tmp_path: Path) -> list[str]:
    """A command that scores the completions of the demo, none of which sleeps."""
    path = tmp_path / "completions.jsonl"
    text = (DATA / "demo_completions.jsonl").read_text(encoding="utf-8")
    path.write_text(re.sub(r"sleep\(\d\)", "sleep(0)", text), encoding="utf-8")
    return [*SANDRL, "reward", str(path), "--problems", str(DEMO_PROBLEMS)]


def test_no_color_is_respected(demo_without_waiting: list[str]) -> None:
    shown = run_on_terminal(demo_without_waiting, environment={"NO_COLOR": "1"})
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", shown.text)
    assert "Pass rate: 3/5 (60%)" in shown.plain


@pytest.mark.parametrize("columns", [36, pytest.param(50, marks=pytest.mark.slow)])
def test_a_narrow_terminal_still_shows_rows_rewards_and_totals(columns: int, demo_without_waiting: list[str]) -> None:
    shown = run_on_terminal(demo_without_waiting, columns=columns)
    assert shown.exit_code == 0
    assert "Pass rate: 3/5 (60%)" in shown.plain
    last = shown.plain[shown.plain.rindex("row  id") :].partition("Run: ")[0]
    assert max(map(len, last.split("\n"))) <= columns
    assert re.search(r"0 +slo\S* +passed +1\.0 +\d\.\d s", last)


def test_a_dumb_terminal_gets_plain_lines(demo_without_waiting: list[str]) -> None:
    shown = run_on_terminal(demo_without_waiting, environment={"TERM": "dumb"})
    assert re.search(r"slow-list +passed +1\.0", shown.plain)
    assert "\x1b" not in shown.text


@pytest.fixture
def sleepers(tmp_path: Path) -> list[str]:
    """A command that scores forty sleepers of two seconds, eight at a time."""
    (tmp_path / "p.jsonl").write_text(PROBLEM, encoding="utf-8")
    row = '{"task_id": "inc", "code": "import time\\ntime.sleep(2)\\ndef f(x):\\n    return x + 1\\n"}\n'
    (tmp_path / "c.jsonl").write_text(row * 40, encoding="utf-8")
    files = [str(tmp_path / "c.jsonl"), "--problems", str(tmp_path / "p.jsonl"), "--out", str(tmp_path / "out.jsonl")]
    # All forty are the same code: judged once each all the same.
    return [*SANDRL, "reward", *files, "-c", "8", "--no-cache"]


def all_fly(text: str) -> bool:
    """Whether the newest table shows eight completions at work."""
    return text.rpartition("row  id")[2].count("running") == 8


def test_two_ctrl_c_cancel_and_further_ones_are_answered(sleepers: list[str]) -> None:
    shown = run_on_terminal(
        sleepers,
        typed=[
            (all_fly, CTRL_C),
            (lambda text: "finishing" in text, CTRL_C + CTRL_C + CTRL_C),
        ],
    )
    assert shown.exit_code == 130
    assert "of 40 completions are scored" in shown.plain.replace("\n", " ")
    assert "Traceback" not in shown.plain
    assert daemon.status(load_settings().state_dir).sandboxes == 0
