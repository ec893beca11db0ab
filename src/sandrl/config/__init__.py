"""What a command can be told: one frozen model for each command, made of parts that commands share.

The design decision: a field is written once, with its type, its bounds, its default, its words and its flag. The
options of the command line, the keys of a `--config` file, the output of `--print-config` and the `options` of a run's
`config.json` are views of the fields. This package only describes what was asked for; the packages above turn it into
what they work with, each part in one place (`ScoreOptions.of`, `SandboxRequest.of`).
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
