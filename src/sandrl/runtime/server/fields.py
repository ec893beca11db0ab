"""The table of the fields of the protocol, each of which the local runtime serves, refuses, or takes without effect.

Requests are checked against this table before they are carried out, so that no field is accepted and ignored in
silence. A test walks the descriptors of the SDK: a field that is not in the table fails it. `make generate` writes the
table into the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import grpc
from cwsandbox._proto import discovery_pb2
from cwsandbox._proto import sandbox_pb2 as pb
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from sandrl.runtime.guest import accounts
from sandrl.runtime.server import faults

RUNTIME_CLASS = "sandrl-local"
SERVICES = (
    pb.DESCRIPTOR.services_by_name["SandboxService"],
    discovery_pb2.DESCRIPTOR.services_by_name["DiscoveryService"],
)
_PACKAGE = "coreweave.sandbox.v1"
_NO_RUNNER = "CWSANDBOX_NO_SUITABLE_RUNNER"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A field that is refused if it asks for what a local machine does not have.

    Attributes:
        what: What it asks for.
        accepts: Whether a value asks for nothing of that; a field that is not set is never refused.
        reason: The reason by which the SDK chooses its error, or a function of the value that gives it.
        condition: What `accepts` accepts, for the reference.
    """

    what: str
    accepts: Callable[[Any], bool] = lambda value: not value
    reason: str | Callable[[Any], str] = _NO_RUNNER
    condition: str = ""

    def fault(self, value: Any, place: str) -> faults.Fault:
        reason = self.reason if isinstance(self.reason, str) else self.reason(value)
        if reason == "CWSANDBOX_VOLUME_NOT_FOUND":
            message = f"volume {value!r} not found ({place}); the local runtime has no registered volumes"
            return faults.Fault(grpc.StatusCode.NOT_FOUND, message, reason=reason, metadata={"volume_id": value})
        return faults.unsupported(f"{self.what} ({place})", reason)


def _reason_of_endpoint(endpoint: pb.EndpointSpec) -> str:
    if endpoint.kind == pb.ENDPOINT_KIND_TLS_PASSTHROUGH:
        return "CWSANDBOX_TLS_PASSTHROUGH_ENDPOINTS_NOT_SUPPORTED"
    return "CWSANDBOX_HTTPS_SHARE_TOKEN_NOT_SUPPORTED"


REFUSED_CALLS = {
    "CreateSandboxFromTemplate": "templates of sandboxes",
    "CreateSandboxFromFile": "sandboxes from a compose file",
    "GetSandboxBuildLogs": "logs of builds",
    "PurgeSandboxes": "purges: list sandboxes, and delete each",
    "ConnectSandbox": "direct connections to sandboxes: calls go through its gateway",
    "Exec": "commands without streams: use StreamExec",
}
"""Calls that are refused whatever their fields are, and what they ask for."""

REFUSED = {
    "Sandbox.control": Refusal(
        "a container engine", lambda value: value == pb.CONTROL_PLATFORM, condition="`CONTROL_PLATFORM`"
    ),
    "SandboxSpec.network_ids": Refusal("a network of sandboxes"),
    "SandboxSpec.network_config_id": Refusal("a network configuration"),
    "SandboxSpec.object_storage_access": Refusal("object storage access", lambda _value: False),
    "SandboxSpec.instance_type": Refusal("a choice of instance type"),
    "SandboxSpec.mode": Refusal(
        "a serverless place",
        lambda value: value == pb.SANDBOX_MODE_CKS,
        condition="`SANDBOX_MODE_CKS`, one's own machine",
    ),
    "SandboxSpec.runtime_class": Refusal(
        "another runtime class", lambda value: value == RUNTIME_CLASS, condition=f"`{RUNTIME_CLASS}`"
    ),
    "SandboxSpec.runtime_class_selection": Refusal("a choice of runtime class"),
    "Container.secret_stores": Refusal("a secret store"),
    "Container.image_pull_credentials": Refusal("a secret store with credentials of a registry", lambda _value: False),
    "Resources.gpu": Refusal(
        "a GPU", lambda gpu: not (gpu.count or gpu.type or gpu.memory_gb), condition="a count of 0"
    ),
    "SecurityContext.privileged": Refusal("a privileged container", condition="`false`"),
    "SecurityContext.seccomp_profile": Refusal(
        "another seccomp profile", lambda value: value == "RuntimeDefault", condition="`RuntimeDefault`"
    ),
    "SandboxVolume.volume_id": Refusal("a registered volume", reason="CWSANDBOX_VOLUME_NOT_FOUND"),
    "Service.visibility": Refusal(
        "a service reachable from outside its sandbox",
        lambda value: value == pb.VISIBILITY_PRIVATE,
        condition="`VISIBILITY_PRIVATE`",
    ),
    "Service.endpoint": Refusal("an endpoint", lambda _value: False, _reason_of_endpoint),
    "NetworkOptions.ingress": Refusal("a network beyond the sandbox's own loopback"),
    "NetworkOptions.dns_egress": Refusal(
        "another name server than the gate's",
        lambda value: value == pb.DNS_EGRESS_MODE_DENY,
        condition="`DNS_EGRESS_MODE_DENY`",
    ),
    "EgressRule.tenant": Refusal("a network of sandboxes"),
    "EgressRule.selector": Refusal("a cluster with other workloads"),
    "EgressRule.https_hostname_except": Refusal("exceptions from names"),
    "CidrBlock.except": Refusal("exceptions from networks"),
}
"""By message and field."""

