"""Rows of every format: how they are recognised, what they become, and what is refused instead of being misjudged."""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.format_rows import ROWS

from sandrl.answers.requirements import required_function
from sandrl.errors import InputError
from sandrl.jsonl import Row
from sandrl.problems import Call, Case, Problem, Tolerance, as_problems, load_problems
from sandrl.problems.formats import FORMATS, ParsedProblem, own_row, parse_problem
from sandrl.problems.formats.texts import MAX_UNPACKED_BYTES, unpacked
from sandrl.problems.languages import find_language
from sandrl.problems.preludes import STANDARD
from sandrl.problems.prompts import render_prompt

SAMPLES = Path(__file__).parents[4] / "shared" / "data" / "samples"
ECHO = (Case("1\n", "1\n"), Case("2\n", "2\n"))
DOUBLE = ("assert double(1) == 2", "assert double(2) == 4")
DOUBLED = [([1], 2), ([2], 4)]
CALLS = tuple(Call.of(*values) for values in DOUBLED)


def parsed(row: dict[str, Any]) -> ParsedProblem:
    return parse_problem(Row(7, row), "p.jsonl", "p")


def refusal(row: dict[str, Any]) -> str:
    with pytest.raises(InputError) as caught:
        parsed(row)
    assert caught.value.message.startswith("p.jsonl:7: ")
    assert "\n" not in caught.value.message
    return caught.value.message


def packed(value: object) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


def test_there_is_a_row_of_every_format_and_each_is_recognised_as_what_it_is() -> None:
    assert {name for name, _ in ROWS} == {each.name for each in FORMATS if each.is_python}
    for name, row in ROWS:
        found = parsed(row)
        assert (found.format.name, bool(found.recognised_by)) == (name, True)
        # No other format takes the row for its own, whatever the order of the table.
        takers = {each.name for each in FORMATS if each.recognises(row)}
        assert takers == {name} or (takers - {name}) <= {"HumanEval", "sandrl's own"}, (name, takers)


WITH_FILES = ("HumanEval", "HumanEvalPack", "LeetCodeDataset", "BigCodeBench", "KodCode", "SandboxFusion")
"""Formats whose tests are one text."""


@pytest.mark.parametrize(("name", "row"), ROWS)
def test_a_row_becomes_the_checks_that_it_has(name: str, row: dict[str, Any]) -> None:
    problem = parsed(row).problem
    if problem.cases:
        assert problem.cases == ECHO
    elif problem.calls:
        assert problem.fn == "double"
        assert [call.values for call in problem.calls] == [
            (arguments, None if problem.asks_reference else expected) for arguments, expected in DOUBLED
        ]
    elif name == "MBPP" and "test" in row:
        assert problem.tests[:1] == DOUBLE[:1]
        assert "assertion(double(*inp), exp, 0)" in problem.tests[1]
    elif name not in WITH_FILES:
        assert problem.tests == DOUBLE
    assert problem.prompt.strip() != ""
    assert problem.task_id in ("p/7", "row-1", "1", "Python/1")


def test_live_code_bench_has_its_graders_prelude_and_comparison() -> None:
    row = dict(next(row for name, row in ROWS if name == "LiveCodeBench"))
    problem = parsed(row).problem
    assert (problem.prelude, problem.tolerance) == (STANDARD, Tolerance(absolute=1e-12))
    functional = [{"input": "1", "output": "2", "testtype": "functional"}]
    row |= {
        "public_test_cases": json.dumps(functional),
        "private_test_cases": packed(json.dumps([{"input": "2", "output": "4", "testtype": "functional"}])),
        "metadata": json.dumps({"func_name": "double"}),
        "starter_code": "class Solution:\n    def double(self, n: int) -> int:\n        ",
    }
    problem = parsed(row).problem
    assert (problem.fn, problem.calls, problem.tolerance) == ("Solution.double", CALLS, None)
    assert problem.starter_code == row["starter_code"]


@pytest.mark.parametrize(
    ("inputs", "outputs", "calls"),
    [
        ([[{"1": "x"}, 2]], [{"2": {"-3": 1}}], [([{1: "x"}, 2], {2: {-3: 1}})]),
        ([[{"1": "x"}], [{"a": "x"}]], [[{"1": 2}], [{"0": 3}]], [([{"1": "x"}], {1: 2}), ([{"a": "x"}], {0: 3})]),
        ([[1]], [{"01": 2}], [([1], {"01": 2})]),
        ([[float("-inf")]], [float("inf")], [([float("-inf")], float("inf"))]),
    ],
)
def test_integer_keys_and_infinite_numbers_of_apps_are_what_its_graders_take_them_for(
    inputs: list[Any], outputs: list[Any], calls: list[tuple[list[Any], Any]]
) -> None:
    tests: dict[str, Any] = {"fn_name": "f", "inputs": inputs, "outputs": outputs}
    for field in (tests, json.dumps(tests)):
        problem = parsed({"problem_id": 1, "question": "?", "input_output": field}).problem
        assert problem.calls == tuple(Call.of(*call) for call in calls)


