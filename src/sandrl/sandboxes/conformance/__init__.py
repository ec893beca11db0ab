"""The conformance of a provider: checks of every behaviour that sandrl relies on.

`sandrl runtime check` runs them, and so does `tests/conformance` for the providers of sandrl. The image of the
sandboxes must have `sh`, the usual small programs and `python`.
"""

from __future__ import annotations

from collections.abc import Sequence

from sandrl.errors import UsageError
from sandrl.sandboxes.conformance import commands, files, lifecycle, owners, programs
from sandrl.sandboxes.conformance.check import Check
from sandrl.sandboxes.conformance.examination import Examination, Outcome, State
from sandrl.suggestions import VALUES, near

__all__ = ["CHECKS", "Check", "Examination", "Outcome", "State", "find_checks"]

CHECKS: tuple[Check, ...] = tuple(
    each
    for module in (lifecycle, commands, files, programs, owners)
    for each in vars(module).values()
    if isinstance(each, Check)
)
"""All checks, in the order in which they are run."""


def find_checks(names: Sequence[str]) -> tuple[Check, ...]:
    """The checks of these names, in the usual order; all without names.

    Raises:
        UsageError: If there is no check of a name.
    """
    known = [each.name for each in CHECKS]
    for name in names:
        if name not in known:
            message = f"there is no check {name!r}{near(name, known, VALUES)}"
            raise UsageError(message, hint=f"the checks are {', '.join(known)}")
    return tuple(each for each in CHECKS if not names or each.name in names)
