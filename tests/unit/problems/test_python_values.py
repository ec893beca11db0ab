"""Problems and completions that Python code makes: what is accepted, and what is said where it is not."""

from __future__ import annotations

import re
from typing import Any

import pytest

import sandrl
from sandrl.errors import InputError, UsageError
from sandrl.problems import Case, Completion, Problem, Tolerance, as_completions, as_problems
from sandrl.scoring.trainer_batch import BatchReader

ROW = {"task_id": "inc", "prompt": "Add one.", "tests": ["assert f(1) == 2"]}
INC = Problem("inc", "Add one.", tests=("assert f(1) == 2",))


def test_lists_are_as_good_as_tuples_and_dictionaries_as_cases() -> None:
    made: Any = Problem("inc", "Add one.", tests=["assert f(1) == 2"])  # type: ignore[arg-type]
    assert made == INC
    assert hash(made) == hash(INC)
    cases: Any = [{"stdin": "1", "stdout": "2"}, Case("", "3"), {"stdout": "4"}]
    assert Problem("p", "", cases=cases).cases == (Case("1", "2"), Case("", "3"), Case("", "4"))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "the problem 'p' has no check"),
        ({"tests": ["x"], "check": "exit_status"}, "has checks of several kinds (tests, check)"),
        ({"tests": "assert x"}, "field 'tests': must be a list of strings of Python code, not 'assert x'"),
        ({"tests": [1]}, "field 'tests[0]': must be a string, not 1 of the type int"),
        ({"tests": None}, "field 'tests': must be a list of strings of Python code, not None"),
        ({"cases": [("1", "2")]}, "field 'cases[0]': must be a Case or a dictionary"),
        ({"cases": [{"stdin": "1"}]}, "field 'cases[0]': must be a Case or a dictionary"),
        ({"cases": [{"stdin": 1, "stdout": "2"}]}, "field 'cases[0].stdin': must be a string, not 1 of the type int"),
        ({"check": "runs"}, "field 'check': must be 'exit_status' or None, not 'runs'"),
        ({"cases": [Case("", "")], "tolerance": 0.1}, "field 'tolerance': must be a Tolerance or None, not float"),
        ({"cases": [Case("", "")], "tolerance": Tolerance()}, "field 'tolerance': allows no difference"),
        ({"tests": ["x"], "timeout_seconds": "3"}, "field 'timeout_seconds': must be a number of seconds or None"),
        ({"tests": ["x"], "check_timeout_seconds": 0}, "field 'check_timeout_seconds': must be at least 0.01 seconds"),
        ({"tests": ["x"], "reference": b""}, "field 'reference': must be a string or None, not b'' of the type bytes"),
    ],
)
def test_a_problem_that_cannot_be_judged_is_refused_in_one_line(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as raised:
        Problem("p", "", **fields)
    assert message in raised.value.message
    assert "\n" not in raised.value.message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("c", 1), "field 'task_id': must be a string, not 1 of the type int"),
        (("c", "p", ["text"]), "field 'completion': must be a string or None, not ['text'] of the type list"),
    ],
)
def test_a_completion_of_wrong_types_is_refused(words: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError) as raised:
        Completion(*words)
    assert raised.value.message == message


def test_problems_are_accepted_in_every_shape() -> None:
    mbpp = {"task_id": 7, "text": "Add one.", "test_list": ("assert f(1) == 2",), "code": "def f(x): return x + 1"}
    assert as_problems([ROW, mbpp]).keys() == {"inc", "7"}
    assert as_problems([ROW]) == as_problems({"inc": ROW}) == as_problems(iter([INC])) == {"inc": INC}
    assert as_problems({"inc": {"prompt": "Add one.", "tests": ["assert f(1) == 2"]}}) == {"inc": INC}
    assert "add" in as_problems("toy")


