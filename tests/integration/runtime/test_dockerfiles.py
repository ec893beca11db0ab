"""Dockerfiles of every instruction, built here and by buildah: the images have the same files and configurations."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sandrl.runtime.images.builds import build_image, find_build, parse_arguments
from sandrl.runtime.images.export import export, target_of
from sandrl.runtime.images.store import open_store
from sandrl.settings import Settings, load_settings
from tests.support.dockerfiles import BASE, EXAMPLES, Buildah, Example, configuration, image_tree
from tests.support.image_trees import import_tree, make_busybox_tree

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    settings = load_settings()
    import_tree("tests/tree:1", make_busybox_tree, {"Env": ["PATH=/bin"], "Cmd": ["/bin/sh"]})
    # An image with a history, which the other builder needs.
    context = tmp_path_factory.mktemp("base")
    (context / "Dockerfile").write_text("FROM tests/tree:1\nLABEL of=tests\n")
    build_image(find_build(context, None, {})[0], BASE, settings, environment={})
    return settings


@pytest.fixture(scope="module")
def buildah(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    if os.geteuid():
        pytest.skip("buildah is compared as root, who sees all owners")
    place = tmp_path_factory.mktemp("buildah")
    archive = place / "base.tar"
    export(open_store(settings), BASE, target_of(str(archive)))
    buildah = Buildah(place)
    buildah.call("pull", "--quiet", f"docker-archive:{archive}")
    yield buildah
    buildah.call("rmi", "--all", "--force")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_images_have_the_same_files_and_configuration(
    settings: Settings, buildah: Buildah, tmp_path: Path, example: Example
) -> None:
    context = example.write(tmp_path / "context")
    wanted, _ = find_build(context, None, {})
    options = dict(zip(example.options[::2], example.options[1::2], strict=True))
    arguments = parse_arguments([options["--build-arg"]] if "--build-arg" in options else [], {})
    wanted = replace(wanted, arguments=arguments, target=options.get("--target", ""))
    image = build_image(wanted, None, settings, environment={})
    files, said = buildah.build(context, *example.options)
    store = open_store(settings)
    assert image_tree(store, image.digest) == files
    assert configuration(store, image.digest) == said
