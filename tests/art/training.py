"""What the tests of trainings share: a server that trains the tiny policy, and a teacher it can learn from."""

from __future__ import annotations

import re
from collections import Counter

from sandrl.problems import load_problems
from tests.support.scripted_model import Answer, Question, Says

RENDERER = "qwen3_instruct"
"""The renderer that writes what the tiny policy's template does, token for token."""

WINDOW = 4096
"""How many tokens the tiny policy may read here: conversations with tools are long in its short vocabulary."""

PROBLEMS = load_problems("tiny:train").problems


def reference(question: Question) -> str:
    asked = "\n".join(str(message.get("content")) for message in question.messages)
    return next(str(each.reference) for each in PROBLEMS.values() if each.prompt.strip("\n") in asked)


class Uneven:
    """A teacher: of four episodes of a problem one is right at once, one after an error, and two never."""

    def __init__(self) -> None:
        self._episodes: Counter[str] = Counter()

    def __call__(self, question: Question) -> Answer:
        right = reference(question)
        if question.turn:
            said = str(next(each for each in question.messages if each["role"] == "assistant"))
            number = int(re.search(r"episode (\d+)", said)[1])  # type: ignore[index]
        else:
            number = self._episodes[right]
            self._episodes[right] += 1
        is_right = number % 4 == 0 or (number % 4 == 1 and question.turn)
        code = right if is_right else f"def wrong(n):\n    return {question.turn}"
        if "tools" not in question.body:
            return Says(f"<answer>{code}  # episode {number}</answer>", logprobs=False)
        call = ("submit_solution", {"code": code}) if question.turn else ("execute_code", {"code": "print(1)"})
        return Says(f"Turn {question.turn} of episode {number}.", [call], logprobs=False)
