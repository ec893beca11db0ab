"""Converts a command's options to a training request, and to the plan that `--dry-run` prints.

The default backend, model and acting policy depend on the machine and its keys, and are resolved to ordinary options.
The run stores them, so a resumed run uses the same values even if the keys have changed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from sandrl.config.art import (
    MAY_CHANGE,
    SERVERLESS_MODEL,
    ArtBackendKind,
    ArtPolicy,
    ArtTrainConfig,
    BackendChoice,
    choose_backend,
)
from sandrl.config.layers import resolve
from sandrl.config.words import TINY, EpisodeKind, Extraction
from sandrl.models.libraries import gpu_count
from sandrl.problems.schedule import Part
from sandrl.rewards.estimate import SandboxEstimate
from sandrl.rollouts.run import estimate_episodes, in_turn
from sandrl.runs import find_run
from sandrl.settings import Settings
from sandrl.trainers.art.checks import COMMAND, ArtRequest, check
from sandrl.trainers.art.results import steps_made
from sandrl.trainers.config import resumed

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


@dataclass(frozen=True, slots=True)
class ArtPlan:
    """What a training would do, with notes for the user.

    Attributes:
        first_step: How many steps the model has had.
        recorded_steps: How many steps of recorded episodes there are; 0 if episodes are run.
        estimate: What it would take in sandboxes; None if no episodes are run.
        parts: The problems' names by source.
    """

    config: ArtTrainConfig
    notes: tuple[str, ...]
    problems: int
    first_step: int
    recorded_steps: int
    episodes: int
    estimate: SandboxEstimate | None
    parts: tuple[Part, ...] = ()


def make_request(
    given: Mapping[str, JsonValue],
    settings: Settings,
    *,
    file: Mapping[str, JsonValue] | None = None,
    resume: str | None = None,
) -> ArtRequest:
    """Makes a request of the options of the command line and of the file of `--config`.

    Raises:
        UsageError: If something does not fit, or the configuration of a resumed run would change.
    """
    content = file or {}
    if resume is None:
        config, choice = resolve_art(content, given, settings)
        return ArtRequest(_found(config, settings), why=choice.reason)
    said = {**content, **given}
    run, _, wanted = resumed(
        ArtTrainConfig,
        resume,
        given,
        settings,
        command=COMMAND,
        file=content,
        # The words `auto` and `tinker` stand for what they would stand for in a new run.
        chosen={"backend": _choice_of(str(said["backend"]), settings).kind} if "backend" in said else {},
        complete=lambda config: _found(config, settings),
        may_change=MAY_CHANGE,
    )
    return ArtRequest(wanted, resume=run, why="the run was started with it")


def _found(config: ArtTrainConfig, settings: Settings) -> ArtTrainConfig:
    # The run with the episodes as the run keeps it: whoever resumes this one may be in another directory.
    if config.trajectories is None:
        return config
    recorded = find_run(config.trajectories, settings.state_dir, settings.runs_dir)
    return config.model_copy(update={"trajectories": str(recorded.absolute())})


def resolve_art(
    file: Mapping[str, Any], given: Mapping[str, Any], settings: Settings
) -> tuple[ArtTrainConfig, BackendChoice]:
    """The configuration of a new training, whose backend is never `auto`, and why it has that backend.

    Raises:
        UsageError: If a key is unknown or a value is impossible.
    """
    said = {**file, **given}
    choice = _choice_of(str(said.get("backend", ArtBackendKind.AUTO.value)), settings)
    defaults: dict[str, JsonValue] = {}
    if choice.kind is ArtBackendKind.EMBEDDED:
        defaults["base_model"] = TINY
        if said.get("base_model", TINY) == TINY:
            defaults |= TINY_DEFAULTS
    if choice.kind is ArtBackendKind.SERVERLESS:
        defaults["base_model"] = SERVERLESS_MODEL
    if not _has_teacher(said, choice, settings):
        defaults["policy"] = ArtPolicy.TRAINED.value
    # Of a word that is no backend, the configuration says so.
    chosen = {"backend": choice.kind.value} if said.get("backend", "auto") in set(ArtBackendKind) else {}
    return resolve(ArtTrainConfig, defaults, file, given, chosen), choice


def _choice_of(backend: str, settings: Settings) -> BackendChoice:
    requested = ArtBackendKind(backend) if backend in set(ArtBackendKind) else ArtBackendKind.AUTO
    return choose_backend(requested, settings, can_train_here=can_train_here())


def can_train_here() -> bool:
    """Whether this machine has a GPU, and the packages of the extra `art-local`."""
    return all(importlib.util.find_spec(name) for name in ("art", "unsloth")) and gpu_count() > 0


def _has_teacher(said: Mapping[str, Any], choice: BackendChoice, settings: Settings) -> bool:
    # Whether there is somebody to learn from, and nothing says that the model is to act itself.
    if choice.kind is ArtBackendKind.SERVERLESS:
        # It scores nothing, so nobody can be learned from; a teacher that is named is refused.
        return said.get("model") is not None or said.get("base_url") is not None
    if said.get("trajectories") is not None:
        # Recorded episodes are scored anew, whoever ran them.
        return True
    if said.get("model") is not None or said.get("base_url") is not None:
        return True
    if choice.kind is ArtBackendKind.EMBEDDED:
        return False
    return settings.openai_api_key is not None or settings.openai_base_url is not None


def plan_of(request: ArtRequest, settings: Settings) -> ArtPlan:
    """Checks everything short of spending, and says what would be done.

    Raises:
        UsageError: If options, problems, extras or hardware do not fit.
        ServiceError: If a service does not answer, or refuses.
    """
    config = request.config
    checked = check(request, settings, spends=False)
    first_step = 0 if request.resume is None else steps_made(request.resume)
    estimate, episodes = None, 0
    if not checked.recorded:
        # If every step trains at its first attempt.
        episodes = max(config.steps - first_step, 0) * config.episodes_per_step
        counts = in_turn(checked.problems, episodes)
        estimate = estimate_episodes(
            config, settings, command=COMMAND, counts=counts, run=request.resume, quality=checked.quality
        )
    return ArtPlan(
        config,
        checked.notes,
        problems=len(checked.problems),
        first_step=first_step,
        recorded_steps=len(checked.recorded),
        episodes=episodes,
        estimate=estimate,
        parts=checked.parts,
    )
