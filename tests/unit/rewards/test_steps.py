"""Prepared calls of libc, and what is prepared for completions before they are forked."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandrl.judge.guest.cell import write_from
from sandrl.judge.guest.outside import ANSWERS, QUESTIONS, rehearse
from sandrl.judge.guest.steps import TRIED, Step, Steps, open_all


@pytest.fixture
def own_folder(tmp_path: Path) -> Iterator[Path]:
    before = os.getcwd()
    yield tmp_path
    os.chdir(before)


def test_steps_are_taken_one_after_another(own_folder: Path) -> None:
    Steps([Step("mkdir", bytes(own_folder / "made"), 0o755), Step("chdir", bytes(own_folder / "made"))]).take()
    assert Path.cwd() == own_folder / "made"


def test_a_refused_step_is_named_unless_it_was_only_tried(own_folder: Path) -> None:
    missing = bytes(own_folder / "missing")
    Steps([Step("chdir", missing, about=TRIED), Step("chdir", bytes(own_folder))]).take()
    assert Path.cwd() == own_folder
    with pytest.raises(OSError, match="the second is refused"):
        Steps([Step("chdir", missing, about=TRIED), Step("chdir", missing, about="the second")]).take()


def test_no_step_is_taken_after_a_refused_one(own_folder: Path) -> None:
    refused = Step("chdir", bytes(own_folder / "missing"), about="the user namespace")
    with pytest.raises(OSError, match="the user namespace is refused"):
        Steps([refused, Step("mkdir", bytes(own_folder / "made"), 0o755)]).take()
    assert not (own_folder / "made").exists()


def test_a_rehearsal_leaves_nothing_to_a_completion() -> None:
    modules, descriptors = dict(sys.modules), os.listdir("/proc/self/fd")
    try:
        objects = rehearse()
    finally:
        gc.enable()
    assert (objects.objects, objects.shared, objects.namespace, objects.lent, objects.sent_count) == ([], {}, {}, {}, 0)
    assert (objects.channel.reading, objects.channel.writing) == (QUESTIONS, ANSWERS)
    assert (sys.modules, os.listdir("/proc/self/fd"), sys.gettrace()) == (modules, descriptors, None)


def test_if_one_file_cannot_be_opened_none_stays_open(own_folder: Path) -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(FileNotFoundError):
        open_all((str(own_folder / "made"), os.O_WRONLY | os.O_CREAT), (str(own_folder / "missing"), os.O_RDONLY))
    assert os.listdir("/proc/self/fd") == before


def test_why_a_cell_could_not_be_entered_is_told_before_and_after_its_files_have_their_numbers() -> None:
    reading, writing = os.pipe()
    number = os.open(os.devnull, os.O_WRONLY)
    write_from(writing, number, "before ")
    os.close(writing)
    write_from(writing, number, "after")
    os.close(number)
    with open(reading, "rb") as told:
        assert told.read() == b"before after"
