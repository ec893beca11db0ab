"""The report in a real browser."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandrl.errors import ServiceError
from sandrl.runs import CheckRow, MessageRow, OpinionPart, OpinionRow, RunReader, RunWriter, ToolCallRow
from sandrl.runs.report import report_document, report_page, report_trajectories, write_report
from tests.support.browser import Page, launched, opened
from tests.support.sample_runs import JOB, failed, trajectory, write_run

HOSTILE = (
    "</script><script>window.owned = 1</script><img src=x onerror='window.owned = 1'>"
    "<!-- \x1b]0;owned\x07 \x1b[2J \u202egnp.exe \u2028 half \ud83d {{code}} &amp; ]]>"
)


@pytest.fixture(autouse=True)
def _own_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    monkeypatch.setenv("SANDRL_STATE_DIR", str(tmp_path / "state"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as browser:
        yield browser


def expect(locator: Any) -> Any:
    """Waits for what a page comes to show; imported on use, because the module skips where there is no browser."""
    from playwright.sync_api import expect

    return expect(locator)


def report_of(run: Path) -> Path:
    return write_report(RunReader(run))


@pytest.fixture
def training(tmp_path: Path) -> Path:
    """Four steps of two problems with four samples each; one group has no variance, one completion no reward."""
    rows: list[Any] = []
    for step in range(4):
        for sample in range(4):
            rows.append(trajectory(len(rows), step=step, task_id="always"))
            fails = sample >= step
            status = "infrastructure" if (step, sample) == (0, 3) else "timeout" if sample == 2 else "failed"
            reward = None if status == "infrastructure" else 0.0
            rows.append(
                failed(len(rows), status, step=step, task_id="hard", reward=reward, stdout=f"printed in step {step}")
                if fails
                else trajectory(len(rows), step=step, task_id="hard")
            )
    logged: dict[int, dict[str, float | None]] = {
        step: {"loss": 0.1 / (1 + step), "completions/clipped_ratio": 0.5} for step in range(4)
    }
    return write_run(tmp_path / "runs", rows, command="grpo", extra=logged)


@pytest.fixture
def page(browser: Any, training: Path) -> Iterator[Page]:
    with opened(browser, report_of(training)) as seen:
        yield seen
        assert seen.complaints == []


def listed(page: Any) -> int:
    return int(page.locator("#count").inner_text().split(" of ")[0].replace(",", ""))


def drawn_colours(page: Any, chart: str) -> int:
    """How many colours a chart's canvas has; an empty one has one."""
    script = """(id) => { const canvas = document.getElementById(id);
        const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        return new Set(new Uint32Array(data.buffer)).size; }"""
    return int(page.evaluate(script, chart))


def test_the_charts_are_drawn_from_the_run_and_nothing_is_fetched(page: Page) -> None:
    shown = page.page
    for chart in ("chart-reward", "chart-status", "chart-latency", "chart-metric"):
        assert drawn_colours(shown, chart) > 10, chart
    assert [url for url in page.requests if not url.startswith("file:")] == []
    assert len(page.requests) == 1
    table = shown.locator("figure:has(#chart-reward) table")
    assert table.locator("tbody tr").count() == 4
    assert table.locator("tbody tr").last.locator("td").all_text_contents() == ["3", "0.875", "87.5%"]
    names, values = (shown.locator(f".card {part}").all_text_contents() for part in ("span", "b"))
    cards = dict(zip(names, values, strict=True))
    assert (cards["completions"], cards["steps"], cards["unscorable"]) == ("32", "4", "1")
    assert "do not agree" not in shown.locator("#notes").inner_text()


def test_a_flag_stands_above_all_with_its_metric_its_threshold_and_what_to_try(page: Page) -> None:
    assert page.page.locator("#notes").inner_text().splitlines() == [
        "truncated_completions: 50% of the completions are cut off at the most tokens they may have",
        "completions/clipped_ratio: 50.0%, threshold 20.0%, steps 0 to 3",
        "try: a larger max_tokens, or a prompt that asks for short answers: what is cut off rarely passes",
    ]


