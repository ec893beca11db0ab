"""verl's own client of SandboxFusion, its files unmodified, scores against `sandrl serve`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integrations.running import file_of
from tests.support.service import TOKEN, RunningService, running_service

VERL = file_of("verl", "utils/reward_score/sandbox_fusion/__init__.py", "verl_sandbox_fusion")
pytestmark = pytest.mark.skipif(VERL is None, reason="not installed: verl (make test-integrations)")

STDIN = {"inputs": ["3 4\n", "10 -2\n", "0 0\n"], "outputs": ["7\n", "8\n", "0\n"]}
# verl imports everything from `operator` before the code, so `add` would be there already.
FUNCTION = {"fn_name": "plus", "inputs": ["3\n4", "[1]\n[2]", '"a"\n"b"'], "outputs": ["7", "[1, 2]", "ab"]}
ASSERTS = {"assert_case": ["assert add(1, 2) == 3", "assert add('a', 'b') == 'ab'", "assert add([], [1]) == [1]"]}


def fenced(code: str) -> str:
    return f"Here it is.\n```python\n{code}\n```\nDone."


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with running_service(tmp_path_factory.mktemp("service")) as service:
        yield service


def score(service: RunningService, text: str, cases: dict[str, Any], **options: Any) -> tuple[float, list[Any]]:
    assert VERL is not None
    url = f"{service.url}/t/{TOKEN}/run_code"
    # As its reward manager calls it: with the cases as text, and a semaphore of all threads.
    found: tuple[float, list[Any]] = VERL.compute_score(url, None, 1024, text, json.dumps(cases), **options)
    return found


@pytest.mark.parametrize(
    ("code", "cases", "expected"),
    [
        ("a, b = map(int, input().split())\nprint(a + b)", STDIN, 1.0),
        ("import sys\nprint(sum(map(int, sys.stdin.read().split())))", STDIN, 1.0),
        ("a, b = map(int, input().split())\nprint(abs(a) + abs(b))", STDIN, 2 / 3),
        ("raise ValueError('no')", STDIN, 0.0),
        ("print(", STDIN, 0.0),
        ("def plus(a, b):\n    return a + b", FUNCTION, 1.0),
        ("class Solution:\n    def plus(self, a, b):\n        return a + b", FUNCTION, 1.0),
        ("def plus(a, b):\n    return 7", FUNCTION, 1 / 3),
        ("def other(a, b):\n    return 7", FUNCTION, 0.0),
        ("def add(a, b):\n    return a + b", ASSERTS, 1.0),
        ("def add(a, b):\n    return 3", ASSERTS, 1 / 3),
    ],
)
def test_rows_like_those_of_apps_get_the_right_score(
    service: RunningService, code: str, cases: dict[str, Any], expected: float
) -> None:
    reward, metadata = score(service, fenced(code), cases)
    assert reward == pytest.approx(expected)
    assert all(each["api_request_error"] is None for each in metadata)


def test_each_case_has_the_status_that_verl_knows(service: RunningService) -> None:
    statuses = {}
    for name, code in {
        "success": "a, b = map(int, input().split())\nprint(a + b)",
        "wrong_answer": "print('x')",
        "runtime_error": "1 / 0",
        "timeout": "while True: pass",
    }.items():
        _, metadata = score(service, fenced(code), {"inputs": ["1 2\n"], "outputs": ["3\n"]}, timeout=2)
        statuses[name] = metadata[0]["status"]
    assert statuses == {name: name for name in statuses}


def test_a_compile_error_is_told_as_one(service: RunningService) -> None:
    assert VERL is not None
    url = f"{service.url}/t/{TOKEN}/run_code"
    check = sys.modules["verl_sandbox_fusion.utils"].check_correctness
    for code, expected in (("int main() { return x; }", [-4]), ("int main() { return 0; }", [True])):
        results, _ = check(url, {"inputs": [""], "outputs": [""]}, code, timeout=20, language="cpp")
        assert results == expected
