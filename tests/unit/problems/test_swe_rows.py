"""Rows about repositories: which image, which tests, what is put back; and the predictions that answer them."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.support.repository_rows import MULTI_SWE_ROW, PATCH, R2E_ROW, SWE_ROW, TESTS

from sandrl.errors import InputError
from sandrl.problems.completions import load_completions
from sandrl.problems.loading import problem_of_row
from sandrl.problems.tasks import swe
from sandrl.problems.tasks.swe import reversed_patch, touched_files
from sandrl.problems.tasks.task import Task, VerifierMode

SCRIPT = """#!/bin/bash
cd /testbed
: '>>>>> Start Test Output'
pytest -rA tests/a.py
: '>>>>> End Test Output'
git checkout tests
"""


def row(**fields: Any) -> dict[str, Any]:
    return SWE_ROW | fields


def task_of(**fields: Any) -> Task:
    task = problem_of_row(row(**fields), "row").task
    assert task is not None
    return task


def script_of(task: Task) -> str:
    return dict(task.steps[0].verifier.files)["test.sh"].decode()


def test_a_row_is_a_task_whose_tests_run_apart() -> None:
    problem = problem_of_row(row(), "row")
    assert problem.task_id == "owner__name-1"
    task = task_of()
    step = task.steps[0]
    assert (task.environment.image, task.environment.directory) == ("image:1", "/testbed")
    assert step.verifier.mode is VerifierMode.SEPARATE
    assert step.verifier.required == ("tests/test_calc.py::test_add", "tests/test_calc.py::test_sub")
    assert step.verifier.may_skip == ("tests/test_calc.py::test_sub",)
    assert step.solution is not None
    assert step.solution.patch == PATCH
    files = dict(step.verifier.files)
    assert files["protected"] == b"tests/test_calc.py\0tests\0"
    assert files["owned"] == b"calc.py\n"
    assert "pytest -rA" in script_of(task)
    assert task.digest != task_of(test_patch=TESTS.replace("more", "less")).digest
    assert task.digest == task_of().digest


@pytest.mark.parametrize(
    ("fields", "image"),
    [
        (
            {"repo": "django/django", "instance_id": "django__django-1"},
            "swebench/sweb.eval.x86_64.django_1776_django-1:latest",
        ),
        ({"repo": "dask/dask", "instance_id": "dask__dask-1"}, "xingyaoww/sweb.eval.x86_64.dask_s_dask-1:latest"),
        ({"install_config": {"test_cmd": "pytest"}}, "swerebench/sweb.eval.x86_64.owner_1776_name-1:latest"),
        ({"docker_image": "other:2"}, "other:2"),
    ],
)
def test_an_image_is_named_or_derived(fields: dict[str, Any], image: str) -> None:
    found = task_of(**{"image_name": None} | fields).environment.image
    assert found.removeprefix("docker.io/") == image


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"image_name": None}, "image_name.*cannot be derived"),
        ({"FAIL_TO_PASS": "[]", "PASS_TO_PASS": []}, "names no test"),
        ({"FAIL_TO_PASS": "{"}, "must be JSON text"),
        ({"FAIL_TO_PASS": [1]}, "must be a list of names"),
        ({"FAIL_TO_PASS": ["TestAdd/one"], "PASS_TO_PASS": []}, "log_parser.*is missing"),
        ({"eval_type": "fail_only"}, "eval_type"),
        ({"patch": PATCH.replace("calc.py", "../calc.py")}, "not in the repository"),
        ({"test_patch": TESTS.replace("tests/test_calc.py", "tests/.git/hooks/x")}, "not in the repository"),
    ],
)
def test_a_row_that_cannot_be_judged_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        task_of(**fields)


def test_a_row_may_bring_its_own_script() -> None:
    verifier = task_of(eval_script=SCRIPT, log_parser="parse_log_pytest_v2", version="1.2").steps[0].verifier
    assert verifier.parser == "swebench:parse_log_pytest_v2@1.2@owner__name-1"
    files = dict(verifier.files)
    assert files["test.patch"] == b""
    lines = files["eval.sh"].decode().splitlines()
    assert lines[3].startswith("pytest -rA tests/a.py ")
    assert lines[4] == "sandrl_code=$?"


def test_a_patch_of_swe_smith_makes_the_bug() -> None:
    task = task_of(repo="swesmith/owner__name.1234", test_patch=None)
    assert PATCH in task.environment.prepare.replace("'\"'\"'", "'")
    solution = task.steps[0].solution
    assert solution is not None
    assert {"-    return a + b", "+    return 0"} <= {*solution.patch.splitlines()}


def test_r2e_rows_keep_their_tests_from_the_agent() -> None:
    task = problem_of_row(R2E_ROW, "row").task
    assert task is not None
    assert task.steps[0].verifier.required == ("TestA.test_one", "test_two")
    assert "/r2e_tests" in task.environment.prepare


def test_multi_swe_rows_run_the_script_of_their_image() -> None:
    problem = problem_of_row(MULTI_SWE_ROW, "row")
    assert problem.task is not None
    assert problem.task_id == "Owner__name-7"
    assert problem.task.environment.image == "docker.io/mswebench/owner_m_name:pr-7"
    assert problem.task.steps[0].verifier.required == ("TestA", "TestB")
    with pytest.raises(InputError, match="log_parser"):
        problem_of_row({**MULTI_SWE_ROW, "lang": "java"}, "row")


def test_predictions_are_completions(tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    rows = [
        {"instance_id": "a", "model_patch": PATCH, "model_name_or_path": "m"},
        {"instance_id": "b", "model_patch": None, "model_name_or_path": "m"},
        {"org": "o", "repo": "r", "number": 3, "fix_patch": PATCH},
    ]
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    found = load_completions(path).completions
    assert [(each.task_id, each.code) for each in found] == [("a", PATCH), ("b", ""), ("o__r-3", PATCH)]


def test_the_reverse_of_a_diff_undoes_it(tmp_path: Path) -> None:
    def git(*arguments: str, text: str = "") -> str:
        command = ["git", "-c", "user.name=t", "-c", "user.email=t@t", *arguments]
        return subprocess.run(command, cwd=tmp_path, input=text, capture_output=True, text=True, check=True).stdout

    git("init", "-q")
    (tmp_path / "kept").write_text("one\n-- two\n+++ three\nfour")
    (tmp_path / "gone é").write_text("gone\n")
    (tmp_path / "moved").write_text("".join(f"{number}\n" for number in range(50)))
    git("add", "-A")
    git("commit", "-qm", "x")
    (tmp_path / "kept").write_text("one\n-- 2\n+++ 3\nfour\n")
    (tmp_path / "gone é").unlink()
    (tmp_path / "new").write_text("--- a/../x\n+++ b/../x\n")
    (tmp_path / "moved").rename(tmp_path / "there")
    (tmp_path / "there").chmod(0o755)
    git("add", "-A")
    diff = git("diff", "--cached", "-M")
    assert set(touched_files(diff, "patch")) == {"kept", "gone é", "moved", "there", "new"}
    git("apply", "--index", "-", text=reversed_patch(diff))
    assert git("status", "--porcelain") == ""


def test_a_tree_reaches_the_repository_and_not_what_a_link_of_it_leads_to(tmp_path: Path) -> None:
    repository, answer, tests = tmp_path / "repository", tmp_path / "answer.tar.gz", tmp_path / "tests"
    for directory in (repository / "pkg", repository / "ignored", tests):
        directory.mkdir(parents=True)
    (repository / ".gitignore").write_text("ignored\n")
    (repository / "pkg/old.py").write_text("")
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@localhost"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "a"]):
        subprocess.run([*git, *arguments], check=True)
    configuration = (repository / ".git/config").read_text()
    script = Path(swe.__file__).with_name("scripts") / "verify_tree.sh"
    settings = f"directory={repository}\nkept=\nactivate=\ninstall=\ncommand='ls -R pkg'\nfiles=()\ncanary=\n"
    (tests / "test.sh").write_text(settings + script.read_text().replace("/logs/artifacts/tree.tar.gz", str(answer)))
    for name in ("protected", "owned", "test.patch"):
        (tests / name).write_text("")

    def run(*members: tuple[str, str, bytes]) -> subprocess.CompletedProcess[str]:
        with tarfile.open(answer, "w:gz") as archive:
            for name, link, content in members:
                member = tarfile.TarInfo(name)
                member.size, member.type = len(content), tarfile.SYMTYPE if link else tarfile.REGTYPE
                member.linkname, member.mode = link, 0o755
                archive.addfile(member, io.BytesIO(content))
        command = ["bash", str(tests / "test.sh")]
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    honest = run(("pkg/new.py", "", b"1"), ("pkg/link.py", "new.py", b""))
    assert "\npkg:\nlink.py\nnew.py\n\n" in honest.stdout, honest.stderr
    assert (repository / "ignored").is_dir()
    run(("into", ".git", b""), ("into/config", "", b"[core]\n\tfsmonitor = evil\n"))
    assert (repository / ".git/config").read_text() == configuration
