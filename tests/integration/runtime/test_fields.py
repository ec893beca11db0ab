"""Fields of requests that follow from the protocol alone, or that other tests do not set."""

from __future__ import annotations

import os
import re
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cwsandbox
import grpc
import pytest
from cwsandbox import AuthHeaders, Sandbox, SandboxDefaults, SandboxError, SecurityContext, Session
from cwsandbox._proto import sandbox_pb2 as pb
from cwsandbox._proto import sandbox_pb2_grpc
from google.protobuf.timestamp_pb2 import Timestamp

from sandrl.runtime.host.bubblewrap import BubblewrapLauncher
from sandrl.runtime.host.launcher import BootRequest, VolumeMount
from sandrl.runtime.host.users import HostUsers
from sandrl.runtime.server import fields
from tests.integration.runtime.conftest import wait_until
from tests.support.programs import require_program


@contextmanager
def calling(defaults: SandboxDefaults) -> Iterator[Any]:
    """The calls of the protocol, as functions of their requests."""
    assert isinstance(defaults.auth, AuthHeaders)
    metadata = tuple((key.lower(), value) for key, value in defaults.auth.headers.items())
    with grpc.insecure_channel(defaults.base_url.removeprefix("http://")) as channel:
        stub = sandbox_pb2_grpc.SandboxServiceStub(channel)

        class Calls:
            def __getattr__(self, name: str) -> Any:
                return lambda request: getattr(stub, name)(request, metadata=metadata)

        yield Calls()


@contextmanager
def created(defaults: SandboxDefaults, sandbox: pb.Sandbox) -> Iterator[tuple[Any, pb.Sandbox]]:
    with calling(defaults) as calls:
        made = calls.CreateSandbox(pb.CreateSandboxRequest(sandbox=sandbox, request_id=str(uuid.uuid4())))
        yield calls, made
        calls.DeleteSandbox(pb.DeleteSandboxRequest(sandbox_id=made.sandbox_id))


def with_container(**container: Any) -> pb.Sandbox:
    return pb.Sandbox(spec=pb.SandboxSpec(containers=[pb.Container(image="python:3.11", **container)]))


def output(defaults: SandboxDefaults, sandbox: pb.Sandbox, *command: str) -> str:
    """What a command prints in a sandbox."""
    attached = Sandbox.from_id(sandbox.sandbox_id, base_url=defaults.base_url, auth=defaults.auth).result()
    result = attached.exec(command).result()
    return str(result.stdout + result.stderr)


# The calls


def test_calls_that_are_not_served_say_so(defaults: SandboxDefaults) -> None:
    methods = {method.name: method for method in fields.SERVICES[0].methods}
    with calling(defaults) as calls:
        for name in fields.REFUSED_CALLS:
            with pytest.raises(grpc.RpcError) as refused:
                getattr(calls, name)(getattr(pb, methods[name].input_type.name)())
            assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
            assert fields.REFUSED_CALLS[name] in (refused.value.details() or "")


def test_a_refused_field_is_refused_by_the_daemon(session: Session) -> None:
    with pytest.raises(SandboxError, match=r"containers\[0\].security_context.privileged"):
        session.sandbox(security_context=SecurityContext(privileged=True)).start().result()


# Users and the root


def test_a_user_is_the_one_of_the_sandbox_or_refused(session: Session) -> None:
    sandbox = session.sandbox(security_context=SecurityContext(run_as_user=1000, run_as_group=1000))
    assert sandbox.exec(["id", "-u"]).result().stdout == "1000\n"
    for context in (SecurityContext(run_as_user=0), SecurityContext(run_as_group=4)):
        with pytest.raises(SandboxError, match=r"security_context\.run_as_(user|group)"):
            session.sandbox(security_context=context).start().result()


def test_the_root_is_read_only_and_no_capability_is_left(session: Session) -> None:
    context = SecurityContext(
        read_only_root_filesystem=True, capabilities_drop=["ALL"], seccomp_profile="RuntimeDefault"
    )
    sandbox = session.sandbox(security_context=context)
    assert sandbox.exec(["sh", "-c", "touch /new || touch /tmp/new; ls /tmp"]).result().stdout == "new\n"
    assert sandbox.exec(["grep", "CapPrm", "/proc/self/status"]).result().stdout.split()[1] == "0" * 16


# Volumes


def volumes(*mounts: pb.VolumeMount, **container: Any) -> pb.Sandbox:
    sandbox = with_container(volume_mounts=mounts, **container)
    for name in dict.fromkeys(mount.volume for mount in mounts):
        sandbox.spec.volumes.add(name=name).scratch.size = "8Mi"
    return sandbox


