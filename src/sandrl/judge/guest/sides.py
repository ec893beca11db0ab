"""Both sides of the comparison that failed in a check, as texts.

The host has given a name to each side of an assert (`sandrl.judge.assertions`), so that its value is found where the
assert failed: nothing is evaluated twice. To show a value, none of the completion's code runs: values of types that the
interpreter or its library defines are shown; of any other value, only the class.
"""

from __future__ import annotations

from typing import Any

from sandrl.judge.guest.declarations import Plain, Sides
from sandrl.judge.guest.excerpts import CUT, LONGEST_EXCERPT_CHARACTERS

# How the names begin that sides of asserts have: `_side_FIRST_LAST_NUMBER_OPERATOR_SIDE`, the lines of the assert, its
# number among those of these lines, the operator, and `g` for what the check got or `e` for what it expects.
MARK = "_side_"
# What follows such a name. The form feed, a blank to the tokenizer, tells it from assignments of the check's own.
MARKED = " :=\f("
# What follows the name where the assert has passed: then its value is `MARK`.
RELEASED = " =\f"
# What tells the judge that an assert fails, that an exception is raised, and what a handler is about to catch.
FAILS, RAISED, CAUGHT = "_fails_", "_raised_", "_caught_"
OPERATORS_SHOWN = {"eq": "", "ne": "!= ", "lt": "< ", "le": "<= ", "gt": "> ", "ge": ">= ", "is": "is "}
OPERATORS_SHOWN.update({"isnot": "is not ", "in": "in ", "notin": "not in "})
MOST_LEVELS = 8
MOST_BITS = 12_000
# Types of the standard library, and of libraries of numbers, whose own text says what they hold.
SHOWN_MODULES = frozenset("datetime decimal fractions uuid numpy pandas pathlib".split())
TOLD_BY_THEMSELVES = (bool, float, complex, type(None), type(Ellipsis), type(NotImplemented), range)


class ValueText:
    """A value as text that is never long; `plain` says what values of another process are."""

    def __init__(self, plain: Plain | None = None) -> None:
        self.plain = plain
        self.parts: list[str] = []
        self.left = LONGEST_EXCERPT_CHARACTERS

    def text(self) -> str:
        return "".join(self.parts) + (CUT if self.left < 0 else "")

    def put(self, text: str) -> None:
        if self.left >= 0:
            self.parts.append(text[: self.left])
            self.left -= len(text)

    def show(self, value: Any, levels: int = 0) -> None:
        if self.left < 0:
            return
        found = None if self.plain is None else self.plain(value)
        if found is not None:
            value, text = found
            if text:
                self.put(text)
                return
        kind = type(value)
        if kind is str or kind is bytes or kind is bytearray:
            self.put(repr(value[: self.left + 1]))
        elif kind is int:
            self.put(repr(value) if value.bit_length() < MOST_BITS else f"<int of {value.bit_length()} bits>")
        elif kind in TOLD_BY_THEMSELVES:
            self.put(repr(value))
        elif levels > MOST_LEVELS:
            self.put(CUT)
        elif kind in (list, tuple, set, frozenset) or (kind.__module__, kind.__name__) == ("collections", "deque"):
            self.show_items(value, kind, levels)
        elif kind is dict or (kind.__module__ == "collections" and issubclass(kind, dict)):
            self.show_pairs(value, kind, levels)
        elif kind.__module__.partition(".")[0] in SHOWN_MODULES and self.tells_itself(value, kind):
            self.put(repr(value))
        elif isinstance(value, type):
            self.put(f"<class {value.__name__}>")
        else:
            self.put(f"<{kind.__name__} object>")

    def tells_itself(self, value: Any, kind: Any) -> bool:
        """Whether the text of a value of a library comes from that alone: objects of another process are in none."""
        if self.plain is None or kind.__module__.partition(".")[0] not in ("numpy", "pandas"):
            return True
        return kind.__module__[:5] == "numpy" and getattr(getattr(value, "dtype", None), "kind", "O") not in "OV"

    def show_items(self, value: Any, kind: Any, levels: int) -> None:
        """Adds a list, a tuple, a set or a deque; sets in the order of their texts."""
        size = kind.__len__(value)
        items = kind.__iter__(value)
        if kind is set or kind is frozenset:
            if not size:
                self.put(f"{kind.__name__}()")
                return
            first, last = ("frozenset({", "})") if kind is frozenset else ("{", "}")
            # In keys of an outer set there is no order: each level would take a thousand times as long.
            if size <= LONGEST_EXCERPT_CHARACTERS and levels < MOST_LEVELS:
                items = sorted(items, key=self.key_of)
        else:
            first, last = ("(", ")") if kind is tuple else ("[", "]")
            first, last = (first, last) if kind in (list, tuple) else (f"{kind.__name__}(" + first, last + ")")
        self.put(first)
        for number, item in enumerate(items):
            if self.left < 0:
                return
            self.put(", " if number else "")
            self.show(item, levels + 1)
        self.put("," + last if kind is tuple and size == 1 else last)

    def key_of(self, item: object) -> str:
        one = ValueText(self.plain)
        one.left = 50
        one.show(item, MOST_LEVELS)
        return one.text()

    def show_pairs(self, value: Any, kind: Any, levels: int) -> None:
        self.put("{" if kind is dict else f"{kind.__name__}({{")
        for number, (key, item) in enumerate(dict.items(value)):
            if self.left < 0:
                return
            self.put(", " if number else "")
            self.show(key, levels + 1)
            self.put(": ")
            self.show(item, levels + 1)
        self.put("}" if kind is dict else "})")


