"""The memory that a problem allows: less than a sandbox has, and never more."""

from __future__ import annotations

from typing import Any

import pytest

from sandrl.errors import UsageError
from sandrl.events.results import CheckStatus, Status
from sandrl.problems import EXIT_STATUS, Case, Problem
from sandrl.sandboxes import Job, SandboxRequest
from sandrl.scoring.policies import fraction
from sandrl.settings import RuntimeKind, Settings
from tests.support.judges import scored

MIB = 1 << 20
TAKE = "kept = b'x' * ({} << 20)\n"
KINDS: dict[str, tuple[dict[str, Any], str]] = {
    "tests": ({"tests": ["assert f() == 1"]}, "def f():\n    return 1"),
    "calls": ({"fn": "f", "calls": [([], 1)]}, "def f():\n    return 1"),
    "exit_status": ({"check": EXIT_STATUS}, "pass"),
    "cases": ({"cases": [Case("", "1")]}, "print(1)"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_code_that_takes_more_than_its_problem_allows_fails(job: Job, kind: str) -> None:
    checks, right = KINDS[kind]
    problem = Problem("p", "", memory_bytes=64 * MIB, **checks)
    results = scored(job, problem, TAKE.format(40) + right, TAKE.format(100) + right, policy=fraction)
    assert [result.reward for result in results] == [1.0, 0.0]
    assert results[1].status is Status.RESOURCE_LIMIT
    assert "more than the 64 MiB of memory that its problem allows" in results[1].detail
    [without] = scored(job, Problem("p", "", **checks), TAKE.format(100) + right)
    assert without.reward == 1.0


def test_deep_recursion_in_a_thread_with_a_large_stack_is_no_use_of_memory(job: Job) -> None:
    code = (
        "import sys, threading\n"
        "sys.setrecursionlimit(10**6)\n"
        "threading.stack_size(1 << 29)\n"
        "def down(n): return 0 if n == 0 else 1 + down(n - 1)\n"
        "thread = threading.Thread(target=lambda: print(down(20000)))\n"
        "thread.start()\n"
        "thread.join()\n"
    )
    problem = Problem("p", "", cases=(Case("", "20000"),), memory_bytes=128 * MIB)
    assert [result.reward for result in scored(job, problem, code)] == [1.0]


def test_each_case_has_the_memory_for_itself_and_inputs_do_not_count(job: Job) -> None:
    cases = (Case("1 " + "x" * (30 * MIB), "1"), Case("2", "2"), Case("3", "3"))
    problem = Problem("p", "", cases=cases, memory_bytes=48 * MIB)
    code = "n = int(input()[:2])\nkept = b'x' * ((60 if n == 2 else 5) << 20)\nprint(n)"
    [result] = scored(job, problem, code.replace("input()[:2]", "__import__('sys').stdin.read(2)"), policy=fraction)
    assert [check.status for check in result.checks] == [CheckStatus.PASSED, CheckStatus.FAILED, CheckStatus.PASSED]
    assert result.status is Status.RESOURCE_LIMIT


@pytest.mark.parametrize("runtime", [RuntimeKind.LOCAL, RuntimeKind.DAEMONLESS])
def test_a_problem_that_needs_more_than_a_sandbox_is_refused_until_sandboxes_have_it(
    settings: Settings, runtime: RuntimeKind
) -> None:
    problem = Problem("large", "", cases=(Case("", "1"),), memory_bytes=640 * MIB)
    code = TAKE.format(600) + "print(1)"
    for wanted, reward in ((None, None), (1024 * MIB, 1.0)):
        sandboxes = SandboxRequest(runtime, memory_bytes=wanted)
        with sandboxes.job(sandboxes.connect(settings), command="test", max_lifetime_seconds=120) as job:
            if reward is not None:
                assert [result.reward for result in scored(job, problem, code)] == [reward]
                continue
            with pytest.raises(
                UsageError, match=r"'large' allows 640 MiB of memory, and a sandbox has 512 MiB"
            ) as caught:
                scored(job, problem, code)
            assert caught.value.fields == ("sandbox_memory_bytes",)


def test_programs_in_other_languages_have_limits_too(job: Job) -> None:
    problem = Problem("p", "", cases=(Case("", "1"),), language="perl", memory_bytes=64 * MIB)
    take = 'my $kept = "x" x ({} << 20);\nprint 1;'
    results = scored(job, problem, take.format(20), take.format(150))
    assert [(result.reward, result.status) for result in results] == [
        (1.0, Status.PASSED),
        (0.0, Status.RESOURCE_LIMIT),
    ]