def test_filters_and_search_choose_trajectories(page: Page) -> None:
    shown = page.page
    assert listed(shown) == 32
    shown.select_option("#status", "timeout")
    assert listed(shown) == 3
    shown.select_option("#status", "!passed")
    assert listed(shown) == 10
    shown.select_option("#step", "0")
    assert listed(shown) == 4
    shown.select_option("#status", "")
    shown.select_option("#step", "")
    shown.fill("#search", "PRINTED step 2")
    expect(shown.locator("#count")).to_have_text(re.compile("^2 of"))
    assert "printed in step 2" in shown.locator("#detail").inner_text()
    shown.fill("#search", "nothing has this")
    expect(shown.locator("#count")).to_have_text(re.compile("^0 of"))
    assert "Nothing is like that" in shown.locator("#detail").inner_text()


def test_the_grid_marks_groups_without_variance_and_its_cells_open_trajectories(page: Page) -> None:
    shown = page.page
    shown.select_option("#grid-step", "0")
    assert shown.locator(".group .name").all_text_contents() == ["always", "hard"]
    assert shown.locator(".group.flat .name").all_text_contents() == ["always", "hard"]
    shown.select_option("#grid-step", "1")
    assert shown.locator(".group.flat .name").all_text_contents() == ["always"]
    cells = shown.locator(".group:not(.flat) .cell")
    assert cells.all_text_contents() == ["P", "F", "T", "F"]
    shown.select_option("#status", "passed")
    cells.nth(2).click()
    assert shown.locator("#detail .badge").inner_text() == "timeout"
    assert shown.locator("#status").input_value() == ""


def test_each_check_has_its_verdict_and_its_words_are_found(browser: Any, tmp_path: Path) -> None:
    statuses = ["passed", "passed", "failed", "timeout", *["not_reached"] * 996]
    checks = tuple(CheckRow(status=status, detail="7 is not 8" if status == "failed" else "") for status in statuses)
    rows = [failed(0, passed=2, total=1000, checks=checks), trajectory(1)]
    with opened(browser, report_of(write_run(tmp_path / "runs", rows))) as seen:
        items = seen.page.locator("#detail .checks li")
        assert items.all_inner_texts() == [
            "P1–2 passed", "F3 failed: 7 is not 8", "T4 timed out", "–5–1000 not reached",
        ]  # fmt: skip
        seen.page.fill("#search", "7 is not")
        expect(seen.page.locator("#count")).to_have_text("1 of 2")
        assert seen.complaints == []


def test_code_that_a_tool_was_called_with_is_shown_as_code(browser: Any, tmp_path: Path) -> None:
    calls = (
        ToolCallRow(name="execute_code", arguments=json.dumps({"code": "x = 1\nprint(x)"})),
        ToolCallRow(name="count", arguments='{"to": 3}'),
    )
    rows = [trajectory(messages=(MessageRow(role="assistant", tool_calls=calls),))]
    with opened(browser, report_of(write_run(tmp_path / "runs", rows))) as seen:
        shown = seen.page.locator("#detail pre").all_inner_texts()
        assert shown[:2] == ["x = 1\nprint(x)", '{"to": 3}']
        assert seen.complaints == []


def test_the_keyboard_alone_reads_every_trajectory(page: Page) -> None:
    shown = page.page
    shown.focus("#list")
    for _ in range(3):
        shown.keyboard.press("ArrowDown")
    assert shown.locator('[aria-selected="true"] .sub').inner_text().startswith("3 · ")
    shown.keyboard.press("End")
    assert shown.locator('[aria-selected="true"]').get_attribute("aria-posinset") == "32"
    assert "31: c31" in shown.locator("#detail").inner_text()
    active = shown.locator("#list").get_attribute("aria-activedescendant")
    assert shown.locator(f"#{active}").get_attribute("aria-selected") == "true"


def test_everything_a_screen_reader_needs_has_a_name(page: Page) -> None:
    unnamed = page.page.evaluate(
        """() => [...document.querySelectorAll('button, select, input, canvas, [role=listbox], section')]
        .filter((each) => !(each.getAttribute('aria-label') || each.getAttribute('aria-labelledby')
            || each.labels?.length || each.textContent.trim())).map((each) => each.outerHTML.slice(0, 80))"""
    )
    assert unnamed == []
    assert page.page.locator("h1").count() == 1


