"""Problems and completions, read from files in all supported formats."""

from sandrl.problems.calls import Call, Comparison
from sandrl.problems.completion import Completion
from sandrl.problems.completions import (
    CompletionsLike,
    LoadedCompletions,
    as_completions,
    demo_completions,
    demo_problems,
    load_completions,
    reference_completions,
)
from sandrl.problems.formats import own_row
from sandrl.problems.loading import LoadedProblems, ProblemsLike, as_problems, load_problems, write_problems
from sandrl.problems.problem import EXIT_STATUS, Case, Problem, Tolerance
from sandrl.problems.prompts import (
    ANSWER_INSTRUCTION,
    SUBMIT_INSTRUCTION,
    TASK_INSTRUCTION,
    Prompt,
    chat_prompt,
    render_prompt,
    shown_checks,
)

__all__ = [
    "ANSWER_INSTRUCTION",
    "EXIT_STATUS",
    "SUBMIT_INSTRUCTION",
    "TASK_INSTRUCTION",
    "Call",
    "Case",
    "Comparison",
    "Completion",
    "CompletionsLike",
    "LoadedCompletions",
    "LoadedProblems",
    "Problem",
    "ProblemsLike",
    "Prompt",
    "Tolerance",
    "as_completions",
    "as_problems",
    "chat_prompt",
    "demo_completions",
    "demo_problems",
    "load_completions",
    "load_problems",
    "own_row",
    "reference_completions",
    "render_prompt",
    "shown_checks",
    "write_problems",
]
