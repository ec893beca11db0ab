"""Images of registries: a scripted one for what goes wrong, and Debian's own."""

from __future__ import annotations

import json
import random
import ssl
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import trustme

from sandrl.errors import AuthenticationError, InputError, SandrlError, ServiceError, UnknownImageError, UsageError
from sandrl.events import Event, PullDelayed, Warned
from sandrl.runtime.images import failures, transport
from sandrl.runtime.images.provision import provide
from sandrl.runtime.images.references import parse_reference
from sandrl.runtime.images.registry import RegistrySource
from sandrl.runtime.images.source import architecture
from sandrl.runtime.images.store import ImageStore
from sandrl.settings import Settings
from tests.support.registries import (
    PASSWORD,
    USER,
    Asked,
    Image,
    Reply,
    ScriptedRegistry,
    TokenServer,
    debian_registry,
    make_image,
    make_index,
    push,
    scripted_registry,
    write_login,
)

TEXT = random.Random(7).randbytes(1 << 20)


@pytest.fixture(autouse=True)
def _tries_follow_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "_LONGEST_DELAY_SECONDS", 0.01)


@pytest.fixture(scope="module")
def image() -> Image:
    return make_image({"etc/a": b"a" * 1000}, {"etc/b": TEXT})


@pytest.fixture
def registry(image: Image) -> Iterator[ScriptedRegistry]:
    with scripted_registry() as registry:
        registry.add(image)
        yield registry


def source(
    registry: ScriptedRegistry | str,
    name: str = "image",
    *,
    environment: Mapping[str, str] = {},
    told: list[Event] | None = None,
    mirrors: tuple[str, ...] = (),
    platform: str = "",
) -> RegistrySource:
    host = registry if isinstance(registry, str) else registry.host
    emit = (lambda event: None) if told is None else told.append
    reference = parse_reference(f"{host}/{name}")
    return RegistrySource(reference, environment=environment, emit=emit, mirrors=mirrors, platform=platform)


def read(opened: RegistrySource, image: Image) -> None:
    """Reads a whole image, and checks that it is this one."""
    with opened:
        assert opened.manifest() == image.manifest
        for digest, content in image.blobs.items():
            assert b"".join(opened.blob(digest, len(content))) == content


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


def test_a_tag_that_does_not_exist_is_answered_with_those_that_do(registry: ScriptedRegistry, image: Image) -> None:
    registry.add(image, "3.13-slim")
    with source(registry, "image:3.13-slin") as opened, pytest.raises(InputError) as raised:
        opened.manifest()
    assert raised.value.message == f"{registry.host}: image has no tag '3.13-slin'; did you mean '3.13-slim'?"
    assert raised.value.hint is not None
    assert "latest" in raised.value.hint


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


@pytest.fixture
def unused_host() -> str:
    with scripted_registry() as registry:
        return registry.host


def wants_token(registry: ScriptedRegistry, tokens: ScriptedRegistry, *valid: str) -> None:
    """Lets a registry want one of these tokens, from a server of tokens."""

    def script(asked: Asked) -> Reply | None:
        if asked.authorization.removeprefix("Bearer ") in valid:
            return None
        realm = f'Bearer realm="{tokens.address}/token",service="reg",scope="repository:image:pull"'
        return Reply(401, headers={"WWW-Authenticate": realm})

    registry.script = script


@pytest.fixture
def tokens() -> Iterator[ScriptedRegistry]:
    with scripted_registry(lambda asked: Reply(body=b'{"token": "t1"}')) as tokens:
        yield tokens


def test_a_token_is_fetched_once_without_a_credential(
    registry: ScriptedRegistry, tokens: ScriptedRegistry, image: Image
) -> None:
    wants_token(registry, tokens, "t1")
    read(source(registry), image)
    assert [asked.path for asked in tokens.asked] == ["/token?service=reg&scope=repository%3Aimage%3Apull"]
    assert tokens.asked[0].authorization == ""


def test_a_token_is_fetched_with_the_password(
    registry: ScriptedRegistry, tokens: ScriptedRegistry, image: Image, tmp_path: Path
) -> None:
    wants_token(registry, tokens, "t1")
    read(source(registry, environment=write_login(tmp_path, registry.host)), image)
    assert [asked.authorization.partition(" ")[0] for asked in tokens.asked] == ["Basic"]
    assert not any("Basic" in asked.authorization for asked in registry.asked)


