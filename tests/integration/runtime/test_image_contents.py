"""Images are unpacked as umoci unpacks them, file by file, by root and by an ordinary user."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandrl.runtime.images.layouts import open_source, parse_file_reference
from sandrl.runtime.images.removal import prune
from sandrl.runtime.images.store import ImageStore
from tests.support.archives import archive, file, folder, hard_link, layout, symlink
from tests.support.forks import forked
from tests.support.programs import require_program

_TREES = (Path(__file__).parents[2] / "support/trees.py").read_text()
_NOBODY = 65534
_CAPABILITY = bytes.fromhex("0100000200040000000000000000000000000000").decode("latin-1")
_ODD = b"odd \xff\n\x1b".decode("utf-8", "surrogateescape")

_LOWEST = archive(
    folder("./", mode=0o755),
    folder("./bin", mode=0o755, modified=1_500_000_000.25),
    file("./bin/su", b"#!su", mode=0o4755, user=0, group=0),
    file("./bin/wall", b"#!wall", mode=0o2755, user=0, group=5),
    hard_link("./bin/su2", "./bin/su"),
    file("./bin/ping", b"#!ping", mode=0o755, records={"SCHILY.xattr.security.capability": _CAPABILITY}),
    folder("./tmp", mode=0o1777),
    folder("./secret", mode=0o700, user=1000, group=1000),
    file("./secret/key", b"k" * 5000, mode=0o400, user=1000, group=1000),
    folder("./closed", mode=0o555),
    file("./closed/f", b"", mode=0),
    symlink("./lib", "usr/lib"),
    folder("./usr"),
    folder("./usr/lib"),
    file("./usr/lib/a.so", b"a", records={"SCHILY.xattr.user.note": "n", "mtime": "1400000000.123456789"}),
    folder(f"./{_ODD}"),
    file(f"./{_ODD}/{'long' * 50}", b"odd"),
    symlink("./absolute", "/etc/passwd"),
    folder("./replaced"),
    file("./replaced/old", b"old"),
    file("./file", b"file"),
    folder("./opaque"),
    file("./opaque/old", b"old"),
    folder("./gone"),
    folder("./gone/deep"),
    file("./gone/deep/f", b"f"),
)
_MIDDLE = archive(
    folder("./"),
    file("./.wh.gone"),
    file("./replaced", b"now a file"),
    folder("./file", mode=0o711),
    file("./file/inside", b"now a directory"),
    folder("./opaque"),
    file("./opaque/.wh..wh..opq"),
    file("./opaque/new", b"new"),
    folder("./usr"),
    folder("./usr/lib", mode=0o750),
    file("./usr/lib/.wh.a.so"),
    symlink("./bin/sh", "su"),
    folder("./bin", mode=0o755),
)
# Neither the root nor `tmp` and `secret` are named: they are those of the layers below.
_TOP = archive(
    *(folder("./gone", mode=0o700), file("./gone/back", b"back"), file("./.wh.nothing")),
    *(file("./tmp/.wh.nothing"), file("./secret/more", b"m"), file("./replaced", b"again")),
)


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that every user can reach."""
    folder = Path(tempfile.mkdtemp(prefix="sandrl-images-"))
    folder.chmod(0o755)
    yield folder
    subprocess.run(["chmod", "-R", "u+rwX", folder], check=False)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["root", "ordinary user"])
def user(request: pytest.FixtureRequest, place: Path) -> int:
    """The id of the user who unpacks; what is in the place belongs to this user."""
    if os.geteuid() != 0:
        if request.param == "root":
            pytest.skip("needs root")
        return os.geteuid()
    number = 0 if request.param == "root" else _NOBODY
    os.chown(place, number, number)
    return number


def test_layers_with_every_kind_of_file_and_whiteout_are_those_of_umoci(place: Path, user: int) -> None:
    image = layout(place / "image", _LOWEST, _MIDDLE, _TOP)
    _hand_over(place, user)
    _assert_same(place, user, image, "test", _layers_of(place, user, f"oci:{image}"))


def test_an_image_of_docker_archive_by_skopeo_has_the_same_layers(place: Path, user: int) -> None:
    skopeo = require_program("skopeo")
    image = layout(place / "image", _LOWEST, _MIDDLE, _TOP)
    for name, form in (("saved.tar", "docker-archive"), ("layout.tar", "oci-archive")):
        subprocess.run([skopeo, "copy", "-q", f"oci:{image}:test", f"{form}:{place}/{name}:a/b:1"], check=True)
    _hand_over(place, user)
    wanted = _layers_of(place, user, f"oci:{image}")
    assert _layers_of(place, user, f"docker-archive:{place}/saved.tar") == wanted
    assert _layers_of(place, user, f"oci:{place}/layout.tar") == wanted


