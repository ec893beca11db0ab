"""Two processes that train together over gloo, as `accelerate launch` starts them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

from sandrl.runs import RunOutcome, RunReader, disagreements
from tests.trainers.conftest import Train

# `--multi_gpu` is what makes it start several processes at all; where there is no GPU they meet over gloo.
LAUNCHER = (
    *(sys.executable, "-m", "accelerate.commands.launch"),
    *("--multi_gpu", "--num_processes", "2", "--num_machines", "1", "--main_process_port", "0"),
    *("--mixed_precision", "no", "--dynamo_backend", "no"),
)


def test_two_processes_show_one_display_and_share_the_work(train: Train) -> None:
    # Groups of four over two processes of four completions; five problems that do not divide evenly.
    options = ("--batch-size", "8", "--samples", "4", "--eval-problems", "5", "--steps", "2")
    done = train(*options, "--runtime", "local", launcher=LAUNCHER)
    assert done.code == 0, done.stderr
    assert done.stdout.count("Step 1/2") == 1
    assert done.stdout.count("Step 2/2") == 1
    assert "in 2 processes" in done.stderr
    assert "find_unused_parameters" not in done.stderr
    assert len(re.findall(r"^Reward call ", done.stdout, re.MULTILINE)) == 4
    reader = RunReader(done.run)
    rows = reader.metrics().rows
    assert [row.step for row in rows] == [0, 1, 2]
    assert [row.metrics.get("completions") for row in rows] == [8, 8, None]
    assert [row.metrics.get("reward/groups") for row in rows] == [2, 2, None]
    assert {row.rank for row in reader.trajectories().rows} == {0, 1}
    held_out = [(row.step, row.task_id) for row in reader.trajectories().rows if row.held_out]
    # Each was judged once, and the row that makes five even for two processes was not.
    assert len(held_out) == len(set(held_out)) == 10
    assert len(reader.config.jobs) == 1
    assert disagreements(reader, is_complete=True) == ()
    created = [row.sandbox_id for row in reader.sandboxes().rows if row.event == "created"]
    assert len(created) == len(set(created))


def test_a_crash_in_another_rank_leaves_a_failed_run_with_its_message(
    train: Train, broken_callback: Callable[[int], str]
) -> None:
    options = ("--batch-size", "8", "--samples", "4", "--eval-problems", "0", "--steps", "4")
    done = train(*options, "--runtime", "local", launcher=(*LAUNCHER, broken_callback(1)))
    assert done.code != 0
    job = RunReader(done.run).config.jobs[-1]
    assert job.outcome is RunOutcome.FAILED
    assert job.error == "internal error: RuntimeError: the callback of rank 1 is broken"
