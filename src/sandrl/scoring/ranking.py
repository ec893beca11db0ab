"""Ranks the answers of a group by a model, as RULER of openpipe-art does: for steps of runs, and for other trainers.

Answers to one prompt are graded together, relative to one another, in one question. Grades of one question are not
comparable with those of another, and need not be: GRPO compares within a group. So if the judge fails, no answer of the
group has a reward; a group of one answer has nothing to be compared with, and no reward either.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

from sandrl.config.parts import MOST_RANKED
from sandrl.errors import InterruptedRunError, UsageError
from sandrl.events import Emit, ignore
from sandrl.events.results import ScoredCompletion, Status
from sandrl.problems import Problem
from sandrl.runs import MessageRow
from sandrl.sandboxes import Interrupt, Level
from sandrl.scoring.grading import Grade, Grading, ModelJudge, judge_of
from sandrl.scoring.trainer_batch import Text, answer_of, text_of

_AT_ONCE = 16
_ALONE = Grade(None, "no other answer of the group has a reward, so there is nothing to compare it with")
_INCOMPLETE = Grade(None, "the step ended before the answers of the group were ranked")


def ranking(grading: Grading) -> Ranking:
    """A reward function in TRL's shape that ranks the answers to each prompt, from 0.0 to 1.0.

    Give it to `reward_function(components=[(ranking(…), weight)])` or to `combined_rewards`. All answers to a prompt
    must be in one call.

    Args:
        grading: The model, and what it grades by; its weight is not used.
    """
    return Ranking(grading)


class Ranking:
    """The reward function; it can be pickled."""

    def __init__(self, grading: Grading) -> None:
        # Trainers name their columns after it.
        self.__name__ = "ranking"
        self._grading = grading

    def __call__(self, prompts: Sequence[Text], completions: Sequence[Text], **columns: Any) -> list[float | None]:
        """Ranks a batch of N rows.

        Returns:
            N rewards from 0.0 to 1.0; `None` for all answers of a group whose ranking failed.

        Raises:
            UsageError: If a group has more answers than one question can have, or the judge has no such model.
            AuthenticationError: If the judge's endpoint refuses the key.
        """
        groups: defaultdict[str, list[int]] = defaultdict(list)
        for number, prompt in enumerate(prompts):
            groups[text_of(prompt)].append(number)
        if (most := max(map(len, groups.values()), default=0)) > MOST_RANKED:
            raise UsageError(f"a group has {most} answers, and at most {MOST_RANKED} can be ranked in one question")
        judge = judge_of(self._grading)
        judge.check()
        rewards: list[float | None] = [None] * len(completions)
        ranked = {task: numbers for task, numbers in groups.items() if len(numbers) > 1}
        asked = [(task, [answer_of(completions[number]) for number in numbers]) for task, numbers in ranked.items()]
        for numbers, grades in zip(ranked.values(), _rank_all(judge, asked, Interrupt()), strict=True):
            for number, grade in zip(numbers, grades, strict=True):
                rewards[number] = grade.score
        return rewards


class GroupRanking:
    """Ranks the scored completions of a step, those of each problem with one another, as a component of their rewards.

    Args:
        grading: The model, what it ranks by, and the weight of the component `ranking`.
        interrupt: The user's request not to wait.

    Raises:
        SandrlError: If the model cannot be asked.
    """

    def __init__(self, grading: Grading, interrupt: Interrupt, emit: Emit = ignore) -> None:
        self._judge = judge_of(grading)
        self._judge.check(emit)
        self._interrupt = interrupt

    def ranked(
        self, results: Sequence[ScoredCompletion], answers: Sequence[str], problems: Mapping[str, Problem]
    ) -> list[ScoredCompletion]:
        """Ranks the N answers of a step, of which some have no reward anyway.

        Args:
            answers: The texts that are compared.

        Returns:
            N results; none of a group whose ranking failed has a reward.

        Raises:
            InterruptedRunError: If the user does not want to wait.
            AuthenticationError: If the judge's endpoint refuses the key.
        """
        groups: defaultdict[str, list[int]] = defaultdict(list)
        for number, result in enumerate(results):
            if result.reward is not None:
                groups[result.task_id].append(number)
        asked = [
            (problems[task_id].prompt, [answers[number] for number in numbers])
            for task_id, numbers in groups.items()
            if len(numbers) > 1
        ]
        found = iter(_rank_all(self._judge, asked, self._interrupt))
        ranked = list(results)
        for numbers in groups.values():
            grades = next(found) if len(numbers) > 1 else [_ALONE]
            for number, grade in zip(numbers, grades, strict=True):
                ranked[number] = self._with(results[number], grade)
        return ranked

    def unranked(self, result: ScoredCompletion) -> ScoredCompletion:
        """A result whose group was not completed."""
        return result if result.reward is None else self._with(result, _INCOMPLETE)

    def _with(self, result: ScoredCompletion, grade: Grade) -> ScoredCompletion:
        if grade.score is None:
            return replace(result, reward=None, status=Status.JUDGE_ERROR, detail=grade.reason, components={})
        weight = self._judge.grading.weight
        return replace(result, components={**result.components, "ranking": weight * grade.score})


def episode_text(messages: Sequence[MessageRow]) -> str:
    """What is ranked of an episode: the last answer, or with calls of tools all that follows the prompt."""
    said = [place for place, message in enumerate(messages) if message.role == "assistant"]
    if not any(messages[place].tool_calls for place in said):
        return messages[said[-1]].content if said else ""
    return "\n\n".join(map(_line, messages[said[0] :]))


def _line(message: MessageRow) -> str:
    calls = (f"\n{call.name}({call.arguments})" for call in message.tool_calls)
    return f"{message.role}: {message.content}{''.join(calls)}"


def _rank_all(
    judge: ModelJudge, groups: Sequence[tuple[str, Sequence[str]]], interrupt: Interrupt
) -> list[list[Grade]]:
    # The grades of groups of answers, each with its task.
    threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="sandrl-judge")
    try:
        asked = [threads.submit(judge.rank, task, answers) for task, answers in groups]
        waiting: set[Future[Any]] = set(asked)
        while waiting:
            if interrupt.level is Level.CANCEL:
                raise InterruptedRunError("interrupted", signal_number=interrupt.signal_number)
            waiting -= wait({*waiting, interrupt.waker()}, return_when=FIRST_COMPLETED).done
        return [each.result() for each in asked]
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
