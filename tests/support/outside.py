"""The command of a judge outside a sandbox, for trusted code: it leaves the files of this machine as they are."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sandrl.judge.guest.baseline import SANDBOX_VARIABLE


def outside(argv: Sequence[str], python: str = sys.executable) -> tuple[str, ...]:
    """The command line of a judge, without the variable that it has in a sandbox."""
    kept = [word for word in argv if not word.startswith(SANDBOX_VARIABLE)]
    return tuple(python if word == "python3" else word for word in kept)
