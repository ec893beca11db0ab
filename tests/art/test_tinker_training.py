"""Training through the real SDK: losses, gradients and steps are those of a reference written out by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="not installed: torch (make test-art)")
tinker: Any = pytest.importorskip("tinker", reason="not installed: tinker (make test-art)")

from sandrl.trainers.tinker.losses import token_losses  # noqa: E402
from tests.support.tinker_server.process import TinkerServer, made, running_server  # noqa: E402

INPUT, TARGET = list(range(5, 25)), list(range(6, 26))
WEIGHTS = [0.0] * 8 + [1.0] * 6 + [0.5] * 6
# An eps this large keeps gradients that are nothing but rounding from deciding a step.
ADAM = {"learning_rate": 0.02, "beta1": 0.9, "beta2": 0.95, "eps": 1e-2}


def datum(tokens: list[int] = INPUT, targets: list[int] = TARGET, **inputs: list[float]) -> Any:
    given = {"target_tokens": targets, **(inputs or {"weights": WEIGHTS[: len(targets)]})}
    return tinker.Datum(model_input=tinker.ModelInput.from_ints(tokens), loss_fn_inputs=given)


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def server(untrained_policy: Path, state: Path) -> Iterator[TinkerServer]:
    with running_server(untrained_policy, state / "record.jsonl", "--state", state / "checkpoints") as server:
        yield server


@pytest.fixture(scope="module")
def service(server: TinkerServer) -> Any:
    return tinker.ServiceClient(base_url=server.base_url, api_key=server.key)


@pytest.fixture
def train(service: Any, server: TinkerServer) -> Callable[..., Any]:
    def make(**options: Any) -> Any:
        return made(service.create_lora_training_client(str(server.model), **{"rank": 4, "seed": 3, **options}))

    return make


def step(client: Any, *batches: list[Any], loss_fn: str = "cross_entropy", **adam: float) -> list[dict[str, float]]:
    """Adds up the gradients of some batches and takes a step; what each call said of it."""
    losses = [client.forward_backward(batch, loss_fn) for batch in batches]
    norm = client.optim_step(tinker.AdamParams(**{**ADAM, **adam}))
    return [*(loss.result().metrics for loss in losses), norm.result().metrics]


def tensors(state: Path, client: Any, name: str) -> dict[str, Any]:
    """What a client trains, as it is now."""
    client.save_state(name).result()
    saved = torch.load(state / "checkpoints" / client.model_id / "weights" / name / "content.pt", weights_only=True)
    return dict(saved["tensors"])


class Reference:
    """LoRA and Adam from their papers, around the model as transformers loads it."""

    def __init__(self, directory: Path, adapters: dict[str, Any], rank: int) -> None:
        from transformers import AutoModelForCausalLM

        self.model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).requires_grad_(False)
        self.adapters = {name: tensor.clone().requires_grad_() for name, tensor in adapters.items()}
        self.moments = {name: (torch.zeros_like(t), torch.zeros_like(t)) for name, t in adapters.items()}
        self.steps = 0
        for name, layer in self.model.named_modules():
            if f"{name}.weight.A" in adapters:
                down, up = self.adapters[f"{name}.weight.A"], self.adapters[f"{name}.weight.B"]
                layer.register_forward_hook(
                    lambda _, given, said, down=down, up=up: said + 32 / rank * (given[0] @ down.T) @ up.T
                )

    def loss(self, tokens: list[int], targets: list[int], weights: list[float]) -> Any:
        logprobs = torch.log_softmax(self.model(torch.tensor([tokens])).logits[0], dim=-1)
        return -(logprobs[range(len(targets)), targets] * torch.tensor(weights)).sum()

    def step(self, loss: Any) -> None:
        self.steps += 1
        gradients = torch.autograd.grad(loss, list(self.adapters.values()))
        with torch.no_grad():
            for (name, tensor), gradient in zip(self.adapters.items(), gradients, strict=True):
                first, second = self.moments[name]
                first.mul_(ADAM["beta1"]).add_((1 - ADAM["beta1"]) * gradient)
                second.mul_(ADAM["beta2"]).add_((1 - ADAM["beta2"]) * gradient**2)
                mean = first / (1 - ADAM["beta1"] ** self.steps)
                square = second / (1 - ADAM["beta2"] ** self.steps)
                tensor -= ADAM["learning_rate"] * mean / (square.sqrt() + ADAM["eps"])


def test_losses_and_weights_are_those_of_a_reference_written_by_hand(
    train: Callable[..., Any], state: Path, untrained_policy: Path
) -> None:
    client = train()
    reference = Reference(untrained_policy, tensors(state, client, "start"), rank=4)
    # Two layers of seven projections and the head, two matrices each.
    assert len(reference.adapters) == 2 * (2 * 7 + 1)
    short = INPUT[:6], TARGET[:6], [1.0] * 6
    batches: list[list[Any]] = [
        [(INPUT, TARGET, WEIGHTS)],
        [(TARGET, INPUT, WEIGHTS), short],
        [short, (INPUT, TARGET, WEIGHTS)],
    ]
    # At first the gradients of A are nothing, because B is: only later steps show both.
    for step_batches in (batches[:1], batches[1:], batches[:2]):
        expected = [sum(reference.loss(*example) for example in batch) for batch in step_batches]
        *losses, norm = step(client, *([datum(*three[:2], weights=three[2]) for three in b] for b in step_batches))
        assert [loss["loss:sum"] for loss in losses] == pytest.approx([loss.item() for loss in expected], rel=1e-4)
        gradients = torch.autograd.grad(sum(expected), list(reference.adapters.values()), retain_graph=True)
        by_hand = math.sqrt(sum(float((gradient**2).sum()) for gradient in gradients))
        assert norm["unclipped_grad_l2:mean"] == pytest.approx(by_hand, rel=1e-4)
        reference.step(sum(expected))
    trained = tensors(state, client, "trained")
    for name, tensor in reference.adapters.items():
        torch.testing.assert_close(trained[name], tensor.detach(), atol=1e-4, rtol=1e-3)


def test_a_forward_pass_leaves_no_gradient(train: Callable[..., Any]) -> None:
    client = train()
    client.forward([datum()], "cross_entropy").result()
    assert step(client) == [{"unclipped_grad_l2:mean": 0.0}]


def test_gradients_are_clipped_where_that_is_asked_for(train: Callable[..., Any], state: Path) -> None:
    # Without eps to speak of, and in the first step, Adam goes as far whatever the size of a gradient is.
    adam: dict[str, Any] = {"eps": 1.0, "beta2": 0.0}
    free, held = train(), train()
    before = step(free, [datum()], **adam)
    assert step(held, [datum()], grad_clip_norm=0.01, **adam) == before
    start = tensors(state, train(), "start")
    moved = [(t - start[n]).norm().item() for n, t in tensors(state, held, "held").items()]
    far = [(t - start[n]).norm().item() for n, t in tensors(state, free, "free").items()]
    assert 0 < sum(moved) < sum(far) / 10


def test_weights_decay_where_that_is_asked_for(train: Callable[..., Any], state: Path) -> None:
    client = train()
    start = tensors(state, client, "start")
    step(client, [datum()], weight_decay=1.0)
    end = tensors(state, client, "end")
    # The gradient of A is nothing in the first step, so nothing else moves it: lr × decay.
    for name in start:
        if name.endswith(".A"):
            torch.testing.assert_close(end[name], 0.98 * start[name])


@pytest.mark.parametrize("choice", ["train_mlp", "train_attn", "train_unembed"])
def test_adapters_are_where_they_were_asked_for(train: Callable[..., Any], state: Path, choice: str) -> None:
    options = {name: name == choice for name in ("train_mlp", "train_attn", "train_unembed")}
    names = {name.removesuffix(".A") for name in tensors(state, train(**options), "start") if name.endswith(".A")}
    word, count = {"train_mlp": ("mlp", 6), "train_attn": ("self_attn", 8), "train_unembed": ("lm_head", 1)}[choice]
    assert len([name for name in names if word in name]) == len(names) == count


def test_clients_do_not_share_weights(train: Callable[..., Any]) -> None:
    one, other = train(), train()
    before = other.forward([datum()], "cross_entropy").result().metrics
    step(one, [datum()])
    assert one.forward([datum()], "cross_entropy").result().metrics["loss:sum"] < before["loss:sum"] - 1
    assert other.forward([datum()], "cross_entropy").result().metrics == before


# Sampled as likely as now, half as likely and twice as likely, with advantages of both signs.
NOW = [-1.0, -2.0, -1.5, -1.0, -2.0, -1.5]
SAMPLED = [-1.0, -2.0 - math.log(2), -1.5 + math.log(2), -1.0, -2.0 - math.log(2), -1.5 + math.log(2)]
ADVANTAGES = [1.0, 2.0, 0.5, -1.0, -2.0, -0.5]
RATIOS = [1.0, 2.0, 0.5, 1.0, 2.0, 0.5]


@pytest.mark.parametrize(
    ("loss_fn", "config", "losses", "gradients"),
    [
        (
            "importance_sampling",
            {},
            [-r * a for r, a in zip(RATIOS, ADVANTAGES, strict=True)],
            [-r * a for r, a in zip(RATIOS, ADVANTAGES, strict=True)],
        ),
        # Clipped, and without a gradient, where the ratio has already gone the way the advantage points.
        ("ppo", {}, [-1.0, -1.2 * 2, -0.5 * 0.5, 1.0, 2 * 2, 0.8 * 0.5], [-1.0, 0.0, -0.25, 1.0, 4.0, 0.0]),
        (
            "ppo",
            {"clip_low_threshold": 0.4, "clip_high_threshold": 3.0},
            [-r * a for r, a in zip(RATIOS, ADVANTAGES, strict=True)],
            [-r * a for r, a in zip(RATIOS, ADVANTAGES, strict=True)],
        ),
        (
            "cispo",
            {},
            [-c * a * p for c, a, p in zip([1, 1.2, 0.8] * 2, ADVANTAGES, NOW, strict=True)],
            [-c * a for c, a in zip([1, 1.2, 0.8] * 2, ADVANTAGES, strict=True)],
        ),
        (
            "dro",
            {"beta": 0.1},
            [-(p * a - 0.05 * (p - q) ** 2) for p, q, a in zip(NOW, SAMPLED, ADVANTAGES, strict=True)],
            [-(a - 0.1 * (p - q)) for p, q, a in zip(NOW, SAMPLED, ADVANTAGES, strict=True)],
        ),
        (
            "cross_entropy",
            {},
            [-a * p for a, p in zip(ADVANTAGES, NOW, strict=True)],
            [-a for a in ADVANTAGES],
        ),
    ],
)
def test_losses_are_those_of_the_documentation(
    loss_fn: str, config: dict[str, float], losses: list[float], gradients: list[float]
) -> None:
    now = torch.tensor(NOW, requires_grad=True)
    advantages = torch.tensor(ADVANTAGES)
    inputs = {"logprobs": torch.tensor(SAMPLED), "advantages": advantages, "weights": advantages}
    given = token_losses(loss_fn, now, inputs, config)
    assert given.tolist() == pytest.approx(losses)
    given.sum().backward()
    assert now.grad.tolist() == pytest.approx(gradients)


def test_a_loss_of_the_clients_own_goes_through_as_well(train: Callable[..., Any]) -> None:
    """The SDK computes it from logprobs and sends its gradients back as weights."""
    client = train()

    def loss(data: list[Any], logprobs: list[Any]) -> tuple[Any, dict[str, float]]:
        squared = sum((each**2).sum() for each in logprobs)
        return squared, {"squared": float(squared.detach())}

    bare = tinker.Datum(model_input=tinker.ModelInput.from_ints(INPUT), loss_fn_inputs={"target_tokens": TARGET})
    before = client.forward_backward_custom([bare], loss).result().metrics["squared"]
    client.optim_step(tinker.AdamParams(**ADAM)).result()
    assert client.forward_backward_custom([bare], loss).result().metrics["squared"] < before
