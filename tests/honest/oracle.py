"""Runs solutions and their checks in plain Python, in sandboxes with many solutions each.

The oracle shares only the sandbox with the judge. It is a process whose namespace holds solution and checks together,
as in most graders, so hostile code can deceive it; its verdicts on the corpus, which has no such code, are correct.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from sandrl.sandboxes import Command, Job
from tests.honest.entries import Entry

SECONDS = 60.0
_PROGRAM = (Path(__file__).parent / "plain_python.py").read_text(encoding="utf-8")
_PER_SANDBOX = 24


def judge_in_plain_python(entries: Sequence[Entry], job: Job, concurrency: int = 2) -> dict[str, str]:
    """Runs entries in plain Python.

    Args:
        entries: What to run.
        job: Owns the sandboxes.
        concurrency: How many of them at once.

    Returns:
        By entry id, why it fails; empty where it passes.
    """
    # Neighbours in a file are alike, slow ones too: each sandbox gets some of every style.
    count = max(1, -(-len(entries) // _PER_SANDBOX))
    waiting = [entries[start::count] for start in range(count)]
    running: dict[str, Sequence[Entry]] = {}
    reasons: dict[str, str] = {}
    while waiting or running:
        while waiting and len(running) < concurrency:
            batch = waiting.pop()
            running[job.launch(_command(batch)).key] = batch
        for launch in job.wait_any():
            outcome = job.collect(launch)
            batch = running.pop(launch.key)
            assert outcome.exit_code == 0, outcome
            found = json.loads(outcome.stdout)
            reasons |= {entry.id: reason for entry, reason in zip(batch, found, strict=True)}
    return reasons


def _command(batch: Sequence[Entry]) -> Command:
    tasks = [
        {
            "code": entry.code,
            "prelude": entry.problem.prelude,
            "setup": entry.problem.setup,
            "tests": entry.problem.tests,
            "cases": [{"stdin": case.stdin, "stdout": case.stdout} for case in entry.problem.cases],
            "tolerance": entry.problem.tolerance and entry.problem.tolerance.absolute,
            "seconds": SECONDS,
        }
        for entry in batch
    ]
    request = json.dumps(tasks).encode()
    return Command(("python", "-I", "-c", _PROGRAM), stdin=request, timeout_seconds=SECONDS * len(batch))
