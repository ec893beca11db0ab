"""The ways to compare the value that a call returns with the value that it must return.

A comparison is a name from a closed list, and the judge's program in the sandbox implements each. Comparisons that one
set alone uses are part of the list, so that no row brings code that runs beside expected values.
"""

from __future__ import annotations

from enum import StrEnum


class Comparison(StrEnum):
    """How results of calls are compared.

    Those of EvalPlus compare with `==`, for which a tuple and a list are different. A result of the same type may also
    be near: `|result - expected| <= absolute + 1e-7 * |expected|` for each number in it. That holds for all calls if
    the problem has a tolerance, and else with 1e-6 from the first call of a part on that must return a float, or a list
    or tuple of floats.
    """

    PLAIN = "plain"
    """Equal, where a tuple counts as a list; numbers within the tolerance, if there is one."""
    EVALPLUS = "evalplus"
    """As above."""
    EVALPLUS_SET = "evalplus-set"
    """Equal as sets."""
    EVALPLUS_NOT_NONE = "evalplus-not-none"
    """A result that is not None where the reference's is not, and None where it is; True and False stand for these."""
    EVALPLUS_ANYTHING = "evalplus-anything"
    """Every value passes, if the call returns: its task has no right answer."""
    EVALPLUS_ZERO = "evalplus-zero"
    """Equal, or 0: its task may or may not count the number itself as a divisor."""
    EVALPLUS_SURFACE = "evalplus-surface"
    """Equal, or the surface of a pyramid with the two arguments as edge and perpendicular height, rounded."""
    EVALPLUS_DIGITS = "evalplus-digits"
    """Equal, or the sum of the differences of the digits of the two arguments, aligned at the right."""
    EVALPLUS_ROOT = "evalplus-root"
    """A root of the polynomial whose coefficients are the argument: its value there is 0 within the tolerance."""