def test_keys_of_other_sets_stay_texts() -> None:
    tests = [{"input": '{"1": 2}', "output": '{"1": 2}', "testtype": "functional"}]
    row = {"question_content": "?", "public_test_cases": tests, "metadata": {"func_name": "f"}}
    assert parsed(row).problem.calls == (Call.of([{"1": 2}], {"1": 2}),)


@pytest.mark.parametrize(
    ("inputs", "outputs", "calls"),
    [
        (["abc", "12"], ["ABC", "12"], [(["abc"], "ABC"), (["12"], "12")]),
        (["(())", "()"], ["true", "True"], [(["(())"], True), (["()"], True)]),
        (["a b\n3", '"c"\n4'], [3, 4], [(["a b", 3], 3), (["c", 4], 4)]),
        (["one\ntwo", "three"], ["2", "1"], [(["one\ntwo"], 2), (["three"], 1)]),
        (["True\n'x'", "None\n'y'"], ["None", "(1, 2)"], [([True, "x"], None), ([None, "y"], (1, 2))]),
    ],
)
def test_arguments_and_results_may_be_texts_without_quotes(
    inputs: list[Any], outputs: list[Any], calls: list[tuple[list[Any], Any]]
) -> None:
    truth = json.dumps({"fn_name": "f", "inputs": inputs, "outputs": outputs})
    problem = parsed({"prompt": "?", "reward_model": {"ground_truth": truth}}).problem
    assert problem.calls == tuple(Call.of(*call) for call in calls)


@pytest.mark.parametrize("name", ["none", "None", "null", " ", None])
def test_a_function_that_is_called_none_is_no_function(name: str | None) -> None:
    row = {"name": "x", "problem": "?", "tests": {"input": ["3\n"], "output": [True], "fn_name": name}}
    assert parsed(row).problem.cases == (Case("3\n", "True"),)


def test_asserts_of_verl_may_stand_beside_inputs_that_say_nothing() -> None:
    truth: dict[str, Any] = {
        "fn_name": "f",
        "inputs": ["", ""],
        "outputs": [None, ""],
        "assert_case": ["", "assert f(1) == 2"],
    }
    row = {"prompt": "?", "reward_model": {"ground_truth": json.dumps(truth)}}
    problem = parsed(row).problem
    assert (problem.tests, problem.entry_point) == (("assert f(1) == 2",), "f")
    truth["inputs"] = ["1", ""]
    said = refusal({**row, "reward_model": {"ground_truth": json.dumps(truth)}})
    assert "has tests of several kinds (assert_case, inputs), and only one is allowed" in said


def test_a_row_without_tests_says_how_to_leave_it_out() -> None:
    empty: tuple[Any, ...] = ("", " ", "[]", {"inputs": [], "outputs": []})
    for tests in empty:
        with pytest.raises(InputError, match="field 'input_output': has no tests") as caught:
            parsed({"question": "?", "input_output": tests})
        assert "skip_bad_rows" in (caught.value.hint or "")


def test_a_row_that_lacks_a_field_of_its_format_names_the_format_and_the_fields_to_assign() -> None:
    with pytest.raises(InputError) as caught:
        parsed({"id": 1, "problem": "?", "test_list": ["assert f() == 1"]})
    assert str(caught.value).endswith("field 'text': is missing; the row is taken for MBPP by `test_list`")
    assert "prompt=problem,tests=test_list" in (caught.value.hint or "")


def test_a_prompt_of_helpers_alone_is_kept_as_the_setup() -> None:
    for name in ("HumanEval", "LeetCodeDataset"):
        row = next(row for kind, row in reversed(ROWS) if kind == name)
        assert parsed(row).problem.setup == row["prompt"].strip()
    words = {**row, "prompt": "Double.", "query": None, "problem_description": None}
    assert parsed(words).problem.setup == ""


@pytest.mark.parametrize(
    ("task_id", "language"), [("Python/1", "python"), ("CPP/1", "cpp"), ("JavaScript/1", "javascript")]
)
def test_a_row_of_humanevalpack_is_in_the_language_of_its_name(task_id: str, language: str) -> None:
    row = next(row for name, row in ROWS if name == "HumanEvalPack")
    assert parsed({**row, "task_id": task_id}).problem.language == language
    assert "is rust, whose tests need cargo and crates" in refusal({**row, "task_id": "Rust/1"})


@pytest.mark.parametrize(
    "row",
    [
        {"problem": "?", "tests": list(DOUBLE)},
        {"problem": "?", "tests": json.dumps(DOUBLE)},
        {"prompt": "?", "ground_truth": list(DOUBLE)},
        {"prompt": [{"role": "user", "content": "?"}], "ground_truth": json.dumps(DOUBLE)},
        {"messages": [{"role": "user", "content": "?"}], "ground_truth": [json.dumps(DOUBLE)]},
        {"text": "?", "test_list": json.dumps(DOUBLE), "challenge_test_list": "[]"},
        {"prompt": "?", "tests": list(DOUBLE), "ground_truth": "42"},
        {"question": "?", "test_cases": list(DOUBLE)},
    ],
)
def test_asserts_are_read_wherever_sets_have_them(row: dict[str, Any]) -> None:
    problem = parsed({"id": "a", **row}).problem
    assert (problem.prompt, problem.tests) == ("?", DOUBLE)


