"""Runs are compared problem by problem, with the figures that SciPy has for the same data.

`tests/integrations/test_statistics.py` compares the formulas with SciPy itself; the numbers here are what it printed.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from tests.support.sample_runs import JOB, failed, trajectory

from sandrl.config.eval import EvalConfig
from sandrl.errors import InputError
from sandrl.runs import ProblemCheck, ProblemRow, RunWriter, TrajectoryRow
from sandrl.runs.columns import RunColumns
from sandrl.runs.comparison import Comparison, Part, Source, compare, comparison_document, settings_of
from sandrl.runs.config import JobRecord, RunConfig
from sandrl.runs.statistics import paired_difference, sign_test

Outcomes = dict[str, str]
"""Of each problem its samples: `+` passed, `-` failed, `?` unscorable."""


def rows(outcomes: Outcomes, **fields: Any) -> list[TrajectoryRow]:
    made: list[TrajectoryRow] = []
    for task_id, samples in outcomes.items():
        for sample in samples:
            own: dict[str, Any] = {"task_id": task_id, **fields}
            if sample == "?":
                own |= {"reward": None, "status": "infrastructure", "passed": 0, "total": 0}
            make = failed if sample == "-" else trajectory
            made.append(make(len(made), **own))
    return made


def written(folder: Path, name: str, found: list[TrajectoryRow], *problems: ProblemRow, **options: Any) -> Path:
    with RunWriter.create(folder, command="eval", job_id=JOB, name=name, options=options) as writer:
        for row in found:
            writer.append(row)
        for problem in problems:
            writer.append(problem)
        return writer.path


def compared(folder: Path, *runs: Path, steps: tuple[int | None, ...] = ()) -> Comparison:
    sources = []
    for at, run in enumerate(runs):
        columns = RunColumns(run, folder / "cache")
        columns.refresh(math.inf)
        sources.append(Source(f"{at}-{run.name}", columns, steps[at] if steps else None))
    return compare(sources)


def test_one_sample_each_is_compared_by_mcnemars_exact_test(tmp_path: Path) -> None:
    first = {f"t{n}": "+" if n < 30 else "-" for n in reversed(range(50))}
    second = {**first, **{f"t{n}": "-" for n in range(4)}, **{f"t{n}": "+" for n in range(30, 43)}}
    found = compared(
        tmp_path, written(tmp_path, "a", rows(first)), written(tmp_path, "b", rows(dict(reversed(second.items()))))
    )
    (pairing,) = found.pairings
    assert pairing.passed is not None
    assert pairing.passed.test == "mcnemar"
    assert pairing.passed.value == pytest.approx(0.18)
    # scipy.stats.binomtest(13, 17).pvalue, scipy.stats.ttest_rel(second, first).confidence_interval()
    assert pairing.passed.p_value == pytest.approx(0.0490417480, rel=1e-8)
    assert (pairing.passed.low, pairing.passed.high) == pytest.approx((0.0207793487, 0.3392206513), rel=1e-8)
    # The order of problems is that of their ids, not that in which a run's verdicts came.
    assert [turned.task_id for turned in pairing.lost] == [f"t{n}" for n in range(4)]
    assert [turned.task_id for turned in pairing.gained] == [f"t{n}" for n in range(30, 43)]
    assert [run.pass_at[1].value for run in found.runs] == pytest.approx([0.6, 0.78])


def test_several_samples_are_compared_by_the_means_of_problems(tmp_path: Path) -> None:
    first = {"a": "++--", "b": "+---", "c": "----", "d": "++++"}
    second = {"a": "++++", "b": "++--", "c": "----", "d": "+++-"}
    (pairing,) = compared(tmp_path, written(tmp_path, "a", rows(first)), written(tmp_path, "b", rows(second))).pairings
    assert pairing.passed is not None
    # scipy.stats.ttest_rel([1, .5, 0, .75], [.5, .25, 0, 1])
    assert pairing.passed.test == "paired_t"
    assert pairing.passed.p_value == pytest.approx(0.4950253461)
    assert (pairing.passed.low, pairing.passed.high) == pytest.approx((-0.3885650642, 0.6385650642))
    assert [(each.task_id, each.first, each.second) for each in pairing.gained] == [
        ("a", (2, 4), (4, 4)),
        ("b", (1, 4), (2, 4)),
    ]
    assert [each.task_id for each in pairing.lost] == ["d"]


def test_what_cannot_be_paired_is_left_out_and_named(tmp_path: Path) -> None:
    def problem(digest: str, task_id: str, check: str, prompt: str = "") -> ProblemRow:
        checks = (ProblemCheck(source=check, is_hidden=digest.startswith("b")),)
        return ProblemRow(job_id=JOB, digest=digest, task_id=task_id, prompt=prompt, checks=checks, check_count=1)

    first = [
        *rows({"same": "+", "lost": "-?", "gone": "?", "old": "+"}),
        trajectory(9, task_id="prompt", problem="a1"),
        trajectory(10, task_id="checks", problem="a2"),
    ]
    second = [
        *rows({"same": "-", "lost": "??", "gone": "+", "new": "+"}),
        trajectory(9, task_id="prompt", problem="b1"),
        failed(10, task_id="checks", problem="b2"),
    ]
    own = [problem("a1", "prompt", "assert f() == 1"), problem("a2", "checks", "assert f() == 1")]
    other = [problem("b1", "prompt", "assert f() == 1", "Be brief."), problem("b2", "checks", "assert f() == 2")]
    found = compared(tmp_path, written(tmp_path, "a", first, *own), written(tmp_path, "b", second, *other))
    (pairing,) = found.pairings
    assert (pairing.common, pairing.other_prompt) == (2, 1)
    assert pairing.unscorable == ("gone", "lost")
    assert (pairing.only_first, pairing.only_second, pairing.changed) == (("old",), ("new",), ("checks",))
    assert [each.task_id for each in pairing.lost] == ["same"]
    assert [dict(run.unscorable) for run in found.runs] == [{"infrastructure": 2}, {"infrastructure": 2}]
    document = comparison_document(found)["comparisons"][0]
    assert (document["only_in_baseline"], document["other_checks"]) == (["old"], ["checks"])


def test_a_training_run_is_compared_by_its_evaluations(tmp_path: Path) -> None:
    training = [
        *rows({"train": "+-"}, step=0),
        *rows({"x": "--", "y": "-+"}, step=0, held_out=True),
        *rows({"x": "++", "y": "++"}, step=8, held_out=True),
        *rows({"x": "-", "y": "-"}, step=8, held_out=True, greedy=True),
    ]
    run = written(tmp_path, "train", training)
    found = compared(tmp_path, run, run, steps=(0, None))
    assert [run.selection.step for run in found.runs] == [0, 8]
    assert {run.selection.part for run in found.runs} == {Part.HELD_OUT}
    assert (found.pairings[0].first_share, found.pairings[0].second_share) == (0.25, 1.0)
    with pytest.raises(InputError, match="no completions of step 5") as error:
        compared(tmp_path, run, run, steps=(5, None))
    assert "0, 8" in str(error.value.hint)
    alone = written(tmp_path, "plain", [*rows({"a": "+"}, step=0), *rows({"a": "-", "b": "+"}, step=3)])
    assert (compared(tmp_path, alone).runs[0].passed, compared(tmp_path, alone).runs[0].completions) == (1, 2)


def test_an_option_that_a_run_does_not_have_has_its_default() -> None:
    def config(versions: dict[str, str], **options: Any) -> RunConfig:
        job = JobRecord(job_id=JOB, versions=versions)
        return RunConfig(run_id="r", command="eval", options=options, jobs=(job,))

    every = EvalConfig().document()
    later = config({"judge": "2"}, **{**every, "temperature": 0.2, "run_name": "b", "problems_digest": "f0"})
    found, same = settings_of([config({"judge": "1"}, problems_digest="0f", run_name="a"), later])
    assert {each.name: (each.values, each.is_default) for each in found} == {
        "temperature": ((1.0, 0.2), (True, False)),
        "problems_digest": (("0f", "f0"), (False, False)),
        "versions.judge": (("1", "2"), (False, False)),
    }
    assert same > 30


def test_no_interval_is_without_width_and_no_probability_is_missing() -> None:
    for differences in ([0.0], [0.0] * 50, [1.0] * 3, [-1.0]):
        found = paired_difference(differences, is_single=True)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        assert -1.0 <= found.low <= found.value <= found.high <= 1.0
        assert found.high > found.low
    assert paired_difference([]) is None
    # scipy.stats.binomtest(0, 3).pvalue
    assert sign_test(3, 0) == 0.25
    assert sign_test(0, 0) == 1.0
    # scipy.stats.binomtest(50000, 100400).pvalue
    assert sign_test(50_000, 50_400) == pytest.approx(0.2079460242, rel=1e-8)


def test_several_comparisons_with_one_baseline_are_adjusted(tmp_path: Path) -> None:
    outcomes = [{f"t{n}": "+" if n < top else "-" for n in range(20)} for top in (5, 12, 6)]
    found = compared(tmp_path, *(written(tmp_path, f"r{at}", rows(each)) for at, each in enumerate(outcomes)))
    p_values = [each.passed.p_value for each in found.pairings if each.passed is not None]
    assert p_values == pytest.approx([2 / 2**7, 1.0])
    assert [each.adjusted_p_value for each in found.pairings] == pytest.approx([4 / 2**7, 1.0])


def test_an_empty_run_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no completions"):
        compared(tmp_path, written(tmp_path, "a", rows({"t": "+"})), written(tmp_path, "empty", []))
