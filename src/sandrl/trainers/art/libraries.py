"""Imports ART and its dependencies on use, without their side effects.

On import, ART reads a `.env` file into the environment, requests prices from the network and logs to the terminal. All
of this is disabled here, before the import.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

from sandrl import extras
from sandrl.errors import MissingExtraError
from sandrl.installation import install_command
from sandrl.models.libraries import without_warnings

VERSION = "0.5.23" if sys.version_info >= (3, 12) else "0.5.18"
"""The release whose insides are relied on: the current one, and the last one for Python 3.11."""

_ENVIRONMENT = {
    # Whoever wants what is in a file has it in the environment before sandrl reads that, or not at all.
    "PYTHON_DOTENV_DISABLED": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    # Tinker's SDK would report every error to the service, and keep whoever met it waiting for that.
    "TINKER_TELEMETRY": "0",
    "TRANSFORMERS_VERBOSITY": "error",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    # Its own server answers within seconds, or there is something wrong with it.
    "ART_SERVER_TIMEOUT": "60",
}
# What shows that an extra is installed.
_MODULES = {"art-tinker": ("art", "tinker"), "art-local": ("art", "unsloth"), "art-serverless": ("art",)}
_HERE = "127.0.0.1,localhost"
_LOGGERS = ("art", "tinker", "LiteLLM", "weave", "httpx", "openai", "transformers", "uvicorn", "asyncio")


def load(module: str, *, extra: str) -> ModuleType:
    """Imports ART, one of its parts, or something that comes with it.

    Raises:
        MissingExtraError: If it is not installed, or is another release.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    for name in ("NO_PROXY", "no_proxy"):
        # No proxy leads to a server on this machine, and none is to see the token of one.
        known = os.environ.get(name, "")
        if _HERE not in known:
            os.environ[name] = f"{known},{_HERE}" if known else _HERE
    check_installed(extra)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = extras.require(module, extra=extra)
    hear_signals()
    return found


def hear_signals() -> None:
    """Has signals interrupt waits again, which Polars, imported by ART, lets resume instead."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            handler = signal.getsignal(number)
            if handler is not None:
                signal.signal(number, handler)


@cache
def check_installed(extra: str) -> None:
    """Makes sure that ART is there, in the release that is known, without importing it.

    Raises:
        MissingExtraError: If it is not.
    """
    extras.check(_MODULES[extra], extra=extra)
    try:
        found = version("openpipe-art")
    except PackageNotFoundError as error:
        raise MissingExtraError("the package 'art' is not OpenPipe's", hint=install_command(extra)) from error
    if found != VERSION:
        raise MissingExtraError(
            f"openpipe-art {found} is installed, but sandrl needs {VERSION}", hint=install_command(extra)
        )


def model_names(name: str) -> dict[str, str]:
    """What ART's model of a name is made with: later releases name its lineage, too."""
    return {"name": name, "run_name": name} if VERSION > "0.5.18" else {"name": name}


def kept_quiet() -> AbstractContextManager[None]:
    """Silences ART's loggers and warnings for the length of a `with` block; imports nothing."""
    return without_warnings(_LOGGERS)


@contextmanager
def environment(**values: str | None) -> Iterator[None]:
    """Sets variables for a `with` block, or removes those that are None: what libraries take from there only."""
    before = {name: os.environ.get(name) for name in values}
    _set(values.items())
    try:
        yield
    finally:
        _set(before.items())


def _set(values: Iterable[tuple[str, str | None]]) -> None:
    for name, value in values:
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
