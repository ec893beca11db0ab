"""The pages that describe formats and errors are held against the code."""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from pathlib import Path
from typing import cast

import pytest
from pydantic import BaseModel

from sandrl import errors
from sandrl.cli.flags import plain_flags, spelled
from sandrl.jsonl import Row
from sandrl.problems import load_completions, load_problems
from sandrl.problems.completions import CompletionRow
from sandrl.problems.formats import FORMATS, parse_problem
from sandrl.problems.formats.own import ProblemRow
from sandrl.problems.languages import LANGUAGES
from sandrl.runs import METRICS
from sandrl.runs.flags import RULES
from sandrl.runs.rows import JobRow, SandboxRow, TrajectoryRow
from sandrl.sandboxes import Liveness
from sandrl.service import models
from sandrl.service.app import make_app
from sandrl.service.metrics import ServiceMetrics
from sandrl.service.state import Service

DOCS = Path(__file__).parents[2] / "docs"
SOURCE = Path(__file__).parents[2] / "src" / "sandrl"


def page(name: str) -> str:
    return (DOCS / "reference" / name).read_text(encoding="utf-8")


def section(text: str, title: str) -> str:
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def fields_of_table(text: str) -> set[str]:
    cells = re.findall(r"^\| (`[^|]+`) \|", text, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


@pytest.mark.parametrize(
    ("name", "title", "model", "described_elsewhere"),
    [
        ("problems.md", "Problems", ProblemRow, set()),
        ("problems.md", "Completions", CompletionRow, set()),
        ("runs.md", "trajectories.jsonl", TrajectoryRow, set(JobRow.model_fields)),
    ],
)
def test_a_table_has_every_field_and_no_other(
    name: str, title: str, model: type[BaseModel], described_elsewhere: set[str]
) -> None:
    assert fields_of_table(section(page(name), title)) == set(model.model_fields) - described_elsewhere


def test_the_ledger_s_fields_are_all_named() -> None:
    named = set(re.findall(r"`(\w+)`", section(page("runs.md"), "sandboxes.jsonl")))
    assert set(SandboxRow.model_fields) - set(JobRow.model_fields) <= named


def test_the_examples_of_problems_and_completions_load(tmp_path: Path) -> None:
    examples = re.findall(r"^```json\n(.*?)^```$", page("problems.md"), re.DOTALL | re.MULTILINE)
    problems, completions = tmp_path / "problems.jsonl", tmp_path / "completions.jsonl"
    problems.write_text(examples[0], encoding="utf-8")
    completions.write_text(examples[1], encoding="utf-8")
    loaded = load_problems(problems).problems
    assert list(loaded) == ["double", "add", "squares"]
    assert [each.id for each in load_completions(completions, task_ids=loaded).completions] == ["double#1", "double#2"]


def test_every_metric_is_described_with_its_unit_and_no_other() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| (\w+) \| (.+) \|$", page("metrics.md"), re.MULTILINE)
    assert rows == [(metric.name, metric.unit.value, metric.meaning) for metric in METRICS]


def test_every_flag_is_described_as_its_rule_says_and_no_other() -> None:
    rows = re.findall(
        r"^\| (.+) \| (.+) \| (.+) \| (.+) \| (.+) \|$", section(page("metrics.md"), "Flags"), re.MULTILINE
    )
    assert rows[1:] == [
        (
            f"`{rule.name}`",
            ", ".join(f"`{metric}`" for metric in rule.metrics),
            rule.condition,
            rule.threshold,
            spelled(rule.hint, rule.fields, plain_flags(rule.fields)),
        )
        for rule in RULES
    ]


def test_every_word_about_an_owner_is_explained() -> None:
    words = re.findall(r"^\| `([a-z -]+)` \|", section(page("sandboxes.md"), "What is there"), re.MULTILINE)
    assert words == [*Liveness, "-"]


def test_the_error_tree_is_the_one_in_the_code() -> None:
    def drawn(text: str) -> list[tuple[str, str]]:
        return re.findall(r"([A-Za-z]+Error) +(\d+) ", text + " ")

    assert drawn(page("exit-codes.md")) == drawn(errors.__doc__ or "")


def test_the_exit_codes_in_the_table_are_those_of_the_errors() -> None:
    listed = {
        int(code)
        for cell in re.findall(r"^\| ([\d, ]+) \|", page("exit-codes.md"), re.MULTILINE)
        for code in cell.split(",")
    }
    raised = {each.exit_code for each in vars(errors).values() if isinstance(getattr(each, "exit_code", None), int)}
    # Those of signals, and of an error that is none of sandrl's (`ending_of`).
    assert listed == raised | {0, 70, 129, 143}


def test_every_row_on_the_page_of_formats_is_recognised_as_what_it_is_said_to_be() -> None:
    examples = re.findall(r"^\*\*(.+?)\*\*: .*?^```json\n(.*?)^```$", page("formats.md"), re.DOTALL | re.MULTILINE)
    found = {}
    for title, text in examples:
        for number, line in enumerate(text.splitlines(), 1):
            parsed = parse_problem(Row(number, json.loads(line)), "formats.md", "formats")
            found[parsed.format.name] = title
            assert parsed.format.name.partition("/")[0] in title
    assert found.keys() == {each.name for each in FORMATS if each.is_python or each.name == "MultiPL-E"} - {
        *("sandrl's own", "MBPP", "HumanEval")
    }


HTTP_STATUSES = {status.name: status.value for status in HTTPStatus}
# In the order of the tables below the heading of a route.
BODIES: dict[str, tuple[type[BaseModel], ...]] = {
    "POST /v1/score": (models.ScoreRequest, models.ScoreResponse, models.CompletionResult, models.CheckResult),
    "POST /v1/execute": (models.ExecuteRequest, models.ExecuteResponse, models.ProcessResult),
    "POST /run_code": (models.RunCodeRequest, models.RunCodeResponse, models.CommandRunResult),
    "POST /get_reward": (models.RewardRequest, models.RewardResponse),
}


def tables(text: str, first_heading: str) -> list[list[str]]:
    """The first columns of the tables whose first heading ends so."""
    found = re.findall(rf"^\|[^|\n]*\b{first_heading} \|[^\n]*\n\|[-| ]+\|\n((?:\|[^\n]*\n)+)", text, re.MULTILINE)
    return [re.findall(r"^\| `?([^|`]+)`? \|", rows, re.MULTILINE) for rows in found]


def test_every_route_of_the_service_is_described_and_no_other() -> None:
    routes = make_app(cast("Service", None)).openapi()["paths"]
    described = re.findall(r"^## `([A-Z]+ \S+)`$", page("http-api.md"), re.MULTILINE)
    assert sorted(described) == sorted(
        f"{method.upper()} {path}" for path, methods in routes.items() for method in methods
    )


@pytest.mark.parametrize("route", BODIES)
def test_every_field_of_a_request_and_its_response_is_described_and_no_other(route: str) -> None:
    described = tables(section(page("http-api.md"), f"`{route}`"), "field")
    assert [sorted(table) for table in described] == [sorted(each.model_fields) for each in BODIES[route]]


def test_an_error_of_the_service_is_described_with_its_fields_and_every_status_that_is_raised() -> None:
    text = section(page("http-api.md"), "Errors")
    assert tables(text, "field") == [list(models.ProblemDetails.model_fields)]
    described = {int(code) for cell in tables(text, "status")[0] for code in cell.split(",")}
    source = "".join(path.read_text(encoding="utf-8") for path in (SOURCE / "service").glob("*.py"))
    raised = {HTTP_STATUSES[name] for name in re.findall(r"HTTPStatus\.(\w+)", source)}
    assert described == raised | {404, 405}  # the router's own


def test_every_metric_of_the_service_is_described_and_no_other() -> None:
    shown = re.findall(r"^# HELP (\w+) ", ServiceMetrics(lambda: 0, lambda: 0).text().decode(), re.MULTILINE)
    [described] = tables(section(page("http-api.md"), "`GET /metrics`"), "metric")
    assert set(described) == {name for name in shown if not name.endswith("_created")}


def test_ci_installs_the_packages_of_every_language() -> None:
    words = set((DOCS.parent / ".ci" / "run").read_text(encoding="utf-8").replace("(", " ").replace(")", " ").split())
    assert {package for each in LANGUAGES for package in each.packages} - {"bash"} <= words
