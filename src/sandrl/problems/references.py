"""Reference solutions as completions: a set of problems is checked by scoring its own answers."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence

from sandrl.problems.completion import Completion
from sandrl.problems.completions import load_completions
from sandrl.problems.loading import load_problems
from sandrl.problems.problem import Problem
from sandrl.problems.sources import DATA, DEMO_PROBLEMS


def reference_completions(problems: Iterable[Problem]) -> tuple[Completion, ...]:
    """Returns a completion with the reference solution of every problem that has one, in the same order."""
    return tuple(
        Completion(id=problem.task_id, task_id=problem.task_id, code=problem.reference)
        for problem in problems
        if problem.reference is not None
    )


def expected_answer(problem: Problem) -> str:
    """A program in Python that prints for each case what the case expects: a checker must accept it."""
    outputs = {case.stdin: case.stdout for case in problem.cases}
    packed = base64.b64encode(zlib.compress(json.dumps(outputs).encode("ascii"), 9)).decode("ascii")
    return (
        "import base64, json, sys, zlib\n"
        f"outputs = json.loads(zlib.decompress(base64.b64decode({packed!r})))\n"
        "given = sys.stdin.buffer.read().decode('utf-8', 'surrogatepass')\n"
        "sys.stdout.buffer.write(outputs[given].encode('utf-8', 'surrogatepass'))\n"
    )


def demo_problems() -> Mapping[str, Problem]:
    """Returns slow-sum, string-ops, delayed-error, syntax-error and slow-list, by `task_id`."""
    return load_problems(DEMO_PROBLEMS).problems


def demo_completions() -> Sequence[Completion]:
    """Returns a completion of each; they sleep 2, 0, 1, 0 and 3 s, and pass, pass, fail, fail and pass."""
    return load_completions(DATA / "demo_completions.jsonl").completions
