"""Wheels that tests make, and a package index of them: a directory, or a server that notes what is requested."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import Distribution, distribution
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


class Index:
    """A directory of wheels, from which pip installs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def add(
        self,
        name: str,
        version: str = "1.0",
        files: Mapping[str, str] | None = None,
        *,
        requires: Sequence[str] = (),
        tag: str = "py3-none-any",
    ) -> Path:
        """Adds a wheel; its only module has the package's name and version unless files are given."""
        module = name.replace("-", "_")
        lines = [f"Requires-Dist: {each}\n" for each in requires]
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{''.join(lines)}"
        contents = {
            path: text.encode() for path, text in (files or {f"{module}.py": f"VERSION = {version!r}\n"}).items()
        }
        return self._write(module, version, tag, contents, metadata)

    def add_installed(self, *names: str) -> None:
        """Adds wheels of packages that are installed here, and of what they require."""
        waiting, done = list(names), set()
        while waiting:
            name = canonicalize_name(waiting.pop())
            if name in done:
                continue
            done.add(name)
            found = distribution(name)
            self._pack(found)
            for line in found.requires or ():
                requirement = Requirement(line)
                if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                    waiting.append(requirement.name)

    def _pack(self, found: Distribution) -> None:
        files = [file for file in found.files or () if ".." not in file.parts and file.suffix != ".pyc"]
        contents = {str(file): Path(str(file.locate())).read_bytes() for file in files if ".dist-info" not in str(file)}
        named = re.findall(r"^Tag: (\S+)", found.read_text("WHEEL") or "", re.MULTILINE) or ["py3-none-any"]
        # Each part of a wheel's name has all that its tags have there.
        tags = "-".join(".".join(dict.fromkeys(part)) for part in zip(*(tag.split("-") for tag in named), strict=True))
        self._write(
            canonicalize_name(found.name).replace("-", "_"),
            found.version,
            tags,
            contents,
            found.read_text("METADATA") or "",
        )

    def _write(self, module: str, version: str, tag: str, contents: dict[str, bytes], metadata: str) -> Path:
        about = f"{module}-{version}.dist-info"
        wheel = f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n"
        contents = {**contents, f"{about}/METADATA": metadata.encode(), f"{about}/WHEEL": wheel.encode()}
        record = "".join(f"{path},sha256={_hash(content)},{len(content)}\n" for path, content in contents.items())
        path = self.directory / f"{module}-{version}-{tag}.whl"
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in {**contents, f"{about}/RECORD": record.encode()}.items():
                archive.writestr(name, content)
        return path


def _hash(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


def use(monkeypatch: pytest.MonkeyPatch, index: Index) -> Index:
    """Makes a directory the only place from which packages are installed."""
    _alone(monkeypatch)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index.directory))
    return index


def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("PIP_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_RETRIES", "0")


@contextmanager
def served(monkeypatch: pytest.MonkeyPatch, index: Index) -> Iterator[list[str]]:
    """Serves an index while a `with` block runs, as the only one; gives the paths that are requested."""
    requested: list[str] = []
    root = index.directory.parent / "served"
    for wheel in index.directory.glob("*.whl"):
        name = canonicalize_name(wheel.name.partition("-")[0])
        page = root / "simple" / name
        page.mkdir(parents=True, exist_ok=True)
        (page / wheel.name).write_bytes(wheel.read_bytes())

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            requested.append(self.path)

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(root))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        _alone(monkeypatch)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
        try:
            yield requested
        finally:
            server.shutdown()
            thread.join()
