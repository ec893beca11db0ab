"""Sets of tasks by name, from repositories that git serves from this machine, and locks of them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.support.programs import require_program

from sandrl.errors import InputError, ServiceError
from sandrl.problems import Problem
from sandrl.problems.loading import load_problems
from sandrl.problems.tasks.checkouts import origin_of
from sandrl.problems.tasks.lock import LOCK, TaskHold, TaskLock

CONFIG = 'version = "1.0"\n'


class Repository:
    """A repository with a task in `sets/shell/hello`."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.address = place.as_uri()
        self.write("instruction.md", "Say hello.\n")
        self.write("task.toml", CONFIG)
        self.write("environment/Dockerfile", "FROM scratch\n")
        self.write("tests/test.sh", "echo 1\n").chmod(0o755)
        self.git("init", "-q", "-b", "main")

    @property
    def task(self) -> Path:
        return self.place / "sets/shell/hello"

    def write(self, name: str, text: str) -> Path:
        path = self.task / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def git(self, *arguments: str) -> str:
        command = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false", *arguments]
        return subprocess.run(command, cwd=self.place, capture_output=True, text=True, check=True).stdout.strip()

    def commit(self) -> str:
        self.git("add", "-A")
        self.git("commit", "-qm", "x")
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    require_program("git")
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    monkeypatch.setenv("SANDRL_CACHE_DIR", str(cache))
    return Repository(tmp_path / "repository")


def task_of(source: str) -> Problem:
    [problem] = load_problems(source).problems.values()
    return problem


@pytest.mark.parametrize("partial", [True, False])
def test_a_task_of_a_repository_is_fetched_once(repository: Repository, partial: bool) -> None:
    os.symlink("test.sh", repository.task / "tests/link.sh")
    commit = repository.commit()
    for name in ("allowFilter", "allowAnySHA1InWant"):
        repository.git("config", f"uploadpack.{name}", str(partial).lower())
    task = task_of(f"git+{repository.address}@{commit}#sets/shell").task
    assert task is not None
    assert (task.name, task.steps[0].instruction) == ("hello", "Say hello.\n")
    directory = Path(task.directory)
    assert os.access(directory / "tests/test.sh", os.X_OK)
    assert os.readlink(directory / "tests/link.sh") == "test.sh"
    assert origin_of(directory) == f"{repository.address}@{commit}#sets/shell/hello"
    repository.place.rename(repository.place.with_name("gone"))
    assert task_of(f"git+{repository.address}@{commit}#sets/shell").task == task
    with pytest.raises(ServiceError, match="cannot be fetched"):
        task_of(f"git+{repository.address}@main#sets/shell")


def test_nothing_of_a_repository_is_run(repository: Repository, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    repository.write("../../../.gitattributes", "* filter=evil text eol=crlf\nsets/** export-ignore\n")
    commit = repository.commit()
    for name in ("clean", "smudge"):
        repository.git("config", f"filter.evil.{name}", f"touch {trace}; cat")
    hook = repository.place / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {trace}\n")
    hook.chmod(0o755)
    task = task_of(f"git+{repository.address}@{commit}").task
    assert task is not None
    assert Path(task.directory, "tests/test.sh").read_text() == "echo 1\n"
    assert not trace.exists()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("git+ext::sh -c id", "is not an address"),
        ("git+/etc", "is not an address"),
        ("git+-u@host.invalid:x/y", "is not an address"),
        ("git+https://host.invalid/x@--upload-pack=x", "is not a commit"),
        ("git+https://host.invalid/x#../x", "leads out of the repository"),
        ("git+https://host.invalid/x#/etc", "leads out of the repository"),
    ],
)
def test_a_name_that_git_must_not_get_is_refused(repository: Repository, source: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        load_problems(source)


@pytest.mark.parametrize("target", ["a\0b", "", "a" * 5000], ids=["NUL", "empty", "long"])
def test_a_link_that_cannot_be_is_refused(repository: Repository, tmp_path: Path, target: str) -> None:
    (tmp_path / "target").write_text(target)
    digest = repository.git("hash-object", "-w", str(tmp_path / "target"))
    repository.git("add", "-A")
    repository.git("update-index", "--add", "--cacheinfo", f"120000,{digest},sets/shell/hello/link")
    repository.git("commit", "-qm", "x")
    with pytest.raises(InputError, match="'sets/shell/hello/link', which cannot be written"):
        load_problems(f"git+{repository.address}")


def test_files_kept_elsewhere_are_refused(repository: Repository) -> None:
    repository.write("tests/data.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    repository.commit()
    with pytest.raises(InputError, match="Git LFS"):
        load_problems(f"git+{repository.address}")


def test_a_registry_names_sets(repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = repository.commit()
    entry = {"name": "greeting", "git_url": repository.address, "git_commit_id": commit, "path": "sets/shell/hello"}
    sets = [
        {"name": "shell", "version": "1.9", "description": "", "tasks": [entry]},
        {"name": "shell", "version": "1.10", "description": "", "tasks": [{"path": "repository/sets/shell/hello"}]},
    ]
    registry = tmp_path / "registry.json"
    registry.write_text(json.dumps(sets))
    monkeypatch.setenv("SANDRL_HARBOR_REGISTRY", str(registry))
    assert task_of("harbor:shell@1.9").task_id == "greeting"
    newest = task_of("harbor:shell").task
    assert newest is not None
    assert Path(newest.directory) == repository.task
    with pytest.raises(InputError, match=r"has no set 'shel'.*did you mean 'shell'"):
        load_problems("harbor:shel")
    with pytest.raises(InputError, match=r"versions 1\.9, 1\.10, not '2'"):
        load_problems("harbor:shell@2")
    registry.write_text("{}")
    with pytest.raises(InputError, match="is not a registry"):
        load_problems("harbor:shell")


def test_a_lock_refuses_tasks_that_have_changed(repository: Repository, tmp_path: Path) -> None:
    repository.commit()
    problems = load_problems(repository.task).problems
    run = tmp_path / "run"
    run.mkdir()
    with TaskHold.of(None, problems).kept(run, {"image:1": "image:1@sha256:0", "dockerfile:x": "sha256:1"}):
        assert (run / LOCK).is_file()
    kept = TaskLock.read(run / LOCK)
    assert kept.images == {"image:1": "image:1@sha256:0", "dockerfile:x": "sha256:1"}
    assert TaskHold.of(run / LOCK, problems).images == {"image:1": "image:1@sha256:0"}
    repository.write("tests/test.sh", "echo 2\n")
    changed = load_problems(repository.task).problems
    with pytest.raises(InputError, match="'hello' has another content"):
        TaskHold.of(run / LOCK, changed)
    with pytest.raises(InputError, match="'hello' has another content"):
        TaskHold.of(None, changed, resume=run)
    with pytest.raises(InputError, match="'other' is not in it"):
        TaskHold.of(run / LOCK, {"other": Problem("other", "x", task=problems["hello"].task)})
    (run / LOCK).write_text("[]")
    with pytest.raises(InputError, match="is not a lock"):
        TaskHold.of(run / LOCK, problems)


def test_problems_that_are_no_tasks_have_no_lock(tmp_path: Path) -> None:
    with TaskHold.of(None, {"a": Problem("a", "x", check="exit_status")}).kept(tmp_path, {}):
        pass
    assert not (tmp_path / LOCK).exists()
