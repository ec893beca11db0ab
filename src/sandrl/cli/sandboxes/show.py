"""`sandrl sandboxes show`: shows the details of one sandbox."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sandrl.cli.output import Json
from sandrl.cli.sandboxes.options import Id, Runtime, inventory_with
from sandrl.settings import RuntimeKind

if TYPE_CHECKING:
    from sandrl.sandboxes.listing import OwnedSandbox


def show(id_: Id, json_: Json = False, runtime: Runtime = RuntimeKind.AUTO.value) -> None:
    """Show one sandbox: its status, times, job, owner, tags, image and limits."""
    from sandrl.cli.output import print_json
    from sandrl.cli.sandboxes.documents import sandbox_document
    from sandrl.sandboxes.listing import Owners
    from sandrl.settings import load_settings

    settings = load_settings()
    now = datetime.now(UTC)
    inventory = inventory_with(settings, runtime, id_)
    found = inventory.get(inventory.find(id_))
    listed = Owners(settings.state_dir).describe(found, now)
    if json_:
        print_json(sandbox_document(listed, now))
    else:
        _print(listed, now)


def _print(listed: OwnedSandbox, now: datetime) -> None:
    from sandrl.cli.sandboxes.table import expiry, span
    from sandrl.cli.tables import print_fields

    sandbox, process = listed.sandbox, listed.process
    owner = "not created by sandrl" if listed.owner is None else listed.owner.value
    if process is not None:
        owner += f" (process {process.pid} on {process.host})"
    lines = {
        "id": sandbox.id,
        "status": sandbox.status + (f" ({sandbox.reason})" if sandbox.reason else ""),
        "exit code": "-" if sandbox.exit_code is None else str(sandbox.exit_code),
        "created": _time(sandbox.created_at, f"{span(sandbox.age_seconds(now))} ago"),
        "started": _time(sandbox.started_at),
        "ended": _time(sandbox.ended_at),
        "expires": "-" if sandbox.has_ended else _time(sandbox.expires_at, expiry(sandbox.expires_at, now)),
        "job": listed.job_id or "-",
        "owner": owner + (", orphan" if listed.is_orphan else ""),
        "tags": ", ".join(sandbox.tags) or "-",
        "image": sandbox.image or "-",
        "limits": ", ".join(f"{name} {value}" for name, value in sandbox.resources) or "-",
        "runner": sandbox.runner or "-",
    }
    print_fields([*lines.items()])


def _time(moment: datetime | None, remark: str = "") -> str:
    if moment is None:
        return "-"
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" + (f" ({remark})" if remark else "")
