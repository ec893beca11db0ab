"""Compares what a function returns with what its reference returned, by the rules of EvalPlus.

The rules are those of PyPI `evalplus` 0.3.1, without NumPy, whose `allclose` they use. Two differences are deliberate,
because there EvalPlus looks at the shape alone: numbers in lists of unequal lengths are near like any others, and a
list whose items NumPy would repeat to fit is of another length, so it is not near. An object of the completion cannot
declare itself equal to anything (`client.py`).
"""

from __future__ import annotations

from typing import Any

from sandrl.rewards.guest.libraries import plain_number
from sandrl.rewards.guest.mirrors import is_mirror

RELATIVE_TOLERANCE = 1e-07
# Comparisons that look at the arguments, which a completion may change.
USING_ARGUMENTS = frozenset(("evalplus-surface", "evalplus-digits", "evalplus-root"))
# No set of a right answer is larger, and a range costs nothing to return.
MOST_ITEMS = 1 << 22
INFINITY = float("inf")


def compared(name: str, result: Any, expected: Any, arguments: Any, absolute: float) -> bool:
    """Whether a result is right.

    `expected` is what the reference returned; of `evalplus-not-none`, whether that is something else than None.
    `arguments` is what the function was given, before it could change it. `absolute` is the tolerance of this call.
    """
    if name == "evalplus-root":
        return is_real(result) and abs(polynomial(arguments[0], result)) <= absolute
    if name == "evalplus-anything":
        return True
    if name == "evalplus-set":
        is_right = as_set(result) == as_set(expected)
    elif name == "evalplus-not-none":
        is_right = expected is (result if type(result) is bool else result is not None)
    else:
        equal = result == expected
        is_right = equal is True if is_mirror(result) else bool(equal)
    if name == "evalplus-zero":
        is_right = is_right or (is_real(result) and result == 0)
    elif name == "evalplus-surface":
        is_right = is_right or (is_real(result) and abs(result - surface(*arguments)) <= absolute)
    elif name == "evalplus-digits":
        is_right = is_right or (is_real(result) and result == digit_distance(*arguments))
    if is_right or not absolute:
        return is_right
    return type(result) is type(expected) and is_near(result, expected, absolute)


def is_floats(value: object) -> bool:
    """Whether a value is a float, or a list or tuple of floats: then results may be near."""
    if isinstance(value, (list, tuple)):
        return bool(value) and all(isinstance(item, float) for item in value)
    return isinstance(value, float)


def is_near(result: Any, expected: Any, absolute: float) -> bool:
    """Whether all numbers in a value are near those in another one; what is no number is not near."""
    kind = type(expected)
    if kind is list or kind is tuple:
        if type(result) not in (list, tuple) or len(result) != len(expected):
            return False
        return all(is_near(one, other, absolute) for one, other in zip(result, expected))
    result = plain_number(result)
    if not (is_number(result) and is_number(expected)):
        return False
    wanted = complex(expected) if kind is complex else float(expected)
    if result == wanted:
        return True
    difference, size = abs(result - wanted), abs(wanted)
    # Not a number is near nothing, and no distance from infinity is small.
    return bool(size < INFINITY and difference <= absolute + RELATIVE_TOLERANCE * size)


def is_number(value: object) -> bool:
    """Whether NumPy would take a value for a number; it has none of more than 64 bits."""
    kind = type(value)
    if kind is int:
        return -(1 << 63) <= value < 1 << 64  # type: ignore[operator]
    return kind is float or kind is bool or kind is complex


def is_real(value: object) -> bool:
    """Whether a value is a number with an order, of Python's own or its library's."""
    if is_mirror(value):
        return False
    kind = type(plain_number(value))
    return kind in (int, float, bool) or (kind.__module__, kind.__name__) in (
        ("fractions", "Fraction"),
        ("decimal", "Decimal"),
    )


def as_set(value: Any) -> set[Any]:
    """The set of the items of a value; TypeError if it has none, or some cannot be in a set, ValueError if too many."""
    if type(value) is range and value[MOST_ITEMS:]:
        raise ValueError("it returned too many items")
    return set(value)


def polynomial(coefficients: Any, point: Any) -> float:
    """The value of a polynomial, given by its coefficients from the constant on, at a point."""
    power = __import__("math").pow
    total = 0.0
    for exponent, coefficient in enumerate(coefficients):
        total += coefficient * power(point, exponent)
    return total


def surface(edge: Any, height: Any) -> int:
    """The surface of a pyramid on a square, with the height of its apex above the base, rounded."""
    slant = __import__("math").sqrt((edge / 2) ** 2 + height**2)
    area: int = round(edge**2 + 4 * (edge * slant) / 2)
    return area


def digit_distance(one: Any, other: Any) -> int:
    """The sum of the differences between the digits of two numbers, the shorter filled up with zeros."""
    first, second = str(one), str(other)
    length = max(len(first), len(second))
    return sum([abs(int(left) - int(right)) for left, right in zip(first.zfill(length), second.zfill(length))])
