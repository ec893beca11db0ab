"""Removes images from a store, and what no image needs, beside processes that add and use images.

While images are removed, no manifest is written (the lock `writing`). A blob or a layer that no manifest names is
removed only if no process holds its lock: a process that adds an image holds those of all that it needs until the
manifest is written. An image that is used (`ImageStore.lease`) stays.
"""

from __future__ import annotations

import os
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from sandrl.errors import InputError, UnknownImageError
from sandrl.runtime.guest.storage import remove_tree
from sandrl.runtime.images import locks
from sandrl.runtime.images.contents import NEW, OLD
from sandrl.runtime.images.names import NamedImage, key_of
from sandrl.runtime.images.steps import digests_of_steps, forget_steps
from sandrl.runtime.images.store import ImageStore

_PARTIAL_SECONDS = 24 * 3600
_TEMPORARY_SECONDS = 3600
_RECENT_SECONDS = 600
_CLAIMS, _CLAIM_SECONDS = 4, 0.01


@dataclass(frozen=True, slots=True)
class ImageRow:
    """An image of a store, as `sandrl images ls` shows it.

    Attributes:
        names: Its names, and the files that it was imported from.
        blob_bytes: Bytes of its blobs.
        layer_bytes: Bytes of the files of its layers.
        shared_bytes: Bytes of blobs and layers that other images have, too.
        layers: The names of its layers, the lowest first; images with the same name share the layer.
        used_at: When it was last used, in seconds since the epoch.
        is_used: Whether a runtime uses it at the moment.
        is_step: Whether it has no name, and is kept because a step of a build has led to it.
    """

    digest: str
    names: tuple[str, ...]
    architecture: str
    blob_bytes: int
    layer_bytes: int
    shared_bytes: int
    layers: tuple[str, ...]
    used_at: float
    is_used: bool
    is_step: bool


@dataclass(slots=True)
class Removed:
    """What was removed.

    Attributes:
        images: Names of the images, or their digests if they had no name.
        kept: Digests of images that were to be removed and are used.
        freed_bytes: Bytes of blobs and layers.
    """

    images: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    freed_bytes: int = 0


def list_images(store: ImageStore) -> list[ImageRow]:
    """The images of a store: those with names first, each by its first name."""
    parts = {digest: _parts(store, digest) for digest in store.digests()}
    counts, names = Counter(part for each in parts.values() for part in each), _names(store)
    steps = digests_of_steps(store)
    rows = [
        _row(store, digest, names.get(digest, []), each, counts, is_step=digest in steps)
        for digest, each in parts.items()
    ]
    return sorted((each for each in rows if each is not None), key=lambda row: (not row.names, row.names, row.digest))


def remove(store: ImageStore, references: Sequence[str]) -> Removed:
    """Removes names, and images that have no other name; by a digest, an image with all of its names.

    Raises:
        UnknownImageError: If one of them is no image; nothing is then removed.
    """
    removed = Removed()
    with _removing(store, removed):
        for digest, gone in [_meant(store, each) for each in references]:
            for each in gone:
                store.names.remove(each.key)
            removed.images += [each.name for each in gone] or [digest]
            if digest not in _names(store):
                _drop(store, [digest], removed)
    return removed


def prune(store: ImageStore, keep_bytes: int | None = None) -> Removed:
    """Removes images without a name, files that no image needs, and what killed processes have left.

    With `keep_bytes`, images that were not used for the longest time are removed, too, until the store is not larger.
    """
    removed = Removed()
    with _removing(store, removed):
        digests = store.digests()
        for each in store.names.all():
            if not each.is_current() or each.digest not in digests:
                store.names.remove(each.key)
        names = _names(store)
        unnamed = [each for each in digests if each not in names]
        oldest = [] if keep_bytes is None else _oldest(store, [each for each in digests if each in names], keep_bytes)
        removed.images += _drop(store, unnamed + oldest, removed)
        removed.freed_bytes += _clear_caches(store)
    remove_leftovers(store, 0)
    return removed


