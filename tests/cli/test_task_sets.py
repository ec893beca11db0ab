"""Commands on sets of tasks: what they show and convert, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.support.task_directories import TERMINAL_BENCH, write_task


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    """A directory with a task of each format."""
    table = (
        "[environment]\ndocker_image = 'debian:13'\nmemory_mb = 512\nnetwork_mode = 'no-network'\nskills_dir = '/s'\n"
    )
    write_task(tmp_path / "tasks/harbor", {"task.toml": table + "[agent]\nuser = 'agent'\ntimeout_sec = 9\n"})
    write_task(tmp_path / "tasks/bench", base=TERMINAL_BENCH)
    return tmp_path / "tasks"


def test_tasks_are_listed_with_their_formats(sandrl: Run, tasks: Path) -> None:
    done = sandrl("problems", "ls", tasks)
    assert [line.split() for line in done.stdout.splitlines()[1:]] == [
        ["bench", "task", "1", "terminal-bench", "1"],
        ["harbor", "task", "1", "harbor", "1.4"],
    ]
    assert "Format: harbor 1.4, by task: 1 row with task\n" in done.stderr
    document = json.loads(sandrl("problems", "ls", tasks, "--json").stdout)
    assert document["problems"][1]["task"]["environment"]["memory_bytes"] == 512 << 20


def test_a_task_is_shown_with_its_machine_and_limits_and_its_programs_if_asked(sandrl: Run, tasks: Path) -> None:
    shown = sandrl("problems", "show", "harbor", "--problems", tasks).stdout
    for line in (
        "# harbor: a task (harbor 1.4)",
        "Machine: debian:13, 512 MiB of memory",
        "Network: none",
        "Agent: at most 9 s, user agent",
        "Verifier: test.sh, shared, at most 600 s, user of the image",
        "Solution: solve.sh",
        "Without effect: environment.skills_dir",
        "Do it.",
    ):
        assert line in shown.splitlines()
    assert "reward.txt" not in shown
    more = sandrl("problems", "show", "bench", "--problems", tasks, "--checks", "--reference").stdout
    assert "pytest $TEST_DIR/test_outputs.py -rA" in more
    assert more.rstrip().endswith("true")


def test_sets_become_tasks_and_tasks_sets(sandrl: Run, tasks: Path, tmp_path: Path) -> None:
    done = sandrl("problems", "convert", "toy", tmp_path / "toy")
    assert done.returncode == 0, done.stderr
    assert f"5 problems written to {tmp_path}/toy" in done.stderr
    assert sandrl("problems", "convert", tmp_path / "toy", tmp_path / "toy.jsonl").returncode == 0
    assert len((tmp_path / "toy.jsonl").read_text().splitlines()) == 5
    done = sandrl("problems", "convert", tasks, tmp_path / "none.jsonl")
    assert done.returncode == 2
    assert "nothing can be converted: bench: is a task that was not written for a problem of sandrl" in done.stderr
    done = sandrl("problems", "convert", tasks, tasks)
    assert done.returncode == 2
    assert "already exists" in done.stderr


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("redteam", "--problems", "{}", "-e", "exit"), "no problem can be attacked: exploits are code"),
        (
            ("eval", "--problems", "{}", "--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--few-shot", "1"),
            "a task cannot be one, because its answer is what was done in a machine",
        ),
    ],
    ids=["redteam", "few-shot"],
)
def test_a_command_that_makes_no_sense_for_tasks_says_so(
    sandrl: Run, tasks: Path, command: tuple[str, ...], message: str
) -> None:
    done = sandrl(*(word.format(tasks) for word in command))
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
