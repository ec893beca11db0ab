"""The configurations of the commands: one frozen model for each command, made of parts that commands share.

A field is declared once, with its type, bounds, default, help text and flag, so the options of the command line, the
keys of a `--config` file, the output of `--print-config` and the `options` of a run's `config.json` cannot differ.
This package only describes a request; the packages above convert it into their own types, each part in one place
(`ScoreOptions.of`, `SandboxRequest.of`).
"""

from __future__ import annotations

from collections.abc import Mapping

from sandrl.config.art import ArtTrainConfig
from sandrl.config.eval import EvalConfig
from sandrl.config.grpo import GrpoConfig
from sandrl.config.model import Config
from sandrl.config.rollout import RolloutConfig
from sandrl.config.scoring import RedteamConfig, RegradeConfig, RewardConfig, ValidateConfig
from sandrl.config.serve import ServeConfig
from sandrl.config.tinker import TinkerServeConfig

CONFIGS: Mapping[str, type[Config]] = {
    "reward": RewardConfig,
    "redteam": RedteamConfig,
    "problems validate": ValidateConfig,
    "grpo": GrpoConfig,
    "unsloth": GrpoConfig,
    "eval": EvalConfig,
    "art rollout": RolloutConfig,
    "art train": ArtTrainConfig,
    "runs regrade": RegradeConfig,
    "serve": ServeConfig,
    "tinker serve": TinkerServeConfig,
}
"""Every configuration, by its command."""
