"""Reads a trainer's batch as completions of known problems.

Trainers pass prompts and completions in different forms: as text or as conversations, with the problem's name in a
column or without one. This module handles all of these forms, and the scoring code receives only completions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from sandrl.errors import UsageError
from sandrl.problems import Completion, Problem, render_prompt
from sandrl.sandboxes import step_tag

Message: TypeAlias = Mapping[str, Any]
Text: TypeAlias = "str | Sequence[Message]"
"""A prompt or a completion: plain text, or a conversation.

Of a prompt the last message with text counts; of a completion the last one that the assistant wrote.
"""

_ASSISTANT = "assistant"

# Prompts are known again that show up to so many checks, or all of them.
_FEW_CHECKS = 3


class BatchReader:
    def __init__(self, problems: Mapping[str, Problem]) -> None:
        self._problems = problems
        self._by_prompt: dict[str, tuple[str, ...]] | None = None

    def completions(
        self,
        prompts: Sequence[Text],
        completions: Sequence[Text],
        task_ids: Sequence[object] | None,
        environments: Sequence[object] | None = None,
    ) -> list[Completion]:
        """The completions of a batch, each with its problem.

        Args:
            task_ids: The names of the N problems; without them a row's problem is the one with its prompt.
            environments: N of them; of one that has a `submission`, that is taken instead of the completion, and one
                that has a `loss` cannot be scored, for that reason.

        Raises:
            UsageError: If a row's problem is unknown, the lists are of different lengths, or an entry is no text.
        """
        for name, texts in (("prompts", prompts), ("completions", completions)):
            _check_texts(name, texts)
        if any(each is not None and len(each) != len(completions) for each in (prompts, task_ids, environments)):
            raise UsageError("prompts, completions, task_id and environments must have one entry per completion")
        rows = []
        for number, (prompt, completion) in enumerate(zip(prompts, completions, strict=True)):
            task_id = self._task_id(number, prompt) if task_ids is None else str(task_ids[number])
            if task_id not in self._problems:
                raise UsageError(f"row {number} of the batch: there is no problem {task_id!r}")
            environment = None if environments is None else environments[number]
            code, loss = getattr(environment, "submission", None), str(getattr(environment, "loss", ""))
            rows.append(
                Completion(f"{task_id}#{number}", task_id, completion=answer_of(completion), code=code, loss=loss)
            )
        return rows

    def _task_id(self, number: int, prompt: Text) -> str:
        if self._by_prompt is None:
            self._by_prompt = _by_prompt(self._problems.values())
        found = self._by_prompt.get(text_of(prompt).strip(), ())
        if len(found) == 1:
            return found[0]
        reason = "no problem has its prompt" if not found else f"{len(found)} problems have its prompt"
        raise UsageError(f"row {number} of the batch: {reason}", hint="add a column `task_id` to the dataset")


def answer_of(completion: Text) -> str:
    """The text of a completion; of a conversation, that of the last message with any that the assistant wrote.

    What tools answer, and what a user says at the end, is in the completion of a trainer, too, and earns no reward. A
    message without a role is the assistant's.
    """
    if isinstance(completion, str):
        return completion
    return text_of([each for each in completion if each.get("role", _ASSISTANT) == _ASSISTANT])


def text_of(message: Text) -> str:
    """The text of a prompt or a message; of a conversation, that of its last message that has any."""
    if isinstance(message, str):
        return message
    for each in reversed(message):
        content = each.get("content")
        if isinstance(content, str) and content:
            return content
        if isinstance(content, Sequence) and not isinstance(content, str):
            parts = [str(part["text"]) for part in content if isinstance(part, Mapping) and "text" in part]
            if parts:
                return "".join(parts)
    return ""


def _check_texts(name: str, texts: object) -> None:
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise UsageError(f"{name} must be a list with an entry per completion, not of the type {type(texts).__name__}")
    for number, text in enumerate(texts):
        is_conversation = isinstance(text, Sequence) and all(isinstance(each, Mapping) for each in text)
        if not isinstance(text, str) and not is_conversation:
            raise UsageError(f"{name}[{number}] must be a string or a list of messages, not {text!r:.60}")


def step_tags(trainer_state: object) -> tuple[str, ...]:
    step = getattr(trainer_state, "global_step", None)
    return (step_tag(step),) if isinstance(step, int) else ()


def _by_prompt(problems: Iterable[Problem]) -> dict[str, tuple[str, ...]]:
    # What a model is told of a problem: the bare prompt, or the rendered one with few or all checks shown.
    found: dict[str, tuple[str, ...]] = {}
    for problem in problems:
        shown = {*range(_FEW_CHECKS + 1), problem.check_count}
        texts = {problem.prompt.strip(), *(render_prompt(problem, show_tests=count).text.strip() for count in shown)}
        for text in texts:
            found[text] = (*found.get(text, ()), problem.task_id)
    return found
