"""Loads a policy with Unsloth: 4 bits and adapters on a GPU, full precision and adapters on a processor.

TRL's trainer still trains. Unsloth changes TRL, transformers and peft when it is imported, so it is imported before
them. Its actual changes are read from the trainer afterwards, because they depend on the machine, the model and the
release.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic import JsonValue

from sandrl import extras
from sandrl.config.grpo import GrpoConfig
from sandrl.config.words import OWN_TEMPLATE
from sandrl.errors import HardwareError, MissingExtraError, UsageError
from sandrl.events import Emit, Warned, ignore
from sandrl.installation import install_command, package_command
from sandrl.models import libraries
from sandrl.models.description import ModelDescription
from sandrl.settings import Settings
from sandrl.trainers.loaders import LORA_MODULES, LoadedPolicy, Loader

_CHECKPOINTING = "unsloth"
_PROMPT_TOKENS = 1536


class UnslothLoader(Loader):
    command: ClassVar[str] = "unsloth"
    extra: ClassVar[str] = "unsloth"
    # First, so that it is the one that is missed.
    packages: ClassVar[tuple[str, ...]] = ("unsloth", "unsloth_zoo", *libraries.PACKAGES)
    workflow_tag: ClassVar[str] = "unsloth-grpo"
    model: ClassVar[str] = "unsloth/Qwen2.5-0.5B-Instruct-bnb-4bit"

    def defaults(self, *, is_tiny: bool) -> Mapping[str, JsonValue]:
        # The learning rate of Unsloth's own GRPO notebooks.
        return {"lora": True} if is_tiny else {"lora": True, "learning_rate": 5e-6}

    def prepare(self, settings: Settings, *, emit: Emit = ignore) -> None:
        """Imports Unsloth.

        Raises:
            HardwareError: If this release of Unsloth needs a GPU, and there is none.
            MissingExtraError: If a package that it needs is not installed.
            UsageError: If it cannot be imported.
        """
        # Else it would write its compiled code into the current directory, and fetch a file that counts its users.
        os.environ.setdefault("UNSLOTH_COMPILE_LOCATION", str(settings.cache_dir / "unsloth"))
        os.environ.setdefault("UNSLOTH_DISABLE_STATISTICS", "1")
        on_gpu = libraries.has_gpu()
        try:
            with _silence():
                extras.require("unsloth", extra=self.extra)
        except MissingExtraError:
            raise
        except (ImportError, RuntimeError) as error:
            if isinstance(error, NotImplementedError) and not on_gpu:
                hint = f"release 2026.10.9 trains without a GPU: {package_command('unsloth>=2026.10.9')}"
                raise HardwareError(
                    "this release of Unsloth needs a GPU, and torch detects no GPU", hint=hint
                ) from error
            message = f"Unsloth cannot be loaded: {libraries.first_line(error)}"
            raise UsageError(message, hint=install_command(self.extra)) from error
        if not on_gpu:
            emit(Warned("no GPU: training on Unsloth's CPU backend, in full precision instead of 4 bits"))

    def policy(self, description: ModelDescription, config: GrpoConfig) -> LoadedPolicy:
        try:
            return _load(description, config, on_gpu=libraries.has_gpu())
        except RuntimeError as error:
            message = f"Unsloth cannot load {description.name}: {libraries.first_line(error)}"
            raise UsageError(message) from error

    def optimizations(self, trainer: Any) -> tuple[str, ...]:
        model = trainer.accelerator.unwrap_model(trainer.model)
        return tuple(_of_weights(model) + _of_memory(model) + _of_code(model, trainer))


UNSLOTH = UnslothLoader()


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    # What is said while Unsloth is imported; loggers made meanwhile stay quiet.
    # Never closed: loggers keep the stream.
    streams = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
    with streams[0], streams[1], libraries.without_warnings():
        yield


def _load(description: ModelDescription, config: GrpoConfig, *, on_gpu: bool) -> LoadedPolicy:
    fast = extras.require("unsloth", extra=UNSLOTH.extra).FastLanguageModel
    loaded, tokenizer = fast.from_pretrained(
        model_name=description.place.name,
        max_seq_length=_longest(description, config),
        # Unsloth would choose 16 bits on some processors; on a GPU it knows best.
        dtype=None if on_gpu else libraries.load("torch").float32,
        load_in_4bit=on_gpu and config.lora,
        full_finetuning=not config.lora,
        fast_inference=config.vllm == "colocate",
        max_lora_rank=config.lora_rank,
        **_engine_memory(config),
        use_gradient_checkpointing=_CHECKPOINTING,
    )
    # Unsloth loads the adapters of a checkpoint with their base, ready to be trained.
    if config.lora and description.adapters is None:
        loaded = fast.get_peft_model(
            loaded,
            r=config.lora_rank,
            target_modules=list(LORA_MODULES),
            lora_alpha=2 * config.lora_rank,
            lora_dropout=0.0,
            bias="none",
            use_gradient_checkpointing=_CHECKPOINTING,
            random_state=config.seed,
        )
    if description.template.name != OWN_TEMPLATE:
        description.template.give_to(tokenizer, has_tools=config.rollout == "tools")
    return LoadedPolicy(loaded, tokenizer)


def _engine_memory(config: GrpoConfig) -> dict[str, Any]:
    # Unsloth's vLLM is made with the model and not from TRL's fields.
    share = config.set.get("vllm_gpu_memory_utilization")
    return {} if share is None else {"gpu_memory_utilization": share}


def _longest(description: ModelDescription, config: GrpoConfig) -> int:
    # No more tokens than the model has positions for, or Unsloth would stretch these.
    wanted = _PROMPT_TOKENS + config.max_tokens
    return wanted if description.positions is None else min(wanted, description.positions)


def _of_weights(model: Any) -> list[str]:
    parameters = list(model.parameters())
    trained = sum(each.numel() for each in parameters if each.requires_grad)
    found = []
    in_4_bits = sum(type(module).__name__ == "Linear4bit" for module in model.modules())
    if in_4_bits:
        found.append(f"{in_4_bits} linear layers in 4 bits")
    for adapters in getattr(model, "peft_config", {}).values():
        modules = ", ".join(sorted(adapters.target_modules))
        found.append(f"LoRA of rank {adapters.r} in {modules}: {trained:,} weights trained")
    return found


def _of_memory(model: Any) -> list[str]:
    modules = list(model.modules())
    if any(getattr(module, "_offloaded_gradient_checkpointing", False) for module in modules):
        return ["gradient checkpointing by Unsloth: activations are offloaded"]
    if any(getattr(module, "gradient_checkpointing", False) for module in modules):
        return ["gradient checkpointing: activations are recomputed"]
    return []


def _of_code(model: Any, trainer: Any) -> list[str]:
    # Code of Unsloth's that runs instead of the libraries' own.
    found = []
    replaced = Counter(type(module).__name__ for module in model.modules() if _is_unsloths(module.forward))
    if replaced:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(replaced.items()))
        found.append(f"forward passes by Unsloth: {kinds}")
    if any(_is_unsloths(kind) for kind in type(trainer).__mro__):
        found.append("training loop compiled by Unsloth")
    return found


def _is_unsloths(thing: Any) -> bool:
    # What it compiles lies in modules called after it, too: unsloth_compiled_module_qwen2, UnslothGRPOTrainer.
    return getattr(thing, "__module__", "").lower().startswith("unsloth")