def test_a_test_of_humaneval_without_a_function_check_is_run_as_it_is() -> None:
    row = {"task_id": "a", "prompt": "def double(n):\n", "entry_point": "double", "test": DOUBLE[0]}
    assert parsed(row).problem.tests == DOUBLE[:1]
    called = "def check(candidate):\n    assert candidate(1) == 2\n\ncheck(double)\n"
    assert parsed({**row, "test": called}).problem.tests == (called.rstrip(),)


@pytest.mark.parametrize("name", ["BigCodeBench", "SandboxFusion"])
def test_a_helper_of_a_file_of_unittest_that_is_called_check_is_not_called_for_it(name: str) -> None:
    row = dict(next(row for kind, row in ROWS if kind == "BigCodeBench"))
    row["test"] = f"def check(first, second):\n    assert first == second\n\n{row['test']}\n"
    if name == "SandboxFusion":
        labels = {"entry_point": row["entry_point"]}
        row = {"id": 1, "content": row["complete_prompt"], "test": row["test"], "labels": labels}
    found = parsed(row)
    assert (found.format.name, any("check(double)" in test for test in found.problem.tests)) == (name, False)
    assert "numpy" in parsed({**row, "prelude": "import numpy"}).problem.packages


def test_sets_name_the_packages_of_their_own_tests() -> None:
    imports = "import json\nimport numpy.linalg as np\nfrom pandas import DataFrame"
    for name in ("MBPP", "HumanEval", "LeetCodeDataset", "BigCodeBench"):
        row = dict(next(row for kind, row in reversed(ROWS) if kind == name))
        row |= {"test_imports": [imports]} if name == "MBPP" else {"test": f"{imports}\n{row['test']}"}
        assert parsed(row).problem.packages == ("numpy", "pandas")


def test_rows_of_python_may_have_values_as_pandas_gives_them() -> None:
    class Array(list[Any]):
        def tolist(self) -> list[Any]:
            return list(self)

    Array.__module__ = "numpy"
    row = {"task_id": 1.0, "text": "?", "test_list": Array(["assert f() == 1"]), "code": float("nan")}
    [problem] = as_problems([row]).values()
    assert (problem.task_id, problem.tests, problem.reference) == ("1", ("assert f() == 1",), None)


def test_numbers_are_compared_within_a_tolerance_where_some_expected_one_is_a_fraction() -> None:
    row: dict[str, Any] = {"question": "?", "input_output": {"inputs": ["1"], "outputs": ["0011"]}}
    assert parsed(row).problem.tolerance is None
    row["input_output"] = {"inputs": ["1", "2"], "outputs": ["1", "0.5"]}
    assert parsed(row).problem.tolerance == Tolerance(absolute=1e-6)


@pytest.mark.parametrize(
    ("outputs", "is_padded"),
    [
        (["1", "     1842\n"], True),
        (["\n\t1842\n\n"], True),
        (["1842", "\n1"], False),
        (["  *\n ***\n*****"], False),
        (["  "], False),
    ],
)
def test_words_are_compared_where_an_output_is_one_line_padded_with_blanks(outputs: list[str], is_padded: bool) -> None:
    row = {"question": "?", "input_output": {"inputs": ["1"] * len(outputs), "outputs": outputs}}
    assert parsed(row).problem.tolerance == (Tolerance(words=True) if is_padded else None)


def test_outputs_of_code_contests_are_compared_by_words_wherever_the_lines_end() -> None:
    row: dict[str, Any] = {"name": "a", "description": "?", "public_tests": {"input": ["1"], "output": ["1 2\n"]}}
    assert parsed(row).problem.tolerance == Tolerance(words=True)
    row["private_tests"] = {"input": ["1"], "output": ["0.5\n"]}
    assert parsed(row).problem.tolerance == Tolerance(absolute=1e-6, words=True)
    row = {"id": 1, "content": "?", "test": [{"input": {"stdin": "1"}, "output": {"stdout": "1 2"}}]}
    assert parsed(row).problem.tolerance == Tolerance(words=True)


@pytest.mark.parametrize(
    ("starter", "has_names"),
    [
        ("class Solution:\n    def f(self, n):\n        ", True),
        ("def f(numbers: List[int]):\n    ", True),
        ("def f(numbers: list[int]):\n    ", False),
        ("def f(n):\n    ", False),
    ],
)
def test_calls_in_the_form_of_leetcode_get_the_names_that_its_judge_provides(starter: str, has_names: bool) -> None:
    tests = {"fn_name": "f", "inputs": [[1]], "outputs": [2]}
    rows: list[dict[str, Any]] = [
        {"question": "?", "starter_code": starter, "input_output": tests},
        {"problem": "?", "starter_code": starter, "tests": tests},
        {"prompt": starter, "reward_model": {"ground_truth": tests}},
        {"prompt": starter, "verification_info": {"test_cases": [{"fn_name": "f", "input": [1], "output": 2}]}},
    ]
    for row in rows:
        assert parsed(row).problem.prelude == (STANDARD if has_names else "")
    # Programs import for themselves, and a row's own prelude counts.
    assert parsed({**rows[0], "input_output": {"inputs": ["1"], "outputs": ["2"]}}).problem.prelude == ""
    assert parsed({**rows[0], "prelude": "import math\n"}).problem.prelude == "import math\n"


