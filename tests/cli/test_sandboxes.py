"""`sandrl sandboxes ls|cleanup|count|show`: what is there, whose it is, and what is stopped."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandrl.runtime import daemon
from sandrl.sandboxes import Job, encode_tag, read_jobs
from sandrl.settings import load_settings
from tests.cli.conftest import Run
from tests.support.faulty_runtime import faulty_runtime
from tests.support.lost_job import Lost, lose_job, sleeping_job


@pytest.fixture
def living() -> Iterator[Job]:
    """Two sandboxes of a job that is alive: this process."""
    with sleeping_job(2, "mine") as job:
        yield job


@pytest.fixture
def lost() -> Lost:
    """Three sandboxes of a job that was killed."""
    return lose_job(3, "model:Qwen/Qwen2.5", "mine")


def listed(sandrl: Run, *words: str, **environment: str) -> list[dict[str, Any]]:
    done = sandrl("sandboxes", "ls", "--json", *words, **environment)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["sandboxes"]
    return found


def words_of(text: str) -> str:
    return " ".join(text.split())


def ids(sandboxes: list[dict[str, Any]]) -> set[str]:
    return {each["id"] for each in sandboxes}


def test_without_a_local_runtime_there_are_no_sandboxes_and_none_is_started(sandrl: Run, tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    done = sandrl("sandboxes", "ls", SANDRL_STATE_DIR=state)
    assert (done.returncode, words_of(done.stdout)) == (0, "ID STATUS AGE EXPIRES JOB OWNER TAGS")
    assert "not running" in done.stderr
    assert json.loads(sandrl("sandboxes", "count", "--json", SANDRL_STATE_DIR=state).stdout)["total"] == 0
    for words in (["show"], ["logs"], ["exec"]):
        command = ["true"] if words == ["exec"] else []
        done = sandrl("sandboxes", *words, "nope", *command, SANDRL_STATE_DIR=state)
        assert done.returncode == 2
        assert "there is no sandbox 'nope'" in done.stderr
    done = sandrl("sandboxes", "cleanup", "gone-1", "gone-2", "-y", SANDRL_STATE_DIR=state)
    assert (done.returncode, done.stdout) == (0, "stopped 0, already ended 2, failed 0\n")
    assert daemon.find(Path(state)) is None


def test_a_killed_job_s_sandboxes_are_the_orphans_and_a_living_job_s_are_left_alone(
    sandrl: Run, living: Job, lost: Lost
) -> None:
    orphans = listed(sandrl, "--orphans", "-t", lost.job_id)
    assert ids(orphans) == lost.ids
    assert {each["owner"] for each in orphans} == {"gone"}
    assert {each["job_id"] for each in orphans} == {lost.job_id}
    everything = listed(sandrl, "-t", "mine")
    alive = [each for each in everything if each["job_id"] == living.id]
    assert {(each["owner"], each["orphan"]) for each in alive} == {("alive", False)}
    assert len(alive) == 2
    assert lost.job_id in {entry.job_id for entry in read_jobs(load_settings().state_dir)}

    done = sandrl("sandboxes", "cleanup", "--tag", "mine", "--yes")
    assert (done.returncode, done.stdout) == (0, "stopped 3, already ended 0, failed 0\n")
    assert "Not selected: 2 sandboxes whose owner is alive" in done.stderr
    assert ids(listed(sandrl, "-t", "mine")) == ids(alive)
    assert {each["status"] for each in listed(sandrl, "--all", "-t", lost.job_id)} == {"terminated"}
    jobs = {entry.job_id for entry in read_jobs(load_settings().state_dir)}
    assert {lost.job_id, living.id} <= jobs, "what it asked for last may still come to be"

    forced = sandrl("sandboxes", "cleanup", "--tag", living.id, "--force", "-y")
    assert forced.stdout == "stopped 2, already ended 0, failed 0\n"


def test_tags_are_found_by_the_text_they_were_given_as(sandrl: Run, lost: Lost) -> None:
    assert ids(listed(sandrl, "-t", "model:Qwen/Qwen2.5", "-t", lost.job_id)) == lost.ids
    assert listed(sandrl, "-t", "model:Qwen/other", "-t", lost.job_id) == []
    assert ids(listed(sandrl, "-t", encode_tag("model:Qwen/Qwen2.5"), "-t", lost.job_id)) == lost.ids
    sandrl("sandboxes", "cleanup", "-t", lost.job_id, "-y")


def test_nothing_is_touched_without_a_word_on_what_to_stop_or_an_answer(sandrl: Run, lost: Lost) -> None:
    a_sandbox = min(lost.ids)
    for words in ([], [a_sandbox, "--orphans"], [a_sandbox, "--all"], ["--older-than", "soon"], ["--older-than", "5"]):
        done = sandrl("sandboxes", "cleanup", "-y", *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert len(done.stderr.splitlines()) == 2
    asked = sandrl("sandboxes", "cleanup", "-t", lost.job_id, "--orphans", "--older-than", "0s", "--runtime", "local")
    assert (asked.returncode, asked.stdout) == (2, "")
    command = f"sandrl sandboxes cleanup --tag {lost.job_id} --orphans --older-than 0s --runtime local --yes"
    assert asked.stderr.endswith(f"hint: {command}\n")
    assert min(lost.ids) in asked.stderr
    tried = sandrl("sandboxes", "cleanup", "-t", lost.job_id, "--dry-run", "-y")
    assert tried.returncode == 0
    assert lost.ids == {line.split()[0] for line in tried.stdout.splitlines()[1:]}
    assert sandrl("sandboxes", "cleanup", "-t", lost.job_id, "--older-than", "1h", "-y").stdout.startswith("stopped 0")
    assert ids(listed(sandrl, "-t", lost.job_id)) == lost.ids

    assert sandrl(*command.split()[1:]).stdout == "stopped 3, already ended 0, failed 0\n"


def test_sandboxes_are_stopped_by_id_and_those_that_are_gone_count_as_done(sandrl: Run, lost: Lost) -> None:
    first, *others = sorted(lost.ids)
    assert sandrl("sandboxes", "cleanup", first, "-y").stdout == "stopped 1, already ended 0, failed 0\n"
    done = sandrl("sandboxes", "cleanup", *lost.ids, first, "never-there", "-y", "--json")
    report = json.loads(done.stdout)
    assert sorted(report["stopped"]) == others
    assert sorted(report["already_gone"]) == sorted([first, "never-there"])
    assert (report["failed"], report["left"], done.returncode) == ([], [], 0)


def test_both_runtimes_are_asked_with_the_same_calls(sandrl: Run, lost: Lost) -> None:
    endpoint = daemon.find(load_settings().state_dir)
    assert endpoint is not None
    remote = {"CWSANDBOX_BASE_URL": endpoint.base_url, "CWSANDBOX_API_KEY": endpoint.token}
    assert ids(listed(sandrl, "--orphans", "-t", lost.job_id, **remote)) == lost.ids
    for sandbox in lost.ids:
        assert sandrl("sandboxes", "exec", sandbox, "--", "echo", "hello", **remote).stdout == "hello\n"
    assert json.loads(sandrl("sandboxes", "count", "-t", lost.job_id, "--json", **remote).stdout)["running"] == 3
    assert sandrl("sandboxes", "cleanup", "-t", lost.job_id, "-y", **remote).stdout.startswith("stopped 3")


def test_a_service_that_is_not_there_is_an_error_within_seconds(sandrl: Run) -> None:
    remote = {"CWSANDBOX_BASE_URL": "http://127.0.0.1:1", "CWSANDBOX_API_KEY": "a-key"}
    for words in (
        ["ls"],
        ["count"],
        ["show", "x"],
        ["cleanup", "--orphans", "-y"],
        ["exec", "x", "true"],
        ["logs", "x"],
    ):
        done = sandrl("sandboxes", *words, **remote)
        assert (done.returncode, done.stdout) == (3, ""), words
        assert "a-key" not in done.stderr
        assert "hint: check the address http://127.0.0.1:1, or use" in done.stderr
    endpoint = daemon.ensure_running(load_settings().state_dir)
    refused = sandrl("sandboxes", "ls", CWSANDBOX_BASE_URL=endpoint.base_url, CWSANDBOX_API_KEY="wrong")
    assert refused.returncode == 3
    assert "credentials" in refused.stderr
    assert sandrl("sandboxes", "ls", "--runtime", "remote").returncode == 3
    for nonsense in ("nonsense", "ftp://host", "https://"):
        done = sandrl("sandboxes", "ls", CWSANDBOX_BASE_URL=nonsense, CWSANDBOX_API_KEY="a-key")
        assert done.returncode == 2
        assert "CWSANDBOX_BASE_URL is not an address" in done.stderr


def test_show_tells_everything_that_is_known(sandrl: Run, lost: Lost) -> None:
    sandbox = min(lost.ids)
    shown = dict(line.split(maxsplit=1) for line in sandrl("sandboxes", "show", sandbox).stdout.splitlines())
    assert shown["id"] == sandbox
    assert shown["status"] == "running"
    assert shown["job"] == lost.job_id
    assert shown["owner"].startswith("gone (process ")
    assert shown["owner"].endswith(", orphan")
    assert "(in 10m)" in shown["expires"]
    assert shown["limits"] == "memory 536870912"
    sandrl("sandboxes", "cleanup", "-t", lost.job_id, "-y")
    document = json.loads(sandrl("sandboxes", "show", sandbox, "--json").stdout)
    assert (document["status"], document["orphan"], document["job_id"]) == ("terminated", False, lost.job_id)
    assert document["ended_at"] > document["created_at"]
    unknown = sandrl("sandboxes", "show", "no\x1b[31mthing")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "\x1b" not in unknown.stderr


def test_counts_are_by_status_and_tag(sandrl: Run, tmp_path: Path) -> None:
    state = tmp_path / "state"
    with faulty_runtime(state, "--records", "7", "--tag", "team-a"):
        done = sandrl("sandboxes", "count", "--by-tag", "--tag", "team-a", SANDRL_STATE_DIR=str(state))
        assert words_of(done.stdout) == "running 7 pending 0 total 7 RUNNING PENDING TOTAL TAG 7 0 7 team-a"
        document = json.loads(sandrl("sandboxes", "count", "--json", SANDRL_STATE_DIR=str(state)).stdout)
        assert document == {"running": 7, "pending": 0, "total": 7}


def test_two_thousand_sandboxes_are_listed_page_by_page_and_stopped(sandrl: Run, tmp_path: Path) -> None:
    state = tmp_path / "state"
    here = {"SANDRL_STATE_DIR": str(state)}
    with faulty_runtime(state, "--records", "2000", "--tag", "job-abc"):
        lines = sandrl("sandboxes", "ls", **here).stdout.splitlines()
        assert len({line.split()[0] for line in lines[1:]}) == 2000
        done = sandrl("sandboxes", "cleanup", "--tag", "job-abc", "-y", **here)
        assert (done.returncode, done.stdout) == (0, "stopped 2000, already ended 0, failed 0\n")
        assert "… and 1980 more" in done.stderr
        assert "Not created by sandrl: 2000 of these." in done.stderr
        assert listed(sandrl, **here) == []


def test_stops_that_fail_are_counted_end_nothing_else_and_can_be_tried_again(sandrl: Run, tmp_path: Path) -> None:
    state = tmp_path / "state"
    here = {"SANDRL_STATE_DIR": str(state)}
    with faulty_runtime(state, "--records", "500", "--fail-every", "20", "--tag", "job-abc"):
        done = sandrl("sandboxes", "cleanup", "--tag", "job-abc", "--yes", **here)
        assert (done.returncode, done.stdout) == (4, "stopped 475, already ended 0, failed 25\n")
        error, hint = done.stderr.splitlines()[-2:]
        assert "25 of 500 sandboxes could not be stopped" in error
        assert "the node does not answer" in error
        assert hint == "  hint: sandrl sandboxes cleanup --tag job-abc --yes tries again"
        assert len(listed(sandrl, **here)) == 25
        again = sandrl("sandboxes", "cleanup", "--tag", "job-abc", "--yes", "--json", **here)
        assert again.returncode == 4
        assert len(json.loads(again.stdout)["failed"]) == 25


def test_the_trap_for_batch_scripts_in_the_documentation_cleans_up_and_changes_no_exit_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "8842")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    lose_job(2)
    page = (Path(__file__).parents[2] / "docs" / "guides" / "slurm.md").read_text(encoding="utf-8")
    [trap] = re.findall(r"^trap 'sandrl .*$", page, re.MULTILINE)
    done = subprocess.run(
        ["sh", "-c", f"{trap}\necho working\nexit 7"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (7, "working\nstopped 2, already ended 0, failed 0\n")
