"""A scripted registry with one image."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from sandrl.runtime.images import failures
from tests.support.registries import (
    Image,
    ScriptedRegistry,
    make_image,
    scripted_registry,
)

TEXT = random.Random(7).randbytes(1 << 20)


@pytest.fixture(autouse=True)
def _tries_follow_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "_LONGEST_DELAY_SECONDS", 0.01)


@pytest.fixture(scope="module")
def image() -> Image:
    return make_image({"etc/a": b"a" * 1000}, {"etc/b": TEXT})


@pytest.fixture
def registry(image: Image) -> Iterator[ScriptedRegistry]:
    with scripted_registry() as registry:
        registry.add(image)
        yield registry


@pytest.fixture
def unused_host() -> str:
    with scripted_registry() as registry:
        return registry.host