def test_a_program_s_input_may_be_an_array_of_lines() -> None:
    row = {"question": "?", "input_output": {"inputs": [["1", "2"]], "outputs": [["3"]]}}
    assert parsed(row).problem.cases == (Case("1\n2", "3"),)


def test_imports_of_the_answer_s_module_are_taken_out_of_kodcode_s_tests() -> None:
    test = (
        "import math\nfrom solution import (\n    double,\n    half as h,\n)\n\n"
        "def test_double():\n    from solution import double\n    assert double(2) == 4\n"
        "    assert h(4) == math.sqrt(4)\n"
    )
    row = {"question_id": "k", "question": "Double.", "solution": "def double(n): return 2 * n", "test": test}
    [check] = parsed(row).problem.tests
    assert "solution" not in check
    assert "h = half" in check
    exec(check, {"double": lambda n: 2 * n, "half": lambda n: n / 2})
    with pytest.raises(AssertionError):
        exec(check, {"double": lambda n: n, "half": lambda n: n / 2})
    assert "imports the module of the answer itself" in refusal({**row, "test": "import solution\nassert solution.f()"})


def test_a_program_of_code_contests_may_read_and_write_files() -> None:
    row = dict(next(row for name, row in ROWS if name == "CodeContests"))
    problem = parsed({**row, "input_file": "in.txt", "output_file": "out.txt"}).problem
    assert (problem.input_file, problem.output_file) == ("in.txt", "out.txt")
    assert problem.prompt.endswith("\n\nRead the input from the file in.txt. Write the output to the file out.txt.")
    told = parsed({**row, "description": "Use in.txt.", "input_file": "in.txt", "output_file": ""}).problem
    assert (told.prompt, told.input_file, told.output_file) == ("Use in.txt.", "in.txt", None)
    assert "input_file" in refusal({**row, "input_file": "../in.txt"})


PROGRAMS = [(name, row) for name, row in ROWS if parsed(dict(row)).problem.kind == "cases"]


def asked(row: Mapping[str, Any], name: str = "cpp") -> Problem:
    return parse_problem(Row(7, dict(row)), "p.jsonl", "p", language=name).problem


@pytest.mark.parametrize(("name", "row"), PROGRAMS)
def test_programs_are_in_the_language_that_is_asked_for(name: str, row: dict[str, Any]) -> None:
    names_python = parsed(row).format.inner_language(row) is not None
    if names_python:
        with pytest.raises(InputError, match="is python, and `language` is cpp"):
            asked(row)
        return
    before, problem = parsed(row).problem, asked(row)
    assert (problem.language, problem.prelude, problem.starter_code) == ("cpp", "", "")
    assert problem.reference == ("int main() {}" if name == "CodeContests" else None), "it is no Python"
    assert (problem.cases, problem.prompt) == (before.cases, before.prompt)
    assert problem.check_content != before.check_content
    assert asked(row, "python") == before


@pytest.mark.parametrize(("name", "row"), [each for each in ROWS if each not in PROGRAMS])
def test_a_row_whose_checks_are_python_is_none_of_another_language(name: str, row: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        asked(row)
    assert caught.value.message.startswith("p.jsonl:7: ")
    assert "`language` is cpp" in caught.value.message
    assert asked(row, "python") == parsed(row).problem


def test_a_row_that_names_a_language_keeps_it_or_is_refused() -> None:
    row = {"task_id": "e", "prompt": "Echo.", "cases": [{"stdin": "1", "stdout": "1"}]}
    with pytest.raises(InputError, match="field 'lang': is rust, and `language` is cpp"):
        asked({**row, "lang": "rust"})
    assert asked({**row, "language": "c++"}).language == "cpp"
    assert asked({**row, "language": "en"}).language == "cpp"
    multipl_e = {"name": "m", "prompt": "int f() {", "tests": "}\nint main() { }", "stop_tokens": [], "language": "cpp"}
    assert asked(multipl_e) == parsed(multipl_e).problem
    with pytest.raises(InputError, match="field 'language': is cpp, and `language` is go"):
        asked(multipl_e, "go")


def test_messages_are_a_prompt_without_what_the_system_says() -> None:
    messages = [
        {"role": "system", "content": "Think."},
        {"role": "user", "content": [{"type": "text", "text": "Double it."}]},
    ]
    row: dict[str, Any] = {"prompt": messages, "tests": ["assert double(1) == 2"]}
    assert parsed(row).problem.prompt == "Double it."
    assert "of the role 'assistant'" in refusal({**row, "prompt": [*messages, {"role": "assistant", "content": "?"}]})
    assert "field 'prompt': has no message of a user" in refusal({**row, "prompt": messages[:1]})


# names


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({"task_id": "t", "id": "i"}, "t"),
        ({"task_id": None, "id": 3, "question_id": "q"}, "3"),
        ({"question_id": "q", "problem_id": "p"}, "q"),
        ({"problem_id": 5, "name": "n"}, "5"),
        ({"name": "n"}, "n"),
        ({}, "p/7"),
    ],
)
def test_a_row_is_named_by_the_first_id_there_is_or_by_set_and_position(names: dict[str, Any], expected: str) -> None:
    assert parsed({"prompt": "", "tests": ["assert f() == 1"], **names}).problem.task_id == expected


