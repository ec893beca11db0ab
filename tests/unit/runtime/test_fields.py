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


TESTED = {
    "test_one_request_id_makes_one_sandbox": "CreateSandboxRequest.request_id CreateSandboxRequest.sandbox "
    "Sandbox.spec SandboxSpec.containers Container.image",
    "test_a_name_is_kept_and_a_runner_is_this_machine": "Sandbox.display_name SandboxSpec.annotations "
    "SandboxSpec.runner_ids GetSandboxRequest.sandbox_id",
    "test_a_volume_is_shown_at_each_of_its_mounts": "SandboxSpec.volumes SandboxVolume.name SandboxVolume.scratch "
    "Container.volume_mounts VolumeMount.volume VolumeMount.mount_path VolumeMount.read_only VolumeMount.sub_path",
    "test_a_volume_is_where_it_is_asked_for": "ScratchVolume.medium",
    "test_a_scratch_volume_is_a_directory_that_adds_its_size": "ScratchVolume.size",
    "test_a_volume_is_restored_as_it_was": "ScratchVolume.restore_from_snapshot_id "
    "CreateFileSystemSnapshotRequest.sandbox_id CreateFileSystemSnapshotRequest.scratch_volume_name",
    "test_a_private_service_is_shown_in_the_status": "SandboxSpec.services Service.port Service.name Service.protocol",
    "test_a_sandbox_ends_at_its_maximum_lifetime": "SandboxSpec.max_lifetime_seconds",
    "test_list_pages_through_many": "SandboxSpec.tags ListSandboxesRequest.tags",
    "test_a_value_that_asks_for_nothing_is_accepted": "SandboxSpec.network",
    "test_rules_of_the_protocol_name_destinations": "NetworkOptions.egress EgressRule.cidr CidrBlock.cidr "
    "EgressRule.https_hostname EgressRule.any EgressRule.ports PortRange.port PortRange.end_port PortRange.protocol",
    "test_denied_egress_contradicts_hosts": "NetworkOptions.deny_egress",
    "test_another_container_than_the_one_there_is_is_refused": "Container.name ReadFileRequest.container "
    "WriteFileRequest.container ExecStreamInit.container ReadFileRequest.sandbox_id WriteFileRequest.sandbox_id",
    "test_a_main_program_that_ends_completes_its_sandbox_with_its_exit_code": "Container.command Container.args",
    "test_exec_passes_arguments_directory_and_environment": "Container.environment_variables ExecStreamRequest.init "
    "ExecStreamInit.sandbox_id ExecStreamInit.command",
    "test_files_of_the_request_are_there_before_anything_runs": "Container.files FileMount.path FileMount.content",
    "test_memory_comes_from_the_limits_first": "Container.resources Container.resource_requirements Resources.memory "
    "ResourceRequirements.limits",
    "test_more_processors_or_memory_than_the_machine_has_are_refused": "ResourceRequirements.requests",
    "test_a_limit_of_processors_is_enforced_and_shown": "Resources.cpu",
    "test_a_user_is_the_one_of_the_sandbox_or_refused": "Container.security_context SecurityContext.run_as_user "
    "SecurityContext.run_as_group",
    "test_the_root_is_read_only_and_no_capability_is_left": "SecurityContext.read_only_root_filesystem "
    "SecurityContext.capabilities_drop",
    "test_privileges_of_an_image_are_those_that_are_asked_for": "SecurityContext.allow_privilege_escalation "
    "SecurityContext.capabilities_add",
    "test_a_create_waits_until_the_startup_probe_has_succeeded": "Container.startup_probe Probe.exec "
    "Probe.initial_delay_seconds Probe.period_seconds",
    "test_a_startup_probe_that_fails_too_often_fails_the_sandbox": "Probe.timeout_seconds Probe.failure_threshold",
    "test_a_listing_selects_orders_and_pages": "ListSandboxesRequest.page_size ListSandboxesRequest.page_token "
    "ListSandboxesRequest.state ListSandboxesRequest.show_terminated ListSandboxesRequest.runner_ids "
    "ListSandboxesRequest.volume_ids ListSandboxesRequest.sort_direction",
    "test_stop_gives_the_main_program_its_grace_period": "DeleteSandboxRequest.grace_period_seconds "
    "DeleteSandboxRequest.sandbox_id",
    "test_stop_of_a_missing_sandbox_is_an_error_unless_it_may_be_missing": "DeleteSandboxRequest.allow_missing",
    "test_a_snapshot_at_the_end_is_found_and_deleted": "DeleteSandboxRequest.snapshot_volumes "
    "GetFileSystemSnapshotRequest.file_system_snapshot_id DeleteFileSystemSnapshotRequest.file_system_snapshot_id",
    "test_a_request_that_is_repeated_makes_one_snapshot": "CreateFileSystemSnapshotRequest.request_id "
    "DeleteSandboxRequest.request_id",
    "test_snapshots_are_listed_by_page_and_sandbox": "ListFileSystemSnapshotsRequest.page_size "
    "ListFileSystemSnapshotsRequest.page_token ListFileSystemSnapshotsRequest.source_sandbox_id "
    "DeleteFileSystemSnapshotRequest.allow_missing",
    "test_a_shell_runs_on_a_terminal_that_can_be_resized": "ExecStreamInit.tty ExecStreamInit.tty_width "
    "ExecStreamInit.tty_height ExecStreamRequest.resize ExecStreamResize.width ExecStreamResize.height",
    "test_variables_and_input_of_a_command_are_its_own": "ExecStreamInit.env ExecStreamRequest.stdin "
    "ExecStreamRequest.close",
    "test_files_come_back_as_they_were_written": "WriteFileRequest.path WriteFileRequest.content ReadFileRequest.path",
    "test_logs_begin_where_they_are_asked_to": "Container.working_dir StreamLogsRequest.sandbox_id "
    "StreamLogsRequest.follow StreamLogsRequest.tail_lines StreamLogsRequest.since_time StreamLogsRequest.timestamps "
    "StreamLogsRequest.resume_log_session_id StreamLogsRequest.resume_log_offset",
    "test_logs_are_those_of_the_container_that_there_is": "StreamLogsRequest.container",
    "test_the_runner_is_found_by_what_it_is": "ListAvailableRunnersRequest.runner_group_id "
    "ListAvailableRunnersRequest.gpu_type ListAvailableRunnersRequest.architecture ListAvailableRunnersRequest.view "
    "ListAvailableRunnersRequest.service_visibility GetAvailableRunnerRequest.runner_id GetAvailableRunnerRequest.view "
    "GetAvailableRunnerRequest.organization_id",
}
"""By test: the fields without which it would fail."""


