"""`sandrl grpo` at the seam of the real trainer, with the tiny policy and real sandboxes."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sandrl.runs import RunOutcome, RunReader, disagreements, state_of
from sandrl.trainers.checkpoints import last_checkpoint
from tests.trainers.conftest import SMALL, Train


def step_of(line: str) -> int:
    """The number in a line about a step; 0 in any other."""
    found = re.match(r"Step (\d+)/", line)
    return int(found[1]) if found else 0


def state(run: Path) -> str:
    """How it stands with a run."""
    reader = RunReader(run)
    return state_of(reader.config, is_running=reader.is_running).value


def test_a_run_trains_evaluates_and_adds_up(train: Train) -> None:
    done = train(*SMALL[:-4], "--eval-problems", "6", "--runtime", "local", "--steps", "3", "--tag", "mine")
    assert done.code == 0, done.stderr
    calls = re.findall(
        r"^Reward call (\d+): \d+ of \d+ completions? with code passed, \d+ executions? in sandboxes",
        done.stdout,
        re.MULTILINE,
    )
    assert calls == ["1", "2", "3", "4", "5"]
    assert [step_of(line) for line in done.stdout.splitlines() if line.startswith("Step")] == [1, 2, 3]
    assert re.search(
        r"^Held-out pass@1 \(6 problems\): [01]\.\d\d before, [01]\.\d\d after\n"
        r"  95% intervals: \[0\.\d\d, [01]\.\d\d\] before, \[0\.\d\d, [01]\.\d\d\] after$",
        done.stdout,
        re.MULTILINE,
    )
    assert f"Checkpoint: {done.run}/checkpoints/checkpoint-3" in done.stdout

    reader = RunReader(done.run)
    assert disagreements(reader, is_complete=True) == ()
    assert reader.config.jobs[0].outcome is RunOutcome.FINISHED
    assert reader.config.options["learning_rate"] == 4e-4
    assert {"torch", "trl", "sandrl"} <= reader.config.jobs[0].versions.keys()
    rows = reader.metrics().rows
    assert [row.step for row in rows] == [0, 1, 2, 3]
    assert rows[0].metrics["completions"] == 8
    assert {"loss", "grad_norm", "reward/mean", "reward/zero_variance_groups", "step_seconds"} <= rows[0].metrics.keys()
    assert rows[0].metrics["held_out/pass@1"] is not None
    assert all(name.startswith("held_out/") or name == "sandbox_seconds" for name in rows[3].metrics)
    held_out = [row for row in reader.trajectories().rows if row.held_out]
    assert [row.step for row in held_out] == [0] * 6 + [3] * 6
    assert all(0 < row.tokens["completion"] <= 48 for row in reader.trajectories().rows)
    tags = {tag for row in reader.sandboxes().rows for tag in row.tags}
    assert {"rl-training", "trl-grpo", "step-0", "step-2", "mine"} <= tags
    assert any(tag.startswith("model-tiny-") for tag in tags)


def test_a_checkpoint_is_a_model_that_any_program_loads_and_that_can_be_trained_on(train: Train) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    done = train(*SMALL, "--steps", "1")
    assert done.code in (0, 1), done.stderr
    checkpoint = last_checkpoint(done.run / "checkpoints")
    assert checkpoint is not None
    assert AutoTokenizer.from_pretrained(checkpoint.path).chat_template
    assert AutoModelForCausalLM.from_pretrained(checkpoint.path)
    options = ("--model", checkpoint.path, "--problems", "tiny", "--max-tokens", "48", "--lora")
    again = train(*SMALL, *options, "--steps", "1", "--set", "gradient_accumulation_steps=2", name="again")
    assert again.code in (0, 1), again.stderr
    adapters = again.run / "checkpoints" / "checkpoint-1"
    assert (adapters / "adapter_model.safetensors").is_file()
    assert AutoModelForCausalLM.from_pretrained(adapters)


def test_killed_at_any_step_it_goes_on_without_gap_or_repetition(train: Train) -> None:
    whole = train(*SMALL, "--steps", "5", "--save-steps", "2", name="whole")
    assert whole.code == 0, whole.stderr
    killed = train(*SMALL, "--steps", "5", "--save-steps", "2", until=lambda line: step_of(line) == 4)
    assert killed.code == -signal.SIGKILL
    assert state(killed.run) == "killed"
    refused = train("--resume", "run", "--learning-rate", "1e-3")
    assert refused.code == 2
    changed = "--learning-rate has changed since the run 'run' was started, so it cannot be resumed with it"
    assert changed in refused.stderr
    resumed = train("--resume", "run", "--learning-rate", "4e-4")
    assert resumed.code == 0, resumed.stderr
    assert state(resumed.run) == "finished"
    assert "resumed at step 3" in resumed.stderr or "resumed at step 5" in resumed.stderr
    rows, expected = RunReader(resumed.run).metrics().rows, RunReader(whole.run).metrics().rows
    assert sorted(row.step for row in rows) == [0, 1, 2, 3, 4]
    by_step = {row.step: row for row in rows}
    assert by_step[4].attempt == 2
    # With optimizer and random state, what is done again comes out the same.
    for row in expected:
        assert by_step[row.step].metrics["reward/mean"] == row.metrics["reward/mean"]
        assert by_step[row.step].metrics["loss"] == pytest.approx(row.metrics["loss"], abs=1e-6)


def test_a_callback_that_raises_leaves_a_failed_run_with_its_message(
    train: Train, broken_callback: Callable[[int], str]
) -> None:
    done = train(*SMALL, "--steps", "2", launcher=(sys.executable, broken_callback(0)))
    assert done.code == 70, done.stderr
    assert "sandrl: error: internal error: RuntimeError: the callback of rank 0 is broken" in done.stderr
    assert state(done.run) == "failed"
    reader = RunReader(done.run)
    assert reader.config.jobs[-1].error == "internal error: RuntimeError: the callback of rank 0 is broken"
    ledger = reader.sandboxes().rows
    created = {row.sandbox_id for row in ledger if row.event == "created"}
    assert created
    assert created <= {row.sandbox_id for row in ledger if row.event == "stopped"}


def test_the_first_ctrl_c_saves_the_step_in_hand(train: Train) -> None:
    done = train(*SMALL, "--steps", "50", until=lambda line: step_of(line) == 1, signals=(signal.SIGINT,))
    assert done.code == 130
    checkpoint = last_checkpoint(done.run / "checkpoints")
    assert checkpoint is not None
    assert "stopping: finishing and saving this step" in done.stderr
    assert f"the policy after {checkpoint.step} of 50 steps is saved in {checkpoint.path}" in done.stderr
    assert "hint: sandrl grpo --resume run" in done.stderr
    reader = RunReader(done.run)
    assert [row.step for row in reader.metrics().rows] == list(range(checkpoint.step))
    assert reader.config.jobs[-1].outcome is RunOutcome.INTERRUPTED
    assert disagreements(reader, is_complete=True) == ()


def test_the_second_ctrl_c_gives_the_step_up_and_leaves_no_sandbox(train: Train) -> None:
    both = (signal.SIGINT, signal.SIGTERM)
    done = train(*SMALL, "--steps", "50", until=lambda line: step_of(line) == 1, signals=both)
    assert done.code in (130, 143), done.stderr
    assert "Traceback" not in done.stderr
    ledger = RunReader(done.run).sandboxes().rows
    created = {row.sandbox_id for row in ledger if row.event == "created"}
    assert created <= {row.sandbox_id for row in ledger if row.event == "stopped"}


def test_a_loss_that_is_no_number_ends_the_run_and_names_the_last_good_checkpoint(train: Train) -> None:
    # A step of this size makes weights that overflow when they are multiplied.
    options = ("--learning-rate", "9e18", "--save-steps", "1", "--steps", "5", "--set", "max_grad_norm=0")
    done = train(*SMALL, *options)
    assert done.code == 1, done.stderr
    assert "the policy is unusable" in done.stderr or "probabilities are not finite" in done.stderr
    assert f"the last good checkpoint is {done.run}/checkpoints/checkpoint-" in done.stderr


@pytest.fixture
def hopeless(tmp_path: Path) -> Path:
    path = tmp_path / "hopeless.jsonl"
    rows = [{"task_id": f"p{n}", "prompt": "?", "tests": ["assert False"]} for n in range(2)]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def test_rewards_that_never_differ_are_shown_and_end_as_nothing_trained(train: Train, hopeless: Path) -> None:
    done = train(*SMALL, "--problems", hopeless, "--steps", "2")
    assert done.code == 1
    assert "groups with equal rewards 2/2" in done.stdout
    # The default for the tiny policy has an entropy term.
    said = "rewards have trained nothing, only entropy_coef changed the policy: within each problem, all rewards were"
    assert f"{said} equal in all 2 steps" in done.stderr
    assert len(done.metrics()) == 2


def test_an_interrupted_run_without_different_rewards_is_interrupted_and_can_be_resumed(
    train: Train, hopeless: Path
) -> None:
    words = (*SMALL, "--problems", hopeless, "--steps", "40", "--set", "entropy_coef=0")
    done = train(*words, until=lambda line: line.startswith("Step 1/"), signals=(signal.SIGTERM,))
    assert done.code == 128 + signal.SIGTERM, done.stderr
    assert "nothing was trained" not in done.stderr
    assert "sandrl grpo --resume run" in done.stderr


def test_steps_without_code_are_shown_and_not_fatal(train: Train) -> None:
    done = train(*SMALL, "--extract", "fence", "--steps", "2")
    assert done.stdout.count("0 of 0 completions with code passed, 0 executions in sandboxes, 8 without code") == 2
    assert [row["step"] for row in done.metrics()] == [0, 1]


def test_steps_that_cannot_be_scored_are_shown_and_not_fatal(train: Train, tmp_path: Path) -> None:
    path = tmp_path / "unsplittable.jsonl"
    tests = ["import random\nrandom.seed(1)\nx = f()\nrandom.seed(1)\nassert f() == x"]
    rows = [{"task_id": f"p{n}", "prompt": "Same.", "tests": tests} for n in range(2)]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    done = train(*SMALL, "--problems", path, "--steps", "2", "--require-isolated")
    assert "unscorable 100%" in done.stdout or "without code" in done.stdout
    assert [row["metrics"]["reward/mean"] for row in done.metrics()] == [None, None] or "without code" in done.stdout
    assert done.code == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--model", "/no/such/model"), "there is no model '/no/such/model'"),
        (("--set", "remove_unused_columns=true"), "the reward function needs every column of the dataset"),
        (("--loss-type", "nonsense"), "--loss-type"),
        (("--resume", "nothing"), "no run"),
    ],
)
def test_what_cannot_work_is_one_line(train: Train, words: tuple[str, ...], message: str) -> None:
    done = train(*SMALL, "--problems", "toy", *words)
    assert done.code == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_episodes_with_tools_are_trained_on_what_they_submit(train: Train) -> None:
    done = train(*SMALL, "--rollout", "tools", "--tools", "all", "--steps", "2")
    assert done.code in (0, 1), done.stderr
    reader = RunReader(done.run)
    assert [row.step for row in reader.metrics().rows] == [0, 1]
    assert reader.metrics().rows[0].metrics["tools/call_frequency"]
    submitted = [row for row in reader.trajectories().rows if row.code]
    assert submitted
    # The answer is what was submitted, not what was said.
    assert all(row.completion and row.code and row.code not in row.completion for row in submitted)
    for row in reader.trajectories().rows:
        assert [message.role for message in row.messages[:3]] == ["system", "user", "assistant"]
        calls = [call for message in row.messages for call in message.tool_calls]
        results = [message for message in row.messages if message.role == "tool"]
        assert 0 < row.tokens["conversation"] <= 160
        # TRL takes back what would make an episode too long.
        assert len(results) <= len(calls)
        assert (row.episode["end"] == "submitted") == bool(row.code)
        assert row.episode["end"] in {
            "submitted",
            "no tool calls",
            "no tool calls left",
            "the conversation became too long",
        }
        assert (
            0 <= int(str(row.episode["tool_calls"])) <= len(calls)
            or row.episode["end"] == "the conversation became too long"
        )
    for row in submitted:
        calls = [call for message in row.messages for call in message.tool_calls if call.name == "submit_solution"]
        assert json.loads(calls[0].arguments)["code"] == row.code
    shown = subprocess.run(
        [sys.executable, "-m", "sandrl", "runs", "show", done.run, "--grep", "Submitted"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "assistant calls submit_solution:" in shown
    assert "tool submit_solution:\nSubmitted." in shown
    assert disagreements(reader, is_complete=True) == ()


def test_a_reward_function_and_components_are_what_is_trained_on(train: Train, tmp_path: Path) -> None:
    (tmp_path / "my_rewards.py").write_text(
        "def scaled(verdict, completion):\n    return 2.0 * verdict.is_pass - 0.5\n", encoding="utf-8"
    )
    (tmp_path / "c.toml").write_text('reward = "my_rewards:scaled"\nformat_reward = 0.25\n', encoding="utf-8")
    done = train(*SMALL, "--steps", "2", "--config", "c.toml")
    assert done.code in (0, 1), done.stderr
    reader = RunReader(done.run)
    rows = reader.trajectories().rows
    assert rows
    assert {(row.status == "passed", row.reward) for row in rows} <= {(True, 1.5), (False, -0.5)}
    assert all(row.components.keys() == {"format"} for row in rows)
    assert reader.config.options["reward"] == "my_rewards:scaled"
    assert disagreements(reader, is_complete=True) == ()
    (tmp_path / "d.toml").write_text('reward = "my_rewards:missing"\n', encoding="utf-8")
    refused = train(*SMALL, "--config", "d.toml", name="refused")
    assert refused.code == 2
    assert "has no 'missing'" in refused.stderr
    assert not refused.run.exists()
