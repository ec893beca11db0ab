"""A model in training: its trained tensors, their gradients, its optimizer.

The optimizer is `torch.optim.AdamW`, which according to the SDK is identical to that of the service, and a checkpoint
contains exactly its state. Gradients of forward_backward calls are accumulated until the next optimizer step.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tinker.types import AdamParams
from torch import Tensor

from sandrl.trainers.tinker.bodies import Datum
from sandrl.trainers.tinker.losses import Config, check_inputs, token_losses
from sandrl.trainers.tinker.options import AdapterConfig, RequestError
from sandrl.trainers.tinker.weights import (
    AllWeights,
    Base,
    Lora,
    TrainableTensors,
    Weights,
    check_tensors,
    load_tensors,
)

TOKENS_AT_ONCE = 16_384
"""How many tokens go through the model together, padding included."""

LOGITS_AT_ONCE = 1 << 28
"""How many logits are computed together: a GiB of them."""


@dataclass(frozen=True)
class Computed:
    """The loss of some data, summed, and the log-probability of every target, T for each datum."""

    loss: float
    logprobs: list[Tensor]


@dataclass(frozen=True)
class Example:
    """A datum that was found to be in order: tokens and targets, T each, and what the loss takes besides."""

    tokens: list[int]
    targets: list[int]
    inputs: dict[str, Tensor]


class ModelInTraining:
    """What a training client owns: trained tensors, with `everything` all weights, and an optimizer."""

    def __init__(self, base: Base, config: AdapterConfig, *, everything: bool) -> None:
        self.config = config
        self.steps = 0
        self._base = base
        self._trained: TrainableTensors = AllWeights(base) if everything else Lora(base, config)
        if not self._trained.tensors:
            raise RequestError("nothing to train: the model has no linear layer of these types")
        self._optimizer = torch.optim.AdamW(self._trained.tensors.values())

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        return self._trained.tensors

    def run(self, data: Sequence[Datum], loss_fn: str, config: Config, *, backward: bool) -> Computed:
        """Computes the loss, and with `backward` adds its gradients to those there are.

        Raises:
            RequestError: If a datum is not in order; then nothing was changed.
        """
        examples = [as_example(datum, loss_fn, config, self._base) for datum in data]
        total, all_logprobs = 0.0, []
        with torch.set_grad_enabled(backward):
            for batch in batches(examples, self._base):
                logprobs = target_logprobs(self._base, self._trained.weights(), batch)
                losses = [
                    token_losses(loss_fn, logprobs_T, example.inputs, config).sum()
                    for example, logprobs_T in zip(batch, logprobs, strict=True)
                ]
                loss = torch.stack(losses).sum()
                if backward:
                    loss.backward()
                total += float(loss.detach())
                all_logprobs += [logprobs_T.detach().cpu() for logprobs_T in logprobs]
        return Computed(total, all_logprobs)

    def step(self, adam: AdamParams) -> dict[str, float]:
        """Changes the trained tensors by their gradients, which it forgets; returns the norm before clipping."""
        norm = torch.nn.utils.clip_grad_norm_(self._trained.tensors.values(), adam.grad_clip_norm or float("inf"))
        self._optimizer.param_groups[0].update(
            lr=adam.learning_rate, betas=(adam.beta1, adam.beta2), eps=adam.eps, weight_decay=adam.weight_decay
        )
        self._optimizer.step()
        self._optimizer.zero_grad()
        self.steps += 1
        return {"unclipped_grad_l2:mean": float(norm)}

    def saved(self, *, optimizer: bool) -> bytes:
        """The trained tensors, and the optimizer's state where it is wanted."""
        content: dict[str, Any] = {"tensors": {name: t.detach() for name, t in self._trained.tensors.items()}}
        if optimizer:
            content |= {"optimizer": self._optimizer.state_dict(), "steps": self.steps}
        file = io.BytesIO()
        torch.save(content, file)
        return file.getvalue()

    def load(self, saved: bytes, *, optimizer: bool) -> None:
        """Goes back to what was saved; without the optimizer's state, that starts anew.

        Raises:
            RequestError: If something else was trained there, or the optimizer's state was not saved.
        """
        content = torch.load(io.BytesIO(saved), weights_only=True, map_location=self._base.device)
        check_tensors(self._trained, content["tensors"])
        if optimizer and "optimizer" not in content:
            raise RequestError("the checkpoint has no optimizer state: it was saved for sampling")
        load_tensors(self._trained, content["tensors"])
        for tensor in self._trained.tensors.values():
            tensor.grad = None
        self._optimizer = torch.optim.AdamW(self._trained.tensors.values())
        self.steps = 0
        if optimizer:
            self._optimizer.load_state_dict(content["optimizer"])
            self.steps = content["steps"]

    def whole(self) -> Weights:
        """The weights of the whole model as they are now."""
        with torch.no_grad():
            return self._trained.weights()


def as_example(datum: Datum, loss_fn: str, config: Config, base: Base) -> Example:
    """Checks a datum.

    Raises:
        RequestError: If something is missing, too much, too long or no token.
    """
    check_inputs(loss_fn, set(datum.inputs), config)
    tokens = checked_tokens(datum.tokens, base)
    inputs = {name: tensor.to(base.device) for name, tensor in datum.inputs.items()}
    for name, tensor in inputs.items():
        if tuple(tensor.shape) != (len(tokens),):
            raise RequestError(f"{name} has the shape {list(tensor.shape)}, but the input has {len(tokens)} tokens")
    targets = [int(token) for token in inputs.pop("target_tokens").tolist()]
    return Example(tokens, checked_tokens(targets, base), inputs)


def checked_tokens(tokens: Sequence[int], base: Base) -> list[int]:
    """Tokens that the model can take.

    Raises:
        RequestError: If it cannot.
    """
    if not tokens:
        raise RequestError("there are no tokens")
    if len(tokens) > base.positions:
        raise RequestError(f"{len(tokens)} tokens are more than the model's context window of {base.positions}")
    if min(tokens) < 0 or max(tokens) >= base.vocabulary:
        raise RequestError(f"tokens must be from 0 to {base.vocabulary - 1}")
    return list(tokens)


def batches(examples: Sequence[Example], base: Base) -> Iterator[list[Example]]:
    """Cuts examples, in their order, into parts that go through the model together."""
    most = min(TOKENS_AT_ONCE, LOGITS_AT_ONCE // base.vocabulary)
    batch: list[Example] = []
    for example in examples:
        longest = max(len(each.tokens) for each in [*batch, example])
        if batch and longest * (len(batch) + 1) > most:
            yield batch
            batch = []
        batch.append(example)
    if batch:
        yield batch


def target_logprobs(base: Base, weights: Weights, batch: Sequence[Example]) -> list[Tensor]:
    """The log-probability of every target, T for each example.

    Examples are padded at the end, where causal attention keeps it from what comes before.
    """
    longest = max(len(example.tokens) for example in batch)
    tokens_BT = base.tensor([example.tokens + [0] * (longest - len(example.tokens)) for example in batch])
    logits_BTV = base(weights, input_ids=tokens_BT, use_cache=False).logits
    return [
        -torch.nn.functional.cross_entropy(
            logits_TV[: len(example.targets)].float(), base.tensor(example.targets), reduction="none"
        )
        for example, logits_TV in zip(batch, logits_BTV, strict=True)
    ]
