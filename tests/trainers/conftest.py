"""Training for real: skipped where the extra is not installed, and never together with another training."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandrl.runtime import daemon
from sandrl.settings import load_settings

MISSING = [name for name in ("torch", "trl", "transformers", "datasets", "peft") if not importlib.util.find_spec(name)]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips what trains where nothing can."""
    if MISSING:
        reason = f"not installed: {', '.join(MISSING)} (make test-grpo)"
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session", autouse=True)
def _runtime_ends_with_the_session() -> Iterator[None]:
    yield
    daemon.stop(load_settings().state_dir)


@pytest.fixture(scope="session")
def tiny_directory() -> Path:
    """Where the tiny policy with seed 0 lies; commands that the tests start find the same one."""
    from sandrl.trainers.tiny import tiny_policy

    return tiny_policy(load_settings().cache_dir)
