"""Which libraries a program of another language finds: those of its image, but not those of the judge's Python."""

from __future__ import annotations

import posix
from types import SimpleNamespace
from typing import Any

import pytest

from sandrl.judge.guest import programs
from sandrl.runtime.guest import rootfs
from sandrl.runtime.host.images import Image
from sandrl.runtime.libraries import PREFIX_LIBRARIES


def searched(monkeypatch: pytest.MonkeyPatch, value: str) -> str | None:
    monkeypatch.setattr(posix, "environ", {b"LD_LIBRARY_PATH": value.encode()})
    place: Any = SimpleNamespace(home="/home")
    return programs.environment_of({"environment": {}}, place).get("LD_LIBRARY_PATH")


def test_the_directories_of_a_local_image_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [PREFIX_LIBRARIES, rootfs.LIBRARIES, f"{rootfs.LIBRARIES}:{PREFIX_LIBRARIES}"]
    of_image = Image("3.11", "/usr", "/usr/bin/python3.11", (("libpython3.11.so", "/a/libpython3.11.so"),)).environment
    assert of_image["LD_LIBRARY_PATH"] in values
    assert [searched(monkeypatch, value) for value in values] == [None] * 3


@pytest.mark.parametrize("value", ["/usr/local/nvidia/lib:/usr/local/lib", "/usr/local/lib:/opt/lib", "/opt/lib"])
def test_the_directories_of_another_image_stay(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    assert searched(monkeypatch, value) == value
