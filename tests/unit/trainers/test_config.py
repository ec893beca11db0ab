from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sandrl.config.grpo import GrpoConfig
from sandrl.config.layers import parse_assignments
from sandrl.config.toml import read_toml, to_toml
from sandrl.errors import InputError, UsageError
from sandrl.trainers.arguments import checked_fields
from sandrl.trainers.config import changed_key, resolve


def test_defaults_follow_the_model() -> None:
    tiny, real = resolve({}), resolve({"model": "org/model"})
    assert (tiny.problems, tiny.batch_size, tiny.extract.value, tiny.set["adam_beta2"]) == ("tiny", 128, "exact", 0.99)
    assert (real.problems, real.batch_size, real.extract.value) == ("mbpp", 32, "auto")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batch_size": 12}, "batch_size: 12 is not a multiple of samples, which is 8; every group must be complete"),
        ({"samples": 1}, "samples: Input should be greater than or equal to 2, not 1"),
        ({"learning_rate": float("nan")}, "learning_rate: Input should be a finite number"),
        ({"vllm_server_url": "http://x"}, "vllm_server_url: requires vllm = server"),
        ({"lerning_rate": 1}, "there is no option 'lerning_rate'; did you mean 'learning_rate'?"),
    ],
)
def test_an_impossible_value_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(given)
    assert caught.value.message.startswith(message)


def test_what_is_printed_can_be_read_back(tmp_path: Path) -> None:
    config = resolve({"model": 'a "quoted"\tname', "tags": ["ü", "b\x7f"], "set": {"generation_kwargs": {"a": [1.5]}}})
    path = tmp_path / "config.toml"
    path.write_text(to_toml(config), encoding="utf-8")
    assert resolve({}, read_toml(GrpoConfig, path)) == config
    assert tomllib.loads(path.read_text("utf-8"))["set"] == {
        "gradient_accumulation_steps": 4,
        "generation_kwargs": {"a": [1.5]},
    }


def test_a_missing_file_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_toml(GrpoConfig, tmp_path / "none.toml")


def test_an_address_with_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError, match="vllm_server_url contains a user or password") as caught:
        resolve({"vllm": "server", "vllm_server_url": "http://me:hunter2@localhost:8000"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "key"),
    [({}, None), ({"steps": 61}, "steps"), ({"set": {"top_p": 0.9}}, "top_p"), ({"extract": "auto"}, "extract")],
)
def test_the_first_key_that_changed_is_named(given: dict[str, Any], key: str | None) -> None:
    assert changed_key(resolve({}), resolve(given)) == key


@dataclass
class Fields:
    """Stands for TRL's configuration where that is not installed."""

    learning_rate: float = 0.0
    weight_decay: float = 0.0
    bf16: bool | None = None
    top_k: int = 0
    reward_weights: list[float] | None = None
    generation_kwargs: dict[str, Any] | str | None = None
    name: str | None = None


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("weight_decay=1e-4", 1e-4),
        ("bf16=true", True),
        ("bf16=none", None),
        ("top_k=20", 20),
        ("reward_weights=[1, 0.5]", [1.0, 0.5]),
        ('generation_kwargs={"a": 1}', '{"a": 1}'),
        ("name=a=b", "a=b"),
    ],
)
def test_fields_get_the_type_that_is_declared_for_them(word: str, value: object) -> None:
    [typed] = checked_fields(parse_assignments("set", [word]), Fields).values()
    assert typed == value
    assert type(typed) is type(value)


@pytest.mark.parametrize(
    ("word", "message", "hint"),
    [
        ("weight_deca=1", "has no such field; did you mean 'weight_decay'?", None),
        ("top_k=many", "set top_k=many: has the wrong type; TRL declares int", None),
        ("learning_rate=1", "set 'learning_rate': sandrl sets this field itself", "use `learning_rate`"),
        ("nothing", "set: 'nothing' is not key=value", None),
        ("=1", "set: '=1' is not key=value", None),
    ],
)
def test_a_field_that_cannot_be_set_is_explained(word: str, message: str, hint: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        checked_fields(parse_assignments("set", [word]), Fields)
    assert message in caught.value.message
    assert caught.value.hint == hint


@pytest.mark.parametrize("given", [{"eval_every": 5}, {"eval_set": "mbpp:test"}])
def test_where_nothing_is_evaluated_on_no_more_can_be_said_of_evaluations(given: dict[str, Any]) -> None:
    name = next(iter(given))
    with pytest.raises(UsageError, match=f"{name}: has no effect with eval_problems = 0; leave one of them out"):
        resolve({**given, "eval_problems": 0})


def test_a_policy_is_evaluated_before_and_after_and_in_between_where_that_is_wanted() -> None:
    plain, often = resolve({"steps": 10}), resolve({"steps": 10, "eval_every": 4})
    assert [step for step in range(11) if plain.is_evaluated_after(step)] == [0, 10]
    assert [step for step in range(11) if often.is_evaluated_after(step)] == [0, 4, 8, 10]
