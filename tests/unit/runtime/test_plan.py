"""What a request's spec becomes, and what of it is refused."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from cwsandbox._defaults import DEFAULT_ARGS, DEFAULT_COMMAND
from cwsandbox._proto import sandbox_pb2 as pb

from sandrl.errors import UnknownImageError
from sandrl.runtime import limits
from sandrl.runtime.host.images import Image, StoreImage, host_image
from sandrl.runtime.host.launcher import VolumeMount
from sandrl.runtime.server.faults import Fault
from sandrl.runtime.server.plan import make_plan
from sandrl.runtime.server.resources import parse_quantity

IMAGES = [Image("3.11", "/opt/python", "/opt/python/bin/python3.11"), Image("3.12", "/usr", "/usr/bin/python3.12")]


def spec(**container: Any) -> pb.SandboxSpec:
    return pb.SandboxSpec(containers=[pb.Container(**{"name": "main", "image": "python:3.11", **container})])


@pytest.mark.parametrize(
    ("text", "value"),
    [("512Mi", 512 << 20), ("1Gi", 1 << 30), ("500m", 0.5), ("2", 2), ("1.5", 1.5), ("1k", 1000), ("64K", 64_000)],
)
def test_quantities_are_those_of_kubernetes(text: str, value: float) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize("text", ["", "much", "-1", "1 Gi", "1Xi", "1e9Gi"])
def test_other_quantities_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("reference", "version"),
    [
        ("", "3.11"),
        ("host", "3.11"),
        ("python:3.11", "3.11"),  # what the SDK sends where nothing is named
        ("host:3.12", "3.12"),
        ("host python3.12", "3.12"),
        ("python:3.12", None),
        ("python:3.11-slim", None),
        ("hosts", None),
        ("ubuntu:24.04", None),
    ],
)
def test_the_hosts_system_is_what_names_it_or_names_nothing(reference: str, version: str | None) -> None:
    image = host_image(reference, IMAGES)
    assert (image and image.name) == version


def test_an_interpreter_that_the_host_does_not_have_is_named_with_those_it_has() -> None:
    with pytest.raises(UnknownImageError, match=r"no Python 3\.9.*host:3\.11, host:3\.12"):
        host_image("host:3.9", IMAGES)


STORED = StoreImage(
    *("web", "sha256:0", ("low", "high"), (("PATH", "/opt/bin"), ("MODE", "image"))),
    *("/srv", "app:web", ("/init", "--"), ("serve",)),
)


def test_an_image_of_the_store_gives_layers_user_directory_and_variables() -> None:
    plan = make_plan(spec(environment_variables={"MODE": "request"}), STORED)
    assert plan.boot.layers == ("low", "high")
    assert plan.boot.user == "app:web"
    assert plan.directory == "/srv"
    assert plan.boot.directories == ("/srv",)
    assert plan.environment["PATH"] == "/opt/bin"
    assert plan.environment["MODE"] == "request"


@pytest.mark.parametrize(
    ("command", "arguments", "main"),
    [
        ("", [], ("/init", "--", "serve")),
        ("", ["build", "x"], ("/init", "--", "build", "x")),
        ("sleep", ["5"], ("sleep", "5")),
        (DEFAULT_COMMAND, list(DEFAULT_ARGS), None),
    ],
)
def test_entrypoint_and_command_are_those_of_a_container(
    command: str, arguments: list[str], main: tuple[str, ...] | None
) -> None:
    assert make_plan(spec(command=command, args=arguments), STORED).main == main


def test_all_of_an_image_can_be_written_to() -> None:
    files = [pb.FileMount(path="/etc/app/conf", content=b"x")]
    plan = make_plan(spec(working_dir="/usr/src/app", files=files), STORED)
    assert plan.boot.directories == ("/etc/app", "/usr/src/app")
    with pytest.raises(Fault, match="not an absolute path"):
        make_plan(spec(working_dir="../up"), STORED)


def test_a_plain_request_gets_the_default_limits() -> None:
    plan = make_plan(spec(), IMAGES[0])
    assert plan.boot.memory_bytes == limits.MEMORY_BYTES
    assert plan.boot.disk_bytes == limits.DISK_BYTES
    assert plan.boot.image == "3.11"
    assert plan.lifetime_seconds == limits.MAX_LIFETIME_SECONDS


def test_the_sdks_keep_alive_command_is_not_started() -> None:
    assert make_plan(spec(command=DEFAULT_COMMAND, args=list(DEFAULT_ARGS)), IMAGES[0]).main is None
    assert make_plan(spec(command="sleep", args=["5"]), IMAGES[0]).main == ("sleep", "5")


def test_memory_comes_from_the_limits_first() -> None:
    requirements = pb.ResourceRequirements(
        requests=pb.Resources(memory="128Mi"), limits=pb.Resources(memory="1Gi", cpu="2")
    )
    assert make_plan(spec(resource_requirements=requirements), IMAGES[0]).boot.memory_bytes == 1 << 30
    assert make_plan(spec(resources=pb.Resources(memory="256Mi")), IMAGES[0]).boot.memory_bytes == 256 << 20


def test_a_scratch_volume_is_a_directory_that_adds_its_size() -> None:
    wanted = spec(volume_mounts=[pb.VolumeMount(volume="v", mount_path="/data")])
    wanted.volumes.add(name="v").scratch.size = "1Gi"
    plan = make_plan(wanted, IMAGES[0])
    assert plan.boot.disk_bytes == limits.DISK_BYTES + (1 << 30)
    assert plan.boot.mounts == (VolumeMount("v", "/data"),)


@pytest.mark.parametrize(
    ("change", "code", "reason"),
    [
        ({"resources": pb.Resources(memory="lots")}, grpc.StatusCode.INVALID_ARGUMENT, None),
        ({"resources": pb.Resources(memory="0")}, grpc.StatusCode.INVALID_ARGUMENT, None),
        (
            {"resources": pb.Resources(cpu="100000")},
            grpc.StatusCode.FAILED_PRECONDITION,
            "CWSANDBOX_NO_SUITABLE_RUNNER",
        ),
    ],
)
def test_what_cannot_be_given_is_refused(change: dict[str, object], code: grpc.StatusCode, reason: str | None) -> None:
    with pytest.raises(Fault) as fault:
        make_plan(spec(**change), IMAGES[0])
    assert fault.value.code is code
    assert fault.value.reason == reason


def test_an_overlay_is_named_by_digits_only() -> None:
    wanted = spec()
    wanted.annotations["sandrl.dev/packages"] = "../../etc"
    with pytest.raises(Fault):
        make_plan(wanted, IMAGES[0])
    wanted.annotations["sandrl.dev/packages"] = "0123456789abcdef"
    assert make_plan(wanted, IMAGES[0]).boot.overlay == "0123456789abcdef"


@pytest.mark.parametrize("text", ["", "1", "256"])
def test_an_annotation_makes_a_worker_of_so_many_cells(text: str) -> None:
    wanted = spec()
    wanted.annotations[limits.CELLS_ANNOTATION] = text
    assert make_plan(wanted, IMAGES[0]).boot.cells == int(text or 0)


@pytest.mark.parametrize("text", ["0", "257", "-1", "1.5", "many", " 2", "2\n", "٣", "1" * 5000])
def test_another_number_of_cells_is_refused(text: str) -> None:
    wanted = spec()
    wanted.annotations[limits.CELLS_ANNOTATION] = text
    with pytest.raises(Fault) as raised:
        make_plan(wanted, IMAGES[0])
    assert raised.value.code is grpc.StatusCode.INVALID_ARGUMENT
    assert "number of cells from 1 to 256" in str(raised.value)


def test_changes_of_owners_are_pretended_in_images_where_it_is_asked_for() -> None:
    wanted = spec()
    assert not make_plan(wanted, STORED).boot.pretends_owners
    wanted.annotations[limits.OWNERS_ANNOTATION] = "yes"
    assert make_plan(wanted, STORED).boot.pretends_owners
    assert not make_plan(wanted, IMAGES[0]).boot.pretends_owners
