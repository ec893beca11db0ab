"""Saves a checkpoint of the Tinker service as a directory that transformers, peft and vLLM load.

Merged weights are a whole model, which every program loads. Adapters are a directory in peft's format, which names the
base model; those of experts are one tensor for each projection, as peft has them for `target_parameters`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandrl import extras
from sandrl.config.art import ArtTrainConfig
from sandrl.config.tinker import Dtype
from sandrl.errors import InputError, UsageError
from sandrl.events import Emit, ignore
from sandrl.files import new_directory
from sandrl.models import libraries
from sandrl.models.places import find_model
from sandrl.runs import RunReader, find_run
from sandrl.runs.resumption import saved_config
from sandrl.settings import Settings
from sandrl.trainers.art.checks import COMMAND
from sandrl.trainers.tinker.embedded import STATE, embedded_model
from sandrl.trainers.tinker.options import SERVICE_EXTRA, NotFoundError

if TYPE_CHECKING:
    from torch import Tensor

    from sandrl.trainers.tinker.weights import Base, Weights

_SCHEME = "tinker://"
_STEP = re.compile(r"step_(\d+)")


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What is exported, and how.

    Attributes:
        source: A run of `sandrl art train --backend embedded`, or the path of a checkpoint (`tinker://RUN/KIND/NAME`).
        step: The step of the run; the last one unless given.
        adapters: Save the LoRA adapters alone, instead of merging them into the weights.
        dtype: The numbers of the weights; unless given those of the base model's files, and 32 bits for adapters.
        state: The directory of the checkpoints of `sandrl tinker serve`; that in the state directory unless given.
    """

    source: str
    step: int | None = None
    adapters: bool = False
    dtype: Dtype | None = None
    state: Path | None = None


@dataclass(frozen=True, slots=True)
class Exported:
    """What was exported.

    Attributes:
        name: The name of the checkpoint.
        base_model: The directory or the name of the model from which the training started.
        content: What the directory has.
    """

    name: str
    base_model: str
    content: str


def export_model(options: ExportOptions, target: Path, settings: Settings, *, emit: Emit = ignore) -> Exported:
    """Saves a checkpoint in a new directory, with the tokenizer of the base model.

    Raises:
        InputError: If there is no such checkpoint or base model, or the directory has files.
        UsageError: If the options do not fit the checkpoint.
        MissingExtraError: If torch, transformers or safetensors are not installed.
    """
    place, base_model, is_offline = _found(options, settings, emit)
    extras.check(("torch", "transformers", "safetensors"), extra=SERVICE_EXTRA)
    from sandrl.trainers.tinker.checkpoints import read_checkpoint
    from sandrl.trainers.tinker.weights import DOWN, UP, read_tensors

    about, content = read_checkpoint(place)
    tensors = read_tensors(content)
    has_adapters = all(name.endswith((DOWN, UP)) for name in tensors)
    if options.adapters and not has_adapters:
        message = f"the checkpoint {place.name} has no adapters: the training was of all weights"
        raise UsageError(message, hint="leave `adapters` out: the export is then a whole model", fields=("adapters",))
    with libraries.kept_quiet(), new_directory(target) as directory:
        if options.adapters:
            _save_adapters(directory, tensors, about.config.rank, base_model, options.dtype or Dtype.FLOAT32)
            tokenizer = libraries.load("transformers").AutoTokenizer
            tokenizer.from_pretrained(base_model, local_files_only=is_offline).save_pretrained(directory)
            return Exported(place.name, base_model, f"LoRA adapters of rank {about.config.rank}")
        from sandrl.trainers.tinker.weights import Base, merged

        base = Base(base_model, is_offline=is_offline)
        _save_merged(directory, base, merged(base, about.config, tensors, everything=not has_adapters), options.dtype)
        return Exported(place.name, base_model, "a whole model, adapters merged" if has_adapters else "a whole model")


