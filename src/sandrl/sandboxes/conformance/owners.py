"""Sandboxes of an owner that was killed: they are found, stopped, and end after their lifetime.

The owner is a process of its own, which has a job as any command has. Its registry of jobs is a directory of the check,
so that no other command finds this orphan and stops it first.
"""

from __future__ import annotations

import multiprocessing
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

from sandrl.errors import SandrlError
from sandrl.sandboxes.cleanup import CleanupRequest, clean_up, plan_cleanup
from sandrl.sandboxes.commands import Command
from sandrl.sandboxes.conformance.check import DoesNotApply, Mismatch, check, expect, expect_soon, expect_that
from sandrl.sandboxes.conformance.trial import LIFETIME_SECONDS, PATIENCE_SECONDS, Trial
from sandrl.sandboxes.connection import absence, connect, find_connection
from sandrl.sandboxes.inventory import Inventory
from sandrl.sandboxes.job import Job
from sandrl.sandboxes.listing import OwnedSandbox, Owners, SandboxSelection, list_sandboxes
from sandrl.sandboxes.tags import new_job_id
from sandrl.settings import Settings

_JOINING_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class _Left:
    """What a killed owner has left.

    Attributes:
        tags: The tags of its job.
        inventory: The sandboxes of the runtime, as another command finds them.
        owners: What is known of owners.
    """

    sandbox_id: str
    tags: tuple[str, ...]
    inventory: Inventory
    owners: Owners


@check
def orphans(trial: Trial) -> None:
    """A sandbox whose owner was killed is listed with its tags as an orphan, and cleaned up; no other sandbox is."""
    with _killed_owner(trial, LIFETIME_SECONDS) as left:
        own = trial.id
        found = list_sandboxes(left.inventory, SandboxSelection(tags=(trial.tag,)), left.owners)
        expect("sandboxes and whether they are orphans", _orphans(found), {own: False, left.sandbox_id: True})
        tags = {tag for each in found if each.is_orphan for tag in each.sandbox.tags}
        expect_that({*left.tags} <= tags, "its tags", ", ".join(left.tags), sorted(tags))
        request = CleanupRequest(selection=SandboxSelection(tags=(trial.tag,), orphans=True))
        report = clean_up(left.inventory, plan_cleanup(left.inventory, request, left.owners), left.owners)
        expect("what a cleanup has stopped", (report.stopped, report.failed), ((left.sandbox_id,), ()))
        expect("what is listed", trial.ids(), {own})


@check
def lease(trial: Trial) -> None:
    """Its lifetime ends a sandbox whose owner was killed."""
    with _killed_owner(trial, 5.0) as left:
        expect_soon(
            "what is listed", lambda: [each.id for each in left.inventory.list(tags=[trial.tag])], [], seconds=30
        )


def _orphans(found: list[OwnedSandbox]) -> dict[str, bool]:
    return {each.sandbox.id: each.is_orphan for each in found}


@contextmanager
def _killed_owner(trial: Trial, lifetime_seconds: float) -> Iterator[_Left]:
    found = find_connection(trial.settings, runtime=trial.runtime)
    if found is None:
        # Further sentences say what there is at this moment.
        raise DoesNotApply(absence(trial.settings, runtime=trial.runtime).partition(". ")[0])
    with tempfile.TemporaryDirectory(prefix="sandrl-check-") as state_dir:
        # A process that is forked could not use a runtime that this one uses.
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        named = trial.connection.named()
        owner = context.Process(
            target=_own, args=(there, trial.settings, *named, Path(state_dir), trial.tag, lifetime_seconds)
        )
        owner.start()
        there.close()
        try:
            if not here.poll(PATIENCE_SECONDS):
                raise Mismatch(f"a sandbox of another process: expected one, found none in {PATIENCE_SECONDS:g} s")
            sandbox_id, detail = here.recv()
        except EOFError as error:
            raise Mismatch("a sandbox of another process: expected one, found that the process has ended") from error
        finally:
            owner.kill()
            owner.join(_JOINING_SECONDS)
            here.close()
        if not sandbox_id:
            raise Mismatch(f"a sandbox of another process: expected one, found {detail}")
        yield _Left(sandbox_id, detail, Inventory(found), Owners(Path(state_dir)))


def _own(
    there: Pipe,
    settings: Settings,
    runtime: str,
    image: str | None,
    state_dir: Path,
    tag: str,
    lifetime_seconds: float,
) -> None:
    # The owner: a sandbox in which a command has run, until it is killed. If the check is killed instead, the pipe ends
    # and the sandbox with it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        connection = replace(connect(settings, runtime=runtime, image=image), state_dir=state_dir)
        with Job(
            connection, job_id=new_job_id(), max_lifetime_seconds=lifetime_seconds, tags=[tag], command="runtime check"
        ) as job:
            launch = job.launch(Command(("true",)))
            job.wait_any()
            outcome = job.collect(launch, keep=True)
            there.send((outcome.sandbox_id, job.tags))
            there.poll(None)
    except SandrlError as error:
        there.send(("", error.message))
