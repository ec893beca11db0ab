"""How sandboxes are written down: durations, commands, columns."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime, timedelta

import pytest

from sandrl.cli.sandboxes.options import StatusName
from sandrl.cli.sandboxes.table import expiry, span, table
from sandrl.cli.text import visible_lines
from sandrl.errors import CleanupError, InterruptedRunError, UsageError
from sandrl.sandboxes import Liveness
from sandrl.sandboxes.cleanup import CleanupPlan, CleanupReport, CleanupRequest
from sandrl.sandboxes.listing import OwnedSandbox, SandboxSelection
from sandrl.sandboxes.providers.protocol import STATUSES, SandboxInfo

ID = "391dd7c9-3028-40f4-a2ab-146082d3b93e"


def test_the_statuses_offered_are_those_of_the_library() -> None:
    assert tuple(each.value for each in StatusName) == STATUSES


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0, "0s"), (59.4, "59s"), (90, "2m"), (3599, "60m"), (5400, "2h"), (86_400, "24h"), (172_800, "2d")],
)
def test_times_are_shown_in_one_unit(seconds: float | None, text: str) -> None:
    assert span(seconds) == text


def test_a_lifetime_that_is_over_is_said_to_be() -> None:
    now = datetime.now(UTC)
    assert expiry(None, now) == "-"
    assert expiry(now + timedelta(seconds=130), now) == "in 2m"
    assert expiry(now - timedelta(seconds=1), now) == "over"


def listed(*tags: str) -> OwnedSandbox:
    return OwnedSandbox(SandboxInfo(ID, "running", tags=tags), "job-1a2b3c4d", Liveness.GONE)


def test_the_columns_that_do_not_fit_are_left_out_in_order_and_named() -> None:
    rows = [listed("a" * 30), listed()]
    for width, hidden in [
        (None, ()),
        (200, ()),
        (95, ()),
        (80, ("TAGS",)),
        (71, ("EXPIRES", "TAGS")),
        (58, ("EXPIRES", "JOB", "TAGS")),
    ]:
        laid_out = table(rows, width=width)
        assert laid_out.hidden == hidden
        assert max(len(str(line)) for line in (laid_out.header, *laid_out.rows)) <= (width or 200)
    cut = str(table(rows, width=95).rows[0])
    assert cut.endswith("a…")
    assert len(cut) == 95


def test_where_nothing_fits_beside_the_id_each_sandbox_has_two_lines() -> None:
    laid_out = table([listed("x")], width=38)
    assert str(laid_out.header).split() == ["ID", "STATUS", "AGE", "JOB", "OWNER"]
    assert [str(row).splitlines() for row in laid_out.rows] == [[ID, "  running  -    job-1a2b3c4d  gone"]]
    assert laid_out.hidden == ("EXPIRES", "TAGS")


def test_wide_characters_are_measured_in_columns() -> None:
    from rich.cells import cell_len

    laid_out = table([listed("漢字" * 20)], width=100)
    assert cell_len(str(laid_out.rows[0])) <= 100


def test_lines_and_tabs_stay_and_everything_else_that_acts_on_a_terminal_does_not() -> None:
    assert visible_lines("a\tb\n  c\r\x1b[1m\u202e") == "a\tb\n  c\\r\\x1b[1m\\u202e"


def test_the_command_that_continues_means_the_same_sandboxes() -> None:
    tags = ("model:a/b", "a  b'; rm -rf /", "job-1")
    request = CleanupRequest(
        selection=SandboxSelection(tags=tags, orphans=True, older_than_seconds=90.0),
        force=True,
        options=("--runtime", "local"),
    )
    words = shlex.split(request.command())
    assert words[:3] == ["sandrl", "sandboxes", "cleanup"]
    assert words[-1] == "--yes"
    assert {"--orphans", "--force", "90s", "job-1"} <= set(words)
    assert not any(" " in word for word in words)
    assert CleanupRequest(everything=True).command() == "sandrl sandboxes cleanup --all --yes"
    assert CleanupRequest(ids=("a", "b")).command() == "sandrl sandboxes cleanup --yes a b"
    assert CleanupRequest(ids=("a", "b")).command(["b"]) == "sandrl sandboxes cleanup --yes b"


def test_a_request_must_say_what_is_meant_and_only_one_way() -> None:
    for wrong in ({}, {"force": True}, {"ids": ("a",), "everything": True}):
        with pytest.raises(UsageError, match=r"nothing was stopped$"):
            CleanupRequest(**wrong)


def test_what_is_left_beats_what_failed_and_both_name_the_command_that_goes_on() -> None:
    plan = CleanupPlan(CleanupRequest(ids=("a", "b", "c")), targets=(listed(), listed(), listed()))
    CleanupReport(plan, stopped=("a", "b"), gone=("c",)).raise_for_outcome()
    with pytest.raises(CleanupError, match="1 of 3 sandboxes could not be stopped: why") as failed:
        CleanupReport(plan, stopped=("a", "b"), failed=(("c", "why"),)).raise_for_outcome()
    assert (failed.value.exit_code, failed.value.hint) == (4, "sandrl sandboxes cleanup --yes c tries again")
    with pytest.raises(InterruptedRunError, match="1 of 3 sandboxes are left") as left:
        CleanupReport(plan, stopped=("a",), failed=(("b", "why"),), left=("c",), signal_number=15).raise_for_outcome()
    assert left.value.exit_code == 143
    assert left.value.hint == "sandrl sandboxes cleanup --yes b c continues"