def test_rows_without_an_id_are_numbered_by_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "train.v2.jsonl"
    row = json.dumps({"question": "Echo.", "input_output": {"inputs": ["1"], "outputs": ["1"]}})
    path.write_text(f"{row}\n\n{row}\n")
    assert list(load_problems(path).problems) == ["train/1", "train/3"]


# what is refused


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"query": "?", "tests": ["assert f()"]}, "the nearest is sandrl's own, which also needs `prompt`"),
        ({"question": "?", "inputs": []}, "the nearest is APPS/TACO, which also needs `input_output`"),
        ({"question_content": "?"}, "LiveCodeBench, which also needs `public_test_cases` or `private_test_cases`"),
        ({"prompt": "?", "test": "def check(f): pass"}, "the nearest is HumanEval, which also needs `entry_point`"),
        ({}, "the row has no fields"),
    ],
)
def test_an_unknown_row_names_its_fields_and_the_nearest_format(row: dict[str, Any], message: str) -> None:
    said = refusal(row)
    assert message in said
    assert all(f"`{name}`" in said for name in row)


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({"task_id": 1, "prompt": "", "test_list": ["assert f() == 1"], "tests": "assert f() == 2"}, "tests"),
        (
            {"task_id": 1, "prompt": "", "tests": ["assert f() == 1"], "hidden_tests": ["assert f() == 2"]},
            "hidden_tests",
        ),
        ({"task_id": 1, "prompt": "", "tests": ["assert f() == 1"], "test_cases": [[1, 2]]}, "test_cases"),
        ({"question": "", "input_output": {"inputs": ["1"], "outputs": ["1"]}, "unit_tests": "x"}, "unit_tests"),
        ({"question": "", "input_output": {"inputs": ["1"], "outputs": ["1"]}, "checker": "x"}, "checker"),
    ],
)
def test_a_field_that_looks_like_tests_and_is_not_used_is_an_error(row: dict[str, Any], field: str) -> None:
    assert f"field {field!r}: looks like tests" in refusal(row)
    assert parsed({**row, field: None}).problem.check_count == 1
    assert parsed({**row, field: []}).problem.check_count == 1


def test_fields_that_say_how_tests_are_run_are_left_alone() -> None:
    row = {"prompt": "", "tests": ["assert f() == 1"], "test_type": "x", "latest": "x", "contest": "x", "num_tests": 1}
    assert parsed({**row, "contest_date": "2024-01-01", "fastest": "x"}).problem.check_count == 1
    assert parsed(
        {"task_id": 1, "text": "", "test_list": ["assert f() == 1"], "challenge_test_list": ["x"]}
    ).problem.tests


MULTIPL_E = {"name": "x", "language": "lua", "prompt": "", "tests": "f()", "stop_tokens": []}


def apps(**columns: Any) -> dict[str, Any]:
    return {"question": "", "input_output": {"inputs": ["1"], "outputs": ["1"]} | columns}


