"""Packages that are built once for all tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from tools import release

import sandrl
from tests.support import packages


@dataclass(frozen=True)
class Built:
    """What a release consists of.

    Args:
        sdist: The source package.
        wheel: The wheel.
        tracked: The files of the repository.
        repository: A clone in which they are committed.
    """

    sdist: Path
    wheel: Path
    tracked: list[str]
    repository: Path

    @property
    def version(self) -> str:
        return sandrl.__version__

    def package(self, kind: str) -> Path:
        """The `wheel` or the `sdist`."""
        return {"wheel": self.wheel, "sdist": self.sdist}[kind]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    repository = packages.clone(tmp_path_factory.mktemp("repository"))
    sdist, wheel = release.build(repository, "HEAD", tmp_path_factory.mktemp("dist"))
    return Built(sdist, wheel, packages.tracked(), repository)
