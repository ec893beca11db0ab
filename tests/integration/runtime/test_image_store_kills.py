"""Many processes use one store at once, and some are killed: it stays whole, nothing is twice, nothing is lost."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest

from sandrl.errors import UnknownImageError
from sandrl.runtime.images import contents
from sandrl.runtime.images.layouts import open_source, parse_file_reference
from sandrl.runtime.images.removal import prune, remove
from sandrl.runtime.images.store import ImageStore
from tests.support.archives import archive, file, folder, layout, saved
from tests.support.forks import forked
from tests.support.image_sources import SlowSource

_PROCESSES = 100
_SECONDS = 300.0


class _Tree:
    """Images that share layers, in files, with the content that each layer must have."""

    def __init__(self, root: Path) -> None:
        chosen = random.Random(1)
        self.layers = [
            archive(folder("d"), *(file(f"d/{number}-{each}", chosen.randbytes(4_000)) for each in range(60)))
            for number in range(6)
        ]
        parts = [self.layers[number : number + 3] for number in range(4)]
        self.layouts = [layout(root / f"layout-{number}", *each) for number, each in enumerate(parts)]
        self.saved = [saved(root / f"saved-{number}.tar", *each) for number, each in enumerate(parts)]
        self.names = {hashlib.sha256(each).hexdigest()[:24]: each for each in self.layers}


def _whole(store: ImageStore, images: _Tree, reference: str) -> None:
    image = store.find(reference)
    assert image is not None, reference
    with store.lease(image.digest):
        for name in image.layers:
            number = images.layers.index(images.names[name])
            files = sorted((store.layers / name / "d").iterdir())
            assert len(files) == 60
            assert all(each.name.startswith(f"{number}-") and each.stat().st_size == 4_000 for each in files)


@pytest.mark.alone
def test_a_store_is_whole_after_a_hundred_commands_at_once_of_which_some_were_killed(tmp_path: Path) -> None:
    images, root = _Tree(tmp_path), tmp_path / "cache" / "images"
    kept: dict[int, str] = {}

    def pull(number: int) -> None:
        source = SlowSource(images.layouts[number % 4], piece_bytes=20_000, wait_seconds=0.01)
        ImageStore(root).add(source, f"pulled:{number}")

    def import_file(number: int) -> None:
        store = ImageStore(root)
        reference = parse_file_reference(f"docker-archive:{images.saved[number % 4]}")
        assert reference is not None
        with open_source(reference, store.scratch()) as source:
            store.add(source, f"imported:{number}")

    def remove_some(number: int) -> None:
        store = ImageStore(root)
        pull_name = f"removed:{number}"
        store.add(SlowSource(images.layouts[number % 4]), pull_name)
        _whole(store, images, pull_name)
        remove(store, [pull_name])

    def clean(number: int) -> None:
        for _ in range(10):
            prune(ImageStore(root))
            time.sleep(0.02)

    def use(number: int) -> None:
        store = ImageStore(root)
        for digest in [*store.digests()] * 5:
            try:
                with store.lease(digest) as image:
                    time.sleep(0.01)
                    assert all((store.layers / each / "d").is_dir() for each in image.layers)
            except UnknownImageError:
                pass  # removed meanwhile

    works = [pull, import_file, remove_some, clean, use]
    for number in range(_PROCESSES):
        work = works[number % len(works)]
        pid = forked(lambda work=work, number=number: work(number))  # type: ignore[misc]
        kept[pid] = {pull: f"pulled:{number}", import_file: f"imported:{number}"}.get(work, "")
    living, failed = set(kept), list[int]()
    try:
        killed = _wait(living, kept, failed)
    finally:
        for pid in living:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    assert failed == []
    assert killed > 0
    _assert_whole(root, images, [name for name in kept.values() if name])


def _wait(living: set[int], kept: dict[int, str], failed: list[int]) -> int:
    # Kills a third of the processes meanwhile; what these were to name may be there or not.
    chosen, killed, deadline = random.Random(int.from_bytes(os.urandom(4))), 0, time.monotonic() + _SECONDS
    while living:
        assert time.monotonic() < deadline, f"{len(living)} processes wait for one another"
        if killed < _PROCESSES // 3 and chosen.random() < 0.5:
            os.kill(chosen.choice(sorted(living)), signal.SIGKILL)
            killed += 1
        for pid in list(living):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                living.discard(pid)
                if os.waitstatus_to_exitcode(status) == -signal.SIGKILL:
                    kept[pid] = ""
                elif status:
                    failed.append(pid)
        time.sleep(0.02)
    return killed


def _assert_whole(root: Path, images: _Tree, names: list[str]) -> None:
    store = ImageStore(root)
    assert len(names) > 10
    for name in names:
        _whole(store, images, name)
    for each in store.names.all():
        _whole(store, images, each.name)
    prune(store)
    for blob in (root / "blobs/sha256").iterdir():
        assert hashlib.sha256(blob.read_bytes()).hexdigest() == blob.name
    assert set(os.listdir(store.layers)) <= set(images.names)
    assert os.listdir(root / "partial") == []
    remove(store, [each.name for each in store.names.all()])
    assert {name: os.listdir(root / name) for name in ("blobs/sha256", "layers", "manifests", "names")} == {
        "blobs/sha256": [],
        "layers": [],
        "manifests": [],
        "names": [],
    }


def test_a_layer_that_many_processes_need_is_transferred_and_unpacked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, root = _Tree(tmp_path), tmp_path / "cache" / "images"
    counted, unpack = tmp_path / "unpacked", contents.unpack  # type: ignore[attr-defined]

    def counting(*words: object, **more: object) -> object:
        with counted.open("a") as written:
            written.write("x")
        return unpack(*words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(contents, "unpack", counting)

    def pull(number: int) -> None:
        source = SlowSource(images.layouts[number % 2], piece_bytes=50_000, wait_seconds=0.01)
        ImageStore(root).add(source, f"pulled:{number}")
        with counted.open("a") as written:
            written.write("b" * len(source.asked))

    pids = [forked(lambda number=number: pull(number)) for number in range(16)]  # type: ignore[misc]
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [0] * 16
    # Two images of three layers share two; each has a configuration of its own.
    assert counted.read_text().count("x") == 4
    assert counted.read_text().count("b") == 6
    _assert_whole(root, images, [f"pulled:{number}" for number in range(16)])
    shutil.rmtree(root)
