"""tinker-cookbook's client of SandboxFusion, and the grading of its recipe `code_rl`, ask `sandrl serve`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.support.service import TOKEN, RunningService, running_service
from tests.support.wheels import Index

pytest.importorskip("tinker_cookbook.recipes.code_rl", reason="not installed: tinker-cookbook (make test-art)")

STDIN = [
    {"input": "3 4\n", "output": "7\n", "testtype": "stdin_stdout"},
    {"input": "10 -2\n", "output": "8\n", "testtype": "stdin_stdout"},
]
FUNCTION = [
    {"input": "3\n4", "output": "7", "testtype": "functional", "metadata": {"func_name": "plus"}},
    {"input": "[1]\n[2]", "output": "[1, 2]", "testtype": "functional", "metadata": {"func_name": "plus"}},
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, index: Index) -> Iterator[RunningService]:
    index.add_installed("numpy")
    # Its test program imports NumPy.
    with running_service(tmp_path_factory.mktemp("service"), "--packages", "numpy") as service:
        yield service


@pytest.fixture
async def grading(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    from tinker_cookbook.recipes.code_rl import code_grading

    monkeypatch.setenv("SANDBOX_URL", f"{service.url}/t/{TOKEN}/run_code")
    monkeypatch.setattr(code_grading, "_sandboxfusion_client", None)
    yield code_grading
    if code_grading._sandboxfusion_client is not None:
        await code_grading._sandboxfusion_client.close()


async def test_its_client_runs_programs_with_their_files(service: RunningService) -> None:
    from tinker_cookbook.sandbox import SandboxFusionClient

    client = SandboxFusionClient(f"{service.url}/t/{TOKEN}/run_code")
    success, answer = await client.run("print(open('a.txt').read())", {"a.txt": "hello"}, timeout=10)
    assert success
    assert answer["run_result"]["stdout"] == "hello\n"
    success, answer = await client.run("exit(1)", {}, timeout=10)
    assert not success
    assert answer["status"] == "Failed"
    await client.close()


@pytest.mark.parametrize(
    ("code", "cases", "expected"),
    [
        ("a, b = map(int, input().split())\nprint(a + b)", STDIN, True),
        ("a, b = map(int, input().split())\nprint(a * b)", STDIN, False),
        ("raise SystemExit", STDIN, False),
        ("class Solution:\n    def plus(self, a, b):\n        return a + b", FUNCTION, True),
        ("class Solution:\n    def plus(self, a, b):\n        return 7", FUNCTION, False),
    ],
)
async def test_the_grading_of_its_recipe_is_right(
    grading: Any, code: str, cases: list[dict[str, Any]], expected: bool
) -> None:
    passed, details = await grading.sandbox_check_correctness(cases, code, timeout=6)
    assert passed is expected, details
    assert details["status"] in ("Success", "Failed"), details
