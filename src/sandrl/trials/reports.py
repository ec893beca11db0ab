"""Reads the checks of a verdict from the reports of test programs: CTRF (JSON) and JUnit (XML).

A report only explains a reward and never changes it. It was written in a sandbox, so it is hostile: its size, depth,
number of tests and texts are bounded, and an XML document with a declaration of a type or an entity is refused. A file
that is not a report has no checks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from xml.parsers import expat

from sandrl.events.results import CheckStatus, CheckVerdict

MOST_BYTES = 8 << 20
"""A report that is larger is left out."""

_MOST_CHECKS = 10_000
_NAME_CHARACTERS = 300
_DETAIL_CHARACTERS = 500
_MOST_DEPTH = 64

# Those of CTRF and, by the elements of a test case, of JUnit.
_STATUSES: Mapping[str, CheckStatus] = {
    "passed": CheckStatus.PASSED,
    "failed": CheckStatus.FAILED,
    "failure": CheckStatus.FAILED,
    "error": CheckStatus.FAILED,
    "skipped": CheckStatus.NOT_RUN,
    "pending": CheckStatus.NOT_RUN,
    "other": CheckStatus.FAILED,
}


def read_checks(files: Mapping[str, bytes]) -> tuple[CheckVerdict, ...]:
    """The checks in the first report among files, by their names: `ctrf.json`, other `*.json`, `*.xml`."""
    names = sorted(files, key=lambda name: (name != "ctrf.json", not name.endswith(".json"), name))
    for name in names:
        reader = _READERS.get(name.rpartition(".")[2].lower())
        checks = () if reader is None or len(files[name]) > MOST_BYTES else reader(files[name])
        if checks:
            return checks
    return ()


def check_of(name: str, status: CheckStatus, detail: str = "") -> CheckVerdict:
    """A check with texts that a report or a log has: each becomes one line of bounded length."""
    return CheckVerdict(status, _line(detail, _DETAIL_CHARACTERS), _line(name, _NAME_CHARACTERS))


def _read_ctrf(content: bytes) -> tuple[CheckVerdict, ...]:
    try:
        tests = json.loads(content)["results"]["tests"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ()
    if not isinstance(tests, list):
        return ()
    found = (_ctrf_check(test) for test in tests[:_MOST_CHECKS])
    return tuple(check for check in found if check is not None)


def _ctrf_check(test: Any) -> CheckVerdict | None:
    if not isinstance(test, dict) or not isinstance(name := test.get("name"), str):
        return None
    status = _STATUSES.get(str(test.get("status")), CheckStatus.FAILED)
    suite = test.get("suite")
    suite = ".".join(str(each) for each in suite) if isinstance(suite, list) else suite
    full = f"{suite}::{name}" if isinstance(suite, str) and suite and not name.startswith(suite) else name
    told = (test.get(field) for field in ("message", "trace"))
    detail = "" if status is CheckStatus.PASSED else _reason(each for each in told if isinstance(each, str))
    return check_of(full, status, detail)


class _JunitReader:
    # Of each test case: its name, and the first element in it that is an outcome, with its message and its text.
    def __init__(self) -> None:
        self.checks: list[CheckVerdict] = []
        self._depth = 0
        self._name = ""
        self._outcome = ""
        self._message = ""
        self._text: list[str] | None = None

    def start(self, element: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _MOST_DEPTH or len(self.checks) >= _MOST_CHECKS:
            raise _NoReport
        kind = _local(element)
        if kind == "testcase":
            place, name = attributes.get("classname", ""), attributes.get("name", "")
            self._name = f"{place}::{name}" if place else name
            self._outcome = self._message = ""
            self._text = None
        elif kind in _STATUSES and self._name and not self._outcome:
            self._outcome, self._message, self._text = kind, attributes.get("message", ""), []

    def text(self, data: str) -> None:
        if self._text is not None and sum(map(len, self._text)) < _DETAIL_CHARACTERS * 8:
            self._text.append(data)

    def end(self, element: str) -> None:
        self._depth -= 1
        kind = _local(element)
        if kind == self._outcome and self._text is not None:
            self._message = _reason((self._message, "".join(self._text)))
            self._text = None
        elif kind == "testcase":
            self.checks.append(check_of(self._name, _STATUSES[self._outcome or "passed"], self._message))
            self._name = ""


class _NoReport(Exception):
    pass


def _read_junit(content: bytes) -> tuple[CheckVerdict, ...]:
    reader = _JunitReader()
    parser = expat.ParserCreate()
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = _refuse
    try:
        parser.Parse(content, True)
    except (expat.ExpatError, _NoReport, ValueError, LookupError):
        return ()
    return tuple(reader.checks)


def _refuse(*_: object) -> None:
    raise _NoReport


_READERS: Mapping[str, Callable[[bytes], tuple[CheckVerdict, ...]]] = {"json": _read_ctrf, "xml": _read_junit}


def _local(element: str) -> str:
    return element.rpartition(":")[2]


def _reason(texts: Iterable[str]) -> str:
    # The last line of a trace that says something, where there is no message: pytest's begin with `E`.
    for text in texts:
        lines = [line.strip() for line in text[-_DETAIL_CHARACTERS * 8 :].splitlines() if line.strip()]
        if lines:
            errors = [line.removeprefix("E").strip() for line in lines if line.startswith("E ")]
            return (errors or lines)[0]
    return ""


def _line(text: str, most: int) -> str:
    line = " ".join("".join(each if each.isprintable() else " " for each in text[: 4 * most]).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
