"""What is killed costs nothing: a run at random moments, or the daemon under a run.

What these tests find out besides passing, they write to standard error (`pytest -s`): the moments of the kills, and how
long the steps took in which the daemon was killed.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sandrl.runs import MetricsRow, RunReader
from sandrl.settings import load_settings
from sandrl.trainers.checkpoints import last_checkpoint
from tests.support.dead_daemon import kill_daemon
from tests.support.own_problems import own_problems

STEPS = 15
# Three epochs of twenty problems, five are held out. Verdicts that a killed process knew are not known to the next one:
# without reuse, their counts are equal, too.
WORDS = (
    *("--batch-size", "16", "--samples", "4", "--steps", str(STEPS), "--show-tests", "0", "--no-cache"),
    *("--save-steps", "2", "--runtime", "local"),
)
# Facts of one attempt, not of what was sampled and trained. What a process has learned of how to judge a completion
# (that its checks cannot be kept apart from it) the next one learns again: the verdict is the same, after one more
# execution.
_OF_ATTEMPT = {"time", "job_id", "attempt", "duration_seconds", "timing", "sandbox_id", "sandboxes", "cells", "reruns"}
_COUNTS_OF_ATTEMPT = ("executions", "reruns", "aviato/")
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
_PATIENCE_SECONDS = 600.0


class Training:
    """A `sandrl grpo` in a process group of its own.

    Args:
        directory: Where it runs; the run is `runs/NAME` in it.
        words: Its options.
    """

    def __init__(self, directory: Path, *words: str) -> None:
        self.output = directory / f"output-{time.monotonic_ns()}"
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "SANDRL_RUNS_DIR": str(directory / "runs")}
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "sandrl", "grpo", *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env=environment,
                start_new_session=True,
            )

    @property
    def lines(self) -> list[str]:
        return self.output.read_text(encoding="utf-8").splitlines()

    def count(self, beginning: str) -> int:
        return sum(line.startswith(beginning) for line in self.lines)

    def end(self) -> int:
        """Waits for the end; gives the exit code."""
        try:
            return self.process.wait(_PATIENCE_SECONDS)
        finally:
            self.kill()

    def kill(self) -> None:
        """Kills all of its processes, as `kill -9` does."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@dataclass(frozen=True)
class Moment:
    """When a training is to be killed.

    Attributes:
        phase: In what.
        step: How many steps must have been made before that.
        delay_seconds: How long after the beginning of the phase.
    """

    phase: str
    step: int
    delay_seconds: float

    def has_begun(self, training: Training, run: Path, begin: int, size: int) -> bool:
        """Whether the phase has begun.

        Args:
            training: What is to be killed.
            run: Its run.
            begin: The step that this process has begun with.
            size: The size of the file of completions at that time.
        """
        match self.phase:
            case "evaluation":
                return training.count("Evaluating after 0 ") > 0
            case "last evaluation":
                return training.count(f"Evaluating after {STEPS} ") > 0
            case "start":
                return True
        if self.step > begin and not training.count(f"Step {self.step}/"):
            return False
        match self.phase:
            case "generation":
                return training.count("Training:") > 0
            case "judging":
                completions = run / "trajectories.jsonl"
                return completions.exists() and completions.stat().st_size > size
            case "checkpointing":
                folders = {int(path.name.rpartition("-")[2]) for path in run.glob("checkpoints/checkpoint-*")}
                whole = last_checkpoint(run / "checkpoints")
                return max(folders, default=0) > (whole.step if whole else 0)
        raise ValueError(self.phase)


# How long after the beginning of a phase the kill comes at most.
LATEST = {
    "evaluation": 1.5,
    "last evaluation": 1.5,
    "start": 15.0,
    "generation": 1.5,
    "judging": 1.0,
    "checkpointing": 0.15,
}


def moments(choice: random.Random) -> Iterator[Moment]:
    """Ten moments all over the run."""
    phases = ["start", *["generation"] * 3, *["judging"] * 2, *["checkpointing"] * 2]
    choice.shuffle(phases)
    steps = sorted(choice.choices(range(STEPS), k=len(phases)))
    for phase, step in zip(["evaluation", *phases, "last evaluation"], [0, *steps, STEPS], strict=True):
        yield Moment(phase, step, choice.uniform(0.0, LATEST[phase]))


def kill_at(training: Training, run: Path, moment: Moment) -> None:
    """Kills a training at a moment."""
    completions = run / "trajectories.jsonl"
    size = completions.stat().st_size if completions.exists() else 0
    begin = last_checkpoint(run / "checkpoints")
    gives_up_at = time.monotonic() + _PATIENCE_SECONDS
    while not moment.has_begun(training, run, begin.step if begin else 0, size):
        assert training.process.poll() is None, f"it ended before {moment}: {training.lines[-5:]}"
        assert time.monotonic() < gives_up_at, f"{moment} never came: {training.lines[-5:]}"
        time.sleep(0.002)
    time.sleep(moment.delay_seconds)
    assert training.process.poll() is None, f"it ended before the kill at {moment}: {training.lines[-5:]}"
    training.kill()
    end = last_checkpoint(run / "checkpoints")
    line = next(reversed(training.lines), "no output").partition(":")[0]
    sys.stderr.write(f"killed at {moment}, after {line!r}; goes on after step {end.step if end else 0}\n")


