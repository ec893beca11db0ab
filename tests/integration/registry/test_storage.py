"""Images of Debian's registry, and which image of a registry or of the store a name means."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandrl.errors import (
    AuthenticationError,
    InputError,
    UnknownImageError,
)
from sandrl.runtime.images.provision import provide
from sandrl.runtime.images.store import ImageStore
from sandrl.settings import Settings
from tests.support.registries import (
    PASSWORD,
    USER,
    Image,
    ScriptedRegistry,
    TokenServer,
    debian_registry,
    make_image,
    push,
    read,
    scripted_registry,
    source,
    write_login,
)


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


def test_an_image_that_stands_in_for_another_is_named_by_its_own_digest(
    registry: ScriptedRegistry, image: Image, tmp_path: Path
) -> None:
    settings = Settings(tmp_path, tmp_path / "cache")
    wanted = f"{registry.host}/image@sha256:{'5' * 64}"
    with source(registry) as opened:
        ImageStore(settings.cache_dir / "images").add(opened, wanted)
    assert provide(wanted, settings, environment={}) == f"{registry.host}/image@{image.digest}"
