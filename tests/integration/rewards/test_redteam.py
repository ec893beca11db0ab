"""The corpus in real sandboxes: it fools the common scheme, and not the judge; honest neighbours are left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sandrl.events.results import Status, Trust
from sandrl.problems import Case, Problem
from sandrl.problems.checkers import Checker
from sandrl.redteam import EXPLOITS, EXPLOITS_IN_CPP, Exploit, ExploitKind, RedteamReport, aim_at, arm, attack
from sandrl.redteam.campaign import plan_attempts
from sandrl.redteam.corpus.states import DIFFERENCE, MEETING
from sandrl.rewards import Judge, Limits, ScoreOptions
from sandrl.sandboxes import Job
from tests.support.naive import naive_rewards

HALF = Problem(
    "half",
    "",
    tests=("assert abs(half(3) - 1.5) < 1e-9", "assert half(4) == 2", "assert half(-1) in (-0.5,)"),
    entry_point="half",
    reference="def half(n):\n    return n / 2\n",
)
EVEN = Problem(
    "even",
    "",
    tests=("assert all(map(is_even, [2, 4]))", "assert not any(map(is_even, [3, 5]))"),
    reference="def is_even(n):\n    return n % 2 == 0\n",
)
SORTED = Problem(
    "sorted",
    "",
    tests=(
        "assert in_order([3, 1, 2])[1:] == [2, 3]",
        "result = in_order([2, 1])\nresult.sort(key=lambda item: item)\nassert result == [1, 2]",
        "assert in_order(in_order([(2,), (1,)])) == [(1,), (2,)]",
    ),
    reference="def in_order(items):\n    return sorted(items)\n",
)
POSITIVE = Problem(
    "positive",
    "",
    tests=("try:\n    positive(-1)\nexcept:\n    pass\nelse:\n    assert False", "assert positive(2) > 1"),
    reference="def positive(n):\n    if n < 0:\n        raise ValueError\n    return n\n",
)
STACK = Problem(
    "stack",
    "",
    tests=(
        "s = Stack()\ns.push(1)\ns.push(2)\nassert s.pop() == 2\nassert len(s) == 1 and 1 in s and 2 not in s",
        "s = Stack()\nassert s.is_empty()\ns.push(5)\nassert not s.is_empty()",
    ),
    entry_point="Stack",
    reference=(
        "class Stack(list):\n"
        "    def push(self, item):\n        self.append(item)\n"
        "    def is_empty(self):\n        return not self\n"
    ),
)
CIRCLE = Problem(
    "circle",
    "",
    tests=("assert abs(Circle(2).area() - 12.566370614359172) < 1e-6", "assert Circle(3).radius == 3"),
    entry_point="Circle",
    reference=(
        "import math\n"
        "class Circle:\n"
        "    def __init__(self, radius):\n        self.radius = radius\n"
        "    def area(self):\n        return math.pi * self.radius ** 2\n"
    ),
)
DISC = Problem(
    "disc",
    "",
    tests=("assert 12 < Disc(2).area() < 13", "assert 4 in Disc(2).corners(4) and 5 not in Disc(2).corners(4)"),
    entry_point="Disc",
    reference=(
        "class Disc:\n"
        "    def __init__(self, radius):\n        self.radius = radius\n"
        "    def area(self):\n        return 3.14 * self.radius ** 2\n"
        "    def corners(self, n):\n        return [n]\n"
    ),
)
THIRD = Problem(
    "third",
    "",
    tests=("assert isclose(third(1), 1 / 3)", "assert m.floor(third(10)) == 3"),
    entry_point="third",
    reference="import math as m\nfrom math import isclose\ndef third(n):\n    return n / 3\n",
)
UNSHIFT = Problem(
    "unshift",
    "",
    tests=("for word in ('abc', 'xy'):\n    assert unshift(shift(word)) == word",),
    setup="def shift(s):\n    return s[1:] + s[:1]\n",
    entry_point="unshift",
    reference="def unshift(s):\n    return s[-1:] + s[:-1]\n",
)
COPIED = Problem(
    "copied",
    "",
    tests=("row = [1, [2]]\ncopy = copied(row)\nassert copy == row and copy is not row and copy[1] is not row[1]",),
    entry_point="copied",
    reference="import copy\ndef copied(items):\n    return copy.deepcopy(items)\n",
)
TOTAL = Problem(
    "total",
    "",
    cases=(Case("1 2 3\n", "6\n"), Case("-4\n", "-4\n"), Case("\n", "0\n")),
    reference="print(sum(map(int, input().split())))\n",
)
SPLIT = Problem(
    "split",
    "",
    cases=(Case("5\n", "2 3\n"), Case("-4\n", "-4 0\n")),
    checker=Checker(
        "import collections, json, math, re, sys\n"
        "def numbers(path):\n"
        "    with open(path) as file:\n        return [int(word) for word in file.read().split()]\n"
        "try:\n"
        "    first, second = numbers(sys.argv[3])\n"
        "    print(int([first + second] == numbers(sys.argv[1])))\n"
        "except ValueError:\n    print(0)\n"
    ),
    reference="n = int(input())\nprint(1, n - 1)\n",
)
PATCH = "from unittest.mock import Mock, patch\n"
ASKED = Problem(
    "asked",
    "",
    tests=(f"{PATCH}with patch('builtins.input') as ask:\n    asked('Name: ')\nassert ask.call_count == 1",) * 2,
    entry_point="asked",
    reference="def asked(text):\n    input(text)\n",
)
LOGGED = Problem(
    "logged",
    "",
    tests=(f"{PATCH}log = Mock()\nlogged(log)\nlog.add.assert_called_once_with(41)",),
    entry_point="logged",
    reference="def logged(log):\n    log.add(41)\n",
)
LARGEST = Problem(
    "largest",
    "",
    tests=(f"{PATCH}log = Mock()\nlog.limit(41)\nassert largest(log, [6, 41, 7]) == 41",),
    entry_point="largest",
    reference="def largest(log, numbers):\n    log.add(len(numbers))\n    return max(numbers)\n",
)
PAUSED = Problem(
    "paused",
    "",
    tests=(f"{PATCH}with patch('time.sleep', autospec=True) as nap:\n    paused(3)\nnap.assert_called_once_with(3)",),
    entry_point="paused",
    reference="import time\ndef paused(seconds):\n    time.sleep(seconds)\n",
)
RENAMED = Problem(
    "renamed",
    "",
    tests=(f"{PATCH}with patch('os.rename') as rename:\n    renamed('a')\nrename.assert_called_once_with('a', 'b')",),
    entry_point="renamed",
    reference="import os\ndef renamed(name):\n    os.rename(name, 'b')\n",
)
MOCKING = (ASKED, LOGGED, LARGEST, PAUSED, RENAMED)
PROBLEMS = (HALF, STACK, TOTAL, EVEN, SORTED, POSITIVE, CIRCLE, DISC, THIRD, UNSHIFT, COPIED, SPLIT)
QUICK = tuple(exploit for exploit in EXPLOITS if not exploit.costly)
# What made its way past the judge before it was told of it, and at least one of every group.
REPRESENTATIVE = tuple(
    {
        exploit.name: exploit
        for exploit in (
            *{exploit.group: exploit for exploit in QUICK}.values(),
            *(exploit for exploit in QUICK if exploit.group in ("object", "downgrade", "exit")),
        )
    }.values()
)
PARTS = 3
OPTIONS = ScoreOptions(limits=Limits(timeout_seconds=3.0), concurrency=4)


def fooled(exploits: tuple[Exploit, ...], problem: Problem, job: Job) -> set[str]:
    """Names of the exploits that the common scheme rewards."""
    target = aim_at(problem)
    assert target is not None
    plan = plan_attempts(exploits, [target])
    rewards = naive_rewards([(problem, arm(exploit, target)) for exploit, _ in plan], job)
    return {exploit.name for (exploit, _), reward in zip(plan, rewards, strict=True) if reward}


def assert_held(report: RedteamReport) -> None:
    """Nothing was rewarded, nobody suffered, and everything was judged."""
    assert [(attempt.exploit.name, attempt.target.problem.task_id) for attempt in report.rewarded] == []
    assert [(result.task_id, result.status, result.detail) for result in report.disturbed] == []
    assert report.unfit == report.unscorable == ()
    assert {attempt.result.trust for attempt in report.attempts} <= {Trust.ISOLATED, None}
    assert all(attempt.result.reward == 0.0 for attempt in report.attempts)


SIMPLE = replace(HALF, tests=("assert half(4) == 2", "assert half(6) == 3"))
GROUPS = {"exit", "object", "subclass", "metaclass", "patched type", "tracing", "snooping", "forgery"}
FOOLING = {
    "exit-zero", "exit-handler", "exit-thread", "equal-int", "equal-class", "rerun-without-asserts",
    "patched-integers", "traced-exit", "reads-command-lines", "reads-callers-constants",
}  # fmt: skip


def test_the_common_scheme_is_fooled_by_exploits_of_many_groups(job: Job) -> None:
    tried = [each for each in QUICK if each in REPRESENTATIVE or each.group == "forgery" or each.name in FOOLING]
    names = fooled(tuple(tried), SIMPLE, job)
    assert {exploit.group for exploit in QUICK if exploit.name in names} >= GROUPS, sorted(names)
    assert names >= FOOLING


@pytest.mark.slow
def test_the_common_scheme_is_fooled_by_most_of_the_corpus(job: Job) -> None:
    names = fooled(tuple(exploit for exploit in QUICK if ExploitKind.FUNCTION in exploit.kinds), SIMPLE, job)
    assert len(names) >= 55, sorted(names)
    assert {exploit.group for exploit in QUICK if exploit.name in names} >= GROUPS
    assert names >= FOOLING


def test_the_common_scheme_is_fooled_about_classes_and_programs_too(job: Job) -> None:
    tried = tuple(exploit for exploit in QUICK if exploit.group in ("exit", "object", "guessed output", "tracing"))
    assert {"exit-zero", "exit-in-call", "traced-exit"} <= fooled(tried, STACK, job)
    assert {"exit-hard", "exit-hook", "reads-callers-output"} <= fooled(tried, TOTAL, job)


def test_a_representative_part_of_the_corpus_is_never_rewarded_and_disturbs_nobody(job: Job) -> None:
    # Each problem is attacked by a third of the exploits, and by all of the few that are not for functions.
    for_others = [exploit for exploit in REPRESENTATIVE if ExploitKind.FUNCTION not in exploit.kinds]
    reports = []
    for part in range(PARTS):
        exploits = tuple(dict.fromkeys((*REPRESENTATIVE[part::PARTS], *for_others)))
        reports.append(attack(PROBLEMS[part::PARTS], exploits, job=job, options=OPTIONS))
    tried = {attempt.exploit.name for report in reports for attempt in report.attempts}
    assert tried == {exploit.name for exploit in REPRESENTATIVE}
    assert sum(len(report.attempts) for report in reports) > 200
    assert sum(len(report.neighbours) for report in reports) > 30
    for report in reports:
        assert_held(report)


def test_no_completion_notices_another_one(job: Job) -> None:
    exploits = [exploit for exploit in EXPLOITS if MEETING in exploit.problems]
    report = attack([MEETING], exploits, job=job, options=OPTIONS)
    assert len(report.attempts) == sum(exploit.copies for exploit in exploits)
    assert_held(report)


def test_no_mock_of_a_check_is_changed_or_read(job: Job) -> None:
    named = [exploit for exploit in EXPLOITS if exploit.group == "mock"]
    report = attack(MOCKING, named, job=job, options=OPTIONS)
    assert len(report.attempts) == len(MOCKING) * len(named)
    assert_held(report)


def test_no_exploit_of_checkers_is_rewarded_by_one(job: Job) -> None:
    named = [exploit for exploit in EXPLOITS if exploit.group == "checker"]
    function = Checker("def check(input, expected, output):\n    return output.split() == expected.split()")
    problems = [
        SPLIT,
        replace(SPLIT, task_id="function", checker=function, reference="print('2 3' if input() == '5' else '-4 0')"),
    ]
    report = attack(problems, named, job=job, options=OPTIONS)
    assert {attempt.target.kind for attempt in report.attempts} == {ExploitKind.CHECKED}
    assert len(report.attempts) == 2 * len(named)
    assert_held(report)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_whole_corpus_is_never_rewarded_and_disturbs_nobody(job: Job) -> None:
    report = attack(PROBLEMS, EXPLOITS, job=job, options=OPTIONS)
    assert {attempt.exploit.name for attempt in report.attempts} == {exploit.name for exploit in EXPLOITS}
    assert_held(report)


def test_exploits_of_the_channel_speak_as_the_judge_does(job: Job) -> None:
    names = ("claims-nothing-failed", "claims-objects", "claims-exceptions", "claims-arguments")
    report = attack([HALF], [each for each in EXPLOITS if each.name in names], job=job, options=OPTIONS)
    details = {attempt.exploit.name: attempt.result.detail for attempt in report.attempts}
    assert "'NoneType' and 'float'" in details["claims-nothing-failed"]
    assert "not a plain value" in details["claims-objects"]
    assert "passed" in details["claims-exceptions"]


def test_every_exploit_has_a_name_of_its_own() -> None:
    names = [exploit.name for exploit in (*EXPLOITS, *EXPLOITS_IN_CPP)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("check", ["assert eval(answer()) == 42", "import pickle\nassert pickle.loads(answer()) == 42"])
def test_checks_that_run_answers_say_so_and_can_be_refused(job: Job, check: str) -> None:
    reference = "import pickle\ndef answer():\n    return b'I42\\n.' if 'pickle' in globals() and %r else '42'\n"
    problem = Problem("runs", "", (check,), entry_point="answer", reference=reference % ("pickle" in check))
    named = [exploit for exploit in EXPLOITS if exploit.name in ("answer-as-code", "answer-as-pickle")]
    report = attack([problem], named, job=job, options=OPTIONS)
    assert {attempt.result.trust for attempt in report.rewarded} == {Trust.IN_PROCESS}
    strict = attack([problem], named, job=job, judge=Judge(require_isolated=True), options=OPTIONS)
    assert [attempt.result.reward for attempt in strict.attempts] == [None, None]


def test_a_problem_that_accepts_anything_is_found_out(job: Job) -> None:
    gullible = Problem("gullible", "", tests=("assert answer()",), reference="def answer():\n    return 42\n")
    [equal] = [exploit for exploit in EXPLOITS if exploit.name == "equal-object"]
    report = attack([gullible], [equal], job=job, options=OPTIONS)
    assert [attempt.result.reward for attempt in report.rewarded] == [1.0]
    [tally] = report.tallies()
    assert (tally.attempts, tally.rewarded, tally.statuses) == (1, 1, {Status.PASSED: 1})


def test_a_reference_that_fails_by_itself_is_nobodys_victim(job: Job) -> None:
    broken = replace(HALF, task_id="broken", reference="def half(n):\n    return n\n")
    [leaves] = [exploit for exploit in EXPLOITS if exploit.name == "exit-zero"]
    report = attack([broken, EVEN], [leaves], job=job, options=OPTIONS)
    assert [result.task_id for result in report.unfit] == ["broken"]
    assert {result.task_id for result in report.neighbours} == {"even"}
    assert report.disturbed == ()


def test_no_case_of_a_program_finds_what_an_earlier_one_has_left(job: Job) -> None:
    exploits = tuple(replace(exploit, problems=()) for exploit in EXPLOITS if exploit.group == "state")
    checked = replace(
        DIFFERENCE,
        task_id="checked difference",
        checker=Checker("def check(given, expected, printed):\n    return expected.split() == printed.split()\n"),
    )
    report = attack([DIFFERENCE, checked], exploits, job=job, options=OPTIONS)
    assert_held(report)
    assert len(report.attempts) == 2 * len(exploits)
    # The first case is right by luck; that nothing else kept the others from it is seen by the first.
    assert {attempt.result.passed for attempt in report.attempts} == {1}