def shown(value: object, plain: Plain | None = None) -> str | None:
    """A value as text; None if that fails: a value may be in any condition."""
    try:
        written = ValueText(plain)
        written.show(value)
        return written.text()
    except Exception:
        return None


def line_of(error: BaseException, namespace: dict[str, Any]) -> tuple[int, Any, str]:
    """Where in a check's own text an exception was raised.

    Returns the line, from 1, the frame, and the name of the function below it that raised, empty if the frame itself
    did; (0, None, "") if it was not raised there.
    """
    traceback, check, line, frame, below = error.__traceback__, None, 0, None, ""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if check is None and traceback.tb_frame.f_globals is namespace and code.co_name == "<module>":
            check = code
        if check is not None and belongs(code, check):
            line, frame, below = traceback.tb_lineno, traceback.tb_frame, ""
        elif frame is not None and not below:
            below = code.co_name
        traceback = traceback.tb_next
    return line, frame, below


def belongs(code: Any, outer: Any) -> bool:
    return code is outer or any(
        type(each) is type(outer) and each.co_filename == outer.co_filename and belongs(code, each)
        for each in outer.co_consts
    )


def forget_sides(check: str, namespace: dict[str, Any]) -> None:
    """Removes the names that a check has given to sides: those of another check are not its own."""
    if MARK in check:
        for name in [*namespace]:
            # A completion can give its module names that are no texts.
            if type(name) is str and name.startswith(MARK):
                del namespace[name]


def sides_of(error: BaseException, namespace: dict[str, Any], plain: Plain | None = None) -> Sides:
    """What the check got and expected that an exception ended; `plain` says what values of another process are."""
    try:
        return found_sides(error, namespace, plain)
    except Exception:
        # In the completion's own process nothing is sure: not even what `len` is.
        return None, None, 0


def found_sides(error: BaseException, namespace: dict[str, Any], plain: Plain | None) -> Sides:
    line, frame, below = line_of(error, namespace)
    # What a call on one of the sides has raised leaves the names with the values of an earlier round.
    if frame is None or not isinstance(error, AssertionError) or (below and not below.startswith("assert")):
        return None, None, line
    latest: tuple[int, str] = -1, ""
    values: dict[tuple[int, str], Any] = {}
    for name, value in frame.f_locals.items():
        if type(name) is not str or name[: len(MARK)] != MARK or (type(value) is str and value == MARK):
            continue
        first, last, number, operator, side = name[len(MARK) :].split("_")
        if int(first) <= line <= int(last):
            latest = max(latest, (int(number), operator))
            values[(int(number), side)] = value
    failed, operator = latest
    got = shown(values[(failed, "g")], plain) if (failed, "g") in values else None
    expected = shown(values[(failed, "e")], plain) if (failed, "e") in values else None
    return got, None if expected is None else OPERATORS_SHOWN[operator] + expected, line
