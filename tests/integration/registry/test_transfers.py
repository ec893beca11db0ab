"""Manifests and blobs of a registry that works, fails, limits requests, is slow, or gives something else."""

from __future__ import annotations

import json
import threading

import pytest

from sandrl.errors import (
    InputError,
    SandrlError,
    ServiceError,
)
from sandrl.events import Event, PullDelayed
from sandrl.runtime.images import transport
from sandrl.runtime.images.source import architecture
from tests.support.registries import (
    Asked,
    Image,
    Reply,
    ScriptedRegistry,
    make_image,
    make_index,
    read,
    source,
)


def test_an_image_is_read_by_its_tag_and_by_its_digest(registry: ScriptedRegistry, image: Image) -> None:
    read(source(registry), image)
    del registry.images["latest"]
    read(source(registry, f"image@{image.digest}"), image)
    read(source(registry, f"image:gone@{image.digest}"), image)


def test_the_image_of_this_machine_is_chosen(registry: ScriptedRegistry, image: Image) -> None:
    other = make_image({"other": b""})
    registry.add(other, "other")
    registry.images["all"] = make_index(
        {"linux/mips": other.manifest, f"linux/{architecture()}": image.manifest, "unknown/unknown": other.manifest}
    )
    read(source(registry, "image:all"), image)
    registry.images["foreign"] = make_index({"linux/mips": other.manifest, "windows/amd64": other.manifest})
    with source(registry, "image:foreign") as opened, pytest.raises(InputError, match=r"only for linux/mips, windows/"):
        opened.manifest()
    read(source(registry, "image:foreign", platform="linux/mips"), other)
    with (
        source(registry, "image:foreign", platform="linux/mip") as opened,
        pytest.raises(InputError, match="no image for linux/mip, only for linux/mips, "),
    ):
        opened.manifest()


def test_an_image_for_one_platform_is_not_taken_for_another(registry: ScriptedRegistry, image: Image) -> None:
    read(source(registry, platform=f"linux/{architecture()}"), image)
    said = f"has no image for linux/mips, only for linux/{architecture()}$"
    with source(registry, platform="linux/mips") as opened, pytest.raises(InputError, match=said):
        opened.manifest()


def test_a_tag_that_does_not_exist_is_answered_with_those_that_do(registry: ScriptedRegistry, image: Image) -> None:
    registry.add(image, "3.13-slim")
    with source(registry, "image:3.13-slin") as opened, pytest.raises(InputError) as raised:
        opened.manifest()
    assert raised.value.message == f"{registry.host}: image has no tag '3.13-slin'; did you mean '3.13-slim'?"
    assert raised.value.hint == "its tags: latest, 3.13-slim"


def test_an_image_or_a_digest_that_does_not_exist_is_said(registry: ScriptedRegistry) -> None:
    with (
        source(registry, f"image@sha256:{'0' * 64}") as opened,
        pytest.raises(InputError, match="has no image sha256:0"),
    ):
        opened.manifest()
    registry.script = lambda asked: Reply(404)
    with source(registry) as opened, pytest.raises(InputError, match="has no image 'image'"):
        opened.manifest()


def test_a_transfer_that_breaks_off_goes_on_where_it_was(registry: ScriptedRegistry, image: Image) -> None:
    digest = image.layers[1]
    content = image.blobs[digest]
    pieces = len(content) // 4

    def script(asked: Asked) -> Reply | None:
        if "/blobs/" not in asked.path:
            return None
        whole = registry.usual(asked)
        return Reply(whole.status, whole.body[:pieces], {**whole.headers, "Content-Length": str(len(whole.body))})

    registry.script = script
    with source(registry) as opened:
        assert b"".join(opened.blob(digest, len(content))) == content
    ranges = [asked.headers.get("Range", "") for asked in registry.asked]
    assert ranges[0] == ""
    assert len(ranges) > 3
    starts = [int(each.removeprefix("bytes=").partition("-")[0]) for each in ranges[1:]]
    assert starts == sorted({*starts})


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_a_blob_is_read_from_a_byte_on(registry: ScriptedRegistry, image: Image, knows_ranges: bool) -> None:
    digest = image.layers[1]
    content = image.blobs[digest]
    if not knows_ranges:
        registry.script = lambda asked: Reply(body=registry.blobs[digest])
    with source(registry) as opened:
        assert b"".join(opened.blob(digest, len(content), 1000)) == content[1000:]
        assert b"".join(opened.blob(digest, len(content), len(content))) == b""


def test_another_part_than_the_one_asked_for_is_refused(registry: ScriptedRegistry, image: Image) -> None:
    content = image.blobs[image.layers[1]]
    registry.script = lambda asked: Reply(206, content, {"Content-Range": f"bytes 0-{len(content) - 1}/{len(content)}"})
    with source(registry) as opened, pytest.raises(ServiceError, match="another part of a layer"):
        b"".join(opened.blob(image.layers[1], len(content), 10))


def test_a_length_that_differs_from_the_manifest_is_refused(registry: ScriptedRegistry, image: Image) -> None:
    registry.script = lambda asked: Reply(body=b"<html>log in to this network</html>")
    with (
        source(registry) as opened,
        pytest.raises(ServiceError, match="has 35 bytes of a layer, whose manifest says 99"),
    ):
        b"".join(opened.blob(image.layers[0], 99))


