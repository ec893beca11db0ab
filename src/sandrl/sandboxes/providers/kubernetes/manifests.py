"""The objects of sandrl in a cluster: a `Sandbox` with a pod of its own, or a `SandboxClaim` of a warm pool.

Each tag is a label, so that the API server itself finds what has certain tags. The value of the label is the place of
the tag among the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sandrl.sandboxes.providers.programs import number_of
from sandrl.sandboxes.providers.protocol import SandboxInfo

TAG_LABEL = "tag.sandrl/"
POLICY, CONTAINER = "sandrl-no-network", "sandbox"

_IMAGE, _LIFETIME, _MEMORY = "sandrl/image", "sandrl/lifetime", "sandrl/memory"
_OWN_LABEL, _NETWORK_LABEL = {"app.kubernetes.io/managed-by": "sandrl"}, {"sandrl/network": "none"}
# It cannot be killed from inside, and ends with its pod.
_KEEPER = "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"
_STORAGE_BYTES, _STORAGE_REQUEST_BYTES = 10 << 30, 64 << 20
# After the lifetime, where the controller has not ended it.
_GRACE_SECONDS = 60
_REASONS = {
    "DependenciesNotReady": "creating",
    "SandboxNotReady": "creating",
    "SandboxSuspended": "paused",
    "PodSucceeded": "completed",
    "PodFailed": "failed",
    "SandboxExpired": "terminated",
    "ClaimExpired": "terminated",
}


@dataclass(frozen=True, slots=True)
class PodRequest:
    """What a sandbox is made from.

    Attributes:
        pool: The warm pool whose template says what it is; empty for a pod of its own.
        memory_bytes: Of the template, if there is one.
        runtime_class: The RuntimeClass of its pod; empty for that of the cluster.
    """

    image: str
    tags: tuple[str, ...]
    lifetime_seconds: float
    memory_bytes: int
    pool: str = ""
    processors: float | None = None
    as_root: bool = False
    directory: str | None = None
    variables: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    runtime_class: str = ""

    @property
    def kind(self) -> str:
        return "SandboxClaim" if self.pool else "Sandbox"

    def manifest(self, name: str) -> dict[str, Any]:
        """The object to make, whose shutdown time is its lifetime after now."""
        ends_at = datetime.now(UTC) + timedelta(seconds=self.lifetime_seconds)
        lifecycle = {"shutdownTime": _time(ends_at), "shutdownPolicy": "Delete"}
        metadata = {
            "name": name,
            "labels": _OWN_LABEL | {f"{TAG_LABEL}{tag}": str(place) for place, tag in enumerate(self.tags)},
            "annotations": {
                _IMAGE: self.image,
                _LIFETIME: f"{self.lifetime_seconds:g}",
                _MEMORY: str(self.memory_bytes),
            },
        }
        if self.pool:
            return {
                "apiVersion": "extensions.agents.x-k8s.io/v1beta1",
                "kind": self.kind,
                "metadata": metadata,
                "spec": {"warmPoolRef": {"name": self.pool}, "lifecycle": lifecycle},
            }
        template = {"metadata": {"labels": _NETWORK_LABEL}, "spec": self._pod()}
        return {
            "apiVersion": "agents.x-k8s.io/v1beta1",
            "kind": self.kind,
            "metadata": metadata,
            "spec": {"podTemplate": template, "service": False} | lifecycle,
        }

    def _pod(self) -> dict[str, Any]:
        processors = {"cpu": f"{round(self.processors * 1000)}m"} if self.processors else {}
        memory = {"memory": str(self.memory_bytes)}
        container = {
            "name": CONTAINER,
            "image": self.image,
            "command": ["/bin/sh", "-c", _KEEPER],
            "env": [{"name": name, "value": value} for name, value in self.variables],
            "resources": {
                "limits": memory | processors | {"ephemeral-storage": str(_STORAGE_BYTES)},
                "requests": memory | processors | {"ephemeral-storage": str(_STORAGE_REQUEST_BYTES)},
            },
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "privileged": False,
                "capabilities": {"drop": ["ALL"]},
                "seccompProfile": {"type": "RuntimeDefault"},
            }
            | ({"runAsUser": 0} if self.as_root else {}),
        } | ({"workingDir": self.directory} if self.directory else {})
        return {
            "containers": [container],
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "hostNetwork": False,
            "hostPID": False,
            "hostIPC": False,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "activeDeadlineSeconds": math.ceil(self.lifetime_seconds) + _GRACE_SECONDS,
            # A name is refused at once, instead of after the time that a server has to answer.
            "dnsPolicy": "None",
            "dnsConfig": {"nameservers": ["127.0.0.1"]},
        } | ({"runtimeClassName": self.runtime_class} if self.runtime_class else {})


def network_policy() -> dict[str, Any]:
    """The policy that lets the pods of sandrl neither reach anything nor be reached."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": POLICY, "labels": _OWN_LABEL},
        "spec": {"podSelector": {"matchLabels": _NETWORK_LABEL}, "policyTypes": ["Ingress", "Egress"]},
    }


