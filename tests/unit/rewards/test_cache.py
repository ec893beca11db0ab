"""Which verdicts are kept, and under which names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sandrl.errors import InputError
from sandrl.events.results import CheckStatus, CheckVerdict, Status, Trust
from sandrl.judge.judge import Judge
from sandrl.judge.limits import Limits
from sandrl.judge.verdict import Verdict
from sandrl.problems import Case, Problem, Tolerance
from sandrl.sandboxes import Connection
from sandrl.sandboxes.providers.cwsandbox.client import SdkConnection
from sandrl.scoring.cache import VerdictCache, VerdictNames
from sandrl.settings import RuntimeKind

CHECKS = (CheckVerdict(CheckStatus.PASSED), CheckVerdict(CheckStatus.PASSED, "caf\u00e9 \ud83d"))
PASSED = Verdict(Status.PASSED, Trust.ISOLATED, 2, 2, stdout="caf\u00e9 \ud83d", cpu_seconds=0.5, checks=CHECKS)
KEY, OTHER = "ab" * 32, "cd" * 32
LOCAL = SdkConnection(
    kind=RuntimeKind.LOCAL, reason="", address="http://127.0.0.1:1", image="python:3.11", is_local=True
)
INC = Problem("inc", "Add one.", tests=("assert f(1) == 2",))


def name(
    problem: Problem = INC,
    code: str = "x",
    connection: Connection = LOCAL,
    limits: Limits | None = None,
    judge: Judge | None = None,
) -> str:
    return VerdictNames(judge or Judge(), connection, limits or Limits()).name(problem, code)


def test_the_same_has_the_same_name_wherever_it_comes_from() -> None:
    assert name() == name(replace(INC, task_id="other", prompt="Other words."))
    assert name(connection=replace(LOCAL, address="http://127.0.0.1:2", token="t")) == name()
    assert name(code="\ud83d") != name(code="?")
    assert name(limits=Limits(stops_at_failure=True)) == name()


def test_whatever_could_change_a_verdict_changes_its_name() -> None:
    names = [
        name(),
        name(code="y"),
        name(replace(INC, tests=("assert f(1) == 3",))),
        name(replace(INC, tests=(), cases=(Case("1", "2"),))),
        name(replace(INC, tests=(), cases=(Case("1", "2"),), tolerance=Tolerance(absolute=1e-6))),
        name(replace(INC, tests=(), cases=(Case("1", "2"),), tolerance=Tolerance(relative=1e-6))),
        name(replace(INC, tests=(), check="exit_status")),
        name(replace(INC, setup="import math")),
        name(replace(INC, entry_point="f")),
        name(replace(INC, timeout_seconds=1.0)),
        name(replace(INC, check_timeout_seconds=1.0)),
        name(limits=Limits(timeout_seconds=2.0)),
        name(limits=Limits(check_timeout_seconds=2.0)),
        name(limits=Limits(max_output_bytes=2)),
        name(limits=Limits(is_extended=True)),
        VerdictNames(Judge(), LOCAL, Limits()).name(INC, "x", stops_at_failure=True),
        name(connection=replace(LOCAL, image="python:3.12")),
        name(connection=replace(LOCAL, kind=RuntimeKind.REMOTE)),
        name(connection=replace(LOCAL, overlay="0a")),
        name(connection=replace(LOCAL, has_site_packages=True)),
        name(judge=Judge(require_isolated=True)),
    ]
    assert len(set(names)) == len(names)


def test_one_namer_tells_problems_of_one_id_apart() -> None:
    names = VerdictNames(Judge(), LOCAL, Limits())
    assert names.name(INC, "x") != names.name(replace(INC, tests=("assert f(1) == 3",)), "x")


@pytest.mark.parametrize("status", Status)
def test_what_the_machine_can_bring_about_is_never_kept(status: Status, tmp_path: Path) -> None:
    cache = VerdictCache(tmp_path)
    kept = cache.keep(KEY, Verdict(status, None))
    assert kept == (status not in {"timeout", "infrastructure", "no_code"})
    assert (cache.find(KEY) is not None) == kept
    outlives = VerdictCache(tmp_path).find(KEY) is not None
    assert outlives == (kept and status.scorable)


def test_a_verdict_outlives_the_process_as_it_was(tmp_path: Path) -> None:
    VerdictCache(tmp_path / "a" / "b").keep(KEY, PASSED)
    other = VerdictCache(tmp_path / "a" / "b")
    assert other.find(KEY) == PASSED
    assert other.find(OTHER) is None
    [path] = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert path.suffix == ".json", "no temporary file is left"


def test_what_is_not_for_others_stays_here(tmp_path: Path) -> None:
    cache = VerdictCache(tmp_path)
    assert cache.keep(KEY, PASSED, for_others=False)
    assert cache.find(KEY) == PASSED
    assert VerdictCache(tmp_path).find(KEY) is None


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "3",
        '{"schema": 2, "verdict": {"status": "passed", "trust": null}}',
        '{"schema": 1}',
        '{"schema": 1, "verdict": {"status": "brilliant", "trust": null}}',
        '{"schema": 1, "verdict": {"status": "infrastructure", "trust": null}}',
        '{"schema": 1, "verdict": {"status": "failed", "trust": null, "passed": 1, "total": 1,'
        ' "checks": [{"status": "failed"}]}}',
    ],
)
def test_a_damaged_entry_is_none(content: str, tmp_path: Path) -> None:
    VerdictCache(tmp_path).keep(KEY, PASSED)
    [path] = tmp_path.rglob("*.json")
    path.write_text(content, encoding="utf-8")
    assert VerdictCache(tmp_path).find(KEY) is None


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"file.*cannot be created"):
        VerdictCache(tmp_path / "file")


def test_memory_is_bounded_and_what_was_asked_for_last_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandrl.scoring.cache.MAX_CHARACTERS", 25_000)
    cache = VerdictCache()
    large = replace(PASSED, stdout="x" * 10_000)
    cache.keep(KEY, large)
    cache.keep(OTHER, large)
    assert cache.find(KEY) is not None
    cache.keep("ef" * 32, large)
    assert (cache.find(KEY), cache.find(OTHER)) == (large, None)
