"""Resolves the value of `--model`: a directory with a model, or a model of the hub.

If the hub does not answer, its client retries for half a minute. A short probe therefore checks the hub first; if the
probe fails, the client reads only its cache.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandrl.errors import InputError, SandrlError, ServiceError
from sandrl.models import libraries
from sandrl.problems.hub import hub_answers

_REPOSITORY = re.compile(r"[\w-][\w.-]*(/[\w.-]+)?")
_CONFIG = "config.json"
ADAPTER = "adapter_config.json"
"""The file that describes adapters in their directory."""

_WHAT_WORKS = "use `tiny`, a directory with a model, or a model of the hub (owner/name)"


@dataclass(frozen=True, slots=True)
class ModelPlace:
    """Where a model is. `is_offline`: the hub is not asked, because nothing of it is needed or it does not answer."""

    name: str
    is_directory: bool
    is_offline: bool

    @contextmanager
    def kept_offline(self) -> Iterator[None]:
        """If the hub does not answer, keeps libraries from sending requests to it for minutes."""
        constants: Any = libraries.load("huggingface_hub.constants")
        before = constants.HF_HUB_OFFLINE
        # A directory needs nothing of the hub; whatever else is wanted of it is none of our business.
        constants.HF_HUB_OFFLINE = before or (self.is_offline and not self.is_directory)
        try:
            yield
        finally:
            constants.HF_HUB_OFFLINE = before

    def explain(self, error: BaseException) -> SandrlError:
        reason = libraries.first_line(error)
        if self.is_directory:
            return InputError(f"the model cannot be loaded: {reason}", path=self.name)
        constants = libraries.load("huggingface_hub.constants")
        if self.is_offline:
            place = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else f"{constants.ENDPOINT} does not answer"
            message = f"{place}, and {self.name} is not in {constants.HF_HUB_CACHE}"
            return ServiceError(message, hint="give a directory with a model, or set HF_HOME to a cache that has it")
        missing = libraries.load("huggingface_hub.errors").RepositoryNotFoundError
        if isinstance(error.__cause__, missing):
            return InputError(f"the hub has no model {self.name!r}, or none for these credentials", hint=_WHAT_WORKS)
        return ServiceError(f"{self.name} could not be loaded from {constants.ENDPOINT}: {reason}")


def find_model(name: str) -> ModelPlace:
    """Finds out where a model is; `InputError` if it is nowhere."""
    path = Path(name).expanduser()
    if path.is_dir():
        if not (path / _CONFIG).is_file() and not (path / ADAPTER).is_file():
            raise InputError(f"does not contain a model: it has neither {_CONFIG} nor {ADAPTER}", path=name)
        # An adapter names its base, which may be on the hub.
        return ModelPlace(str(path), is_directory=True, is_offline=(path / _CONFIG).is_file() or not _hub_answers())
    if path.exists():
        raise InputError("is not a directory with a model", path=name, hint=_WHAT_WORKS)
    if not _REPOSITORY.fullmatch(name):
        raise InputError(f"there is no model {name!r}", hint=_WHAT_WORKS)
    return ModelPlace(name, is_directory=False, is_offline=not _hub_answers())


def _hub_answers() -> bool:
    constants = libraries.load("huggingface_hub.constants")
    return not constants.HF_HUB_OFFLINE and hub_answers(constants.ENDPOINT)
