"""What is taken over from the machine of an agent, whose programs made the archive."""

from __future__ import annotations

from typing import cast

import pytest

from sandrl.errors import InfrastructureError
from sandrl.problems.tasks.task import Artifact
from sandrl.trials.artifacts import collected
from sandrl.trials.entries import Entry, archived
from sandrl.trials.machine import Machine


class Source:
    """A machine that gives the same archive for every path, or fails."""

    def __init__(self, *entries: Entry, is_lost: bool = False) -> None:
        self._archive = archived(entries)
        self._fails = not entries
        self.is_lost = is_lost

    def get(self, path: str, **_: object) -> bytes:
        if self._fails:
            raise InfrastructureError("its tar does not work")
        return self._archive


def taken(source: Source) -> list[tuple[str, list[Entry]]]:
    return collected(cast("Machine", source), (Artifact("/app"),), "")


def test_an_archive_has_the_path_that_was_asked_for_and_nothing_else() -> None:
    right = [Entry("app", 0o755), Entry("app/answer", 0o644, b"42")]
    wrong = [Entry("bin/sh", 0o755, b"#!"), Entry("tests/test.sh", 0o755, b"#!"), Entry("application", 0o644, b"")]
    _, (directory, entries) = taken(Source(*right, *wrong))
    assert (directory, entries) == ("/", right)


def test_nothing_is_in_a_link() -> None:
    link = Entry("app/in", 0o777, target=".")
    entries = [Entry("app", 0o755), link, Entry("app/in/f", 0o644, b""), Entry("app/in/out", 0o777, target="../x")]
    assert taken(Source(*entries))[1][1] == [Entry("app", 0o755), link]


def test_no_file_runs_as_its_new_owner() -> None:
    [entry] = taken(Source(Entry("app", 0o6755, b"")))[1][1]
    assert entry.mode == 0o755


def test_a_tar_that_was_broken_costs_its_files_and_a_lost_sandbox_all() -> None:
    assert taken(Source()) == []
    with pytest.raises(InfrastructureError):
        taken(Source(is_lost=True))
