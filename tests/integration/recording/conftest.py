from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.recordings import Internet


@pytest.fixture
def internet() -> Iterator[Internet]:
    made = Internet()
    yield made
    made.close()
