"""The corpus of cheats: scripts that earn a reward on the machine of a task without solving it."""

from __future__ import annotations

from sandrl.redteam.cheat import Cheat
from sandrl.redteam.cheats import (
    answers,
    broken,
    clock,
    preload,
    programs,
    pytests,
    python,
    reward_files,
    start_files,
    tests,
    trusted,
)

_MODULES = (reward_files, tests, pytests, python, programs, preload, start_files, answers, trusted, broken, clock)
CHEATS: tuple[Cheat, ...] = tuple(cheat for module in _MODULES for cheat in module.CHEATS)
"""All of them, in the order of the table; names are unique, and differ from those of exploits."""