def deepcoder(*more: dict[str, Any]) -> dict[str, Any]:
    return {"problem": "", "tests": [{"input": "1", "output": "1"}, *more]}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**MULTIPL_E, "tests": "}\n"}, "field 'tests': checks nothing"),
        ({**MULTIPL_E, "language": "swift"}, "field 'language': is 'swift', which is not a supported language"),
        ({**MULTIPL_E, "stop_tokens": "x"}, "field 'stop_tokens': must"),
        ({"id": "1/A", "description": "Do.", "official_tests": []}, "field 'official_tests': has no tests"),
        (
            {"prompt": "", "tests": ["assert f() == 1"], "language": "Haskell"},
            "field 'language': is 'Haskell', which is not a supported language (python, cpp, c, javascript,",
        ),
        ({"prompt": "", "tests": ["t"], "lang": "Java", "language": "c"}, "field 'lang': is java, and `language` is c"),
        ({"prompt": "", "cases": [{"stdout": "1"}], "language": 5}, "field 'language': must be the name of a language"),
        (
            {"text": "", "test_list": ["assert f() == 1"], "programming_language": "go"},
            "field 'programming_language': is go, but the checks of this row can be judged in Python only",
        ),
        (
            {"task_id": "a", "prompt": "def f():\n", "entry_point": "f", "test": "def test_a():\n    f()\n"},
            "field 'test': no test function asserts anything",
        ),
        (
            dict.fromkeys(("prompt", "declaration", "canonical_solution"), "")
            | {"task_id": "CPP/0", "entry_point": "f", "test": " "},
            "field 'test': is empty, so it checks nothing",
        ),
        *(
            ({"name": "x", **row, field: {"input": [], "output": []}}, f"field '{field}': has no tests")
            for field, row in (
                ("private_test_cases", {"question_content": "", "public_test_cases": [{"input": "1", "output": "1"}]}),
                ("generated_tests", {"description": "", "official_tests": [{"input": "1", "output": "1"}]}),
            )
        ),
        (
            {"description": "", "public_tests": {"input": ["1"], "output": ["1"]}, "private_tests": ""},
            "field 'private_tests': must be JSON text",
        ),
        ({**apps(fn_name="f"), "lang": "js"}, "field 'lang': is javascript, but the checks of this row can be"),
        ({"prompt": "", "verification_info": {"language": "scala", "test_cases": []}}, "_info.language': is 'scala'"),
        ({**apps(), "language": "c", "prelude": "x = 1"}, "field 'prelude': is Python code, but the problem is in c"),
        ({"content": "", "test": '{"code": "#<INSERT>", "asset": {}}'}, "aider's exercises"),
        ({"prompt": "", "reward_model": {"ground_truth": "x = 4"}}, "only problems of code are supported"),
        ({"question": "", "input_output": "{"}, "field 'input_output': must be JSON text"),
        ({"question": "", "input_output": '{"inputs": []}'}, "field 'input_output.outputs': is missing"),
        (apps(outputs=[]), "has 1 inputs and 0 outputs"),
        (apps(inputs=[{}]), "field 'input_output.inputs[0]': must be a string, not an object"),
        (deepcoder({"input": "1"}), "field 'tests[1].output': is missing"),
        (deepcoder({"input": "1", "output": "1", "type": "sql"}), "of an unknown kind: 'sql'"),
        (
            deepcoder({"input": "1", "output": "1", "testtype": "functional"}),
            "field 'tests[1]': calls a function, but the",
        ),
        (deepcoder({"input": "1", "output": "1", "fn_name": "f"}), "has tests of several kinds (f, stdin)"),
        (deepcoder({"input": "1", "output": "1", "fn_name": "f(); g"}), "must be the name of a"),
        (deepcoder({"input": {"stdin": "1", "files": {"a": "b"}}, "output": "1"}), "has files in addition to"),
    ],
)
def test_what_would_be_misjudged_is_refused_with_its_field_and_the_reason(row: dict[str, Any], message: str) -> None:
    assert message in refusal(row)


@pytest.mark.parametrize("language", ["python", "Python3", "python 3.11", "py", "en", "", None])
def test_python_and_natural_languages_are_no_other_language(language: str | None) -> None:
    assert parsed({"prompt": "", "tests": ["assert f() == 1"], "language": language}).problem.check_count == 1


_PROGRAM = {"inputs": ["1\n"], "outputs": ["1\n"]}


@pytest.mark.parametrize(
    ("row", "language"),
    [
        ({"prompt": "", "cases": [{"stdout": "1"}], "language": "C++"}, "cpp"),
        ({"prompt": "", "tests": ["int main() {}"], "programming_language": "cpp"}, "cpp"),
        ({"prompt": "", "tests": ["fn main() {}"], "lang": "rs", "language": "en"}, "rust"),
        ({"question": "", "input_output": _PROGRAM, "execution_language": "nodejs"}, "javascript"),
        ({"description": "", "public_tests": {"input": ["1"], "output": ["1"]}, "language": "java"}, "java"),
        ({"question_content": "", "public_test_cases": [{"input": "1", "output": "1"}], "lang": "Go"}, "go"),
        ({"problem": "", "tests": _PROGRAM, "language": "perl"}, "perl"),
        ({"prompt": "", "verification_info": {"language": "ts", "test_cases": _PROGRAM}}, "typescript"),
        ({"content": "", "test": json.dumps(_PROGRAM), "labels": {"programming_language": "R"}}, "r"),
        ({"prompt": "", "reward_model": {"ground_truth": _PROGRAM}, "language": "pypy3"}, "python"),
    ],
)
def test_a_program_is_judged_in_the_language_that_its_row_names(row: dict[str, Any], language: str) -> None:
    problem = parsed(row).problem
    assert problem.language == language
    assert problem.prelude == ""  # which is Python code
    assert parsed(own_row(problem)).problem == problem


@pytest.mark.parametrize(
    "language", ["cpp", "go_test.go", "java", "js", "rs", "ts", "rb", "php", "pl", "lua", "r", "sh"]
)
def test_a_row_of_multipl_e_is_a_program_with_tests_in_its_language(language: str) -> None:
    row = {"name": "HumanEval_0_f", "language": language, "prompt": "f(", "tests": "}\nf();", "stop_tokens": ["\n}"]}
    found = parsed(row)
    assert (found.format.name, found.problem.task_id, found.problem.tests) == (
        "MultiPL-E",
        "HumanEval_0_f",
        ("}\nf();",),
    )
    assert find_language(language) == find_language(found.problem.language)
    assert parsed(own_row(found.problem)).problem == found.problem


