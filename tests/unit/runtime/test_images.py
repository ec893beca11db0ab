"""Interpreters of this machine, looked for where they may be."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from sandrl.runtime.host.images import Images, StoreImage, find_images, own_image

SHIM = '#!/bin/sh\necho "$0" >> {calls}\nexec {program} "$@"\n'


def shim(path: Path, program: str, calls: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(SHIM.format(program=program, calls=calls))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_a_shim_is_asked_only_for_a_version_that_no_program_provides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [image for image in find_images() if image.name != own_image().name]
    if len(others) < 2:
        pytest.skip("this machine has fewer than two other interpreters")
    shims, programs, calls = tmp_path / "shims", tmp_path / "programs", tmp_path / "calls"
    calls.touch()
    both, only_shim = others[:2]
    programs.mkdir()
    (programs / f"python{both.name}").symlink_to(both.executable)
    for image in (both, only_shim):
        shim(shims / f"python{image.name}", image.executable, calls)
    monkeypatch.setenv("PATH", f"{shims}:{programs}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    found = {image.name: image for image in find_images()}
    assert (found[both.name], found[only_shim.name]) == (both, only_shim)
    assert calls.read_text().split() == [str(shims / f"python{only_shim.name}")]


def test_a_script_that_ends_or_prints_something_else_is_no_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shim(tmp_path / "bin" / "python3.98", "false", tmp_path / "calls")
    shim(tmp_path / "bin" / "python3.99", "echo", tmp_path / "calls")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    names = [image.name for image in find_images()]
    assert names[0] == own_image().name
    assert not {"3.98", "3.99"} & set(names)
    assert len((tmp_path / "calls").read_text().split()) == 2


class _SlowStore:
    # A store that adds nothing until it may.

    def __init__(self) -> None:
        self.may_add = Event()

    def find(self, reference: str) -> None:
        return None

    def add(self, source: object, name: str) -> str:
        self.may_add.wait(60)
        return name


def test_no_sandbox_waits_for_snapshots_that_are_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandrl.runtime.images.derived.DerivedImage", lambda *_: None)
    store: Any = _SlowStore()
    images = Images([own_image()], store)

    async def take_meanwhile() -> list[Any]:
        base = StoreImage("tests/base:1", "sha256:0", ())
        adding = [asyncio.ensure_future(images.derive(base, Path("layer"), f"{number}", "")) for number in range(40)]
        await asyncio.sleep(0.1)
        try:
            await asyncio.wait_for(images.take("host"), 20)
        finally:
            store.may_add.set()
        return await asyncio.gather(*adding)

    assert asyncio.run(take_meanwhile()) == [str(number) for number in range(40)]
