"""Rows in the columns of MBPP+ and HumanEval+ of the hub, whose tests use NumPy: references pass, isolated."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import sandrl
from sandrl.events.results import Trust
from sandrl.runtime import daemon
from sandrl.sandboxes import Job, connect, new_job_id
from sandrl.sandboxes.providers.protocol import Packages
from sandrl.settings import RuntimeKind, load_settings
from tests.support.published_rows import calls_of, human_eval_plus_row, mbpp_plus_row
from tests.support.wheels import Index

pytestmark = pytest.mark.needs("numpy")

MBPP = Path(os.environ.get("SANDRL_TEST_MBPP") or Path(__file__).parents[2].parent / "shared" / "data" / "mbpp.jsonl")
LAST_TASK = 60

MEAN = 'from typing import List\n\n\ndef mean(xs: List[float]) -> float:\n    """Give the mean."""\n'
POLY = (
    "import math\n\n\ndef poly(xs: list, x: float):\n"
    "    return sum([c * math.pow(x, i) for i, c in enumerate(xs)])\n\n\n"
    'def find_zero(xs: list):\n    """Find x where poly(xs, x) is 0."""\n'
)
HUMAN_EVAL_PLUS = [
    human_eval_plus_row(
        *("HumanEval/1", MEAN, "    return sum(xs) / len(xs)\n", "mean"),
        [([[1.0, 2.0]], 1.5), ([[0.1, 0.2, 0.7]], 1 / 3)],
    ),
    human_eval_plus_row(
        "HumanEval/2",
        'def pairs(xs):\n    """Give the neighbours."""\n',
        "    return list(zip(xs, xs[1:]))\n",
        "pairs",
        [([[1, 2, 3]], [(1, 2), (2, 3)]), ([[]], []), ([["a", "b"]], [("a", "b")])],
    ),
    {
        **human_eval_plus_row("HumanEval/3", POLY, "    return -xs[0] / xs[1]\n", "find_zero", []),
        "test": "import numpy as np\n\ndef check(candidate):\n    for xs in [[1, 2], [-6, 3]]:\n"
        "        assert np.abs(poly(xs, candidate(xs))) <= 1e-4\n",
    },
]


def mbpp_plus() -> list[dict[str, Any]]:
    found = []
    for line in MBPP.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        calls = calls_of(row) if 11 <= row["task_id"] <= LAST_TASK else None
        if calls is not None:
            found.append(mbpp_plus_row(row, *calls))
    return found


@pytest.fixture(scope="module")
def job(index: Index) -> Iterator[Job]:
    index.add_installed("numpy")
    settings = load_settings()
    connection = connect(settings, runtime=RuntimeKind.LOCAL, packages=Packages(("numpy",)))
    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=900) as job:
        yield job
    daemon.stop(settings.state_dir)


def assert_deserved(rows: list[dict[str, Any]], right: Mapping[str, str], wrong: Mapping[str, str], job: Job) -> None:
    completions = [
        {"task_id": task_id, "id": f"{task_id} {reward}", "code": code}
        for codes, reward in ((right, 1.0), (wrong, 0.0))
        for task_id, code in codes.items()
    ]
    results = sandrl.score(completions, [dict(row) for row in rows], job=job).results
    assert [(each.id, each.detail) for each in results if each.id != f"{each.task_id} {each.reward}"] == []
    assert {each.trust for each in results} == {Trust.ISOLATED}


@pytest.mark.skipif(not MBPP.exists(), reason="no copy of MBPP here; SANDRL_TEST_MBPP names one")
def test_references_of_rows_of_mbpp_plus_pass_and_wrong_answers_do_not(job: Job) -> None:
    rows = mbpp_plus()
    assert len(rows) > 20
    right = {str(row["task_id"]): str(row["code"]) for row in rows}
    wrong = {
        str(row["task_id"]): f"{row['code']}\n_right = {name}\ndef {name}(*given):\n    return [_right(*given)]\n"
        for row in rows
        for name in [row["test"].rpartition("assertion(")[2].partition("(")[0]]
    }
    assert_deserved(rows, right, wrong, job)


def test_references_of_rows_of_human_eval_plus_pass_and_wrong_answers_do_not(job: Job) -> None:
    right = {row["task_id"]: row["prompt"] + row["canonical_solution"] for row in HUMAN_EVAL_PLUS}
    wrong = {row["task_id"]: row["prompt"] + "    return 0.5\n" for row in HUMAN_EVAL_PLUS}
    assert_deserved(HUMAN_EVAL_PLUS, right, wrong, job)


def test_rows_whose_tests_use_numpy_name_it() -> None:
    rows = [*HUMAN_EVAL_PLUS, *(mbpp_plus()[:1] if MBPP.exists() else [])]
    assert {problem.packages for problem in sandrl.problems.as_problems(rows).values()} == {("numpy",)}
