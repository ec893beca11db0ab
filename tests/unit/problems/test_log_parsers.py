"""Parsers of the results of tests: of Terminal-Bench, of swebench, and what cannot be believed."""

from __future__ import annotations

import pytest

from sandrl.errors import InputError
from sandrl.problems.tasks.log_parsers import (
    TERMINAL_BENCH_PARSERS,
    NamedTest,
    TestReading,
    check_parser,
    read_tests,
)

HEAD = "============ short test summary info ============\n"


def outcomes(reading: TestReading) -> dict[str, str]:
    return {test.name: test.outcome.value for test in reading.tests}


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("PASSED a.py::test_a\nSKIPPED [1] a.py:3: no\n", {"test_a": "passed", "[1] a.py:3: no": "passed"}),
        ("XFAIL a.py::test_a - why\nXPASS a.py::test_b\n", {"test_a - why": "passed", "test_b": "failed"}),
        ("FAILED a.py::T::test_a - E: a - b\nERROR a.py\n", {"T::test_a": "failed", "a.py": "failed"}),
        ("PASSED a.py::test_a\nPASSED b.py::test_a\n", {"test_a": "passed"}),
        ("PASSED a.py::test_a\nFAILED b.py::test_a\nPASSED c.py::test_a\n", {"test_a": "failed"}),
        ("\x1b[32mPASSED\x1b[0m a.py::\x1b[1mtest_a\x1b[0m\r\n", {"test_a": "passed"}),
        (
            "FAILED a.py::test_a[x - y] - E - z\nFAILED a.py::test_b[x - y]\n",
            {"test_a[x - y]": "failed", "test_b[x - y]": "failed"},
        ),
        ("PASSED\nFAILED \nUNKNOWN a.py::test_a\n", {}),
    ],
)
def test_the_summary_of_pytest_is_read(lines: str, found: dict[str, str]) -> None:
    assert outcomes(read_tests("pytest", f"PASSED before.py::test_x\n{HEAD}{lines}==== 1 passed in 1s ====\n")) == found


def test_a_later_summary_takes_no_failure_back() -> None:
    real, false = f"{HEAD}FAILED a.py::test_a - E\n", f"{HEAD}PASSED a.py::test_a\n"
    assert read_tests("pytest", real + false).reward == 0.0
    assert read_tests("pytest", false + real).reward == 0.0


def test_the_reason_of_a_failure_is_kept() -> None:
    [test] = read_tests("pytest", f"{HEAD}FAILED a.py::test_a - AssertionError: 1 - 2\n").tests
    assert test.reason == "AssertionError: 1 - 2"


@pytest.mark.parametrize(
    ("parser", "title", "word"),
    [
        ("swebench", "SWEBench", "PASSED"),
        ("sweperf", "SWE-Perf", "PASSED"),
        ("mlebench", "MLEBench", "ALL TESTS PASSED"),
    ],
)
def test_what_is_between_marks_must_be_the_word_alone(parser: str, title: str, word: str) -> None:
    start, end = f"{title} results starts here\n", f"{title} results ends here\n"
    assert read_tests(parser, f"x\n{start}{word}\n{end}y").reward == 1.0
    assert read_tests(parser, f"{start}FAILED\n{end}").reward == 0.0
    assert read_tests(parser, f"{start}{word}\n{end}{start}FAILED\n{end}").reward == 0.0
    assert read_tests(parser, f"{start}{word}\n").reward is None


@pytest.mark.parametrize(
    ("output", "reward"),
    [
        ("SWE Lancer success", 1.0),
        ("swe lancer failure", 0.0),
        ("swe lancer success\nswe lancer failure", 0.0),
        ("user_tool has completed", 1.0),
        ("nothing", None),
    ],
)
def test_the_words_of_swe_lancer_are_read(output: str, reward: float | None) -> None:
    assert read_tests("swelancer", output).reward == reward


@pytest.mark.parametrize("parser", [*TERMINAL_BENCH_PARSERS, "r2e"])
def test_an_output_without_a_test_is_no_reading(parser: str) -> None:
    reading = read_tests(parser, "Traceback (most recent call last):\n  No module named pytest\n")
    assert reading.reward is None
    assert "no test was found" in reading.failure


