"""Rows of HumanEval: one `check(candidate)` function, a prompt that the solution continues (arXiv:2107.03374).

The program of its graders is prompt, completion and test, also where the prompt begins no function: then it is imports
and helpers, which the completion and the test may use. HumanEval+ of the hub and others have the same fields.
"""

from __future__ import annotations

import re

from sandrl.problems.calls import SOLUTION
from sandrl.problems.fields import Identifier
from sandrl.problems.formats.row import Format, FormatRow
from sandrl.problems.imports import third_party_imports
from sandrl.problems.problem import Problem
from sandrl.syntax import parse

_DEFINES = re.compile(r"^def[ \t]+check\b", re.MULTILINE)
_CALLS = re.compile(r"^check\(", re.MULTILINE)
_CODE = re.compile(r"^(?:import|from|def|class|async[ \t]+def)\b", re.MULTILINE)


class HumanEvalRow(FormatRow):
    prompt: str
    test: str
    entry_point: Identifier
    canonical_solution: str | None = None

    def to_problem(self, name: str) -> Problem:
        solution = None if self.canonical_solution is None else self.prompt + self.canonical_solution
        return checked(name, self.prompt, self.test, self.entry_point, solution, prelude=self.prelude)


def checked(
    name: str, code: str, test: str, entry_point: str, reference: str | None, *, prompt: str = "", prelude: str = ""
) -> Problem:
    """The problem of `code` before a completion, and a function `check` that is called with what it asks for."""
    is_called = _CALLS.search(test) is not None or _DEFINES.search(test) is None
    call = "" if is_called else f"\n\ncheck({entry_point})\n"
    return Problem(
        task_id=name,
        prompt=prompt or code,
        tests=(f"{test.rstrip()}{call}",),
        setup=preamble(code, entry_point),
        entry_point=entry_point,
        reference=reference,
        prelude=prelude,
        packages=third_party_imports(prelude, code, test, reference or ""),
    )


def preamble(prompt: str, entry_point: str) -> str:
    """What a prompt gives before what it asks for: checks that use its helpers mean these, not an answer's.

    That is all of a prompt of code that does not begin what it asks for.
    """
    name = re.escape(re.split(r"\W", entry_point)[0] or SOLUTION)
    begins = re.search(rf"^(?:(?:async[ \t]+)?def|class)[ \t]+{name}\b", prompt, re.MULTILINE)
    given = prompt if begins is None else prompt[: begins.start()]
    try:
        tree = parse(given)
    except SyntaxError:
        return ""
    return given.strip() if begins is not None or (tree.body and _CODE.search(given)) else ""


HUMANEVAL = Format("HumanEval", (("prompt",), ("test",), ("entry_point",)), HumanEvalRow)
