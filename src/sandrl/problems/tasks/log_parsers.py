"""Reads the results of tests in the output of a verifier: which passed, and which did not.

The code of the agent runs in the process of the tests, so it can print what it likes. Three rules follow: a test that
is reported as failed anywhere has failed; a report that does not fit the exit status of its program counts as false;
and no text can keep this process busy. The parsers of Terminal-Bench's first format are here. Those of SWE rows are the
ones of `swebench`, which run in a process of their own, because their patterns take hours for some texts.
"""

from __future__ import annotations

import difflib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata, util
from pathlib import Path
from typing import TypeAlias

from sandrl.errors import InputError, MissingExtraError
from sandrl.installation import install_command

SWEBENCH = "swebench:"
"""Begins the name of a parser of the package `swebench`; the version and the name of the row may follow, as in
`swebench:parse_log_karma@1.2@owner__name-1`, because some of its parsers differ by them."""

START, END, EXIT, CANARY = (
    f">>>>> {text}" for text in ("Start Test Output", "End Test Output", "Test Exit Code", "Canary")
)
"""Lines that scripts of SWE rows print around the output of tests, as `swebench` has them; the last is of sandrl."""

MOST_CHARACTERS = 64 << 20
_MOST_TESTS = 200_000
_MOST_NAME = 4_000
_MOST_REASON = 300
_PARSER_SECONDS = 120.0