def completions(run: Path) -> list[dict[str, Any]]:
    """The rows of completions that a reader shows, without what belongs to an attempt, in the order of the calls."""
    rows = RunReader(run).trajectories().rows
    found = [row.model_dump(mode="json", exclude=_OF_ATTEMPT) for row in rows]
    for row in found:
        row["stderr"] = _ADDRESS.sub("0x…", row["stderr"])
    return sorted(found, key=lambda row: (row["step"], not row["held_out"], row["index"]))


def metrics(run: Path) -> list[tuple[int, dict[str, float | None]]]:
    """The rows of metrics that a reader shows, without times and without what belongs to an attempt."""

    def kept(row: MetricsRow) -> dict[str, float | None]:
        names = (name for name in row.metrics if "seconds" not in name and not name.startswith(_COUNTS_OF_ATTEMPT))
        return {name: row.metrics[name] for name in names}

    return [(row.step, kept(row)) for row in RunReader(run).metrics().rows]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("tiny_directory")
@pytest.mark.parametrize("seed", [0, 1])
def test_killed_at_ten_random_moments_a_run_makes_what_an_uninterrupted_one_makes(tmp_path: Path, seed: int) -> None:
    words = ("--problems", str(own_problems(tmp_path / "own.jsonl")), *WORDS)
    whole = Training(tmp_path, *words, "--run-name", "whole")
    assert whole.end() == 0, whole.lines
    run = tmp_path / "runs" / "killed"
    training = Training(tmp_path, *words, "--run-name", run.name)
    try:
        for moment in moments(random.Random(seed)):
            kill_at(training, run, moment)
            training = Training(tmp_path, "--resume", str(run))
        assert training.end() == 0, training.lines
    finally:
        training.kill()
    expected = tmp_path / "runs" / "whole"
    found = completions(run)
    assert found == completions(expected)
    assert metrics(run) == metrics(expected)
    weights = Path("checkpoints") / f"checkpoint-{STEPS}" / "model.safetensors"
    assert (run / weights).read_bytes() == (expected / weights).read_bytes()
    # It was worth comparing: three epochs, in each of which every problem comes once, and each kind earns something.
    trained = [row for row in found if not row["held_out"]]
    assert Counter(Counter(row["task_id"] for row in trained).values()) == {12: 20}
    assert {row["task_id"].partition("-")[0] for row in trained if row["reward"]} == {"function", "class", "program"}
    assert len({row["reward"] for row in trained}) == 2


# In every tenth step, each time elsewhere: sandboxes stand ready, completions are being judged, most are judged.
KILLED_STEPS = {10: 0.0, 20: 0.3, 30: 0.7}
DISTURBED = (
    *("--steps", "30", "--batch-size", "64", "--eval-problems", "32", "--concurrency", "4", "--runtime", "local"),
)


def kill_daemons(training: Training, run: Path, batch_size: int) -> None:
    """Kills the daemon in some steps, when so large a share of their completions is judged."""
    for step, share in KILLED_STEPS.items():
        while training.count("Step ") < step - 1:
            assert training.process.poll() is None, training.lines[-5:]
            time.sleep(0.01)
        wanted = share * batch_size
        while len([row for row in RunReader(run).trajectories().rows if row.step == step - 1]) < wanted:
            assert training.process.poll() is None, training.lines[-5:]
            time.sleep(0.01)
        kill_daemon(load_settings().state_dir)


def step_seconds(run: Path) -> list[float]:
    rows: tuple[MetricsRow, ...] = RunReader(run).metrics().rows
    return [seconds for row in rows if (seconds := row.metrics.get("step_seconds")) is not None]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("tiny_directory")
def test_a_daemon_that_is_killed_in_every_tenth_step_changes_no_reward(tmp_path: Path) -> None:
    runs = [tmp_path / "runs" / name for name in ("whole", "disturbed")]
    for run in runs:
        training = Training(tmp_path, *DISTURBED, "--run-name", run.name)
        try:
            if run.name == "disturbed":
                kill_daemons(training, run, 64)
        finally:
            code = training.end()
        assert code == 0, training.lines
    whole, disturbed = ([*RunReader(run).trajectories().rows] for run in runs)
    # The policy's samples do not depend on the daemon, as long as the rewards do not.
    assert [row for row in disturbed if row.reward is None] == []
    pairs = [
        sorted((row.step, row.held_out, row.index, row.completion, row.reward, row.status) for row in rows)
        for rows in (whole, disturbed)
    ]
    assert pairs[0] == pairs[1]
    weights = Path("checkpoints") / "checkpoint-30" / "model.safetensors"
    assert (runs[0] / weights).read_bytes() == (runs[1] / weights).read_bytes()
    for step, (own, seconds) in enumerate(zip(*map(step_seconds, runs), strict=True), start=1):
        note = "  daemon killed" if step in KILLED_STEPS else ""
        sys.stderr.write(f"step {step:2}: {own:5.1f} s undisturbed, {seconds:5.1f} s{note}\n")
    moved = sum(row.retries for row in disturbed)
    sys.stderr.write(f"{moved} executions were repeated because the daemon was killed\n")
