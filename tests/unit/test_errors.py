from __future__ import annotations

import pytest

from sandrl import errors


def tree(base: type[BaseException]) -> list[type[BaseException]]:
    return [base, *(each for child in base.__subclasses__() for each in tree(child))]


def test_the_drawing_shows_every_error_with_its_exit_code() -> None:
    drawn = {}
    for line in (errors.__doc__ or "").splitlines():
        words = line.replace("├──", " ").replace("└──", " ").replace("│", " ").split()
        if words and words[0].endswith("Error"):
            drawn[words[0]] = int(words[1])
    assert drawn == {each.__name__: getattr(each, "exit_code", None) for each in tree(errors.SandrlError)}


def test_an_input_error_names_file_line_and_field() -> None:
    error = errors.InputError("is missing", path="a.jsonl", line=3, field="task_id")
    assert str(error) == "a.jsonl:3: field 'task_id': is missing"
    assert str(errors.InputError("is missing", line=3)) == "line 3: is missing"
    assert str(errors.InputError("is missing")) == "is missing"


def test_a_wish_to_stop_comes_before_what_was_left_behind_and_says_how_to_clean_up() -> None:
    left = errors.CleanupError("2 sandboxes could not be stopped", hint="sandrl sandboxes cleanup")
    with pytest.raises(errors.InterruptedRunError, match="saved in runs/r") as caught:
        errors.raise_for_end("interrupted; saved in runs/r", signal_number=15, cleanup_error=left)
    assert (caught.value.exit_code, caught.value.hint) == (143, left.hint)
    with pytest.raises(errors.CleanupError):
        errors.raise_for_end("interrupted; saved in runs/r", signal_number=0, cleanup_error=left)


def test_work_that_ended_by_itself_and_cleanly_may_tell_its_own_outcome() -> None:
    errors.raise_for_end("interrupted; saved in runs/r", signal_number=0, cleanup_error=None)
