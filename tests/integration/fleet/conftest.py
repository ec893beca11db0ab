"""One cluster for the tests that leave its nodes alive, and one for each of the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ray_cluster import RayCluster, ray_cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    with ray_cluster(tmp_path_factory.mktemp("cluster"), nodes=3) as cluster:
        yield cluster


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[RayCluster]:
    """A cluster whose nodes a test changes."""
    (tmp_path / "nodes").mkdir()
    with ray_cluster(tmp_path / "nodes", nodes=2) as cluster:
        yield cluster
