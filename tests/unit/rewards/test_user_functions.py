"""A reward function of the user's: found from the current directory, and every mistake in it named in one line."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from sandrl.config.scoring import RewardConfig
from sandrl.errors import UsageError
from sandrl.events.results import Status, Trust
from sandrl.judge.verdict import Verdict
from sandrl.problems import Completion
from sandrl.scoring.policies import as_policy, binary, load_policy, reward_of

MODULE = """\
from dataclasses import dataclass
import helpers_of_rewards

def halved(verdict, completion):
    return helpers_of_rewards.HALF if verdict.is_pass else 0

def flawed(verdict, completion):
    return {"text": "1.0", "none": None, "inf": float("inf"), "bool": True}[completion.task_id]

def alone(verdict): return 1.0

async def later(verdict, completion): return 1.0

def leaves(verdict, completion): raise SystemExit(3)

@dataclass
class Scale:
    by: float
    def reward(self, verdict, completion):
        return self.by

scale = Scale(0.25)
NUMBER = 3
"""

PASSED = Verdict(Status.PASSED, Trust.ISOLATED, 1, 1)


@pytest.fixture(autouse=True)
def _module_in_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rewards_of_mine.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "helpers_of_rewards.py").write_text("HALF = 0.5\n", encoding="utf-8")
    (tmp_path / "broken_rewards.py").write_text("import json\n\nraise ValueError('not\\ntoday')\n", encoding="utf-8")
    (tmp_path / "needs_more.py").write_text("import a_package_nobody_has\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    # As for the installed command, whose first entry is the directory of the command itself.
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each not in ("", str(tmp_path))])
    for name in ("my_rewards", "rewards_of_mine", "helpers_of_rewards", "broken_rewards", "needs_more"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def completion(task_id: str = "double") -> Completion:
    return Completion(f"{task_id}#2", task_id, completion="text", code="code")


def test_a_function_and_an_attribute_of_an_object_are_found_from_the_current_directory() -> None:
    assert load_policy("rewards_of_mine:halved")(PASSED, completion()) == 0.5
    assert load_policy("rewards_of_mine:scale.reward")(PASSED, completion()) == 0.25
    assert sys.path[-1] == str(Path.cwd()), "what was installed comes before it, once the module is there"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fractoin", "reward is 'fractoin', which is not one of binary, fraction; did you mean 'fraction'?"),
        ("", "reward is '', which is not one of binary, fraction"),
        ("mine.py:halved()", "which is not of the form package.module:function or path/to/file.py:function"),
        ("rewards_of_mine.py", "is 'rewards_of_mine.py', which is a file without a function"),
        ("rewards_of_mine.py:", "which is a file without a function"),
        ("rewards_of_mime.py:halved", "rewards_of_mime.py; did you mean 'rewards_of_mine.py'?"),
        ("nowhere/mine.py:halved", "/nowhere/mine.py"),
        ("./rewards_of_mine.py:halfed", "rewards_of_mine.py has no 'halfed'; did you mean 'halved'?"),
        ("rewards_of_mine.py:alone", "takes (verdict) and cannot be called with 2 arguments (verdict, completion)"),
        (
            "broken_rewards.py:f",
            "broken_rewards.py cannot be imported: ValueError: not today (broken_rewards.py, line 3)",
        ),
        ("rewards_of_mine:", "which is not of the form package.module:function"),
        ("no_such:f", "there is no module 'no_such'"),
        ("rewards_of_mine.part:f", "there is no module 'rewards_of_mine.part'"),
        ("needs_more:f", "module 'needs_more' cannot be imported: ModuleNotFoundError: No module named 'a_package_nob"),
        ("broken_rewards:f", "cannot be imported: ValueError: not today (broken_rewards.py, line 3)"),
        ("rewards_of_mine:halfed", "rewards_of_mine.py) has no 'halfed'; did you mean 'halved'?"),
        ("rewards_of_mine:NUMBER", "which is of the type int, not a function"),
        ("rewards_of_mine:alone", "takes (verdict) and cannot be called with 2 arguments (verdict, completion)"),
        ("rewards_of_mine:later", "which is a coroutine function"),
    ],
)
def test_what_is_wrong_with_a_name_is_said_before_anything_runs(name: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        load_policy(name)
    assert message in raised.value.message
    assert "\n" not in raised.value.message


@pytest.mark.parametrize("place", ["rewards_of_mine.py", "./rewards_of_mine.py", "{here}/rewards_of_mine.py"])
def test_a_function_is_found_by_its_file_with_the_modules_beside_it(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load_policy(place.format(here=tmp_path) + ":halved")
    assert loaded(PASSED, completion()) == 0.5
    assert load_policy(place.format(here=tmp_path) + ":scale.reward")(PASSED, completion()) == 0.25
    flawed = load_policy(place.format(here=tmp_path) + ":flawed")
    with pytest.raises(UsageError, match=r"the reward function rewards_of_mine\.py:flawed, called for 'other#2'"):
        reward_of(PASSED, completion("other"), flawed)
    # Another process, elsewhere.
    monkeypatch.chdir("/")
    program = "import pickle, sys; f = pickle.load(sys.stdin.buffer); print(f.name, f.__wrapped__.__name__)"
    done = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(loaded), capture_output=True, check=True)
    assert done.stdout.decode().split() == [f"{tmp_path}/rewards_of_mine.py:halved", "halved"]


def test_files_of_one_name_and_of_the_name_of_a_module_are_told_apart(tmp_path: Path) -> None:
    for folder, value in (("a", 0.25), ("b", 0.75)):
        (tmp_path / folder).mkdir()
        text = f"def score(verdict, completion):\n    return {value}\n"
        for name in ("json.py", "my-rewards.py"):
            (tmp_path / folder / name).write_text(text, encoding="utf-8")
    found = [load_policy(f"{folder}/{name}:score") for folder in "ab" for name in ("json.py", "my-rewards.py")]
    assert [policy(PASSED, completion()) for policy in found] == [0.25, 0.25, 0.75, 0.75]
    assert len({*found, load_policy(str(tmp_path / "a" / ".." / "a" / "json.py") + ":score")}) == 4


def test_a_configuration_keeps_the_absolute_path_of_the_file(tmp_path: Path) -> None:
    assert RewardConfig(reward="rewards_of_mine.py:halved").reward == f"{tmp_path}/rewards_of_mine.py:halved"
    for name in ("binary", "rewards_of_mine:halved", "package.module:scale.reward"):
        assert RewardConfig(reward=name).reward == name


def test_a_policy_may_be_given_as_a_function_and_is_checked_likewise() -> None:
    assert as_policy("binary") is as_policy(binary) is binary
    with pytest.raises(UsageError, match="which is of the type int, not a function"):
        as_policy(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("task_id", "message"),
    [
        ("text", "returned a value of the type str, not a number"),
        ("inf", "returned inf: a reward must be a number from"),
        ("other", "raised KeyError: 'other' (rewards_of_mine.py, line 8)"),
    ],
)
def test_a_function_that_fails_names_itself_the_completion_and_the_reason(task_id: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        reward_of(PASSED, completion(task_id), load_policy("rewards_of_mine:flawed"))
    called = f"the reward function rewards_of_mine:flawed, called for '{task_id}#2' (passed), "
    assert raised.value.message.startswith(called + message)
    reward = reward_of(PASSED, completion("bool"), load_policy("rewards_of_mine:flawed"))
    assert (reward, type(reward)) == (1.0, float), "what is as good as a number is one"


def test_the_example_of_the_documentation_works(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "concepts" / "rewards.md").read_text(encoding="utf-8")
    example = page.partition("# my_rewards.py\n")[2].partition("```")[0]
    (tmp_path / "my_rewards.py").write_text(example, encoding="utf-8")
    brief = load_policy("my_rewards:brief")
    long = Completion("double", "double", completion="", code="x" * 1000)
    assert reward_of(PASSED, long, brief) == 0.8
    assert reward_of(Verdict(Status.FAILED, Trust.ISOLATED, 1, 2), long, brief) == 0.1
    assert (
        reward_of(Verdict(Status.NO_CODE, None, 0, 2), Completion("double", "double", completion="No."), brief) == 0.0
    )


def test_a_function_that_would_end_the_process_costs_one_reward() -> None:
    with pytest.raises(UsageError, match="raised SystemExit: 3"):
        reward_of(PASSED, completion(), load_policy("rewards_of_mine:leaves"))
