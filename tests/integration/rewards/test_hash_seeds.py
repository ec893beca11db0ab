"""The hash seed is constant, in every process of a completion, and another one if an option says so."""

from __future__ import annotations

import os
import subprocess
import sys

from sandrl.problems import Case, Completion, Problem
from sandrl.rewards import Limits, ScoreOptions, score
from sandrl.sandboxes import Job
from sandrl.scoring.summary import ScoreReport

SHOWN = "print(list({'kiwi', 'fig', 'plum', 'pear'}))"
SPAWNED = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {SHOWN!r}])"


def order_under(seed: int) -> str:
    """What a plain interpreter prints."""
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    return subprocess.run([sys.executable, "-c", SHOWN], env=environment, capture_output=True, text=True).stdout


def scored(job: Job, options: ScoreOptions) -> ScoreReport:
    problem = Problem("order", "", cases=(Case("", order_under(0)),))
    codes = {"set": SHOWN, "spawned": SPAWNED, "printed": f"print({order_under(0).strip()!r})"}
    completions = [Completion(name, "order", code=code) for name, code in codes.items()]
    return score(completions, {"order": problem}, job=job, options=options)


def test_the_order_of_a_set_is_that_of_the_seed_0(job: Job) -> None:
    report = scored(job, ScoreOptions())
    assert [result.reward for result in report.results] == [1.0, 1.0, 1.0]
    assert report.summary.hash_seed_dependent is None


def test_several_seeds_show_which_verdicts_depend_on_them(job: Job) -> None:
    other = next(seed for seed in range(1, 50) if order_under(seed) != order_under(0))
    alone = scored(job, ScoreOptions(limits=Limits(hash_seed=other)))
    assert [result.reward for result in alone.results] == [0.0, 0.0, 1.0]
    report = scored(job, ScoreOptions(hash_seeds=other + 1))
    assert [result.reward for result in report.results] == [1.0, 1.0, 1.0]
    assert [result.depends_on_hash_seed for result in report.results] == [True, True, False]
    assert report.summary.hash_seed_dependent == 2
