"""Tests as pairs of input and output: the shapes in which sets have them, and the checks that they make.

`{"inputs": […], "outputs": […]}`, `[{"input", "output"}]` and `[[input, output]]` make the same checks. If some
expected output of a program holds a decimal fraction, numbers are compared within 1e-6, as the graders of such sets do;
if some output is a line padded with blanks, words are compared; else outputs are compared as text. A function may
return a tuple where a list is expected, because JSON has no tuple. Keys that JSON has made texts of are integers again,
as in the graders of APPS, if all keys of all arguments, or of all results, are integers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from sandrl.errors import InputError
from sandrl.jsonl import type_name
from sandrl.problems.calls import SOLUTION, Call
from sandrl.problems.calls import function_of as named_function
from sandrl.problems.formats.texts import check_timeout, json_value
from sandrl.problems.preludes import STANDARD
from sandrl.problems.problem import Case, Problem, Tolerance
from sandrl.syntax import compiling

FRACTIONS = Tolerance(absolute=1e-6)
"""How cases compare numbers where some expected number is a decimal fraction."""

WORDS = Tolerance(words=True)
"""How cases compare words, wherever the lines end."""

_LEETCODE = re.compile(
    rf"^[ \t]*class\s+{SOLUTION}\b|\b{SOLUTION}\(\)\.|\b(?:List|Dict|Set|Tuple|Optional|Union)\[", re.MULTILINE
)
_LIST = r"(?:typing\.)?(?:List|list|Sequence|Tuple|tuple)"
_MOST_LEVELS = 20
_FRACTION = re.compile(r"\d\.\d")
_PROGRAMS = frozenset({"stdin", "stdin_stdout", "stdio"})
_CALLS = frozenset({"functional", "function_call", "call_based"})
_INPUTS = ("inputs", "input", "stdin", "arguments", "args")
_NO_FUNCTION = frozenset({"", "none", "null"})
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_CONSTANTS = ("True", "False", "None")
_OUTPUTS = ("outputs", "output", "stdout", "expected_output", "expected")


@dataclass(frozen=True, slots=True)
class Pair:
    """A test: a call of `function`, or a run of a program if that is empty.

    `is_of_apps`: as in APPS and the sets made of it, the output may stand in a list of its own, and keys that are texts
    may have been integers.
    """

    given: Any
    expected: Any
    fields: tuple[str, str]
    function: str = ""
    is_of_apps: bool = False


def pairs_of(value: object, field: str, *, function: str = "") -> list[Pair]:
    """The tests of a field; `function` is called by those that name no other and do not say that they are programs."""
    tests = [] if isinstance(value, str) and not value.strip() else json_value(value, field)
    if isinstance(tests, Mapping):
        pairs = _columns(tests, field, function)
    elif isinstance(tests, list | tuple):
        pairs = [_pair(test, f"{field}[{position}]", function) for position, test in enumerate(tests)]
    else:
        raise InputError(f"must be an array or an object of tests, not {type_name(tests)}", field=field)
    if not pairs:
        hint = "leave out such rows with `skip_bad_rows`"
        raise InputError("has no tests", field=field, hint=hint, fields=("skip_bad_rows",))
    return pairs


def checks_of_pairs(pairs: Sequence[Pair], field: str, *, code: str = "") -> dict[str, Any]:
    """The fields of a problem that tests become; `code` shows whether the function is a method of `Solution`."""
    functions = {pair.function for pair in pairs}
    if len(functions) > 1:
        kinds = ", ".join(sorted(name or "stdin" for name in functions))
        raise InputError(f"has tests of several kinds ({kinds}), and only one is allowed", field=field)
    if functions == {""}:
        cases = tuple(Case(_text(pair.given, pair.fields[0]), _text(pair.expected, pair.fields[1])) for pair in pairs)
        if any(_FRACTION.search(case.stdout) for case in cases):
            return {"cases": cases, "tolerance": FRACTIONS}
        return {"cases": cases, "tolerance": WORDS if any(map(_is_padded, cases)) else None}
    return _calls(pairs, code)


def problem_of_pairs(
    name: str,
    prompt: str,
    tests: object,
    field: str,
    *,
    function: str = "",
    starter: str = "",
    reference: str | None = None,
    code: str | None = None,
    prelude: str = "",
    time_limit: Any = None,
) -> Problem:
    """The problem of a field with tests; for `function` and `code`, else the starter code or reference, see above."""
    pairs = pairs_of(tests, field, function=function)
    checks = checks_of_pairs(pairs, field, code=starter or reference or "" if code is None else code)
    return Problem(
        task_id=name,
        prompt=prompt,
        starter_code=starter,
        reference=reference,
        prelude=prelude or promised_names(checks, starter or prompt),
        check_timeout_seconds=check_timeout(time_limit, "time_limit"),
        **checks,
    )


def promised_names(checks: Mapping[str, Any], code: str) -> str:
    """The prelude of calls in the form of LeetCode, whose judge provides the names of the standard library.

    Its starter code is annotated with `List[int]` and imports nothing: an answer that keeps to it would fail.
    """
    return STANDARD if ("calls" in checks or "tests" in checks) and _LEETCODE.search(code) else ""


def by_words(checks: dict[str, Any]) -> dict[str, Any]:
    """Checks whose cases, if that is what they are, compare words wherever the lines end."""
    if "cases" not in checks:
        return checks
    return {**checks, "tolerance": replace(checks["tolerance"] or WORDS, words=True)}


# Whether blanks before a single line must not count: sets have outputs of programs that padded a number.
def _is_padded(case: Case) -> bool:
    text = case.stdout.strip("\r\n")
    return text.startswith((" ", "\t")) and not text.isspace() and "\n" not in text.strip()


def function_of(metadata: object, field: str = "metadata") -> str:
    """The function that the `metadata` of a row or of a test names, which may be JSON text; empty if none."""
    found = json_value(metadata or {}, field)
    return function_name(found.get("func_name"), f"{field}.func_name") if isinstance(found, Mapping) else ""


def _columns(tests: Mapping[str, Any], field: str, function: str) -> list[Pair]:
    names = [next((name for name in known if name in tests), known[0]) for known in (_INPUTS, _OUTPUTS)]
    columns: list[list[Any]] = []
    for name in names:
        column = tests.get(name)
        if not isinstance(column, list):
            reason = "is missing" if name not in tests else f"must be an array, not {type_name(column)}"
            raise InputError(reason, field=f"{field}.{name}")
        columns.append(column)
    given, expected = columns
    if len(given) != len(expected):
        raise InputError(f"has {len(given)} {names[0]} and {len(expected)} {names[1]}", field=field)
    function = function_name(tests.get("fn_name"), f"{field}.fn_name") or function
    return [
        Pair(*pair, (f"{field}.{names[0]}[{position}]", f"{field}.{names[1]}[{position}]"), function, bool(function))
        for position, pair in enumerate(zip(given, expected, strict=True))
    ]


def _pair(test: Any, field: str, function: str) -> Pair:
    if isinstance(test, list | tuple) and len(test) == 2:
        return Pair(test[0], test[1], (f"{field}[0]", f"{field}[1]"), function)
    if not isinstance(test, Mapping):
        raise InputError(f"must be an object with an input and an output, not {type_name(test)}", field=field)
    values, fields = [], []
    for known, inner in ((_INPUTS, "stdin"), (_OUTPUTS, "stdout")):
        name = next((name for name in known if name in test), None)
        if name is None:
            raise InputError("is missing", field=f"{field}.{known[1]}")
        value, place = test[name], f"{field}.{name}"
        if isinstance(value, Mapping) and inner in value:
            _refuse_files(value, inner, place)
            value, place = value[inner], f"{place}.{inner}"
        values.append(value)
        fields.append(place)
    own = function_name(test.get("fn_name"), f"{field}.fn_name")
    named = own or function_of(test.get("metadata"), f"{field}.metadata") or function
    kind = test.get("type", test.get("testtype"))
    if not isinstance(kind, str | None):
        raise InputError(f"must name the kind of the test, not be {type_name(kind)}", field=f"{field}.type")
    if kind in _PROGRAMS:
        named = ""
    elif kind in _CALLS and not named:
        raise InputError("calls a function, but the function is not named", field=field)
    elif kind not in (None, *_CALLS):
        raise InputError(f"is a test of an unknown kind: {kind!r:.40}", field=field)
    return Pair(values[0], values[1], (fields[0], fields[1]), named, bool(own and named))


def _refuse_files(value: Mapping[str, Any], inner: str, field: str) -> None:
    others = [name for name, content in value.items() if name != inner and content]
    if others:
        raise InputError(f"has {', '.join(others)} in addition to {inner}, which is not supported", field=field)


def function_name(value: object, field: str) -> str:
    """The function that a field names; empty if it names none, perhaps in words (`none`)."""
    if value is None or (isinstance(value, str) and value.strip().casefold() in _NO_FUNCTION):
        return ""
    with suppress(AttributeError, InputError):
        name: str = value.strip()  # type: ignore[attr-defined]
        named_function(name)
        return name
    raise InputError(f"must be the name of a function, or Class.method, not {value!r:.40}", field=field)


# What a program reads or prints; some sets have it as an array of lines, or as a value that Python prints.
def _text(value: object, field: str) -> str:
    if isinstance(value, list) and all(isinstance(line, str | int | float) for line in value):
        return "\n".join(str(line) for line in value)
    if isinstance(value, int | float):
        return str(value)
    if not isinstance(value, str):
        raise InputError(f"must be a string, not {type_name(value)}", field=field)
    return value


def _calls(pairs: Sequence[Pair], code: str) -> dict[str, Any]:
    function = pairs[0].function
    is_method = "." not in function and re.search(rf"^class\s+{SOLUTION}\b", code, re.MULTILINE) is not None
    pairs = _unwrapped(pairs, code)
    arguments, expected = _arguments(pairs), _expected(pairs)
    if all(pair.is_of_apps for pair in pairs):
        arguments, expected = _with_integer_keys(arguments), _with_integer_keys(expected)
    return {
        "fn": f"{SOLUTION}.{function}" if is_method else function,
        "calls": tuple(map(_call, arguments, expected, pairs)),
    }


def _with_integer_keys(values: list[Any]) -> list[Any]:
    waiting, keys = list(values), set[Any]()
    while waiting:
        each = waiting.pop()
        if isinstance(each, list | tuple | Mapping):
            waiting += each.values() if isinstance(each, Mapping) else each
            keys |= each.keys() if isinstance(each, Mapping) else set()
    return list(map(_restored, values)) if keys and all(map(_is_integer, keys)) else values


def _is_integer(key: object) -> bool:
    return isinstance(key, str) and _INTEGER.fullmatch(key) is not None


def _restored(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {int(key): _restored(each) for key, each in value.items()}
    return [_restored(each) for each in value] if isinstance(value, list | tuple) else value


# Calls whose outputs stand in no lists of their own; if the function is annotated to return lists, they do not.
def _unwrapped(pairs: Sequence[Pair], code: str) -> Sequence[Pair]:
    if not all(pair.is_of_apps and isinstance(pair.expected, list) and len(pair.expected) == 1 for pair in pairs):
        return pairs
    name = re.escape(pairs[0].function.rpartition(".")[2])
    found = re.search(rf"\bdef\s+{name}\s*\([^)]*\)\s*->\s*['\"]?(?P<lists>{_LIST}(?:\[{_LIST})*)\b", code)
    levels = 0 if found is None else found["lists"].count("[") + 1
    if found is not None and max(_levels(pair.expected) for pair in pairs) <= levels:
        return pairs
    return [replace(pair, expected=pair.expected[0]) for pair in pairs]


def _levels(value: Any, depth: int = 0) -> int:
    if not isinstance(value, list) or depth > _MOST_LEVELS:
        return 0
    return 1 + max((_levels(each, depth + 1) for each in value), default=0)


def _call(arguments: list[Any], expected: Any, pair: Pair) -> Call:
    try:
        return Call.of(arguments, expected)
    except InputError as error:
        raise InputError(error.reason, field=pair.fields[error.field == "[1]"]) from None


# The arguments of calls: arrays, or texts with a value in each line.
def _arguments(pairs: Sequence[Pair]) -> list[list[Any]]:
    texts = [pair.given for pair in pairs if isinstance(pair.given, str)]
    lines = [[line.strip() for line in text.split("\n") if line.strip()] for text in texts]
    counts = set(map(len, lines))
    if len(counts) > 1 and not all(map(_is_value, (line for each in lines for line in each))):
        lines, counts = [[text.strip("\n")] for text in texts], {1}  # one text, of several lines
    is_bare = [not all(map(_is_value, column)) for column in zip(*lines, strict=True)] if len(counts) == 1 else []
    read = iter(lines)
    return [_arguments_of(pair, is_bare, read) for pair in pairs]


def _arguments_of(pair: Pair, is_bare: Sequence[bool], lines: Iterator[list[str]]) -> list[Any]:
    if isinstance(pair.given, list | tuple):
        return list(pair.given)
    if isinstance(pair.given, Mapping):
        raise InputError(
            "must be an array of arguments, not an object: keyword arguments are not supported", field=pair.fields[0]
        )
    if not isinstance(pair.given, str):
        return [pair.given]
    try:
        return [_value(line, bare, pair.fields[0]) for line, bare in zip_longest(next(lines), is_bare)]
    except InputError as error:
        reason = f"must be an array of arguments, or text with a JSON value in each line, not {pair.given!r:.40}"
        raise InputError(reason, field=error.field) from error


# What calls return: where the arguments are text, so is this.
def _expected(pairs: Sequence[Pair]) -> list[Any]:
    texts = [pair.expected for pair in pairs if isinstance(pair.given, str) and isinstance(pair.expected, str)]
    is_bare = not all(map(_is_value, texts))
    return [
        _value(pair.expected, is_bare, pair.fields[1])
        if isinstance(pair.given, str) and isinstance(pair.expected, str)
        else pair.expected
        for pair in pairs
    ]


# Whether a text is a value, or must be one because it begins like one; else it is the value itself, unquoted.
def _is_value(text: str) -> bool:
    if text.lstrip().startswith(("[", "{", '"', "'")):
        return True
    try:
        return _value(text, False, "") is not text
    except InputError:
        return False


# The value of a text: JSON, a Python literal, or the text where it is bare and not quoted.
def _value(text: str, is_bare: bool | None, field: str) -> Any:
    if is_bare and not text.lstrip().startswith('"'):
        return text.removesuffix("\n")
    try:
        return json_value(text, field)
    except InputError:
        bare = text.strip()
        written = _literal(bare) if text.lstrip().startswith(("'", "(", *_CONSTANTS)) else bare
        # `()` is a text of brackets, not a tuple.
        if written in (bare, ()):
            raise
        return written


def _literal(text: str) -> Any:
    try:
        with compiling():
            return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text
