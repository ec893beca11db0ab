"""The trained tensors: LoRA on the linear layers and experts, or all weights.

The model itself is not modified. The trained tensors are converted to a full set of weights, through which gradients
flow back, and the one loaded model computes with that set (`torch.func.functional_call`). So one copy of the model
serves every client, and a sampler is a set of weights.

LoRA is that of Hu et al. (arXiv:2106.09685) as the Tinker service trains it: W + α / rank · B · A with α = 32
(`tinker_cookbook/weights/README.md`), A random and B zero at first, no dropout. The experts of a layer are one tensor
in the model, and so are their adapters: A is experts × rank × inputs, B is experts × outputs × rank.

Trained tensors have 32 bits, also if the model computes in bfloat16: a step of Adam is often smaller than the distance
of two such numbers.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.func import functional_call
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache
from transformers.pytorch_utils import Conv1D

from sandrl.trainers.tinker.options import AdapterConfig, RequestError

ALPHA = 32.0

DOWN, UP = ".A", ".B"
"""What the names of the two matrices of an adapter have, after that of its weight."""

# Of a model that names no limit, such as one whose positions are relative.
_UNSAID_POSITIONS = 4_096

# The module that holds the experts of a layer, in the models of transformers.
_EXPERTS = ".experts"

Weights = Mapping[str, Tensor]
"""One tensor for every name of a parameter; tied parameters have two names."""


class Base:
    """The language model that everything starts from (see `ServiceOptions`); its weights never change.

    Attributes:
        name: What clients call it.
        module: The model of transformers, on a GPU if there is one.
        vocabulary: How many tokens there are.
        positions: The longest sequence, in tokens.
        ends: The tokens that end a sequence.
        cache_bytes: What one token takes in the cache of keys and values.
        has_cache: Whether the model computes the same token by token, with a cache of keys and values.
        ignores_padding: Whether tokens before a sequence that the mask leaves out change nothing.
    """

    def __init__(
        self,
        model: str,
        *,
        alias: str = "",
        context: int | None = None,
        is_offline: bool = False,
        dtype: str = "float32",
    ) -> None:
        self.name = model
        self.alias = alias
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        loaded = AutoModelForCausalLM.from_pretrained(model, dtype=getattr(torch, dtype), local_files_only=is_offline)
        self.module: Any = loaded.to(self.device)
        self.module.eval().requires_grad_(False)
        self.tokenizer: Any = AutoTokenizer.from_pretrained(model, local_files_only=is_offline)
        self.weights: Weights = dict(self.module.named_parameters(remove_duplicate=False))
        self.vocabulary = int(self.module.get_output_embeddings().weight.shape[0])
        config = self.module.config.get_text_config()
        self.positions = context or int(getattr(config, "max_position_embeddings", None) or _UNSAID_POSITIONS)
        ends = self.module.generation_config.eos_token_id
        self.ends = frozenset(ends if isinstance(ends, list) else [] if ends is None else [ends])
        self.cache_bytes = 2 * 4 * int(config.num_hidden_layers) * int(config.hidden_size)
        self.has_cache, self.ignores_padding = self._tried()

    def __call__(self, weights: Weights, **inputs: Any) -> Any:
        """What the model computes with other weights in the place of its own."""
        return functional_call(self.module, dict(weights), kwargs=inputs, tie_weights=False)

    @torch.inference_mode()
    def _tried(self) -> tuple[bool, bool]:
        # Models that keep another state than keys and values differ in how they can be sampled.
        step = max(self.vocabulary // 7, 1)
        tokens_1T = self.tensor([[(3 + place * step) % self.vocabulary for place in range(6)]])
        expected_V = self(self.weights, input_ids=tokens_1T, use_cache=False).logits[0, -1]

        tolerance = 1e-3 if expected_V.dtype is torch.float32 else 5e-2 * float(expected_V.abs().max())

        def is_same(logits_V: Tensor) -> bool:
            return bool(torch.allclose(logits_V, expected_V, rtol=1e-3, atol=tolerance))

        cache = DynamicCache(config=self.module.config)
        try:
            for part_1T in (tokens_1T[:, :4], tokens_1T[:, 4:5], tokens_1T[:, 5:]):
                logits = self(self.weights, input_ids=part_1T, past_key_values=cache, use_cache=True).logits
            has_cache = is_same(logits[0, -1])
        except (TypeError, ValueError, AttributeError, RuntimeError):
            has_cache = False
        padded_1T = torch.cat([tokens_1T[:, :3], tokens_1T], dim=1)
        mask_1T = self.tensor([[0] * 3 + [1] * 6])
        positions_1T = (mask_1T.cumsum(-1) - 1).clamp(min=0)
        padded = {"input_ids": padded_1T, "attention_mask": mask_1T, "position_ids": positions_1T}
        try:
            ignores_padding = is_same(self(self.weights, **padded, use_cache=False).logits[0, -1])
        except TypeError:
            ignores_padding = False
        return has_cache, ignores_padding

    def tensor(self, values: Any) -> Tensor:
        """A tensor of integers on the device of the model."""
        return torch.tensor(values, device=self.device)

    def is_called(self, name: str) -> bool:
        """Whether a client that names a base model means this one."""
        return bool(name) and (name in (self.name, self.alias) or os.path.realpath(name) == os.path.realpath(self.name))

    def adapted(self, config: AdapterConfig) -> dict[str, bool]:
        """The weights that a request for LoRA means, and whether they are inputs × outputs, as in GPT-2."""
        output = self.module.get_output_embeddings()
        found = {}
        for name, layer in self.module.named_modules():
            if isinstance(layer, torch.nn.Linear | Conv1D):
                if layer is output:
                    wanted = config.train_unembed
                else:
                    wanted = config.train_attn if "attn" in name or "attention" in name else config.train_mlp
                if wanted:
                    found[f"{name}.weight"] = isinstance(layer, Conv1D)
            elif config.train_mlp and name.endswith(_EXPERTS):
                tensors = ((own, tensor) for own, tensor in layer.named_parameters(recurse=False) if tensor.dim() == 3)
                found |= {f"{name}.{own}": bool(getattr(layer, "is_transposed", False)) for own, _ in tensors}
        return found


class TrainableTensors(Protocol):
    """Tensors by name that an optimizer changes, and the weights of the whole model with them."""

    tensors: dict[str, Tensor]

    def weights(self) -> Weights: ...


class Lora:
    """Adapters of one rank on the linear layers and on the experts."""

    def __init__(self, base: Base, config: AdapterConfig) -> None:
        self._base = base
        self._layers = base.adapted(config)
        self._scale = ALPHA / config.rank
        chance = torch.Generator()
        chance.seed() if config.seed is None else chance.manual_seed(config.seed)
        self.tensors: dict[str, Tensor] = {}
        for name, is_transposed in self._layers.items():
            *experts, rows, columns = base.weights[name].shape
            if is_transposed:
                rows, columns = columns, rows
            bound = 1 / math.sqrt(columns)
            down = torch.empty(*experts, config.rank, columns).uniform_(-bound, bound, generator=chance)
            self.tensors[f"{name}{DOWN}"] = down.to(base.device).requires_grad_()
            up = torch.zeros(*experts, rows, config.rank, device=base.device, requires_grad=True)
            self.tensors[f"{name}{UP}"] = up

    def weights(self) -> Weights:
        weights = dict(self._base.weights)
        for name, is_transposed in self._layers.items():
            change = self._scale * self.tensors[f"{name}{UP}"] @ self.tensors[f"{name}{DOWN}"]
            weight = weights[name]
            weights[name] = (weight.float() + (change.mT if is_transposed else change)).to(weight.dtype)
        return weights


class AllWeights:
    """A copy of all weights; what the request says of LoRA is left aside."""

    def __init__(self, base: Base) -> None:
        self._first: dict[str, str] = {}
        self._dtypes = {name: tensor.dtype for name, tensor in base.weights.items()}
        names: dict[int, str] = {}
        for name, tensor in base.weights.items():
            self._first[name] = names.setdefault(id(tensor), name)
        self.tensors = {
            name: base.weights[name].to(torch.float32, copy=True).requires_grad_() for name in names.values()
        }

    def weights(self) -> Weights:
        return {name: self.tensors[first].to(self._dtypes[name]) for name, first in self._first.items()}


def read_tensors(content: bytes) -> dict[str, Tensor]:
    """The trained tensors in the content of a checkpoint."""
    tensors: dict[str, Tensor] = torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")["tensors"]
    return tensors


def check_tensors(trained: TrainableTensors, tensors: Mapping[str, Tensor]) -> None:
    """Makes sure that trained tensors can be set to those of a checkpoint.

    Raises:
        RequestError: If the checkpoint is of other tensors.
    """
    if {name: each.shape for name, each in tensors.items()} != {n: each.shape for n, each in trained.tensors.items()}:
        raise RequestError("the checkpoint belongs to a model with other trained tensors")


def load_tensors(trained: TrainableTensors, tensors: Mapping[str, Tensor]) -> None:
    """Sets trained tensors to those of a checkpoint, for which `check_tensors` holds."""
    with torch.no_grad():
        for name, tensor in trained.tensors.items():
            tensor.copy_(tensors[name])


def merged(base: Base, config: AdapterConfig, tensors: Mapping[str, Tensor], *, everything: bool) -> Weights:
    """The weights of the whole model with the trained tensors of a checkpoint.

    Raises:
        RequestError: If the checkpoint is of another model.
    """
    trained: TrainableTensors = AllWeights(base) if everything else Lora(base, config)
    check_tensors(trained, tensors)
    load_tensors(trained, tensors)
    with torch.no_grad():
        return trained.weights()


def free_bytes() -> int:
    """How many bytes could be allocated where the models are, on the GPU or on this machine, caches included."""
    if torch.cuda.is_available():
        return int(torch.cuda.mem_get_info()[0])
    with open("/proc/meminfo", encoding="ascii") as file:
        found = dict(line.split(":", 1) for line in file)
    return int(found["MemAvailable"].split()[0]) << 10
