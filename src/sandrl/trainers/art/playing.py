"""Selects the policy for `sandrl art rollout` if no endpoint is given: the tiny policy, in this process.

An endpoint that an option or a variable names is always used. Only the default address is replaced by the tiny policy,
if no server listens there.
"""

from __future__ import annotations

import importlib.util
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pydantic import JsonValue

from sandrl.addresses import VLLM_BASE_URL
from sandrl.config.episodes import RolloutConfig
from sandrl.config.layers import resolve
from sandrl.config.words import TINY, EpisodeKind, Extraction
from sandrl.errors import UsageError
from sandrl.events import Emit, ModelChosen, ignore
from sandrl.models import Sampling
from sandrl.models.in_process import GatheringModel, InProcessModel
from sandrl.rollouts.results import RolloutRun
from sandrl.rollouts.run import run_rollouts
from sandrl.sandboxes import Interrupt
from sandrl.settings import Settings
from sandrl.tiny import tiny_policy

TINY_DEFAULTS: Mapping[str, JsonValue] = {
    "model": TINY,
    "problems": TINY,
    "extract": Extraction.EXACT.value,
    "max_tokens": 48,
}
"""How the tiny policy plays where nothing else is said."""

_NEEDED = ("torch", "transformers")
_PROBE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class RolloutRequest:
    """Episodes to run; `why` the tiny policy runs them in this process is a few words, empty with an endpoint."""

    config: RolloutConfig
    why: str = ""


def make_request(file: Mapping[str, Any], given: Mapping[str, Any], settings: Settings) -> RolloutRequest:
    """Makes a request of the file of `--config` and the command line, which beats the file.

    Raises:
        UsageError: If something does not fit.
    """
    why = _why_tiny({**file, **given}, settings)
    if not why:
        return RolloutRequest(resolve(RolloutConfig, file, given))
    config = resolve(RolloutConfig, TINY_DEFAULTS, file, given)
    if config.rollout is EpisodeKind.TOOLS:
        message = "rollout: the tiny policy supports only `attempts` in this process; tools need an endpoint"
        raise UsageError(message, hint="give an endpoint with base_url", fields=("rollout", "base_url"))
    return RolloutRequest(config, why)


def _why_tiny(said: Mapping[str, Any], settings: Settings) -> str:
    if said.get("base_url") or said.get("use_openai") or settings.openai_base_url is not None:
        return ""
    if said.get("model") == TINY:
        return "requested"
    if said.get("model") is not None or not all(importlib.util.find_spec(name) for name in _NEEDED):
        return ""
    address = urlsplit(VLLM_BASE_URL)
    try:
        socket.create_connection((str(address.hostname), address.port or 80), _PROBE_SECONDS).close()
    except OSError:
        return f"no server answers at {VLLM_BASE_URL}"
    return ""


def play_rollouts(
    request: RolloutRequest, settings: Settings, *, emit: Emit = ignore, interrupt: Interrupt | None = None
) -> RolloutRun:
    if not request.why:
        return run_rollouts(request.config, settings, emit=emit, interrupt=interrupt)
    emit(ModelChosen(TINY, "in this process", request.why))
    return run_rollouts(request.config, settings, make=_tiny, emit=emit, interrupt=interrupt)


def _tiny(config: RolloutConfig, settings: Settings, stop: threading.Event, emit: Emit) -> GatheringModel:
    place = str(tiny_policy(settings.cache_dir, emit=emit))
    model = InProcessModel(place, Sampling.of(config), name=TINY, stop=stop, tells_logprobs=True)
    return GatheringModel(model, seed=0, stop=stop)