def test_a_volume_is_shown_at_each_of_its_mounts(defaults: SandboxDefaults) -> None:
    wanted = volumes(
        pb.VolumeMount(volume="v", mount_path="/data"),
        pb.VolumeMount(volume="v", mount_path="/part", sub_path="a/b"),
        pb.VolumeMount(volume="v", mount_path="/shown", read_only=True),
        pb.VolumeMount(volume="w", mount_path="/workspace"),
        files=[pb.FileMount(path="/data/a/given", content=b"given\n")],
    )
    with created(defaults, wanted) as (_, sandbox):
        script = "cat /shown/a/given; echo 1 > /part/x; cat /data/a/b/x; echo 2 > /shown/x; ls -A /workspace; pwd"
        printed = output(defaults, sandbox, "sh", "-c", f"({script}) 2>&1")
    assert printed.splitlines()[:2] == ["given", "1"]
    assert "Read-only file system" in printed
    assert printed.endswith("/workspace\n")


@pytest.mark.parametrize(
    ("mount", "field"),
    [
        (pb.VolumeMount(volume="other", mount_path="/data"), "volume_mounts.volume"),
        (pb.VolumeMount(volume="v", mount_path="data"), "containers[0]"),
        (pb.VolumeMount(volume="v", mount_path="/run"), "volume_mounts.mount_path"),
        (pb.VolumeMount(volume="v", mount_path="/run/sandrl/lib"), "volume_mounts.mount_path"),
        (pb.VolumeMount(volume="v", mount_path="/data", sub_path="../.."), "volume_mounts.sub_path"),
        (pb.VolumeMount(volume="v", mount_path="/data", sub_path="/etc"), "volume_mounts.sub_path"),
        (pb.VolumeMount(volume="v", mount_path="/given", read_only=True), "files"),
    ],
)
def test_a_mount_that_cannot_be_is_refused(defaults: SandboxDefaults, mount: pb.VolumeMount, field: str) -> None:
    wanted = with_container(volume_mounts=[mount], files=[pb.FileMount(path="/given/file", content=b"")])
    wanted.spec.volumes.add(name="v").scratch.SetInParent()
    with calling(defaults) as calls, pytest.raises(grpc.RpcError) as refused:
        calls.CreateSandbox(pb.CreateSandboxRequest(sandbox=wanted))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert field.encode() in next(
        item.value for item in refused.value.trailing_metadata() or () if "details" in item.key
    )


def test_bubblewrap_shows_volumes_that_can_be_written(tmp_path: Path) -> None:
    bwrap = require_program("bwrap")
    mounts = VolumeMount("v", "/data"), VolumeMount("v", "/part", "a/b"), VolumeMount("w", "/workspace")
    launcher = BubblewrapLauncher([], tmp_path, HostUsers("", 1000))
    arguments = launcher._writable(BootRequest("3.11", mounts=mounts, directories=("/data/in", "/own")))
    system = ("--ro-bind", "/usr", "/usr", *(word for name in ("bin", "lib", "lib64") for word in _top_level(name)))
    script = "echo 1 > /data/a/b/x; cat /part/x; cd /workspace && touch new; cd /data/in && cd /own && ls -A /workspace"
    command = [bwrap, "--unshare-all", "--dev", "/dev", *system, *arguments, "--", "sh", "-c", script]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "1\nnew\n"


def _top_level(name: str) -> tuple[str, ...]:
    place = Path("/", name)
    if place.is_symlink():
        return "--symlink", os.readlink(place), str(place)
    return ("--ro-bind", str(place), str(place)) if place.exists() else ()


# The startup probe


def probing(script: str, main: str = "", **numbers: int) -> pb.Sandbox:
    probe = pb.Probe(exec=["sh", "-c", script], **numbers)
    return with_container(startup_probe=probe, **({"command": "sh", "args": ["-c", main]} if main else {}))


def test_a_create_waits_until_the_startup_probe_has_succeeded(defaults: SandboxDefaults) -> None:
    wanted = probing(
        "echo x >> /tmp/tries; test -e /tmp/up",
        main="sleep 1.5; touch /tmp/up; sleep 60",
        initial_delay_seconds=1,
        period_seconds=1,
        failure_threshold=60,
    )
    with created(defaults, wanted) as (_, sandbox):
        assert sandbox.status.state == pb.STATE_RUNNING
        assert output(defaults, sandbox, "ls", "/tmp/up") == "/tmp/up\n"
        assert output(defaults, sandbox, "cat", "/tmp/tries").count("x") > 1


