"""Measures how often the judge agrees with plain Python, over the corpus of solutions in `tests/honest/corpus`.

`python -m benchmarks.fairness` runs every entry in plain Python, in a sandbox, and scores it as `sandrl reward` does.
It prints the rate of agreement by style, each disagreement with its detail, and how many verdicts are isolated.
Entries that need packages are left out where these are not installed.
Arguments choose styles or entries: `python -m benchmarks.fairness exceptions enums/color`. `--generated N` judges
checks on N random classes with special methods instead, right and wrong ones.

Exits with 1 if the mark of an entry is wrong (plain Python fails an entry marked as correct, or passes one marked as
wrong), if a wrong solution is rewarded, or if the rate is below `--at-least`.
"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.honest.comparison import Comparison, agreement, compare, rates, trust_counts
from tests.honest.entries import Entry, load_entries
from tests.honest.generated import compare_generated

from benchmarks.reward_throughput import a_job
from sandrl.sandboxes import connect
from sandrl.sandboxes.providers.protocol import Packages
from sandrl.settings import RuntimeKind, load_settings


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="*", metavar="STYLE|STYLE/NAME", help="default: the whole corpus")
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--at-least", type=float, default=0.0, metavar="RATE", help="exit with 1 below this rate")
    parser.add_argument("--generated", type=int, metavar="N", help="judge N generated classes instead of the corpus")
    parser.add_argument("--seed", type=int, default=0, help="of the first generated class")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write each disagreement with its code")
    arguments = parser.parse_args()
    if arguments.generated is not None:
        return report_generated(range(arguments.seed, arguments.seed + arguments.generated), arguments)
    entries = [entry for entry in load_entries() if not arguments.only or {entry.id, entry.style} & set(arguments.only)]
    if not entries:
        parser.error("no entry is called that")
    packages = sorted({name for entry in entries for name in entry.problem.packages if find_spec(name)})
    entries = [entry for entry in entries if {*packages} >= {*entry.problem.packages}]
    with a_job(connect(load_settings(), runtime=RuntimeKind.LOCAL, packages=Packages(tuple(packages)))) as job:
        comparisons = compare(entries, job, arguments.concurrency)
    report(comparisons)
    if arguments.markdown is not None:
        text = "\n".join(as_markdown(comparison) for comparison in comparisons if not comparison.agrees)
        arguments.markdown.write_text(text, encoding="utf-8")
    is_bad = any(not found.is_sound or (found.entry.is_wrong and found.result.reward) for found in comparisons)
    return int(is_bad or agreement(comparisons) < arguments.at_least)


def report(comparisons: list[Comparison]) -> None:
    """Print rates, disagreements and trust."""
    for rate in rates(comparisons):
        print(f"{rate.style:24} {rate.agreed:4}/{rate.total:<4} {rate.agreed / rate.total:7.1%}")
    for comparison in comparisons:
        if not comparison.is_sound:
            print(f"not as marked: {comparison.entry.id}: plain Python: {comparison.plain_failure or 'passes'}")
    for comparison in comparisons:
        if not comparison.agrees:
            expected = "fails" if comparison.plain_failure else "passes"
            print(f"disagrees (plain Python {expected}): {comparison}")
    wrong = sum(comparison.entry.is_wrong for comparison in comparisons)
    print(f"as in plain Python: {agreement(comparisons):.2%} of {len(comparisons)} entries, {wrong} of them wrong")
    counts = trust_counts(comparisons)
    print("trust: " + ", ".join(f"{count} {trust or 'not judged'}" for trust, count in counts.most_common()))


def report_generated(seeds: range, arguments: argparse.Namespace) -> int:
    """Judge generated classes and print each check on which the judge and plain Python disagree."""
    with a_job(connect(load_settings(), runtime=RuntimeKind.LOCAL)) as job:
        found = compare_generated(seeds, job, arguments.concurrency)
    for disagreement in found.disagreements:
        print(disagreement)
    rate = 1 - len(found.disagreements) / found.checks
    print(f"as in plain Python: {rate:.2%} of {found.checks} checks on {len(seeds)} generated classes")
    return int(rate < arguments.at_least)


def as_markdown(comparison: Comparison) -> str:
    """A disagreement with all that is needed to look into it."""
    entry: Entry = comparison.entry
    parts = [f"## {comparison}", f"plain Python: {comparison.plain_failure or 'passes'}"]
    texts = [("completion", entry.text), ("code", entry.code), ("setup", entry.problem.setup)]
    texts += [("reference", entry.problem.reference), *(("test", test) for test in entry.problem.tests)]
    parts += [f"{name}:\n~~~~~~python\n{text.rstrip()}\n~~~~~~" for name, text in texts if text]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
