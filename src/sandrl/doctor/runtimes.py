"""Which runtimes work here.

A provider states what it needs (`Need`), each need is a list of checks, and a runtime works if none of them failed. So
a new provider is examined without a change here, and the line of a runtime agrees with the other lines of the report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sandrl.doctor.report import Check, State
from sandrl.sandboxes.daemons import served_daemons
from sandrl.sandboxes.providers import find_provider
from sandrl.sandboxes.providers.protocol import Need
from sandrl.settings import RuntimeKind


def needed_checks(kind: RuntimeKind, checks: Mapping[Need, Sequence[Check]]) -> list[Check]:
    needs = find_provider(kind).needs
    return [check for need in Need if need in needs for check in checks[need]]


def daemon_checks(state_dir: Path) -> list[Check]:
    """The daemons of this user, one for each environment that used the local runtime; nothing if none runs."""
    found = served_daemons(state_dir)
    if not found:
        return []
    places = "; ".join(f"{each.place}, {each.loss}" for each in found)
    return [Check("local runtimes", State.OK, f"{len(found)} running: {places}", "sandrl runtime status shows them")]


def runtime_check(kind: RuntimeKind, checks: Sequence[Check]) -> Check:
    failed = next((check for check in checks if check.state is State.FAILED), None)
    if failed is not None:
        # What this machine cannot do is no fault while another runtime is used.
        return Check(kind, State.ABSENT, f"does not work here: {failed.name}: {failed.detail}", failed.hint)
    unknown = next((check for check in checks if check.state is not State.OK), None)
    if unknown is not None:
        return Check(kind, unknown.state, unknown.detail, unknown.hint)
    return Check(kind, State.OK, f"works here: {find_provider(kind).summary}")
