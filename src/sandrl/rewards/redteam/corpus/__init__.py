"""The corpus: all exploits, in the order of the table."""

from __future__ import annotations

from sandrl.rewards.redteam.corpus import (
    arrays,
    checkers,
    compiled,
    endings,
    exits,
    forgery,
    mirrors,
    objects,
    patches,
    plants,
    processes,
    programs,
    resources,
    snooping,
)
from sandrl.rewards.redteam.exploit import Exploit

EXPLOITS: tuple[Exploit, ...] = (
    *exits.EXPLOITS,
    *endings.EXPLOITS,
    *objects.EXPLOITS,
    *mirrors.EXPLOITS,
    *arrays.EXPLOITS,
    *patches.EXPLOITS,
    *snooping.EXPLOITS,
    *forgery.EXPLOITS,
    *processes.EXPLOITS,
    *plants.EXPLOITS,
    *resources.EXPLOITS,
    *programs.EXPLOITS,
    *checkers.EXPLOITS,
)
"""All of them in Python; names are unique."""

EXPLOITS_IN_CPP: tuple[Exploit, ...] = compiled.EXPLOITS
"""Those that are programs in C++, for problems whose answers are."""
