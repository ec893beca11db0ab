"""A report as rows and as a table, and the lines of progress; `tests/integrations` has them in a real notebook."""

from __future__ import annotations

from typing import Any

import pytest

from sandrl.events import CompletionFinished, JobStarted, Warned
from sandrl.events.results import ScoredCompletion, Status, Trust
from sandrl.scoring.notebook import is_notebook, shown_progress
from sandrl.scoring.summary import ScoreReport


def result(index: int, reward: float | None, detail: str = "", **fields: Any) -> ScoredCompletion:
    status = {1.0: Status.PASSED, 0.0: Status.FAILED, None: Status.INFRASTRUCTURE}[reward]
    trust = None if reward is None else Trust.ISOLATED
    return ScoredCompletion(
        index, f"add#{index}", "add", reward, status, trust, int(reward or 0), 1, 0.5, None, detail, **fields
    )


def report_of(*results: ScoredCompletion) -> ScoreReport:
    return ScoreReport("job-1", results)


def test_rows_are_flat_and_have_the_same_columns() -> None:
    report = report_of(result(0, 1.0, components={"format": 0.1}, code="x"), result(1, None, "lost"))
    first, second = report.rows()
    assert list(first) == list(second)
    assert (first["reward"], first["status"], first["trust"], first["component/format"]) == (
        1.0,
        "passed",
        "isolated",
        0.1,
    )
    assert (second["reward"], second["trust"], second["component/format"], second["code"]) == (None, None, None, None)
    assert all(
        isinstance(value, str | float | int | None) and type(value).__module__ == "builtins" for value in first.values()
    )


def test_a_report_is_a_sequence_of_its_results_and_true_also_if_it_is_empty() -> None:
    results = (result(0, 1.0), result(1, 0.0))
    report = report_of(*results)
    assert (len(report), [*report], report[1]) == (2, [*results], results[1])
    assert bool(report_of())
    assert report_of().rows() == []


def test_the_table_escapes_texts_of_a_model_and_names_what_it_leaves_out() -> None:
    hostile = result(0, 0.0, "<img src=x onerror=alert(1)>\ud800" + "x" * 500)
    shown = report_of(hostile, *(result(number, 1.0) for number in range(1, 30)))._repr_html_()
    assert "&lt;img src=x onerror=alert(1)&gt;?" in shown
    assert "<img" not in shown
    assert shown.encode("utf-8")
    assert shown.count("<tr>") == 1 + 20
    assert "30 completions, 29 passed (97%)" in shown
    assert "10 more: <code>report.rows()</code> has all." in shown


def interrupted_after_two_of_three() -> None:
    with shown_progress() as shown:
        shown(JobStarted("job-1", 3, 2))
        shown(Warned("slow \x1b[31mdisk"))
        shown(CompletionFinished(result(0, 1.0), 1, 3))
        shown(CompletionFinished(result(1, None), 2, 3))
        raise KeyboardInterrupt


def test_lines_of_progress_have_the_warnings_once_and_say_how_it_ended(capsys: pytest.CaptureFixture[str]) -> None:
    assert not is_notebook()
    with pytest.raises(KeyboardInterrupt):
        interrupted_after_two_of_three()
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[0] == "sandrl: 0/3 scored"
    assert err.splitlines()[1:] == [
        "sandrl: warning: slow  [31mdisk",
        "sandrl: 2/3 scored, 1 passed (100%), 1 without a reward, interrupted",
    ]
