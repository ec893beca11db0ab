"""Tinker's loss functions, per token.

The definitions are those of https://tinker-docs.thinkingmachines.ai/tinker/losses: each is summed over all tokens of
all datums and not normalized. With p for the current probability of a target token, q for its probability when it was
sampled, A for its advantage and r = p / q:

    cross_entropy         -weight · log p
    importance_sampling   -r · A
    ppo                   -min(r · A, clip(r) · A)
    cispo                 -stop_gradient(clip(r)) · A · log p
    dro                   -(A · log p - β / 2 · (log r)²)

`clip` limits r to `clip_low_threshold` and `clip_high_threshold` (default 0.8 and 1.2); β is `beta` (default 0.05).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

from sandrl.trainers.tinker.options import RequestError

Inputs = Mapping[str, Tensor]
Config = Mapping[str, float]


def token_losses(name: str, logprobs_T: Tensor, inputs: Inputs, config: Config) -> Tensor:
    """The loss of every target token of a datum, T; `inputs` are what else belongs to the tokens, T each."""
    return LOSSES[name](logprobs_T, inputs, {**DEFAULTS[name], **config})


def check_inputs(name: str, given: set[str], config: Config) -> None:
    """Makes sure that a datum has what the loss function takes, and nothing else.

    Raises:
        RequestError: If it has not.
    """
    if name not in LOSSES:
        raise RequestError(f"unknown loss function {name!r}")
    expected = {"target_tokens", *INPUTS[name]}
    if given != expected:
        raise RequestError(f"{name} takes {sorted(expected)} as loss_fn_inputs, not {sorted(given)}")
    if unknown := set(config) - set(DEFAULTS[name]):
        raise RequestError(f"{name} does not take {sorted(unknown)} in its loss_fn_config")


def _cross_entropy(logprobs_T: Tensor, inputs: Inputs, config: Config) -> Tensor:
    return -logprobs_T * inputs["weights"]


def _importance_sampling(logprobs_T: Tensor, inputs: Inputs, config: Config) -> Tensor:
    return -_ratio(logprobs_T, inputs) * inputs["advantages"]


def _ppo(logprobs_T: Tensor, inputs: Inputs, config: Config) -> Tensor:
    ratio_T = _ratio(logprobs_T, inputs)
    clipped_T = ratio_T.clamp(config["clip_low_threshold"], config["clip_high_threshold"])
    return -(ratio_T * inputs["advantages"]).minimum(clipped_T * inputs["advantages"])


def _cispo(logprobs_T: Tensor, inputs: Inputs, config: Config) -> Tensor:
    ratio_T = _ratio(logprobs_T, inputs).detach()
    clipped_T = ratio_T.clamp(config["clip_low_threshold"], config["clip_high_threshold"])
    return -clipped_T * inputs["advantages"] * logprobs_T


def _dro(logprobs_T: Tensor, inputs: Inputs, config: Config) -> Tensor:
    distance_T = (logprobs_T - inputs["logprobs"]) ** 2
    return -(logprobs_T * inputs["advantages"] - 0.5 * config["beta"] * distance_T)


def _ratio(logprobs_T: Tensor, inputs: Inputs) -> Tensor:
    return (logprobs_T - inputs["logprobs"]).exp()


LOSSES: dict[str, Callable[[Tensor, Inputs, Config], Tensor]] = {
    "cross_entropy": _cross_entropy,
    "importance_sampling": _importance_sampling,
    "ppo": _ppo,
    "cispo": _cispo,
    "dro": _dro,
}
INPUTS = dict.fromkeys(LOSSES, ("logprobs", "advantages")) | {"cross_entropy": ("weights",)}
_CLIPPING = {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2}
DEFAULTS: dict[str, dict[str, float]] = {name: {} for name in LOSSES} | {
    "ppo": _CLIPPING,
    "cispo": _CLIPPING,
    "dro": {"beta": 0.05},
}
