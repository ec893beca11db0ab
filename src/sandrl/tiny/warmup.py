"""The supervised warm start of the tiny policy: first clean labels, then noisy labels, so that rewards can improve it.

Noisy labels from the beginning teach nothing, and rewards cannot improve a policy that is always right.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sandrl.models import libraries
from sandrl.tiny.demonstrations import (
    Course,
    Demonstration,
    Lesson,
    NoisyTeacher,
    answer_in_text,
    answer_text,
    answer_with_tool,
)
from sandrl.tiny.recipe import Recipe

IGNORED = -100
"""The label of a token that the policy does not learn."""

_LONGEST_ANSWER = 48

Tell: TypeAlias = Callable[[str, int, float | None], None]


@dataclass(frozen=True, slots=True)
class Example:
    """A conversation as T tokens, and what is learned at each; `IGNORED` outside of the assistant's messages."""

    tokens: list[int]
    labels: list[int]


def warm_up(model: Any, tokenizer: Any, recipe: Recipe, course: Course, tell: Tell) -> None:
    """Trains a fresh model by a course until it is the tiny policy.

    `tell` gets the stage, the step in it and, where it was measured, the share of right answers.
    """
    torch = libraries.load("torch")
    choice = random.Random(recipe.seed)
    schoolbook = _Demonstrations(tokenizer, recipe, course.lessons, choice)
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.clean_rate, weight_decay=0.0)
    for step in range(1, recipe.clean_steps + 1):
        _learn(model, optimizer, schoolbook.batch(None), tokenizer.pad_token_id)
        if step % recipe.check_every == 0:
            share = share_right(model, tokenizer, schoolbook.some(recipe.checked))
            tell("right answers", step, share)
            if share >= recipe.clean_enough:
                break
    teacher = NoisyTeacher(course.kinds, recipe.teacher, choice)
    for step in range(1, recipe.muddled_steps + 1):
        for group in optimizer.param_groups:
            # Down to nothing, so that where the policy ends does not hang on the last few batches.
            group["lr"] = recipe.muddled_rate * (1 - (step - 1) / recipe.muddled_steps)
        _learn(model, optimizer, schoolbook.batch(teacher), tokenizer.pad_token_id)
        if step % recipe.check_every == 0:
            tell("noisy labels", step, None)


def share_right(model: Any, tokenizer: Any, lessons: Sequence[Lesson]) -> float:
    """The share of sampled answers that are the right one to the letter."""
    torch = libraries.load("torch")
    prompts = [_rendered(tokenizer, answer_in_text(lesson).messages[:-1], None, to_answer=True) for lesson in lessons]
    inputs = tokenizer(prompts, return_tensors="pt", padding=True, add_special_tokens=False)
    model.eval()
    with torch.no_grad():
        outputs = model.generate(**inputs, max_new_tokens=_LONGEST_ANSWER)
    model.train()
    answers: list[str] = tokenizer.batch_decode(outputs[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    right = [answer == answer_text(lesson) for answer, lesson in zip(answers, lessons, strict=True)]
    return sum(right) / len(right)


def encode(tokenizer: Any, demonstration: Demonstration) -> Example:
    """Tokenizes a conversation in the parts in which it comes about: what the policy says, and what it is told."""
    messages, tools = demonstration.messages, demonstration.tools
    example = Example([], [])
    written = ""
    for position, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before = _rendered(tokenizer, messages[:position], tools, to_answer=True)
        told = tokenizer.encode(before.removeprefix(written), add_special_tokens=False)
        written = _rendered(tokenizer, messages[: position + 1], tools, to_answer=False).removesuffix("\n")
        said = tokenizer.encode(written.removeprefix(before), add_special_tokens=False)
        example.tokens.extend(told + said)
        example.labels.extend([IGNORED] * len(told) + said)
    return example


def _rendered(tokenizer: Any, messages: list[Any], tools: list[Any] | None, *, to_answer: bool) -> str:
    return str(tokenizer.apply_chat_template(messages, tools=tools, tokenize=False, add_generation_prompt=to_answer))


class _Demonstrations:
    def __init__(self, tokenizer: Any, recipe: Recipe, lessons: Sequence[Lesson], choice: random.Random) -> None:
        self._tokenizer = tokenizer
        self._recipe = recipe
        self._lessons = lessons
        self._choice = choice
        self._order = self._forever()

    def batch(self, teacher: NoisyTeacher | None) -> list[Example]:
        batch = []
        for _ in range(self._recipe.batch):
            lesson = next(self._order)
            right = teacher is None or teacher.is_right(lesson)
            batch.append(self._example(lesson, right, with_tool=self._choice.random() < self._recipe.tool_share))
        return batch

    def some(self, count: int) -> list[Lesson]:
        return self._choice.sample(self._lessons, count)

    def _forever(self) -> Iterator[Lesson]:
        while True:
            yield from self._choice.sample(self._lessons, len(self._lessons))

    def _example(self, lesson: Lesson, right: bool, *, with_tool: bool) -> Example:
        if with_tool:
            return encode(self._tokenizer, answer_with_tool(lesson, self._choice, right=right))
        return encode(self._tokenizer, answer_in_text(lesson, right=right))


def _learn(model: Any, optimizer: Any, batch: Sequence[Example], padding: int) -> None:
    torch = libraries.load("torch")
    longest = max(len(example.tokens) for example in batch)
    tokens_BT = torch.tensor([each.tokens + [padding] * (longest - len(each.tokens)) for each in batch])  # noqa: N806
    labels_BT = torch.tensor([each.labels + [IGNORED] * (longest - len(each.labels)) for each in batch])  # noqa: N806
    # Causal attention: what comes before the padding at the end does not see it.
    loss = model(input_ids=tokens_BT, labels=labels_BT).loss
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
