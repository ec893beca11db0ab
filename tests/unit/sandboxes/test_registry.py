"""The registry of jobs: what it says of a job that was killed, and what it never claims."""

from __future__ import annotations

import os
import stat
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.job_entries import job_entry

from sandrl.events import Event, Warned
from sandrl.sandboxes.owner import Owner, current_owner
from sandrl.sandboxes.registry import Registration, find_owner, forget_jobs, read_jobs


def gone(pid: int = 2**22 + 1) -> Owner:
    """A process of this namespace that is not there: its number is above the kernel's limit."""
    return replace(current_owner(), pid=pid)


def files(state: Path) -> list[Path]:
    return sorted((state / "jobs").glob("*"))


def test_a_job_is_found_by_the_hash_its_sandboxes_carry(tmp_path: Path) -> None:
    Registration(job_entry(), tmp_path).renew()
    assert find_owner(tmp_path, current_owner().hash) == current_owner()
    assert find_owner(tmp_path, "0" * 12) is None
    (found,) = read_jobs(tmp_path)
    assert found == job_entry().model_copy(update={"started_at": found.started_at})


def test_only_its_user_can_read_an_entry(tmp_path: Path) -> None:
    Registration(job_entry(), tmp_path).renew()
    (file,) = files(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_an_entry_goes_when_the_job_has_ended(tmp_path: Path) -> None:
    registration = Registration(job_entry(), tmp_path)
    registration.renew()
    registration.end()
    registration.end()
    assert files(tmp_path) == []


def test_two_jobs_of_one_id_have_an_entry_each(tmp_path: Path) -> None:
    first, second = Registration(job_entry(), tmp_path), Registration(job_entry(gone()), tmp_path)
    first.renew()
    second.renew()
    first.end()
    assert [each.process for each in read_jobs(tmp_path)] == [gone()]


def test_many_jobs_may_start_at_once(tmp_path: Path) -> None:
    def start(number: int) -> None:
        Registration(job_entry(job_id=f"job-{number:08x}"), tmp_path).renew()

    threads = [threading.Thread(target=start, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_jobs(tmp_path)) == 16


def test_damaged_and_foreign_files_are_passed_over(tmp_path: Path) -> None:
    Registration(job_entry(), tmp_path).renew()
    (whole,) = files(tmp_path)
    text = whole.read_text()
    folder = whole.parent
    (folder / "cut.json").write_text(text[: len(text) // 2])
    (folder / "empty.json").write_text("")
    (folder / "binary.json").write_bytes(b"\xff\x00")
    (folder / "list.json").write_text("[]")
    (folder / "huge.json").write_text(text + " " * 1_000_000)
    (folder / "forged.json").write_text(text.replace(current_owner().hash, "0" * 12))
    (folder / "a-directory.json").mkdir()
    (folder / "a-link.json").symlink_to(whole)
    (folder / "newer.json").write_text(text.replace('"schema":1', '"schema":7,"more":[1]'))
    assert len(read_jobs(tmp_path)) == 2


def test_a_state_directory_that_cannot_be_used_costs_one_warning(tmp_path: Path) -> None:
    (tmp_path / "jobs").write_text("a file where the folder should be")
    told: list[Event] = []
    registration = Registration(job_entry(), tmp_path, told.append)
    registration.renew()
    registration.renew()
    registration.end()
    assert [type(event) for event in told] == [Warned]
    assert "registry of jobs" in str(told[0])
    assert "--tag job-0a1b2c3d" in str(told[0])


def test_a_missing_registry_is_an_empty_one(tmp_path: Path) -> None:
    assert read_jobs(tmp_path / "nowhere") == ()


def test_an_entry_that_was_lost_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("sandrl.sandboxes.registry.time.monotonic", lambda: clock[0])
    registration = Registration(job_entry(), tmp_path)
    registration.renew()
    files(tmp_path)[0].unlink()
    registration.renew()
    assert files(tmp_path) == []
    clock[0] = 61.0
    registration.renew()
    assert len(files(tmp_path)) == 1


def test_a_job_that_moves_says_where(tmp_path: Path) -> None:
    registration = Registration(job_entry(), tmp_path)
    registration.renew()
    registration.move("https://user:secret@example.test:1/x?key=secret")
    registration.renew()
    (found,) = read_jobs(tmp_path)
    assert found.address == "https://example.test:1/x"


@pytest.mark.parametrize(
    ("owner", "idle_seconds", "stays"),
    [
        (gone(), 60, True),
        (gone(), 300 + 3_700, False),
        (current_owner(), 30 * 24 * 3_600, True),
        (replace(gone(), host="elsewhere"), 300 + 3_700, True),
        (replace(gone(), host="elsewhere"), 8 * 24 * 3_600, False),
    ],
)
def test_entries_are_pruned_only_when_they_can_lead_to_no_sandbox(
    tmp_path: Path, owner: Owner, idle_seconds: float, stays: bool
) -> None:
    Registration(job_entry(owner, "job-old"), tmp_path).renew()
    (old,) = files(tmp_path)
    before = time.time() - idle_seconds
    os.utime(old, (before, before))
    Registration(job_entry(job_id="job-new"), tmp_path).renew()
    assert old.exists() is stays


@pytest.mark.parametrize(
    ("owner", "address", "idle_seconds", "in_use", "stays"),
    [
        (gone(), "http://127.0.0.1:1", 600, False, False),
        (gone(), "http://127.0.0.1:1", 60, False, True),
        (gone(), "http://127.0.0.1:1", 600, True, True),
        (gone(), "http://127.0.0.1:2", 600, False, True),
        (current_owner(), "http://127.0.0.1:1", 600, False, True),
        (replace(gone(), host="elsewhere"), "http://127.0.0.1:1", 600, False, True),
    ],
)
def test_an_entry_is_forgotten_when_its_job_is_gone_with_its_last_sandbox(
    tmp_path: Path, owner: Owner, address: str, idle_seconds: float, in_use: bool, stays: bool
) -> None:
    Registration(job_entry(owner), tmp_path).renew()
    (file,) = files(tmp_path)
    before = time.time() - idle_seconds
    os.utime(file, (before, before))
    forget_jobs(tmp_path, [address], [f"owner-{owner.hash}"] if in_use else ["owner-another"])
    assert file.exists() is stays
