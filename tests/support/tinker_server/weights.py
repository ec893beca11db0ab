"""What is trained: LoRA on the linear layers, or all weights.

The design decision: nothing is built into the model. Trained tensors are turned into a full set of weights, with
gradients flowing back, and the one model that was loaded computes with that set (`torch.func.functional_call`). So one
copy of the model serves every client, and a sampler is nothing but a set of weights.

LoRA is that of Hu et al. (arXiv:2106.09685) as the Tinker service trains it: W + α / rank · B · A with α = 32
(`tinker_cookbook/weights/README.md`), A random and B zero at first, no dropout.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from tinker.types import LoraConfig
from torch import Tensor
from torch.func import functional_call
from transformers import AutoModelForCausalLM, AutoTokenizer

ALPHA = 32.0

Weights = Mapping[str, Tensor]
"""One tensor for every name of a parameter; tied parameters have two names."""


class Base:
    """The language model that everything starts from; its weights never change.

    Args:
        directory: What `save_pretrained` of transformers wrote, tokenizer included.
    """

    def __init__(self, directory: Path) -> None:
        self.name = str(directory)
        self.module: Any = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
        self.module.eval().requires_grad_(False)
        self.tokenizer: Any = AutoTokenizer.from_pretrained(directory)
        self.weights: Weights = dict(self.module.named_parameters(remove_duplicate=False))
        self.vocabulary = int(self.module.get_output_embeddings().weight.shape[0])
        self.positions = int(self.module.config.max_position_embeddings)
        ends = self.module.generation_config.eos_token_id
        self.ends = frozenset(ends if isinstance(ends, list) else [] if ends is None else [ends])

    def __call__(self, weights: Weights, **inputs: Any) -> Any:
        """What the model says with other weights in the place of its own."""
        return functional_call(self.module, dict(weights), kwargs=inputs, tie_weights=False)

    def linear_layers(self, config: LoraConfig) -> list[str]:
        """The names of the weights that a request for LoRA means."""
        output = self.module.get_output_embeddings()
        names = []
        for name, layer in self.module.named_modules():
            if isinstance(layer, torch.nn.Linear):
                if layer is output:
                    wanted = config.train_unembed
                else:
                    wanted = config.train_attn if "attn" in name or "attention" in name else config.train_mlp
                if wanted:
                    names.append(f"{name}.weight")
        return names


class Trained(Protocol):
    """Tensors that an optimizer changes.

    Attributes:
        tensors: Them, by name.
    """

    tensors: dict[str, Tensor]

    def weights(self) -> Weights:
        """The whole model's weights with them."""


class Lora:
    """Adapters of one rank on the linear layers."""

    def __init__(self, base: Base, config: LoraConfig) -> None:
        self._base = base
        self._layers = base.linear_layers(config)
        self._scale = ALPHA / config.rank
        chance = torch.Generator()
        chance.seed() if config.seed is None else chance.manual_seed(config.seed)
        self.tensors: dict[str, Tensor] = {}
        for name in self._layers:
            rows, columns = base.weights[name].shape
            down = torch.empty(config.rank, columns)
            torch.nn.init.kaiming_uniform_(down, a=math.sqrt(5), generator=chance)
            self.tensors[f"{name}.A"] = down.requires_grad_()
            self.tensors[f"{name}.B"] = torch.zeros(rows, config.rank, requires_grad=True)

    def weights(self) -> Weights:
        """The base weights, the adapters added to those that have one."""
        weights = dict(self._base.weights)
        for name in self._layers:
            weights[name] = weights[name] + self._scale * self.tensors[f"{name}.B"] @ self.tensors[f"{name}.A"]
        return weights


class Everything:
    """A copy of all weights; what the request says of LoRA is left aside."""

    def __init__(self, base: Base) -> None:
        self._first: dict[str, str] = {}
        names: dict[int, str] = {}
        for name, tensor in base.weights.items():
            self._first[name] = names.setdefault(id(tensor), name)
        self.tensors = {name: base.weights[name].clone().requires_grad_() for name in names.values()}

    def weights(self) -> Weights:
        """The copy; tied weights stay tied."""
        return {name: self.tensors[first] for name, first in self._first.items()}


def digest(tensors: Mapping[str, Tensor]) -> str:
    """A hash of every bit of them: 64 hexadecimal digits."""
    hashed = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        hashed.update(name.encode())
        hashed.update(tensor.detach().contiguous().numpy().tobytes())
    return hashed.hexdigest()
