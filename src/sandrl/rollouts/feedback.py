"""The feedback on an attempt: the result of the model's code, in its own sandbox, on the checks that its prompt shows.

Feedback cannot contain anything that the prompt hides, because hidden checks never enter the sandbox of an episode.
If hidden checks fail, the model receives only this fact, one bit, and no details.
"""

from __future__ import annotations

from typing import TypeAlias

from sandrl.answers.selection import join
from sandrl.events.results import ScoredCompletion, Status, is_cut_off
from sandrl.models.messages import Message
from sandrl.problems import Case, Problem
from sandrl.rollouts.sandbox import EpisodeSandbox, observation

ShownChecks: TypeAlias = tuple[tuple[str, ...], tuple[Case, ...]]
"""The tests and cases that a prompt shows."""

ATTEMPTS_INSTRUCTION = (
    "Solve the task in Python. Reply with the complete code in one ```python block. If it fails, you are told how, and"
    " may try again."
)
"""The system message of an episode in attempts."""

NO_CODE = "No code was found in your answer. Reply with the complete code, in the form you were asked for."
CUT_OFF = (
    "Your answer was cut off at its maximum length before it had any code. Think less, and reply with the complete"
    " code, in the form you were asked for."
)
OTHERS_FAIL = (
    "Tests failed. Error output:\nYour code does what the task shows, but not all of what it asks for. Think of other"
    " inputs, and reply with the complete code."
)

_TASK = "Your answer does not solve the task: {}\nReply with another one, in the form you were asked for."

_FILE = "solution.py"
_STORE = f"cat > {_FILE}"


def told_of_task(result: ScoredCompletion, said: Message) -> str:
    """What a model is to read about an answer to a task, which its verifier has judged."""
    if result.status is Status.NO_CODE:
        return CUT_OFF if is_cut_off(said.finish_reason) else NO_CODE
    return _TASK.format(result.detail or f"its reward is {result.reward:g}")


def try_shown(sandbox: EpisodeSandbox, problem: Problem, code: str, shown: ShownChecks) -> str:
    """Runs code, as `solution.py`, with the checks that a prompt shows.

    Returns what a model is to read about it, empty if nothing is wrong. Programs in other languages than Python are not
    tried: what is wrong with them, the judge alone finds out.
    """
    if not problem.is_python:
        return ""
    tests, cases = shown
    program = "\n\n".join([code, problem.setup, *tests]) if tests else code
    if problem.prelude:
        program = join([problem.prelude, program])
    if problem.cases and not cases:
        return _run(sandbox, program, None, just_compile=True)
    return next((wrong for case in cases or (None,) if (wrong := _run(sandbox, program, case, problem=problem))), "")


def _run(
    sandbox: EpisodeSandbox,
    program: str,
    case: Case | None,
    *,
    problem: Problem | None = None,
    just_compile: bool = False,
) -> str:
    run = f"python -m py_compile {_FILE}" if just_compile else f"python {_FILE}"
    if case is None:
        outcome = sandbox.outcome("sh", "-c", f"{_STORE} && exec {run} < /dev/null", stdin=program)
    else:
        stored = sandbox.outcome("sh", "-c", _STORE, stdin=program)
        outcome = None if stored is None else sandbox.outcome("sh", "-c", f"exec {run}", stdin=case.stdin)
    if outcome is None:
        return ""
    if outcome.timed_out:
        return "Your code took too long and was stopped. Look for loops that do not end, and reply with faster code."
    if outcome.exit_code:
        return f"Tests failed. Error output:\n{observation(outcome)}"
    printed = outcome.stdout.decode("utf-8", "replace")
    if case is None or (problem and problem.tolerance) or printed.split() == case.stdout.split():
        return ""
    return f"Tests failed. Error output:\nFor the example input your code printed:\n{observation(outcome)}"
