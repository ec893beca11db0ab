from __future__ import annotations

from sandrl import errors


def tree(base: type[BaseException]) -> list[type[BaseException]]:
    return [base, *(each for child in base.__subclasses__() for each in tree(child))]


def test_the_drawing_shows_every_error_with_its_exit_code() -> None:
    drawn = {}
    for line in (errors.__doc__ or "").splitlines():
        words = line.replace("├──", " ").replace("└──", " ").replace("│", " ").split()
        if words and words[0].endswith("Error"):
            drawn[words[0]] = int(words[1])
    assert drawn == {each.__name__: each.exit_code for each in tree(errors.SandrlError)}


def test_an_input_error_names_file_line_and_field() -> None:
    error = errors.InputError("is missing", path="a.jsonl", line=3, field="task_id")
    assert str(error) == "a.jsonl:3: field 'task_id': is missing"
    assert str(errors.InputError("is missing", line=3)) == "line 3: is missing"
    assert str(errors.InputError("is missing")) == "is missing"