@pytest.mark.parametrize(("script", "reason"), [("exit 3", "it ended with 3"), ("sleep 60", "it took longer than 1 s")])
def test_a_startup_probe_that_fails_too_often_fails_the_sandbox(
    defaults: SandboxDefaults, script: str, reason: str
) -> None:
    wanted = probing(script, period_seconds=1, timeout_seconds=1, failure_threshold=2)
    with created(defaults, wanted) as (_, sandbox):
        assert sandbox.status.state == pb.STATE_FAILED
        assert sandbox.status.state_reason == f"the startup probe failed: {reason}"


def test_a_main_program_that_ends_before_the_startup_probe_succeeds_completes_its_sandbox(
    defaults: SandboxDefaults,
) -> None:
    with created(defaults, probing("exit 1", main="exit 4", period_seconds=2, failure_threshold=9)) as (_, sandbox):
        assert (sandbox.status.state, sandbox.status.exit_code) == (pb.STATE_COMPLETED, 4)


# The rest


def test_a_name_is_kept_and_a_runner_is_this_machine(defaults: SandboxDefaults) -> None:
    wanted = with_container()
    wanted.display_name = "mine"
    wanted.spec.annotations["note"] = "kept"
    with created(defaults, wanted) as (calls, sandbox):
        again = calls.GetSandbox(pb.GetSandboxRequest(sandbox_id=sandbox.sandbox_id))
        assert (again.display_name, again.spec.annotations["note"]) == ("mine", "kept")
        wanted.spec.runner_ids.append(sandbox.status.runner_id)
        with created(defaults, wanted) as (_, other):
            assert other.status.state == pb.STATE_RUNNING
        wanted.spec.runner_ids[:] = ["elsewhere"]
        with pytest.raises(grpc.RpcError, match="runner_ids"):
            calls.CreateSandbox(pb.CreateSandboxRequest(sandbox=wanted))


def test_logs_are_those_of_the_container_that_there_is(defaults: SandboxDefaults) -> None:
    with created(defaults, with_container()) as (calls, sandbox):
        name = sandbox.status.container_statuses[0].name
        assert list(calls.StreamLogs(pb.StreamLogsRequest(sandbox_id=sandbox.sandbox_id, container=name))) == []
        with pytest.raises(grpc.RpcError, match="no container 'other'"):
            list(calls.StreamLogs(pb.StreamLogsRequest(sandbox_id=sandbox.sandbox_id, container="other")))


def test_more_processors_or_memory_than_the_machine_has_are_refused(defaults: SandboxDefaults) -> None:
    for amounts in (pb.Resources(cpu="4096"), pb.Resources(memory="900Gi")):
        wanted = with_container(resource_requirements=pb.ResourceRequirements(requests=amounts))
        with calling(defaults) as calls, pytest.raises(grpc.RpcError, match="this machine has"):
            calls.CreateSandbox(pb.CreateSandboxRequest(sandbox=wanted))


def test_a_listing_selects_orders_and_pages(defaults: SandboxDefaults) -> None:
    tag = f"test-{uuid.uuid4().hex[:12]}"
    with calling(defaults) as calls:
        wanted = with_container()
        wanted.spec.tags.append(tag)
        made = [calls.CreateSandbox(pb.CreateSandboxRequest(sandbox=wanted)) for _ in range(3)]
        ids = [each.sandbox_id for each in made]

        def listed(**fields: Any) -> list[str]:
            request = pb.ListSandboxesRequest(tags=[tag], **fields)
            return [each.sandbox_id for each in calls.ListSandboxes(request).sandboxes]

        assert listed() == listed(runner_ids=[made[0].status.runner_id]) == ids
        assert listed(sort_direction=pb.SORT_DIRECTION_DESCENDING) == ids[::-1]
        assert listed(runner_ids=["elsewhere"]) == listed(volume_ids=["v-1"]) == []
        first = calls.ListSandboxes(pb.ListSandboxesRequest(tags=[tag], page_size=2))
        assert [each.sandbox_id for each in first.sandboxes] == ids[:2]
        assert listed(page_token=first.next_page_token) == ids[2:]
        calls.DeleteSandbox(pb.DeleteSandboxRequest(sandbox_id=ids[0]))
        assert listed() == listed(state=pb.STATE_RUNNING) == ids[1:]
        assert listed(show_terminated=True) == ids
        assert listed(state=pb.STATE_TERMINATED) == ids[:1]
        for name in ids[1:]:
            calls.DeleteSandbox(pb.DeleteSandboxRequest(sandbox_id=name))


