"""Which generation settings are applied, and which of them a run keeps."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from pydantic import JsonValue

from sandrl.models.generation import NEUTRAL, chosen_settings, keep_neutral, own_settings, sampling_facts


def test_of_a_models_own_settings_those_that_change_something_are_found() -> None:
    found = own_settings(SimpleNamespace(repetition_penalty=1.1, top_k=0, top_p=None, temperature=0.7, max_length=20))
    assert found == {"repetition_penalty": 1.1}
    assert own_settings(None) == {}


@pytest.mark.parametrize("keywords", [{"min_p": 0.1}, json.dumps({"min_p": 0.1})], ids=["a table", "JSON"])
def test_settings_of_the_users_are_those_of_trl_and_its_table_of_keywords(keywords: object) -> None:
    fields = {"top_p": 0.9, "adam_beta2": 0.99, "generation_kwargs": keywords}
    assert chosen_settings(fields) == {"top_p": 0.9, "min_p": 0.1}


def test_a_run_keeps_what_is_applied_and_what_is_not() -> None:
    own: dict[str, JsonValue] = {"repetition_penalty": 1.1, "top_k": 20}
    facts = sampling_facts(own, chosen={"top_k": 5})
    assert facts == {"sampling": {**NEUTRAL, "top_k": 5}, "unused_model_settings": {"repetition_penalty": 1.1}}
    assert sampling_facts(own, are_used=True) == {"sampling": {**NEUTRAL, **own}, "unused_model_settings": {}}


def test_a_trainer_generates_with_neutral_values_but_those_that_the_user_chose() -> None:
    trainer = SimpleNamespace(generation_config=SimpleNamespace(top_k=5, repetition_penalty=1.1), generation_kwargs={})
    keep_neutral(trainer, {"repetition_penalty": 1.1, "top_k": 20}, {"top_k": 5})
    assert vars(trainer.generation_config) == {"top_k": 5, "repetition_penalty": 1.0}
    assert trainer.generation_kwargs == {"repetition_penalty": 1.0}
    keep_neutral(SimpleNamespace(), {"top_k": 20}, {})
