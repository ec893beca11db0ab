"""Every configuration, by its command: help and the generated references read all, and a command only its own."""

from __future__ import annotations

from collections.abc import Mapping

from sandrl.config.art import ArtTrainConfig
from sandrl.config.episodes import RolloutConfig
from sandrl.config.eval import EvalConfig
from sandrl.config.grpo import GrpoConfig
from sandrl.config.model import Config
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
