"""The corpus: all exploits, in the order of the table."""

from __future__ import annotations

from sandrl.redteam.corpus import (
    arrays,
    catching,
    channels,
    checkers,
    compiled,
    endings,
    exits,
    forgery,
    mirrors,
    mocks,
    objects,
    patches,
    plants,
    processes,
    programs,
    resources,
    snooping,
    states,
)
from sandrl.redteam.exploit import Exploit

EXPLOITS: tuple[Exploit, ...] = (
    *exits.EXPLOITS,
    *endings.EXPLOITS,
    *objects.EXPLOITS,
    *catching.EXPLOITS,
    *mirrors.EXPLOITS,
    *mocks.EXPLOITS,
    *arrays.EXPLOITS,
    *patches.EXPLOITS,
    *snooping.EXPLOITS,
    *forgery.EXPLOITS,
    *processes.EXPLOITS,
    *plants.EXPLOITS,
    *resources.EXPLOITS,
    *programs.EXPLOITS,
    *checkers.EXPLOITS,
    *channels.EXPLOITS,
    *states.EXPLOITS,
)
"""All of them in Python; names are unique."""

EXPLOITS_IN_CPP: tuple[Exploit, ...] = compiled.EXPLOITS
"""Those that are programs in C++, for problems whose answers are."""