def shrink(store: ImageStore, most_bytes: int, spared: str) -> None:
    """Removes images that were not used for the longest time until the store is not larger.

    An image that was just added (`spared`), or was used in the last minutes, stays.
    """
    recent, removed = time.time() - _RECENT_SECONDS, Removed()
    with _removing(store, removed):
        old = [each for each in _oldest(store, store.digests(), most_bytes) if each != spared]
        _drop(store, [each for each in old if _used_at(store, each) < recent], removed)


def remove_leftovers(store: ImageStore, least_seconds: float = _PARTIAL_SECONDS) -> None:
    """Removes what killed processes have left; of downloads, only those that nobody continued for some time."""
    contents = store.contents
    for layer in _visible(contents.layers, hidden=True):
        lock = contents.lock_of(layer) if layer.name.startswith(NEW) else contents.locks / layer.name
        with _claimed(lock) as is_free:
            if is_free:
                remove_tree(str(layer))
    now = time.time()
    for partial in _visible(contents.partial):
        with _claimed(contents.lock_of(contents.blobs / partial.name)) as is_free, suppress(FileNotFoundError):
            if is_free and partial.stat().st_mtime <= now - least_seconds:
                partial.unlink()
    sizes = [each for each in _visible(contents.sizes) if not (contents.layers / each.name).exists()]
    for left in [*sizes, *_visible(contents.sizes, hidden=True)]:
        with suppress(FileNotFoundError):
            if left.stat().st_mtime <= now - _TEMPORARY_SECONDS:
                left.unlink()


@contextmanager
def _removing(store: ImageStore, removed: Removed) -> Iterator[None]:
    store.make()
    descriptor = locks.take(store.writing, exclusive=True)
    try:
        yield
        removed_layers = _sweep(store, removed)
    finally:
        os.close(descriptor)
    for layer in removed_layers:
        remove_tree(str(layer))


def _meant(store: ImageStore, reference: str) -> tuple[str, list[NamedImage]]:
    known = store.names.find(key_of(reference) or "")
    digest = store.digest_of(reference) if known is None else known.digest
    if digest is None:
        raise UnknownImageError(reference)
    return digest, _names(store).get(digest, []) if known is None else [known]


def _drop(store: ImageStore, digests: Iterable[str], removed: Removed) -> list[str]:
    # What remains of an image without a manifest is swept. Returns the names of the dropped images.
    dropped: list[str] = []
    names_of = _names(store)
    for digest in digests:
        lease = _claim(store.lease_of(digest))
        if lease is None:
            removed.kept.append(digest)
            continue
        names = names_of.get(digest, [])
        for each in names:
            store.names.remove(each.key)
        dropped += [each.name for each in names] or [digest]
        store.manifest_path(digest).unlink(missing_ok=True)
        locks.remove(store.lease_of(digest), lease)
    return dropped


def _sweep(store: ImageStore, removed: Removed) -> list[Path]:
    contents = store.contents
    needed = {part for digest in store.digests() for part in _parts(store, digest)}
    layers = []
    for path in [*_visible(contents.blobs), *_visible(contents.layers)]:
        lock = None if path in needed else locks.take_free(contents.lock_of(path), exclusive=True)
        if lock is None:
            continue
        removed.freed_bytes += _size(store, path)
        if path.parent == contents.blobs:
            path.unlink()
        else:
            layers.append(path.rename(path.with_name(f"{OLD}{uuid.uuid4().hex}")))
            (contents.sizes / path.name).unlink(missing_ok=True)
        locks.remove(contents.lock_of(path), lock)
    forget_steps(store)
    # Nobody writes there at the moment.
    for temporary in [*_visible(store.manifests, hidden=True), *_visible(store.names.directory, hidden=True)]:
        temporary.unlink()
    _remove_locks(store)
    return layers


