"""Values in fields: times, and texts: JSON in a string, and the packed form of LiveCodeBench's private tests.

The packed form is base64 of zlib of a pickle of JSON. Loading a pickle can run any code, so the pickle is never loaded.
Its opcodes are read, and only those that hold a string, or a dictionary of strings, are accepted. The size of the
unpacked text is limited before it is unpacked.
"""

from __future__ import annotations

import ast
import base64
import binascii
import json
import pickletools
import re
import zlib
from collections.abc import Mapping
from typing import Any

from sandrl.bounds import seconds_problem
from sandrl.errors import InputError
from sandrl.jsonl import MAX_PROBLEM_BYTES, type_name
from sandrl.syntax import parse_expression

MAX_UNPACKED_BYTES = MAX_PROBLEM_BYTES
"""The largest size that packed tests may unpack to."""

_STRINGS = frozenset({"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE"})
# These hold nothing, build a dictionary, or remember what was read.
_HARMLESS = frozenset(
    {"PROTO", "FRAME", "STOP", "MARK", "EMPTY_DICT", "DICT", "SETITEM", "SETITEMS"}
    | {"MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"}
)
_DICT_KEY = "input_output"
# A syntax tree takes fifty times as much memory as its text.
_MOST_PYTHON_CHARACTERS = 16 << 20


def json_value(value: object, field: str) -> Any:
    """The value of a field that is JSON text, or was that already; an array or object may be as Python writes it.

    `Infinity` and `NaN`, which Python's `json` writes, are numbers.
    """
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError as error:
        if (written := python_value(value)) is not None:
            return written
        raise InputError(f"must be JSON text: {error.msg} at character {error.pos + 1}", field=field) from error
    except RecursionError as error:
        raise InputError("must be JSON text: nested too deeply", field=field) from error
    except ValueError as error:
        raise InputError(f"must be JSON text: {str(error).partition(';')[0]}", field=field) from error


def python_value(text: str) -> list[Any] | dict[Any, Any] | None:
    """The list or dictionary that a text is as Python writes it, in `repr`; None if it is none."""
    text = text.strip()
    if text[:1] not in ("[", "{") or text[-1:] not in ("]", "}") or len(text) > _MOST_PYTHON_CHARACTERS:
        return None
    try:
        value = ast.literal_eval(parse_expression(text))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, list | dict) else None


def is_packed(text: object) -> bool:
    """Whether a text looks like packed tests, and not like JSON."""
    return isinstance(text, str) and text[:1] not in ("", "[", "{", '"') and not text[:200].strip().count(" ")


def unpacked(text: str, field: str) -> Any:
    """The tests in a packed text; `InputError` if it is none, or unpacks to too much."""
    try:
        packed = base64.b64decode(text, validate=True)
        decompressor = zlib.decompressobj()
        data = decompressor.decompress(packed, MAX_UNPACKED_BYTES)
        if decompressor.unconsumed_tail:
            raise InputError(f"unpacks to more than {MAX_UNPACKED_BYTES // 2**20} MiB", field=field)
        if not decompressor.eof:
            raise InputError("is packed, but cut off", field=field)
        return json_value(_pickled_string(data), field)
    except (binascii.Error, zlib.error) as error:
        raise InputError("is neither JSON text nor base64 of zlib of a pickle", field=field) from error
    except ValueError as error:
        raise InputError(f"is packed, but holds no string: {error}", field=field) from error


def _pickled_string(data: bytes) -> str:
    strings: list[str] = []
    is_dictionary = False
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name in _STRINGS:
                strings.append(str(argument))
            elif opcode.name not in _HARMLESS:
                raise ValueError(f"the pickle has the opcode {opcode.name}")
            is_dictionary |= opcode.name in ("EMPTY_DICT", "DICT")
    except (IndexError, OverflowError, EOFError, TypeError) as error:
        raise ValueError("the pickle is damaged") from error
    if not is_dictionary and len(strings) == 1:
        return strings[0]
    pairs = dict(zip(strings[::2], strings[1::2], strict=False))
    if is_dictionary and len(strings) % 2 == 0 and _DICT_KEY in pairs:
        return pairs[_DICT_KEY]
    raise ValueError("the pickle holds no string")


def first_solution(value: object, field: str) -> str | None:
    """The first of the solutions of a row, which are an array of texts, or JSON text of one; None if it has none."""
    if value in (None, ""):
        return None
    solutions = json_value(value, field) if isinstance(value, str) else value
    if not isinstance(solutions, list) or not all(isinstance(each, str) for each in solutions):
        raise InputError("must be an array of strings", field=field)
    return solutions[0] if solutions else None


def without_fence(text: str | None) -> str | None:
    """A solution without the fence that it may stand in; None if there is none."""
    if not text or not text.startswith("```"):
        return text or None
    return text.partition("\n")[2].rpartition("```")[0]


FACTOR = 4.0
LEAST_SECONDS = 4.0

# Larger numbers are no times, and some are no floats.
_MOST = 1e18
_TEXT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:s|secs?|seconds?)?\.?\s*", re.IGNORECASE)


def check_timeout(value: Any, field: str) -> float | None:
    """Seconds that a check may take, by the limit of a row: a number, a text, `seconds` and `nanos`, or None.

    Limits of sets are for one run of a compiled program, on the machine of a judge site. A check may take four times as
    long, and at least 4 seconds, because an interpreter, and a machine that runs many sandboxes, are slower. A limit
    for all tests together is ignored: `judge.time_limit` grows with the number of passed tests.
    """
    seconds = _seconds(value, field)
    if not seconds:
        return None
    seconds = max(FACTOR * seconds, LEAST_SECONDS)
    if problem := seconds_problem(seconds):
        raise InputError(problem, field=field)
    return seconds


def _seconds(value: Any, field: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, Mapping):
        parts = [_seconds(value.get(name), f"{field}.{name}") or 0.0 for name in ("seconds", "nanos")]
        return parts[0] + parts[1] / 1e9
    if isinstance(value, str):
        found = _TEXT.fullmatch(value)
        # Some rows have no limit, in words (`None`, `N/A`), or one in other words: those say nothing.
        return float(found.group(1)) if found is not None else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"must be a number of seconds, not {type_name(value)}", field=field)
    if not 0 <= value < _MOST:
        raise InputError(f"must be a number of seconds, not {value!r:.40}", field=field)
    return float(value)
