"""Every test session starts from a known environment: no credentials of the developer, directories of its own.

`make test` runs the tests in several processes of pytest-xdist, and each of them executes this file: each has its own
state directory, and so its own local runtime. Tests marked `alone` never run beside another test.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandrl.runtime import daemon
from sandrl.settings import load_settings
from tests.support.turns import turn
from tests.support.wheels import Index, use

_SCRUBBED = (
    *("CWSANDBOX_", "AVIATO_", "WANDB_", "HF_", "HUGGING_FACE_", "OPENAI_", "TINKER_", "ART_", "RAY_ADDRESS"),
    *("DOCKER_CONFIG", "REGISTRY_AUTH_FILE"),
    *("SANDRL_", "XDG_"),
)
_KEPT = ("SANDRL_REQUIRE_PROGRAMS", "SANDRL_RUNTIME_ISOLATION", "SANDRL_TEST_")
_DISPLAY = ("FORCE_COLOR", "NO_COLOR", "COLUMNS", "LINES")

_directory = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Changes the process's own environment, so that daemons and commands the tests start inherit it."""
    for name in list(os.environ):
        if name in _DISPLAY or (name.startswith(_SCRUBBED) and not name.startswith(_KEPT)):
            del os.environ[name]
    # Hundreds of processes import sandrl: the others read what the first has compiled.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    # Tests that are started in the background of a shell, or by nohup, ignore these, and so would what they start.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        handler = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
    directory = Path(tempfile.mkdtemp(prefix="sandrl-tests-"))
    config.stash[_directory] = directory
    (directory / "turns").mkdir()
    for name in ("state", "cache", "runs", "config"):
        path = directory / name
        path.mkdir(mode=0o700)
        os.environ[f"SANDRL_{name.upper()}_DIR"] = str(path)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Removes what the session left."""
    shutil.rmtree(config.stash[_directory], ignore_errors=True)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Passes the directory of the locks to each worker of pytest-xdist."""
    node.workerinput["turns"] = str(node.config.stash[_directory] / "turns")


# Outermost: no fixture and no time limit of a test begins while it waits.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Runs a test marked `alone` while the other workers wait."""
    workerinput = getattr(item.config, "workerinput", None)
    if workerinput is None:
        return (yield)
    with turn(Path(workerinput["turns"]), alone=item.get_closest_marker("alone") is not None):
        return (yield)


@pytest.fixture(scope="session")
def index(pytestconfig: pytest.Config) -> Index:
    """The only place from which packages for sandboxes are installed; tests add the wheels that they need."""
    return Index(pytestconfig.stash[_directory] / "wheels")


@pytest.fixture(scope="module", autouse=True)
def _index_is_used(request: pytest.FixtureRequest, index: Index) -> Iterator[None]:
    """Tests that install sandrl itself use the machine's index."""
    with pytest.MonkeyPatch.context() as patch:
        if "package" not in request.path.parent.parts:
            use(patch, index)
        yield


@pytest.fixture(scope="session", autouse=True)
def _runtime_ends_with_the_session() -> Iterator[None]:
    yield
    daemon.stop(load_settings().state_dir)
