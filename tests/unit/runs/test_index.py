from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sandrl.errors import InputError
from sandrl.runs import RunWriter, find_run
from sandrl.runs.index import LATEST, list_runs


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    return tmp_path / "state"


def run(runs_dir: Path, state_dir: Path | None, name: str | None = None, **options: Any) -> Path:
    with RunWriter.create(
        runs_dir, command="reward", job_id="job-1", state_dir=state_dir, name=name, **options
    ) as writer:
        return writer.path


def test_runs_are_found_from_anywhere_newest_first(tmp_path: Path, state_dir: Path) -> None:
    first, second = run(tmp_path / "a", state_dir), run(tmp_path / "b", state_dir, "named")
    assert [entry.path for entry in list_runs(state_dir)] == [second, first]
    assert find_run("named", state_dir) == second
    assert find_run(first.name, state_dir) == first
    assert find_run(LATEST, state_dir) == second


def test_a_resumed_run_is_the_latest(tmp_path: Path, state_dir: Path) -> None:
    first, _ = run(tmp_path, state_dir, "first"), run(tmp_path, state_dir, "second")
    run(tmp_path, state_dir, "first", resume=True)
    assert find_run(LATEST, state_dir) == first
    assert len(list_runs(state_dir)) == 2


def test_a_deleted_run_is_passed_over(tmp_path: Path, state_dir: Path) -> None:
    kept, gone = run(tmp_path, state_dir, "kept"), run(tmp_path, state_dir, "gone")
    (gone / "config.json").unlink()
    gone.rmdir()
    assert [entry.path for entry in list_runs(state_dir)] == [kept]


def test_runs_that_were_never_indexed_are_found_where_they_are(tmp_path: Path, state_dir: Path) -> None:
    indexed, copied = run(tmp_path / "runs", state_dir, "indexed"), run(tmp_path / "runs", None, "copied")
    (tmp_path / "runs" / "no-run").mkdir()
    assert {entry.path for entry in list_runs(state_dir, tmp_path / "runs")} == {indexed, copied}
    assert find_run("copied", state_dir, tmp_path / "runs") == copied


def test_a_path_needs_no_index(tmp_path: Path, state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = run(tmp_path / "runs", None, "mine")
    monkeypatch.chdir(tmp_path)
    assert find_run("runs/mine", state_dir) == path
    with pytest.raises(InputError, match="is not a run directory"):
        find_run("./runs", state_dir)


def test_a_name_taken_twice_is_the_near_one_or_must_be_a_path(tmp_path: Path, state_dir: Path) -> None:
    near, far = run(tmp_path / "near", state_dir, "same"), run(tmp_path / "far", state_dir, "same")
    assert find_run("same", state_dir, tmp_path / "near") == near
    with pytest.raises(InputError, match="several runs are named 'same'") as caught:
        find_run("same", state_dir)
    assert str(near) in str(caught.value)
    assert str(far) in str(caught.value)


def test_an_unknown_name_suggests_a_close_one(tmp_path: Path, state_dir: Path) -> None:
    with pytest.raises(InputError, match="there are no runs yet"):
        find_run(LATEST, state_dir)
    run(tmp_path, state_dir, "baseline")
    with pytest.raises(InputError, match=r"there is no run 'basline'; did you mean 'baseline'\?"):
        find_run("basline", state_dir)


def test_without_a_usable_state_directory_the_run_works_and_is_found_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for state_dir in (tmp_path / "file", tmp_path / "file" / "below"):
        run(tmp_path / "runs", state_dir)
    assert list_runs(tmp_path / "file") == []
    assert len(list_runs(tmp_path / "file", tmp_path / "runs")) == 2


def test_many_processes_can_register_at_once(tmp_path: Path, state_dir: Path) -> None:
    program = f"""
from pathlib import Path
from sandrl.runs import RunWriter
runs_dir, state_dir = Path({str(tmp_path / "runs")!r}), Path({str(state_dir)!r})
for _ in range(20):
    RunWriter.create(runs_dir, command="reward", job_id="job-1", state_dir=state_dir).close()
"""
    processes = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(4)]
    assert [process.wait() for process in processes] == [0, 0, 0, 0]
    assert len(list_runs(state_dir)) == 80
