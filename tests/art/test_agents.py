"""`sandrl art train --agent`: the turns of an agent of others, recorded by the proxy, are what a step trains on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandrl.runs import RunReader
from tests.art.test_art_train import Training, steps_of
from tests.art.test_art_train import training as training
from tests.support.tasks.base import import_task_base
from tests.support.tasks.shell import write_shell_task

pytestmark = pytest.mark.timeout(600)

# Asks twice, and writes down what the policy said first.
AGENT = r"""
ask() {
    wget -q -O - --header "Authorization: Bearer $OPENAI_API_KEY" --header 'Content-Type: application/json' \
        --post-data "{\"model\":\"$MODEL\",\"messages\":[$1]}" "$OPENAI_BASE_URL/chat/completions" || exit 7
}
reply=$(ask "{\"role\":\"user\",\"content\":\"$INSTRUCTION\"}") || exit
printf '%s' "$reply" > answer
ask "{\"role\":\"user\",\"content\":\"Another question.\"}" > /dev/null
"""
# So that about half of the answers are right: a number in the reply is even.
JUDGE = """#!/bin/bash
text=$(cat /home/app/answer); [ $((${#text} % 2)) = 0 ] && n=1 || n=0
echo $n > /logs/verifier/reward.txt
"""


def test_a_step_trains_on_the_turns_of_an_agent(training: Training, tmp_path: Path) -> None:
    import_task_base(os.environ)
    for name in ("one", "two"):
        write_shell_task(tmp_path / "tasks" / name, instruction=f"Say {name}.", test=JUDGE)
    (tmp_path / "shell.toml").write_text(f"run = '''{AGENT}'''\n")
    run = training.run(
        problems=str(tmp_path / "tasks"),
        agent=str(tmp_path / "shell.toml"),
        num_problems=2,
        samples=6,
        rollout="tools",
        max_attempts=3,
        extract="auto",
        steps=1,
    )
    run.raise_for_outcome()
    rows = RunReader(run.run_dir).trajectories().rows
    assert {row.status for row in rows} <= {"passed", "failed"}
    assert all(row.messages and len(row.branches) == 1 for row in rows)
    parts = [part for row in rows for part in (row.messages, *(each.messages for each in row.branches))]
    turns = [each for part in parts for each in part if each.role == "assistant"]
    assert all(each.tokens and len(each.tokens) == len(each.logprobs) for each in turns)
    [step] = steps_of(run)
    assert (step.metrics["train/tokens"] or 0) > 0
