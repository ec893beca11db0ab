"""What checks change of the world around a completion: facts of their source, and carried to its process."""

from __future__ import annotations

import pytest
from tests.unit.rewards.test_isolated_judge import judged

from sandrl.events.results import Status, Trust
from sandrl.judge.facts import facts_of
from sandrl.judge.judge import Judge
from sandrl.judge.limits import Limits
from sandrl.judge.patches import changes_of, draws
from sandrl.judge.verdict import Verdict
from sandrl.problems import Problem

DRAW = "import random\ndef f():\n    return random.random()"


def problem_of(*tests: str, reference: str | None = None, setup: str = "") -> Problem:
    return Problem("t", "", tests=tests, entry_point="f", reference=reference, setup=setup)


@pytest.mark.parametrize(
    ("check", "kinds", "places"),
    [
        ("assert f([1, 2]) == 3", (), ()),
        ("import math\nassert f(2) == math.sqrt(4)", (), ()),
        ("box = f()\nbox.size = 3\nassert box.size == 3", (), ()),
        ("from unittest.mock import patch\nwith patch('time.sleep'):\n    assert f()", ("mock",), ()),
        ("import unittest.mock as um\n@um.patch.object(str, 'x')\ndef t(m):\n    assert f()\nt()", ("mock",), ()),
        ("import os\nos.environ['A'] = 'b'\nassert f()", ("environ",), ()),
        ("from os import environ as e\ne.update(A='b')\nassert f()", ("environ",), ()),
        ("import os\nos.chdir('/')\nassert f()", ("directory",), ()),
        ("from random import seed\nseed(1)\nassert f()", ("random",), ()),
        ("import numpy as np\nnp.random.seed(1)\nassert f()", ("numpy.random",), ()),
        ("import decimal\ndecimal.getcontext().prec = 3\nassert f()", ("decimal",), ()),
        ("import time as t\nt.sleep = print\nassert f()", (), ("time.sleep",)),
        ("import os\nsetattr(os.path, 'exists', bool)\nassert f()", (), ("os.path.exists",)),
    ],
)
def test_what_checks_change_is_read_from_their_source(
    check: str, kinds: tuple[str, ...], places: tuple[str, ...]
) -> None:
    found = changes_of(problem_of(check))
    assert (found.kinds, found.places, found.obstacle) == (kinds, places, "")


@pytest.mark.parametrize(
    "check",
    [
        "from unittest.mock import patch\nwith patch('builtins.len', return_value=1):\n    assert f('') == 1",
        "import builtins\nbuiltins.isinstance = print\nassert f()",
        "from unittest.mock import PropertyMock, patch\nwith patch('m.C.x', PropertyMock()):\n    assert f()",
        "import os\nfor name in ('a', 'b'):\n    setattr(os, name, 1)\nassert f()",
        "import random\nrandom.seed(1)\na = f()\nassert a != random.random()",
        "import random\nrandom.seed(1)\nfor _ in range(3):\n    x = random.random()\n    assert f() != x",
    ],
)
def test_where_a_change_cannot_be_carried_all_is_judged_in_one_process_whatever_a_completion_does(check: str) -> None:
    problem = problem_of(check)
    assert changes_of(problem).obstacle
    trials = Judge().calibrate(problem, Limits())
    assert [trial.prepare().trust for trial in (next(trials),)] == [Trust.IN_PROCESS]
    with pytest.raises(StopIteration) as end:
        trials.send(Verdict(Status.FAILED, Trust.IN_PROCESS, 0, 1))
    assert not end.value.value.splits


def test_a_check_that_draws_inputs_after_calls_is_no_obstacle_where_the_reference_draws_nothing() -> None:
    check = "import random\nrandom.seed(1)\nfor _ in range(3):\n    n = random.randint(0, 9)\n    assert f(n) == n + 1"
    assert not changes_of(problem_of(check, reference="def f(n):\n    return n + 1\n")).obstacle
    assert changes_of(problem_of(check, reference="import random\ndef f(n):\n    random.shuffle([n])\n")).obstacle


def test_where_isolation_is_required_such_a_problem_gets_no_reward_from_either_way() -> None:
    judge = Judge(require_isolated=True)
    problem = problem_of(
        "from unittest.mock import patch\nwith patch('builtins.len', return_value=1):\n    assert f() == 1"
    )
    trials = judge.calibrate(problem, Limits())
    known = next(trials)
    assert known.prepare().trust is Trust.IN_PROCESS
    with pytest.raises(StopIteration) as end:
        trials.send(Verdict(Status.PASSED, Trust.IN_PROCESS, 1, 1))
    refused = judge.refusal(problem, end.value.value)
    assert refused is not None
    assert refused.status is Status.NOT_ISOLATED


def test_draws_are_facts_of_the_reference_and_the_checks() -> None:
    assert draws(problem_of("assert f() < 1", reference=DRAW))
    assert draws(problem_of("import random\nassert f(random.random())"))
    assert not draws(problem_of("assert f(2) == 3", reference="def f(n):\n    return n + 1\n"))


def test_what_is_carried_is_no_reason_for_one_process() -> None:
    assert not facts_of(
        problem_of("from unittest import mock\nwith mock.patch('time.time'):\n    assert f()")
    ).needs_one_process
    assert facts_of(problem_of("import os\nassert f() and os.environ['A'] == 'b'")).needs_one_process


CHANGES = (
    ("import time\ndef f():\n    return time.time()", "mock.patch('time.time', return_value=1)", "f() == 1"),
    ("import os\ndef f():\n    return os.getenv('A')", "mock.patch.dict(os.environ, A='b')", "f() == 'b'"),
    (
        "def f():\n    return open('x').read()",
        "mock.patch('builtins.open', mock.mock_open(read_data='b'))",
        "f() == 'b'",
    ),
    ("def g():\n    return 1\ndef f():\n    return g()", "mock.patch('solution.g', return_value=2)", "f() == 2"),
)


@pytest.mark.parametrize(("code", "change", "expected"), CHANGES)
def test_a_change_reaches_the_completion_and_ends_with_its_block(code: str, change: str, expected: str) -> None:
    begin = "import os\nfrom unittest import mock\n"
    inside = problem_of(f"{begin}with {change}:\n    assert {expected}")
    after = problem_of(f"{begin}with {change}:\n    pass\nassert {expected}")
    verdict = judged(inside, code)
    assert (verdict.status, verdict.trust) == (Status.PASSED, Trust.ISOLATED), verdict.detail
    assert judged(after, code).status is Status.FAILED


def test_a_seed_of_a_check_is_the_completions_and_draws_go_on_from_there() -> None:
    check = "import random\nrandom.seed(3)\na, b = f(), f()\nrandom.seed(3)\nassert (a, b) == (f(), f()) and a != b"
    verdict = judged(problem_of(check), DRAW)
    assert (verdict.status, verdict.trust) == (Status.PASSED, Trust.ISOLATED), verdict.detail


def test_a_completion_cannot_choose_what_a_check_draws() -> None:
    check = "import random\nf()\nassert len({random.random() for _ in range(9)}) == 9"
    code = "import random\ndef f():\n    random.setstate((3, (0,) * 624 + (624,), None))"
    verdict = judged(problem_of(check, reference="def f(): pass"), code)
    assert (verdict.status, verdict.trust) == (Status.PASSED, Trust.ISOLATED), verdict.detail
