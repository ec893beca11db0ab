"""The sandboxes on all nodes of a cluster: what each node says, what is missing, and where stops go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support.fake_cluster import FakeCluster, FakeHost

from sandrl.errors import CleanupError, InfrastructureError, ServiceError, UnknownSandboxError, UsageError
from sandrl.fleet.cluster import Cluster
from sandrl.runs.rows import OwnerRow
from sandrl.sandboxes import JobEntry, Liveness, current_owner, read_jobs
from sandrl.sandboxes.cleanup import CleanupRequest, clean_up, plan_cleanup
from sandrl.sandboxes.inventory import Inventory
from sandrl.sandboxes.listing import Owners, SandboxSelection, list_sandboxes
from sandrl.sandboxes.owner import OwnerFacts
from sandrl.sandboxes.providers.protocol import Output, SandboxInfo, UnreachableNode
from sandrl.sandboxes.providers.ray_nodes import NodesConnection
from sandrl.sandboxes.registry import Registration
from sandrl.settings import RuntimeKind

SELF = current_owner()
ALL = SandboxSelection()
NOWHERE = Output(lambda block: None)


class Sandboxes(FakeHost):
    """What a node has, or why it does not answer."""

    def __init__(self, has: Sequence[SandboxInfo] | Exception) -> None:
        self.has = has
        self.failed: dict[str, str] = {}
        self.stopped: list[str] = []

    def _infos(self) -> Sequence[SandboxInfo]:
        if isinstance(self.has, Exception):
            raise self.has
        return self.has

    def list(self, tags: tuple[str, ...], ended: bool) -> object:
        return [each for each in self._infos() if ended or not each.has_ended]

    def get(self, sandbox_id: str) -> object:
        return next((each for each in self._infos() if each.id == sandbox_id), None)

    def stop(self, sandbox_id: str) -> object:
        self.stopped.append(sandbox_id)
        if sandbox_id in self.failed:
            raise InfrastructureError(self.failed[sandbox_id])
        return any(each.id == sandbox_id and not each.has_ended for each in self._infos())


def cluster_of(**has: Sequence[SandboxInfo] | Exception) -> FakeCluster:
    return FakeCluster({name: Sandboxes(each) for name, each in has.items()})


def inventory_of(cluster: Cluster) -> Inventory:
    return Inventory(
        NodesConnection(
            kind=RuntimeKind.RAY,
            reason="requested",
            address=cluster.address,
            image="",
            is_local=False,
            cluster=cluster,
            nodes=tuple(cluster.nodes()),
        )
    )


def sandbox(name: str, liveness: Liveness | None = Liveness.ALIVE, **changes: object) -> SandboxInfo:
    owner = None if liveness is None else OwnerFacts(liveness, replace(SELF, host="there"), "nightly")
    tags = ("web",) if liveness is None else ("rl-training", "nightly", "owner-0123456789ab")
    info = SandboxInfo(name, "running", tags=tags, created_at=datetime.now(UTC), owner=owner)
    return replace(info, **changes)  # type: ignore[arg-type]


def test_every_node_says_whose_its_sandboxes_are_and_this_machine_need_not_know(tmp_path: Path) -> None:
    cluster = cluster_of(
        one=[sandbox("a"), sandbox("b", Liveness.GONE)], two=[sandbox("c", Liveness.UNKNOWN), sandbox("d", None)]
    )
    inventory = inventory_of(cluster)
    listed = {each.sandbox.id: each for each in list_sandboxes(inventory, ALL, Owners(tmp_path))}
    assert {name: (each.sandbox.runner, each.owner, each.is_orphan) for name, each in listed.items()} == {
        "a": ("one", Liveness.ALIVE, False),
        "b": ("one", Liveness.GONE, True),
        "c": ("two", Liveness.UNKNOWN, False),
        "d": ("two", None, False),
    }
    assert listed["b"].process == replace(SELF, host="there")
    assert listed["b"].job_id == "nightly"
    orphans = plan_cleanup(inventory, CleanupRequest(selection=SandboxSelection(orphans=True)), Owners(tmp_path))
    assert [each.sandbox.id for each in orphans.targets] == ["b"]
    everything = plan_cleanup(inventory, CleanupRequest(everything=True), Owners(tmp_path))
    assert [each.sandbox.id for each in everything.spared] == ["a"]
    assert inventory.unreached == ()


def test_nodes_that_share_a_runtime_do_not_list_its_sandboxes_twice() -> None:
    assert [each.runner for each in inventory_of(cluster_of(one=[sandbox("a")], two=[sandbox("a")])).list()] == ["one"]


def test_stops_go_to_the_node_that_has_the_sandbox(tmp_path: Path) -> None:
    cluster = cluster_of(one=[sandbox("a", Liveness.GONE)], two=[sandbox("b", Liveness.GONE)])
    inventory, owners = inventory_of(cluster), Owners(tmp_path)
    report = clean_up(inventory, plan_cleanup(inventory, CleanupRequest(ids=("b", "nope")), owners), owners)
    assert (report.stopped, report.gone, report.failed) == (("b",), ("nope",), ())
    assert {name: host.stopped for name, host in cluster.hosts.items()} == {"one": [], "two": ["b"]}
    report.raise_for_outcome()


def test_a_stop_that_finds_nothing_or_fails_is_told_of_its_sandbox_alone(tmp_path: Path) -> None:
    cluster = cluster_of(one=[sandbox(name, Liveness.GONE) for name in "abc"])
    inventory, owners = inventory_of(cluster), Owners(tmp_path)
    plan = plan_cleanup(inventory, CleanupRequest(everything=True), owners)
    cluster.hosts["one"].has = [sandbox("a"), sandbox("c")]
    cluster.hosts["one"].failed = {"c": "it is busy"}
    report = clean_up(inventory, plan, owners)
    assert (report.stopped, report.gone, report.failed) == (("a",), ("b",), (("c", "node one: it is busy"),))
    with pytest.raises(CleanupError):
        report.raise_for_outcome()


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (RuntimeError("The worker died.\nNode 1234"), "node two did not answer: The worker died."),
        (InfrastructureError("the local runtime does not answer"), "node two: the local runtime does not answer"),
    ],
)
def test_a_node_that_cannot_be_asked_is_named_and_takes_nothing_from_the_others(
    fault: Exception, reason: str, tmp_path: Path
) -> None:
    entry = JobEntry(
        job_id="job-1",
        owner=OwnerRow.model_validate(replace(SELF, started_ticks=SELF.started_ticks + 1)),
        owner_hash=replace(SELF, started_ticks=SELF.started_ticks + 1).hash,
        command="reward",
        runtime="ray",
        address="127.0.0.2:6379",
        max_lifetime_seconds=60,
    )
    Registration(entry, tmp_path).renew()
    cluster = cluster_of(one=[sandbox("a", Liveness.GONE)], two=fault)
    inventory, owners = inventory_of(cluster), Owners(tmp_path)
    plan = plan_cleanup(inventory, CleanupRequest(ids=("a", "b")), owners)
    assert inventory.unreached == plan.unreached == (UnreachableNode("two", reason),)
    assert plan.gone == (), "it may be on the node that does not answer"
    report = clean_up(inventory, plan, owners)
    assert report.stopped == ("a",)
    with pytest.raises(ServiceError, match="two") as caught:
        report.raise_for_outcome()
    assert caught.value.exit_code == 3
    assert caught.value.hint == "sandrl sandboxes cleanup --yes a b tries again"
    assert len(read_jobs(tmp_path)) == 1
    with pytest.raises(InfrastructureError, match="nodes that could not be queried: two"):
        inventory.get("c")
    assert inventory.get("a").runner == "one"


def test_a_cluster_of_which_no_node_answers_is_an_error_and_no_empty_list() -> None:
    inventory = inventory_of(cluster_of(one=RuntimeError("gone"), two=RuntimeError("gone, too")))
    with pytest.raises(InfrastructureError, match="node one did not answer: gone; node two did not answer: gone, too"):
        inventory.list()


def test_a_sandbox_of_no_node_is_unknown() -> None:
    with pytest.raises(UnknownSandboxError):
        inventory_of(cluster_of(one=[sandbox("a")])).get("b")


def test_programs_and_output_of_a_sandbox_are_refused_with_the_name_of_its_node() -> None:
    inventory = inventory_of(cluster_of(one=[], two=[sandbox("a")]))
    inventory.get("a")
    with pytest.raises(UsageError, match="on node two") as caught:
        inventory.attach("a", ["true"], stdin=False, stdout=NOWHERE, stderr=NOWHERE, timeout_seconds=1)
    assert caught.value.hint == "run on two: sandrl sandboxes exec a --runtime local -- COMMAND"
    with pytest.raises(UsageError, match="on node two"):
        list(inventory.logs("a"))