def test_required_tests_must_be_found_and_pass() -> None:
    output = f"{HEAD}PASSED a.py::T::test_a\nFAILED a.py::test_b\n"
    assert read_tests("r2e", output, ["T.test_a"]).reward == 1.0
    reading = read_tests("r2e", output, ["T.test_a", "test_b", "test_c"])
    assert outcomes(reading) == {"T.test_a": "passed", "test_b": "failed", "test_c": "missing"}
    assert reading.reward == 0.0


def test_an_unknown_parser_is_refused() -> None:
    with pytest.raises(InputError, match=r"no parser 'pytets'"):
        check_parser("pytets")


class TestSwebench:
    """The parsers of the package, and the output around them."""

    PYTEST = "swebench:parse_log_pytest"

    @pytest.fixture(autouse=True)
    def _has_the_package(self) -> None:
        pytest.importorskip("swebench")

    @staticmethod
    def output(inside: str, *, before: str = "", code: int | str = 0) -> str:
        return f"{before}+ : '>>>>> Start Test Output'\n{inside}\n>>>>> End Test Output\n>>>>> Test Exit Code: {code}\n"

    def test_a_parser_that_it_does_not_have_is_refused(self) -> None:
        check_parser("swebench:parse_log_karma@1.2@owner__name-1")
        with pytest.raises(InputError, match=r"no parser 'parse_log_pytst'; did you mean parse_log_pytest\?"):
            check_parser("swebench:parse_log_pytst")

    def test_every_required_test_is_a_check(self) -> None:
        inside = "PASSED a.py::test_a\nFAILED a.py::test_b - AssertionError: no\nSKIPPED a.py::test_c\n"
        names = [f"a.py::test_{each}" for each in "abcd"]
        reading = read_tests(self.PYTEST, self.output(inside, code=1), names, may_skip=["a.py::test_c"])
        assert [(test.outcome.value, test.passes) for test in reading.tests] == [
            ("passed", True), ("failed", False), ("skipped", True), ("missing", False),
        ]  # fmt: skip
        assert reading.tests[1].reason == "AssertionError: no"

    def test_a_name_that_was_cut_off_means_all_that_begin_so(self) -> None:
        inside = "PASSED a.py::test_a[x(1)]\nPASSED a.py::test_a[x(2)]\nFAILED a.py::test_b[x(1)] - E\n"
        reading = read_tests(self.PYTEST, self.output(inside, code=1), ["a.py::test_a[x(", "a.py::test_b[x("])
        assert [test.passes for test in reading.tests] == [True, False]

    def test_a_failure_is_not_taken_back_by_a_line_before_or_after(self) -> None:
        for lines in ("PASSED a.py::test_a\nFAILED a.py::test_a - E", "FAILED a.py::test_a - E\nPASSED a.py::test_a"):
            assert read_tests(self.PYTEST, self.output(lines, code=1), ["a.py::test_a"]).reward == 0.0

    def test_a_report_that_does_not_fit_the_exit_status_is_false(self) -> None:
        reading = read_tests(self.PYTEST, self.output("PASSED a.py::test_a", code=4), ["a.py::test_a"])
        assert reading.reward == 0.0
        assert reading.tests[-1] == NamedTest(
            "exit status 4 without a test that failed", reading.tests[-1].outcome, False
        )
        # More digits than Python reads.
        assert (
            read_tests(self.PYTEST, self.output("PASSED a.py::test_a", code="9" * 5000), ["a.py::test_a"]).reward == 0
        )

    @pytest.mark.parametrize(
        ("line", "reward"),
        [("FAILED t/test_x1.py::test_x1 - E", 1.0), ("PASSED t/test_x1.py::test_x1", 0.0), ("", 0.0)],
    )
    def test_a_test_that_must_fail_is_looked_for(self, line: str, reward: float) -> None:
        before = ">>>>> Canary: test_x1.py::test_x1\n"
        output = self.output(f"PASSED a.py::test_a\n{line}", before=before, code=0)
        assert read_tests(self.PYTEST, output, ["a.py::test_a"]).reward == reward

    def test_tests_that_did_not_end_are_no_reading(self) -> None:
        reading = read_tests(self.PYTEST, ">>>>> Start Test Output\nPASSED a.py::test_a\n", ["a.py::test_a"])
        assert reading.failure == "the program of the tests did not come to its end"

    def test_a_text_that_keeps_a_pattern_busy_is_no_reading(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sandrl.problems.tasks.log_parsers._PARSER_SECONDS", 2.0)
        reading = read_tests("swebench:parse_log_sympy", "_ " + ".py:" * 60_000, ["test_a"])
        assert "did not end within 2 s" in reading.failure
