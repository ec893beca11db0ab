"""Sandboxes of a cluster: what is refused or lost, warm pools and shutdown times; a stand-in plays the cluster."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.kubernetes_api import V4, ClusterStandIn, Refusal, cluster

from sandrl.errors import (
    AuthenticationError,
    InfrastructureError,
    NodeLostError,
    NoRoomError,
    RuntimeUnavailableError,
    SandrlError,
    UsageError,
)
from sandrl.runtime import daemon
from sandrl.runtime.network import Network
from sandrl.sandboxes import Command, Connection, Shape, connect, find_connection
from sandrl.sandboxes.providers.kubernetes import pods as pods_module
from sandrl.sandboxes.providers.kubernetes.manifests import template_problem
from sandrl.sandboxes.providers.kubernetes.streams import exit_code_of
from sandrl.sandboxes.providers.protocol import Client, Packages, Result, Sandbox
from sandrl.settings import NetworkMode, Settings

pytest.importorskip("kubernetes", reason="the extra `kubernetes` is not installed")

TEMPLATE: dict[str, Any] = {
    "metadata": {"name": "python"},
    "spec": {
        "networkPolicy": {},
        "podTemplate": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {
                        "name": "box",
                        "image": "python:3.11",
                        "resources": {"limits": {"memory": "512Mi"}},
                        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                    }
                ],
            }
        },
    },
}
POOL = {"metadata": {"name": "warm"}, "spec": {"replicas": 1, "sandboxTemplateRef": {"name": "python"}}}


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterStandIn]:
    directory = tmp_path_factory.mktemp("kubernetes")
    settings = Settings(directory / "state", directory / "cache", kubeconfig=str(directory / "config"))
    with cluster(settings, directory) as found:
        yield found
    daemon.stop(settings.state_dir)


@pytest.fixture
def pods(stand_in: ClusterStandIn) -> Iterator[ClusterStandIn]:
    """The cluster, as it was at first after each test."""
    fresh = {name: getattr(stand_in, name) for name in ("protocols", "quota", "has_room", "is_slow")}
    yield stand_in
    for name, value in fresh.items():
        setattr(stand_in, name, value)
    stand_in.missing.clear()
    stand_in.refusals.clear()
    for plural in ("sandboxclaims", "sandboxwarmpools", "sandboxtemplates", "sandboxes", "networkpolicies"):
        for found in stand_in.of(plural):
            stand_in.delete(plural, found["metadata"]["name"])
    assert within(20, lambda: not stand_in.of("pods"))


@pytest.fixture
def connection(pods: ClusterStandIn) -> Connection:
    return connect(pods.settings, runtime="kubernetes")


@pytest.fixture
def client(connection: Connection) -> Iterator[Client]:
    client = connection.open(tags=["unit"], max_lifetime_seconds=300)
    yield client
    client.close(30)


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    ends_at = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > ends_at:
            return False
        time.sleep(0.05)
    return True


def echo(sandbox: Sandbox) -> Result:
    return sandbox.run(Command(("echo", "well"))).result(30)


def started(client: Client, shape: Shape | None = None) -> Sandbox:
    sandbox = client.create((), shape=shape or Shape())
    sandbox.start().result(30)
    return sandbox


def test_a_pod_has_no_way_to_the_cluster_and_no_privileges(pods: ClusterStandIn, client: Client) -> None:
    shape = Shape(processors=0.5, memory_bytes=1 << 30, as_root=True, directory="/tmp", variables=(("A", "b c"),))
    sandbox = started(client, shape)
    assert sandbox.run(Command(("sh", "-c", "pwd; echo $A"))).result(30).stdout == b"/tmp\nb c\n"
    (pod,) = pods.of("pods")
    spec, container = pod["spec"], pod["spec"]["containers"][0]
    assert (spec["automountServiceAccountToken"], spec["hostNetwork"], spec["restartPolicy"]) == (False, False, "Never")
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["runAsUser"] == 0
    assert container["resources"]["limits"]["memory"] == str(1 << 30)
    assert container["resources"]["limits"]["cpu"] == "500m"
    (policy,) = pods.of("networkpolicies")
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]


def test_the_runtime_class_that_is_set_is_that_of_pods(pods: ClusterStandIn) -> None:
    found = connect(replace(pods.settings, kubernetes_runtime_class="gvisor"), runtime="kubernetes")
    client = found.open(max_lifetime_seconds=60)
    started(client)
    assert "gvisor" in found.isolation
    assert pods.of("pods")[0]["spec"]["runtimeClassName"] == "gvisor"
    client.close(30)


def test_what_a_pod_cannot_have_is_refused(connection: Connection, client: Client) -> None:
    with pytest.raises(UsageError, match="no network"):
        replace(connection, network=Network(NetworkMode.PUBLIC)).open()
    for shape in (Shape(gpus=1), Shape(storage_bytes=1), Shape(network=Network(NetworkMode.PUBLIC))):
        with pytest.raises(UsageError, match="gives no sandbox"):
            client.create((), shape=shape)


def test_packages_and_a_cluster_that_nobody_names_are_refused(pods: ClusterStandIn, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="installs no packages"):
        connect(pods.settings, runtime="kubernetes", packages=Packages(asked=("numpy",)))
    nowhere = replace(pods.settings, kubeconfig=str(tmp_path / "none"))
    assert find_connection(nowhere, runtime="kubernetes") is None
    with pytest.raises(UsageError, match="No cluster is named"):
        connect(nowhere, runtime="kubernetes")
    away = Path(pods.settings.kubeconfig or "").read_text().replace("127.0.0.1:", "127.0.0.1:1/")
    (tmp_path / "away").write_text(away)
    with pytest.raises(InfrastructureError, match="no answer") as caught:
        connect(replace(pods.settings, kubeconfig=str(tmp_path / "away")), runtime="kubernetes")
    assert not caught.value.lost_runtime
    (tmp_path / "bad").write_text("kind: Config\n")
    with pytest.raises(AuthenticationError, match="configuration of Kubernetes"):
        connect(replace(pods.settings, kubeconfig=str(tmp_path / "bad")), runtime="kubernetes")


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [
        (401, "Unauthorized", AuthenticationError),
        (403, "Forbidden", AuthenticationError),
        (422, "Invalid", UsageError),
        (500, "InternalError", InfrastructureError),
    ],
)
def test_refusals_of_the_server_are_told_apart(
    pods: ClusterStandIn, client: Client, code: int, reason: str, error: type[SandrlError]
) -> None:
    pods.refusals.append(("POST", "sandboxes", code, reason, "the reason of the server"))
    sandbox = client.create(())
    with pytest.raises(error, match="the reason of the server"):
        sandbox.start().result(30)
    assert echo(sandbox).stdout == b"well\n"


def test_a_server_that_is_busy_is_asked_again_and_one_that_stays_so_has_no_room(
    pods: ClusterStandIn, client: Client
) -> None:
    pods.refusals += [("POST", "sandboxes", 429, "TooManyRequests", "too many requests")] * 2
    assert echo(client.create(())).stdout == b"well\n"
    pods.refusals += [("POST", "sandboxes", 429, "TooManyRequests", "too many requests")] * 4
    with pytest.raises(NoRoomError):
        client.create(()).start().result(30)


def test_an_answer_that_was_lost_makes_no_second_sandbox(
    pods: ClusterStandIn, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = pods.posted

    def lose(*given: Any) -> dict[str, Any]:
        made(*given)
        monkeypatch.setattr(pods, "posted", made)
        raise Refusal(504, "Timeout", "the gateway has no answer")

    monkeypatch.setattr(pods, "posted", lose)
    assert echo(client.create(())).stdout == b"well\n"
    assert len(pods.of("sandboxes")) == 1


def test_a_quota_and_nodes_that_are_full_are_no_room(
    pods: ClusterStandIn, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods.quota = 0
    with pytest.raises(NoRoomError, match="exceeded quota"):
        client.create(()).start().result(30)
    pods.quota, pods.has_room = 10, False
    monkeypatch.setattr(pods_module, "_ROOM_SECONDS", 0.5)
    with pytest.raises(NoRoomError, match="Insufficient memory"):
        client.create(()).start().result(30)
    assert within(10, lambda: not pods.of("sandboxes")), "what did not start is not left behind"


def test_an_image_that_cannot_be_pulled_is_refused_by_its_name(pods: ClusterStandIn, client: Client) -> None:
    pods.missing.add("none:1")
    with pytest.raises(UsageError, match=r"image none:1: .*manifest unknown"):
        client.create((), shape=Shape(image="none:1")).start().result(30)
    assert within(10, lambda: not pods.of("sandboxes"))


def test_a_cluster_without_agent_sandbox_is_said_to_be_one(
    pods: ClusterStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sandrl.sandboxes.providers import kubernetes

    monkeypatch.setattr(kubernetes, "SANDBOXES", "/apis/agents.x-k8s.io/v9/namespaces/{}/sandboxes")
    with pytest.raises(RuntimeUnavailableError, match="no agent-sandbox"):
        connect(pods.settings, runtime="kubernetes")


def test_a_watch_that_is_outdated_begins_again(pods: ClusterStandIn, client: Client) -> None:
    pods.is_slow = True
    starting = client.create(()).start()
    assert within(10, lambda: bool(pods.of("pods")))
    with pods.lock:
        pods.version += 10_000
        pods.events[:] = [(pods.version, "none", "ADDED", {"metadata": {"name": "x"}})]
    pods.is_slow = False
    starting.result(30)


def test_a_pod_of_the_same_name_is_not_the_same_sandbox(pods: ClusterStandIn, client: Client) -> None:
    idle, sandbox = started(client), started(client)
    running = sandbox.run(Command(("sh", "-c", "sleep 2; echo well")))
    time.sleep(0.5)
    before = {each["metadata"]["name"]: each["metadata"]["uid"] for each in pods.of("pods")}
    for name in before:
        pods.delete("pods", name)
    with pytest.raises(InfrastructureError):
        running.result(30)
    name = str(idle.id)

    def is_made_anew() -> bool:
        pod = pods.objects.get(("pods", name))
        return pod is not None and pod["metadata"]["uid"] != before[name] and "running" in str(pod.get("status"))

    assert within(10, is_made_anew)
    with pytest.raises(InfrastructureError):
        echo(idle)
    assert within(10, lambda: not pods.of("sandboxes")), "what was lost is not left behind"


def test_a_program_that_ends_while_its_pod_is_ended_has_no_outcome(
    pods: ClusterStandIn, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = pods.end

    def end_later(*given: Any) -> None:
        time.sleep(2)
        end(*given)

    sandbox = started(client)
    running = sandbox.run(Command(("sh", "-c", "sleep 1; exit 5")))
    time.sleep(0.3)
    monkeypatch.setattr(pods, "end", end_later)
    pods.delete("pods", str(sandbox.id))
    with pytest.raises(InfrastructureError):
        running.result(30)


def test_a_container_that_exceeds_its_memory_ends_its_program_and_a_node_that_fails_does_not(
    pods: ClusterStandIn, client: Client
) -> None:
    for reason in ("OOMKilled", "Error"):
        sandbox = started(client)
        running: Future[Result] = sandbox.run(Command(("sleep", "1000"), timeout_seconds=100))
        time.sleep(0.5)
        pods.fail(str(sandbox.id), reason)
        if reason == "OOMKilled":
            assert running.result(30).exit_code == 137
        else:
            with pytest.raises(InfrastructureError):
                running.result(30)
        with pytest.raises(InfrastructureError):
            echo(sandbox)


def test_a_node_that_does_not_answer_when_time_is_over_is_no_outcome(pods: ClusterStandIn, client: Client) -> None:
    sandbox = started(client)
    running = sandbox.run(Command(("sleep", "1000"), timeout_seconds=1.0))
    time.sleep(0.5)
    pods.refusals.append(("EXEC", "pods", 500, "InternalError", "error dialing backend"))
    with pytest.raises(InfrastructureError):
        running.result(60)
    pods.refusals.append(("EXEC", "pods", 500, "InternalError", "error dialing backend"))
    with pytest.raises(NodeLostError, match="dialing backend"):
        echo(started(client))


def test_an_older_server_runs_terminals_and_refuses_input_that_has_no_end(pods: ClusterStandIn, client: Client) -> None:
    pods.protocols = (V4,)
    sandbox = started(client)
    shown: list[bytes] = []
    program = sandbox.open_terminal(("sh", "-c", "exit 3"), columns=80, rows=24, output=shown.append)
    program.ended.result(30)
    assert program.finish() == 3
    with pytest.raises(UsageError, match=r"older than 1\.30"):
        echo(sandbox)


def test_many_sandboxes_are_listed_over_several_pages(client: Client) -> None:
    made = [client.create(("many",)) for _ in range(7)]
    for each in [each.start() for each in made]:
        each.result(60)
    assert {each.id for each in client.list(["many"]).result(30)} == {each.id for each in made}


def test_the_shutdown_time_ends_a_sandbox_without_anybody(pods: ClusterStandIn, connection: Connection) -> None:
    client = connection.open(tags=["short"], max_lifetime_seconds=2)
    started(client)
    client.abandon()
    assert within(10, lambda: not pods.of("sandboxes") and not pods.of("pods"))


def test_a_warm_pool_gives_sandboxes_that_are_tagged_listed_and_ended_as_others(pods: ClusterStandIn) -> None:
    pods.make("sandboxtemplates", copy.deepcopy(TEMPLATE))
    pods.make("sandboxwarmpools", copy.deepcopy(POOL))
    assert within(20, lambda: "running" in str(pods.of("pods")))
    warm = pods.of("pods")[0]["metadata"]["uid"]
    found = connect(replace(pods.settings, kubernetes_warm_pool="warm"), runtime="kubernetes")
    assert (found.image, found.memory_bytes) == ("python:3.11", 512 << 20)
    client = found.open(tags=["warm"], max_lifetime_seconds=300)
    sandbox = client.create(())
    assert echo(sandbox).stdout == b"well\n"
    assert warm in [each["metadata"]["uid"] for each in pods.of("pods")], "the one that was there is taken"
    (listed,) = client.list(["warm"]).result(30)
    assert (listed.id, listed.info.status, listed.info.tags) == (sandbox.id, "running", ("warm",))
    assert echo(listed).stdout == b"well\n"
    assert list(listed.logs(follow=False, tail_lines=None)) == ["the main program\n"]
    with pytest.raises(UsageError, match="gives no sandbox memory"):
        client.create((), shape=Shape(memory_bytes=1 << 30))
    with pytest.raises(UsageError, match="have python"):
        found.with_image("other:1")
    sandbox.stop().result(30)
    assert warm not in [each["metadata"]["uid"] for each in pods.of("pods")]
    short = found.open(tags=["warm"], max_lifetime_seconds=2)
    started(short)
    short.abandon()
    assert within(20, lambda: not pods.of("sandboxclaims"))


def test_a_pool_that_is_missing_or_not_safe_is_refused(pods: ClusterStandIn) -> None:
    settings = replace(pods.settings, kubernetes_warm_pool="warm")
    with pytest.raises(UsageError, match="warm pool warm"):
        connect(settings, runtime="kubernetes")
    assert template_problem(TEMPLATE) == ""

    def problem(change: Callable[[dict[str, Any], dict[str, Any]], object]) -> str:
        template = copy.deepcopy(TEMPLATE)
        pod = template["spec"]["podTemplate"]["spec"]
        change(template["spec"], pod)
        return template_problem(template)

    assert "network" in problem(lambda spec, _: spec.pop("networkPolicy"))
    assert "network" in problem(lambda spec, _: spec["networkPolicy"].update(egress=[{}]))
    assert "network" in problem(lambda spec, _: spec.update(networkPolicyManagement="Unmanaged"))
    assert "restartPolicy" in problem(lambda _, pod: pod.pop("restartPolicy"))
    assert "hostNetwork" in problem(lambda _, pod: pod.update(hostNetwork=True))
    assert "hostPath" in problem(lambda _, pod: pod.update(volumes=[{"hostPath": {}}]))
    assert "privileges" in problem(lambda _, pod: pod["containers"][0]["securityContext"].update(privileged=True))
    assert "privileges" in problem(lambda _, pod: pod["containers"][0].pop("securityContext"))
    assert "memory" in problem(lambda _, pod: pod["containers"][0].pop("resources"))


def test_a_network_policy_that_lets_pods_out_is_refused(pods: ClusterStandIn) -> None:
    policy = {"metadata": {"name": "sandrl-no-network"}, "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}}
    pods.make("networkpolicies", policy)
    with pytest.raises(UsageError, match="network policy sandrl-no-network"):
        connect(pods.settings, runtime="kubernetes")


def test_a_status_that_tells_no_exit_code_is_none() -> None:
    assert exit_code_of({"status": "Success"}) == 0
    with pytest.raises(InfrastructureError, match="no sh"):
        exit_code_of({"status": "Failure", "reason": "InternalError", "message": "no sh"})
    with pytest.raises(InfrastructureError):
        exit_code_of({})
