"""Demonstrations for the tiny policy: problems that are solved in text or with a tool."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sandrl.config.words import ToolSet
from sandrl.problems.problem import Problem
from sandrl.problems.prompts import ANSWER_INSTRUCTION, SUBMIT_INSTRUCTION, chat_prompt
from sandrl.rollouts.calls import tool_schemas
from sandrl.rollouts.tools import TOOLS as SETS

LAST_WORD = "Done."
"""What the policy says when its solution is submitted."""


_EXECUTE, _SUBMIT, *_OTHERS = ({"type": "function", "function": each} for each in tool_schemas(SETS[ToolSet.ALL]))
# The policy meets every choice of tools that the commands offer, in either order.
TOOLS: tuple[list[dict[str, Any]], ...] = (
    [_SUBMIT],
    [_EXECUTE, _SUBMIT],
    [_SUBMIT, _EXECUTE],
    [_EXECUTE, _SUBMIT, *_OTHERS],
    [_SUBMIT, _EXECUTE, *_OTHERS],
)
# What a tool may say is for the tool to decide; the policy learns to be done whatever it is.
_OBSERVATIONS = ("passed", "failed", "All 3 checks passed.", "1 of 3 checks passed.", "Submitted.", "error: timeout")


class Kind(Protocol):
    @property
    def name(self) -> str: ...


class Lesson(Protocol):
    """A problem that the policy learns from: the right answer, and the one mistake of the problem's kind."""

    @property
    def kind(self) -> Kind: ...

    @property
    def right(self) -> str: ...

    @property
    def wrong(self) -> str: ...

    def to_problem(self) -> Problem: ...


@dataclass(frozen=True, slots=True)
class Course:
    """What a policy learns from: lessons, and the names of all of their kinds."""

    kinds: tuple[str, ...]
    lessons: tuple[Lesson, ...]


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A conversation, and the tools that the policy is offered in it; None for none."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None


def answer_in_text(lesson: Lesson, *, right: bool = True) -> Demonstration:
    prompt = chat_prompt(lesson.to_problem(), instruction=ANSWER_INSTRUCTION)
    return Demonstration([*prompt, {"role": "assistant", "content": answer_text(lesson, right=right)}])


def answer_with_tool(lesson: Lesson, choice: random.Random, *, right: bool = True) -> Demonstration:
    """A problem whose answer is submitted through a tool, and the end of the conversation."""
    prompt = chat_prompt(lesson.to_problem(), instruction=SUBMIT_INSTRUCTION)
    code = lesson.right if right else lesson.wrong
    call = {"type": "function", "function": {"name": "submit_solution", "arguments": {"code": code}}}
    messages: list[dict[str, Any]] = [
        *prompt,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": "submit_solution", "content": choice.choice(_OBSERVATIONS)},
        {"role": "assistant", "content": LAST_WORD},
    ]
    return Demonstration(messages, choice.choice(TOOLS))


def answer_text(lesson: Lesson, *, right: bool = True) -> str:
    """What the policy should write where it answers in text."""
    return f"<answer>\n{lesson.right if right else lesson.wrong}</answer>"


class NoisyTeacher:
    """Right on each kind of task with one of two chances, by kind in turn, and else wrong in that kind's one way."""

    def __init__(self, kinds: Sequence[str], chances: Sequence[float], choice: random.Random) -> None:
        mixed = list(kinds)
        choice.shuffle(mixed)
        self._chance = {kind: chances[place % len(chances)] for place, kind in enumerate(mixed)}
        self._choice = choice

    def is_right(self, lesson: Lesson) -> bool:
        return self._choice.random() < self._chance[lesson.kind.name]
