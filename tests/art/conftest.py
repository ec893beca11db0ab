"""ART and the Tinker server it trains with: skipped where they are not installed."""

from __future__ import annotations

import importlib.util
import json
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandrl.settings import load_settings
from tests.art.training import WINDOW
from tests.support.tinker_server.process import TinkerServer, running_server

MISSING = [name for name in ("torch", "tinker", "tinker_cookbook") if not importlib.util.find_spec(name)]
# What the tests of the service do without: they also run with later versions of the SDK than ART permits.
WITHOUT_ART = ("test_tinker_", "test_cookbook_")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skips what trains where nothing can."""
    if not MISSING:
        # The SDK has no way to close its connections.
        config.addinivalue_line("filterwarnings", "ignore:unclosed:ResourceWarning")
        # The methods that all its versions have.
        config.addinivalue_line("filterwarnings", "ignore:DEPRECATED:FutureWarning")
    has_art = bool(importlib.util.find_spec("art"))
    for item in items:
        if Path(__file__).parent in item.path.parents:
            missing = MISSING if has_art or item.path.name.startswith(WITHOUT_ART) else [*MISSING, "art"]
            if missing:
                reason = f"not installed: {', '.join(missing)} (make test-art)"
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure() -> None:
    """Lets the connections go that live as long as the process; pytest looks for them once more at its very end."""
    if not MISSING:
        warnings.filterwarnings("ignore", "unclosed", ResourceWarning)


@pytest.fixture(scope="session")
def untrained_policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy of the shape of the tiny one that has learned nothing: made in a second."""
    import torch

    from sandrl.models import libraries
    from sandrl.tiny.policy import TINY_COURSE, make_model
    from sandrl.tiny.recipe import Recipe
    from sandrl.tiny.tokenizer import train_tokenizer

    directory = tmp_path_factory.mktemp("untrained")
    recipe = Recipe()
    with libraries.kept_quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        tokenizer = train_tokenizer(recipe, TINY_COURSE)
        make_model(recipe, tokenizer).save_pretrained(directory)
        tokenizer.save_pretrained(directory)
    return directory


@pytest.fixture(scope="session")
def tinker_server(untrained_policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TinkerServer]:
    """One Tinker server for all tests, which trains LoRA on the untrained policy."""
    record = tmp_path_factory.mktemp("tinker") / "record.jsonl"
    with running_server(untrained_policy, record) as server:
        yield server


@pytest.fixture(scope="session")
def tiny_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TinkerServer]:
    """A Tinker server that trains all weights of the tiny policy, with room for conversations with tools."""
    from sandrl.tiny import tiny_policy

    directory = tmp_path_factory.mktemp("tinker-tiny")
    policy = shutil.copytree(tiny_policy(load_settings().cache_dir), directory / "policy")
    config = json.loads((policy / "config.json").read_text())
    (policy / "config.json").write_text(json.dumps({**config, "max_position_embeddings": WINDOW}))
    with running_server(policy, directory / "record.jsonl", "--full") as server:
        yield server
