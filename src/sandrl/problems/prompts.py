"""The text that a model receives: the task, and at most a few of the checks of its answer.

Checks stay hidden by default, because a model that sees all of them can answer with a table of values. Shown checks are
counted in single asserts, not in snippets: HumanEval packs a whole suite into one snippet.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from sandrl.problems.calls import expression_of
from sandrl.problems.languages import PYTHON
from sandrl.problems.math_answers import MATH_INSTRUCTION
from sandrl.problems.problem import Case, Problem
from sandrl.syntax import parse

SHOWN_TESTS = 1
"""How many checks a prompt shows by default."""

ANSWER_INSTRUCTION = "Solve the task in Python. Reply with the code only, between <answer> and </answer>."
"""The system message: the form of the answer that is requested, in training and in evaluation."""

SUBMIT_INSTRUCTION = "Solve the task in Python. Submit the code with the tool submit_solution."
"""The system message where answers are given through a tool, `submit_solution(code)`."""

TASK_INSTRUCTION = (
    "Solve the task with the tools, which work in its machine. Call submit when it is solved: the state of the machine"
    " is your answer."
)
"""The system message of a task where its machine is worked on with tools."""


_TITLES = {"cpp": "C++", "javascript": "JavaScript", "typescript": "TypeScript", "php": "PHP"}


@dataclass(frozen=True, slots=True)
class Prompt:
    text: str
    shown: int
    hidden: int


def render_prompt(problem: Problem, *, show_tests: int = SHOWN_TESTS) -> Prompt:
    """Renders the text a model is shown.

    At most `show_tests` asserts or cases are shown, from the first on, and no test in part. No case is shown of a
    program that has no input. It names the entry point where nothing else in it does.
    """
    parts = [problem.prompt.strip("\n")]
    tests, cases = shown_checks(problem, show_tests)
    starter = problem.starter_code.strip("\n")
    if starter and starter not in problem.prompt:
        parts.append("Begin with this code:")
        parts.append(fenced(starter, problem.language))
    texts = (problem.prompt, starter, *tests)
    if (name := problem.entry_point) and not any(re.search(rf"\b{re.escape(name)}\b", text) for text in texts):
        parts.append(f"Name it `{problem.entry_point}`.")
    if tests:
        parts.append(f"Your code should pass {'this test' if len(tests) == 1 else 'these tests'}:")
        parts.append(fenced("\n".join(test.strip("\n") for test in tests), "python"))
    parts += [f"Example input:\n\n{fenced(case.stdin)}\n\nIts output:\n\n{fenced(case.stdout)}" for case in cases]
    shown = len(tests) + len(cases)
    return Prompt("\n\n".join(parts), shown, problem.check_count - shown)


def shown_checks(problem: Problem, show_tests: int) -> tuple[tuple[str, ...], tuple[Case, ...]]:
    """The tests and cases that a prompt gives away (see `render_prompt`).

    A test in another language than Python is a whole suite, so no part of it is shown.
    """
    # What a program prints that never reads anything is the answer itself.
    if problem.asks_reference:
        return (), ()  # nobody knows what these return before the reference has run
    if problem.fn is not None:
        function = expression_of(problem.fn)
        return tuple(call.as_assert(function) for call in problem.calls[: max(show_tests, 0)]), ()
    reads = any(case.stdin for case in problem.cases)
    # In another language than Python a test is a part of a program, and often no whole sentence of it.
    tests = _within(problem.tests, show_tests) if problem.is_python else ()
    return tests, problem.cases[: max(show_tests, 0)] if reads else ()


def chat_prompt(
    problem: Problem, *, show_tests: int = SHOWN_TESTS, instruction: str = ANSWER_INSTRUCTION
) -> list[dict[str, str]]:
    """The conversation a model is to continue: a system message about the form of the answer, then the problem."""
    return [
        {"role": "system", "content": asked_of(problem, instruction)},
        {"role": "user", "content": render_prompt(problem, show_tests=show_tests).text},
    ]


def asked_of(problem: Problem, instruction: str) -> str:
    """An instruction to write Python as one to write what answers a problem: its language, or a script or patch."""
    if problem.answer is not None and instruction == ANSWER_INSTRUCTION:
        return MATH_INSTRUCTION
    if problem.task is not None:
        what, fence = ("patch", "diff") if problem.task.format.startswith("swe") else ("script", "bash")
        for python, other in (
            (" in Python.", f" with a {'shell script' if what == 'script' else 'patch, a unified diff'}."),
            ("the code", f"the {what}"),
            ("the complete code", f"the complete {what}"),
            ("```python", f"```{fence}"),
        ):
            instruction = instruction.replace(python, other)
        return instruction
    if problem.language == PYTHON:
        return instruction
    title = _TITLES.get(problem.language, problem.language.capitalize())
    return instruction.replace("in Python", f"in {title}").replace("```python", f"```{problem.language}")


def _within(tests: tuple[str, ...], asserts: int) -> tuple[str, ...]:
    for count, test in enumerate(tests):
        asserts -= _count_asserts(test)
        if asserts < 0:
            return tests[:count]
    return tests


def _count_asserts(test: str) -> int:
    try:
        nodes = list(ast.walk(parse(test)))
    except SyntaxError:
        return 1
    return max(sum(isinstance(node, ast.Assert) for node in nodes), 1)


def fenced(text: str, language: str = "") -> str:
    """A fenced block, its fence longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(longest + 1, 3)
    return f"{fence}{language}\n{text.removesuffix(chr(10))}\n{fence}"
