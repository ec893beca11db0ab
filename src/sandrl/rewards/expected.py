"""Expected values of calls that the problem's reference decides: computed once in a sandbox, and kept.

This machine never decodes the values. The judge's program in the sandbox packs them into one text and receives it back
with later completions; on this machine it is text with a digest. The duration of the reference is also kept, because
it decides how long a completion may take.
"""

from __future__ import annotations

from dataclasses import dataclass

from sandrl.problems import Problem
from sandrl.rewards.guest.calls import is_floats

LEAST_SECONDS = 4.0
"""The least time limit of each call, unless a limit for checks is given."""

REFERENCE_FACTOR = 4.0
"""How many times as long as the reference a call may take."""

_FLOAT_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Returned:
    """What a reference returned, call by call.

    Attributes:
        packed: The values, as the judge's program has packed them.
        sizes: How many bytes each takes once it is unpacked.
        seconds: How long each call took.
        floats: For each call `f` where it returned a float, or a list or tuple of floats, else `-`.
    """

    packed: str
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    floats: str

    def __post_init__(self) -> None:
        if not len(self.sizes) == len(self.seconds) == len(self.floats):
            raise ValueError("these belong to different calls")


def read_returned(line: bytes) -> Returned:
    """What the judge's program says of a reference.

    Raises:
        ValueError: If it is nothing like that.
    """
    sizes, seconds, floats, packed = line.decode("ascii").split(" ")
    return Returned(
        packed,
        tuple(map(int, sizes.split(","))),
        tuple(map(float, seconds.split(","))),
        floats,
    )


def call_seconds(returned: Returned, check_timeout_seconds: float | None) -> list[float]:
    """How long each call may take.

    Args:
        returned: What the reference did.
        check_timeout_seconds: The limit of single checks, if one is given.
    """
    least = LEAST_SECONDS if check_timeout_seconds is None else check_timeout_seconds
    return [max(least, REFERENCE_FACTOR * seconds) for seconds in returned.seconds]


def call_tolerances(problem: Problem, returned: Returned | None) -> list[float]:
    """By how much a number in the result of each call may differ, where a problem compares as EvalPlus does.

    Without a tolerance of the problem, that is 1e-6 from the first call of a part on that must return floats.
    """
    given = 0.0 if problem.tolerance is None else float(problem.tolerance.absolute)
    found: list[float] = []
    part, tolerance = None, given
    for number, call in enumerate(problem.calls):
        if call.part != part:
            part, tolerance = call.part, given
        is_float = is_floats(call.values[1]) if returned is None else returned.floats[number] == "f"
        if not tolerance and is_float:
            tolerance = _FLOAT_TOLERANCE
        found.append(tolerance)
    return found
