"""The store keeps images whole: each blob and layer once, verified, and as long as an image or a sandbox needs it."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.archives import archive, file, folder, layout, saved
from tests.support.image_sources import SlowSource

from sandrl.errors import InputError, SandrlError, ServiceError, UnknownImageError, UsageError
from sandrl.events import Event, ImageProgress, ignore
from sandrl.runtime.images import members
from sandrl.runtime.images.export import export, target_of
from sandrl.runtime.images.layouts import detect_form, open_source, parse_file_reference
from sandrl.runtime.images.removal import list_images, prune, remove
from sandrl.runtime.images.store import ImageStore, StoredImage, open_store
from sandrl.runtime.images.unpack import Limits
from sandrl.settings import Settings

_BASE = archive(folder("etc"), file("etc/base", b"b" * 50_000))
_UPPER = archive(folder("etc"), file("etc/.wh.base"), file("etc/upper", b"u"))
_OTHER = archive(file("other", os.urandom(100_000)))


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "cache" / "images")


def _import(store: ImageStore, text: str, name: str | None = None) -> StoredImage:
    reference = parse_file_reference(text)
    assert reference is not None
    with open_source(reference, store.scratch()) as source:
        return store.add(source, name)


def _files(store: ImageStore, *directories: str) -> set[str]:
    return {
        name
        for each in directories or ("blobs/sha256", "layers", "manifests", "names", "partial", "sizes")
        for name in os.listdir(store.root / each)
    }


def test_an_image_is_found_by_every_spelling_of_its_name_and_by_its_digest(store: ImageStore, tmp_path: Path) -> None:
    image = _import(store, f"oci:{layout(tmp_path / 'image', _BASE, _UPPER)}", "python:3.13-slim")
    hexadecimal = image.digest.removeprefix("sha256:")
    for text in (
        *("python:3.13-slim", "docker.io/python:3.13-slim", "index.docker.io/library/python:3.13-slim"),
        *(image.digest, hexadecimal, hexadecimal[:6], f"any/name@{image.digest}"),
    ):
        assert store.find(text) == image, text
    for text in ("python", "python:3.13", "library/python", "!", "sha256:" + "0" * 64, hexadecimal[:5], "oci:nowhere"):
        assert store.find(text) is None, text
    assert [(store.layers / each / "etc").is_dir() for each in image.layers] == [True, True]
    assert (store.layers / image.layers[0] / "etc/base").read_bytes() == b"b" * 50_000


@pytest.mark.parametrize("name", ["host", "host:3.11", "docker.io/library/host:3.12"])
def test_no_image_gets_the_name_of_the_hosts_system(store: ImageStore, tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="names the system of this machine"):
        _import(store, f"oci:{layout(tmp_path / 'image', _BASE)}", name)
    assert _files(store, "names") == set()


def test_a_stand_in_is_found_under_the_digest_of_what_it_stands_for(store: ImageStore, tmp_path: Path) -> None:
    digest = f"sha256:{'5' * 64}"
    image = _import(store, f"oci:{layout(tmp_path / 'image', _BASE)}", f"swe/repo:v1@{digest}")
    assert store.find(f"swe/repo:v1@{digest}") == store.find(f"docker.io/swe/repo@{digest}") == image
    assert store.find("swe/repo:v1") is None
    assert image.digest != digest


def test_what_the_image_says_about_its_programs_is_kept(store: ImageStore, tmp_path: Path) -> None:
    said = {"Env": ["A=b=c", "EMPTY="], "WorkingDir": "/w", "User": "1:2", "Entrypoint": ["/e"], "Cmd": ["c", "d"]}
    config = _import(store, f"oci:{layout(tmp_path / 'image', _BASE, configuration=said)}").config
    assert config.environment == (("A", "b=c"), ("EMPTY", ""))
    assert (config.directory, config.user, config.architecture) == ("/w", "1:2", "amd64")
    assert (config.entrypoint, config.command) == (("/e",), ("c", "d"))


def test_a_layer_that_occurs_twice_is_named_once_at_its_upper_place(store: ImageStore, tmp_path: Path) -> None:
    image = _import(store, f"oci:{layout(tmp_path / 'image', _BASE, _UPPER, _BASE)}")
    assert image.layers == (_layer(_UPPER), _layer(_BASE))


def test_layers_are_shared_by_images_whatever_they_are_compressed_with(store: ImageStore, tmp_path: Path) -> None:
    packed = _import(store, f"oci:{layout(tmp_path / 'a', _BASE, _UPPER)}", "a")
    plain = _import(store, f"docker-archive:{saved(tmp_path / 'b.tar', _BASE, _OTHER, _BASE)}", "b")
    assert set(packed.layers) & set(plain.layers) == {_layer(_BASE)}
    assert _files(store, "layers") == {*map(_layer, (_BASE, _UPPER, _OTHER))}
    rows = {row.names[0]: row for row in list_images(store)}
    assert rows["a:latest"].shared_bytes == rows["b:latest"].shared_bytes == 50_000
    assert rows["a:latest"].layer_bytes == 50_001
    assert rows["a:latest"].layers == packed.layers


@pytest.mark.parametrize("name", ["saved.tar", "saved.tar.gz"])
def test_an_image_of_docker_save_is_selected_by_its_name(store: ImageStore, tmp_path: Path, name: str) -> None:
    path = saved(tmp_path / name, _BASE, _UPPER, names=["one:1", "two:2"])
    assert detect_form(path) == "docker-archive:"
    assert _import(store, f"docker-archive:{path}") == _import(store, f"docker-archive:{path}:two:2")
    with pytest.raises(InputError, match="no image of this name") as failed:
        _import(store, f"docker-archive:{path}:three:3")
    assert failed.value.hint == "it has: one:1, two:2"


def test_one_of_several_images_of_a_layout_must_be_named(store: ImageStore, tmp_path: Path) -> None:
    path = layout(tmp_path / "image", _BASE, tag="x")
    index = json.loads((path / "index.json").read_text())
    other = layout(tmp_path / "other", _OTHER, tag="y")
    index["manifests"] += json.loads((other / "index.json").read_text())["manifests"]
    (path / "index.json").write_text(json.dumps(index))
    for blob in (other / "blobs/sha256").iterdir():
        blob.rename(path / "blobs/sha256" / blob.name)
    with pytest.raises(InputError, match="several images") as failed:
        _import(store, f"oci:{path}")
    assert failed.value.hint == f"for example oci:{path}:x; it has: x, y"
    assert _import(store, f"oci:{path}:x").layers == (_layer(_BASE),)
    assert _import(store, f"oci:{path}:y").layers == (_layer(_OTHER),)


def test_the_image_for_this_machine_is_taken_from_an_index(store: ImageStore, tmp_path: Path) -> None:
    path = layout(tmp_path / "image", _BASE)
    index = json.loads((path / "index.json").read_text())
    (own,) = index["manifests"]
    attestation = {**own, "digest": f"sha256:{'1' * 64}", "platform": {"os": "unknown", "architecture": "unknown"}}
    arm = {**own, "digest": f"sha256:{'2' * 64}", "platform": {"os": "linux", "architecture": "arm64", "variant": "v8"}}
    nested = json.dumps(
        {"manifests": [attestation, arm, {**own, "platform": {"os": "linux", "architecture": "amd64"}}]}
    )
    _put(path, nested.encode())
    assert _import(store, f"oci:{path}").layers == (_layer(_BASE),)
    _put(path, json.dumps({"manifests": [attestation, arm]}).encode())
    with pytest.raises(InputError, match="no image for linux/amd64, only for linux/arm64/v8"):
        _import(store, f"oci:{path}")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"architecture": "s390x"}, "is for linux/s390x and cannot run here"),
        ({"os": "windows"}, "is for windows/amd64 and cannot run here"),
        ({"rootfs": {"type": "layers", "diff_ids": []}}, "other numbers of layers"),
        ({"rootfs": {"type": "layers", "diff_ids": ["sha256:../../evil"]}}, "configuration is damaged"),
        ({"rootfs": {"type": "layers", "diff_ids": [f"sha256:{'0' * 64}"]}}, "but the configuration says"),
        ({"config": {"Env": ["A=\0"]}}, "configuration is damaged"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(
    store: ImageStore, tmp_path: Path, changes: dict[str, object], problem: str
) -> None:
    path = layout(tmp_path / "image", _BASE, changes=changes)
    with pytest.raises(InputError, match=problem):
        _import(store, f"oci:{path}", "x")
    assert store.find("x") is None
    prune(store)
    assert _files(store) == set()


def test_a_damaged_blob_is_named_and_nothing_of_it_stays(store: ImageStore, tmp_path: Path) -> None:
    path = layout(tmp_path / "image", _BASE)
    largest = max((path / "blobs/sha256").iterdir(), key=lambda each: each.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[-1] ^= 1
    for changed in (bytes(content), bytes(content[:-5]), bytes(content) + b"more"):
        largest.write_bytes(changed)
        with pytest.raises(InputError, match="another size or digest"):
            _import(store, f"oci:{path}", "x")
        assert _files(store, "layers", "partial", "manifests", "names") == set()


def test_an_archive_that_is_cut_off_or_is_none_is_refused(store: ImageStore, tmp_path: Path) -> None:
    for content in (_BASE[:3000], _BASE[:1024], b"no archive" * 100, b""):
        (tmp_path / "root.tar").write_bytes(content)
        with pytest.raises(InputError, match=r"damaged|cut off"):
            _import(store, f"rootfs:{tmp_path}/root.tar", "x")
    (tmp_path / "saved.tar").write_bytes(archive(file("manifest.json", b'[{"Config": "c", "Layers": []}]')))
    with pytest.raises(InputError, match="has no 'c'"):
        _import(store, f"docker-archive:{tmp_path}/saved.tar", "x")
    assert store.find("x") is None


def test_a_compressed_archive_of_an_image_cannot_fill_the_disk(
    store: ImageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path / "saved.tar.gz", archive(file("zeros", bytes(8 << 20))))
    monkeypatch.setattr(members, "Limits", lambda: Limits(most_bytes=4 << 20))
    with pytest.raises(InputError, match="is larger than"):
        _import(store, f"docker-archive:{path}", "x")
    monkeypatch.setattr(members, "Limits", lambda: Limits(free_bytes=1 << 60))
    with pytest.raises(ServiceError, match="the store of images cannot be written"):
        _import(store, f"docker-archive:{path}", "x")
    assert _files(store) == set()


def test_an_interrupted_transfer_goes_on_where_it_ended(store: ImageStore, tmp_path: Path) -> None:
    path = layout(tmp_path / "image", _OTHER)
    with pytest.raises(ServiceError):
        store.add(SlowSource(path, fails_after=40_960), "x")
    source = SlowSource(path)
    image = store.add(source, "x")
    assert [offset for _, offset in source.asked] == [40_960]
    assert store.find("x") == image
    assert _files(store, "partial") == set()


def test_a_partial_blob_that_was_damaged_is_transferred_again(store: ImageStore, tmp_path: Path) -> None:
    path = layout(tmp_path / "image", _OTHER)
    with pytest.raises(ServiceError):
        store.add(SlowSource(path, fails_after=40_960), "x")
    (partial,) = (store.root / "partial").iterdir()
    partial.write_bytes(b"?" * 5000)
    source = SlowSource(path)
    store.add(source, "x")
    assert [offset for _, offset in source.asked] == [5000, 0]


def test_a_file_is_imported_once_until_it_changes(store: ImageStore, tmp_path: Path) -> None:
    path = tmp_path / "root.tar"
    path.write_bytes(_BASE)
    events: list[Event] = []
    first = store.add_file(f"rootfs:{path}", events.append)
    assert {each.is_unpacking for each in events if isinstance(each, ImageProgress)} == {False, True}
    events.clear()
    assert store.add_file(f"rootfs:{path}", events.append) == store.find(f"rootfs:{path}") == first
    assert not events
    path.write_bytes(_OTHER)
    assert store.find(f"rootfs:{path}") is None
    assert store.add_file(f"rootfs:{path}").layers == (_layer(_OTHER),)
    assert prune(store).images == [first.digest]
    path.unlink()
    assert len(prune(store).images) == 1
    assert _files(store) == set()


def test_a_name_that_is_given_again_means_the_new_image(store: ImageStore, tmp_path: Path) -> None:
    old = _import(store, f"oci:{layout(tmp_path / 'a', _BASE)}", "x:1")
    new = _import(store, f"oci:{layout(tmp_path / 'b', _OTHER)}", "docker.io/x:1")
    assert store.find("x:1") == new
    assert store.find(old.digest) == old
    assert prune(store).images == [old.digest]
    assert store.find(old.digest) is None
    assert _files(store, "layers") == {_layer(_OTHER)}


def test_removal_spares_what_other_images_need_and_what_is_used(store: ImageStore, tmp_path: Path) -> None:
    one = _import(store, f"oci:{layout(tmp_path / 'a', _BASE, _UPPER)}", "one")
    two = _import(store, f"oci:{layout(tmp_path / 'b', _BASE, _OTHER)}", "two")
    with store.lease(two.digest):
        assert remove(store, ["one"]).images == ["one:latest"]
        assert store.find(one.digest) is None
        assert _files(store, "layers") == {_layer(_BASE), _layer(_OTHER)}
        assert [row.is_used for row in list_images(store)] == [True]
        removed = remove(store, ["two"])
        assert (removed.kept, removed.freed_bytes) == ([two.digest], 0)
        assert prune(store, 0).kept == [two.digest]
        assert store.open(two.digest) == two
    assert prune(store).images == [two.digest]
    assert _files(store) == set()
    assert os.listdir(store.root / "locks") == ["writing"]


def test_nothing_is_removed_if_one_of_several_names_is_none(store: ImageStore, tmp_path: Path) -> None:
    _import(store, f"oci:{layout(tmp_path / 'a', _BASE)}", "one")
    with pytest.raises(UnknownImageError):
        remove(store, ["one", "two"])
    assert store.find("one") is not None


def test_an_image_with_several_names_goes_with_the_last_or_by_its_digest(store: ImageStore, tmp_path: Path) -> None:
    path = layout(tmp_path / "a", _BASE)
    image = _import(store, f"oci:{path}", "one")
    _import(store, f"oci:{path}", "two")
    assert remove(store, ["one"]).freed_bytes == 0
    assert store.find("two") == image
    _import(store, f"oci:{path}", "three")
    assert remove(store, [image.digest[7:20]]).images == ["three:latest", "two:latest"]
    assert _files(store) == set()


def test_pruning_to_a_size_removes_what_was_not_used_for_longest(store: ImageStore, tmp_path: Path) -> None:
    for number in range(4):
        image = _import(
            store, f"oci:{layout(tmp_path / str(number), archive(file('f', os.urandom(100_000))))}", f"i:{number}"
        )
        os.utime(store.manifest_path(image.digest), (number, number))
    store.open(store.find("i:0").digest)  # type: ignore[union-attr]
    assert prune(store, 450_000).images == ["i:1", "i:2"]
    assert [row.names for row in list_images(store)] == [("i:0",), ("i:3",)]


def test_a_store_with_a_limit_removes_old_images_when_one_is_added(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path, cache_dir=tmp_path / "cache", images_size="300kB")
    store = open_store(settings)
    added = [
        _import(store, f"oci:{layout(tmp_path / name, archive(file('f', os.urandom(100_000))))}", f"i:{name}")
        for name in "012"
    ]
    assert [row.names for row in list_images(store)] == [("i:0",), ("i:1",), ("i:2",)]
    # One that was used a moment ago stays, whatever the limit is.
    for image in added[1:]:
        os.utime(store.manifest_path(image.digest), (0, 0))
    _import(store, f"oci:{layout(tmp_path / 'new', archive(file('g', b'g')))}", "new")
    assert [row.names for row in list_images(store)] == [("i:0",), ("new:latest",)]
    with pytest.raises(UsageError, match="SANDRL_IMAGES_SIZE: 'much' is not a size"):
        open_store(replace(settings, images_size="much"))


def test_what_killed_processes_have_left_is_removed(store: ImageStore, tmp_path: Path) -> None:
    image = _import(store, f"oci:{layout(tmp_path / 'a', _BASE)}", "x")
    for left in (".new-" + "0" * 24, ".old-1", "f" * 24):
        (store.layers / left / "closed").mkdir(parents=True)
        (store.layers / left / "closed/file").write_text("x")
        (store.layers / left / "closed").chmod(0)
    (store.root / "partial" / ("0" * 64)).write_text("x")
    for name in ("1" * 24, ".temporary"):
        (store.root / "sizes" / name).write_text("1")
        os.utime(store.root / "sizes" / name, (0, 0))
    (store.root / "blobs/sha256" / ("0" * 64)).write_text("x")
    before = _files(store)
    prune(store)
    assert before - _files(store) == {".new-" + "0" * 24, ".old-1", "f" * 24, "0" * 64, "1" * 24, ".temporary"}
    assert store.open(image.digest) == image


def test_a_layer_that_is_missing_is_unpacked_when_its_image_is_opened(store: ImageStore, tmp_path: Path) -> None:
    image = _import(store, f"oci:{layout(tmp_path / 'a', _BASE)}", "x")
    (store.layers / image.layers[0]).rename(tmp_path / "elsewhere")
    assert store.open(image.digest) == image
    assert (store.layers / image.layers[0] / "etc/base").is_file()


def test_an_image_that_is_not_there_cannot_be_opened(store: ImageStore) -> None:
    for digest in (f"sha256:{'0' * 64}", "sha256:../../x", ""):
        with pytest.raises(UnknownImageError):
            store.open(digest)
    with pytest.raises(UnknownImageError):
        store.add_file("name", ignore)


@pytest.mark.parametrize("form", ["oci:{}/out", "docker-archive:{}/out", "{}/out.tar", "{}/out.tar.gz"])
def test_an_exported_image_can_be_imported_again(store: ImageStore, tmp_path: Path, form: str) -> None:
    image = _import(store, f"oci:{layout(tmp_path / 'a', _BASE, _UPPER, _BASE, configuration={'Env': ['A=1']})}", "x:1")
    target = target_of(form.format(tmp_path))
    assert export(store, "x:1", target) == image
    again = _import(ImageStore(tmp_path / "second/images"), str(target), "y")
    assert (again.layers, again.config) == (image.layers, image.config)
    assert again.digest == image.digest or target.form == "docker-archive:"
    with pytest.raises(InputError, match="exists already"):
        target_of(form.format(tmp_path))
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_a_store_that_others_can_write_to_is_refused(store: ImageStore, tmp_path: Path) -> None:
    store.root.mkdir(parents=True)
    store.root.chmod(0o777)
    with pytest.raises(SandrlError, match="other users can write"):
        _import(store, f"oci:{layout(tmp_path / 'a', _BASE)}")


def _layer(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:24]


def _put(path: Path, index: bytes) -> None:
    digest = hashlib.sha256(index).hexdigest()
    (path / "blobs/sha256" / digest).write_bytes(index)
    (path / "index.json").write_text(json.dumps({"manifests": [{"digest": f"sha256:{digest}", "size": len(index)}]}))
