"""Samples tokens for many requests at once.

Requests are padded on the left into one batch, but each request has its own random numbers, one per token, and selects
the token at that point of the cumulative distribution. So the tokens of a request do not depend on the other requests
in its batch, and a seed reproduces them.

The log-probability returned for a token is that of the distribution at its temperature, before top_k and top_p cut it:
the maintainers of the service say that theirs are "the same logprobs used for sampling, even when temperature scaling
is applied" (thinking-machines-lab/tinker-cookbook#86; a user has doubted it since, tinker-feedback#148). At temperature
1 this equals the result of a forward pass. A temperature of 0 means the most likely token, and log-probabilities as at
1.

The token that ends a sequence is part of it. Sequences end with a stop token, a token that completes a stop string, or
the model's own end token, as with other servers of models.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from tinker.types import SamplingParams
from torch import Tensor
from transformers import DynamicCache

from sandrl.trainers.tinker.options import RequestError
from sandrl.trainers.tinker.weights import Base, Weights

MOST_SAMPLES = 4_096
"""How many sequences one request may ask for."""

CACHE_BYTES = 1 << 30
"""How much memory the keys and values of sequences that are drawn together may take."""


@dataclass(eq=False)
class Sample:
    """A sequence of at most `limit` tokens that is being drawn with random numbers of its own.

    Attributes:
        tokens, logprobs: What was drawn so far.
        stop_reason: Why it ended; None while it has not.
    """

    prompt: list[int]
    params: SamplingParams
    limit: int
    chance: random.Random
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    stop_reason: Literal["stop", "length"] | None = None

    def take(self, token: int, logprob: float, base: Base) -> None:
        self.tokens.append(token)
        self.logprobs.append(logprob)
        if self._is_stopped(token, base):
            self.stop_reason = "stop"
        elif len(self.tokens) >= self.limit:
            self.stop_reason = "length"

    def _is_stopped(self, token: int, base: Base) -> bool:
        stop = self.params.stop or ()
        stops = [stop] if isinstance(stop, str) else list(stop)
        if token in base.ends or token in stops:
            return True
        texts = [each for each in stops if isinstance(each, str)]
        if not texts:
            return False
        said = base.tokenizer.decode(self.tokens)
        return any(text in said for text in texts)


def samples(prompt: list[int], params: SamplingParams, count: int, base: Base, chances: random.Random) -> list[Sample]:
    """What a request for `count` samples is drawn as; `chances` seeds the sequences of a request that names no seed.

    Raises:
        RequestError: If that is more than the model can hold, or its numbers make no sense.
    """
    limit = base.positions - len(prompt) if params.max_tokens is None else params.max_tokens
    if len(prompt) + limit > base.positions:
        raise RequestError(
            f"Prompt length plus max_tokens exceeds the model's context window: "
            f"{len(prompt)} + {limit} > {base.positions}"
        )
    if limit < 1 or not 1 <= count <= MOST_SAMPLES:
        raise RequestError(f"max_tokens must be at least 1, and num_samples from 1 to {MOST_SAMPLES}")
    if params.temperature < 0 or not 0 < params.top_p <= 1 or params.top_k < -1:
        raise RequestError("temperature must be at least 0, top_p above 0 and up to 1, top_k at least -1")
    seed = chances.getrandbits(64) if params.seed is None else params.seed
    return [Sample(prompt, params, limit, random.Random(f"{seed} {number}")) for number in range(count)]


def draw(base: Base, weights: Weights, batch: Sequence[Sample]) -> None:
    """Draws all sequences of a batch to their ends, as many at a time as memory has room for.

    Raises:
        ArithmeticError: If the weights are such that there are no probabilities.
    """
    groups: dict[int, list[Sample]] = {}
    for each in batch:
        groups.setdefault(0 if base.ignores_padding else len(each.prompt), []).append(each)
    for group in groups.values():
        left = sorted(group, key=lambda each: len(each.prompt) + each.limit)
        while left:
            # The last is the longest: it decides how much each of a part takes.
            fits = max(CACHE_BYTES // max(base.cache_bytes * (len(left[-1].prompt) + left[-1].limit), 1), 1)
            _draw(base, weights, left[-fits:])
            del left[-fits:]


@torch.inference_mode()
def _draw(base: Base, weights: Weights, batch: Sequence[Sample]) -> None:
    live = list(batch)
    longest = max(len(each.prompt) for each in live)
    pads = [longest - len(each.prompt) for each in live]
    tokens_BT = base.tensor([[0] * pad + each.prompt for pad, each in zip(pads, live, strict=True)])
    mask_BT = base.tensor([[0] * pad + [1] * len(each.prompt) for pad, each in zip(pads, live, strict=True)])
    cache = DynamicCache(config=base.module.config) if base.has_cache else None
    is_padded = bool((mask_BT == 0).any())
    while True:
        inputs: dict[str, Any] = {"input_ids": tokens_BT}
        if cache is not None:
            inputs |= {"past_key_values": cache, "use_cache": True}
        if is_padded:
            positions_BT = (mask_BT.cumsum(-1) - 1).clamp(min=0)[:, -tokens_BT.shape[1] :]
            inputs |= {"attention_mask": mask_BT, "position_ids": positions_BT}
        logits_BV = base(weights, **inputs, logits_to_keep=1).logits[:, -1]
        drawn_B, logprobs_B = _next(logits_BV, live)
        for each, token, logprob in zip(live, drawn_B.tolist(), logprobs_B.tolist(), strict=True):
            if each.stop_reason is None:
                each.take(token, logprob, base)
        going = [place for place, each in enumerate(live) if each.stop_reason is None]
        if not going:
            return
        # Those that have ended are carried along until they are half of all: leaving them behind copies the cache.
        if len(going) <= len(live) // 2:
            places = base.tensor(going)
            if cache is not None:
                cache.batch_select_indices(places)
            live = [live[place] for place in going]
            drawn_B, mask_BT, tokens_BT = drawn_B[places], mask_BT[places], tokens_BT[places]
        drawn_B1 = drawn_B[:, None]
        tokens_BT = drawn_B1 if cache is not None else torch.cat([tokens_BT, drawn_B1], dim=1)
        mask_BT = torch.cat([mask_BT, torch.ones_like(drawn_B1)], dim=1)


def _next(logits_BV: Tensor, live: Sequence[Sample]) -> tuple[Tensor, Tensor]:
    if not torch.isfinite(logits_BV).all():
        raise ArithmeticError("the model's weights are not finite: sampling is not possible")
    device = logits_BV.device
    temperatures_B1 = torch.tensor([[each.params.temperature or 1.0] for each in live], device=device)
    logprobs_BV = torch.log_softmax(logits_BV.float() / temperatures_B1, dim=-1)
    chances_BV = _cut(logprobs_BV.double().exp(), live)
    sums_BV = chances_BV.cumsum(-1)
    numbers_B1 = torch.tensor([[each.chance.random()] for each in live], dtype=torch.float64, device=device)
    drawn_B1 = torch.searchsorted(sums_BV, numbers_B1 * sums_BV[:, -1:], right=True)
    is_greedy_B1 = torch.tensor([[each.params.temperature == 0] for each in live], device=device)
    tokens_B1 = torch.where(is_greedy_B1, logprobs_BV.argmax(-1, keepdim=True), drawn_B1)
    tokens_B1 = tokens_B1.clamp(max=logits_BV.shape[-1] - 1)
    return tokens_B1[:, 0], logprobs_BV.gather(-1, tokens_B1)[:, 0]


def _cut(chances_BV: Tensor, live: Sequence[Sample]) -> Tensor:
    if all(each.params.top_k < 1 and each.params.top_p == 1 for each in live):
        return chances_BV
    size, device = chances_BV.shape[-1], chances_BV.device
    top_k_B1 = torch.tensor([[each.params.top_k if each.params.top_k > 0 else size] for each in live], device=device)
    top_p_B1 = torch.tensor([[each.params.top_p] for each in live], dtype=torch.float64, device=device)
    sorted_BV, order_BV = chances_BV.sort(dim=-1, descending=True)
    before_BV = sorted_BV.cumsum(-1) - sorted_BV
    is_kept_BV = (torch.arange(size, device=device) < top_k_B1) & ((before_BV < top_p_B1) | (top_p_B1 == 1))
    return torch.zeros_like(chances_BV).scatter(-1, order_BV, sorted_BV * is_kept_BV)
