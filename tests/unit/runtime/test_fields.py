"""The table of fields against the descriptors of the SDK, and the refusals that follow from it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import grpc
import pytest
from cwsandbox._proto import sandbox_pb2 as pb
from google.protobuf.message import Message

from sandrl.runtime.server import fields
from sandrl.runtime.server.faults import Fault

TESTS = Path(__file__).parents[2]


def test_every_field_of_every_request_is_in_the_table_once() -> None:
    found = {name for name, _ in fields.walk()}
    assert found == fields.SERVED | set(fields.REFUSED) | set(fields.WITHOUT_EFFECT)
    assert len(found) == len(fields.SERVED) + len(fields.REFUSED) + len(fields.WITHOUT_EFFECT)
    assert set(fields.NOTES) <= found


def test_every_call_is_served_or_refused() -> None:
    from sandrl.runtime.server.service import DiscoveryService, SandboxService

    for service, server in zip(fields.SERVICES, (SandboxService, DiscoveryService), strict=True):
        for method in service.methods:
            assert method.name in vars(server), f"{method.name} is not answered"
    calls = {method.name for service in fields.SERVICES for method in service.methods}
    assert set(fields.REFUSED_CALLS) < calls


def wanted(name: str, value: Any) -> Message:
    message, field = name.split(".")
    request: Message = getattr(pb, message)()
    if isinstance(value, (Message, list)):
        (getattr(request, field).extend if isinstance(value, list) else getattr(request, field).CopyFrom)(value)
    else:
        setattr(request, field, value)
    return request


REFUSED = {
    "Sandbox.control": pb.CONTROL_CONTAINER_ENGINE,
    "SandboxSpec.network_ids": ["network"],
    "SandboxSpec.network_config_id": "network",
    "SandboxSpec.object_storage_access": pb.ObjectStorageAccess(),
    "SandboxSpec.instance_type": "large",
    "SandboxSpec.mode": pb.SANDBOX_MODE_SERVERLESS,
    "SandboxSpec.runtime_class": "gvisor",
    "SandboxSpec.runtime_class_selection": 1,
    "Container.secret_stores": [pb.SecretStoreReference(store_name="store")],
    "Container.image_pull_credentials": pb.ImagePullCredentials(),
    "Resources.gpu": pb.Gpu(count=1),
    "SecurityContext.privileged": True,
    "SecurityContext.allow_privilege_escalation": True,
    "SecurityContext.capabilities_add": ["SYS_PTRACE"],
    "SecurityContext.seccomp_profile": "Unconfined",
    "SandboxVolume.volume_id": "v-1",
    "Service.visibility": pb.VISIBILITY_PUBLIC,
    "Service.endpoint": pb.EndpointSpec(),
    "NetworkOptions.ingress": [pb.IngressRule(any=True)],
    "NetworkOptions.egress": [pb.EgressRule(any=True)],
    "NetworkOptions.dns_egress": pb.DNS_EGRESS_MODE_ALLOW,
}
ACCEPTED = {
    "Sandbox.control": pb.CONTROL_PLATFORM,
    "SandboxSpec.mode": pb.SANDBOX_MODE_CKS,
    "SandboxSpec.runtime_class": fields.RUNTIME_CLASS,
    "Resources.gpu": pb.Gpu(),
    "SecurityContext.privileged": False,
    "SecurityContext.allow_privilege_escalation": False,
    "SecurityContext.seccomp_profile": "RuntimeDefault",
    "Service.visibility": pb.VISIBILITY_PRIVATE,
    "NetworkOptions.dns_egress": pb.DNS_EGRESS_MODE_DENY,
}


@pytest.mark.parametrize("name", sorted(fields.REFUSED))
def test_a_request_that_sets_a_refused_field_is_refused_and_the_field_is_named(name: str) -> None:
    with pytest.raises(Fault) as refused:
        fields.check(wanted(name, REFUSED[name]))
    assert name.partition(".")[2] in refused.value.message
    assert refused.value.reason
    assert refused.value.code in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.NOT_FOUND)


@pytest.mark.parametrize("name", sorted(name for name, rule in fields.REFUSED.items() if rule.condition))
def test_a_value_that_asks_for_nothing_is_accepted(name: str) -> None:
    fields.check(wanted(name, ACCEPTED[name]))


def test_a_refusal_names_the_place_of_the_field() -> None:
    request = pb.CreateSandboxRequest()
    request.sandbox.spec.containers.add().security_context.privileged = True
    with pytest.raises(Fault, match=re.escape("sandbox.spec.containers[0].security_context.privileged")):
        fields.check(request)


def test_a_tls_endpoint_has_a_reason_of_its_own() -> None:
    with pytest.raises(Fault) as refused:
        fields.check(pb.Service(endpoint=pb.EndpointSpec(kind=pb.ENDPOINT_KIND_TLS_PASSTHROUGH)))
    assert refused.value.reason == "CWSANDBOX_TLS_PASSTHROUGH_ENDPOINTS_NOT_SUPPORTED"
