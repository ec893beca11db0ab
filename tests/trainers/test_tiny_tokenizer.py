from __future__ import annotations

from pathlib import Path

from sandrl.tiny.policy import make_model
from sandrl.tiny.recipe import Recipe
from sandrl.tiny.tokenizer import train_tokenizer


def test_a_saved_tokenizer_cuts_text_as_the_trained_one_did(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    recipe = Recipe()
    trained = train_tokenizer(recipe)
    make_model(recipe, trained).save_pretrained(tmp_path)
    trained.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    for text in ("n plus 7, 27 and\n\n 72", "<answer>\ndef f(n):\n    return n\n</answer>", "ünïcode ‘quotes’ 'll"):
        assert loaded.encode(text) == trained.encode(text)
