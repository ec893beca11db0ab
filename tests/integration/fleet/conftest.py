"""One cluster for the tests that leave its nodes alive."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.ray_cluster import RayCluster, ray_cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    with ray_cluster(tmp_path_factory.mktemp("cluster"), nodes=3) as cluster:
        yield cluster
