"""Training for real: skipped where the extra is not installed, and never together with another training."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from sandrl.settings import load_settings

MISSING = [name for name in ("torch", "trl", "transformers", "datasets", "peft") if not importlib.util.find_spec(name)]

# Two problems × four completions: a step takes about a second.
SMALL = ("--batch-size", "8", "--samples", "4", "--eval-problems", "0", "--runtime", "local")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips what trains where nothing can."""
    reason = f"not installed: {', '.join(MISSING)} (make test-grpo)"
    for item in items:
        # pytest passes the tests of all directories.
        if Path(__file__).parent not in item.path.parents:
            continue
        if MISSING:
            item.add_marker(pytest.mark.skip(reason=reason))
        # Each begins with ten seconds of imports, and the first makes the policy.
        item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def tiny_directory() -> Path:
    """Where the tiny policy with seed 0 lies; commands that the tests start find the same one."""
    from sandrl.tiny import tiny_policy

    return tiny_policy(load_settings().cache_dir)


@dataclass
class Trained:
    """A `sandrl grpo` that has ended, or is being killed."""

    code: int
    stdout: str
    stderr: str
    run: Path

    def metrics(self) -> list[dict[str, Any]]:
        """The rows of metrics as they were written; of a row that was completed at the end, what it came to."""
        rows = [json.loads(line) for line in (self.run / "metrics.jsonl").read_text().splitlines()]
        return list({(row["attempt"], row["step"]): row for row in rows}.values())


Train = Callable[..., Trained]


def take_trl_step(
    kind: Any, rewards: Any, rows: list[dict[str, Any]], policy: Path, folder: Path, **arguments: Any
) -> None:
    """Takes one step with a subclass of TRL's own trainer, on the processor."""
    import datasets
    import torch
    import trl

    torch.set_num_threads(1)
    usual: dict[str, Any] = {
        "output_dir": str(folder),
        "max_steps": 1,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
    }
    trainer = kind(
        model=str(policy),
        reward_funcs=rewards,
        args=trl.GRPOConfig(**usual, **arguments),
        train_dataset=datasets.Dataset.from_list(rows),
    )
    trainer.train()


_BROKEN = """
import os, sys
from transformers import TrainerCallback, trainer

class Broken(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if os.environ.get("RANK", "{rank}") == "{rank}":
            raise RuntimeError("the callback of rank {rank} is broken")

trainer.DEFAULT_CALLBACKS.append(Broken)
from sandrl.cli.app import main
sys.exit(main(sys.argv[3:]))
"""


@pytest.fixture
def broken_callback(tmp_path: Path) -> Callable[[int], str]:
    """Makes a program that runs what follows `-m sandrl`, with a callback of the trainer that fails in one rank."""

    def write(rank: int) -> str:
        program = tmp_path / "broken.py"
        program.write_text(_BROKEN.format(rank=rank), encoding="utf-8")
        return str(program)

    return write


@pytest.fixture
def train(tmp_path: Path, tiny_directory: Path) -> Train:
    """Runs `sandrl grpo` in a directory of its own."""

    def run(
        *words: str | Path,
        name: str = "run",
        until: Callable[[str], bool] | None = None,
        signals: tuple[int, ...] = (signal.SIGKILL,),
        launcher: tuple[str, ...] = (),
    ) -> Trained:
        """Args:
        words: The options.
        name: The run's name.
        until: Once it holds for a line of the output, the signals are sent, one after the other.
        signals: Which.
        launcher: What starts the processes, instead of this interpreter.
        """
        naming = () if "--resume" in words else ("--run-name", name)
        argv = [*(launcher or (sys.executable,)), "-m", "sandrl", "grpo", *map(str, words), *naming]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "SANDRL_RUNS_DIR": str(tmp_path / "runs")}
        process = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment
        )
        shown = ""
        if until is not None:
            assert process.stdout is not None
            for line in process.stdout:
                shown += line
                if until(line):
                    for number in signals:
                        process.send_signal(number)
                    break
        try:
            stdout, stderr = process.communicate(timeout=600)
        except BaseException:
            process.kill()
            process.communicate()
            raise
        return Trained(process.returncode, shown + stdout, stderr, tmp_path / "runs" / name)

    return run


TrainHere = Callable[..., Path]


@pytest.fixture
def train_here(tmp_path: Path, tiny_directory: Path) -> TrainHere:
    """Runs `sandrl grpo` in this process, which saves the ten seconds of imports; gives the run's directory."""
    from sandrl.trainers.grpo import run_grpo
    from sandrl.trainers.plan import make_plan

    settings = replace(load_settings(), runs_dir=tmp_path / "runs")

    def run(resume: Path | None = None, **given: Any) -> Path:
        request = make_plan(given, settings, resume=None if resume is None else str(resume))
        return run_grpo(request, settings).run_dir

    return run
