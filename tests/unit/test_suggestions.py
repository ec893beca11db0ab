"""An unknown name is answered with the name that has its meaning, if there is one in that place, and with no other."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from tests.support.command_line import leaf_commands

from sandrl.cli.app import main
from sandrl.cli.unknown import option_meant
from sandrl.config.layers import resolve
from sandrl.config.scoring import RewardConfig
from sandrl.config.serve import POLICIES, RequestOptions
from sandrl.config.toml import read_toml
from sandrl.errors import InputError, UsageError
from sandrl.problems.sources import NAMED_SETS
from sandrl.service.models import ExecuteRequest, ScoreRequest
from sandrl.settings import RuntimeKind, runtime_problem
from sandrl.suggestions import _WORDS, COMMANDS, NOTES, VALUES, folded, meant

ALL = leaf_commands()
OPTIONS = {
    words: {flag for each in command.params for flag in (*each.opts, *each.secondary_opts)}
    for words, command in ALL.items()
}


def test_every_name_of_the_tables_exists() -> None:
    known = {folded(each.name) for command in ALL.values() for each in command.params}
    known |= {name for model in (ScoreRequest, ExecuteRequest, RequestOptions) for name in model.model_fields}
    assert {folded(target.partition("=")[0]) for target in _WORDS} <= known
    assert {tuple(path.split()) for path in COMMANDS} <= set(ALL)
    values = {*RuntimeKind, *POLICIES, *(each.name for each in NAMED_SETS)}
    assert set(VALUES) <= values


def test_no_word_of_the_tables_stands_twice_in_a_row() -> None:
    for table in (_WORDS, COMMANDS, VALUES):
        for words in table.values():
            assert len(set(words.split())) == len(words.split())


@pytest.mark.parametrize("words", [pytest.param(each, id=" ".join(each)) for each in ALL])
def test_only_options_that_a_command_has_are_suggested(words: tuple[str, ...]) -> None:
    command = ALL[words]
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    known = sorted({word for others in _WORDS.values() for word in others.split()})
    # Every word takes half a minute.
    for word in [*known[::20], "zzz", "num_foo", "frobnicate"]:
        suggested = option_meant(command, f"--{word.replace('_', '-')}", "5")
        if suggested.startswith("the argument "):
            assert arguments
        elif suggested:
            assert suggested.split()[0] in OPTIONS[words]


@pytest.mark.parametrize(
    ("command", "given", "suggested"),
    [
        # The Aviato guide
        ("art train", "--num-steps 5", "--steps 5"),
        ("art rollout", "--num-steps=5", "--steps 5"),
        ("art train", "--trajectories-per-problem 4", "--samples 4"),
        ("art rollout", "--batch-size 4", "--problems-per-step 4"),
        ("eval", "--dataset-split test", "--problems SET:test"),
        ("art train", "--dataset-limit 20", "--num-problems 20"),
        ("eval", "--n 5", "--samples 5"),
        ("eval", "-n 5", "--samples 5"),
        ("reward", "--max-concurrency 8", "--concurrency 8"),
        # Peers
        ("grpo", "--num-generations 8", "--samples 8"),
        ("grpo", "--num_generations 8", "--samples 8"),
        ("grpo", "--numGenerations 8", "--samples 8"),
        ("eval", "--max-new-tokens 64", "--max-tokens 64"),
        ("eval", "--max_tokens 64", "--max-tokens 64"),
        ("grpo", "--lr 1e-5", "--learning-rate 1e-5"),
        ("grpo", "--learning_rate 1e-5", "--learning-rate 1e-5"),
        ("eval", "--n_samples 3", "--samples 3"),
        ("eval", "--limit 3", "--num-problems 3"),
        ("redteam", "--workers 4", "--concurrency 4"),
        ("problems validate", "--num-workers 4", "--concurrency 4"),
        ("eval", "--dataset mbpp", "--problems mbpp"),
        ("reward", "--input c.jsonl", "the argument c.jsonl, without an option"),
        ("reward", "--samples c.jsonl", "the argument c.jsonl, without an option"),
        ("reward", "--output o.jsonl", "--out o.jsonl"),
        ("reward", "--timeout-seconds 3", "--timeout 3"),
        ("reward", "--mem 1G", "--sandbox-memory 1G"),
        ("eval", "--model-name x", "--model x"),
        ("art train", "--model-name x", "--base-model x"),
        ("eval", "--api-base http://localhost:8000/v1", "--base-url http://localhost:8000/v1"),
        ("eval", "-model 'a b'", "--model 'a b'"),
        ("grpo", "--kl-coef 0.1", "--beta 0.1"),
        ("reward", "--partial-credit", "--reward fraction"),
        ("eval", "--do-sample", "--greedy"),
        ("runs ls", "-n 3", "--limit 3"),
        ("runs rm", "--force", "--yes"),
        # Spelling, and words in another order
        ("reward", "--no-cahe", "--no-cache"),
        ("eval", "--temprature 0.2", "--temperature 0.2"),
        ("eval", "--model-temperature 0.2", "--temperature 0.2"),
        ("serve", "--parallel-requests 9", "--concurrency 9"),
    ],
)
def test_an_unknown_option_is_answered_with_the_option_and_the_value(
    command: str, given: str, suggested: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), *shlex.split(given)]) == 2
    out, err = capsys.readouterr()
    error, hint = err.splitlines()
    word = given.partition(" ")[0].partition("=")[0]
    assert out == ""
    assert error == f"sandrl: error: sandrl {command} has no option {word}; did you mean {suggested}?"
    assert hint == f"  hint: all options: sandrl {command} --help-all"


def test_all_unknown_options_are_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["art", "train", "--num-steps", "5", "--zzz", "--problems", "mbpp", "--dataset-limit=20"]) == 2
    assert capsys.readouterr().err.splitlines()[0] == (
        "sandrl: error: sandrl art train has no options --num-steps (did you mean --steps 5?), --zzz, --dataset-limit"
        " (did you mean --num-problems 20?)"
    )


def test_a_split_belongs_to_the_set_that_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "--problems", "mbpp", "--dataset-split", "test"]) == 2
    assert "did you mean --problems mbpp:test?" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["--zzz", "--frobnicate", "--x", "-"])
def test_where_nothing_fits_nothing_is_suggested(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", word]) == 2
    err = capsys.readouterr().err
    assert "did you mean" not in err


@pytest.mark.parametrize("word", sorted(NOTES))
def test_a_name_without_a_counterpart_is_explained(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", f"--{word.replace('_', '-')}", "1"]) == 2
    assert NOTES[word] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "meant_"),
    [
        ("train", "sandrl grpo"),
        ("evaluate", "sandrl eval"),
        ("rewards", "sandrl reward"),
        ("score", "sandrl reward"),
        ("regrade", "sandrl runs regrade"),
        ("ls", "sandrl runs ls"),
        ("rollout", "sandrl art rollout"),
        ("dashboard", "sandrl view"),
        ("ps", "sandrl sandboxes ls"),
        ("metric", "sandrl metrics"),
        ("problem", "sandrl problems"),
        ("runs list", "sandrl runs ls"),
        ("runs delete", "sandrl runs rm"),
        ("sandboxes stop", "sandrl sandboxes cleanup"),
        ("sandboxes list", "sandrl sandboxes ls"),
        ("art run", "sandrl art rollout"),
        ("problems list", "sandrl problems ls"),
    ],
)
def test_an_unknown_command_is_answered_with_the_command(
    given: str, meant_: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(given.split()) == 2
    assert f"; did you mean {meant_!r}?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("key", "field"),
    [
        ("timeout", "timeout_seconds"),
        ("max-sandboxes", "max_sandboxes"),
        ("map", "fields"),
        ("dataset", "problems"),
        ("num_workers", "concurrency"),
        ("maxConcurrency", "concurrency"),
        ("memory", "sandbox_memory_bytes"),
        ("conccurrency", "concurrency"),
    ],
)
def test_an_unknown_key_is_answered_with_the_key(tmp_path: Path, key: str, field: str) -> None:
    path = tmp_path / "c.toml"
    path.write_text(f"{key} = 1\n", encoding="utf-8")
    with pytest.raises(InputError, match=f"no such key; did you mean '{field}'"):
        read_toml(RewardConfig, path)
    with pytest.raises(UsageError, match=f"did you mean '{field}'"):
        resolve(RewardConfig, {key: 1})


def test_words_for_runtimes_rewards_and_sets_are_known() -> None:
    assert "did you mean 'local'?" in runtime_problem("container")
    assert "did you mean 'remote'?" in runtime_problem("cwsandbox")
    assert "did you mean 'local'?" in runtime_problem("lcoal")
    assert (found := meant("accuracy", POLICIES, VALUES)) is not None
    assert found.name == "binary"
    assert (found := meant("partial-credit", POLICIES, VALUES)) is not None
    assert found.name == "fraction"
    sets = [each.name for each in NAMED_SETS]
    for word, name in (
        *((each, "humaneval") for each in ("human-eval", "HumanEval", "humanevl", "openai_humaneval")),
        *(
            ("mbpp+", "mbppplus"),
            ("HumanEval+", "humanevalplus"),
            ("lcb", "livecodebench"),
            ("code_contests", "codecontests"),
        ),
    ):
        assert (found := meant(word, sets, VALUES)) is not None
        assert found.name == name
    assert meant("gsm8k", sets, VALUES) is None