def _clear_caches(store: ImageStore) -> int:
    freed = 0
    for path in _visible(store.caches):
        with _claimed(store.contents.locks / f"caches-{path.name.removesuffix('.new')}") as is_free:
            if is_free:
                freed += _size(store, path)
                path.unlink(missing_ok=True)
    return freed


def _remove_locks(store: ImageStore) -> None:
    contents = store.contents
    of = {"sha256": contents.blobs, "layers": contents.layers, "used": store.manifests}
    of |= {"steps": store.steps, "caches": store.caches}
    for lock in _visible(contents.locks):
        kind, _, name = lock.name.partition("-")
        if kind in of and not (of[kind] / name).exists():
            descriptor = locks.take_free(lock, exclusive=True)
            if descriptor is not None:
                locks.remove(lock, descriptor)


def _oldest(store: ImageStore, digests: Sequence[str], keep_bytes: int) -> list[str]:
    parts = {digest: _parts(store, digest) for digest in digests}
    counts = Counter(part for each in parts.values() for part in each)
    total = sum(_size(store, part) for part in counts)
    chosen = []
    for digest in sorted(digests, key=lambda each: _used_at(store, each)):
        if total <= keep_bytes:
            break
        if _is_used(store, digest):
            continue
        chosen.append(digest)
        counts.subtract(parts[digest])
        total -= sum(_size(store, part) for part in parts[digest] if not counts[part])
    return chosen


def _parts(store: ImageStore, digest: str) -> set[Path]:
    # The blobs and layers of an image; none of a damaged one.
    try:
        manifest, configuration = store.read(digest)
    except (FileNotFoundError, InputError):
        return set()
    blobs = {store.contents.blob(each.digest) for each in (manifest.config, *manifest.layers)}
    return blobs | {store.contents.layer(each) for each in configuration.rootfs.diff_ids}


def _row(
    store: ImageStore,
    digest: str,
    named: Sequence[NamedImage],
    parts: set[Path],
    counts: Counter[Path],
    *,
    is_step: bool,
) -> ImageRow | None:
    image = store.find(digest)
    if image is None:
        return None
    layers = {each for each in parts if each.parent == store.layers}
    names = tuple(each.name for each in named)
    return ImageRow(
        digest=digest,
        names=names,
        architecture=image.config.architecture,
        blob_bytes=image.size,
        layer_bytes=sum(_size(store, each) for each in layers),
        shared_bytes=sum(_size(store, each) for each in parts if counts[each] > 1),
        layers=image.layers,
        used_at=_used_at(store, digest),
        is_used=_is_used(store, digest),
        is_step=is_step and not names,
    )


def _names(store: ImageStore) -> dict[str, list[NamedImage]]:
    found: dict[str, list[NamedImage]] = {}
    for each in store.names.all():
        found.setdefault(each.digest, []).append(each)
    return found


def _size(store: ImageStore, path: Path) -> int:
    if path.parent == store.layers:
        return store.contents.layer_bytes(path.name)
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _used_at(store: ImageStore, digest: str) -> float:
    try:
        return store.manifest_path(digest).stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _is_used(store: ImageStore, digest: str) -> bool:
    try:
        lease = _claim(store.lease_of(digest))
    except OSError:  # a file system that is read-only has no locks
        return False
    if lease is not None:
        os.close(lease)
    return lease is None


def _claim(lock: Path) -> int | None:
    # Others who look whether an image is used hold its lock for a moment.
    for _ in range(_CLAIMS):
        descriptor = locks.take_free(lock, exclusive=True)
        if descriptor is not None:
            return descriptor
        time.sleep(_CLAIM_SECONDS)
    return None


@contextmanager
def _claimed(lock: Path) -> Iterator[bool]:
    descriptor = locks.take_free(lock, exclusive=True)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            locks.remove(lock, descriptor)


def _visible(directory: Path, *, hidden: bool = False) -> list[Path]:
    try:
        return [directory / name for name in os.listdir(directory) if name.startswith(".") == hidden]
    except FileNotFoundError:
        return []
