"""The corpus: all exploits, in the order of the table."""

from __future__ import annotations

from sandrl.redteam.corpus import (
    arrays,
    catching,
    checkers,
    compiled,
    endings,
    forgery,
    mirrors,
    objects,
    patches,
    processes,
    resources,
    snooping,
    states,
)
from sandrl.redteam.exploit import Exploit

_MODULES = (
    *(endings, objects, catching, mirrors, arrays, patches, snooping, forgery, processes, resources),
    *(checkers, states),
)
EXPLOITS: tuple[Exploit, ...] = tuple(exploit for module in _MODULES for exploit in module.EXPLOITS)
"""All of them in Python; names are unique."""

EXPLOITS_IN_CPP: tuple[Exploit, ...] = compiled.EXPLOITS
"""Those that are programs in C++, for problems whose answers are."""
