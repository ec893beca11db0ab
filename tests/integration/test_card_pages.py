"""The pages of cards in a real browser: from a server, exported to files, and in a report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sandrl.runs import RunReader, RunWriter
from sandrl.runs.cards import Card, Cheat
from sandrl.runs.report import write_report
from sandrl.viewer.library import run_key
from tests.support.browser import expect, opened
from tests.support.sample_runs import JOB
from tests.support.viewed_runs import HOSTILE, LONG, write_cards

SHOWN_HOSTILE = HOSTILE.replace("\u202e", r"\u202e").replace("\x1b", r"\x1b")


@pytest.fixture
def run(tmp_path: Path, own_index: None) -> Path:
    return write_cards(tmp_path / "runs")


@pytest.fixture
def runs_dir(run: Path) -> Path:
    return run.parent


@pytest.fixture
def report(run: Path, tmp_path: Path) -> Path:
    return write_report(RunReader(run), tmp_path / "report.html")


@pytest.fixture(params=["live", "exported", "report"])
def site(request: pytest.FixtureRequest) -> Path | str:
    found: Path | str = request.getfixturevalue(request.param)
    return found


def test_cards_are_filtered_ordered_and_found_by_problem_and_cheat(browser: Any, site: Path | str, run: Path) -> None:
    with opened(browser, site, at=f"#/run/{run_key(run)}/cards") as seen:
        shown = seen.page
        listed = shown.locator(".cards tbody th a")
        expect(shown.locator("#count")).to_have_text("6 problems")
        expect(shown.locator("#cards .card:has-text('cheated') b")).to_have_text("2")
        # The weakest come first, and what is unknown last.
        expect(listed).to_have_text(["cheated", "own", "own-cheated", LONG, "sound", SHOWN_HOSTILE])
        shown.click(".cards thead a:has-text('cheats')")
        expect(listed).to_have_text(["sound", "own-cheated", "cheated", SHOWN_HOSTILE, LONG, "own"])
        shown.click(".cards thead a:has-text('cheats')")
        expect(listed).to_have_text(["cheated", "own-cheated", "sound", SHOWN_HOSTILE, LONG, "own"])
        shown.click("button:has-text('unknown parts')")
        expect(shown.locator("#count")).to_have_text("4 problems of 6")
        shown.reload()
        expect(shown.locator("#count")).to_have_text("4 problems of 6")
        shown.click("button:has-text('unknown parts')")
        shown.select_option("select", "oracle")
        expect(listed).to_have_count(2)
        shown.select_option("select", "")
        shown.fill(".search", "PythonPath")
        expect(listed).to_have_text(["cheated"])
        shown.fill(".search", "")
        shown.click("a[aria-label='3 problems whose part flake is unknown']")
        expect(shown.locator("#count")).to_have_text("3 problems of 6")
        assert seen.complaints == []


def test_a_card_says_what_was_measured_and_leads_to_the_runs_behind_it(
    browser: Any, site: Path | str, run: Path
) -> None:
    with opened(browser, site, at=f"#/run/{run_key(run)}/cards") as seen:
        shown = seen.page
        expect(shown.locator(".cards tbody tr").first).to_contain_text("with separate: ≤ 0.50")
        shown.locator(".cards tbody th a").first.click()
        expect(shown.locator("h1")).to_have_text("cheated")
        parts = shown.locator(".part")
        expect(parts.nth(0)).to_contain_text("The solution earned 1 in 3 of 3 runs.")
        expect(parts.nth(2)).to_contain_text("0.0% of 3 runs had another outcome")
        expect(parts.nth(2)).to_contain_text("0.0–56.0%")
        expect(parts.nth(3)).to_contain_text("3 of 31 cheats earned a reward.")
        expect(parts.nth(4)).to_contain_text("1 of 2 mutants lowered the reward; 1 could not be scored.")
        cheats = shown.locator("[aria-label='Cheats that earned a reward'] tbody tr")
        expect(cheats.nth(0)).to_contain_text("end_processes separate")
        expect(cheats.nth(1)).to_contain_text("pin the tools of the verifier")
        expect(cheats.nth(2)).to_contain_text(SHOWN_HOSTILE)
        page = shown.locator(".one-card")
        expect(page).to_contain_text("In a run with --verifier separate: quality at most 0.50.")
        expect(page).to_contain_text("--verifier artifacts: quality at most 0.00; the solution earned 0.5 there.")
        mutants = shown.locator("[aria-label='Mutants'] tbody tr")
        expect(mutants.locator(".badge")).to_have_text(["survived", "killed", "not scored"])
        links = {
            "a:text-is('survivor')": "cheated#cheat.survivor",
            "a:text-is('separate')": "cheated#cheat.survivor@separate",
            "a:text-is('empty')": "cheated#mutant.2",
            "a[aria-label^='nop.1:']": "cheated#nop.1",
        }
        for link, row in links.items():
            shown.click(link)
            expect(shown.locator("#detail .page-head")).to_contain_text(row)
            shown.go_back()
            expect(shown.locator("h1")).to_have_text("cheated")
        shown.keyboard.press("Escape")
        expect(shown.locator("#count")).to_have_text("6 problems")
        assert shown.evaluate("window.owned") is None
        assert seen.complaints == []


def test_what_is_unknown_is_said_with_its_reason_and_the_next_command(browser: Any, report: Path, run: Path) -> None:
    with opened(browser, report, at=f"#/run/{run.name}/cards/{'d' * 64}") as seen:
        shown = seen.page
        expect(shown.locator("h1")).to_have_text(SHOWN_HOSTILE)
        expect(shown.locator(".verdict")).to_contain_text("2 runs have no reward; the first: the verifier wrote no")
        expect(shown.locator(".part code")).to_have_text(
            [
                "sandrl problems validate 'tasks of ours'",
                "sandrl problems validate 'tasks of ours'",
                "sandrl problems validate 'tasks of ours' --repeats 3",
                "sandrl redteam --problems 'tasks of ours'",
                "sandrl problems validate 'tasks of ours'",
            ]
        )
        shown.evaluate("hash => { location.hash = hash; }", f"#/run/{run.name}/cards/{'e' * 64}")
        expect(shown.locator(".part").nth(1)).to_contain_text("The checks accept this stub: returns-none.")
        expect(shown.locator(".part").nth(4)).to_contain_text("Only tasks have mutants.")
        assert seen.complaints == []


def test_the_headline_of_a_run_that_measures_problems_is_the_card_of_the_set(
    browser: Any, site: Path | str, run: Path
) -> None:
    with opened(browser, site, at=f"#/run/{run_key(run)}") as seen:
        expect(seen.page.locator("#cards .card:has-text('least quality') b")).to_have_text("0.00")
        expect(seen.page.locator("#cards .card:has-text('runs') b")).to_have_text("12")
        expect(seen.page.locator("#cards")).not_to_contain_text("passed")
        expect(seen.page.locator("#cards")).not_to_contain_text("reward is")
        expect(seen.page.locator("#chart-pass, #chart-status")).to_have_count(0)
        seen.page.click(".tabs a:has-text('Cards')")
        expect(seen.page.locator("#count")).to_have_text("6 problems")


def test_a_card_appears_on_the_page_as_soon_as_it_is_written(browser: Any, live: str, run: Path) -> None:
    with opened(browser, live, at=f"#/run/{run_key(run)}/cards") as seen:
        expect(seen.page.locator("#count")).to_have_text("6 problems")
        with RunWriter(run, job_id=JOB) as writer:
            cheat = Cheat(name="new-cheat", group="new", reward=1.0)
            writer.append(Card(task_id="late", kind="task", digest="0" * 64, cheats_tried=2, cheats=(cheat,)))
        expect(seen.page.locator("#count")).to_have_text("7 problems", timeout=20_000)
        expect(seen.page.locator("#cards .card:has-text('cheated') b")).to_have_text("3")
        seen.page.click("a:text-is('late')")
        expect(seen.page.locator(".part").nth(3)).to_contain_text("1 of 2 cheats earned a reward.")
        with RunWriter(run, job_id=JOB) as writer:
            writer.append(Card(task_id="late", kind="task", digest="0" * 64, cheats_tried=3, cheats=(cheat,)))
        expect(seen.page.locator(".part").nth(3)).to_contain_text("1 of 3 cheats earned a reward.", timeout=20_000)
        assert seen.complaints == []