def test_an_endless_body_gives_no_more_than_the_manifest_says(registry: ScriptedRegistry, image: Image) -> None:
    is_over = threading.Event()

    def script(asked: Asked) -> Reply:
        # Without a length, the body lasts as long as the connection.
        asked.handler.wfile.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        try:
            while not is_over.is_set():
                asked.handler.wfile.write(b"x" * 65536)
        finally:
            asked.handler.close_connection = True
        return Reply(0)

    registry.script = script
    try:
        with source(registry) as opened:
            assert b"".join(opened.blob(image.layers[0], 100_000)) == b"x" * 100_000
            with pytest.raises(ServiceError, match="more than 4194304 bytes"):
                opened.manifest()
    finally:
        is_over.set()


def test_a_manifest_that_is_not_the_one_of_its_digest_is_refused(registry: ScriptedRegistry, image: Image) -> None:
    registry.script = lambda asked: Reply(body=image.manifest + b" ")
    with source(registry, f"image@{image.digest}") as opened, pytest.raises(ServiceError, match="another manifest"):
        opened.manifest()


def test_a_registry_that_limits_requests_is_waited_for(registry: ScriptedRegistry, image: Image) -> None:
    told: list[Event] = []
    statuses = iter([429, 503])

    def script(asked: Asked) -> Reply | None:
        status = next(statuses, None)
        return None if status is None else Reply(status, headers={"Retry-After": "0"})

    registry.script = script
    read(source(registry, told=told), image)
    assert [type(event) for event in told] == [PullDelayed, PullDelayed]


def test_a_registry_that_limits_requests_for_hours_is_not_waited_for(registry: ScriptedRegistry) -> None:
    body = json.dumps({"errors": [{"code": "TOOMANYREQUESTS", "message": "You have reached your\npull rate limit"}]})
    registry.script = lambda asked: Reply(429, body.encode(), {"Retry-After": "7200"})
    with source(registry) as opened, pytest.raises(ServiceError) as raised:
        opened.manifest()
    assert raised.value.message == f"{registry.host} limits requests (429) (You have reached your pull rate limit)"
    assert raised.value.hint is not None
    assert raised.value.hint.startswith(
        "try again in 120 min; limits are often higher after a login: docker login 127."
    )


def test_a_registry_that_keeps_failing_is_given_up(registry: ScriptedRegistry) -> None:
    registry.script = lambda asked: Reply(502)
    with source(registry) as opened, pytest.raises(ServiceError, match=r"answers 502 for 127\."):
        opened.manifest()
    assert 2 < len(registry.asked) < 20


def test_a_registry_that_sends_nothing_is_given_up(
    registry: ScriptedRegistry, image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "_SILENCE_SECONDS", 0.1)
    is_over = threading.Event()

    def script(asked: Asked) -> Reply:
        is_over.wait(60)
        return Reply()

    registry.script = script
    try:
        with source(registry) as opened, pytest.raises(ServiceError, match="breaks the transfer off: it sends nothing"):
            opened.manifest()
    finally:
        is_over.set()


def test_a_registry_that_is_slow_is_waited_for(
    registry: ScriptedRegistry, image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Slower than the limit as a whole, but never silent for as long.
    monkeypatch.setattr(transport, "_SILENCE_SECONDS", 1.0)
    digest = image.layers[0]
    content = image.blobs[digest]

    def script(asked: Asked) -> Reply:
        asked.handler.wfile.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(content)}\r\n\r\n".encode())
        size = len(content) // 8 + 1
        for start in range(0, len(content), size):
            threading.Event().wait(0.2)
            asked.handler.wfile.write(content[start : start + size])
        return Reply(0)

    registry.script = script
    with source(registry) as opened:
        assert b"".join(opened.blob(digest, len(content))) == content
    assert len(registry.asked) == 1


def test_what_cannot_be_reached_is_said_with_the_reason(unused_host: str) -> None:
    with source(unused_host) as opened, pytest.raises(ServiceError) as raised:
        opened.manifest()
    assert raised.value.message == f"{unused_host} cannot be reached: Connection refused"
    with (
        source("no-such-host.invalid") as opened,
        pytest.raises(ServiceError, match=r"name of no-such-host\.invalid cannot"),
    ):
        opened.manifest()


def test_a_failure_never_has_a_traceback_of_a_library(registry: ScriptedRegistry) -> None:
    def script(asked: Asked) -> Reply:
        asked.handler.wfile.write(b"SSH-2.0-OpenSSH_9\r\n")
        asked.handler.close_connection = True
        return Reply(0)

    registry.script = script
    with source(registry) as opened, pytest.raises(SandrlError, match="breaks the transfer off"):
        opened.manifest()


def test_a_transfer_that_never_gets_on_is_given_up(registry: ScriptedRegistry, image: Image) -> None:
    digest = image.layers[1]
    content = image.blobs[digest]

    def script(asked: Asked) -> Reply:
        whole = registry.usual(asked)
        return Reply(whole.status, whole.body[:1], {**whole.headers, "Content-Length": str(len(whole.body))})

    registry.script = script
    with source(registry) as opened, pytest.raises(ServiceError, match="breaks the transfer off"):
        b"".join(opened.blob(digest, len(content)))
    assert len(registry.asked) < 20
