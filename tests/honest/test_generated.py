"""Random classes with special methods: each check about them is decided as plain Python decides it."""

from __future__ import annotations

import ast

import pytest

from sandrl.sandboxes import Job
from tests.honest.generated import compare_generated, generate


def test_every_seed_makes_a_class_and_the_same_one_again() -> None:
    for seed in range(500):
        made = generate(seed)
        ast.parse(made.code)
        assert made.expressions
        assert made == generate(seed)


def test_checks_on_generated_classes_are_decided_as_in_plain_python(job: Job) -> None:
    report = compare_generated(range(11), job)
    assert report.checks > 200
    assert [str(found) for found in report.disagreements] == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_checks_on_many_generated_classes_are_decided_as_in_plain_python(job: Job) -> None:
    report = compare_generated(range(250), job)
    assert [str(found) for found in report.disagreements] == []
