"""The pages that describe formats, rewards and errors are held against the code."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import cast

import pytest
from pydantic import BaseModel
from tests.support.math_rows import MATH_ROWS

import sandrl
from sandrl import client, errors
from sandrl.cli.flags import plain_flags, spelled
from sandrl.events.results import CheckStatus, Status, Trust
from sandrl.jsonl import Row
from sandrl.problems import load_completions, load_problems
from sandrl.problems.formats import FORMATS, parse_problem
from sandrl.problems.formats.own import ProblemRow
from sandrl.problems.languages import LANGUAGES
from sandrl.problems.mapping import CompletionFields
from sandrl.rewards import Extraction
from sandrl.runs.flags import RULES
from sandrl.runs.metrics import METRICS
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
        ("problems.md", "Completions", CompletionFields, set()),
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
    examples = dict(re.findall(r"^```json title=\"(.+?)\"\n(.*?)^```$", page("problems.md"), re.DOTALL | re.MULTILINE))
    problems, completions = tmp_path / "problems.jsonl", tmp_path / "completions.jsonl"
    for path in (problems, completions):
        path.write_text(examples[path.name], encoding="utf-8")
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
    words = re.findall(r"^\| `([a-z -]+)` \|", section(page("../concepts/jobs.md"), "Owners"), re.MULTILINE)
    assert words == [*Liveness, "-"]


@pytest.mark.parametrize(
    ("title", "words"), [("Extraction", Extraction), ("Statuses", Status), ("Output", CheckStatus)]
)
def test_every_word_has_its_row(title: str, words: type[Extraction] | type[Status] | type[CheckStatus]) -> None:
    found = re.findall(r"^\| `(\w[\w ]*)` \|", section(page("../concepts/rewards.md"), title), re.MULTILINE)
    assert found == [word.value for word in words]


def test_the_rewards_in_the_table_are_those_of_the_statuses() -> None:
    text = page("../concepts/rewards.md")
    rows = re.findall(r"^\| `(\w+)` \|.*\| (1\.0|0\.0|null) \|$", text, re.MULTILINE)
    assert {status: reward == "null" for status, reward in rows} == {word: not word.scorable for word in Status}


def test_every_trust_is_explained() -> None:
    text = page("../concepts/trust.md")
    assert all(f"`{trust.value}` (" in text for trust in Trust)


def test_the_example_document_is_json() -> None:
    text = page("../concepts/rewards.md")
    [example] = re.findall(r"^```json\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert set(json.loads(example)) == {"job_id", "results", "summary"}


def test_the_table_of_languages_has_every_language_with_its_names_and_packages() -> None:
    text = page("languages.md")
    rows = re.findall(r"^\| `([\w+]+)` \|(.*)\|(.*)\|$", text, re.MULTILINE)
    table = [
        (name, tuple(re.findall(r"`(.*?)`", names)), tuple(re.findall(r"`(.*?)`", debian)))
        for name, names, debian in rows
    ]
    assert table == [(each.name, each.aliases, each.packages) for each in LANGUAGES]


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
    examples = re.findall(r"^### (.+?)\n.*?^```json\n(.*?)^```$", page("formats.md"), re.DOTALL | re.MULTILINE)
    found = {}
    for title, text in examples:
        for number, line in enumerate(text.splitlines(), 1):
            parsed = parse_problem(Row(number, json.loads(line)), "formats.md", "formats")
            found[parsed.format.name] = title
            assert parsed.format.name.partition("/")[0] in title
    assert found.keys() == {
        *(each.name for each in FORMATS if each.is_python),
        *("MultiPL-E", *MATH_ROWS),
    } - {*("sandrl's own", "MBPP", "HumanEval")}


HTTP_STATUSES = {name: status.value for name, status in HTTPStatus.__members__.items()}
# In the order of the tables below the heading of a route.
BODIES: dict[str, tuple[type[BaseModel], ...]] = {
    "POST /v1/score": (models.ScoreRequest, models.ScoreResponse, models.CompletionResult, models.CheckResult),
    "POST /v1/execute": (models.ExecuteRequest, models.ExecuteResponse, models.ProcessResult),
    "POST /v1/episodes": (models.EpisodeRequest, models.EpisodeResponse),
    "POST /v1/episodes/{id}/act": (models.CallRequest, models.CallResponse),
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


# Not those that are the SDK's error codes.
VARIABLE = re.compile(r"(?!CWSANDBOX_RUNNER_)_?[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*|no_proxy")
# What runs in sandboxes and in other interpreters, the programs that attack them, and the settings of other programs.
OTHER_PROGRAMS = ("guest", "corpus", "downloads")


def python_files() -> list[tuple[Path, ast.Module]]:
    return [(path, ast.parse(path.read_text(encoding="utf-8"))) for path in sorted(SOURCE.rglob("*.py"))]


def upper_case(nodes: Iterable[ast.AST | None]) -> set[str]:
    """The texts among these nodes that can be names of variables."""
    texts = (each.value for each in nodes if isinstance(each, ast.Constant) and isinstance(each.value, str))
    return {text for text in texts if VARIABLE.fullmatch(text)}


def constants_of(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """The names and values of a module's constants."""
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            if isinstance(target, ast.Name) and node.value is not None:  # type: ignore[attr-defined]
                yield target.id, node.value  # type: ignore[attr-defined]