def policy_problem(policy: Mapping[str, Any]) -> str:
    """Why a policy of this name does not do that; empty if it does."""
    spec = policy.get("spec") or {}
    is_whole = spec.get("podSelector") in ({}, {"matchLabels": _NETWORK_LABEL})
    is_closed = not spec.get("egress") and not spec.get("ingress")
    if is_whole and is_closed and {*spec.get("policyTypes", ())} >= {"Ingress", "Egress"}:
        return ""
    return "it opens the network to pods of its label"


def template_problem(template: Mapping[str, Any]) -> str:
    """Why code of models must not run in the sandboxes of a template; empty if it may."""
    spec = template.get("spec") or {}
    pod = (spec.get("podTemplate") or {}).get("spec") or {}
    policy = spec.get("networkPolicy")
    if spec.get("networkPolicyManagement") == "Unmanaged" or policy is None or policy.get("egress"):
        return "its programs may use the network; set networkPolicy to {} in it"
    if pod.get("restartPolicy") != "Never":
        return "its pods start again and forget their files; set restartPolicy to Never in it"
    shared = [name for name in ("hostNetwork", "hostPID", "hostIPC", "automountServiceAccountToken") if pod.get(name)]
    if shared:
        return f"it has {shared[0]}"
    if any("hostPath" in volume for volume in pod.get("volumes") or ()):
        return "it has a directory of the node (hostPath)"
    for container in (*(pod.get("containers") or ()), *(pod.get("initContainers") or ())):
        context = container.get("securityContext") or {}
        capabilities = context.get("capabilities") or {}
        if context.get("privileged") or capabilities.get("add"):
            return f"its container {container.get('name')} has privileges"
        if context.get("allowPrivilegeEscalation") is not False or "ALL" not in (capabilities.get("drop") or ()):
            return (
                f"its container {container.get('name')} can get privileges; set allowPrivilegeEscalation to false,"
                " and drop the capabilities ALL"
            )
    if bytes_of(_memory(pod)) is None:
        return "its first container has no limit of memory (resources.limits.memory)"
    return ""


def of_template(template: Mapping[str, Any]) -> tuple[str, int]:
    """The image and the memory of the sandboxes of a template without problems."""
    pod = template["spec"]["podTemplate"]["spec"]
    return str(pod["containers"][0]["image"]), bytes_of(_memory(pod)) or 0


def _memory(pod: Mapping[str, Any]) -> str:
    containers = pod.get("containers") or [{}]
    return str(((containers[0].get("resources") or {}).get("limits") or {}).get("memory", ""))


def bytes_of(quantity: str) -> int | None:
    """The bytes of a quantity of Kubernetes, such as `512Mi`; None if it is none."""
    units = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "k": 10**3, "M": 10**6, "G": 10**9}
    unit = next((each for each in units if quantity.endswith(each)), "")
    try:
        return int(float(quantity.removesuffix(unit)) * units.get(unit, 1))
    except ValueError:
        return None


def condition(found: Mapping[str, Any], kind: str = "Ready") -> dict[str, Any]:
    """A condition of an object; empty if it has none of this kind."""
    conditions = (found.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == kind), {})


def describe(found: Mapping[str, Any]) -> SandboxInfo:
    """What an object says of its sandbox."""
    metadata, ready = found["metadata"], condition(found)
    labels, notes = metadata.get("labels") or {}, metadata.get("annotations") or {}
    status = "running" if ready.get("status") == "True" else _REASONS.get(ready.get("reason", ""), "pending")
    if metadata.get("deletionTimestamp"):
        status = "terminating"
    tags = sorted((name for name in labels if name.startswith(TAG_LABEL)), key=lambda name: number_of(labels[name]))
    return SandboxInfo(
        id=metadata["name"],
        status=status,
        reason="" if status == "running" else str(ready.get("message", "")),
        tags=tuple(name.removeprefix(TAG_LABEL) for name in tags),
        created_at=datetime.fromisoformat(metadata["creationTimestamp"]),
        started_at=datetime.fromisoformat(ready["lastTransitionTime"]) if status == "running" else None,
        max_lifetime_seconds=number_of(notes.get(_LIFETIME)),
        image=str(notes.get(_IMAGE, "")),
        resources=(("memory", str(notes.get(_MEMORY, ""))),),
    )


def has_labels(tags: Iterable[str]) -> list[str]:
    """The selectors of the sandboxes of sandrl that have all these tags."""
    return [*("=".join(each) for each in _OWN_LABEL.items()), *(f"{TAG_LABEL}{tag}" for tag in tags)]


def _time(at: datetime) -> str:
    # The API has whole seconds.
    return (at + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
