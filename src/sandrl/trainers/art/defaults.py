"""Default backend, model and acting policy of a training with ART.

The defaults depend on the machine and its keys, and are resolved to ordinary options. The run stores them, so a resumed
run uses the same values even if the keys have changed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from sandrl.config.art import ArtBackendKind, ArtPolicy, ArtTrainConfig, BackendChoice, choose_backend
from sandrl.config.layers import resolve
from sandrl.config.words import TINY, EpisodeKind, Extraction
from sandrl.models.gpu import gpu_count
from sandrl.settings import Settings

TINY_DEFAULTS: Mapping[str, JsonValue] = {
    "problems": TINY,
    "num_problems": 16,
    "samples": 8,
    "steps": 20,
    "rollout": EpisodeKind.ATTEMPTS.value,
    "max_attempts": 1,
    "extract": Extraction.EXACT.value,
    "max_tokens": 48,
    "learning_rate": 4e-4,
    "lora": False,
}
"""How the tiny policy is trained where nothing else is said."""


def resolve_art(
    file: Mapping[str, Any], given: Mapping[str, Any], settings: Settings
) -> tuple[ArtTrainConfig, BackendChoice]:
    """Puts the layers of a new training's configuration together.

    Args:
        file: What the file of `--config` says.
        given: What the command line says; it beats the file.
        settings: What the environment says.

    Returns:
        The configuration, whose backend is never `auto`, and why it has that backend.

    Raises:
        UsageError: If a key is unknown or a value is impossible.
    """
    said = {**file, **given}
    choice = choice_of(str(said.get("backend", ArtBackendKind.AUTO.value)), settings)
    defaults: dict[str, JsonValue] = {}
    if choice.kind is ArtBackendKind.EMBEDDED:
        defaults["base_model"] = TINY
        if said.get("base_model", TINY) == TINY:
            defaults |= TINY_DEFAULTS
    if not _has_teacher(said, choice, settings):
        defaults["policy"] = ArtPolicy.TRAINED.value
    # Of a word that is no backend, the configuration says so.
    chosen = {"backend": choice.kind.value} if said.get("backend", "auto") in set(ArtBackendKind) else {}
    return resolve(ArtTrainConfig, defaults, file, given, chosen), choice


def choice_of(backend: str, settings: Settings) -> BackendChoice:
    """The backend that a word stands for here."""
    requested = ArtBackendKind(backend) if backend in set(ArtBackendKind) else ArtBackendKind.AUTO
    return choose_backend(requested, settings, can_train_here=can_train_here())


def can_train_here() -> bool:
    """Whether this machine has a GPU, and the packages of the extra `art-local`."""
    return all(importlib.util.find_spec(name) for name in ("art", "unsloth")) and gpu_count() > 0


def _has_teacher(said: Mapping[str, Any], choice: BackendChoice, settings: Settings) -> bool:
    """Whether there is somebody to learn from, and nothing says that the model is to act itself."""
    if said.get("trajectories") is not None:
        # Recorded episodes are scored anew, whoever played them.
        return True
    if said.get("model") is not None or said.get("base_url") is not None:
        return True
    if choice.kind is ArtBackendKind.EMBEDDED:
        return False
    return settings.openai_api_key is not None or settings.openai_base_url is not None