@pytest.mark.parametrize("language", ["cpp", "go", "java", "js", "rs"])
def test_published_rows_of_multipl_e_begin_a_function_that_their_tests_call(language: str) -> None:
    path = SAMPLES / "multipl-e" / f"humaneval-{language}.jsonl"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    problems = load_problems(path).problems
    assert len(problems) > 150
    for problem in problems.values():
        name = required_function(problem)
        assert name is not None
        assert f"{name}" in problem.tests[0]
        assert render_prompt(problem).text == problem.prompt.strip("\n")


# packed tests


class _Hostile:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_hostile_pickle_runs_nothing(tmp_path: Path, protocol: int) -> None:
    witness = tmp_path / "ran"
    data = pickle.dumps(_Hostile(witness), protocol)
    pickle.loads(data)
    assert witness.exists(), "the pickle is hostile indeed"
    witness.unlink()
    text = base64.b64encode(zlib.compress(data)).decode()
    row = {"question_content": "?", "private_test_cases": text}
    assert "field 'private_test_cases': is packed, but holds no string: the pickle has the opcode" in refusal(row)
    assert not witness.exists()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_of_a_string_is_read_in_every_protocol(protocol: int) -> None:
    def text(value: object) -> str:
        return base64.b64encode(zlib.compress(pickle.dumps(value, protocol))).decode()

    assert unpacked(text('["é"]'), "f") == ["é"]
    assert unpacked(text({"input_output": "[1]"}), "f") == [1]


@pytest.mark.parametrize("value", [b"[]", 1, None, ["[]"], {"a": "[]"}, {"input_output": {"a": "b"}}, ("[]",)])
def test_a_pickle_of_anything_else_is_refused(value: object) -> None:
    with pytest.raises(InputError, match="holds no string"):
        unpacked(packed(value), "f")


def test_packed_tests_that_unpack_to_too_much_are_refused_before_they_do() -> None:
    bomb = base64.b64encode(zlib.compress(b"\0" * (MAX_UNPACKED_BYTES + 1), 9)).decode()
    with pytest.raises(InputError, match="unpacks to more than 128 MiB"):
        unpacked(bomb, "f")


def test_packed_tests_that_are_cut_off_or_damaged_are_refused() -> None:
    text = packed('[{"input": "1", "output": "2"}]')
    whole = base64.b64decode(text)
    for size in range(len(whole)):
        with pytest.raises(InputError):
            unpacked(base64.b64encode(whole[:size]).decode(), "f")


def test_json_text_that_is_nested_too_deeply_is_refused() -> None:
    assert "nested too deeply" in refusal({"question": "", "input_output": "[" * 100_000})


@pytest.mark.skipif(not SAMPLES.exists(), reason="the samples are not beside the project")
@pytest.mark.parametrize(
    ("file", "count", "kinds"),
    [
        ("bigcodebench", 20, {"tests"}),
        ("code_contests", 20, {"cases"}),
        ("live_code_bench_v1", 3, {"cases", "calls"}),
    ],
)
def test_rows_as_they_are_published_load(file: str, count: int, kinds: set[str]) -> None:
    problems: Mapping[str, Problem] = load_problems(SAMPLES / f"{file}.jsonl").problems
    assert len(problems) == count
    assert {problem.kind for problem in problems.values()} == kinds


CODEFORCES = {
    "id": "4/A",
    "title": "Watermelon",
    "description": "Divide it.",
    "input_format": "An integer.",
    "output_format": "YES or NO.",
    "note": "It is fun.",
    "examples": [{"input": "8\r\n", "output": "YES\r\n"}],
    "official_tests": [{"input": "8\r\n", "output": "YES\r\n"}, {"input": "5\n", "output": "NO\n"}],
    "time_limit": 1.0,
    "memory_limit": 64.0,
    "input_mode": "stdio",
    "generated_checker": None,
    "executable": True,
    "testset_size": 2,
    "generated_tests": 7,
}


def test_a_row_of_codeforces_has_its_limits_and_its_description() -> None:
    problem = parsed(CODEFORCES).problem
    assert problem.task_id == "4/A"
    assert problem.cases == (Case("8\n", "YES\n"), Case("5\n", "NO\n"))
    assert (problem.check_timeout_seconds, problem.memory_bytes) == (4.0, 64 << 20)
    assert (problem.checker, problem.input_file, problem.output_file) == (None, None, None)
    more = [{"input": "2\n", "output": "NO\n", "test_case_i": 1}]
    assert parsed({**CODEFORCES, "generated_tests": more}).problem.check_count == 3
    assert problem.prompt == (
        "Watermelon\n\nDivide it.\n\nInput\nAn integer.\n\nOutput\nYES or NO.\n\n"
        "Example 1, input\n8\n\nExample 1, output\nYES\n\nNote\nIt is fun."
    )


