"""Tar archives and images for tests, made by code: also those that no program would write."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sandrl.runtime.images.compression import suffix_of
from sandrl.runtime.images.layouts import LAYER_TYPE, digest_of


@dataclass(frozen=True)
class Member:
    """An entry of an archive, written as it is given."""

    name: str
    content: bytes = b""
    kind: bytes = tarfile.REGTYPE
    mode: int = 0o644
    link: str = ""
    user: int = 0
    group: int = 0
    modified: float = 1_000_000_000
    records: Mapping[str, str] = field(default_factory=dict)
    device: tuple[int, int] = (0, 0)


def file(name: str, content: bytes = b"", **more: object) -> Member:
    return Member(name, content, **more)  # type: ignore[arg-type]


def folder(name: str, mode: int = 0o755, **more: object) -> Member:
    return Member(name, kind=tarfile.DIRTYPE, mode=mode, **more)  # type: ignore[arg-type]


def symlink(name: str, target: str) -> Member:
    return Member(name, kind=tarfile.SYMTYPE, link=target, mode=0o777)


def hard_link(name: str, target: str) -> Member:
    return Member(name, kind=tarfile.LNKTYPE, link=target)


def archive(*members: Member, form: int = tarfile.PAX_FORMAT) -> bytes:
    """The bytes of a plain archive."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=form, encoding="utf-8", errors="surrogateescape") as file:
        for each in members:
            header = tarfile.TarInfo(each.name)
            header.type, header.mode, header.linkname = each.kind, each.mode, each.link
            header.uid, header.gid, header.mtime = each.user, each.group, each.modified
            header.devmajor, header.devminor = each.device
            header.size, header.pax_headers = len(each.content), dict(each.records)
            file.addfile(header, io.BytesIO(each.content))
    return written.getvalue()


def layout(
    directory: Path,
    *layers: bytes,
    compressed: bool = True,
    tag: str = "test",
    configuration: Mapping[str, object] | None = None,
    changes: Mapping[str, object] | None = None,
) -> Path:
    """Writes an OCI layout with one image; `changes` replace fields of its configuration document."""
    blobs = directory / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def put(content: bytes, kind: str) -> dict[str, object]:
        (blobs / digest_of(content).removeprefix("sha256:")).write_bytes(content)
        return {"mediaType": kind, "digest": digest_of(content), "size": len(content)}

    document = {
        "architecture": "amd64",
        "os": "linux",
        "config": dict(configuration or {}),
        "rootfs": {"type": "layers", "diff_ids": [digest_of(each) for each in layers]},
        **(changes or {}),
    }
    packed = [gzip.compress(each, 1, mtime=0) if compressed else each for each in layers]
    manifest = {
        "schemaVersion": 2,
        "config": put(json.dumps(document).encode(), "application/vnd.oci.image.config.v1+json"),
        "layers": [put(each, LAYER_TYPE + suffix_of(each)) for each in packed],
    }
    described = put(json.dumps(manifest).encode(), "application/vnd.oci.image.manifest.v1+json")
    described["annotations"] = {"org.opencontainers.image.ref.name": tag}
    (directory / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [described]}))
    (directory / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return directory


def saved(path: Path, *layers: bytes, names: Sequence[str] = ("saved:1",)) -> Path:
    """Writes what `docker save` would, with the second of two equal layers as a link, as old versions do."""
    document = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": ["A=1"]},
        "rootfs": {"type": "layers", "diff_ids": [digest_of(each) for each in layers]},
    }
    config = json.dumps(document).encode()
    members, places = [], []
    for number, each in enumerate(layers):
        place = f"{number:064x}/layer.tar"
        first = layers.index(each)
        members.append(file(place, each) if first == number else symlink(place, f"../{first:064x}/layer.tar"))
        places.append(place)
    manifest = [{"Config": "config.json", "RepoTags": list(names), "Layers": places}]
    members += [file("config.json", config), file("manifest.json", json.dumps(manifest).encode())]
    content = archive(*members)
    path.write_bytes(gzip.compress(content, 1) if path.name.endswith("gz") else content)
    return path
