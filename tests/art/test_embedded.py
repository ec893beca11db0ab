"""`sandrl art train` and `art rollout` with nothing set: an embedded service, found by nobody and gone with its run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandrl.models.messages import TOKEN_ID
from sandrl.runs import RunReader, disagreements
from sandrl.settings import load_settings
from sandrl.trainers.art.results import GRADIENT_STEPS, STEP
from tests.support.wandb_api import wandb_api

pytestmark = pytest.mark.timeout(600)

Command = Callable[..., subprocess.Popen[str]]
SMALL = ("--num-problems", "4", "--samples", "4", "--report-to", "none")
NO_KEYS = dict.fromkeys(
    ("ART_TINKER_API_KEY", "TINKER_API_KEY", "TINKER_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL"), ""
)
FIRST_LINE = "Tinker: embedded (no key is set), model tiny"


@pytest.fixture(scope="module")
def cache() -> Path:
    """A cache that has the tiny policy."""
    from sandrl.tiny import tiny_policy

    cache_dir = load_settings().cache_dir
    tiny_policy(cache_dir)
    return cache_dir


@pytest.fixture
def command(cache: Path, tmp_path: Path) -> Iterator[Command]:
    """Starts `sandrl art` where no key is set."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: str | Path, **environment: str) -> subprocess.Popen[str]:
        known = {**os.environ, **NO_KEYS, "SANDRL_RUNS_DIR": str(tmp_path / "runs"), "SANDRL_CACHE_DIR": str(cache)}
        process = subprocess.Popen(
            [sys.executable, "-m", "sandrl", "art", *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**known, **environment},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    stdout, stderr = process.communicate(timeout=300)
    return process.returncode, stdout, stderr


def services_of(process: subprocess.Popen[str]) -> list[int]:
    """The processes of embedded services that a command has started."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == process.pid and b"sandrl.trainers.tinker" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except (OSError, ValueError, IndexError):
            continue
    return found


def is_gone(pid: int) -> bool:
    """Whether a process is over, or soon will be."""
    ends_at = time.monotonic() + 20
    while time.monotonic() < ends_at:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False


def until_step(process: subprocess.Popen[str], step: int) -> None:
    """Waits until a training has made a step."""
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if line.startswith(f"Step {step}/"):
            return
    raise AssertionError("".join(seen) + (process.stderr.read() if process.stderr else ""))


def gradient_steps(run: Path) -> list[float | None]:
    rows = RunReader(run).metrics().rows
    return [row.metrics[STEP] for row in rows if row.metrics.get(GRADIENT_STEPS)]


def listeners_of(pid: int) -> set[str]:
    """The addresses, in the kernel's writing, at which a process listens."""
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.add(os.readlink(descriptor))
        except OSError:
            continue
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                found.add(fields[1])
    return found


def test_a_bare_command_trains_the_tiny_policy(command: Command, tmp_path: Path) -> None:
    process = command("train", *SMALL, "--steps", "2", "--run-name", "bare")
    until_step(process, 1)
    (service,) = services_of(process)
    # It listens on this machine alone; its key is in no command line and in no environment.
    (address,) = listeners_of(service)
    assert address.startswith("0100007F:")
    assert b"tml-" not in Path(f"/proc/{service}/cmdline").read_bytes()
    assert b"tml-" not in Path(f"/proc/{service}/environ").read_bytes()
    assert b"tml-" not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
    code, _, stderr = ended(process)
    assert code == 0, stderr
    assert stderr.splitlines()[0] == FIRST_LINE
    assert is_gone(service)
    run = tmp_path / "runs" / "bare"
    assert gradient_steps(run) == [1, 2]
    assert not disagreements(RunReader(run), is_complete=True)
    options = RunReader(run).config.options
    assert (options["backend"], options["base_model"], options["renderer"]) == ("embedded", "tiny", "qwen3_instruct")
    written = [path.read_bytes() for path in run.rglob("*") if path.is_file()]
    assert not [content for content in written if b"tml-" in content]
    assert not (run / "tinker.log").exists()


@pytest.mark.parametrize("overlap", ["none", "step"])
def test_a_run_that_was_killed_leaves_no_service_and_goes_on(command: Command, tmp_path: Path, overlap: str) -> None:
    words = ("--backend", "tinker", *SMALL, "--overlap", overlap)
    process = command("train", *words, "--steps", "3", "--run-name", "killed")
    until_step(process, 1)
    (service,) = services_of(process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert is_gone(service)
    # A key that has been set since changes nothing: the checkpoints are in the run.
    code, _, stderr = ended(command("train", "--resume", "killed", TINKER_API_KEY="tml-of-someone-else"))
    assert code == 0, stderr
    assert stderr.splitlines()[0] == "Tinker: embedded (the run was started with it), model tiny"
    assert gradient_steps(tmp_path / "runs" / "killed") == [1, 2, 3]
    rows = RunReader(tmp_path / "runs" / "killed").trajectories().rows
    assert Counter(row.step for row in rows) == dict.fromkeys(range(3), 16)
    checkpoints = (tmp_path / "runs" / "killed" / "tinker").glob("*/weights/*")
    assert max(path.name for path in checkpoints) == "step_000003"


def test_the_end_of_the_service_ends_the_training_at_once(command: Command, tmp_path: Path) -> None:
    process = command("train", *SMALL, "--steps", "50", "--run-name", "lost")
    until_step(process, 1)
    (service,) = services_of(process)
    os.kill(service, signal.SIGKILL)
    code, _, stderr = ended(process)
    assert code == 3, stderr
    assert "sandrl: error: the embedded Tinker service has ended: exit code -9" in stderr
    assert "hint: sandrl art train --resume lost" in stderr
    assert "Traceback" not in stderr
    begun = len(gradient_steps(tmp_path / "runs" / "lost"))
    process = command("train", "--resume", "lost", "--steps", str(begun + 1))
    code, _, stderr = ended(process)
    assert code == 0, stderr
    assert gradient_steps(tmp_path / "runs" / "lost") == list(range(1, begun + 2))


def test_episodes_are_played_while_the_step_before_theirs_is_trained(command: Command, tmp_path: Path) -> None:
    words = ("--num-problems", "4", "--samples", "4", "--steps", "3", "--overlap", "step", "--run-name", "ahead")
    with wandb_api() as api:
        keys = {"WANDB_API_KEY": "0123456789" * 4, "WANDB_BASE_URL": api.url, "WANDB_MODE": "online"}
        code, _, stderr = ended(command("train", *words, "--report-to", "wandb", "--log-completions", "2", **keys))
        assert code == 0, stderr
        reader = RunReader(tmp_path / "runs" / "ahead")
        assert gradient_steps(reader.path) == [1, 2, 3]
        assert [row.metrics["completions"] for row in reader.metrics().rows] == [16, 16, 16]
        assert not disagreements(reader, is_complete=True)
        (run,) = api.runs.values()
        assert [row["pass_rate"] for row in run.rows] == [row.metrics["pass_rate"] for row in reader.metrics().rows]
        assert ["table/completions" in row for row in run.rows] == [True, False, True]
        shown = [(row["task_id"], row["completion"], row["reward"]) for row in run.table(2, "table/completions")]
    played = sorted((row for row in reader.trajectories().rows if row.step == 2), key=lambda row: row.index)
    assert shown == [(row.task_id, row.messages[-1].content, row.reward) for row in played]


@pytest.mark.parametrize(("times", "overlap"), [(1, "none"), (2, "none"), (1, "step"), (2, "step")])
def test_ctrl_c_ends_the_training_and_then_the_service(
    command: Command, tmp_path: Path, times: int, overlap: str
) -> None:
    process = command("train", *SMALL, "--steps", "50", "--overlap", overlap, "--run-name", "stopped")
    until_step(process, 1)
    (service,) = services_of(process)
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
    code, _, stderr = ended(process)
    assert code == 130, stderr
    assert "hint: sandrl art train --resume stopped" in stderr
    assert is_gone(service)


def test_adapters_and_a_directory_of_ones_own(command: Command, cache: Path, tmp_path: Path) -> None:
    from sandrl.tiny import tiny_policy

    words = ("--lora", "--lora-rank", "4", "--base-model", tiny_policy(cache), "--renderer", "qwen3_instruct")
    episodes = (
        "--problems",
        "tiny",
        "--rollout",
        "attempts",
        "--max-attempts",
        "1",
        "--extract",
        "exact",
        "--max-tokens",
        "48",
    )
    process = command("train", *words, *episodes, *SMALL, "--steps", "1", "--run-name", "adapters")
    code, _, stderr = ended(process)
    assert code == 0, stderr
    (about,) = (tmp_path / "runs" / "adapters" / "tinker").glob("*/weights/step_000001/about.json")
    assert json.loads(about.read_text())["config"]["rank"] == 4
    assert gradient_steps(tmp_path / "runs" / "adapters") == [1]


@pytest.mark.parametrize("kind", ["--lora", pytest.param("--no-lora", marks=pytest.mark.slow)])
def test_an_exported_model_is_the_one_that_acts_in_the_next_step(command: Command, tmp_path: Path, kind: str) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    code, _, stderr = ended(
        command("train", kind, *SMALL, "--learning-rate", "5e-3", "--steps", "1", "--run-name", "one")
    )
    assert code == 0, stderr
    target = tmp_path / "exported"
    assert ended(command("export", "one", "--to", target))[:2] == (0, f"{target}\n")
    code, _, stderr = ended(command("train", "--resume", "one", "--steps", "2"))
    assert code == 0, stderr
    model, tokenizer = AutoModelForCausalLM.from_pretrained(target), AutoTokenizer.from_pretrained(target)
    row = next(row for row in RunReader(tmp_path / "runs" / "one").trajectories().rows if row.step == 1)
    prompt = [{"role": each.role, "content": each.content} for each in row.messages[:-1]]
    before = tokenizer.encode(tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True))
    said = [int(token.removeprefix(TOKEN_ID)) for token in row.messages[-1].tokens]
    with torch.no_grad():
        logits_TV = model(torch.tensor([before + said])).logits[0, len(before) - 1 : -1]  # noqa: N806
    logprobs = torch.log_softmax(logits_TV, dim=-1)[range(len(said)), said]
    assert logprobs.tolist() == pytest.approx(row.messages[-1].logprobs, abs=1e-3)


def test_a_run_without_a_model_cannot_be_exported(command: Command, tmp_path: Path) -> None:
    code, _, stderr = ended(command("rollout", "--model", "tiny", "--steps", "1", "--run-name", "played"))
    assert code == 0, stderr
    code, _, stderr = ended(command("export", "played", "--to", tmp_path / "target"))
    assert (code, (tmp_path / "target").exists()) == (2, False)
    assert "has no model that the embedded Tinker service has trained" in stderr


def test_the_step_of_an_export_is_one_that_is_kept(command: Command, tmp_path: Path) -> None:
    code, _, stderr = ended(command("train", *SMALL, "--steps", "1", "--run-name", "one"))
    assert code == 0, stderr
    code, _, stderr = ended(command("export", "one", "--step", "7", "--to", tmp_path / "target"))
    assert (code, (tmp_path / "target").exists()) == (2, False)
    assert "has no checkpoint of step 7; it has those of 0, 1" in stderr
    code, _, stderr = ended(command("export", "one", "--adapters", "--to", tmp_path / "target"))
    assert (code, (tmp_path / "target").exists()) == (2, False)
    assert "the checkpoint step_000001 has no adapters: the training was of all weights" in stderr
    code, _, stderr = ended(command("export", "one", "--step", "0", "--to", tmp_path / "target"))
    assert code == 0, stderr
    assert stderr.startswith("step_000000: a whole model, base model ")


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("/nonexistent/model", "there is no model '/nonexistent/model'"),
        ("empty", "does not contain a model: it has neither config.json nor adapter_config.json"),
        ("broken", "broken"),
    ],
)
def test_a_model_that_cannot_be_served_is_named(command: Command, tmp_path: Path, model: str, said: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    place = model if model.startswith("/") else tmp_path / model
    code, _, stderr = ended(
        command("train", "--base-model", place, "--renderer", "qwen3_instruct", "--problems", "tiny", *SMALL)
    )
    assert code == 2, stderr
    assert said in stderr
    assert "Traceback" not in stderr


def test_a_model_that_does_not_fit_is_refused_before_it_is_loaded(
    command: Command, cache: Path, tmp_path: Path
) -> None:
    from sandrl.tiny import tiny_policy

    policy = tiny_policy(cache)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "model.safetensors"):
        if (policy / name).exists():
            (tmp_path / name).write_bytes((policy / name).read_bytes())
    config = json.loads((policy / "config.json").read_text())
    large = {"hidden_size": 16384, "intermediate_size": 65536, "num_attention_heads": 128, "num_hidden_layers": 200}
    config.pop("layer_types", None)
    (tmp_path / "config.json").write_text(json.dumps({**config, **large, "max_window_layers": 200}))
    words = ("--base-model", tmp_path, "--renderer", "qwen3_instruct", "--problems", "tiny")
    code, _, stderr = ended(command("train", *words, *SMALL, "--run-name", "large"))
    assert code == 2, stderr
    assert "billion parameters: training it takes about" in stderr
    assert "hint: choose a smaller model, or a Tinker service" in stderr


