"""The records that a run keeps of the problems of its completions: each problem once, by a digest of its content.

A row holds what a reader needs to see why a completion failed, and only a part of a large problem. Checks that the
prompt does not show are marked, so that a reader who copies from a run does not give them to a model.
"""

from __future__ import annotations

from collections.abc import Iterator

from sandrl.digests import digest_of
from sandrl.problems import Problem
from sandrl.problems.calls import expression_of
from sandrl.problems.prompting import Prompting
from sandrl.problems.prompts import shown_checks
from sandrl.problems.tasks.description import script_of
from sandrl.runs import ProblemCheck, ProblemRow, RunWriter

_LONGEST_TEXT = 20_000
_LONGEST_SOURCE = 4_000
_LONGEST_SIDE = 2_000
# Of the texts of all checks of a problem.
_MOST_CHARACTERS = 60_000
_MOST_CHECKS = 1_000
_DIGEST_CHARACTERS = 16


class KeptProblems:
    """The problems of a run as this process has written them; `prompting` is None if the run asks no model."""

    def __init__(self, writer: RunWriter, prompting: Prompting | None = None) -> None:
        self._writer = writer
        self._prompting = prompting
        self._kept: dict[str, tuple[Problem, str]] = {}

    def digest_of(self, problem: Problem) -> str:
        """Writes a problem down unless that was done before, and returns its digest.

        Raises:
            ServiceError: If the row could not be written.
        """
        kept = self._kept.get(problem.task_id)
        if kept is not None and kept[0] is problem:
            return kept[1]
        row = problem_row(problem, job_id=self._writer.job_id, rank=self._writer.rank, prompting=self._prompting)
        if kept is None or kept[1] != row.digest:
            self._writer.append(row)
        self._kept[problem.task_id] = problem, row.digest
        return row.digest


def problem_row(problem: Problem, *, job_id: str, rank: int = 0, prompting: Prompting | None = None) -> ProblemRow:
    """The row of a problem; `prompting` is None if the prompt is the problem's own."""
    prompt = problem.prompt if prompting is None else prompting.text(problem)
    show_tests = None if prompting is None else prompting.show_tests
    content = {"problem": problem.check_content, "task_id": problem.task_id, "prompt": prompt}
    return ProblemRow(
        job_id=job_id,
        rank=rank,
        digest=digest_of([content]).hex()[:_DIGEST_CHARACTERS],
        task_id=problem.task_id,
        prompt=_cut(prompt, _LONGEST_TEXT),
        language=problem.language,
        kind=problem.kind,
        setup=_cut(problem.setup, _LONGEST_TEXT),
        checks=tuple(_within(_checks_of(problem, prompt, show_tests))),
        check_count=problem.check_count,
        truncated=max(len(prompt), len(problem.setup)) > _LONGEST_TEXT,
    )


def _checks_of(problem: Problem, prompt: str, show_tests: int | None) -> Iterator[ProblemCheck]:
    tests, cases = shown_checks(problem, show_tests) if show_tests is not None else ((), ())
    shown = len(tests) + len(cases)
    text = _words(prompt)
    lines = f"\n{prompt}\n"
    names = problem.check_names
    if problem.task is not None:
        scripts = [script_of(problem.task, step) for step in problem.task.steps]
        yield ProblemCheck(name="verifier", source="\n\n".join(scripts), is_hidden=True)
    elif problem.cases:
        for number, case in enumerate(problem.cases):
            # Lines of their own: single digits are in most prompts.
            is_in_prompt = all(f"\n{each.strip()}\n" in lines for each in (case.stdin, case.stdout) if each.strip())
            yield ProblemCheck(
                stdin=case.stdin, expected=case.stdout, is_hidden=number >= shown and not (case.stdin and is_in_prompt)
            )
    elif problem.calls:
        function = expression_of(problem.fn or "")
        for number, call in enumerate(problem.calls):
            source = call.as_assert(function)
            is_hidden = number >= shown and _words(source) not in text
            yield ProblemCheck(name=names[number], source=source, expected=call.expected, is_hidden=is_hidden)
    else:
        for number, test in enumerate(problem.tests):
            is_hidden = number >= shown and _words(test) not in text
            yield ProblemCheck(name=names[number], source=test, is_hidden=is_hidden)


def _within(checks: Iterator[ProblemCheck]) -> Iterator[ProblemCheck]:
    # The checks as far as there is room: of later ones texts are cut, and very late ones are left out.
    left = _MOST_CHARACTERS
    for number, check in enumerate(checks):
        if number == _MOST_CHECKS:
            return
        kept: dict[str, str] = {}
        for name, most in (("source", _LONGEST_SOURCE), ("stdin", _LONGEST_SIDE), ("expected", _LONGEST_SIDE)):
            text = getattr(check, name)
            if text:
                kept[name] = _cut(text, min(most, left))
                left -= len(kept[name])
        is_cut = any(getattr(check, name) != text for name, text in kept.items())
        yield check.model_copy(update={**kept, "truncated": True}) if is_cut else check


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: max(most - 1, 0)] + "…"


def _words(text: str) -> str:
    return " ".join(text.split())
