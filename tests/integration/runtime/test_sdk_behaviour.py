"""The unmodified SDK against the local runtime: everything a program may rely on remotely holds here too."""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import cwsandbox
import pytest
from cwsandbox import (
    AuthHeaders,
    CWSandboxAuthenticationError,
    NetworkOptions,
    RegisteredVolumeOptions,
    Sandbox,
    SandboxDefaults,
    SandboxError,
    SandboxFileError,
    SandboxNotFoundError,
    SandboxStatus,
    SandboxUnavailableError,
    SandboxValidationError,
    ScratchVolumeOptions,
    Service,
    ServiceVisibility,
    Session,
    SnapshotNotFoundError,
    SnapshotNotSupportedError,
    VolumeNotFoundError,
)
from cwsandbox._proto import sandbox_pb2 as pb

MIB = 1 << 20


def unique_tag() -> str:
    return f"test-{uuid.uuid4().hex[:12]}"


# Life


def test_a_main_program_that_ends_completes_its_sandbox_with_its_exit_code(defaults: SandboxDefaults) -> None:
    sandbox = Sandbox.run("sh", "-c", "exit 7", defaults=defaults)
    sandbox.wait_until_complete(timeout=20).result()
    assert sandbox.status is SandboxStatus.COMPLETED
    assert sandbox.returncode == 7


def test_a_main_program_that_does_not_exist_fails_its_sandbox(defaults: SandboxDefaults) -> None:
    sandbox = Sandbox.run("no-such-program", defaults=defaults)
    with pytest.raises(SandboxError):
        sandbox.wait_until_complete(timeout=20).result()
    assert sandbox.status is SandboxStatus.FAILED


def test_stop_gives_the_main_program_its_grace_period(defaults: SandboxDefaults) -> None:
    program = "trap 'sleep 0.3; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    sandbox = Sandbox.run("sh", "-c", program, defaults=defaults)
    assert next(iter(sandbox.stream_logs(follow=True))) == "up\n"
    begun = time.monotonic()
    sandbox.stop(graceful_shutdown_seconds=60).result()
    assert 0.25 < time.monotonic() - begun < 55
    assert sandbox.status is SandboxStatus.TERMINATED


def test_stop_of_a_missing_sandbox_is_an_error_unless_it_may_be_missing(session: Session) -> None:
    missing = str(uuid.uuid4())
    with pytest.raises(SandboxNotFoundError):
        Sandbox.delete(missing, base_url=session.sandbox()._base_url).result()
    Sandbox.delete(missing, missing_ok=True, base_url=session.sandbox()._base_url).result()


def test_a_sandbox_ends_at_its_maximum_lifetime(defaults: SandboxDefaults) -> None:
    sandbox = Sandbox.run(defaults=defaults.with_overrides(max_lifetime_seconds=1))
    sandbox.exec(["true"]).result()
    with pytest.raises(SandboxError):
        sandbox.exec(["sleep", "30"]).result()
    again = Sandbox.from_id(str(sandbox.sandbox_id)).result()
    while again.status is SandboxStatus.TERMINATING:
        again = Sandbox.from_id(str(sandbox.sandbox_id)).result()
    assert again.status is SandboxStatus.TERMINATED
    assert "max_lifetime_seconds" in (again.status_reason or "")


@asynccontextmanager
async def calls(defaults: SandboxDefaults) -> AsyncIterator[tuple[Any, tuple[tuple[str, str], ...]]]:
    """The calls that the SDK makes, and what shows who makes them."""
    import grpc
    from cwsandbox._proto import sandbox_pb2_grpc

    assert isinstance(defaults.auth, AuthHeaders)
    metadata = tuple((key.lower(), value) for key, value in defaults.auth.headers.items())
    async with grpc.aio.insecure_channel(defaults.base_url.removeprefix("http://")) as channel:
        yield sandbox_pb2_grpc.SandboxServiceStub(channel), metadata


def creation(tag: str) -> pb.CreateSandboxRequest:
    spec = pb.SandboxSpec(containers=[pb.Container(name="main", image="python:3.11")], tags=[tag])
    return pb.CreateSandboxRequest(sandbox=pb.Sandbox(spec=spec), request_id=str(uuid.uuid4()))