_BY_SERVICE = "the service sets it"
WITHOUT_EFFECT = {
    **dict.fromkeys(("Sandbox.sandbox_id", "Sandbox.status", "Sandbox.endpoint_share_token"), _BY_SERVICE),
    **dict.fromkeys(("Sandbox.source_template_id", "Sandbox.source_template_revision"), _BY_SERVICE),
    "Container.primary": "the only container is the primary one",
    "NetworkOptions.deny_ingress": "with every value, nothing reaches a sandbox from outside",
    "ListAvailableRunnersRequest.healthy_only": "a daemon that answers is healthy",
    "ListAvailableRunnersRequest.page_size": "there is one runner",
    "ListAvailableRunnersRequest.page_token": "there is one runner",
}
"""By message and field: why nothing follows from it."""

_SERVED = {
    "CreateSandboxRequest": "sandbox request_id",
    "Sandbox": "spec display_name",
    "SandboxSpec": "containers volumes services max_lifetime_seconds tags runner_ids network annotations",
    "Container": "name image command args environment_variables resources files volume_mounts working_dir "
    "resource_requirements security_context startup_probe",
    "Resources": "cpu memory",
    "ResourceRequirements": "requests limits",
    "FileMount": "path content",
    "VolumeMount": "volume mount_path read_only sub_path",
    "NetworkOptions": "egress deny_egress",
    "EgressRule": "cidr https_hostname any ports",
    "CidrBlock": "cidr",
    "PortRange": "port end_port protocol",
    "SecurityContext": "run_as_user run_as_group allow_privilege_escalation read_only_root_filesystem capabilities_add "
    "capabilities_drop",
    "Probe": "exec period_seconds timeout_seconds failure_threshold initial_delay_seconds",
    "SandboxVolume": "name scratch",
    "ScratchVolume": "size medium restore_from_snapshot_id",
    "Service": "port name protocol",
    "GetSandboxRequest": "sandbox_id",
    "ListSandboxesRequest": "page_size page_token tags state show_terminated runner_ids volume_ids sort_direction",
    "DeleteSandboxRequest": "sandbox_id grace_period_seconds snapshot_volumes request_id allow_missing",
    "ExecStreamRequest": "init stdin resize close",
    "ExecStreamInit": "sandbox_id command tty tty_width tty_height env container",
    "ExecStreamResize": "width height",
    "StreamLogsRequest": "sandbox_id follow tail_lines since_time container timestamps resume_log_session_id "
    "resume_log_offset",
    "WriteFileRequest": "sandbox_id path content container",
    "ReadFileRequest": "sandbox_id path container",
    "CreateFileSystemSnapshotRequest": "sandbox_id request_id scratch_volume_name",
    "GetFileSystemSnapshotRequest": "file_system_snapshot_id",
    "ListFileSystemSnapshotsRequest": "page_size page_token source_sandbox_id",
    "DeleteFileSystemSnapshotRequest": "file_system_snapshot_id allow_missing",
    "ListAvailableRunnersRequest": "runner_group_id gpu_type architecture view service_visibility",
    "GetAvailableRunnerRequest": "runner_id view organization_id",
}
SERVED = {f"{message}.{name}" for message, names in _SERVED.items() for name in names.split()}