def test_every_field_that_is_served_has_a_test_of_what_it_does() -> None:
    assert {name for names in TESTED.values() for name in names.split()} == fields.SERVED
    texts = [path.read_text(encoding="utf-8") for path in TESTS.glob("*/runtime/test_*.py")]
    for test in TESTED:
        assert any(f"def {test}(" in text for text in texts), f"there is no {test}"


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
    "SecurityContext.seccomp_profile": "Unconfined",
    "SandboxVolume.volume_id": "v-1",
    "Service.visibility": pb.VISIBILITY_PUBLIC,
    "Service.endpoint": pb.EndpointSpec(),
    "NetworkOptions.ingress": [pb.IngressRule(any=True)],
    "NetworkOptions.dns_egress": pb.DNS_EGRESS_MODE_ALLOW,
    "EgressRule.tenant": pb.TENANT_SCOPE_SAME_ORG,
    "EgressRule.selector": pb.SelectorBlock(pod_labels={"app": "x"}),
    "EgressRule.https_hostname_except": ["example.org"],
    "CidrBlock.except": ["192.0.2.0/24"],
}
ACCEPTED = {
    "Sandbox.control": pb.CONTROL_PLATFORM,
    "SandboxSpec.mode": pb.SANDBOX_MODE_CKS,
    "SandboxSpec.runtime_class": fields.RUNTIME_CLASS,
    "Resources.gpu": pb.Gpu(),
    "SecurityContext.privileged": False,
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