async def test_one_request_id_makes_one_sandbox(defaults: SandboxDefaults) -> None:
    import grpc

    request = creation(unique_tag())
    async with calls(defaults) as (stub, metadata):
        first = await stub.CreateSandbox(request, metadata=metadata)
        second = await stub.CreateSandbox(request, metadata=metadata)
        assert first.sandbox_id == second.sandbox_id
        request.sandbox.spec.tags.append("another")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.CreateSandbox(request, metadata=metadata)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        await stub.DeleteSandbox(pb.DeleteSandboxRequest(sandbox_id=first.sandbox_id), metadata=metadata)


async def test_a_creation_that_was_given_up_is_in_the_next_listing(defaults: SandboxDefaults) -> None:
    tag = unique_tag()
    async with calls(defaults) as (stub, metadata):
        # So many that the daemon has none ready to hand out, and must begin with each.
        begun = [stub.CreateSandbox(creation(tag), metadata=metadata) for _ in range(8)]
        await begun[0]
        for call in begun:
            call.cancel()
        found = await stub.ListSandboxes(pb.ListSandboxesRequest(tags=[tag]), metadata=metadata)
        for sandbox in found.sandboxes:
            await stub.DeleteSandbox(pb.DeleteSandboxRequest(sandbox_id=sandbox.sandbox_id), metadata=metadata)
        await asyncio.sleep(1)
        late = await stub.ListSandboxes(pb.ListSandboxesRequest(tags=[tag]), metadata=metadata)
        assert not late.sandboxes


def test_a_wrong_token_is_refused(defaults: SandboxDefaults) -> None:
    for headers in ({"Authorization": "Bearer wrong"}, {}):
        wrong = defaults.with_overrides(auth=AuthHeaders(headers=headers, strategy="api_key"))
        with pytest.raises(CWSandboxAuthenticationError):
            Sandbox.run(defaults=wrong).wait()


# Programs


def test_exec_passes_arguments_directory_and_environment(session: Session) -> None:
    sandbox = session.sandbox(environment_variables={"COLOUR": "grün", "EMPTY": ""})
    program = "import os, sys; print(sys.argv[1:], os.getcwd(), os.environ['COLOUR'], repr(os.environ['EMPTY']))"
    result = sandbox.exec(["python", "-c", program, "a b", "$HOME", ""], cwd="/tmp").result()
    assert result.stdout == "['a b', '$HOME', ''] /tmp grün ''\n"


def test_a_file_that_is_no_program_ends_with_126(sandbox: Sandbox) -> None:
    assert sandbox.exec(["/etc/passwd"]).result().returncode == 126


def test_a_background_program_does_not_hold_an_exec_open(sandbox: Sandbox) -> None:
    begun = time.monotonic()
    assert sandbox.exec(["sh", "-c", "sleep 60 & echo started"]).result().stdout == "started\n"
    assert time.monotonic() - begun < 50


def test_a_shell_runs_on_a_terminal_that_can_be_resized(sandbox: Sandbox) -> None:
    terminal = sandbox.shell(["sh"], width=90, height=30)
    terminal.stdin.write(b"test -t 0 && stty size\n").result()
    _read_until(terminal.output, "30 90")
    terminal.resize(120, 40)
    terminal.stdin.write(b"sleep 0.3; stty size; exit 5\n").result()
    _read_until(terminal.output, "40 120")
    assert terminal.result(timeout=20).returncode == 5


def _read_until(output: object, wanted: str) -> str:
    seen = ""
    for chunk in output:  # type: ignore[attr-defined]
        seen += chunk.decode(errors="replace")
        if wanted in seen:
            return str(seen)
    raise AssertionError(f"{wanted!r} never came: {seen!r}")


# Files


@pytest.mark.parametrize("size", [0, 32 * MIB])
def test_files_come_back_as_they_were_written(sandbox: Sandbox, size: int) -> None:
    content = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    sandbox.write_file("/workspace/data.bin", content).result()
    assert sandbox.read_file("/workspace/data.bin").result() == content


