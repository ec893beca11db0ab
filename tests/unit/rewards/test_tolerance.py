"""Numbers within a tolerance: what counts as one, and that nothing is rounded on the way."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandrl.judge.guest.tolerance import is_close, parse_decimal, same_lines, same_numbers


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        ("0.3333333", "0.33333333333"),
        ("1000.0005", "1e3"),
        ("1E+3", "1000"),
        (".5", "0.5"),
        ("5.", "+5"),
        ("-0.0", "0"),
        ("nan", "nan"),
        ("inf", "inf"),
        ("1" + "0" * 400, "1" + "0" * 399 + "1"),
        ("a\n1.00000001   2 \n\n", "a\n1 2"),
        ("", ""),
        ("[1.0000001, 2.0]", "[1, 2]"),
        ("[[0.1,", "[[0.10000001,"),
        ("(1.0000001,2)", "(1,2)"),
        ("x=1.0000001;", "x=1;"),
        ("(1.0000001-2e0j)", "(1-2.0000001j)"),
        ("(1+0j)", "(1-0.0000001j)"),
        ("33.3333333%", "33.33333333%"),
        ("$3.50", "$3.5"),
        ("2.5000001kg", "2.5kg"),
        ("{'a':1E-9}", "{'a':0}"),
        ("1,234.5", "1,234.5000001"),
        ("<-1.5|+2>", "<-1.5000001|2.0>"),
        ("mean:5.", "mean:5.0000001"),
        ("3/4.0000001", "3/4"),
        ("nan,1.0000001", "nan,1"),
        ("0x10", "0x10"),
        ("v1.2.3=4.0000001", "v1.2.3=4"),
    ],
)
def test_numbers_that_are_close_are_the_same(actual: str, expected: str) -> None:
    assert same_numbers(actual, expected, 1e-3, 1e-6)


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        ("1.1", "1"),
        ("nan", "1"),
        ("NaN", "nan"),
        ("nan", "inf"),
        ("inf", "-inf"),
        ("1e999", "inf"),
        ("inf", "1" + "0" * 400),
        ("1" + "0" * 400, "2" + "0" * 400),
        ("1e999999999", "1e999999998"),
        ("0x10", "16"),
        ("1_000", "1000"),
        ("\uff11\uff12", "12"),
        ("\u00b2", "2"),
        ("--1", "1"),
        ("+-1", "-1"),
        ("1e", "1"),
        ("e1", "10"),
        (".", "0"),
        ("-", "0"),
        ("", "0"),
        ("1 2", "1\n2"),
        ("1 2", "1 2 3"),
        ("1,0", "1.0"),
        ("x1", "x1.0"),
        ("9007199254740993.1", "9007199254740992"),
        ("[1.1]", "[1]"),
        ("[1.0)", "[1.0]"),
        ("[1, 2]", "[1 2]"),
        ("[1,2,3]", "[1,2]"),
        ("[1,2]", "[1,2"),
        ("x=1", "y=1"),
        ("x=1", "x="),
        ("(1+2j)", "(1+2k)"),
        ("5%", "5"),
        ("[nan]", "[1]"),
        ("[0x10]", "[16]"),
        ("[1_000]", "[1000]"),
        ("x1,2", "x1.0,2"),
        ("a.5", "a0.5"),
        ("1.2.3", "1.2.30"),
        ("1.2.3", "1.20.3"),
        ("1e5e5", "1e5"),
        ("[\u0661]", "[1]"),
        ("--1,", "1,"),
        ("[1" + "0" * 3000 + "]", "[2" + "0" * 3000 + "]"),
    ],
)
def test_all_else_is_compared_as_text(actual: str, expected: str) -> None:
    assert not same_numbers(actual, expected, 1e-3, 1e-17)
    assert not same_numbers(expected, actual, 1e-3, 1e-17)


@pytest.mark.parametrize(
    ("actual", "expected", "margin", "is_same"),
    [
        ("0 0 2 \n91", "0\n0\n2\n91\n", 0.0, True),
        ("\n   1842", "1842", 0.0, True),
        ("1 2", "12", 0.0, False),
        ("1 2 3", "1 2", 0.0, False),
        ("0011", "11", 0.0, False),
        ("1.0", "1", 0.0, False),
        ("1.0\n2", "1 2.0000001", 1e-6, True),
        ("1.1\n2", "1 2", 1e-6, False),
        ("", " \n", 0.0, True),
    ],
)
def test_by_words_the_ends_of_lines_do_not_count(actual: str, expected: str, margin: float, is_same: bool) -> None:
    assert same_numbers(actual, expected, margin, 0.0, True) is is_same


def test_the_expected_number_is_the_measure_of_what_is_relative() -> None:
    assert is_close("90", "100", 0.0, 0.1)
    assert not is_close("100", "90", 0.0, 0.1)
    assert not is_close("0.0001", "0", 0.0, 0.5)


@given(st.text(alphabet="0123456789.eE+-nif_x\uff11 ", max_size=12))
def test_a_number_is_one_to_float_too(word: str) -> None:
    parsed = parse_decimal(word)
    if parsed is not None:
        assert math.isclose(float(word), float(f"{parsed[0]}e{parsed[1]}"), rel_tol=1e-12) or math.isinf(float(word))


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(min_value=0, max_value=1e6))
def test_every_float_is_close_to_itself_and_to_its_neighbour(value: float, margin: float) -> None:
    assert is_close(repr(value), repr(value) + "e0" if "e" not in repr(value) else repr(value), margin, 0.0)
    assert is_close(repr(math.nextafter(value, 0)), repr(value), 0.0, 1e-15) or abs(value) < 1e-300


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        ("1\n", "\n\n1"),
        (" \n\t\n1 \n2\n\n", "1\n2"),
        ("\r\n1", "1"),
        ("  *\n ***", "\n  *\n ***\n"),
        ("", " \n"),
        ("\n", ""),
    ],
)
def test_empty_lines_around_a_text_and_blanks_after_a_line_do_not_count(actual: str, expected: str) -> None:
    assert same_lines(actual, expected)
    assert same_lines(expected, actual)
    assert same_numbers(actual, expected, 0.0, 0.0)


@pytest.mark.parametrize(
    ("actual", "expected"), [(" 1", "1"), ("\n *\n***", "*\n***"), ("1\n\n2", "1\n2"), ("", "\n1")]
)
def test_blanks_before_a_line_and_empty_lines_between_lines_count(actual: str, expected: str) -> None:
    assert not same_lines(actual, expected)
    assert not same_lines(expected, actual)
