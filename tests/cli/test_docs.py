"""The pages about rewards and the command line are held against the code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sandrl.events.results import CheckStatus, Status, Trust
from sandrl.problems.languages import LANGUAGES
from sandrl.rewards import Extraction
from sandrl.sandboxes import Liveness

DOCS = Path(__file__).parents[2] / "docs"


def first_column(title: str, name: str = "rewards.md") -> list[str]:
    page = (DOCS / "concepts" / name).read_text(encoding="utf-8")
    section = page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `(\w[\w ]*|-)` \|", section, re.MULTILINE)


@pytest.mark.parametrize(
    ("title", "words"), [("Extraction", Extraction), ("Statuses", Status), ("Output", CheckStatus)]
)
def test_every_word_has_its_row(title: str, words: type[Extraction] | type[Status] | type[CheckStatus]) -> None:
    assert first_column(title) == [word.value for word in words]


def test_the_page_about_jobs_explains_every_owner() -> None:
    assert first_column("Owners", "jobs.md") == [*Liveness, "-"]


def test_the_rewards_in_the_table_are_those_of_the_statuses() -> None:
    page = (DOCS / "concepts" / "rewards.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|.*\| (1\.0|0\.0|null) \|$", page, re.MULTILINE)
    assert {status: reward == "null" for status, reward in rows} == {word: not word.scorable for word in Status}


def test_every_trust_is_explained() -> None:
    page = (DOCS / "concepts" / "trust.md").read_text(encoding="utf-8")
    assert all(f"`{trust.value}` (" in page for trust in Trust)


def test_the_example_document_is_json() -> None:
    page = (DOCS / "concepts" / "rewards.md").read_text(encoding="utf-8")
    [example] = re.findall(r"^```json\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert set(json.loads(example)) == {"job_id", "results", "summary"}


def test_the_table_of_languages_has_every_language_with_its_names_and_packages() -> None:
    page = (DOCS / "reference" / "languages.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w+]+)` \|(.*)\|(.*)\|$", page, re.MULTILINE)
    table = [
        (name, tuple(re.findall(r"`(.*?)`", names)), tuple(re.findall(r"`(.*?)`", debian)))
        for name, names, debian in rows
    ]
    assert table == [(each.name, each.aliases, each.packages) for each in LANGUAGES]
