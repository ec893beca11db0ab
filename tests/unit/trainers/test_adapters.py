from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import JsonValue

from sandrl.errors import InputError, UsageError
from sandrl.models.adapters import Adapters, find_adapters
from sandrl.trainers.config import resolve
from sandrl.trainers.loaders import with_adapters


@pytest.fixture
def described(tmp_path: Path) -> Path:
    """A directory with the description of adapters of rank 4, without their weights."""
    content = {"peft_type": "LORA", "base_model_name_or_path": "org/base", "r": 4, "lora_alpha": 8}
    (tmp_path / "adapter_config.json").write_text(json.dumps(content), encoding="utf-8")
    return tmp_path


def test_a_directory_of_adapters_is_known_by_its_description(described: Path) -> None:
    assert find_adapters(str(described)) == Adapters(described, "org/base", 4)
    assert find_adapters("org/model") is None
    assert find_adapters(str(described.parent)) is None


def test_the_configuration_says_which_adapters_are_trained(described: Path) -> None:
    config = with_adapters(resolve({"model": str(described)}), {"model"})
    assert (config.lora, config.lora_rank) == (True, 4)
    plain = resolve({"model": "org/model"})
    assert with_adapters(plain, {"model"}) == plain


@pytest.mark.parametrize("given", [{"lora_rank": 8}, {"lora": False}])
def test_an_option_that_says_otherwise_is_refused(described: Path, given: dict[str, JsonValue]) -> None:
    words: dict[str, JsonValue] = {"model": str(described), **given}
    with pytest.raises(UsageError, match="contains adapters of rank 4, whose training is continued") as caught:
        with_adapters(resolve(words), words)
    assert caught.value.fields == tuple(given)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not a valid adapter configuration"),
        ('{"peft_type": "LORA"}', "is not a valid adapter configuration"),
        ('{"peft_type": "IA3", "base_model_name_or_path": "b"}', "of type IA3; sandrl trains only LORA adapters"),
    ],
)
def test_a_description_that_cannot_be_used_is_named(described: Path, content: str, message: str) -> None:
    (described / "adapter_config.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        find_adapters(str(described))
