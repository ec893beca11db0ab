"""Measures whether verdicts are the same every time: the same completions again, and beside another first completion.

`python -m benchmarks.repeats` scores the corpus of `tests/honest` five times, each time with no calibration on disk,
and prints each verdict that changed. Arguments are folders with `problems.jsonl` and `completions.jsonl`, to score
instead. `--exchange N` scores N batches of one problem in pairs: the second one has another first completion, which is
wrong, ends its process, or claims an excuse; the verdicts of all the others must be equal.

Exits with 1 if a verdict changed.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tests.honest.entries import load_entries

from benchmarks.reward_throughput import a_job
from sandrl.judge.judge import Judge
from sandrl.problems import Completion, Problem, load_completions, load_problems
from sandrl.rewards import ScoreOptions, score
from sandrl.sandboxes import Job, connect
from sandrl.sandboxes.providers.protocol import Packages
from sandrl.settings import RuntimeKind, load_settings

_FIRST = (
    "raise ValueError('wrong')",
    "import os\nos._exit(0)",
    "import no_such_module",
    "def f(*a, **k):\n    return lambda: None\n",
    "import sys\nsys.modules['__main__'].__dict__.clear()",
    "while True:\n    pass",
)
Verdicts = dict[str, tuple[str, str | None, int, float | None]]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--exchange", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--packages", default="", metavar="NAME,…")
    arguments = parser.parse_args()
    problems, completions = _given(arguments.folders) if arguments.folders else _corpus()
    packages = tuple(arguments.packages.split(",")) if arguments.packages else ()
    with a_job(connect(load_settings(), runtime=RuntimeKind.LOCAL, packages=Packages(tuple(packages)))) as job:
        if arguments.exchange:
            return _exchange(problems, completions, job, arguments.exchange, random.Random(arguments.seed))
        return _repeat(problems, completions, job, arguments.times)


def _corpus() -> tuple[dict[str, Problem], list[Completion]]:
    entries = list(load_entries())
    problems = {entry.id: replace(entry.problem, task_id=entry.id) for entry in entries}
    return problems, [Completion(entry.id, entry.id, code=entry.code) for entry in entries]


def _given(folders: Iterable[Path]) -> tuple[dict[str, Problem], list[Completion]]:
    problems: dict[str, Problem] = {}
    completions: list[Completion] = []
    for folder in folders:
        prefix = f"{folder.name}/"
        loaded = load_problems(str(folder / "problems.jsonl")).problems
        problems |= {prefix + name: replace(problem, task_id=prefix + name) for name, problem in loaded.items()}
        own = load_completions(folder / "completions.jsonl").completions
        completions += [replace(each, id=prefix + each.id, task_id=prefix + each.task_id) for each in own]
    return problems, completions


def _verdicts(problems: Mapping[str, Problem], completions: Sequence[Completion], job: Job) -> Verdicts:
    """How completions are judged by a judge that knows nothing."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ["SANDRL_CACHE_DIR"] = cache
        judge = Judge.on(job.connection)
        options = ScoreOptions(concurrency=4, caching=False)
        report = score(completions, problems, job=job, judge=judge, options=options)
    return {
        result.id: (
            result.status.value,
            None if result.trust is None else result.trust.value,
            result.passed,
            result.reward,
        )
        for result in report.results
    }


def _repeat(problems: Mapping[str, Problem], completions: Sequence[Completion], job: Job, times: int) -> int:
    first = _verdicts(problems, completions, job)
    changed: set[str] = set()
    for number in range(1, times):
        again = _verdicts(problems, completions, job)
        for name in sorted(again):
            if again[name] != first[name]:
                changed.add(name)
                print(f"time {number + 1}: {name}: {first[name]} → {again[name]}")
    print(f"{len(changed)} of {len(first)} verdicts changed in {times} times")
    return int(bool(changed))


def _exchange(
    problems: Mapping[str, Problem], completions: Sequence[Completion], job: Job, count: int, chance: random.Random
) -> int:
    by_problem: dict[str, list[Completion]] = {}
    for each in completions:
        by_problem.setdefault(each.task_id, []).append(each)
    changed = 0
    for _ in range(count):
        task_id = chance.choice(sorted(by_problem))
        others = by_problem[task_id]
        own, foreign = others[0], Completion("first", task_id, code=chance.choice(_FIRST))
        before = _verdicts(problems, [replace(own, id="first"), *others], job)
        after = _verdicts(problems, [foreign, *others], job)
        differing = [name for name in before if name != "first" and before[name] != after[name]]
        changed += bool(differing)
        for name in differing:
            print(f"{name}: {before[name]} → {after[name]} after {foreign.code!r}")
    print(f"{changed} of {count} exchanges of the first completion changed a verdict")
    return int(bool(changed))


if __name__ == "__main__":
    sys.exit(main())