NOTES = {
    "SandboxSpec.containers": "exactly one",
    "SandboxSpec.services": "shown in the status; programs reach them inside the sandbox only",
    "SandboxSpec.runner_ids": "refused if this machine is not among them",
    "SandboxSpec.max_lifetime_seconds": "at most 24 hours; the status shows what is in effect",
    "NetworkOptions.egress": "a kernel with nftables is needed; a worker has no network",
    "NetworkOptions.deny_egress": "without rules of `egress`, a sandbox has only its own loopback in any case",
    "EgressRule.cidr": "its public addresses; private ones are named in the annotation `sandrl.dev/private-hosts`",
    "EgressRule.https_hostname": "TCP port 443; the annotation `sandrl.dev/allowed-hosts` names hosts with other ports",
    "EgressRule.any": "all TCP ports of public addresses; refused with `ports`",
    "PortRange.protocol": "TCP alone",
    "Resources.cpu": "a request of more processors than the machine has is refused; a limit is enforced where control "
    "groups with the controller `cpu` can be made, and otherwise missing in the status",
    "Resources.memory": "a request without a limit is also the limit; one of more than the machine has is refused",
    "SecurityContext.run_as_user": "in the host's system 1000 alone; in an image any that the sandbox has an id for",
    "SecurityContext.run_as_group": "in the host's system 1000 alone; in an image any that the sandbox has an id for",
    "SecurityContext.allow_privilege_escalation": "refused in the host's system; in an image, setuid programs work "
    "unless it is `false`",
    "SecurityContext.read_only_root_filesystem": "in the host's system, `/` is always read-only, and home, `/tmp`, "
    "`/var/tmp` and `/workspace` are not; in an image, only volumes and `/dev/shm` stay writable",
    "SecurityContext.capabilities_add": "refused in the host's system; in an image, those that its user 0 can have: "
    f"{', '.join(accounts.OF_PROGRAMS)}",
    "SecurityContext.capabilities_drop": "in the host's system, programs have none",
    "ScratchVolume.size": "added to the limit on the files of the sandbox",
    "ScratchVolume.medium": "in an image, `DISK` puts all that the sandbox writes on disk, and so does a size beyond "
    "the memory of this machine without a medium; in the host's system, files are in memory with every medium",
    "ScratchVolume.restore_from_snapshot_id": "the volume must be mounted whole and writable",
    "DeleteSandboxRequest.request_id": "of its snapshots: a sandbox ends once, however often that is requested",
    "Container.startup_probe": "the sandbox is created when the probe has succeeded, and fails if it does not",
}
"""What is to be known about fields that are served."""


def check(request: Message, place: str = "") -> None:
    """Refuse a request that asks for what the local runtime does not have.

    Raises:
        faults.Fault: Which names the field.
    """
    for field, value in request.ListFields():
        name, where = _name(field), f"{place}{field.name}"
        refusal = REFUSED.get(name)
        if refusal is not None and not refusal.accepts(value):
            raise refusal.fault(value, where)
        if walked(field) is not None:
            for number, each in enumerate(value if field.is_repeated else [value]):
                check(each, f"{where}[{number}]." if field.is_repeated else f"{where}.")


def refused_call(call: str) -> faults.Fault:
    """The answer to a call of `REFUSED_CALLS`."""
    message = f"{call} is not implemented: the local runtime has no {REFUSED_CALLS[call]}"
    return faults.Fault(grpc.StatusCode.UNIMPLEMENTED, message, reason="CWSANDBOX_NOT_IMPLEMENTED")


def _name(field: FieldDescriptor) -> str:
    return ".".join(field.full_name.split(".")[-2:])


def walked(field: FieldDescriptor) -> Descriptor | None:
    """The message of a field whose own fields matter, because it is served itself."""
    message = field.message_type
    if message is None or message.file.package != _PACKAGE or message.GetOptions().map_entry:
        return None
    return None if _name(field) in REFUSED or _name(field) in WITHOUT_EFFECT else message


def walk() -> Iterator[tuple[str, FieldDescriptor]]:
    """Every field that a request to the daemon may have, as `Message.field`, once."""
    seen: set[str] = set()

    def below(message: Descriptor | None) -> Iterator[tuple[str, FieldDescriptor]]:
        if message is None or message.name in seen:
            return
        seen.add(message.name)
        for field in message.fields:
            yield _name(field), field
            yield from below(walked(field))

    for service in SERVICES:
        for method in service.methods:
            if method.name not in REFUSED_CALLS:
                yield from below(method.input_type)
