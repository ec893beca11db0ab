"""Pods of a Kubernetes cluster as sandboxes, by the objects of the project agent-sandbox.

A `Sandbox` has a pod of its own; where a warm pool is named, a `SandboxClaim` takes one of its sandboxes. The
controller of the cluster ends each at its shutdown time, so none outlives its lifetime, also if the process that made
it is killed. Programs are run by the API server's own `exec`: the project's SDK passes commands as text through a
router, which has neither input nor terminals, and does not end a command that is given up.

The cluster isolates a pod: by the kernel of its node, or by the RuntimeClass that is named.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from sandrl.deadlines import in_background
from sandrl.errors import AuthenticationError, UsageError
from sandrl.events import Emit, ignore
from sandrl.extras import require
from sandrl.runtime import limits
from sandrl.sandboxes.providers.kubernetes.cluster import (
    CLAIMS,
    POLICIES,
    POOLS,
    SANDBOXES,
    TEMPLATES,
    Cluster,
    Conflict,
    Missing,
    one_line,
)
from sandrl.sandboxes.providers.kubernetes.manifests import (
    POLICY,
    PodRequest,
    describe,
    has_labels,
    network_policy,
    of_template,
    policy_problem,
    template_problem,
)
from sandrl.sandboxes.providers.kubernetes.pods import PodSandbox
from sandrl.sandboxes.providers.programs import HostedClient
from sandrl.sandboxes.providers.protocol import Connection, Need, Packages, SandboxInfo
from sandrl.sandboxes.shape import USUAL, Shape
from sandrl.settings import RuntimeKind, Settings

IMAGE = "python:3.11"
CONCURRENCY = 8

_KINDS = (("Sandbox", SANDBOXES), ("SandboxClaim", CLAIMS))
_IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class KubernetesProvider:
    """The runtime of one namespace of a cluster."""

    summary: str = "pods of a Kubernetes cluster run the sandboxes"
    needs: frozenset[Need] = frozenset()

    def connect(
        self,
        settings: Settings,
        *,
        reason: str,
        image: str | None,
        packages: Packages,
        private_hosts: tuple[str, ...] = (),
        emit: Emit,
    ) -> KubernetesConnection:
        if packages.asked:
            raise UsageError(
                "runtime kubernetes installs no packages",
                hint="use an image that has them, or `runtime` local",
                fields=("packages",),
            )
        connection = self.find(settings, reason=reason)
        if connection is None:
            raise UsageError(self.absence(settings), hint="name one, or use `runtime` local", fields=("runtime",))
        connection.cluster.list(SANDBOXES, has_labels(["none"]))
        if connection.pool:
            connection = connection.of_pool()
            return connection if image is None else connection.with_image(image)
        _close_network(connection.cluster)
        return connection.with_image(image or IMAGE)

    def find(self, settings: Settings, *, reason: str, emit: Emit = ignore) -> KubernetesConnection | None:
        kubernetes = require("kubernetes.client", extra="kubernetes")
        config = require("kubernetes.config", extra="kubernetes")
        configuration = kubernetes.Configuration()
        namespace = settings.kubernetes_namespace
        try:
            if settings.kubeconfig is not None or not _IN_CLUSTER.exists():
                path = settings.kubeconfig or str(Path.home() / ".kube" / "config")
                if not any(Path(each).exists() for each in path.split(os.pathsep)):
                    return None
                config.load_kube_config(path, settings.kubernetes_context, configuration, persist_config=False)
                contexts, active = config.list_kube_config_contexts(path)
                name = settings.kubernetes_context or active["name"]
                context = next(each["context"] for each in contexts if each["name"] == name)
                namespace = namespace or context.get("namespace")
            else:
                config.load_incluster_config(configuration)
                namespace = namespace or (_IN_CLUSTER / "namespace").read_text().strip()
        except (config.ConfigException, OSError, KeyError, StopIteration) as error:
            raise AuthenticationError(
                f"the configuration of Kubernetes cannot be used: {one_line(error)}",
                hint="kubectl auth whoami shows whether it works; KUBECONFIG names another file",
            ) from error
        cluster = Cluster(configuration, namespace or "default")
        runtime_class = settings.kubernetes_runtime_class or ""
        return KubernetesConnection(
            kind=RuntimeKind.KUBERNETES,
            reason=reason,
            address=cluster.address,
            image="",
            is_local=False,
            suggested_concurrency=CONCURRENCY,
            isolation=f"pods of {f'the RuntimeClass {runtime_class}' if runtime_class else 'the cluster'}",
            memory_bytes=limits.MEMORY_BYTES,
            state_dir=settings.state_dir,
            way_out="`kubectl get sandboxes` shows whether the cluster answers",
            cluster=cluster,
            pool=settings.kubernetes_warm_pool or "",
            runtime_class=runtime_class,
        )

    def absence(self, settings: Settings) -> str:
        return f"No cluster is named: there is no file {settings.kubeconfig or '~/.kube/config'}."


def _close_network(cluster: Cluster) -> None:
    # Makes sure that pods of sandrl may not use the network, as far as the cluster enforces its policies.
    policy = cluster.find(POLICIES, POLICY)
    if policy is None:
        with suppress(Conflict):  # another process has made it
            policy = cluster.make(POLICIES, network_policy())
    if policy is not None and (problem := policy_problem(policy)):
        raise UsageError(
            f"{cluster.address}: the network policy {POLICY} is not that of sandrl: {problem}",
            hint=f"delete it: kubectl delete networkpolicy {POLICY}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesConnection(Connection):
    """A namespace of a cluster.

    Attributes:
        pool: The warm pool that sandboxes are taken from; empty where each has a pod of its own.
        runtime_class: The RuntimeClass of pods; empty for that of the cluster.
    """

    cluster: Cluster = field(repr=False, compare=False)
    pool: str = ""
    runtime_class: str = ""

    def of_pool(self) -> KubernetesConnection:
        """The same with the image and the memory of its warm pool.

        Raises:
            UsageError: If there is no such pool, or code of models must not run in its sandboxes.
        """
        try:
            template = self.cluster.get(POOLS, self.pool)["spec"]["sandboxTemplateRef"]["name"]
            found = self.cluster.get(TEMPLATES, template)
        except Missing as error:
            raise UsageError(
                f"{self.address}: warm pool {self.pool}: {error}", hint="make it in the cluster"
            ) from error
        if problem := template_problem(found):
            raise UsageError(f"{self.address}: warm pool {self.pool}: its template {template} is not safe: {problem}")
        image, memory_bytes = of_template(found)
        return replace(self, image=image, memory_bytes=memory_bytes)

    def with_image(self, image: str, emit: Emit = ignore) -> KubernetesConnection:
        if self.pool and image != self.image:
            raise UsageError(
                f"image {image}: the sandboxes of warm pool {self.pool} have {self.image}",
                hint="unset SANDRL_KUBERNETES_WARM_POOL, or use that image",
                fields=("image",),
            )
        return replace(self, image=image)

    def open(self, *, tags: Sequence[str] = (), max_lifetime_seconds: float | None = None) -> KubernetesClient:
        if self.network is not None and self.network.is_reachable:
            raise UsageError(
                "runtime kubernetes gives sandboxes no network: that of a pod also leads to private addresses",
                hint="use `runtime` local",
                fields=("network", "runtime"),
            )
        if self.pool and self.has_own_memory:
            raise UsageError(
                f"memory: warm pool {self.pool} says how much its sandboxes have",
                hint="leave it out, or unset SANDRL_KUBERNETES_WARM_POOL",
                fields=("memory",),
            )
        return KubernetesClient(self, tuple(tags), max_lifetime_seconds or limits.MAX_LIFETIME_SECONDS)


class KubernetesClient(HostedClient):
    lists_ended = True

    def __init__(self, connection: KubernetesConnection, tags: tuple[str, ...], lifetime_seconds: float) -> None:
        super().__init__()
        self._connection = connection
        self._cluster = connection.cluster
        self._tags = tags
        self._lifetime_seconds = lifetime_seconds

    def create(self, tags: Sequence[str], cells: int = 0, shape: Shape = USUAL) -> PodSandbox:
        connection = self._connection
        in_pool = bool(connection.pool)
        refused = {
            "network": shape.network is not None and shape.network.is_reachable,
            "GPUs": shape.gpus,
            "storage": shape.storage_bytes,
            "state": shape.state,
            "ports": shape.loopback_ports,
            "image": in_pool and shape.image not in ("", connection.image),
            "memory": in_pool and shape.memory_bytes not in (None, connection.memory_bytes),
            "processors": in_pool and shape.processors,
            "user": in_pool and shape.as_root,
            "directory": in_pool and shape.directory,
            "variables": in_pool and shape.variables,
        }
        if any(refused.values()):
            what = next(name for name, value in refused.items() if value)
            where = f"warm pool {connection.pool}" if in_pool else "runtime kubernetes"
            raise UsageError(
                f"{where} gives no sandbox {what} of its own", hint="use `runtime` local", fields=("runtime",)
            )
        request = PodRequest(
            image=shape.image or connection.image,
            tags=tuple(dict.fromkeys((*self._tags, *tags))),
            lifetime_seconds=shape.lifetime_seconds or self._lifetime_seconds,
            memory_bytes=shape.memory_bytes or connection.memory_bytes or limits.MEMORY_BYTES,
            pool=connection.pool,
            processors=shape.processors,
            as_root=shape.as_root,
            directory=shape.directory,
            variables=shape.variables,
            runtime_class=connection.runtime_class,
        )
        info = SandboxInfo("", "creating", tags=request.tags, max_lifetime_seconds=request.lifetime_seconds)
        sandbox = PodSandbox(self._cluster, request, info)
        self._own.append(sandbox)
        return sandbox

    def _listed(self, tags: Sequence[str]) -> Sequence[PodSandbox]:
        return [
            self._seen({"kind": kind} | each)
            for kind, path in _KINDS
            for each in self._cluster.list(path, has_labels(tags))
        ]

    def _found(self, sandbox_id: str) -> PodSandbox | None:
        for kind, path in _KINDS:
            found = self._cluster.find(path, sandbox_id)
            if found is not None:
                return self._seen({"kind": kind} | found)
        return None

    def _seen(self, found: dict[str, object]) -> PodSandbox:
        return PodSandbox(self._cluster, None, describe(found), found)

    def ping(self) -> Future[None]:
        def work() -> None:
            self._cluster.list(SANDBOXES, has_labels(["none"]))

        return in_background(work)


PROVIDER = KubernetesProvider()
