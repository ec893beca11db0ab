"""The report in a real browser."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sandrl.runs.report
from sandrl.runs import (
    CheckRow,
    MessageRow,
    OpinionPart,
    OpinionRow,
    ProblemCheck,
    ProblemRow,
    RunReader,
    RunWriter,
    ToolCallRow,
)
from sandrl.runs.report import report_document, report_page, report_trajectories, write_report
from tests.support.browser import Page, expect, opened
from tests.support.sample_runs import JOB, failed, trajectory, write_run

HOSTILE = (
    "</script><script>window.owned = 1</script><img src=x onerror='window.owned = 1'>"
    "<!-- \x1b]0;owned\x07 \x1b[2J \u202egnp.exe \u2028 half \ud83d {{code}} &amp; ]]>"
)


pytestmark = pytest.mark.usefixtures("own_index")


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


def show(page: Any, part: str = "", *, run: str = "sample") -> None:
    """Goes to a part of the run, as a link does."""
    page.evaluate("hash => { location.hash = hash; }", f"#/run/{run}/{part}")


def expect_listed(page: Any, count: int) -> None:
    """Waits until the list has so many trajectories."""
    expect(page.locator("#count")).to_have_text(re.compile(rf"^{count:,} trajector(y|ies)$"))


def chosen_check(page: Any, part: str) -> Any:
    return page.locator(f"#detail .checks {part}")


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
    shown.click("figure:has(#chart-reward) summary")
    table = shown.locator("figure:has(#chart-reward) table")
    expect(table.locator("tbody tr")).to_have_count(4)
    assert table.locator("tbody tr").last.locator("td").all_text_contents() == ["4", "0.875", "87.5%"]
    names, values = (shown.locator(f".card {part}").all_text_contents() for part in ("span", "b"))
    cards = dict(zip(names, values, strict=True))
    assert (cards["completions"], cards["steps"], cards["unscorable"]) == ("32", "4", "1")
    assert "do not agree" not in shown.locator("#notes").inner_text()
    for part, title in (("groups", "step 1"), ("rows", "hard")):
        show(shown, part)
        expect(shown.locator("main")).to_contain_text(title)
    assert len(page.requests) == 1


def test_a_flag_stands_above_all_with_its_metric_its_threshold_and_what_to_try(page: Page) -> None:
    assert page.page.locator("#notes").inner_text().splitlines() == [
        "truncated_completions: 50% of the completions are cut off at the token limit",
        "completions/clipped_ratio: 50.0%, threshold 20.0%, steps 1 to 4",
        "try: a larger max_tokens, or a prompt that asks for short answers: a completion that is cut off rarely passes",
    ]


def test_filters_and_search_choose_trajectories_and_stand_in_the_address(page: Page) -> None:
    shown = page.page
    show(shown, "rows")
    expect_listed(shown, 32)
    shown.click("button.chip:has-text('timeout')")
    expect_listed(shown, 3)
    shown.click("button.chip:has-text('failed')")
    expect_listed(shown, 9)
    shown.select_option("#step", "0")
    expect_listed(shown, 3)
    assert shown.evaluate("location.hash") == "#/run/sample/rows?status=timeout%2Cfailed&step=0"
    shown.go_back()
    expect_listed(shown, 9)
    show(shown, "rows")
    expect_listed(shown, 32)
    shown.fill(".search", "PRINTED step 2")
    expect_listed(shown, 2)
    shown.reload()
    expect_listed(shown, 2)
    assert shown.locator(".search").input_value() == "PRINTED step 2"
    shown.click(".row-link >> nth=0")
    expect(shown.locator("#detail")).to_contain_text("printed in step 2")
    show(shown, "rows?search=nothing+has+this")
    expect_listed(shown, 0)
    expect(shown.locator("#list")).to_contain_text("No trajectory matches the filters")


def test_trajectories_are_ordered_by_a_column(page: Page) -> None:
    shown = page.page
    show(shown, "rows?search=hard&status=passed,failed,timeout")
    expect_listed(shown, 15)
    shown.click(".list-head a.reward")
    rewards = shown.locator(".row-link .reward")
    expect(rewards.first).to_have_text("0")
    shown.click(".list-head a.reward")
    expect(rewards.first).to_have_text("1")
    assert shown.evaluate("location.hash").endswith("order=reward&desc=1")


def test_groups_show_a_problem_over_the_steps_and_which_samples_flipped(page: Page) -> None:
    shown = page.page
    show(shown, "groups")
    expect(shown.locator(".group .name")).to_have_text(["always", "hard"])
    cells = shown.locator(".group:has-text('hard') td .cells")
    assert [cell.locator("a").all_text_contents() for cell in cells.all()] == [
        ["F", "F", "T", "?"], ["P", "F", "T", "F"], ["P", "P", "T", "F"], ["P", "P", "P", "F"],
    ]  # fmt: skip
    assert cells.nth(0).locator(".flat-mark").count() == 1
    assert [cell.locator(".flipped").count() for cell in cells.all()] == [0, 1, 1, 1]
    shown.click("button:has-text('flipped only')")
    expect(shown.locator(".group .name")).to_have_text(["hard"])
    shown.click(".group .cell.flipped >> nth=-1")
    expect(shown.locator("#detail .badge")).to_have_text("passed")
    expect(shown.locator("#detail h1")).to_have_text("hard")
    shown.keyboard.press("Escape")
    expect(shown.locator(".group .name")).to_have_text(["hard"])


def test_each_check_has_its_verdict_and_its_words_are_found(browser: Any, tmp_path: Path) -> None:
    statuses = ["passed", "passed", "failed", "timeout", *["not_reached"] * 996]
    checks = tuple(CheckRow(status=status, detail="7 is not 8" if status == "failed" else "") for status in statuses)
    rows = [failed(0, passed=2, total=1000, checks=checks), trajectory(1)]
    with opened(browser, report_of(write_run(tmp_path / "runs", rows)), at="#/run/sample/rows?search=7+is+not") as seen:
        expect_listed(seen.page, 1)
        seen.page.keyboard.press("Enter")
        expect(chosen_check(seen.page, "li")).to_have_text([
            "P1–2 passed", "F3 failed: 7 is not 8", "T4 timed out", "–5–1000 not reached",
        ])  # fmt: skip
        assert seen.complaints == []


@pytest.fixture
def explained(tmp_path: Path) -> Path:
    """A run whose completions fail a test, a case and a call, with what each got."""
    problems = {
        "tests": ProblemCheck(name="test_two", source="x = two()\nassert x > 0\nassert x == 2", is_hidden=True),
        "cases": ProblemCheck(stdin="3 4\n", expected="seven\neight\n", is_hidden=False),
        "calls": ProblemCheck(source="sort([3, 1])", expected="[1, 3]"),
    }
    verdicts = {
        "tests": CheckRow(status="failed", detail="AssertionError", got="1", expected="2", line=3),
        "cases": CheckRow(status="failed", got="seven\nnine\n"),
        "calls": CheckRow(status="failed", got="[3, 1]"),
    }
    rows = [
        failed(index, task_id=kind, problem=kind * 6, checks=(verdict,))
        for index, (kind, verdict) in enumerate(verdicts.items())
    ]
    run = write_run(tmp_path / "runs", rows)
    with RunWriter(run, job_id=JOB) as writer:
        for kind, check in problems.items():
            writer.append(
                ProblemRow(
                    job_id=JOB, digest=kind * 6, task_id=kind, prompt=f"Solve {kind}.", kind=kind, checks=(check,),
                    check_count=1,
                )
            )  # fmt: skip
    return run


def test_a_failed_check_shows_its_source_its_failed_line_and_what_it_got(browser: Any, explained: Path) -> None:
    with opened(browser, report_of(explained), at="#/run/sample/t/-.0") as seen:
        shown = seen.page
        expect(shown.locator("[aria-label=Prompt]")).to_have_text("Solve tests.")
        expect(chosen_check(shown, ".tag")).to_have_text("not in the prompt")
        expect(chosen_check(shown, ".marked .source")).to_have_text("assert x == 2\n")
        expect(chosen_check(shown, ".diff tbody td")).to_have_text(["2", "1"])
        shown.click("text=Next →")
        expect(chosen_check(shown, "pre")).to_have_text("3 4\n")
        expect(chosen_check(shown, ".diff tbody td")).to_have_text(["seven", "seven", "eight", "nine"])
        expect(chosen_check(shown, ".diff .wrong")).to_have_text("nine")
        expect(chosen_check(shown, ".tag")).to_have_count(0)
        shown.keyboard.press("ArrowRight")
        expect(chosen_check(shown, ".source")).to_have_text("sort([3, 1])\n")
        expect(chosen_check(shown, ".diff mark").first).to_be_visible()
        shown.reload()
        expect(shown.locator("#detail h1")).to_have_text("calls")
        assert seen.complaints == []


def test_code_that_a_tool_was_called_with_is_shown_as_code(browser: Any, tmp_path: Path) -> None:
    calls = (
        ToolCallRow(name="execute_code", arguments=json.dumps({"code": "x = 1\nprint(x)"})),
        ToolCallRow(name="count", arguments='{"to": 3}'),
    )
    rows = [trajectory(messages=(MessageRow(role="assistant", tool_calls=calls),))]
    with opened(browser, report_of(write_run(tmp_path / "runs", rows)), at="#/run/sample/t/-.0") as seen:
        expect(seen.page.locator("#detail .messages pre")).to_have_text(["x = 1\nprint(x)", '{"to": 3}'])
        assert seen.complaints == []


def test_the_keyboard_alone_reads_every_trajectory(page: Page) -> None:
    shown = page.page
    shown.keyboard.press("3")
    expect_listed(shown, 32)
    chosen = shown.locator(".row-link[aria-current]")
    for _ in range(3):
        shown.keyboard.press("ArrowDown")
    expect(chosen.locator(".index")).to_have_text("3")
    shown.keyboard.press("End")
    expect(chosen.locator("xpath=..")).to_have_attribute("aria-posinset", "32")
    expect(chosen).to_be_focused()
    shown.keyboard.press("Enter")
    expect(shown.locator("#detail")).to_contain_text("31: c31")
    shown.keyboard.press("ArrowLeft")
    expect(shown.locator("#detail")).to_contain_text("30: c30")
    shown.keyboard.press("Escape")
    expect_listed(shown, 32)
    shown.keyboard.press("Home")
    expect(chosen.locator(".index")).to_have_text("0")
    shown.keyboard.press("/")
    expect(shown.locator(".search")).to_be_focused()
    shown.keyboard.type("c31")
    expect_listed(shown, 1)
    shown.keyboard.press("Escape")
    shown.keyboard.press("?")
    expect(shown.locator("dialog")).to_contain_text("Page Down")
    shown.keyboard.press("Escape")
    expect(shown.locator("dialog")).to_have_count(0)
    shown.keyboard.press("Enter")
    expect(shown.locator("#detail")).to_contain_text("31: c31")


def test_dark_and_light_follow_the_user_and_the_button(browser: Any, training: Path) -> None:
    with opened(browser, report_of(training), dark=True) as seen:
        ground = "getComputedStyle(document.body).backgroundColor"
        dark = seen.page.evaluate(ground)
        seen.page.click("#theme")
        light = seen.page.evaluate(ground)
        assert sum(map(int, re.findall(r"\d+", dark)[:3])) < 150
        assert sum(map(int, re.findall(r"\d+", light)[:3])) > 600
        assert drawn_colours(seen.page, "chart-reward") > 10
        seen.page.reload()
        seen.page.wait_for_selector("html[data-ready]")
        assert seen.page.evaluate(ground) == light
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
        writer.append(row)
    return writer.path


@pytest.mark.parametrize("part", ["", "groups", "rows", "t/-.0"])
def test_text_of_a_model_stays_text(browser: Any, hostile: Path, part: str) -> None:
    with opened(browser, report_of(hostile)) as seen:
        run = seen.page.locator("h1").inner_text()
        show(seen.page, part, run=run)
        expect(seen.page.locator("main")).to_contain_text("</script><script>window.owned = 1</script>")
        text = seen.page.locator("main").inner_text()
        assert seen.page.evaluate("window.owned") is None
        assert seen.page.locator("img").count() == 0
        assert "\\x1b]0;owned\\x07" in text
        assert "\\u202egnp.exe" in text
        assert ("2980000 more characters" in text) == (part == "t/-.0")
        attributes = "[...document.querySelectorAll('main *')].flatMap(e => [e.title, e.ariaLabel]).join('')"
        assert not set("\x1b\x07\u202e\u2028") & set(text + seen.page.evaluate(attributes))
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
    with opened(browser, file, at="#/run/sample/rows") as seen:
        expect_listed(seen.page, 10_000)
        assert 0 < seen.page.locator(".item").count() < 60
        seen.page.keyboard.press("End")
        expect(seen.page.locator(".row-link[aria-current] .index")).to_have_text("9999")
        assert seen.page.locator(".item").count() < 60
        seen.page.fill(".search", "f9876")
        expect_listed(seen.page, 1)
        show(seen.page, "groups")
        expect(seen.page.locator("#count")).to_have_text("1,250 problems")
        assert seen.page.locator(".group").count() == 50
        seen.page.click("text=Next →")
        expect(seen.page.locator(".group .name").first).to_have_text("t50")
        assert seen.complaints == []


def test_completions_that_evaluate_the_policy_are_listed_apart(browser: Any, tmp_path: Path) -> None:
    rows = [trajectory(0, step=0), failed(1, step=0), failed(2, step=1, held_out=True)]
    with opened(browser, report_of(write_run(tmp_path / "runs", rows, command="grpo", outcome=None))) as seen:
        names, values = (seen.page.locator(f".card {part}").all_text_contents() for part in ("span", "b"))
        cards = dict(zip(names, values, strict=True))
        assert (cards["completions"], cards["held out"], cards["mean reward"]) == ("2", "1", "0.5")
        show(seen.page, "rows")
        seen.page.click("button.chip:has-text('held out')")
        expect_listed(seen.page, 1)
        expect(seen.page.locator(".row-link")).to_contain_text("held out")
        assert seen.complaints == []


def test_a_run_of_which_nothing_was_written_yet_has_a_report(browser: Any, tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "runs", command="reward", job_id=JOB) as writer:
        file = report_of(writer.path)
    with opened(browser, file) as seen:
        assert seen.page.locator(".state").inner_text() == "running"
        for part in ("rows", "groups"):
            show(seen.page, part, run=writer.path.name)
            expect(seen.page.locator("main")).to_contain_text("There are no trajectories yet.")
        assert seen.complaints == []


def test_what_could_not_be_read_is_said_in_the_report(training: Path) -> None:
    file = training / "trajectories.jsonl"
    file.write_bytes(b"garbage\n" + file.read_bytes()[:-20])
    document = report_document(RunReader(training))
    assert any("The last row was incomplete" in note for note in document["notes"])
    assert any("1 rows could not be read" in note for note in document["notes"])
    assert "step 3: completions in the metrics: 8, but in the completions: 7" in document["disagreements"]


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
            writer.append(OpinionRow(job_id=JOB, status=row.status, opinion=opinion, **of))
    with opened(browser, report_of(run)) as seen:
        detail = seen.page.locator("#detail")
        words = ("also failed in one process: ", "not available: the sandbox was lost")
        for index, expected in zip((2, 3), words, strict=True):
            show(seen.page, f"t/-.{index}")
            expect(detail).to_contain_text(expected)
        show(seen.page, "t/-.4")
        expect(detail).to_contain_text("4: c4")
        expect(detail).not_to_contain_text("Second opinion")
        show(seen.page, "rows")
        seen.page.click("button.chip:has-text('passes in one process')")
        expect_listed(seen.page, 1)
        seen.page.click(".row-link")
        expect(detail).to_contain_text("passes in one process")
        assert seen.page.evaluate("window.owned") is None
        assert seen.complaints == []


def test_the_libraries_of_the_page_are_those_whose_checksums_are_written_down() -> None:
    vendor = Path(sandrl.runs.report.__file__).parent / "assets" / "vendor"
    written = (vendor / "README.md").read_text(encoding="utf-8")
    libraries = sorted(vendor.glob("*.js"))
    assert len(libraries) == 5
    for library in libraries:
        assert hashlib.sha256(library.read_bytes()).hexdigest() in written, library.name
