"""Lines of a kind are printed sparingly, and nothing is left out without a word."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator

import pytest

from sandrl import events
from sandrl.cli.progress import Remarks
from sandrl.cli.results import ResultLines
from sandrl.cli.training import ART, TrainingLines
from sandrl.cli.verbosity import MOST_LINES, Sparing, choose_verbosity, print_first
from sandrl.events import RetryScheduled, ScoredCompletion, Status, Warned


@pytest.fixture(autouse=True)
def _normal_afterwards() -> Iterator[None]:
    yield
    choose_verbosity(verbose=False, quiet=False)


def _result(index: int) -> ScoredCompletion:
    return ScoredCompletion(index, f"t#{index}", "t", 1.0, Status.PASSED, None, 1, 1, 0.1, None, "")


def test_after_the_first_lines_there_is_one_every_few_seconds_and_the_last_is_kept() -> None:
    now = 0.0
    sparing = Sparing(clock=lambda: now)
    shown = [text for number in range(100) if (text := sparing.take("step", f"step {number}")) is not None]
    assert shown == [f"step {number}" for number in range(MOST_LINES)]
    assert sparing.take("other", "another kind") == "another kind"
    now = 5.0
    assert sparing.take("step", "step 100") == "step 100 (80 lines like this one left out; --verbose)"
    assert sparing.take("step", "step 101") is None
    assert sparing.take("step", "step 102") is None
    assert sparing.rest() == {"step": "step 102 (1 lines like this one left out; --verbose)"}
    assert not sparing.rest()


@pytest.mark.parametrize(
    ("verbose", "quiet", "lines"), [(False, False, MOST_LINES), (True, False, 200), (False, True, 0)]
)
def test_remarks_about_each_item_are_bounded_and_warnings_never_are(
    capsys: pytest.CaptureFixture[str], verbose: bool, quiet: bool, lines: int
) -> None:
    choose_verbosity(verbose=verbose, quiet=quiet)
    shown = Remarks()
    for number in range(200):
        shown(RetryScheduled(number, 2, 3, "the sandbox failed", 0.0, f"t#{number}", "t"))
        shown(Warned(f"number {number}", None))
    err = capsys.readouterr().err.splitlines()
    assert sum("runs again" in line for line in err) == lines
    assert sum(line.startswith("warning: number") for line in err) == 200


def test_a_training_of_many_quick_steps_keeps_its_first_and_its_last_step(capsys: pytest.CaptureFixture[str]) -> None:
    with TrainingLines() as shown:
        for step in range(500):
            shown(events.StepFinished(step, 500, {}))
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Step ")]
    assert len(lines) == MOST_LINES + 1
    assert lines[-1].startswith("Step 500/500: ")
    with TrainingLines() as shown:
        shown(events.StepFinished(0, 1, {}))
    assert capsys.readouterr().out.startswith("Step 1/1: ")


def test_a_step_that_failed_is_shown_after_many_quick_steps(capsys: pytest.CaptureFixture[str]) -> None:
    with TrainingLines(ART) as shown:
        for step in range(40):
            failure = "no episode has a reward" if step == 30 else ""
            shown(events.StepFinished(step, 40, {}, failure, 2))
    assert "Step 31 failed, nothing was trained (attempt 2): no episode has a reward" in capsys.readouterr().out


def test_the_progress_of_scoring_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    with ResultLines(interval_seconds=0.01) as shown:
        shown(events.JobStarted("job-1", 300, 4))
        for number in range(300):
            shown(events.CompletionFinished(_result(number), number + 1, 300))
        while "300 of 300" not in (err := capsys.readouterr().err):
            time.sleep(0.01)
    assert re.search(r"^Progress: 300 of 300 completions judged, pass rate 100%, \S+ so far$", err, re.MULTILINE)


def test_what_an_earlier_job_has_judged_makes_no_time_that_is_left_shorter(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with ResultLines(interval_seconds=0.01) as shown:
        shown(events.JobStarted("job-2", 300, 4))
        now += 10
        for number in (200, 201):
            shown(events.CompletionFinished(_result(number), number + 1, 300))
        while "202 of 300" not in (err := capsys.readouterr().err):
            threading.Event().wait(0.01)
    assert "202 of 300 completions judged, pass rate 100%, about 8m 10s left, 10s so far" in err


def test_the_rest_of_a_list_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    print_first([f"line {number}" for number in range(MOST_LINES + 5)])
    assert capsys.readouterr().out.splitlines()[-1] == "  … and 5 more: --verbose shows all"