def test_directories_that_cannot_be_written_are_stored_and_removed(place: Path, user: int) -> None:
    closed = archive(folder("./", mode=0o555), folder("./a", mode=0), folder("./a/b", mode=0o500), file("./a/b/c"))
    image = layout(place / "image", closed)
    _hand_over(place, user)
    assert len(_layers_of(place, user, f"oci:{image}")) == 1

    def remove_all() -> None:
        store = ImageStore(place / "cache/images")
        assert prune(store, 0).images == ["test:latest"]
        assert os.listdir(store.layers) == []

    _run_as(user, remove_all)


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of a small Debian."""
    packed = tmp_path_factory.mktemp("debian") / "debian.tar"
    program = require_program("mmdebstrap")
    command = [program, "--quiet", "--variant=minbase", "--include=iputils-ping", "bookworm", str(packed)]
    made = subprocess.run(command, check=False, capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"no mirror of Debian can be reached: {made.stderr[-200:]}")
    return packed


@pytest.mark.slow
def test_a_debian_of_mmdebstrap_is_that_of_umoci(place: Path, user: int, debian: Path) -> None:
    umoci, image = require_program("umoci"), place / "image"
    upper = archive(
        *(folder("./"), folder("./etc"), file("./etc/.wh.debian_version"), folder("./usr"), folder("./usr/share")),
        *(file("./usr/share/.wh.doc"), folder("./var"), file("./var/.wh..wh..opq")),
    )
    (place / "upper.tar").write_bytes(upper)
    shutil.copy(debian, place / "debian.tar")
    for words in (["init", "--layout", image], ["new", "--image", f"{image}:test"]):
        subprocess.run([umoci, *words], check=True)
    for layer in ("debian.tar", "upper.tar"):
        subprocess.run([umoci, "raw", "add-layer", "--image", f"{image}:test", place / layer], check=True)
    _hand_over(place, user)
    layers = _layers_of(place, user, f"oci:{image}")
    assert _layers_of(place, user, f"rootfs:{place}/debian.tar") == layers[:1]
    _assert_same(place, user, image, "test", layers)


def _assert_same(place: Path, user: int, image: Path, tag: str, layers: list[str]) -> None:
    umoci, unshare = require_program("umoci"), require_program("unshare")
    rootless = [] if user == 0 else ["--rootless"]
    subprocess.run(
        [umoci, "unpack", *rootless, "--image", f"{image}:{tag}", place / "bundle"], check=True, **_as(user, place)
    )
    inside = [unshare, "--mount"] if user == 0 else [unshare, "--user", "--map-root-user", "--mount"]
    tree = [*inside, "/usr/bin/python3", "-c", _TREES]
    (place / "mount").mkdir()
    # An overlay of one layer alone is none.
    (place / "empty").mkdir()
    paths = [str(place / "cache/images/layers" / each) for each in reversed(layers)]
    own = subprocess.run([*tree, place / "mount", *paths, place / "empty"], capture_output=True, **_as(user, place))
    assert own.returncode == 0, own.stderr
    other = subprocess.run([*tree, place / "bundle/rootfs"], capture_output=True, check=True, **_as(user, place))
    found, wanted = _files(own.stdout), _files(other.stdout)
    assert len(wanted) > 10
    assert found == wanted


def _files(printed: bytes) -> dict[str, Any]:
    # Devices are left out; umoci makes empty files for them where it may make none.
    entries: dict[str, Any] = json.loads(printed)
    return {name: each for name, each in entries.items() if not name.startswith("b'dev/") and not _is_device(each)}


def _is_device(entry: dict[str, Any]) -> bool:
    return stat.S_ISCHR(int(entry["mode"], 8)) or stat.S_ISBLK(int(entry["mode"], 8))


def _layers_of(place: Path, user: int, reference: str) -> list[str]:
    kept = place / "layers.json"

    def store() -> None:
        images = ImageStore(place / "cache/images")
        source = parse_file_reference(reference)
        assert source is not None
        with open_source(source, images.scratch()) as opened:
            image = images.add(opened, "test")
        kept.write_text(json.dumps(image.layers))

    _run_as(user, store)
    return list(json.loads(kept.read_text()))


def _run_as(user: int, work: Callable[[], None]) -> None:
    if user == os.geteuid():
        work()
        return

    def work_as_user() -> None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        work()

    assert os.waitstatus_to_exitcode(os.waitpid(forked(work_as_user), 0)[1]) == 0


def _hand_over(place: Path, user: int) -> None:
    if user != os.geteuid():
        subprocess.run(["chown", "-R", f"{user}:{user}", place], check=True)


def _as(user: int, place: Path) -> dict[str, Any]:
    other: dict[str, Any] = {} if user == os.geteuid() else {"user": user, "group": user, "extra_groups": []}
    return {**other, "cwd": place, "env": {**os.environ, "HOME": str(place)}}
