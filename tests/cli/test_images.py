"""`sandrl images` stores, lists, writes and removes images, and says in one line what is wrong with one."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.support.archives import archive, file, layout, saved
from tests.support.programs import require_program

_LAYER = archive(file("f", b"x" * 100_000))
_STAND_IN = f"swe/repo:v1@sha256:{'5' * 64}"


def test_an_image_is_imported_listed_exported_and_removed(sandrl: Run, tmp_path: Path) -> None:
    store = {"SANDRL_CACHE_DIR": str(tmp_path / "cache")}
    (tmp_path / "root.tar").write_bytes(_LAYER)
    done = sandrl("images", "import", "root.tar", "team/Tool", **store)
    assert (done.returncode, done.stdout) == (2, "")
    assert "'team/Tool' is not the name of an image" in done.stderr
    done = sandrl("images", "import", "root.tar", "team/tool", **store)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Stored team/tool:latest: sha256:")
    assert "unpacked 1 of 1" in done.stderr
    done = sandrl("images", "import", saved(tmp_path / "saved.tar.gz", _LAYER), _STAND_IN, "--json", **store)
    document = json.loads(done.stdout)
    assert (document["name"], document["layers"]) == (_STAND_IN, 1)
    listed = json.loads(sandrl("images", "ls", "--json", **store).stdout)["images"]
    assert [row["names"] for row in listed] == [[_STAND_IN], ["team/tool:latest"]]
    assert [row["layer_bytes"] for row in listed] == [100_000, 100_000]
    assert [row["is_used"] for row in listed] == [False, False]
    table = sandrl("images", "ls", **store).stdout.splitlines()
    assert [line.split()[0] for line in table] == ["name", _STAND_IN, "team/tool:latest"]
    for target in ("out.tar", "oci:out"):
        assert sandrl("images", "export", "team/tool", target, **store).returncode == 0
    assert "exists already" in sandrl("images", "export", "team/tool", "out.tar", **store).stderr
    assert sandrl("images", "import", "out", "copy", **store).returncode == 0
    done = sandrl("images", "rm", "copy", "nothing", **store)
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "sandrl: error: there is no image 'nothing'")
    done = sandrl("images", "rm", "copy", "team/tool", "--json", **store)
    assert json.loads(done.stdout)["removed"] == ["copy:latest", "team/tool:latest"]
    done = sandrl("images", "prune", "--keep-size", "1kB", **store)
    assert done.stdout.splitlines()[0] == f"Removed {_STAND_IN}"
    assert json.loads(sandrl("images", "ls", "--json", **store).stdout) == {"images": []}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (_LAYER[:2000], "is cut off"),
        (b"text" * 200, "has a damaged header"),
        (b"BZh9" + bytes(100), "is compressed with bzip2"),
        (archive(file("../evil")), "has a name with `..`"),
        (archive(), "is an archive without files"),
    ],
)
def test_a_file_that_is_no_image_is_refused_in_one_line(
    sandrl: Run, tmp_path: Path, content: bytes, problem: str
) -> None:
    (tmp_path / "bad.tar").write_bytes(content)
    done = sandrl("images", "import", "bad.tar", "bad", SANDRL_CACHE_DIR=str(tmp_path / "cache"))
    assert (done.returncode, done.stdout) == (2, "")
    line, *hint = [each for each in done.stderr.splitlines() if not each.startswith("Image: ")]
    assert line.startswith("sandrl: error: ")
    assert "bad.tar: " in line
    assert problem in line
    assert len(hint) <= 1


def test_missing_files_and_tags_are_named(sandrl: Run, tmp_path: Path) -> None:
    layout(tmp_path / "image", _LAYER, tag="1.0")
    for file_, problem in (
        ("nowhere.tar", "nowhere.tar: cannot be read: No such file or directory"),
        ("oci:image:2.0", f"oci:{tmp_path}/image:2.0: has no image of this name"),
        (".", "hint: to import a root file system, pack it: tar -C . -cf root.tar ."),
        ("rootfs:.", "is a directory without an OCI layout (index.json)"),
    ):
        done = sandrl("images", "import", file_, "x", SANDRL_CACHE_DIR=str(tmp_path / "cache"))
        assert done.returncode == 2
        assert problem in done.stderr


def test_a_huge_sparse_file_is_refused_before_it_is_read(sandrl: Run, tmp_path: Path) -> None:
    for file_, content, problem in (("zeros", b"", "without files"), ("files", _LAYER[:-1024], "more than 64 GiB")):
        (tmp_path / file_).write_bytes(content)
        os.truncate(tmp_path / file_, 4 << 40)
        form = "rootfs:" if content else ""
        done = sandrl("images", "import", f"{form}{file_}", "x", SANDRL_CACHE_DIR=str(tmp_path / "cache"))
        assert done.returncode == 2
        assert problem in done.stderr


@pytest.mark.parametrize("name", ["oci:1.0", "rootfs:root.tar", "docker-archive:x"])
def test_a_name_that_begins_like_a_file_is_refused(sandrl: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "root.tar").write_bytes(_LAYER)
    done = sandrl("images", "import", "root.tar", name, SANDRL_CACHE_DIR=str(tmp_path / "cache"))
    assert done.returncode == 2
    assert f"{name!r} is not the name of an image: it begins with {name.partition(':')[0]}:" in done.stderr


def test_a_place_where_no_image_can_be_written_is_named(sandrl: Run, tmp_path: Path) -> None:
    store = {"SANDRL_CACHE_DIR": str(tmp_path / "cache")}
    (tmp_path / "root.tar").write_bytes(_LAYER)
    assert sandrl("images", "import", "root.tar", "x", **store).returncode == 0
    for target, code, problem in (
        ("nowhere/x.tar", 3, f"{tmp_path}/nowhere/x.tar: cannot be written: No such file or directory"),
        ("oci:root.tar/x", 3, f"{tmp_path}/root.tar/x: cannot be written: Not a directory"),
        ("n" * 250, 3, f"{'n' * 250}: cannot be written: File name too long"),
        ("x.tar.zst", 2, "x.tar.zst: has another ending than an archive that can be written"),
    ):
        done = sandrl("images", "export", "x", target, **store)
        assert (done.returncode, done.stdout) == (code, "")
        assert problem in done.stderr


def run_with_mounts(script: str, cache: Path) -> subprocess.CompletedProcess[str]:
    cache.mkdir(mode=0o700)
    unshare = require_program("unshare")
    inside = [unshare, "--mount"] if os.geteuid() == 0 else [unshare, "--user", "--map-root-user", "--mount"]
    environment = {**os.environ, "SANDRL_CACHE_DIR": str(cache)}
    return subprocess.run([*inside, "sh", "-c", script], env=environment, capture_output=True, text=True, check=False)


def test_a_store_that_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "root.tar").write_bytes(_LAYER)
    images = f"{sys.executable} -m sandrl images"
    script = (
        f"{images} import {tmp_path}/root.tar x && mount --bind {tmp_path}/cache {tmp_path}/cache && "
        f"mount -o remount,bind,ro {tmp_path}/cache && {images} ls && {images} prune; echo $?; "
        f"SANDRL_CACHE_DIR={tmp_path}/root.tar {images} ls; echo $?"
    )
    done = run_with_mounts(script, tmp_path / "cache")
    stored, _, row, *codes = done.stdout.splitlines()
    assert (stored.split()[1], row.split()[0], codes) == ("x:latest:", "x:latest", ["3", "2"]), done.stderr
    assert f"cannot be written ({tmp_path}/cache/images): Read-only file system" in done.stderr
    assert f"{tmp_path}/root.tar/images/manifests: cannot be read: Not a directory" in done.stderr


def test_a_store_without_room_says_so_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "root.tar").write_bytes(archive(file("f", os.urandom(3 << 20))))
    script = (
        f"mount -t tmpfs -o size=2m,mode=700 tmpfs {tmp_path}/cache && "
        f"{sys.executable} -m sandrl images import {tmp_path}/root.tar x; echo $?; "
        f"find {tmp_path}/cache -type f -size +1k"
    )
    done = run_with_mounts(script, tmp_path / "cache")
    assert done.stdout == "3\n", done.stderr
    assert "the store of images cannot be written" in done.stderr
    assert "hint: remove unused images: sandrl images prune" in done.stderr


def test_an_interrupted_import_leaves_no_image_and_can_be_repeated(tmp_path: Path) -> None:
    (tmp_path / "root.tar").write_bytes(archive(*(file(f"f{number}") for number in range(30_000))))
    environment = {**os.environ, "SANDRL_CACHE_DIR": str(tmp_path / "cache")}
    words = [sys.executable, "-m", "sandrl", "images", "import", str(tmp_path / "root.tar"), "x"]
    with subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True) as started:
        assert started.stderr is not None
        assert started.stderr.readline() == f"Image: reading {tmp_path}/root.tar …\n"
        assert "copied 1 of 1" in started.stderr.readline()
        started.send_signal(signal.SIGINT)
        assert started.stderr.read() == "sandrl: error: interrupted: x:latest is not stored\n"
    assert started.returncode == 130
    store = tmp_path / "cache/images"
    assert [os.listdir(store / each) for each in ("layers", "manifests", "names")] == [[], [], []]
    subprocess.run([*words[:-1], "y"], env=environment, check=True, capture_output=True)
    assert [len(os.listdir(store / each)) for each in ("layers", "partial", "manifests", "names")] == [1, 0, 1, 1]


def test_a_terminal_shows_how_far_an_import_is(tmp_path: Path) -> None:
    (tmp_path / "root.tar").write_bytes(_LAYER)
    terminal, theirs = pty.openpty()
    environment = {**os.environ, "SANDRL_CACHE_DIR": str(tmp_path / "cache"), "TERM": "xterm"}
    words = [sys.executable, "-m", "sandrl", "images", "import", str(tmp_path / "root.tar"), "x"]
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, stderr=theirs, text=True, check=True)
    os.close(theirs)
    shown = os.read(terminal, 1 << 16).decode()
    os.close(terminal)
    assert done.stdout.startswith("Stored x:latest")
    assert "1 of 1" in shown