def test_dark_and_light_follow_the_user_and_the_button(browser: Any, training: Path) -> None:
    with opened(browser, report_of(training), dark=True) as seen:
        ground = "getComputedStyle(document.body).backgroundColor"
        dark = seen.page.evaluate(ground)
        seen.page.click("#theme")
        light = seen.page.evaluate(ground)
        assert sum(map(int, re.findall(r"\d+", dark)[:3])) < 150
        assert sum(map(int, re.findall(r"\d+", light)[:3])) > 600
        assert drawn_colours(seen.page, "chart-reward") > 10
        assert seen.complaints == []


def test_on_a_phone_nothing_is_wider_than_the_screen(browser: Any, training: Path) -> None:
    with opened(browser, report_of(training), width=360, height=740) as seen:
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 360
        assert seen.page.locator("#detail").bounding_box()["width"] > 250
        assert seen.complaints == []


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    call = ToolCallRow(name=HOSTILE, arguments=HOSTILE)
    messages = (
        MessageRow(role=HOSTILE, content=HOSTILE, name=HOSTILE),
        MessageRow(
            role="assistant", tool_calls=(call, ToolCallRow(name="f", arguments=json.dumps({HOSTILE: HOSTILE})))
        ),
    )
    row = failed(
        0, task_id=HOSTILE, id=HOSTILE, detail=HOSTILE, completion=HOSTILE, code=HOSTILE, stdout=HOSTILE,
        stderr="x" * 3_000_000, failures=(HOSTILE,), components={HOSTILE: 1.0}, tokens={HOSTILE: 1}, messages=messages,
        checks=(CheckRow(status="failed", detail=HOSTILE), CheckRow(status=HOSTILE)),
    )  # fmt: skip
    with RunWriter.create(tmp_path / "runs", command="reward", job_id=JOB, options={HOSTILE: HOSTILE}) as writer:
        writer.write_trajectory(row)
    return writer.path


def test_text_of_a_model_stays_text(browser: Any, hostile: Path) -> None:
    with opened(browser, report_of(hostile)) as seen:
        assert seen.page.evaluate("window.owned") is None
        assert seen.page.locator("img").count() == 0
        text = seen.page.locator("#detail").inner_text()
        assert "</script><script>window.owned = 1</script>" in text
        assert "\\x1b]0;owned\\x07" in text
        assert "\\u202egnp.exe" in text
        assert "2980000 more characters" in text
        assert not set("\x1b\x07\u202e\u2028") & set(seen.page.locator("body").inner_text())
        assert seen.complaints == []


def test_no_byte_of_a_model_is_in_the_page_as_it_is(hostile: Path) -> None:
    reader = RunReader(hostile)
    page = "".join(report_page(report_document(reader), report_trajectories(reader)))
    assert "owned" not in page
    [data] = re.findall(r'id="data">([A-Za-z0-9+/=]+)</script>', page)
    [row] = json.loads(gzip.decompress(base64.b64decode(data)))["trajectories"]
    assert row["code"].startswith("</script><script>window.owned")


def test_the_policy_of_the_page_forbids_what_is_not_its_own(browser: Any, hostile: Path) -> None:
    with opened(browser, report_of(hostile)) as seen:
        script = "made.textContent = 'window.owned = 1'; document.body.append(made);"
        seen.page.evaluate(f"() => {{ const made = document.createElement('script'); {script} }}")
        assert seen.page.evaluate("window.owned") is None
        assert any("Content Security Policy" in complaint for complaint in seen.complaints)


