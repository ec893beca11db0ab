"""The training engine of a command: TRL alone, or TRL with a model loaded by Unsloth.

There is one runner. An engine contains the differences between the commands: required packages, loading of the policy,
defaults, and the name of a run. The base class is TRL alone; another engine overrides what differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from sandrl import extras
from sandrl.config.grpo import GrpoConfig
from sandrl.events import Emit, ignore
from sandrl.models import libraries
from sandrl.settings import Settings
from sandrl.trainers.adapters import find_adapters, load_adapters
from sandrl.trainers.config import REAL_MODEL, Option

LORA_MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""All seven projections of a layer (arXiv:2106.09685 trains two; the others help, and cost little)."""


@dataclass(frozen=True, slots=True)
class LoadedPolicy:
    """What the trainer is given to train.

    Attributes:
        model: A model, or where the trainer loads one from.
        tokenizer: Its tokenizer; None if the trainer loads it with the model.
        peft_config: The adapters that the trainer adds; None if it adds none.
    """

    model: Any
    tokenizer: Any = None
    peft_config: Any = None


class Engine:
    """TRL by itself.

    Attributes:
        command: The command that trains with it; what its runs are called.
        extra: The extra of sandrl that brings it.
        packages: What must be installed.
        workflow_tag: Tag of its sandboxes.
        model: What it trains where there is a GPU and no model is named.
    """

    command: ClassVar[str] = "grpo"
    extra: ClassVar[str] = "grpo"
    packages: ClassVar[tuple[str, ...]] = libraries.PACKAGES
    workflow_tag: ClassVar[str] = "trl-grpo"
    model: ClassVar[str] = REAL_MODEL

    def check_installed(self) -> None:
        """Makes sure that everything is there, without loading any of it.

        Raises:
            MissingExtraError: If a package is not installed.
        """
        extras.check(self.packages, extra=self.extra)

    def versions(self) -> dict[str, str]:
        """The versions of its packages."""
        return libraries.versions(self.packages)

    def defaults(self, *, is_tiny: bool) -> Mapping[str, Option]:
        """What it trains with where nothing else is said, beyond what all engines do.

        Args:
            is_tiny: Whether the policy is the one that is built on the spot.
        """
        return {}

    def prepare(self, settings: Settings, *, emit: Emit = ignore) -> None:
        """Does what must be done before TRL, transformers or peft are imported.

        Args:
            settings: What the environment says.
            emit: Told what the user should know about it.
        """

    def policy(self, model: str, config: GrpoConfig) -> LoadedPolicy:
        """Loads what is trained.

        Args:
            model: A model id of the hub, or the directory of a model or of adapters.
            config: How to train.
        """
        found = find_adapters(model)
        if found is not None:
            return LoadedPolicy(load_adapters(found, config))
        if not config.lora:
            return LoadedPolicy(model)
        adapters = libraries.load("peft").LoraConfig(
            r=config.lora_rank,
            lora_alpha=2 * config.lora_rank,
            target_modules=list(LORA_MODULES),
            task_type="CAUSAL_LM",
        )
        return LoadedPolicy(model, peft_config=adapters)

    def optimizations(self, trainer: Any) -> tuple[str, ...]:
        """What the engine has changed about a trainer and its model, as found in them."""
        return ()


TRL = Engine()
