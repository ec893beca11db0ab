"""Whose a sandbox is, what an orphan is, and what a selection means: never a guess."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.job_entries import job_entry

from sandrl.sandboxes import Liveness, Owner, current_owner, encode_tag
from sandrl.sandboxes.cleanup import CleanupRequest, plan_cleanup
from sandrl.sandboxes.inventory import Inventory
from sandrl.sandboxes.listing import Count, OwnedSandbox, Owners, SandboxSelection, count, count_by_tag, list_sandboxes
from sandrl.sandboxes.providers.protocol import PENDING_STATUSES, STATUSES, SandboxInfo
from sandrl.sandboxes.registry import Registration

HERE = current_owner()
GONE = replace(HERE, started_ticks=HERE.started_ticks + 1)
ELSEWHERE = replace(HERE, host="another-node")


class ListedInventory(Inventory):
    """An inventory whose service has answered already; what follows is ours alone."""

    unreached = ()

    def __init__(self, *sandboxes: SandboxInfo) -> None:
        self.sandboxes = sandboxes
        self.asked: list[tuple[list[str], bool]] = []

    def list(self, *, tags: object = (), ended: bool = False) -> list[SandboxInfo]:
        self.asked.append((list(tags), ended))  # type: ignore[call-overload]
        return [each for each in self.sandboxes if ended or not each.has_ended]


def now() -> datetime:
    """This moment: what is listed is compared with the clock, and a test may run long after it was collected."""
    return datetime.now(UTC)


def register(state: Path, owner: Owner, job_id: str = "job-1") -> None:
    Registration(job_entry(owner, job_id), state).renew()


def sandbox(*tags: str, age: float = 10, status: str = "running", lifetime: float = 600) -> SandboxInfo:
    created = now() - timedelta(seconds=age)
    return SandboxInfo(
        f"id-{age:g}-{status}", status, tags=tags, created_at=created, started_at=created, max_lifetime_seconds=lifetime
    )


def owned(owner: Owner, job_id: str = "job-1", **changes: object) -> SandboxInfo:
    return sandbox("rl-training", job_id, f"owner-{owner.hash}", "problem-x", **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("owner", "found", "orphan"),
    [(HERE, Liveness.ALIVE, False), (GONE, Liveness.GONE, True), (ELSEWHERE, Liveness.OTHER_HOST, False)],
)
def test_only_an_owner_that_is_gone_for_certain_leaves_orphans(
    tmp_path: Path, owner: Owner, found: Liveness, orphan: bool
) -> None:
    register(tmp_path, owner)
    listed = Owners(tmp_path).describe(owned(owner), now())
    assert (listed.owner, listed.is_orphan, listed.process, listed.job_id) == (found, orphan, owner, "job-1")
    assert listed.own_tags == ("problem-x",)


def test_an_owner_that_the_registry_does_not_know_is_unknown_and_its_sandbox_no_orphan(tmp_path: Path) -> None:
    listed = Owners(tmp_path).describe(owned(GONE), now())
    assert (listed.owner, listed.is_orphan, listed.process) == (Liveness.UNKNOWN, False, None)


def test_a_lifetime_that_is_over_makes_an_orphan_but_not_by_a_difference_of_clocks(tmp_path: Path) -> None:
    owners = Owners(tmp_path)
    assert owners.describe(owned(ELSEWHERE, age=700, lifetime=600), now()).is_orphan
    assert not owners.describe(owned(ELSEWHERE, age=630, lifetime=600), now()).is_orphan
    assert not owners.describe(owned(ELSEWHERE, age=700, lifetime=0), now()).is_orphan
    assert not owners.describe(owned(ELSEWHERE, age=700, lifetime=600, status="completed"), now()).is_orphan


def test_what_sandrl_did_not_make_is_nobody_s_orphan(tmp_path: Path) -> None:
    listed = Owners(tmp_path).describe(sandbox("web", age=9_999), now())
    assert (listed.owner, listed.is_orphan, listed.job_id) == (None, False, None)


@pytest.mark.parametrize(
    ("tags", "job_id"),
    [
        (("rl-training", "nightly.3", "owner-x", "t"), "nightly.3"),
        (("t", "job-1a2b3c4d"), "job-1a2b3c4d"),
        (("rl-training", "owner-x", "t"), None),
        ((), None),
    ],
)
def test_a_job_is_found_among_tags_also_under_a_name_of_the_user_s(
    tmp_path: Path, tags: tuple[str, ...], job_id: str | None
) -> None:
    assert Owners(tmp_path).describe(sandbox(*tags), now()).job_id == job_id


def test_of_several_jobs_of_one_process_the_sandbox_names_its_own(tmp_path: Path) -> None:
    for job_id in ("first", "second", "third"):
        register(tmp_path, HERE, job_id)
    assert Owners(tmp_path).describe(owned(HERE, "second"), now()).job_id == "second"


def test_all_conditions_of_a_selection_hold_at_once(tmp_path: Path) -> None:
    register(tmp_path, GONE)
    old, young, alive = owned(GONE, age=300), owned(GONE, age=3), owned(HERE, age=400)
    ended = owned(GONE, age=500, status="failed")
    inventory, owners = ListedInventory(old, young, alive, ended), Owners(tmp_path)

    def found(**conditions: object) -> list[SandboxInfo]:
        return [each.sandbox for each in list_sandboxes(inventory, SandboxSelection(**conditions), owners)]  # type: ignore[arg-type]

    assert found() == [old, young, alive]
    assert found(ended=True) == [old, young, alive, ended]
    assert found(statuses=frozenset({"failed"})) == [ended]
    assert found(orphans=True) == [old, young]
    assert found(orphans=True, older_than_seconds=60) == [old]
    assert found(older_than_seconds=60, statuses=frozenset({"running"})) == [old, alive]
    found(tags=("model:a/b", "plain"))
    assert inventory.asked[-1] == ([encode_tag("model:a/b"), "plain"], False)


def test_a_plan_spares_the_living_says_so_and_touches_ended_ones_never(tmp_path: Path) -> None:
    register(tmp_path, GONE)
    register(tmp_path, HERE, "job-2")
    lost, alive, ended = owned(GONE), owned(HERE, "job-2", age=11), owned(GONE, age=12, status="terminated")
    inventory, owners = ListedInventory(lost, alive, ended), Owners(tmp_path)
    plan = plan_cleanup(inventory, CleanupRequest(everything=True), owners)
    assert [each.sandbox for each in plan.targets] == [lost]
    assert [each.sandbox for each in plan.spared] == [alive]
    forced = plan_cleanup(inventory, CleanupRequest(everything=True, force=True), owners)
    assert [each.sandbox for each in forced.targets] == [lost, alive]
    named = plan_cleanup(inventory, CleanupRequest(ids=(lost.id, ended.id, alive.id, lost.id, "never")), owners)
    assert [each.sandbox.id for each in named.targets] == [lost.id]
    assert [each.sandbox.id for each in named.spared] == [alive.id]
    assert named.gone == (ended.id, "never")


def test_counts_are_of_what_has_not_ended() -> None:
    statuses = [*STATUSES, "running"]
    listed = [
        OwnedSandbox(sandbox("a", *(["b"] if number % 2 else []), status=each)) for number, each in enumerate(statuses)
    ]
    assert count(listed) == Count(running=2, pending=len(PENDING_STATUSES), total=7)
    by_tag = count_by_tag(listed)
    assert list(by_tag) == ["a", "b"]
    assert by_tag["a"] == count(listed)
    assert by_tag["b"].total < by_tag["a"].total
