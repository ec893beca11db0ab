"""From a training without a key to an export, to an evaluation and to further training: one model all the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandrl.runs import RunReader
from sandrl.settings import load_settings
from tests.support.tinker_serve import served
from tests.support.tinker_server.process import made

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

PROBLEMS = ("--problems", "tiny:test", "--num-problems", "16")
QUESTION = ("--samples", "1", "--temperature", "0", "--extract", "exact", "--max-tokens", "48")
NO_KEYS = dict.fromkeys(
    ("ART_TINKER_API_KEY", "TINKER_API_KEY", "TINKER_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL"), ""
)
# The environment of `make venv-grpo`, beside this one: transformers and TRL of other versions, and peft.
GRPO = Path(sys.prefix).parent / ".venv-grpo" / "bin" / "python"

Sandrl = Callable[..., str]


@pytest.fixture
def sandrl(tmp_path: Path) -> Sandrl:
    """Runs a command without a key, in this environment or that of another Python; its output."""

    def run(*words: str | Path, python: str | Path = sys.executable) -> str:
        known = {**os.environ, **NO_KEYS, "SANDRL_CACHE_DIR": str(load_settings().cache_dir)}
        done = subprocess.run(
            [python, "-m", "sandrl", *map(str, words)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**known, "SANDRL_RUNS_DIR": str(tmp_path / "runs"), "OMP_NUM_THREADS": "1"},
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    return run


def answers_of(run: Path) -> dict[str, str]:
    """The answer to each problem of an evaluation."""
    return {row["task_id"]: row["text"] for row in map(json.loads, (run / "answers.jsonl").read_text().splitlines())}


def passed(run: Path) -> dict[str, bool]:
    return {row.task_id: row.status == "passed" for row in RunReader(run).trajectories().rows}


def greedy_answers(run: Path, prompts: dict[str, str], kind: str, state: Path) -> dict[str, str]:
    """What the service answers with the last checkpoint of a training, before any export."""
    import tinker
    from transformers import AutoTokenizer

    checkpoint = max((run / "tinker").glob("*/sampler_weights/step_*"), key=lambda place: place.name)
    path = f"tinker://{checkpoint.parent.parent.name}/sampler_weights/{checkpoint.name}"
    # That of the training; an evaluation has the same.
    instruction = RunReader(run).trajectories().rows[0].messages[0].content
    base_model = json.loads((checkpoint / "about.json").read_text())["base_model"]
    tokenizer: Any = AutoTokenizer.from_pretrained(base_model)
    params = tinker.SamplingParams(max_tokens=48, temperature=0.0)
    with served(state, "--model", base_model, "--state", run / "tinker", kind) as service:
        sampler = made(service.client.create_sampling_client(model_path=path))
        futures = {}
        for name, prompt in prompts.items():
            said = [{"role": "system", "content": instruction}, {"role": "user", "content": prompt}]
            text = tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True)
            tokens = tokenizer(text, add_special_tokens=False)["input_ids"]
            futures[name] = sampler.sample(tinker.ModelInput.from_ints(tokens), 1, params)
        drawn = {name: future.result().sequences[0].tokens for name, future in futures.items()}
    return {name: tokenizer.decode(tokens, skip_special_tokens=True) for name, tokens in drawn.items()}


@pytest.mark.parametrize("kind", ["--lora", "--no-lora"])
def test_a_trained_model_answers_alike_in_the_service_and_as_an_export_and_is_trained_further(
    sandrl: Sandrl, tmp_path: Path, kind: str
) -> None:
    runs = tmp_path / "runs"
    small = ("--num-problems", "8", "--samples", "4", "--report-to", "none", "--learning-rate", "2e-3")
    sandrl("art", "train", kind, *small, "--steps", "3", "--run-name", "one")
    assert sandrl("art", "export", "one", "--to", "trained") == "trained\n"
    sandrl("eval", "--model", "trained", *PROBLEMS, *QUESTION, "--run-name", "after")
    problems = map(json.loads, (runs / "after" / "problems.jsonl").read_text().splitlines())
    prompts = {row["task_id"]: row["prompt"] for row in problems}
    answers = answers_of(runs / "after")
    assert len(answers) == 16
    assert greedy_answers(runs / "one", prompts, kind, tmp_path / "state") == answers
    sandrl("eval", "--model", "tiny", *PROBLEMS, *QUESTION, "--run-name", "before")
    assert answers_of(runs / "before") != answers, "the training changed nothing"
    if not GRPO.exists():
        pytest.skip(f"there is no {GRPO} (make venv-grpo)")
    if kind == "--lora":
        sandrl("art", "export", "one", "--to", "adapters", "--adapters")
        sandrl("eval", "--model", "adapters", *PROBLEMS, *QUESTION, "--run-name", "adapters", python=GRPO)
        assert answers_of(runs / "adapters") == answers
        assert passed(runs / "adapters") == passed(runs / "after")
    further = ("--problems", "tiny:train", "--num-problems", "8", "--eval-problems", "0", "--steps", "1")
    groups = ("--samples", "4", "--batch-size", "16", "--extract", "exact")
    sandrl("grpo", "--model", "trained", *further, *groups, "--run-name", "further", python=GRPO)
    assert [row.step for row in RunReader(runs / "further").metrics().rows if row.metrics.get("loss") is not None]
