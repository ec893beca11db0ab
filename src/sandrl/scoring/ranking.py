"""Ranks the answers of a group by a model, as a reward function for trainers (RULER of openpipe-art works this way).

Answers to one prompt are graded together, relative to one another, in one question. Grades of one question are not
comparable with those of another, and need not be: GRPO compares within a group. So if the judge fails, no answer of the
group has a reward; a group of one answer has nothing to be compared with, and no reward either.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sandrl.errors import UsageError
from sandrl.scoring.grading import Grading, judge_of
from sandrl.scoring.trainer_batch import Text, answer_of, text_of

_AT_ONCE = 16
_MOST_ANSWERS = 64


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
        if (most := max(map(len, groups.values()), default=0)) > _MOST_ANSWERS:
            raise UsageError(f"a group has {most} answers, and at most {_MOST_ANSWERS} can be ranked in one question")
        judge = judge_of(self._grading)
        judge.check()
        rewards: list[float | None] = [None] * len(completions)
        ranked = [(task, numbers) for task, numbers in groups.items() if len(numbers) > 1]
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="sandrl-judge") as threads:
            asked = [
                threads.submit(judge.rank, task, [answer_of(completions[number]) for number in numbers])
                for task, numbers in ranked
            ]
            for (_, numbers), grades in zip(ranked, asked, strict=True):
                for number, grade in zip(numbers, grades.result(), strict=True):
                    rewards[number] = grade.score
        return rewards
