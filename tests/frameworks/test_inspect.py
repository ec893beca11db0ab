"""inspect_ai: its own self-check of sandboxes, and evaluations in sandboxes of ours, with the real framework."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai", reason="not installed: inspect-ai (make test-frameworks)")

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.scorer import Score, accuracy, scorer
from inspect_ai.solver import solver
from inspect_ai.util import SandboxEnvironmentSpec, SandboxUnavailableError, sandbox
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

from sandrl.integrations.inspect import SandrlSandbox, SandrlSandboxEnvironment
from tests.support.tasks.base import BASE, import_task_base

# Its loops leave streams of their own open.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

ADDUSER = """#!/bin/sh
[ "$1" = --help ] && exit
for name; do :; done
echo "$name:x:1001:1001::/:/bin/sh" >>/etc/passwd
"""


@pytest.fixture
def with_adduser(tmp_path: Path) -> SandrlSandbox:
    """An image of root with the programs that the check of users runs; the usual one is of another user."""
    import_task_base(os.environ)
    (tmp_path / "adduser").write_text(ADDUSER, encoding="utf-8")
    (tmp_path / "adduser").chmod(0o755)
    (tmp_path / "Dockerfile").write_text(
        f"FROM {BASE}\nCOPY adduser /bin/adduser\nRUN ln -s busybox /bin/whoami\n", encoding="utf-8"
    )
    return SandrlSandbox(image=f"dockerfile:{tmp_path}")


@pytest.fixture
async def sandbox_env(request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    adds_user = request.node.originalname == "test_exec_as_user"
    kind = request.getfixturevalue("with_adduser") if adds_user else None
    environments = await SandrlSandboxEnvironment.sample_init("self_check", kind, {})
    yield environments["default"]
    await SandrlSandboxEnvironment.sample_cleanup("self_check", None, environments, interrupted=False)


@solver  # type: ignore[untyped-decorator]
def shell() -> Any:
    async def solve(state: Any, generate: Any) -> Any:
        await sandbox().exec(["sh", "-c", state.input_text])
        return state

    return solve


@scorer(metrics=[accuracy()])  # type: ignore[untyped-decorator]
def answer() -> Any:
    async def score(state: Any, target: Any) -> Any:
        result = await sandbox().exec(["cat", "answer"])
        return Score(value="C" if result.stdout.strip() == target.text else "I")

    return score


def evaluated(tmp_path: Path, *commands: str, kind: Any = "sandrl") -> Any:
    samples = [Sample(input=command, target="42") for command in commands]
    task = Task(dataset=samples, solver=shell(), scorer=answer(), sandbox=kind)
    [log] = eval(
        task, model="mockllm/model", log_dir=str(tmp_path), display="none", fail_on_error=False, retry_on_error=0
    )
    return log


def test_an_evaluation_has_right_and_wrong_answers(tmp_path: Path) -> None:
    log = evaluated(tmp_path, "echo 42 > answer", "echo 41 > answer")
    assert [sample.scores["answer"].value for sample in log.samples] == ["C", "I"]


def test_a_sandbox_that_is_stopped_in_the_middle_is_an_error_of_its_sample(tmp_path: Path) -> None:
    stop = [sys.executable, "-m", "sandrl", "sandboxes", "cleanup", "--tag", "inspect", "--force", "--yes"]

    @solver  # type: ignore[untyped-decorator]
    def stopped() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            await sandbox().exec(["true"])
            await asyncio.to_thread(subprocess.run, stop, check=True, env=dict(os.environ), capture_output=True)
            with pytest.raises(SandboxUnavailableError):
                await sandbox().exec(["true"])
            return state

        return solve

    task = Task(dataset=[Sample(input="x", target="42")], solver=stopped(), scorer=answer(), sandbox="sandrl")
    [log] = eval(task, model="mockllm/model", log_dir=str(tmp_path), display="none", fail_on_error=False)
    [sample] = log.samples
    assert "SandboxUnavailableError" in sample.error.traceback
    assert not sample.scores


def test_an_image_has_its_users_and_its_network_is_the_one_that_was_asked_for(tmp_path: Path) -> None:
    import_task_base(os.environ)
    spec = SandboxEnvironmentSpec("sandrl", SandrlSandbox(image=BASE, memory_mb=128, network="none"))
    log = evaluated(tmp_path, "[ $(id -u) = 0 ] && echo 42 > answer", kind=spec)
    assert [sample.scores["answer"].value for sample in log.samples] == ["C"]
    missing = evaluated(tmp_path, "true", kind=("sandrl", "localhost:1/no/such:image"))
    assert missing.status == "error" or missing.samples[0].error is not None