def used_variables(tree: ast.Module, named: dict[str, str]) -> set[str]:
    """The environment variables that a module reads or sets.

    Args:
        tree: The module.
        named: The constants of all modules that are texts, by their names.
    """
    keys: list[ast.AST | None] = []
    is_settings = any(isinstance(node, ast.ClassDef) and node.name == "Settings" for node in tree.body)
    names = ("environment", "values") if is_settings else ("environment",)
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=owner, slice=key):
                keys += [key] if is_environment(owner, names) else []
            case ast.Compare(left=key, comparators=[owner]):
                keys += [key] if is_environment(owner, names) else []
            case ast.Call(func=ast.Attribute(value=owner, attr="get" | "setdefault" | "pop"), args=[key, *_]):
                keys += [key] if is_environment(owner, names) else []
            case ast.Call(func=ast.Name(id="environment"), keywords=given):  # `with environment(NAME=value)`
                keys += [ast.Constant(each.arg) for each in given]
            case ast.Call(args=[owner, *others]):  # a function that reads one of several variables
                keys += others if is_environment(owner, names) else []
            case ast.Dict(keys=others):
                keys += [each for each in others if is_text(each, "SANDRL_")]
    # Tables of variables that a loop goes through.
    if any(is_environment(node, names) for node in ast.walk(tree)):
        for _, value in constants_of(tree):
            keys += value.keys if isinstance(value, ast.Dict) else []
            keys += value.elts if isinstance(value, ast.Tuple | ast.Set) else []
            keys += list(ast.walk(value)) if ast.unparse(value).startswith("frozenset(") else []
    resolved = [ast.Constant(named.get(each.id)) if isinstance(each, ast.Name) else each for each in keys]
    return upper_case(resolved)


def is_environment(node: ast.AST, names: tuple[str, ...]) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="os"), attr="environ"):
            return True
        case ast.Name(id=name):
            return name in names
    return False


def is_text(node: ast.AST | None, beginning: str) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(beginning)


def test_every_environment_variable_of_the_source_is_described_and_no_other() -> None:
    files = python_files()
    named = {name: value.value for _, tree in files for name, value in constants_of(tree) if is_text(value, "")}  # type: ignore[attr-defined]
    own = [tree for path, tree in files if not set(OTHER_PROGRAMS) & set(path.parts)]
    used = set().union(*(used_variables(tree, named) for tree in own))
    assert {"SANDRL_STATE_DIR", "RAY_ADDRESS", "SANDRL_OUTCOME", "TINKER_BASE_URL", "SLURM_JOB_ID", "HF_TOKEN"} <= used
    text, _, of_libraries = page("environment.md").partition("\n## Variables that libraries read\n")
    described = {name for name in re.findall(r"`([^`]+)`", text) if VARIABLE.fullmatch(name)}
    rows = re.findall(r"^\| (`[^|]+`) \|", text, re.MULTILINE)
    in_rows = {name for cell in rows for name in re.findall(r"`([^`]+)`", cell)}
    assert sorted(used - described) == []
    everywhere = set().union(*(upper_case(ast.walk(tree)) for _, tree in files))
    everywhere |= {
        each.arg for _, tree in files for each in ast.walk(tree) if isinstance(each, ast.keyword) and each.arg
    }
    assert sorted(in_rows - everywhere) == []
    assert not in_rows & set(re.findall(r"^\| `(\w+)`", of_libraries, re.MULTILINE))


def test_every_public_name_is_on_the_page_of_the_python_api_and_no_other_of_these_modules() -> None:
    described = re.findall(r"^::: (sandrl(?:\.\w+)+)$", page("python-api.md"), re.MULTILINE)
    assert len(described) == len(set(described))
    expected = {f"sandrl.{name}" for name in sandrl.__all__}
    expected |= {f"sandrl.client.{name}" for name in client.__all__}
    for name in ("verl", "verifiers", "skyrl_gym", "openenv", "trl"):
        module = f"sandrl.integrations.{name}"
        functions = inspect.getmembers(importlib.import_module(module), inspect.isfunction)
        expected |= {f"{module}.{each}" for each, found in functions if found.__module__ == module and each[0] != "_"}
    expected.add("sandrl.integrations.trl.TaskEnvironment")
    for path in (SOURCE / "integrations" / "classes").glob("[a-z]*.py"):
        classes = (
            node.name
            for node in ast.parse(path.read_text(encoding="utf-8")).body
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        )
        expected |= {f"sandrl.integrations.classes.{path.stem}.{each}" for each in classes if each[0] != "_"}
    results = {
        name
        for name in described
        if name.startswith(("sandrl.events.", "sandrl.rewards.", "sandrl.runs.", "sandrl.sandboxes."))
    }
    assert sorted(set(described) - results) == sorted(expected)
    for name in results:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute)


def test_ci_installs_the_packages_of_every_language() -> None:
    words = set((DOCS.parent / ".ci" / "run").read_text(encoding="utf-8").replace("(", " ").replace(")", " ").split())
    assert {package for each in LANGUAGES for package in each.packages} - {"bash"} <= words