@pytest.mark.parametrize(
    ("problems", "message"),
    [
        ([ROW, {"task_id": "b", "prompt": ""}], "problems[1]: the problem 'b' has no check"),
        ([{**ROW, "tests": "assert"}], "problems[0]: field 'tests': must be an array, not a string"),
        ([{"prompt": "", "tests": ["x"]}], "problems[0]: field 'task_id': is missing"),
        ([{"task_id": "m", "text": "", "test_list": [" "]}], "problems[0]: field 'test_list[0]': checks nothing"),
        ([ROW, ROW], "problems[1]: field 'task_id': 'inc' is already used by an earlier problem; it must be unique"),
        ({"inc": {**ROW, "prompt": None}}, "problems['inc']: field 'prompt': must be a string, not null"),
        (["inc"], "problems[0]: must be a dictionary, or a Problem or Completion of sandrl, not 'inc'"),
        (ROW, "problems['task_id']: must be a dictionary, or a Problem or Completion of sandrl, not 'inc'"),
        (INC, "problems must be a list of problems or of dictionaries, not of the type Problem"),
        (3, "problems must be a list of problems or of dictionaries, not of the type int"),
    ],
)
def test_what_is_no_problem_is_named_by_its_place_and_field(problems: Any, message: str) -> None:
    for take in (as_problems, sandrl.reward_function):
        with pytest.raises(UsageError) as raised:
            take(problems)
        assert raised.value.message == message


def test_completions_may_be_rows_and_get_names() -> None:
    rows: list[Any] = [
        {"task_id": "inc", "completion": "a"},
        {"task_id": "inc", "code": "b"},
        Completion("mine", "inc", completion="c"),
    ]
    made = as_completions(rows, {"inc"})
    assert [(each.id, each.completion, each.code) for each in made] == [
        ("inc#1", "a", None),
        ("inc#2", None, "b"),
        ("mine", "c", None),
    ]


@pytest.mark.parametrize(
    ("completions", "message"),
    [
        ([{"task_id": "inc"}], "completions[0]: field 'completion': no known format of completions has the fields"),
        ([{"task_id": "ink", "code": ""}], "completions[0]: field 'task_id': there is no problem 'ink'; did you mean"),
        ([Completion("c", "ink")], "completions[0]: field 'task_id': there is no problem 'ink'; did you mean 'inc'?"),
        (["text"], "completions[0]: must be a dictionary, or a Problem or Completion of sandrl, not 'text'"),
        ({"task_id": "inc"}, "completions must be a list of completions or of dictionaries, not of the type dict"),
    ],
)
def test_what_is_no_completion_is_named_by_its_place_and_field(completions: Any, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        sandrl.score(completions, [ROW])
    assert raised.value.message.startswith(message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"packages": "numpy"}, "packages must be a list of strings, not 'numpy'"),
        ({"tags": [1]}, "tags must be a list of strings, not [1]"),
        ({"limits": 10}, "limits must be a sandrl.rewards.Limits or None, not 10"),
        ({"components": {"format_reward": 1}}, "components must be a sandrl.rewards.Components, a list or None, not"),
    ],
)
def test_an_option_of_the_wrong_type_says_what_is_expected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        sandrl.reward_function([ROW], **options)


@pytest.mark.parametrize(
    ("prompts", "completions", "message"),
    [
        ("Add one.", ["text"], "prompts must be a list with an entry per completion, not of the type str"),
        (["Add one."], "text", "completions must be a list with an entry per completion, not of the type str"),
        (["Add one."], [None], "completions[0] must be a string or a list of messages, not None"),
        (["Add one."], [{"role": "user"}], "completions[0] must be a string or a list of messages, not {'role'"),
        (["Add one."], [["text"]], "completions[0] must be a string or a list of messages, not ['text']"),
    ],
)
def test_a_batch_that_is_none_says_what_is_expected(prompts: Any, completions: Any, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        BatchReader({"inc": INC}).completions(prompts, completions, None)
    assert raised.value.message.startswith(message)