def test_an_identity_token_is_exchanged_and_in_no_address(
    registry: ScriptedRegistry, tokens: ScriptedRegistry, image: Image, tmp_path: Path
) -> None:
    wants_token(registry, tokens, "t1")
    environment = write_login(tmp_path, registry.host, identitytoken="refresh-me")
    read(source(registry, environment=environment), image)
    (asked,) = tokens.asked
    assert asked.method == "POST"
    assert b"grant_type=refresh_token" in asked.body
    assert b"refresh_token=refresh-me" in asked.body
    assert "refresh-me" not in asked.path
    assert not any("refresh-me" in str([*each.headers.values()]) for each in registry.asked)


def test_a_token_that_has_expired_is_renewed(
    registry: ScriptedRegistry, tokens: ScriptedRegistry, image: Image
) -> None:
    answers = iter([b'{"token": "t1"}', b'{"access_token": "t2"}'])
    tokens.script = lambda asked: Reply(body=next(answers))
    wants_token(registry, tokens, "t1")
    with source(registry) as opened:
        assert opened.manifest() == image.manifest
        wants_token(registry, tokens, "t2")
        assert b"".join(opened.blob(image.layers[0], len(image.blobs[image.layers[0]]))) == image.blobs[image.layers[0]]
    assert len(tokens.asked) == 2


def test_a_token_that_is_refused_is_not_renewed_without_an_end(
    registry: ScriptedRegistry, tokens: ScriptedRegistry
) -> None:
    wants_token(registry, tokens)
    with source(registry) as opened, pytest.raises(AuthenticationError) as raised:
        opened.manifest()
    assert raised.value.message.endswith(
        f"denies access to {registry.host}/image:latest: it does not exist, or needs a login"
    )
    assert raised.value.hint == f"check the name, or log in: docker login {registry.host} (or podman, skopeo)"
    assert (len(registry.asked), len(tokens.asked)) == (2, 1)


@pytest.mark.parametrize(
    "answer", [b"", b"[]", b'{"token": 7}', b'{"token": "a b"}', b'{"token": "a\\r\\nX: b"}', b"[" * 100_000]
)
def test_an_answer_without_a_token_is_said(registry: ScriptedRegistry, tokens: ScriptedRegistry, answer: bytes) -> None:
    tokens.script = lambda asked: Reply(body=answer)
    wants_token(registry, tokens, "t1")
    with source(registry) as opened, pytest.raises(ServiceError, match="gives no token"):
        opened.manifest()


@pytest.mark.parametrize(
    "challenge", ['Bearer realm="ftp://x"', "Bearer", 'Bearer realm="http://[::"', "Digest x=y", ""]
)
def test_a_challenge_that_nobody_can_meet_ends_in_one_error(registry: ScriptedRegistry, challenge: str) -> None:
    registry.script = lambda asked: Reply(401, headers={"WWW-Authenticate": challenge})
    with source(registry) as opened, pytest.raises(ServiceError):
        opened.manifest()
    assert len(registry.asked) == 1


def test_a_credential_that_is_refused_names_its_file_and_not_itself(registry: ScriptedRegistry, tmp_path: Path) -> None:
    registry.script = lambda asked: Reply(401, headers={"WWW-Authenticate": 'Basic realm="r"'})
    environment = write_login(tmp_path, registry.host)
    with source(registry, environment=environment) as opened, pytest.raises(AuthenticationError) as raised:
        opened.manifest()
    assert str(tmp_path / "config.json") in raised.value.message
    assert PASSWORD not in raised.value.message + str(raised.value.hint)


@pytest.mark.parametrize("scheme", ["Basic", "Bearer"])
def test_a_redirect_to_another_host_takes_no_credential_along(
    registry: ScriptedRegistry, tokens: ScriptedRegistry, image: Image, tmp_path: Path, scheme: str
) -> None:
    with scripted_registry() as store:
        store.add(image)

        def script(asked: Asked) -> Reply | None:
            if not asked.authorization.startswith(scheme):
                realm = f'{scheme} realm="{tokens.address}/token"'
                return Reply(401, headers={"WWW-Authenticate": realm})
            if "/blobs/" in asked.path:
                return Reply(307, headers={"Location": f"{store.address}{asked.path}"})
            return None

        registry.script = script
        environment = write_login(tmp_path, registry.host, store.host)
        read(source(registry, environment=environment), image)
        assert store.count("/blobs/") == len(image.blobs)
        assert not any(asked.authorization or asked.headers.get("Cookie") for asked in store.asked)


