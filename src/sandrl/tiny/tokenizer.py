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
from sandrl.tiny.chat import CHAT_TEMPLATE, END, PADDING, RESPONSE_TEMPLATE, START
from sandrl.tiny.demonstrations import Course, answer_in_text, answer_with_tool
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


def train_tokenizer(recipe: Recipe, course: Course) -> Any:
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
    phrases = _phrases(course)
    inner.train_from_iterator(_corpus(recipe, course, phrases), trainer)
    inner.add_tokens(phrases)
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


# Those of every policy, and what the lessons' own system messages say.
def _phrases(course: Course) -> list[str]:
    first = (answer_in_text(lesson).messages[0]["content"] for lesson in course.lessons)
    return list(dict.fromkeys((*PHRASES, *first)))


# What the conversations say, without the phrases, which are tokens already.
def _corpus(recipe: Recipe, course: Course, phrases: list[str]) -> list[str]:
    choice = random.Random(0)
    texts = []
    for lesson in course.lessons:
        spoken = answer_in_text(lesson).messages
        if recipe.tool_share:
            spoken = spoken + answer_with_tool(lesson, choice).messages
        texts += [message["content"] for message in spoken] + [lesson.right, lesson.wrong]
    cuts = re.compile("|".join(re.escape(phrase) for phrase in phrases))
    return [part for text in texts for part in cuts.split(text) if part]
