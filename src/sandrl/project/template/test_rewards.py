"""Tests of `rewards.py`: run them with `pytest`, or without it with `python3 test_rewards.py`."""

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

from rewards import LONG, PENALTY, reward

HERE = Path(__file__).resolve().parent


def reward_of(*, is_pass, length):
    """The reward of code of a length, without a sandbox."""
    return reward(SimpleNamespace(is_pass=is_pass), SimpleNamespace(code="x" * length))


def test_short_code_earns_more_than_long_code():
    assert 1.0 >= reward_of(is_pass=True, length=10) > reward_of(is_pass=True, length=100)
    assert reward_of(is_pass=True, length=LONG) == reward_of(is_pass=True, length=2 * LONG) == 1.0 - PENALTY


def test_code_that_fails_earns_nothing():
    assert reward_of(is_pass=False, length=10) == 0.0


def test_the_completions_earn_what_they_deserve():
    """Runs the completions in sandboxes, with the configuration of this project."""
    command = ["sandrl", "reward", "completions.jsonl", "--config", "sandrl.toml", "--json"]
    done = subprocess.run(command, cwd=HERE, stdout=subprocess.PIPE, check=True)
    rewards = {result["id"]: result["reward"] for result in json.loads(done.stdout)["results"]}
    assert [name for name, value in rewards.items() if value == 0.0] == ["runs-2", "balance-2"]
    assert all(value > 0.9 for name, value in rewards.items() if name not in ("runs-2", "balance-2"))


if __name__ == "__main__":
    for name, test in sorted(globals().items()):
        if name.startswith("test_"):
            test()
            print(f"passed: {name}")