def test_another_host_gets_no_credential_by_asking_for_one(
    registry: ScriptedRegistry, image: Image, tmp_path: Path
) -> None:
    with scripted_registry() as store:
        store.script = lambda asked: Reply(401, headers={"WWW-Authenticate": f'Bearer realm="{store.address}/token"'})
        registry.script = lambda asked: Reply(307, headers={"Location": f"{store.address}{asked.path}"})
        environment = write_login(tmp_path, registry.host, store.host)
        with (
            source(registry, environment=environment) as opened,
            pytest.raises(ServiceError, match="redirects, answers 401"),
        ):
            opened.manifest()
        assert store.count("/token") == 0
        assert not any(asked.authorization for asked in store.asked)


@pytest.mark.parametrize("target", ["", "ftp://127.0.0.1/x", "file:///etc/passwd", "http://[::", "https://"])
def test_a_redirect_to_nowhere_is_said(registry: ScriptedRegistry, target: str) -> None:
    registry.script = lambda asked: Reply(307, headers={"Location": target})
    with source(registry) as opened, pytest.raises(ServiceError):
        opened.manifest()
    assert len(registry.asked) < 20


def test_mirrors_are_asked_first_and_the_registry_where_they_fail(
    registry: ScriptedRegistry, image: Image, unused_host: str
) -> None:
    told: list[Event] = []
    with scripted_registry() as mirror:
        mirror.add(image)
        gone = image.layers[1]
        del mirror.blobs[gone]
        mirrors = (f"{registry.host}=http://{unused_host}", f"{registry.host}={mirror.address}/cache")
        read(source(registry, told=told, mirrors=mirrors), image)
        assert mirror.asked[0].path == "/v2/cache/image/manifests/latest"
        assert [asked.path for asked in registry.asked] == [f"/v2/image/blobs/{gone}"]
    assert [event.message for event in told if isinstance(event, Warned)] == [
        f"the mirror {unused_host} is not used: {unused_host} cannot be reached: Connection refused"
    ]


def test_a_mirror_with_another_manifest_for_a_digest_is_not_believed(registry: ScriptedRegistry, image: Image) -> None:
    with scripted_registry(lambda asked: Reply(body=b"{}")) as mirror:
        mirrors = (f"{registry.host}={mirror.address}",)
        read(source(registry, f"image@{image.digest}", mirrors=mirrors), image)


@pytest.mark.parametrize("mirror", ["docker.io", "=http://x", "docker.io=ftp://x", "docker.io=http://u:p@x"])
def test_a_mirror_that_is_none_is_refused_without_its_password(mirror: str) -> None:
    with pytest.raises(UsageError, match="SANDRL_REGISTRY_MIRRORS") as raised:
        source("docker.io", mirrors=(mirror,))
    assert "u:p" not in raised.value.message


def test_a_failure_never_has_a_traceback_of_a_library(registry: ScriptedRegistry) -> None:
    def script(asked: Asked) -> Reply:
        asked.handler.wfile.write(b"SSH-2.0-OpenSSH_9\r\n")
        asked.handler.close_connection = True
        return Reply(0)

    registry.script = script
    with source(registry) as opened, pytest.raises(SandrlError, match="breaks the transfer off"):
        opened.manifest()


@pytest.mark.parametrize("needs_login", [False, True])
def test_an_image_that_skopeo_pushed_is_read_from_debian_s_registry(
    tmp_path: Path, image: Image, needs_login: bool
) -> None:
    with debian_registry(tmp_path / "registry", needs_login=needs_login) as host:
        login = ["--dest-creds", f"{USER}:{PASSWORD}"] if needs_login else []
        push(image, tmp_path / "layout", host, "team/image:1", *login)
        environment = write_login(tmp_path / "docker", host)
        read(source(host, "team/image:1", environment=environment), image)
        digest, content = image.layers[1], image.blobs[image.layers[1]]
        with source(host, f"team/image@{image.digest}", environment=environment) as opened:
            assert b"".join(opened.blob(digest, len(content), 500)) == content[500:]
        missing = source(host, "team/image:2", environment=environment)
        with missing, pytest.raises(InputError, match="team/image has no tag '2'"):
            missing.manifest()
        if needs_login:
            with source(host, "team/image:1") as opened, pytest.raises(AuthenticationError, match="needs a login"):
                opened.manifest()


def test_debian_s_registry_takes_the_tokens_that_it_asked_for(tmp_path: Path, image: Image) -> None:
    server = TokenServer(tmp_path / "tokens")
    with (
        scripted_registry(server.answer) as tokens,
        debian_registry(tmp_path / "registry", settings=server.settings(f"{tokens.address}/token")) as host,
    ):
        push(image, tmp_path / "layout", host, "team/image:1", "--dest-creds", f"{USER}:{PASSWORD}")
        del tokens.asked[:]
        read(source(host, "team/image:1", environment=write_login(tmp_path / "docker", host)), image)
        assert len(tokens.asked) == 1
        with source(host, "team/image:1") as opened, pytest.raises(AuthenticationError, match="needs a login"):
            opened.manifest()