def test_files_above_the_unary_limit_are_streamed(sandbox: Sandbox) -> None:
    content = b"0123456789abcdef" * (40 * MIB // 16)
    sandbox.write_file("/tmp/large", content).result()
    assert sandbox.read_file("/tmp/large").result() == content
    assert b"".join(sandbox.read_file_streaming("/tmp/large")) == content


def test_file_errors_name_their_reason(sandbox: Sandbox) -> None:
    for path, reason in (
        ("/workspace/missing", "CWSANDBOX_FILE_NOT_FOUND"),
        ("/workspace", "CWSANDBOX_FILE_IS_DIRECTORY"),
        ("/proc/1/environ", "CWSANDBOX_FILE_PERMISSION_DENIED"),
    ):
        with pytest.raises(SandboxFileError) as error:
            sandbox.read_file(path).result()
        assert error.value.reason == reason
        assert error.value.filepath == path
    with pytest.raises(SandboxFileError) as error:
        sandbox.write_file("/usr/x", b"x").result()
    assert error.value.reason == "CWSANDBOX_FILE_PERMISSION_DENIED"


def test_a_pipe_without_a_writer_does_not_block_a_read(sandbox: Sandbox) -> None:
    sandbox.exec(["mkfifo", "/tmp/pipe"]).result()
    assert sandbox.read_file("/tmp/pipe").result() == b""


def test_files_of_the_request_are_there_before_anything_runs(session: Session) -> None:
    sandbox = session.sandbox(mounted_files=[{"mount_path": "/data/in/put.txt", "file_content": b"given"}])
    assert sandbox.exec(["cat", "/data/in/put.txt"]).result().stdout == "given"


# Logs


def test_logs_are_the_main_programs_output(defaults: SandboxDefaults) -> None:
    with Sandbox.run("sh", "-c", "echo a; echo b >&2; echo c; sleep 60", defaults=defaults) as sandbox:
        sandbox.wait()
        deadline = time.monotonic() + 10
        while len(lines := list(sandbox.stream_logs())) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert lines == ["a\n", "b\n", "c\n"]
        assert list(sandbox.stream_logs(tail_lines=2)) == ["b\n", "c\n"]
        stamped = list(sandbox.stream_logs(timestamps=True, tail_lines=1))
        assert stamped[0].endswith("Z c\n")


# Finding


def test_there_is_one_runner(session: Session) -> None:
    runners = cwsandbox.list_runners(include_resources=True)
    assert len(runners) == 1
    assert runners[0].healthy
    assert runners[0].max_memory_bytes > 0
    assert runners[0].resources is not None
    assert cwsandbox.list_runners(gpu_type="H100") == []


# What a local machine cannot give


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        ({"volumes": [RegisteredVolumeOptions(volume_id="v-1", name="v", mount_path="/v")]}, VolumeNotFoundError),
        ({"services": [Service(port=80, visibility=ServiceVisibility.PUBLIC)]}, SandboxError),
        ({"network": NetworkOptions(egress=[{"tenant": "same_org"}])}, SandboxError),
        ({"network": NetworkOptions(egress=[{"any": True, "ports": [80]}])}, SandboxError),
        ({"resources": {"cpu": "1", "memory": "1Gi", "gpu": {"count": 1, "type": "H100"}}}, SandboxError),
        ({"volumes": [ScratchVolumeOptions(name="v", restore_from_snapshot_id="s")]}, SnapshotNotSupportedError),
        (
            {"volumes": [ScratchVolumeOptions(name="v", mount_path="/v", restore_from_snapshot_id="s")]},
            SnapshotNotFoundError,
        ),
        ({"container_image": "127.0.0.1:1/none"}, SandboxValidationError),
        ({"container_image": "host:3.99"}, SandboxValidationError),
        ({"runtime_class": "gvisor"}, SandboxError),
    ],
)
def test_it_is_refused(session: Session, wanted: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error) as refusal:
        session.sandbox(**wanted).start().result()  # type: ignore[arg-type]
    assert not isinstance(refusal.value, SandboxUnavailableError)
    # An image that is not here is refused with what is.
    assert "container_image" not in wanted or re.search(r"host( python|:)3\.\d+", str(refusal.value))


def test_a_function_runs_in_a_sandbox(session: Session) -> None:
    @session.function()
    def add(a: int, b: int) -> int:
        return a + b

    assert add.remote(2, 3).result() == 5


def test_list_pages_through_many(session: Session) -> None:
    tag = unique_tag()
    sandboxes = [session.sandbox(tags=[tag]) for _ in range(130)]
    refs = [sandbox.start() for sandbox in sandboxes]
    cwsandbox.results(refs)
    assert len(session.list(tags=[tag]).result()) == 130