def test_ten_thousand_trajectories_stay_usable(browser: Any, tmp_path: Path) -> None:
    body = "\n".join(f"    value = value * {n} + {n % 7}" for n in range(20))
    codes = [f"def f{n}(value):\n{body}\n    return value" for n in range(10_000)]
    rows = [
        trajectory(n, task_id=f"t{n % 1250}", code=code, completion=f"<answer>{code}</answer>")
        for n, code in enumerate(codes)
    ]
    file = report_of(write_run(tmp_path / "runs", rows, outcome=None))
    assert file.stat().st_size < 5_000_000
    with opened(browser, file) as seen:
        assert listed(seen.page) == 10_000
        assert seen.page.locator(".item").count() < 60
        seen.page.focus("#list")
        seen.page.keyboard.press("End")
        assert "9999: c9999" in seen.page.locator("#detail").inner_text()
        seen.page.fill("#search", "f9876")
        expect(seen.page.locator("#count")).to_have_text(re.compile("^1 of"))
        assert seen.page.locator(".group").count() == 40
        seen.page.click("#grid-more")
        assert seen.page.locator(".group").count() == 1250
        assert seen.complaints == []


def test_completions_that_evaluate_the_policy_are_listed_apart(browser: Any, tmp_path: Path) -> None:
    rows = [trajectory(0, step=0), failed(1, step=0), failed(2, step=1, held_out=True)]
    with opened(browser, report_of(write_run(tmp_path / "runs", rows, command="grpo", outcome=None))) as seen:
        names, values = (seen.page.locator(f".card {part}").all_text_contents() for part in ("span", "b"))
        cards = dict(zip(names, values, strict=True))
        assert (cards["completions"], cards["held out"], cards["mean reward"]) == ("2", "1", "0.5")
        seen.page.select_option("#status", "!held")
        assert listed(seen.page) == 1
        assert "held out" in seen.page.locator("#detail").inner_text()
        assert seen.complaints == []


def test_a_run_of_which_nothing_was_written_yet_has_a_report(browser: Any, tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "runs", command="reward", job_id=JOB) as writer:
        file = report_of(writer.path)
    with opened(browser, file) as seen:
        assert "reward · running" in seen.page.locator("#subtitle").inner_text()
        assert "There are no trajectories yet." in seen.page.locator("#detail").inner_text()
        assert seen.complaints == []


def test_what_could_not_be_read_is_said_in_the_report(training: Path) -> None:
    file = training / "trajectories.jsonl"
    file.write_bytes(b"garbage\n" + file.read_bytes()[:-20])
    document = report_document(RunReader(training))
    assert any("The last row was unfinished" in note for note in document["notes"])
    assert any("1 rows could not be read" in note for note in document["notes"])
    assert "step 3: completions in the metrics: 8, but in the completions: 7" in document["disagreements"]


def test_a_report_that_cannot_be_written_names_the_way_out(training: Path, tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="cannot be written") as caught:
        write_report(RunReader(training), tmp_path / "missing" / "report.html")
    assert "`out`" in str(caught.value.hint)


def test_a_completion_that_passes_in_one_process_says_so_and_is_found(tmp_path: Path, browser: Any) -> None:
    opinions = {
        1: OpinionPart(status="passed"),
        2: OpinionPart(status="failed", detail=HOSTILE),
        3: OpinionPart(status="infrastructure", detail="the sandbox was lost"),
    }
    run = write_run(tmp_path / "runs", [trajectory(0), *(failed(index) for index in (1, 2, 3, 4))])
    with RunWriter(run, job_id=JOB) as writer:
        for index, opinion in opinions.items():
            row = failed(index)
            of = {"index": index, "id": row.id, "task_id": row.task_id, "sandbox_id": row.sandbox_id}
            writer.write_opinion(OpinionRow(job_id=JOB, status=row.status, opinion=opinion, **of))
    with opened(browser, report_of(run)) as seen:
        detail = seen.page.locator("#detail")
        words = ("in one process, too", "not available: the sandbox was lost")
        for index, expected in zip((2, 3), words, strict=True):
            seen.page.click(f"#item-{index}")
            expect(detail).to_contain_text(expected)
        seen.page.click("#item-4")
        expect(detail).not_to_contain_text("Second opinion")
        seen.page.select_option("#status", "!opinion")
        expect(seen.page.locator("#count")).to_have_text("1 of 5")
        expect(detail).to_contain_text("passes in one process")
        assert seen.page.evaluate("window.owned") is None
        assert seen.complaints == []
