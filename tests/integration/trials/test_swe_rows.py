"""Rows about repositories of PyPI: the right patch earns 1; a wrong one, one of tests, one that breaks more earn 0."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from sandrl.events.results import CheckStatus, Status, Trust
from sandrl.rewards import score
from tests.support.swe_rows import SOURCES, Made, Source, import_swe_base, make_row

pytest.importorskip("swebench", reason="needs the parsers of swebench")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

# Makes every test pass, wherever pytest looks for such code.
CHEAT = """import pytest

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    report.outcome, report.longrepr = "passed", None
"""
KINDS = ("right", "wrong", "tests", "unrelated", "conftest", "plugin", "process")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Made]:
    import_swe_base()

    def make(source: Source) -> Made:
        return make_row(source, tmp_path_factory.mktemp(source.name))

    with ThreadPoolExecutor() as pool:
        return dict(zip((source.name for source in SOURCES), pool.map(make, SOURCES), strict=True))


def added(name: str, text: str) -> str:
    """A diff that adds a file."""
    lines = "".join(f"+{line}\n" for line in text.splitlines())
    head = f"diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n"
    return f"{head}@@ -0,0 +1,{lines.count(chr(10))} @@\n{lines}"


def test_the_reward_of_a_patch_is_that_of_its_tests(made: dict[str, Made]) -> None:
    completions = []
    for each in made.values():
        answers = {
            "right": each.right,
            "wrong": each.wrong,
            "tests": each.tests_only,
            "unrelated": each.right_and_broken,
            "conftest": added("conftest.py", CHEAT),
            "plugin": added("cheat.py", CHEAT) + added("pytest.ini", "[pytest]\naddopts = -p cheat\n"),
            "process": each.in_process,
        }
        completions += [
            {"instance_id": each.row["instance_id"], "model_patch": answers[kind], "model_name_or_path": kind}
            for kind in KINDS
        ]
    report = score(completions, [each.row for each in made.values()])
    results = iter(report.results)
    for name, each in made.items():
        found = {kind: next(results) for kind in KINDS}
        right = found["right"]
        assert (right.status, right.reward) == (Status.PASSED, 1.0), right
        assert right.trust is Trust.SEPARATE
        for kind in KINDS[1:]:
            result = found[kind]
            assert (result.status, result.reward) == (Status.FAILED, 0.0), (name, kind, result)
        failed = {check.name for check in found["unrelated"].checks if check.status is CheckStatus.FAILED}
        assert failed == each.broken
        assert each.broken


def test_the_final_tree_of_an_agent_is_judged_without_what_it_did_to_the_machine(made: dict[str, Made]) -> None:
    each = made["boltons"]
    name = each.row["instance_id"]
    cheat = """
echo 'import atexit' >/usr/local/lib/python3.11/dist-packages/sitecustomize.py
printf '#!/bin/sh\\necho nothing\\n' >/usr/local/bin/pytest
mkdir -p /tests; echo 'echo nothing' >/tests/test.sh
rm -rf /testbed/.git
"""
    fix = f"cd /testbed && git apply <<'END' || exit 1\n{each.right}END\n"
    completions = [
        {"id": "fixed", "task_id": name, "code": f"{fix}{cheat}"},
        {"id": "cheat", "task_id": name, "code": cheat},
    ]
    rewards = {result.id: result.reward for result in score(completions, [each.row]).results}
    assert rewards == {"fixed": 1.0, "cheat": 0.0}


def test_an_agent_finds_no_test_that_decides(made: dict[str, Made]) -> None:
    each = made["toolz"]
    fix = f"cd /testbed && git apply <<'END'\n{each.right}END\n"
    script = f"ls /tests/* && exit\ngrep -rq 'def test_partition()' /testbed && exit\n{fix}"
    [result] = score([{"id": "1", "task_id": each.row["instance_id"], "code": script}], [each.row]).results
    assert result.reward == 1.0