def _found(options: ExportOptions, settings: Settings, emit: Emit) -> tuple[Path, str, bool]:
    # The directory of the checkpoint, the base model, and whether that is on this machine.
    if not options.source.startswith(_SCHEME):
        if options.state is not None:
            raise UsageError("state: belongs to a checkpoint, and a run has its own; leave it out", fields=("state",))
        return _found_in_run(options, settings, emit)
    if options.step is not None:
        raise UsageError("step: belongs to a run, and a checkpoint is one step; leave it out", fields=("step",))
    from sandrl.trainers.tinker.checkpoints import checkpoint_place, read_about

    directory = options.state or settings.state_dir / STATE
    hint = "name the directory of the service's checkpoints with `state`"
    try:
        place = checkpoint_place(directory, options.source)
    except NotFoundError as error:
        raise InputError(str(error)) from error
    about = read_about(place)
    if about is None:
        raise InputError(f"there is no checkpoint {options.source}", path=directory, hint=hint)
    found = find_model(about.base_model)
    return place, found.name, found.is_offline


def _found_in_run(options: ExportOptions, settings: Settings, emit: Emit) -> tuple[Path, str, bool]:
    run = find_run(options.source, settings.state_dir, settings.runs_dir)
    # A step that was repeated after a kill is in two directories; the later one counts.
    saved = sorted((run / STATE).glob("*/sampler_weights/step_*"), key=lambda place: place.stat().st_mtime_ns)
    places = {int(found[1]): place for place in saved if (found := _STEP.fullmatch(place.name))}
    if not places:
        hint = "name a run of `sandrl art train --backend embedded` with a step"
        raise InputError("has no model that the embedded Tinker service has trained", path=run, hint=hint)
    step = max(places) if options.step is None else options.step
    if step not in places:
        known = ", ".join(map(str, sorted(places)))
        raise InputError(f"has no checkpoint of step {step}; it has those of {known}", path=run)
    config = saved_config(ArtTrainConfig, RunReader(run), COMMAND)
    model = embedded_model(config, settings, makes=True, emit=emit)
    return places[step], model, config.is_tiny or find_model(model).is_offline


def _save_merged(directory: Path, base: Base, weights: Weights, dtype: Dtype | None) -> None:
    import torch
    from transformers import AutoConfig

    stored = AutoConfig.from_pretrained(base.name, local_files_only=True).dtype or torch.float32
    _untie(base.module, weights)
    base.module.load_state_dict(weights, strict=False)
    base.module.to(getattr(torch, dtype) if dtype else stored).save_pretrained(directory)
    base.tokenizer.save_pretrained(directory)


def _untie(module: Any, weights: Weights) -> None:
    # An adapter of the output layer leaves the embeddings alone, also where both were one tensor.
    import torch

    names = {layer: f"{name}.weight" for name, layer in module.named_modules()}
    source, output = module.get_input_embeddings(), module.get_output_embeddings()
    if source.weight is output.weight and not torch.equal(weights[names[source]], weights[names[output]]):
        for config in (module.config, module.config.get_text_config()):
            config.tie_word_embeddings = False
        output.weight = torch.nn.Parameter(weights[names[output]].clone(), requires_grad=False)


def _save_adapters(directory: Path, tensors: Mapping[str, Tensor], rank: int, base_model: str, dtype: Dtype) -> None:
    import torch
    from safetensors.torch import save_file

    from sandrl.trainers.tinker.weights import ALPHA, DOWN, UP

    names = [name.removesuffix(DOWN) for name in tensors if name.endswith(DOWN)]
    experts = [name for name in names if tensors[f"{name}{DOWN}"].dim() == 3]
    saved: dict[str, Tensor] = {}
    for name in names:
        down, up = tensors[f"{name}{DOWN}"], tensors[f"{name}{UP}"]
        module = name.removesuffix(".weight")
        if name in experts:
            # Adapters of several tensors of one module are wrapped around each other, the first one innermost.
            module = name.rpartition(".")[0]
            others = [each for each in experts if each.rpartition(".")[0] == module]
            module += ".base_layer" * (len(others) - 1 - others.index(name))
            down, up = down.flatten(0, 1), up.permute(1, 2, 0).flatten(1)
        for part, tensor in (("lora_A", down), ("lora_B", up)):
            saved[f"base_model.model.{module}.{part}.weight"] = tensor.to(getattr(torch, dtype)).contiguous()
    save_file(saved, directory / "adapter_model.safetensors", metadata={"format": "pt"})
    modules = [name.removesuffix(".weight") for name in names if name not in experts]
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base_model,
        "r": rank,
        "lora_alpha": int(ALPHA),
        "lora_dropout": 0.0,
        "bias": "none",
        "inference_mode": True,
        "target_modules": modules,
        "target_parameters": experts or None,
    }
    (directory / "adapter_config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
