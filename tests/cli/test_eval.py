"""`sandrl eval` of a model behind an endpoint, as a user runs it, piped."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from sandrl.config.eval import EvalConfig
from sandrl.config.layers import resolve
from sandrl.config.toml import read_toml
from sandrl.installation import install_command
from sandrl.problems import load_problems
from sandrl.runs import RunReader
from sandrl.settings import load_settings
from tests.cli.conftest import Run
from tests.support.chat_server import ChatServer

PROMPTS = {problem.prompt: problem for problem in load_problems("toy").problems.values()}


def half_right(body: dict[str, Any]) -> str:
    """Right where the seed is even."""
    problem = PROMPTS[body["messages"][-1]["content"]]
    code = problem.reference if body["seed"] % 2 == 0 else "print('no')\n"
    return f"Sure!\n<answer>\n{code}</answer>"


def test_sampled_answers_of_an_endpoint_are_scored(sandrl: Run) -> None:
    with ChatServer(half_right) as server:
        done = sandrl("eval", "--base-url", server.base_url, "--problems", "toy", "--samples", "2", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["model"], document["problems"], document["samples"]) == ("scripted", 5, 2)
    assert document["summary"]["pass_rate"] == 0.5
    assert document["summary"]["n"] == 10
    assert [message["role"] for message in server.requests[0]["messages"]] == ["system", "user"]
    assert "<answer>" in server.requests[0]["messages"][0]["content"]


def test_more_answers_than_a_batch_holds_keep_their_places(sandrl: Run) -> None:
    with ChatServer(half_right) as server:
        words = ("--problems", "toy", "--samples", "3", "--batch-size", "4", "--run-name", "batches")
        done = sandrl("eval", "--base-url", server.base_url, *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == [
        "Model: scripted, sampled at temperature 1",
        "Problems: 5 of toy, 3 completions per problem",
    ]
    rows = RunReader(load_settings().runs_dir / "batches").trajectories().rows
    by_index = {row.index: row for row in rows}
    assert sorted(by_index) == list(range(15))
    assert [by_index[index].reward for index in range(15)] == [float(index % 2 == 0) for index in range(15)]


def test_a_gate_a_key_and_an_error_end_as_elsewhere(sandrl: Run) -> None:
    with ChatServer(half_right, key="sk-secret-secret") as server:
        words = ("eval", "--base-url", server.base_url, "--problems", "toy", "--greedy", "--num-problems", "2")
        refused = sandrl(*words)
        assert (refused.returncode, "set OPENAI_API_KEY" in refused.stderr) == (3, True)
        gated = sandrl(*words, "--fail-under", "0.9", OPENAI_API_KEY="sk-secret-secret")
    assert gated.returncode == 1, gated.stderr
    assert gated.stdout.splitlines()[1] == "Problems: 2 of toy, 1 completion per problem"
    assert "Model: scripted, 2 problems, 1 completion per problem" in gated.stderr.splitlines()
    assert server.requests[-1]["temperature"] == 0
    run_dir = re.search(r"^Run: (.*)$", gated.stderr, re.MULTILINE)
    assert run_dir is not None
    assert "sk-secret" not in gated.stdout + gated.stderr


def test_a_file_configures_an_evaluation_and_resuming_reads_all_of_it_back(sandrl: Run, tmp_path: Path) -> None:
    file, run = tmp_path / "eval.toml", tmp_path / "runs" / "filed"
    rewarded = ("--reward", "fraction", "--length-penalty", "0.5", "--check-timeout", "5", "--no-cache")
    with ChatServer(half_right) as server:
        words = ("--base-url", server.base_url, "--problems", "toy", "--num-problems", "2", "--samples", "2")
        printed = sandrl("eval", *words, *rewarded, "--print-config")
        assert printed.returncode == 0, printed.stderr
        file.write_text(printed.stdout)
        first = sandrl("eval", "--config", file, "--runs-dir", run.parent, "--run-name", run.name, "--json")
        assert first.returncode == 0, first.stderr
        (run / "trajectories.jsonl").write_bytes(b"")
        again = sandrl("eval", "--resume", run, "--json")
    assert again.returncode == 0, again.stderr
    options = RunReader(run).config.options
    asked = resolve(EvalConfig, read_toml(EvalConfig, file), {"runs_dir": run.parent, "run_name": run.name})
    found = {"model": "scripted", "batch_size": 32}
    assert {name: options[name] for name in EvalConfig.model_fields} == {**asked.document(), **found}
    assert (asked.reward, asked.check_timeout_seconds, asked.caching) == ("fraction", 5.0, False)
    before, after = (json.loads(done.stdout)["results"] for done in (first, again))
    assert [result["reward"] for result in after] == [1.0, 0.0, 1.0, 0.0] == [result["reward"] for result in before]
    assert all(result["components"]["length"] < 0 for result in after)


@pytest.mark.skipif(find_spec("torch") is not None, reason="`torch` is installed here")
def test_without_the_extra_the_command_that_installs_it_is_named(sandrl: Run, tmp_path: Path) -> None:
    for words in (("eval",), ("policy", "build", "tiny", "somewhere")):
        done = sandrl(*words)
        assert done.returncode == 2
        assert done.stderr == (
            "sandrl: error: the package 'torch' is not installed\n"
            f"  hint: {install_command('grpo', directory=tmp_path)}\n"
        )
