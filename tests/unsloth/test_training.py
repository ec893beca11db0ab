"""`sandrl unsloth` with the real Unsloth on its CPU backend, the tiny policy and real sandboxes."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from sandrl.runs import RunReader, disagreements
from sandrl.trainers.checkpoints import last_checkpoint
from tests.unsloth.conftest import LONGEST_SECONDS, Command

# A test has up to three commands.
pytestmark = pytest.mark.timeout(3 * LONGEST_SECONDS)

# Two problems × four completions.
SMALL = ("--batch-size", "8", "--samples", "4", "--runtime", "local")
RESULTS = re.compile(
    r"Reward call \d+: |Step \d+/\d+: |Held-out pass@1 \(4 problems\): |Optimizations:$|  \S|Checkpoint: "
)


def test_the_tiny_policy_trains_for_a_few_steps(sandrl: Command, tmp_path: Path) -> None:
    from safetensors import safe_open

    done = sandrl("unsloth", *SMALL, "--steps", "4", "--eval-problems", "4", "--run-name", "run")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    # What Unsloth prints is in a file of the run; results alone are results.
    assert [line for line in lines if not RESULTS.match(line)] == []
    assert sum(line.startswith("Step ") for line in lines) == 4
    assert "Unsloth (CPU)" in (tmp_path / "runs" / "run" / "printed.log").read_text()
    assert done.stderr.count("Unsloth") == done.stderr.count("no GPU: training on Unsloth's CPU backend") == 1
    assert "no GPU: training on Unsloth's CPU backend, in full precision instead of 4 bits" in done.stderr
    assert "torch" not in done.stderr
    found = [line.strip() for line in lines[lines.index("Optimizations:") + 1 :] if line.startswith("  ")]
    projections = "down_proj, gate_proj, k_proj, o_proj, q_proj, up_proj, v_proj"
    assert re.fullmatch(rf"LoRA of rank 16 in {projections}: [\d,]+ weights trained", found[0])
    assert found[1:] == ["gradient checkpointing: activations are recomputed"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs"]

    reader = RunReader(tmp_path / "runs" / "run")
    assert disagreements(reader, is_complete=True) == ()
    assert reader.config.command == "unsloth"
    assert {"unsloth", "unsloth_zoo", "trl"} <= reader.config.jobs[0].versions.keys()
    assert any("unsloth-grpo" in row.tags for row in reader.sandboxes().rows)
    assert [row.step for row in reader.metrics().rows] == [0, 1, 2, 3, 4]
    checkpoint = last_checkpoint(tmp_path / "runs" / "run" / "checkpoints")
    assert checkpoint is not None
    assert checkpoint.step == 4
    with safe_open(checkpoint.path / "adapter_model.safetensors", "pt") as weights:
        # They begin as zeros.
        assert any(weights.get_tensor(name).any() for name in weights.keys() if "lora_B" in name)  # noqa: SIM118


def test_a_killed_run_goes_on_by_the_command_that_began_it(sandrl: Command, tmp_path: Path) -> None:
    options = (*SMALL, "--steps", "4", "--save-steps", "2", "--eval-problems", "0")
    killed = sandrl("unsloth", *options, "--run-name", "run", kill_at="Step 3/4")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    other = sandrl("grpo", "--resume", "run")
    assert other.returncode == 2
    assert "is a run of `sandrl unsloth`, which `sandrl grpo` cannot resume" in other.stderr
    resumed = sandrl("unsloth", "--resume", "run")
    assert resumed.returncode == 0, resumed.stderr
    assert "resumed at step 3" in resumed.stderr
    rows = RunReader(tmp_path / "runs" / "run").metrics().rows
    assert [(row.step, row.attempt) for row in rows] == [(0, 1), (1, 1), (2, 2), (3, 2)]


def test_without_adapters_all_weights_are_trained(sandrl: Command, tmp_path: Path) -> None:
    done = sandrl("unsloth", *SMALL, "--no-lora", "--steps", "1", "--eval-problems", "0", "--run-name", "run")
    # One step may find no difference within its two groups.
    assert done.returncode in (0, 1), done.stderr
    checkpoint = last_checkpoint(tmp_path / "runs" / "run" / "checkpoints")
    assert checkpoint is not None
    assert (checkpoint.path / "model.safetensors").is_file()
    assert not (checkpoint.path / "adapter_model.safetensors").exists()


def test_where_no_hub_answers_its_model_is_missed_at_once(sandrl: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    done = sandrl("unsloth", *SMALL, "--problems", "toy", "--model", "no-such/model-bnb-4bit")
    assert done.returncode == 3, done.stderr
    assert "http://127.0.0.1:9 does not answer, and no-such/model-bnb-4bit is not in" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_adapters_of_a_run_are_trained_further(sandrl: Command, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    # Lengths differ in every group, so that every step has a gradient.
    options = (*SMALL, "--eval-problems", "0", "--lr-schedule", "constant", "--set", "warmup_steps=0", "--steps", "1")
    runs = {
        "first": (*options, "--length-penalty", "1"),
        "same": ("--init-from", "first", "--learning-rate", "0"),
        "further": ("--init-from", "first", "--seed", "1"),
    }
    weights = {}
    for name, words in runs.items():
        done = sandrl("unsloth", *words, "--run-name", name)
        assert done.returncode == 0, done.stderr
        checkpoint = tmp_path / "runs" / name / "checkpoints" / "checkpoint-1"
        weights[name] = load_file(checkpoint / "adapter_model.safetensors")
    first = weights["first"]
    assert any(bool(first[name].any()) for name in first if "lora_B" in name)
    assert weights["same"].keys() == weights["further"].keys() == first.keys()
    assert all(bool((first[name] == weights["same"][name]).all()) for name in first)
    assert any(bool((first[name] != weights["further"][name]).any()) for name in first)
    assert RunReader(tmp_path / "runs" / "further").config.options["lora_rank"] == 16
