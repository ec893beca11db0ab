"""The checks that a node of a cluster runs on itself, for the machine that makes the report."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass

from sandrl.doctor.examination import isolation_checks, needed_checks
from sandrl.doctor.machine import open_files_check, port_check, state_check
from sandrl.doctor.report import Check, State
from sandrl.sandboxes.providers.protocol import Need
from sandrl.settings import RuntimeKind, load_settings


@dataclass(frozen=True, slots=True)
class NodeView:
    """Whether a machine can score, as it finds by trying.

    Attributes:
        launcher: How it isolates; empty if it does not.
        cells_refusal: Why a worker sandbox cannot make cells; empty if it can, None if that was not tried.
        failed: The first check of what its local runtime needs that failed; None if it can score.
    """

    python: str
    launcher: str
    cells_refusal: str | None
    failed: Check | None


def look() -> NodeView:
    """Tries whether the local runtime works on this machine; starts none, and leaves nothing behind."""
    python = platform.python_version()
    found, isolation = isolation_checks(os.environ)
    checks = {
        Need.ISOLATION: isolation,
        Need.FILES: [state_check(load_settings().state_dir), open_files_check()],
        Need.PORT: [port_check()],
    }
    failed = (each for each in needed_checks(RuntimeKind.LOCAL, checks) if each.state is State.FAILED)
    if found is None:
        return NodeView(python, "", None, next(failed))
    return NodeView(python, found.launcher, found.cells_refusal, next(failed, None))
