"""The cookbook's renderer writes conversations with the tiny policy token for token as its own template does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

REASON = "not installed: tinker_cookbook (make test-art)"
renderers: Any = pytest.importorskip("tinker_cookbook.renderers", reason=REASON)
tokenizer_utils: Any = pytest.importorskip("tinker_cookbook.tokenizer_utils", reason=REASON)

from sandrl.problems import ANSWER_INSTRUCTION, chat_prompt  # noqa: E402
from sandrl.problems.tiny import tasks  # noqa: E402
from sandrl.tiny.demonstrations import answer_text  # noqa: E402

NAME = "qwen3_instruct"


def test_prompts_answers_and_ends_are_the_same(untrained_policy: Path) -> None:
    tokenizer = tokenizer_utils.get_tokenizer(str(untrained_policy))
    renderer = renderers.get_renderer(NAME, tokenizer, model_name=str(untrained_policy))
    assert renderer.get_stop_sequences() == [tokenizer.eos_token_id]
    for task in tasks("train")[::50]:
        question = chat_prompt(task.to_problem(), instruction=ANSWER_INSTRUCTION)
        answer = {"role": "assistant", "content": answer_text(task)}
        for messages in (question, [*question, answer, {"role": "user", "content": "Again, with 27 and ünï."}]):
            expected = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
            tokens = renderer.build_generation_prompt(messages).to_ints()
            assert tokens == tokenizer.encode(expected, add_special_tokens=False)
            assert tokenizer.decode(tokens) == expected
        said = tokenizer.encode(answer["content"], add_special_tokens=False)
        message, end = renderer.parse_response([*said, tokenizer.eos_token_id])
        # Later versions of the cookbook say how it ended.
        assert (message, getattr(end, "value", end)) in [(answer, True), (answer, "stop_sequence")]
