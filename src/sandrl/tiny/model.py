"""The model of the tiny policy: a very small Qwen 2 with new weights."""

from __future__ import annotations

from typing import Any

from sandrl.models import libraries
from sandrl.tiny.recipe import Recipe


def make_model(recipe: Recipe, tokenizer: Any) -> Any:
    """A `Qwen2ForCausalLM` with random weights, drawn from torch's generator; it samples at temperature 1.0, uncut."""
    transformers = libraries.load("transformers")
    config = transformers.Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=recipe.hidden,
        intermediate_size=recipe.intermediate,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        num_key_value_heads=recipe.key_value_heads,
        max_position_embeddings=recipe.positions,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        dtype="float32",
        initializer_range=recipe.spread,
    )
    model = transformers.Qwen2ForCausalLM(config)
    # Servers sample only where the model says so, and would cut its distribution at 50 tokens.
    model.generation_config = transformers.GenerationConfig(
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return model
