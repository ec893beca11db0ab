"""The pages of `sandrl view` in a real browser: from a server while a run is written, and exported to files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from sandrl.runs import CheckRow, EvaluationRow, MessageRow, MetricsRow, ProblemCheck, ProblemRow, RunOutcome, RunWriter
from sandrl.runs.comparison import Source, compare
from sandrl.runs.rows import BranchRow
from sandrl.viewer.library import Library
from tests.support.browser import expect, opened
from tests.support.sample_runs import JOB, failed, trajectory, write_run
from tests.support.viewed_runs import HOSTILE


@pytest.fixture
def runs_dir(tmp_path: Path, own_index: None) -> Path:
    """A training of three steps with an evaluation, and two evaluations of the same problems."""
    runs_dir = tmp_path / "runs"
    rows = [
        trajectory(sample, step=step, task_id=task)
        if task == "easy" or sample < step
        else failed(sample, step=step, task_id=task, problem="d" * 32, checks=(CheckRow(status="failed", got="3"),))
        for step in range(3)
        for task in ("easy", "hard")
        for sample in range(4)
    ]
    training = write_run(runs_dir, rows, name="training", command="grpo")
    check = ProblemCheck(source="f(2)", expected="2", is_hidden=True)
    with RunWriter(training, job_id=JOB) as writer:
        writer.append(
            ProblemRow(job_id=JOB, digest="d" * 32, task_id="hard", prompt=f"Solve it. {HOSTILE}", checks=(check,))
        )
        measured = {"held_out/pass@1": 0.5, "held_out/pass@1_low": 0.3, "held_out/pass@1_high": 0.7}
        writer.append(EvaluationRow(job_id=JOB, step=2, problems=8, metrics=measured))
    for name, passes in (("before", 2), ("after", 4)):
        own = [
            trajectory(n, task_id=f"t{n}") if n < passes else failed(n, task_id=f"t{n}", detail=HOSTILE)
            for n in range(6)
        ]
        write_run(runs_dir, own, name=name, command="eval", options={"model": f"model-{name}", "problems": "mbpp"})
    cut_off = [
        trajectory(0, finish_reason="length"),
        failed(1, finish_reason="length"),
        failed(2, finish_reason="stop"),
    ]
    write_run(runs_dir, [*cut_off, failed(3, "infrastructure", reward=None)], name="partly", command="reward")
    return runs_dir


@pytest.fixture(params=["live", "exported"])
def site(request: pytest.FixtureRequest) -> Path | str:
    """The pages, from a server and from files."""
    found: Path | str = request.getfixturevalue(request.param)
    return found


def key_of(page: Any, run: str) -> str:
    """The key of a run, from the link in the list."""
    target: str = page.locator("td.name a", has_text=re.compile(f"^{run}$")).get_attribute("href")
    return target.removeprefix("#/run/")


def go(page: Any, place: str) -> None:
    page.evaluate("hash => { location.hash = hash; }", f"#/{place}")


def test_the_list_of_runs_is_filtered_and_some_are_compared(browser: Any, site: Path | str) -> None:
    with opened(browser, site) as seen:
        shown = seen.page
        expect(shown.locator("#count")).to_have_text("4 runs")
        assert shown.locator(".spark").count() == 1
        shown.fill(".search", "eval")
        expect(shown.locator("td.name a")).to_have_count(2)
        shown.reload()
        expect(shown.locator("td.name a")).to_have_count(2)
        for run in ("before", "after"):
            shown.check(f"input[aria-label='Compare {run}']")
        shown.click("text=Compare 2 runs")
        expect(shown.locator(".compared tbody th")).to_have_text(["t2", "t3"])
        cells = shown.locator(".compared tbody tr:first-child .compared-cell")
        expect(cells.first).to_contain_text("failed")
        expect(cells.last).to_contain_text("passed")
        expect(shown.locator("#chart-pass")).to_be_visible()
        shown.click("button:has-text('different verdicts')")
        expect(shown.locator(".compared tbody th")).to_have_count(6)
        cells.last.click()
        expect(shown.locator("#detail h1")).to_have_text("t0")
        shown.go_back()
        expect(shown.locator(".compared tbody th")).to_have_count(6)
        assert seen.complaints == []


def test_runs_are_compared_as_a_table_with_their_options_and_paired_differences(
    browser: Any, site: Path | str, library: Library
) -> None:
    keys = {run["run_id"]: run["key"] for run in library.documents()["runs"]}
    entries = library.entries()
    found = compare([Source(run, library.open(keys[run], entries).columns) for run in ("before", "after", "training")])
    difference = found.pairings[0].passed
    assert difference is not None
    assert difference.low is not None
    with opened(browser, site) as seen:
        shown = seen.page
        go(shown, f"compare?runs={keys['before']},{keys['after']},{keys['training']}")
        rows = shown.locator("table[aria-label='Compared runs'] tbody tr")
        expect(rows.nth(0)).to_contain_text("baseline")
        expect(rows.nth(1)).to_contain_text(f"+{100 * difference.value:.1f}")
        expect(rows.nth(1)).to_contain_text(f"{100 * difference.low:.1f} to".replace("-", "−"))
        expect(rows.nth(1)).to_contain_text(f"{found.pairings[0].adjusted_p_value:.3f}")
        expect(rows.nth(1)).to_contain_text("model-after")
        expect(rows.nth(2)).to_contain_text("no common problem")
        head = shown.locator("table[aria-label='Compared runs'] thead")
        expect(head).not_to_contain_text("timeout")
        shown.click("text=Columns of the configuration")
        shown.click("button:has-text('options that are equal')")
        expect(head).to_contain_text("timeout")
        shown.click(".chips button:text-is('model')")
        expect(rows.nth(1)).not_to_contain_text("model-after")
        shown.click("text=2 gained")
        expect(shown.locator(".compared tbody th")).to_have_text(["t2", "t3"])
        shown.reload()
        expect(shown.locator(".compared tbody th")).to_have_text(["t2", "t3"])
        expect(head).to_contain_text("timeout")
        shown.click("[aria-label='Take after as baseline']")
        expect(rows.nth(0)).to_contain_text("A after")
        expect(rows.nth(1)).to_contain_text(f"−{100 * difference.value:.1f}")
        expect(rows.nth(1)).to_contain_text("0 gained, 2 lost")
        shown.click("[aria-label='Remove training']")
        expect(rows).to_have_count(2)
        assert seen.complaints == []


def test_the_list_tells_runs_apart_and_one_with_unscorable_answers_is_not_green(
    browser: Any, site: Path | str, runs_dir: Path
) -> None:
    with opened(browser, site) as seen:
        row = seen.page.locator("tr", has_text="model-before")
        expect(row).to_contain_text("33.3%9.7–70.0%model-beforembpp")
        green = row.locator(".state").evaluate("badge => getComputedStyle(badge).color")
        row = seen.page.locator("tr", has_text="partly")
        expect(row.locator(".state")).to_have_text("finished, 1 unscorable")
        assert row.locator(".state").evaluate("badge => getComputedStyle(badge).color") != green
        expect(row.locator("td").nth(7)).to_have_text("1")
        expect(row.locator("td").nth(8)).to_have_text("2")


def test_a_run_has_its_curves_with_the_intervals_of_its_evaluations(browser: Any, site: Path | str) -> None:
    with opened(browser, site) as seen:
        seen.page.click("text=training")
        expect(seen.page.locator("#cards")).to_contain_text("95%: 30.0–70.0%")
        seen.page.click("figure:has(#chart-evaluations) summary")
        cells = seen.page.locator("figure:has(#chart-evaluations) tbody td")
        expect(cells).to_have_text(["2", "50.0%", "30.0–70.0%"])
        assert seen.complaints == []


def test_a_link_to_a_trajectory_shows_it_after_a_reload_and_its_text_stays_text(browser: Any, site: Path | str) -> None:
    with opened(browser, site) as seen:
        shown = seen.page
        key = key_of(shown, "training")
        go(shown, f"run/{key}/groups")
        shown.click("button:has-text('flipped only')")
        expect(shown.locator(".group .name")).to_have_text(["hard"])
        shown.click(".cell.failed >> nth=-1")
        for _ in range(2):
            expect(shown.locator("#detail h1")).to_have_text("hard")
            expect(shown.locator(".diff tbody td")).to_have_text(["2", "3"])
            expect(shown.locator(".checks .tag")).to_have_text("not in the prompt")
            expect(shown.locator("pre[aria-label=Prompt]")).to_contain_text(
                "onerror='window.owned = 1'>\\u202e\\x1b[2J"
            )
            shown.reload()
        assert shown.evaluate("window.owned") is None
        assert shown.locator("img").count() == 0
        assert seen.complaints == []


def test_rows_are_found_by_what_the_completions_say(browser: Any, site: Path | str) -> None:
    with opened(browser, site) as seen:
        go(seen.page, f"run/{key_of(seen.page, 'after')}/rows?search=def+f5&status=failed")
        expect(seen.page.locator("#count")).to_have_text("1 trajectory")
        seen.page.keyboard.press("Enter")
        expect(seen.page.locator("#detail h1")).to_have_text("t5")
        expect(seen.page.locator("text=Next →")).to_be_disabled()
        seen.page.keyboard.press("Escape")
        expect(seen.page.locator(".search")).to_have_value("def f5")
        assert seen.complaints == []


def test_branches_of_an_episode_are_shown_below_its_messages(browser: Any, live: str, runs_dir: Path) -> None:
    branch = BranchRow(messages=(MessageRow(role="assistant", content=HOSTILE, is_given=True),))
    messages = (MessageRow(role="user", content="x"),)
    row = trajectory(messages=messages, branches=(branch,), episode={"agent_output": f"bye {HOSTILE}"})
    write_run(runs_dir, [row], name="agents")
    with opened(browser, live) as seen:
        go(seen.page, f"run/{key_of(seen.page, 'agents')}/t/-.0")
        shown = seen.page.locator("#detail")
        expect(shown).to_contain_text("Branch 1")
        expect(shown.locator("#output-title")).to_be_visible()
        expect(shown).to_contain_text("bye </script>")
        expect(shown).to_contain_text("assistant said elsewhere")
        expect(shown).to_contain_text("window.owned")
        assert seen.page.evaluate("window.owned") is None
        assert seen.complaints == []


def test_the_export_needs_no_server(browser: Any, exported: Path) -> None:
    with opened(browser, exported) as seen:
        seen.page.click("text=training")
        expect(seen.page.locator("#cards")).to_contain_text("24")
        assert {url.partition(":")[0] for url in seen.requests} == {"file"}
        assert seen.complaints == []


def test_a_run_grows_on_the_page_while_it_is_written(browser: Any, live: str, runs_dir: Path) -> None:
    with RunWriter.create(runs_dir, command="grpo", job_id=JOB, name="growing") as writer:

        def write_step(step: int) -> None:
            for index in range(8):
                writer.append(trajectory(index, step=step, task_id=f"t{index}"))
            metrics: dict[str, float | None] = {"completions": 8.0, "scored": 8.0, "reward/mean": 1.0, "pass_rate": 1.0}
            writer.append(MetricsRow(job_id=JOB, step=step, metrics=metrics))

        write_step(0)
        with opened(browser, live) as seen:
            shown = seen.page
            row = shown.locator("tr", has_text="growing")
            expect(row).to_contain_text("running")
            key = key_of(shown, "growing")
            write_step(1)
            expect(row.locator("td").nth(9)).to_have_text("2", timeout=20_000)
            go(shown, f"run/{key}/rows")
            expect(shown.locator("#count")).to_have_text("16 trajectories")
            chosen = shown.locator(".row-link[aria-current]")
            expect(chosen).to_be_focused()
            shown.keyboard.press("ArrowDown")
            place = chosen.get_attribute("href")
            write_step(2)
            expect(shown.locator("#count")).to_have_text("24 trajectories", timeout=20_000)
            assert chosen.get_attribute("href") == place
            expect(chosen).to_be_focused()
            go(shown, f"run/{key}")
            expect(shown.locator("#cards .card:has-text('steps') b")).to_have_text("3")
            writer.finish(RunOutcome.FINISHED)
            writer.close()
            expect(shown.locator(".page-head .state")).to_have_text("finished", timeout=20_000)
            assert seen.complaints == []


@pytest.mark.parametrize("part", ["", "groups", "rows", "cards"])
def test_each_part_of_a_run_is_reached_by_its_key(browser: Any, live: str, part: str) -> None:
    with opened(browser, live) as seen:
        go(seen.page, f"run/{key_of(seen.page, 'training')}")
        expect(seen.page.locator(".tabs [aria-current]")).to_have_text("Overview")
        seen.page.keyboard.press({"": "1", "groups": "2", "rows": "3", "cards": "4"}[part])
        expected = {"": "Overview", "groups": "Groups", "rows": "Trajectories", "cards": "Cards"}[part]
        expect(seen.page.locator(".tabs [aria-current]")).to_have_text(expected)
        assert seen.complaints == []


def test_a_page_of_a_run_that_is_not_there_says_so(browser: Any, live: str) -> None:
    with opened(browser, live, at="#/run/nothing") as seen:
        expect(seen.page.locator("[role=alert]")).to_contain_text("there is no run with this key")