def test_a_certificate_is_trusted_only_if_the_user_says_so(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with scripted_registry(wrap=lambda each: context.wrap_socket(each, server_side=True)) as registry:
        registry.add(image)
        # Not even on this machine, where plain HTTP would do, and with no further request.
        with (
            source(registry) as opened,
            pytest.raises(ServiceError, match=r"certificate of 127\S+ is not trusted") as raised,
        ):
            opened.manifest()
        assert raised.value.hint == "set SSL_CERT_FILE to a PEM file of certificates to trust"
        assert not registry.asked
        authority.cert_pem.write_to_path(tmp_path / "authority.pem")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
        read(source(registry), image)
        # What was reached with TLS is not asked without it.
        registry.script = lambda asked: Reply(307, headers={"Location": f"http://{registry.host}{asked.path}"})
        with source(registry) as opened, pytest.raises(ServiceError, match="redirects to http"):
            opened.manifest()
        tokens = f'Bearer realm="http://{registry.host}/token"'
        registry.script = lambda asked: Reply(401, headers={"WWW-Authenticate": tokens})
        with source(registry) as opened, pytest.raises(ServiceError, match="names no server of tokens with TLS"):
            opened.manifest()


def test_another_registry_needs_tls_unless_the_user_says_so(image: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted_registry() as proxy:
        proxy.add(image)
        monkeypatch.setenv("HTTP_PROXY", proxy.address)
        monkeypatch.setenv("HTTPS_PROXY", proxy.address)
        reference = parse_reference("registry.test/image")
        with (
            RegistrySource(reference, environment={}) as opened,
            pytest.raises(ServiceError, match="cannot be reached"),
        ):
            opened.manifest()
        assert not proxy.asked
        # What leads to this machine takes no proxy, and everything else does.
        with RegistrySource(reference, insecure=("registry.test",), environment={}) as opened:
            read(opened, image)
        assert {asked.path.partition("/v2/")[0] for asked in proxy.asked} == {"http://registry.test"}


@pytest.mark.parametrize("proxy", ["ftp://ada:s3cret@127.0.0.1:1", "http://ada:s3cret@[::", "socks5://ada:s3cret@h:1"])
def test_a_proxy_that_cannot_be_used_is_said_without_its_password(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    with pytest.raises(UsageError, match="proxy of the environment cannot be used") as raised:
        source("docker.io")
    assert "s3cret" not in raised.value.message


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


def test_what_is_stored_wins_over_the_registry_and_is_named_with_its_digest(
    registry: ScriptedRegistry, image: Image, tmp_path: Path
) -> None:
    settings = Settings(tmp_path, tmp_path / "cache")
    name = f"{registry.host}/image"
    pinned = provide(name, settings, environment={})
    assert pinned == f"{name}:latest@{image.digest}"
    asked = len(registry.asked)
    registry.add(make_image({"newer": b""}))
    for each in (name, pinned, f"{name}@{image.digest}"):
        assert provide(each, settings, environment={}).endswith(f"@{image.digest}")
    assert provide(image.digest[7:30], settings, environment={}) == image.digest
    assert len(registry.asked) == asked


@pytest.mark.parametrize("digest", ["sha256:" + "0" * 64, "0" * 64])
def test_a_digest_alone_is_looked_for_in_no_registry(tmp_path: Path, digest: str) -> None:
    with pytest.raises(UnknownImageError, match=f"there is no image '{digest}'"):
        provide(digest, Settings(tmp_path, tmp_path / "cache"), environment={})


def test_an_image_in_a_file_is_named_by_its_digest(image: Image, tmp_path: Path) -> None:
    layout = image.write_layout(tmp_path / "layout", "v1")
    settings = Settings(tmp_path, tmp_path / "cache")
    assert provide(f"oci:{layout}:v1", settings, environment={}) == image.digest


def test_an_image_that_stands_in_for_another_keeps_the_digest_of_that_one(
    registry: ScriptedRegistry, image: Image, tmp_path: Path
) -> None:
    settings = Settings(tmp_path, tmp_path / "cache")
    wanted = f"{registry.host}/image@sha256:{'5' * 64}"
    with source(registry) as opened:
        ImageStore(settings.cache_dir / "images").add(opened, wanted)
    assert provide(wanted, settings, environment={}) == wanted
