"""Logins, tokens, redirects, mirrors, proxies and certificates: what is sent to whom."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from sandrl.errors import (
    AuthenticationError,
    ServiceError,
    UsageError,
)
from sandrl.events import Event, Warned
from sandrl.runtime.images.references import parse_reference
from sandrl.runtime.images.registry import RegistrySource
from tests.support.registries import (
    PASSWORD,
    Asked,
    Image,
    Reply,
    ScriptedRegistry,
    read,
    scripted_registry,
    source,
    write_login,
)


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