def test_a_row_of_codeforces_may_have_a_checker_and_files() -> None:
    checker = "import sys\nprint(1 if open(sys.argv[3]).read() else 0)"
    problem = parsed({**CODEFORCES, "generated_checker": checker, "input_mode": "file"}).problem
    assert problem.checker is not None
    assert problem.checker.is_program
    assert (problem.input_file, problem.output_file) == ("input.txt", "output.txt")
    assert "write the output to the file output.txt" in problem.prompt
    fractions = {**CODEFORCES, "official_tests": [{"input": "1", "output": "0.5"}]}
    assert parsed(fractions).problem.tolerance == Tolerance(absolute=1e-6, words=True)
    assert parsed({**fractions, "generated_checker": checker}).problem.tolerance is None


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"interaction_format": "Ask."},
            "field 'interaction_format': its program exchanges messages with another program",
        ),
        ({"executable": False}, "field 'executable': the row is marked as having too few tests"),
        ({"input_mode": "socket"}, "field 'input_mode': is 'socket', neither 'stdio' nor 'file'"),
        ({"generated_checker": "#include <testlib.h>"}, "field 'generated_checker': is not Python: checkers in C++"),
        ({"generated_checker": "int main() {}"}, "field 'generated_checker': is not valid Python"),
        ({"description": None}, "field 'description': is missing"),
        ({"time_limit": -1.0}, "field 'time_limit': must be a number of seconds"),
        ({"memory_limit": -1}, "field 'memory_limit': must be a number above 0"),
        ({"examples": [1]}, "field 'examples[0].input': must be a string"),
        ({"official_tests": [{"input": "1"}]}, "field 'official_tests[0].output': is missing"),
        ({"official_tests": {"inputs": [[1]], "outputs": [1], "fn_name": "f"}}, "tests that are not runs of a program"),
    ],
)
def test_a_row_of_codeforces_that_cannot_be_judged_is_refused_with_its_field(
    more: dict[str, Any], message: str
) -> None:
    assert message in refusal({**CODEFORCES, **more})


@pytest.mark.parametrize(
    ("annotation", "outputs", "expected"),
    [
        ("", [[[0, 1]], [[2, 3]]], [[0, 1], [2, 3]]),
        ("", [[1], [2]], [1, 2]),
        (" -> int", [[1], [2]], [1, 2]),
        (" -> List[int]", [[1], [2]], [[1], [2]]),
        (" -> List[int]", [[[1]], [[2, 3]]], [[1], [2, 3]]),
        (" -> 'List[List[int]]'", [[[1]], [[2, 3]]], [[[1]], [[2, 3]]]),
        (" -> list[list[int]]", [[[[1]]], [[[]]]], [[[1]], [[]]]),
        ("", [[1], [2, 3]], [[1], [2, 3]]),
    ],
)
def test_outputs_in_lists_of_their_own_are_taken_out_unless_the_function_returns_lists(
    annotation: str, outputs: list[Any], expected: list[Any]
) -> None:
    starter = f"class Solution:\n    def f(self, n: int){annotation}:\n        "
    columns = {"fn_name": "f", "inputs": [[1], [2]], "outputs": outputs}
    apps = parsed({"id": "a", "question": "Q.", "input_output": columns, "starter_code": starter}).problem
    tests = [
        {"type": "function_call", "fn_name": "f", "input": [1 + n], "output": each} for n, each in enumerate(outputs)
    ]
    deepcoder = parsed({"id": "d", "problem": "Q.", "tests": json.dumps(tests), "starter_code": starter}).problem
    assert [call.values[1] for call in apps.calls] == [call.values[1] for call in deepcoder.calls] == expected


def test_a_ground_truth_that_is_code_names_its_field_where_it_is_wrong() -> None:
    def error(tests: Any) -> str:
        return refusal({"id": "v", "prompt": "P.", "reward_model": {"ground_truth": json.dumps(tests)}})

    nothing = "def test_a():\n    f(1)"
    assert "reward_model.ground_truth.functional': no test function asserts" in error({"functional": nothing})
    assert "reward_model.ground_truth[1]': compares values but asserts nothing" in error(
        ["assert f(1) == 2", "f(2) == 3"]
    )
    assert "reward_model.ground_truth.assert_case': must be an array of strings" in error({"assert_case": "assert f()"})
    assert "several kinds (functional, inputs, outputs)" in error(
        {"functional": "assert f(1)", "inputs": ["1"], "outputs": ["2"]}
    )
    assert "only problems of code" in error("42")


def test_the_reference_of_code_contests_is_its_first_solution_in_the_language_of_the_row_or_of_the_user() -> None:
    row = dict(next(row for name, row in ROWS if name == "CodeContests"))
    row["solutions"] = {
        "language": [2, 1, 3, 3, 4],
        "solution": ["int main() {}", "print 1", "print(input())", "other", "class A {}"],
    }
    references = {"": "print(input())", "C++": "int main() {}", "java": "class A {}", "go": None}
    assert {each: parsed({**row, "language": each}).problem.reference for each in references} == references
    del references[""]
    assert {each: asked(row, each).reference for each in ("cpp", "java", "go")} == dict(
        zip(("cpp", "java", "go"), references.values(), strict=True)
    )
