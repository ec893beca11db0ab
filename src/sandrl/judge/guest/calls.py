"""Calls as checks: a function of the completion, its arguments, and the value that it must return.

Expected values are in this process alone, as plain values. A result is compared type by type; an object of the
completion is compared as in any other check, by the rules of its proxy.

If the problem's reference decides the expected values, the same program runs the reference first and keeps what its
calls return. The values are packed in the format in which values cross (`values.py`), which builds nothing but values.

The other rules of comparison are those of PyPI `evalplus` 0.3.1, without NumPy, whose `allclose` they use. Two
differences are deliberate, because there EvalPlus looks at the shape alone: numbers in lists of unequal lengths are
near like any others, and a list whose items NumPy would repeat to fit is of another length, so it is not near.
"""

from __future__ import annotations

import marshal
from time import monotonic
from typing import Any

from sandrl.judge.guest.containers import plain_form
from sandrl.judge.guest.declarations import Request
from sandrl.judge.guest.libraries import plain_number
from sandrl.judge.guest.proxies import is_proxy, solid_of
from sandrl.judge.guest.values import Decoder, Encoder, Unsendable

CALL = "__call__"
SOLUTION = "Solution"
PLAIN = "plain"
NOT_NONE = "evalplus-not-none"
# Of all values that a reference returns.
MAX_RETURNED_BYTES = 64 << 20


class Calls:
    """The calls of a problem.

    Args:
        given: `owner` and `name`, the class and the function; `cases`, pairs of arguments and expected value;
            `tolerance`, by how much numbers may differ, absolute and relative, or None; `comparison`, its name, and
            `tolerances`, the absolute tolerance of each call, which it needs; `seconds`, how long each call may take,
            or None; `keeps`, whether this is the reference; `returned`, what that returned in all cases, packed, and
            the sizes of these values, or None.
    """

    def __init__(self, given: Request) -> None:
        self.owner = given["owner"]
        self.name = given["name"]
        self.is_method = given["is_method"]
        self.cases = given["cases"]
        self.tolerance = given["tolerance"]
        self.comparison = given["comparison"]
        self.tolerances = given["tolerances"]
        self.seconds: list[float] | None = given["seconds"]
        self.keeps: bool = given["keeps"]
        self.kept: list[tuple[bytes, float, bool]] = []
        self.kept_bytes = 0
        self.values: list[bytes] | None = None
        # What the latest call that was wrong returned, and what it should have; the second None where it is no value.
        self.wrong: tuple[Any, Any] | None = None
        if given["returned"] is not None:
            self.values = unpacked(*given["returned"])

    def texts(self, offered: frozenset[str]) -> list[str]:
        """The calls as checks, in the form that the completion has: a function, or a method of a class."""
        is_method = self.owner in offered and self.name not in offered
        if self.is_method:
            # Graders call a function, too, where an answer has no class of that name.
            is_method = self.owner != SOLUTION or self.owner in offered or self.name not in offered
        function = f"{self.owner}().{self.name}" if is_method else self.name
        return [f"{CALL}({number}, {function})" for number in range(len(self.cases))]

    def limit(self, number: int, seconds: float | None) -> float | None:
        """How long a call may take, where every other check may take `seconds`; a reference may take its time."""
        if self.keeps:
            return None
        return seconds if self.seconds is None else self.seconds[number]

    def check(self, number: int, function: Any) -> None:
        """Calls the function; raises AssertionError if it returns something else than expected."""
        arguments, expected = self.cases[number]
        # The completion may change its arguments, and both sides see that.
        given = marshal.loads(marshal.dumps(arguments)) if self.comparison in USING_ARGUMENTS else None
        if self.keeps:
            self.keep(number, function, given)
            return
        if self.values is not None:
            expected = decoded(self.values[number])
        result = function(*arguments)
        if not self.is_right(number, result, expected, given):
            self.wrong = result, expected
            raise AssertionError("the returned value differs from the expected value")

    def is_right(self, number: int, result: Any, expected: Any, given: Any) -> bool:
        if self.comparison == PLAIN:
            return self.is_same(result, expected)
        return compared(self.comparison, result, expected, given, self.tolerances[number])

    def is_same(self, result: Any, expected: Any) -> bool:
        """Whether a result is the expected value; a tuple counts as a list, and numbers may differ by the tolerance."""
        if is_proxy(result):
            # A named tuple is a tuple, and a class derived from `list` a list: what they hold counts.
            if solid_of(type(result)) not in (list, tuple, dict):
                return (result == expected) is True
            result = plain_form(result, solid_of(type(result)))
        result = plain_number(result)
        kind = type(result)
        if type(expected) in (list, tuple) and kind in (list, tuple):
            return len(result) == len(expected) and all(map(self.is_same, result, expected))
        if type(expected) is dict and kind is dict:
            return result.keys() == expected.keys() and all(
                self.is_same(result[key], expected[key]) for key in expected
            )
        if self.tolerance is not None and kind in (int, float) and type(expected) in (int, float):
            absolute, relative = self.tolerance
            if result == expected:
                return True
            # Not a number is near nothing, and no distance from infinity is small.
            return bool(abs(result - expected) <= max(absolute, relative * abs(expected)) < float("inf"))
        return bool(result == expected)

    def keep(self, number: int, function: Any, given: Any) -> None:
        """Calls the reference, and keeps what it returns; AssertionError if that cannot be kept, or is not right."""
        began = monotonic()
        result = function(*self.cases[number][0])
        seconds = monotonic() - began
        kept = result is not None if self.comparison == NOT_NONE else result
        try:
            value = Encoder(refuse).encode(kept)
        except Unsendable as error:
            raise AssertionError(f"what it returns cannot be kept: {error}") from None
        self.kept_bytes += len(value)
        if self.kept_bytes > MAX_RETURNED_BYTES:
            raise AssertionError(f"it returns more than {MAX_RETURNED_BYTES >> 20} MiB in all")
        if not self.is_right(number, result, decoded(value), given):
            raise AssertionError("what it returns does not equal itself")
        self.kept.append((value, seconds, is_floats(kept)))

    def returned(self) -> str | None:
        """What the reference returned, in words for the report; None if this is no reference that returned."""
        if not self.keeps or len(self.kept) != len(self.cases):
            return None
        packed = __import__("zlib").compress(b"".join([value for value, _, _ in self.kept]), 1)
        words = [
            ",".join([str(len(value)) for value, _, _ in self.kept]),
            ",".join([f"{seconds:.6f}" for _, seconds, _ in self.kept]),
            "".join(["f" if is_float else "-" for _, _, is_float in self.kept]),
            __import__("binascii").b2a_base64(packed, newline=False).decode(),
        ]
        return " ".join(words)


def refuse(value: object, *_: object) -> None:
    raise Unsendable(f"a {type(value).__name__} is not a plain value")


def decoded(value: bytes) -> object:
    made: object = Decoder(value, refuse).whole()
    return made


def unpacked(packed: str, sizes: list[int]) -> list[bytes]:
    data = __import__("zlib").decompress(__import__("binascii").a2b_base64(packed))
    values, position = [], 0
    for size in sizes:
        values.append(data[position : position + size])
        position += size
    return values


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
        is_right = equal is True if is_proxy(result) else bool(equal)
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
    if is_proxy(value):
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
