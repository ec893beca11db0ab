"""The tokenizer of the tiny policy: byte-level BPE, trained on the conversations of the recipe.

Text is split as for Qwen 2, because transformers loads every tokenizer next to a Qwen 2 model as that class. Bytes are
the smallest units, so any text can be encoded (a file name, an error message). Digits are single tokens, so that 27 and
72 share tokens. The other tokens are frequent parts of the conversations.
"""

from __future__ import annotations

import random
import re
from typing import Any

from sandrl.models import libraries
from sandrl.problems.prompts import ANSWER_INSTRUCTION, SUBMIT_INSTRUCTION
from sandrl.problems.tiny import tasks
from sandrl.tiny.chat import CHAT_TEMPLATE, END, PADDING, RESPONSE_TEMPLATE, START
from sandrl.tiny.demonstrations import answer_in_text, answer_with_tool
from sandrl.tiny.recipe import Recipe

PHRASES = (
    *("system\n", "user\n", "assistant\n", "tool\n"),
    *(ANSWER_INSTRUCTION, SUBMIT_INSTRUCTION),
    *("\n\nYour code should pass this test:\n\n```python\nassert ", "\n```", ": it returns "),
    *("<answer>\n", "\n</answer>", "<tool_call>\n<function=", "</function>\n</tool_call>"),
    *("<parameter=code>\n", "\n</parameter>\n", "Tools:"),
    *("submit_solution", "execute_code", "\nbash(command)", "\nread_file(path)", "\nwrite_file(path, content)"),
)
"""What conversations always say in the same words; a token each, which makes them half as long."""


def train_tokenizer(recipe: Recipe) -> Any:
    """Trains a tokenizer of `transformers` with chat template and response template, ready to be saved."""
    tokenizers = libraries.load("tokenizers")
    transformers = libraries.load("transformers")
    inner = tokenizers.Tokenizer(tokenizers.models.BPE())
    inner.normalizer = tokenizers.normalizers.NFC()
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Split(tokenizers.Regex(_cuts()), behavior="isolated"),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    inner.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=recipe.vocabulary,
        special_tokens=[PADDING, START, END],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(_corpus(), trainer)
    inner.add_tokens(list(PHRASES))
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner,
        eos_token=END,
        pad_token=PADDING,
        additional_special_tokens=[START],
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=recipe.positions,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.response_template = RESPONSE_TEMPLATE
    return tokenizer


# Where Qwen 2 cuts text, as a regular expression.
def _cuts() -> str:
    return str(libraries.load("transformers.models.qwen2.tokenization_qwen2").PRETOKENIZE_REGEX)


# What the conversations say, without the phrases, which are tokens already.
def _corpus() -> list[str]:
    choice = random.Random(0)
    texts = []
    for task in tasks("train"):
        spoken = answer_in_text(task).messages + answer_with_tool(task, choice).messages
        texts += [message["content"] for message in spoken] + [task.right, task.wrong]
    phrases = re.compile("|".join(re.escape(phrase) for phrase in PHRASES))
    return [part for text in texts for part in phrases.split(text) if part]
