"""What the object of a node answers, and when it refuses to work for a driver."""

from __future__ import annotations

import pickle
import platform

import pytest

from sandrl import __version__
from sandrl.fleet.actor import Actor, code_here

HERE = platform.python_version()
NOTHING = pickle.dumps(())


def test_a_class_is_made_and_a_module_is_taken_as_it_is() -> None:
    made = Actor(code_here(), HERE, "fractions:Fraction", pickle.dumps((6, 4)))
    assert made.call("as_integer_ratio") == ((3, 2), None)
    assert Actor(code_here(), HERE, "math", NOTHING).call("gcd", 12, 18) == (6, None)


def test_an_error_of_sandrl_is_an_answer() -> None:
    answer, refusal = Actor(code_here(), HERE, "sandrl.scoring.policies", NOTHING).call("load_policy", "nothing")
    assert answer is None
    assert refusal is not None
    assert "nothing" in refusal[0]


@pytest.mark.parametrize(
    ("code", "python", "problem"),
    [
        ((__version__, "0123"), HERE, "it has other code of the same version, and this machine has sandrl "),
        (("0.0.1", "0123"), HERE, f"it has sandrl {__version__}, and this machine has sandrl 0.0.1"),
        (code_here(), "2.7.18", f"it has Python {HERE}, and this machine has 2.7.18"),
    ],
)
def test_a_node_that_differs_refuses_every_call(code: tuple[str, str], python: str, problem: str) -> None:
    answer, refusal = Actor(code, python, "no_such_module", NOTHING).call("anything")
    assert answer is None
    assert refusal is not None
    assert refusal[0].startswith(problem)


def test_another_patch_version_of_python_is_no_difference() -> None:
    other = ".".join((*platform.python_version_tuple()[:2], "99"))
    assert Actor(code_here(), other, "math", NOTHING).call("gcd", 4, 6) == (2, None)
