"""How results read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sandrl.cli.progress import remark
from sandrl.cli.scores import result_line, total_lines
from sandrl.events import CompletionFinished, RetryScheduled, RuntimeChosen, StopRequested, Warned
from sandrl.events.results import ScoredCompletion, Status, Trust
from sandrl.runs.summary import summarise

PASSED = ScoredCompletion(0, "c", "slow-sum", 1.0, Status.PASSED, Trust.IN_PROCESS, 1, 1, 2.0, "sb", "")
FAILED = replace(PASSED, index=1, reward=0.0, status=Status.FAILED, passed=0, detail="check 1 of 1: AssertionError")
BROKEN = replace(PASSED, index=2, reward=None, status=Status.INFRASTRUCTURE, passed=0, detail="gone")


@pytest.mark.parametrize(
    ("result", "line"),
    [
        (PASSED, "  slow-sum (c): reward=1.0 [PASS] OK"),
        (FAILED, "  slow-sum (c): reward=0.0 [FAIL] check 1 of 1: AssertionError"),
        (BROKEN, "  slow-sum (c): reward=null [ERROR] infrastructure: gone"),
        (replace(FAILED, status=Status.TIMEOUT, detail=""), "  slow-sum (c): reward=0.0 [FAIL] timeout"),
        (
            replace(FAILED, task_id="a\x1b[2J", detail="b\x1b[2J\nc"),
            "  a\\x1b[2J (c): reward=0.0 [FAIL] b\\x1b[2J c",
        ),
    ],
)
def test_a_result_is_one_line(result: ScoredCompletion, line: str) -> None:
    assert result_line(result) == line


def test_totals_count_what_was_scored() -> None:
    lines = total_lines(summarise([PASSED, PASSED, FAILED, BROKEN]))
    assert lines == [
        "Total reward: 2.0/3",
        "Pass rate: 2/3 (67%)",
        "Unscorable: 1 (no reward, and in no rate; infrastructure: 1)",
    ]


def test_pass_at_k_is_shown_where_there_are_samples() -> None:
    line = "pass@1: 80.0% [13.3%, 99.0%]  pass@5: 100.0% [20.7%, 100.0%]"
    assert line in total_lines(summarise([PASSED] * 4 + [FAILED]))


def test_nothing_scored_has_no_rate() -> None:
    assert total_lines(summarise([BROKEN]))[:2] == ["Total reward: 0.0/0", "Pass rate: – (no completion was scored)"]


def test_remarks_say_what_happens() -> None:
    assert remark(RuntimeChosen("local", "why", "http://x", "python:3.11", "native")) == (
        "Runtime: local (why), image python:3.11, isolation native"
    )
    assert "fresh sandbox (number 2): gone" in (remark(RetryScheduled(0, 2, 3, "gone")) or "")
    assert "finishing 3 in flight" in (remark(StopRequested(False, 3)) or "")
    assert "cancelling 3 in flight" in (remark(StopRequested(True, 3)) or "")
    assert remark(Warned("careful", "do this")) == "warning: careful\n  hint: do this"
    assert remark(CompletionFinished(PASSED, 1, 1)) is None
