from __future__ import annotations

import re
from io import StringIO

import pytest
from rich.console import Console

from sandrl.cli.health import flag_lines, raised_line
from sandrl.cli.training import ART, TrainingLines, TrainingTable
from sandrl.events import FlagRaised, StepFinished
from sandrl.runs.flags import Health, flags_of
from sandrl.runs.series import Series

CUT = {"completions/clipped_ratio": 0.5, "loss": 0.1}
LINE = (
    "Flag at step 3: truncated_completions: 50% of the completions are cut off at the token limit"
    " (completions/clipped_ratio: 50%, threshold 20%); try: a larger --max-tokens, or a prompt that asks for short"
    " answers: a completion that is cut off rarely passes"
)


def told(steps: int = 3) -> FlagRaised:
    events: list[object] = []
    health = Health(emit=events.append)
    for step in range(steps):
        health.add(step, CUT)
    [event] = events
    assert isinstance(event, FlagRaised)
    return event


def test_a_flag_names_its_metric_its_threshold_and_what_to_try_in_one_line() -> None:
    assert raised_line(told()) == LINE
    assert "\n" not in LINE


def test_a_flag_that_is_raised_again_says_so() -> None:
    events: list[FlagRaised] = []
    health = Health(emit=lambda event: events.append(event) if isinstance(event, FlagRaised) else None)
    for step, share in enumerate([1.0, *[0.0] * 30, 1.0]):
        health.add(step, {"unscorable_share": share})
    assert [raised_line(event).partition(": ")[0] for event in events] == ["Flag at step 1", "Flag at step 32 again"]


def test_a_view_of_a_run_shows_each_flag_in_three_lines() -> None:
    series = {"loss": Series("loss", (0, 1), (0.1, float("inf")))}
    assert flag_lines(flags_of(series)) == [
        "! the loss of step 1 is NaN or infinite",
        "  return to the last good checkpoint, with a lower learning rate",
        "  loss_is_no_number: loss, step 1",
    ]


def test_in_a_pipe_a_flag_is_a_line_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    for shown in (TrainingLines(), TrainingLines(ART)):
        shown(told())
        assert capsys.readouterr() == ("", f"{LINE}\n")


@pytest.mark.parametrize("width", [60, 120])
def test_on_a_terminal_a_flag_stands_whole_above_the_table(width: int) -> None:
    console = Console(width=width, height=20, force_terminal=True, file=StringIO())
    with TrainingTable(console) as table:
        table(StepFinished(2, 80, {"reward/mean": 0.4}))
        table(told())
    assert isinstance(console.file, StringIO)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())
    assert LINE in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= width
