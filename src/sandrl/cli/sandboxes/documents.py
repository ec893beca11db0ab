"""Sandboxes as JSON documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandrl.sandboxes.cleanup import CleanupPlan, CleanupReport
    from sandrl.sandboxes.listing import OwnedSandbox
    from sandrl.sandboxes.providers.protocol import UnreachableNode


def sandbox_document(listed: OwnedSandbox, at: datetime) -> dict[str, Any]:
    """One sandbox at a time; times are ISO 8601 in UTC."""
    sandbox = listed.sandbox
    age = sandbox.age_seconds(at)
    return {
        "id": sandbox.id,
        "status": sandbox.status,
        "reason": sandbox.reason,
        "age_seconds": None if age is None else round(age, 3),
        "created_at": _iso(sandbox.created_at),
        "started_at": _iso(sandbox.started_at),
        "ended_at": _iso(sandbox.ended_at),
        "expires_at": _iso(sandbox.expires_at),
        "job_id": listed.job_id,
        "owner": None if listed.owner is None else listed.owner.value,
        "orphan": listed.is_orphan,
        "process": None if listed.process is None else asdict(listed.process),
        "tags": list(sandbox.tags),
        "image": sandbox.image,
        "resources": dict(sandbox.resources),
        "runner": sandbox.runner,
        "exit_code": sandbox.exit_code,
    }


def listing_document(listed: Sequence[OwnedSandbox], unreached: Sequence[UnreachableNode] = ()) -> dict[str, Any]:
    """The document of `ls`; machines of the runtime that could not be asked are in it if there are any."""
    at = datetime.now(UTC)
    return {"sandboxes": [sandbox_document(each, at) for each in listed], **unreached_document(unreached)}


def unreached_document(unreached: Sequence[UnreachableNode]) -> dict[str, Any]:
    """What a document says of machines that could not be asked: nothing where all answered."""
    return {"unreached": [asdict(each) for each in unreached]} if unreached else {}


def plan_document(plan: CleanupPlan) -> dict[str, Any]:
    """The document of `cleanup --dry-run`."""
    return {
        "would_stop": [each.sandbox.id for each in plan.targets],
        "spared": [each.sandbox.id for each in plan.spared],
        "already_gone": list(plan.gone),
        **unreached_document(plan.unreached),
    }


def report_document(report: CleanupReport) -> dict[str, Any]:
    """The document of `cleanup`."""
    return {
        "stopped": list(report.stopped),
        "already_gone": list(report.gone),
        "failed": [{"id": sandbox_id, "error": message} for sandbox_id, message in report.failed],
        "left": list(report.left),
        "spared": [each.sandbox.id for each in report.plan.spared],
        **unreached_document(report.plan.unreached),
    }


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