def test_a_private_service_is_shown_in_the_status(defaults: SandboxDefaults) -> None:
    wanted = with_container()
    service = pb.Service(port=80, name="web", protocol=pb.SERVICE_PROTOCOL_TCP, visibility=pb.VISIBILITY_PRIVATE)
    wanted.spec.services.append(service)
    with created(defaults, wanted) as (_, sandbox):
        (shown,) = sandbox.status.services
        assert (shown.port, shown.name, shown.protocol) == (80, "web", pb.SERVICE_PROTOCOL_TCP)


def test_logs_begin_where_they_are_asked_to(defaults: SandboxDefaults) -> None:
    script = "echo 1; until test -e /tmp/go; do sleep 0.1; done; pwd; sleep 60"
    wanted = with_container(command="sh", args=["-c", script], working_dir="/work/place")
    with created(defaults, wanted) as (calls, sandbox):

        def streamed(**fields: Any) -> Iterator[pb.LogEntry]:
            found: Iterator[pb.LogEntry] = calls.StreamLogs(
                pb.StreamLogsRequest(sandbox_id=sandbox.sandbox_id, **fields)
            )
            return found

        def text(**fields: Any) -> bytes:
            return b"".join(each.data for each in streamed(**fields))

        first = next(streamed(follow=True))
        assert first.data == b"1\n"
        output(defaults, sandbox, "touch", "/tmp/go")
        wait_until(lambda: text() == b"1\n/work/place\n")
        assert text(tail_lines=1) == b"/work/place\n"
        assert re.fullmatch(rb"\S+Z 1\n\S+Z /work/place\n", text(timestamps=True))
        late = Timestamp()
        late.FromSeconds(int(time.time()) + 60)
        assert text(since_time=late) == b""
        session = {"resume_log_session_id": first.log_session_id}
        assert text(**session, resume_log_offset=first.next_log_offset) == b"/work/place\n"
        assert next(streamed(**session, resume_log_offset=1 << 40)).error.code == "INVALID_RESUME_OFFSET"


def test_another_container_than_the_one_there_is_is_refused(defaults: SandboxDefaults) -> None:
    with created(defaults, with_container(name="one")) as (calls, sandbox):
        place: Any = {"sandbox_id": sandbox.sandbox_id, "path": "/tmp/file"}
        calls.WriteFile(pb.WriteFileRequest(**place, container="one", content=b"x"))
        assert calls.ReadFile(pb.ReadFileRequest(**place, container="one")).content == b"x"
        for request in (pb.WriteFileRequest(**place, container="two"), pb.ReadFileRequest(**place, container="two")):
            with pytest.raises(grpc.RpcError, match="no container 'two'"):
                getattr(calls, type(request).__name__.removesuffix("Request"))(request)
        init = pb.ExecStreamInit(sandbox_id=sandbox.sandbox_id, command=["true"], container="two")
        with pytest.raises(grpc.RpcError, match="no container 'two'"):
            list(calls.StreamExec(iter([pb.ExecStreamRequest(init=init)])))


def test_variables_and_input_of_a_command_are_its_own(defaults: SandboxDefaults) -> None:
    wanted = with_container(environment_variables={"A": "container", "B": "container"})
    with created(defaults, wanted) as (calls, sandbox):
        command = ["sh", "-c", 'cat; echo "$A $B"']
        requests = [
            pb.ExecStreamRequest(
                init=pb.ExecStreamInit(sandbox_id=sandbox.sandbox_id, command=command, env={"B": "own"})
            ),
            pb.ExecStreamRequest(stdin=b"given "),
            pb.ExecStreamRequest(close=pb.ExecStreamClose()),
        ]
        answers = list(calls.StreamExec(iter(requests)))
    assert b"".join(each.output.data for each in answers) == b"given container own\n"


def test_the_runner_is_found_by_what_it_is(defaults: SandboxDefaults) -> None:
    assert defaults.auth is not None
    (runner,) = cwsandbox.list_runners(auth=defaults.auth, service_visibility="private")
    assert cwsandbox.list_runners(auth=defaults.auth, service_visibility="public") == []
    again = cwsandbox.get_runner(runner.runner_id, organization_id=runner.organization_id, auth=defaults.auth)
    assert again.runner_id == runner.runner_id
    assert again.resources is not None
    for runner_id, organization_id in (("elsewhere", runner.organization_id), (runner.runner_id, "other")):
        with pytest.raises(cwsandbox.RunnerNotFoundError):
            cwsandbox.get_runner(runner_id, organization_id=organization_id, auth=defaults.auth)
    for unfit in ({"gpu_type": "H100"}, {"architecture": "m68k"}, {"runner_group_id": "other"}):
        assert cwsandbox.list_runners(auth=defaults.auth, **unfit) == []  # type: ignore[arg-type]
