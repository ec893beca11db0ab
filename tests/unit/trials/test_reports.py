"""Checks from the reports of test programs, which were written in a sandbox."""

from __future__ import annotations

import json

import pytest

from sandrl.events.results import CheckStatus
from sandrl.trials.reports import read_checks

_TESTS = [
    {"name": "t.py::test_a", "status": "passed"},
    {"name": "t.py::test_b", "status": "failed", "message": "AssertionError: 1 != 2\n  more", "trace": "E  x"},
    {
        "name": "t.py::test_c",
        "status": "failed",
        "trace": "def test_c():\n>   assert f() == 1\nE   assert 2 == 1\nt.py:3",
    },
    {"name": "t.py::test_d", "status": "skipped"},
    {"name": "t.py::test_e", "status": "strange"},
]
_CTRF = json.dumps({"results": {"tool": {"name": "pytest"}, "tests": _TESTS}}).encode()
_JUNIT = b"""<?xml version="1.0"?>
<testsuites><testsuite name="pytest" tests="4">
<testcase classname="tests.t" name="test_a" time="0.1"/>
<testcase classname="tests.t" name="test_b"><failure message="assert 1 == 2">E   assert 1 == 2</failure></testcase>
<testcase name="test_c"><error>Traceback\nE   ValueError: no\n</error><system-out>noise</system-out></testcase>
<testcase name="test_d"><skipped message="later"/></testcase>
</testsuite></testsuites>"""


def test_ctrf_gives_each_test_with_its_reason() -> None:
    checks = read_checks({"ctrf.json": _CTRF, "reward.txt": b"0"})
    assert [(check.name, check.status, check.detail) for check in checks] == [
        ("t.py::test_a", CheckStatus.PASSED, ""),
        ("t.py::test_b", CheckStatus.FAILED, "AssertionError: 1 != 2"),
        ("t.py::test_c", CheckStatus.FAILED, "assert 2 == 1"),
        ("t.py::test_d", CheckStatus.NOT_RUN, ""),
        ("t.py::test_e", CheckStatus.FAILED, ""),
    ]


def test_junit_gives_each_test_with_its_reason() -> None:
    checks = read_checks({"junit.xml": _JUNIT})
    assert [(check.name, check.status, check.detail) for check in checks] == [
        ("tests.t::test_a", CheckStatus.PASSED, ""),
        ("tests.t::test_b", CheckStatus.FAILED, "assert 1 == 2"),
        ("test_c", CheckStatus.FAILED, "ValueError: no"),
        ("test_d", CheckStatus.NOT_RUN, "later"),
    ]


def test_ctrf_comes_before_other_reports() -> None:
    assert len(read_checks({"a.xml": _JUNIT, "ctrf.json": _CTRF})) == 5
    assert len(read_checks({"a.xml": _JUNIT, "ctrf.json": b"{}"})) == 4


_BOMB = (
    b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><testsuite><testcase name="&b;"/></testsuite>'
)
_FILE = (
    b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><testsuite><testcase name="x">&a;</testcase></testsuite>'
)


@pytest.mark.parametrize(
    "content",
    [
        _BOMB,
        _FILE,
        b"<a>" * 100_000,
        b"<testsuite><testcase",
        b"",
        b"\xff\xfe",
        b'<?xml version="1.0" encoding="x"?><a/>',
    ],
    ids=["entities", "a file", "depth", "cut", "empty", "no text", "encoding"],
)
def test_hostile_xml_is_no_report(content: bytes) -> None:
    assert read_checks({"junit.xml": content}) == ()


@pytest.mark.parametrize("content", [b"[" * 100_000, b"[]", b'{"results": {"tests": 5}}', b'{"results": []}', b"\xff"])
def test_hostile_json_is_no_report(content: bytes) -> None:
    assert read_checks({"ctrf.json": content}) == ()


def test_texts_are_one_bounded_line_without_control_characters() -> None:
    tests = [{"name": "a\x1b[31m\nb" + "c" * 9000, "status": "failed", "message": "x\x00" + "y" * 9000}] * 20_000
    checks = read_checks({"ctrf.json": json.dumps({"results": {"tests": tests[:400]}}).encode()})
    assert len(checks) == 400
    assert checks[0].name.isprintable()
    assert len(checks[0].name) <= 300
    assert checks[0].detail.isprintable()
    assert len(checks[0].detail) <= 500
