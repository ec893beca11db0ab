"""What the page for users of the Aviato guide says of the SDK, of options and of metrics is so."""

from __future__ import annotations

import inspect
import re
from typing import Any

import cwsandbox
import pytest
from cwsandbox import Sandbox, SandboxDefaults, SandboxStatus, Session

from sandrl.runs.metrics import SDK_METRICS
from tests.support.command_line import command_of, unknown_options
from tests.support.pages import DOCS

TEXT = (DOCS / "start" / "from-aviato.md").read_text(encoding="utf-8")


def tables(text: str) -> dict[str, list[list[str]]]:
    """The rows of each table of a page, by its first line."""
    found = re.findall(r"^(\|.*)\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    return {head: [row.strip("|").split("|") for row in rows.splitlines()] for head, rows in found}


TABLES = tables(TEXT)


def codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def exists(name: str) -> bool:
    """Whether today's SDK has `Class.attribute`, and its parameter if the name ends with `(parameter=…)`."""
    found = re.fullmatch(r"([\w.]+)(?:\((\w+)=…\))?", name)
    assert found is not None, name
    value: Any = cwsandbox
    for part in found[1].split("."):
        if part in getattr(value, "__dataclass_fields__", {}):
            return True
        if not hasattr(value, part):
            return False
        value = getattr(value, part)
    return found[2] is None or found[2] in inspect.signature(value).parameters


def of_table(head: str, column: int) -> list[str]:
    return [code for row in TABLES[head] for code in codes(row[column])]


RENAMED = "| `aviato` | `cwsandbox` |"


@pytest.mark.parametrize("name", of_table(RENAMED, 0))
def test_a_name_that_has_changed_is_gone(name: str) -> None:
    assert not exists(name)


@pytest.mark.parametrize("name", [*of_table(RENAMED, 1), *of_table("| in both |", 0)])
def test_a_name_of_today_exists(name: str) -> None:
    assert exists(name)


def test_the_statistics_of_a_sandbox_have_the_keys_of_the_page(sandbox: Sandbox) -> None:
    assert sandbox.exec(["true"]).result().returncode == 0
    assert sandbox.exec(["false"]).result().returncode == 1
    assert of_table("| `execution_stats` | `exec_stats` |", 1) == list(sandbox.exec_stats)
    assert (sandbox.exec_stats["exec_completed_ok"], sandbox.exec_stats["exec_completed_nonzero"]) == (1, 1)


def test_a_list_takes_one_status(session: Session, defaults: SandboxDefaults) -> None:
    sandbox = session.sandbox(tags=["listed"])
    sandbox.wait()
    place: Any = {"tags": ["listed"], "base_url": defaults.base_url, "auth": defaults.auth}
    [running] = Sandbox.list(status=SandboxStatus.RUNNING, **place).result()
    [listed] = Sandbox.list(**place).result()
    assert running.sandbox_id == listed.sandbox_id == sandbox.sandbox_id
    assert listed.status == SandboxStatus.RUNNING
    several: Any = [SandboxStatus.RUNNING, SandboxStatus.PENDING]
    with pytest.raises(ValueError, match="is not a valid SandboxStatus"):
        Sandbox.list(status=several, **place).result()


def test_the_options_of_today_are_options_of_the_commands() -> None:
    rows = TABLES["| option of the guide | command | option of sandrl |"]
    assert len(rows) > 8
    for _, commands, options in rows:
        words = [option.split()[0] for option in codes(options)]
        assert words
        for command in codes(commands):
            assert unknown_options(command_of(command.split())[0], words) == []


def test_the_options_of_the_issue_have_a_row() -> None:
    named = {option.split()[0] for option in of_table("| option of the guide | command | option of sandrl |", 0)}
    expected = {"--num-steps", "--trajectories-per-problem", "--batch-size", "--dataset-split", "--dataset-limit"}
    assert expected <= named


def test_the_metrics_page_has_each_pair_of_names() -> None:
    text = (DOCS / "reference" / "metrics.md").read_text(encoding="utf-8")
    pairs = [
        tuple(codes(cell)[0] for cell in row)
        for row in tables(text)["| in the run directory and in W&B | also in W&B |"]
    ]
    assert pairs == [(ours, name) for name, ours in SDK_METRICS.items()]