def test_a_dry_run_says_what_it_would_be_and_makes_nothing(command: Command, tmp_path: Path) -> None:
    code, stdout, stderr = ended(command("train", "--dry-run", SANDRL_CACHE_DIR=str(tmp_path / "cache")))
    assert code == 0, stderr
    assert stdout.splitlines()[0] == (
        "Backend: embedded Tinker service (no key is set), renderer qwen3_instruct; trains tiny, all weights"
    )
    assert not (tmp_path / "cache").exists()
    assert not (tmp_path / "runs").exists()


def test_episodes_are_played_without_an_endpoint_and_can_be_trained_on(command: Command, tmp_path: Path) -> None:
    words = ("--model", "tiny", "--steps", "2", "--samples", "4", "--run-name", "played")
    code, stdout, stderr = ended(command("rollout", *words))
    assert code == 0, stderr
    assert stderr.splitlines()[0] == "Model: tiny, in this process (requested)"
    assert stdout.splitlines()[-1].startswith("Total of 2 steps: reward=0.")
    rows = RunReader(tmp_path / "runs" / "played").trajectories().rows
    assert len(rows) == 32
    assert {message.finish_reason for row in rows for message in row.messages if message.role == "assistant"} <= {
        "stop",
        "length",
    }
    recorded = ("--trajectories", "played", "--policy", "trained", "--steps", "1", "--run-name", "learned")
    code, _, stderr = ended(command("train", *recorded))
    assert code == 0, stderr
    # What was sampled in one process is as likely in the other: every ratio of the first step is 1.
    check_ratios(rows, tmp_path / "runs" / "learned")


def check_ratios(rows: Any, run: Path) -> None:
    """That the loss of a first step on recorded episodes is what their own logprobs and advantages make of it."""
    groups: dict[str, list[Any]] = {}
    for row in rows:
        if row.step == 0:
            groups.setdefault(row.task_id, []).append(row)
    expected = 0.0
    for group in groups.values():
        rewards = [row.reward for row in group]
        mean = sum(rewards) / len(rewards)
        spread = (sum((reward - mean) ** 2 for reward in rewards) / (len(rewards) - 1)) ** 0.5
        if spread:
            for row in group:
                for message in row.messages:
                    expected -= sum(message.logprobs) * (row.reward - mean) / (spread + 1e-6)
    (first,) = [row for row in RunReader(run).metrics().rows if row.metrics.get(GRADIENT_STEPS)]
    assert first.metrics["art/loss:sum"] == pytest.approx(expected, rel=1e-2)