class Outcome(StrEnum):
    """How a test ended, as far as its output says so."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    MISSING = "missing"


Outcomes: TypeAlias = dict[str, Outcome]


@dataclass(frozen=True, slots=True)
class NamedTest:
    """One test: its name, how it ended, whether that is good enough, and why it failed, if the output says so."""

    name: str
    outcome: Outcome
    passes: bool
    is_required: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TestReading:
    """What the output of a verifier says.

    Attributes:
        tests: The required tests in their order, or all that were found; then what shows that a report is false.
        failure: Why the output says nothing, which is a failure of the verifier; empty if it says something.
    """

    __test__ = False

    tests: tuple[NamedTest, ...] = ()
    failure: str = ""

    @property
    def reward(self) -> float | None:
        """1 if every test passes, 0 if one does not, None without a reading."""
        return None if self.failure else float(all(test.passes for test in self.tests))


def check_parser(parser: str) -> None:
    """Makes sure that a parser can be used, before a sandbox starts.

    Raises:
        InputError: If there is no such parser.
        MissingExtraError: If it is one of `swebench`, which is not installed.
    """
    if parser.startswith(SWEBENCH):
        name = parser.removeprefix(SWEBENCH).partition("@")[0]
        names = re.findall(r'"(parse_log_\w+)"', (_swebench_directory() / "__init__.py").read_text())
        if name not in names:
            known = f"; did you mean {near[0]}?" if (near := difflib.get_close_matches(name, names, n=1)) else ""
            raise InputError(f"swebench has no parser {name!r:.60}{known}", field="log_parser")
    elif parser not in _PARSERS:
        raise InputError(f"there is no parser {parser!r:.60} of test results", hint=f"use one of {', '.join(_PARSERS)}")


def read_tests(parser: str, output: str, required: Iterable[str] = (), may_skip: Iterable[str] = ()) -> TestReading:
    """Reads the results of tests in the output of a verifier.

    Args:
        parser: The name of a parser, with which `check_parser` has no problem.
        output: Standard output and standard error, in the order in which they were written.
        required: The tests that must be found and pass; empty for all that are found, and at least one.
        may_skip: Those of them that may be skipped as well.

    Raises:
        InputError: If there is no such parser.
        MissingExtraError: If it is one of `swebench`, which is not installed.
    """
    check_parser(parser)
    if len(output) > MOST_CHARACTERS:
        return TestReading(failure=f"the output of the tests is longer than {MOST_CHARACTERS >> 20} MiB")
    if not parser.startswith(SWEBENCH):
        text = _plain(output)
        return _judged(_PARSERS[parser](text), text, tuple(required), frozenset(may_skip), ())
    before, inside, after, failure = _between_marks(output)
    if failure:
        return TestReading(failure=failure)
    found = _of_swebench(parser.removeprefix(SWEBENCH), inside)
    if isinstance(found, str):
        return TestReading(failure=found)
    signs = tuple(_signs_of_falsehood(found, before, after))
    return _judged(found, inside, tuple(required), frozenset(may_skip), signs)


def _judged(
    found: Outcomes, text: str, required: tuple[str, ...], may_skip: frozenset[str], signs: tuple[NamedTest, ...]
) -> TestReading:
    if not found:
        return TestReading(failure="no test was found in the output of the verifier")
    if len(found) > _MOST_TESTS:
        return TestReading(failure=f"the output of the verifier names more than {_MOST_TESTS:,} tests")
    reasons = _reasons(text)
    if not required:
        tests = tuple(
            NamedTest(name[:_MOST_NAME], each, each is not Outcome.FAILED, reason=reasons.get(name, ""))
            for name, each in found.items()
        )
        return TestReading(tests + signs)
    tests = tuple(
        NamedTest(
            name,
            outcome := _outcome_of(name, found),
            outcome is Outcome.PASSED or (outcome is Outcome.SKIPPED and name in may_skip),
            is_required=True,
            reason=reasons.get(name, "") if outcome is Outcome.FAILED else "",
        )
        for name in dict.fromkeys(required)
    )
    return TestReading(tests + signs)


# The end of a line of pytest's summary, by the name of the test and by its part after the file.
def _reasons(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in re.findall(r"^(?:FAILED|ERROR) (\S[^\n]{0,4000})", text, re.MULTILINE)[:_MOST_TESTS]:
        name, reason = _name_and_reason(line)
        if reason:
            found[name] = found[name.partition("::")[2]] = reason[:_MOST_REASON]
    return found


# Parameters, between brackets, may have the mark as well.
def _name_and_reason(line: str) -> tuple[str, str]:
    name, _, reason = line.partition(" - ")
    if name.count("[") > name.count("]"):
        parameters, bracket, rest = line.partition("] - ")
        name, reason = (parameters + "]", rest) if bracket else (line, "")
    return name.strip(), reason.strip()


# Published rows have names that end within a parameter, such as `test_a[log(photon`; all tests that begin so are meant.
def _outcome_of(name: str, found: Outcomes) -> Outcome:
    if name in found or name.count("[") <= name.count("]"):
        return found.get(name, Outcome.MISSING)
    outcomes = {each for other, each in found.items() if other.startswith(name)}
    return next(
        (each for each in (Outcome.FAILED, Outcome.SKIPPED, Outcome.PASSED) if each in outcomes), Outcome.MISSING
    )


# From the first mark of a start to the last one of an end: what the tests print in between cannot cut anything off.
def _between_marks(output: str) -> tuple[str, str, str, str]:
    before, start, rest = output.partition(START)
    if not start:
        return "", output, "", ""
    inside, end, after = rest.rpartition(END)
    if not end:
        return "", "", "", "the program of the tests did not come to its end"
    return before, inside, after, ""


# A test that must fail was added under a name that nobody knew before; and failures are in the exit status.
def _signs_of_falsehood(found: Outcomes, before: str, after: str) -> Iterator[NamedTest]:
    canary = re.search(rf"^{CANARY}: (\S+)$", before, re.MULTILINE)
    if canary is not None:
        outcomes = [each for name, each in found.items() if name.endswith(canary[1])]
        if outcomes != [Outcome.FAILED]:
            name = "a test that must fail, which was added to the others"
            yield NamedTest(name, outcomes[0] if outcomes else Outcome.MISSING, passes=False)
    code = re.search(rf"^{EXIT}: (\d+)", after, re.MULTILINE)
    if code is not None and code[1].strip("0") and Outcome.FAILED not in found.values():
        yield NamedTest(f"exit status {code[1][:6]} without a test that failed", Outcome.FAILED, passes=False)


# Parsers of Terminal-Bench.

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_SUMMARY = re.compile(r"^=+ *short test summary info *=+ *$", re.MULTILINE | re.IGNORECASE)
_PYTEST = {
    **dict.fromkeys(("PASSED", "XFAIL", "SKIPPED"), Outcome.PASSED),
    **dict.fromkeys(("FAILED", "XPASS", "ERROR"), Outcome.FAILED),
}


def _plain(output: str) -> str:
    return _ESCAPES.sub("", output).replace("\r\n", "\n")


# The lines of a summary: `PASSED tests/test_outputs.py::test_a`, `FAILED tests/test_outputs.py::test_b - reason`.
def _pytest_lines(output: str) -> Iterator[tuple[str, str]]:
    first = _SUMMARY.search(output)
    for line in () if first is None else output[first.end() :].splitlines():
        word, _, rest = line.partition(" ")
        word = word.rstrip(":")
        if word in _PYTEST and rest.strip():
            yield word, _name_and_reason(rest)[0] if word == "FAILED" else rest.strip()


# All summaries count, as a script may run several; a test that failed in one of them has failed.
def _pytest(output: str) -> Outcomes:
    return _worst((name.partition("::")[2] or name, _PYTEST[word]) for word, name in _pytest_lines(output))


def _worst(results: Iterable[tuple[str, Outcome]]) -> Outcomes:
    found: Outcomes = {}
    for name, outcome in results:
        if found.get(name) is not Outcome.FAILED:
            found[name] = outcome
    return found


# From the first mark to the last one; what the agent's code adds in between is no longer the one word that counts.
def _marked(title: str, word: str) -> Callable[[str], Outcomes]:
    def parse(output: str) -> Outcomes:
        _, start, rest = output.partition(f"{title} results starts here")
        block, end, _ = rest.rpartition(f"{title} results ends here")
        if not start or not end:
            return {}
        return {"tests": Outcome.PASSED if block.strip() == word else Outcome.FAILED}

    return parse


def _swelancer(output: str) -> Outcomes:
    text = output.lower()
    if "swe lancer failure" in text:
        return {"swelancer_task": Outcome.FAILED}
    is_done = "swe lancer success" in text or ("user_tool" in text and "completed" in text)
    return {"swelancer_task": Outcome.PASSED} if is_done else {}


# Rows of R2E-Gym name tests by class and function, without their file.
def _r2e(output: str) -> Outcomes:
    return _worst(
        (".".join(name.split("::")[1:]), _PYTEST[word]) for word, name in _pytest_lines(output) if "::" in name
    )


_PARSERS: Mapping[str, Callable[[str], Outcomes]] = {
    "pytest": _pytest,
    "swebench": _marked("SWEBench", "PASSED"),
    "sweperf": _marked("SWE-Perf", "PASSED"),
    "mlebench": _marked("MLEBench", "ALL TESTS PASSED"),
    "swelancer": _swelancer,
    "r2e": _r2e,
}

TERMINAL_BENCH_PARSERS = ("pytest", "swebench", "swelancer", "mlebench", "sweperf")
"""The names that `parser_name` may have in a `task.yaml`."""


# Parsers of `swebench`.

_SWEBENCH_OUTCOMES = {
    "PASSED": Outcome.PASSED,
    "XFAIL": Outcome.PASSED,
    "SKIPPED": Outcome.SKIPPED,
    "FAILED": Outcome.FAILED,
    "ERROR": Outcome.FAILED,
}


# The package needs datasets, docker and modal to be imported. Its parsers need none of them, so only their files are
# loaded, and the package may be installed without what it needs.
def _swebench_directory() -> Path:
    found = util.find_spec("swebench")
    if found is None or not found.submodule_search_locations:
        raise MissingExtraError("the package 'swebench' is not installed", hint=install_command("swe"))
    directory = Path(found.submodule_search_locations[0]) / "harness" / "log_parsers"
    if not directory.is_dir():
        version = metadata.version("swebench")
        raise MissingExtraError(f"swebench {version} has no parsers of logs", hint=install_command("swe"))
    return directory


# The outcomes, or why there are none.
def _of_swebench(named: str, text: str) -> Outcomes | str:
    name, _, row = named.partition("@")
    version, _, instance = row.partition("@")
    program = Path(__file__).with_name("swebench_parsers.py")
    command = [sys.executable, "-I", "-S", str(program), str(_swebench_directory().parents[1]), name, version, instance]
    try:
        done = subprocess.run(
            command, input=text.encode(errors="replace"), capture_output=True, timeout=_PARSER_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"the parser {name} did not end within {_PARSER_SECONDS:g} s"
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        return f"the parser {name} of swebench failed: {reason[0][:200]}"
    statuses = json.loads(done.stdout)
    return {test: outcome for test, status in statuses.items() if (outcome := _SWEBENCH_OUTCOMES.get(status))}
